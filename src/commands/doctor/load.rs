//! `--load FILE`: a recording instead of `--live`. Recorded arrays that are not those of this host
//! are left out.

use std::path::Path;

use anyhow::Result;

use super::facts::{ArrayFacts, Facts};
use super::parts::{self, WorstPart};
use crate::analysis::snapshot::Snapshot;
use crate::recording::gather::gather;
use crate::recording::header::{Header, RecordedArray};

/// Reads the recording as one interval, and its worst parts. Leaves out arrays that are not on this
/// host or have changed since, with a note for each.
///
/// # Errors
/// If the file cannot be read or contains no event.
pub fn load(file: &Path, facts: &Facts, host: &str) -> Result<(Snapshot, Vec<WorstPart>)> {
    let report = gather(file, None, None)?;
    let mut snapshot = report.snapshot;
    let left_out = mismatches(&report.header, facts, host);
    let keep = |snapshot: &mut Snapshot| {
        snapshot.arrays.retain(|a| {
            let name = &a.info.name;
            let here = facts.arrays.iter().any(|a| a.array.name == *name);
            here && left_out.iter().all(|(other, _)| other != name)
        });
    };
    keep(&mut snapshot);
    let parts = if snapshot.arrays.is_empty() {
        Vec::new()
    } else {
        parts::worst(file, (report.from_us, report.to_us), keep, facts)?
    };
    if snapshot.arrays.is_empty() && left_out.is_empty() {
        let note = "--load: the recording has none of these arrays";
        snapshot.notes.push(note.to_owned());
    }
    let notes = left_out.iter().map(|(_, why)| format!("--load: {why}"));
    snapshot.notes.extend(notes);
    Ok((snapshot, parts))
}

/// Recorded arrays that differ from the array of the same name on this host: name and reason.
fn mismatches(header: &Header, facts: &Facts, host: &str) -> Vec<(String, String)> {
    let mismatch = |recorded: &RecordedArray| {
        let name = &recorded.name;
        let here = facts.arrays.iter().find(|a| a.array.name == *name)?;
        let why = if header.host != host {
            format!("{name} was recorded on {}, not on this host", header.host)
        } else if !same_geometry(recorded, here) {
            format!(
                "{name} was recorded as {} of {} disks with chunks of {} sectors, and is another \
                 array now",
                recorded.level, recorded.disks, recorded.chunk_sectors
            )
        } else {
            return None;
        };
        Some((name.clone(), why))
    };
    header.arrays.iter().filter_map(mismatch).collect()
}

/// Compares the geometry only, as kernel names of members change at boot.
fn same_geometry(recorded: &RecordedArray, here: &ArrayFacts) -> bool {
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
    use crate::recording::header::{Header, RecordedArray};

    #[test]
    fn recordings_of_other_hosts_or_arrays_are_left_out() {
        let facts = Machine::raid6().facts();
        let now = &facts.arrays[0].array;
        let header = |host: &str, disks: u32| Header {
            host: host.to_owned(),
            arrays: vec![RecordedArray {
                name: "md0".to_owned(),
                level: "raid6".to_owned(),
                disks,
                chunk_sectors: now.chunk_sectors,
                sectors: now.sectors,
                ..RecordedArray::default()
            }],
            ..Header::default()
        };
        assert!(mismatches(&header("db1", 7), &facts, "db1").is_empty());
        for (header, why) in
            [(header("db2", 7), "recorded on db2"), (header("db1", 8), "another array now")]
        {
            let left_out = mismatches(&header, &facts, "db1");
            assert_eq!(left_out[0].0, "md0");
            assert!(left_out[0].1.contains(why), "{left_out:?}");
        }
    }
}
