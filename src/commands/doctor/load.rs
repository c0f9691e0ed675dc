//! `--load FILE`: a recording in place of `--live`. Only what was recorded of these very arrays is evidence of them.

use std::path::Path;

use anyhow::Result;

use super::facts::{ArrayFacts, Facts};
use super::parts::{self, Part};
use crate::analysis::snapshot::Snapshot;
use crate::recording::gather::gather;
use crate::recording::header::{Array, Header};

/// The whole recording as one interval and its worst parts, without what is not of this host's arrays as they are now; notes
/// say what was left out.
///
/// # Errors
/// Where the file cannot be read or holds no event.
pub fn load(file: &Path, facts: &Facts, host: &str) -> Result<(Snapshot, Vec<Part>)> {
    let report = gather(file, None, None)?;
    let mut snapshot = report.snapshot;
    let left_out = mismatches(&report.header, facts, host);
    let here = |name: &str| facts.arrays.iter().any(|a| a.array.name == name);
    let keep = |snapshot: &mut Snapshot| {
        snapshot.arrays.retain(|a| {
            let name = &a.info.name;
            here(name) && left_out.iter().all(|(other, _)| other != name)
        });
    };
    keep(&mut snapshot);
    let parts = if snapshot.arrays.is_empty() {
        Vec::new()
    } else {
        parts::worst(file, (report.from_us, report.to_us), keep, facts)?
    };
    if snapshot.arrays.is_empty() && left_out.is_empty() {
        snapshot
            .notes
            .push("--load: the recording has none of these arrays".to_owned());
    }
    let notes = left_out
        .into_iter()
        .map(|(_, why)| format!("--load: {why}"));
    snapshot.notes.extend(notes);
    Ok((snapshot, parts))
}

/// Recorded arrays that say nothing of the one of their name here: name and why.
fn mismatches(header: &Header, facts: &Facts, host: &str) -> Vec<(String, String)> {
    let wrong = |recorded: &Array| {
        let name = &recorded.name;
        let here = facts.arrays.iter().find(|a| a.array.name == *name)?;
        if header.host != host {
            Some(format!(
                "{name} was recorded on {}, which is not this host",
                header.host
            ))
        } else if !alike(recorded, here) {
            Some(format!(
                "{name} was {} of {} disks with chunks of {} sectors when it was recorded, and is another array now",
                recorded.level, recorded.disks, recorded.chunk_sectors
            ))
        } else {
            None
        }
    };
    let wrong = |a: &Array| wrong(a).map(|why| (a.name.clone(), why));
    header.arrays.iter().filter_map(wrong).collect()
}

/// By geometry: kernel names of members change with each boot.
fn alike(recorded: &Array, here: &ArrayFacts) -> bool {
    let now = &here.array;
    recorded.level == now.level
        && recorded.disks == now.raid_disks
        && recorded.chunk_sectors == now.chunk_sectors
        && recorded.sectors == now.sectors
}

#[cfg(test)]
mod tests {
    use super::mismatches;
    use crate::commands::doctor::tests::Machine;
    use crate::recording::header::{Array, Header};

    #[test]
    fn only_what_was_recorded_of_this_array() {
        let facts = Machine::raid6().facts();
        let now = &facts.arrays[0].array;
        let header = |host: &str, disks: u32| Header {
            host: host.to_owned(),
            arrays: vec![Array {
                name: "md0".to_owned(),
                level: "raid6".to_owned(),
                disks,
                chunk_sectors: now.chunk_sectors,
                sectors: now.sectors,
                ..Array::default()
            }],
            ..Header::default()
        };
        assert!(mismatches(&header("db1", 7), &facts, "db1").is_empty());
        for (header, why) in [
            (header("db2", 7), "recorded on db2"),
            (header("db1", 8), "another array now"),
        ] {
            let left_out = mismatches(&header, &facts, "db1");
            assert_eq!(left_out[0].0, "md0");
            assert!(left_out[0].1.contains(why), "{left_out:?}");
        }
    }
}
