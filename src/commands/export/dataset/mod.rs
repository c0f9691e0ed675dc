//! `raidtrace export --dataset`: recordings as rows of a Hive-partitioned Parquet dataset.
//!
//! * [`crate::recording::dataset`]: the tables and their files.
//! * [`rows`]: requests, submissions and, in [`operations`], slow operations and commits.
//!   [`intervals`]: intervals and verdicts, in a second pass.

mod intervals;
mod operations;
mod rows;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};

use crate::analysis::time::rfc3339;
use crate::analysis::units;
use crate::commands::export::written::INVALID_ROWS;
use crate::recording::dataset::columns::{NOT_RECORDED, TABLES};
use crate::recording::dataset::extent::Extent;
use crate::recording::dataset::files::{DatasetFiles, MAX_DAYS, Outcome};
use crate::recording::dataset::place::DatasetPlace;
use crate::recording::dataset::source::DatasetSource;
use crate::recording::dataset::{is_of_files, refused};
use crate::recording::dataset_name::DatasetName;
use crate::recording::reader::Reader;
use crate::recording::reader::WantedColumns::{Everything, Figures};
use crate::ui::text::clean;

/// Recordings, rows and bytes that were written.
#[derive(Debug, Default)]
struct DatasetSummary {
    recordings: usize,
    rows: [u64; TABLES.len()],
    bytes: u64,
}

/// Adds recordings to a dataset. A recording that cannot be read, or only partly, does not keep the
/// others out.
///
/// # Errors
/// The dataset cannot be written, or at least one recording is missing or incomplete.
pub fn run(recordings: &[PathBuf], dataset: &DatasetName) -> Result<()> {
    let place = DatasetPlace::open(dataset)?;
    place.create()?;
    let (mut summary, mut problems) = (DatasetSummary::default(), Vec::new());
    let mut written = Ok(());
    for recording in recordings {
        match add(recording, &place, &mut summary) {
            Ok(found) => problems.extend(found),
            Err(error) if is_of_files(&error) => {
                written = Err(refused(dataset, error));
                break;
            }
            // Values that the tables cannot hold.
            Err(error) => problems.push(format!("{}: {error:#}", recording.display())),
        }
    }
    summary.print(dataset, recordings.len());
    let last = if written.is_ok() { problems.pop() } else { None };
    for problem in problems {
        eprintln!("raidtrace: {}", clean(&problem));
    }
    written?;
    last.map_or(Ok(()), |last| Err(Error::msg(last)))
}

/// Adds a recording. Returns what is wrong with it.
///
/// # Errors
/// The dataset cannot be written, or a table cannot hold a value of the recording.
fn add(
    recording: &Path,
    dataset: &DatasetPlace,
    summary: &mut DatasetSummary,
) -> Result<Vec<String>> {
    let name = recording.display();
    let open = |columns| Reader::open(recording, columns);
    // The second pass reads the recording again.
    let readers = open(Everything).and_then(|r| Ok((r, open(Figures)?)));
    let (mut reader, again) = match readers {
        Ok(readers) => readers,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    if let Some(note) = reader.note() {
        eprintln!("raidtrace: note: {}", clean(note));
    }
    let identity = DatasetSource::of_recording(reader.header());
    let mut files = DatasetFiles::new(dataset, &identity)?;
    let pass = rows::write(&mut reader, &identity, &mut files)?;
    let invalid = pass.invalid + intervals::write(again, pass.extent, &mut files)?;
    let ending = reader.ending();
    if pass.extent.rows == 0 {
        return Ok(vec![format!("{name}: has no rows; {ending}")]);
    }
    let mut problems = Vec::new();
    if files.left_out > 0 {
        let days = MAX_DAYS;
        problems.push(format!("{name}: {} rows after {days} days are left out", files.left_out));
    }
    let note = |text: &str| eprintln!("raidtrace: note: {}", clean(&format!("{name}: {text}")));
    if invalid > 0 {
        note(&format!("{INVALID_ROWS}: {invalid}"));
    }
    match files.commit(pass.extent)? {
        Outcome::Written(rows, bytes) => {
            summary.add(rows, bytes);
            if ending.is_cut() {
                problems.push(format!("{name}: {ending}; the rows before have been exported"));
            }
        }
        Outcome::Longer => {
            note("the dataset has a longer copy of this recording, which stays");
            problems.extend(ending.is_cut().then(|| format!("{name}: {ending}")));
        }
        Outcome::Other(stored) => problems.push(format!(
            "{name}: is one part ({}) of a recording of which the dataset has another ({}): \
             export the whole recording, or remove the files named {} first",
            period(pass.extent),
            period(stored),
            identity.file_name(),
        )),
    }
    Ok(problems)
}

fn period(extent: Extent) -> String {
    format!("{} to {}", rfc3339(extent.from_us), rfc3339(extent.to_us))
}

impl DatasetSummary {
    fn add(&mut self, rows: [u64; TABLES.len()], bytes: u64) {
        self.recordings += 1;
        self.bytes += bytes;
        for (sum, n) in self.rows.iter_mut().zip(rows) {
            *sum += n;
        }
    }

    fn print(&self, dataset: &DatasetName, all: usize) {
        let tables = TABLES.iter().zip(self.rows);
        let is_recorded = |table: &str| NOT_RECORDED.iter().all(|other| other.name() != table);
        let tables = tables.filter(|(table, _)| is_recorded(table));
        let rows = tables.map(|(table, n)| format!("{n} {table}"));
        eprintln!(
            "raidtrace: {dataset}: {} of {all} recordings, {}, {}",
            self.recordings,
            rows.collect::<Vec<_>>().join(", "),
            units::size(self.bytes),
        );
    }
}
