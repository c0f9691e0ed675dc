//! `raidtrace export --dataset`: recordings as rows of a Hive-partitioned Parquet dataset.
//!
//! * [`columns`] (`columns.toml`): the tables. [`partition`]: names of directories and files.
//! * [`files`]: the files of one recording, replaced at once.
//! * [`rows`]: requests, submissions and, in [`operations`], slow operations and commits.
//!   [`intervals`]: intervals and verdicts, in a second pass.

mod columns;
mod files;
mod intervals;
mod operations;
mod partition;
mod rows;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, bail};

use self::columns::TABLES;
use self::files::{DatasetFiles, Extent, Outcome};
use self::partition::RecordingIdentity;
use crate::analysis::time::rfc3339;
use crate::analysis::units;
use crate::commands::export::written::INVALID_ROWS;
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

/// Adds recordings to the dataset in the directory `dataset`. A recording that cannot be read, or
/// only partly, does not keep the others out.
///
/// # Errors
/// The dataset cannot be written, or at least one recording is missing or incomplete.
pub fn run(recordings: &[PathBuf], dataset: &Path) -> Result<()> {
    let name = dataset.display();
    if dataset.to_str().is_some_and(|text| text.contains("://")) {
        bail!(
            "{name}: object storage is not supported: name a directory, and upload it with the \
             tool of your storage, such as rclone copy or aws s3 sync"
        );
    }
    fs::create_dir_all(dataset).map_err(|error| refused(dataset, error.into()))?;
    let (mut summary, mut problems) = (DatasetSummary::default(), Vec::new());
    let mut written = Ok(());
    for recording in recordings {
        match add(recording, dataset, &mut summary) {
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
fn add(recording: &Path, dataset: &Path, summary: &mut DatasetSummary) -> Result<Vec<String>> {
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
    let identity = RecordingIdentity::new(reader.header());
    let mut files = DatasetFiles::new(dataset, &identity)?;
    let pass = rows::write(&mut reader, &identity, &mut files)?;
    let invalid = pass.invalid + intervals::write(again, pass.extent, &mut files)?;
    let ending = reader.ending();
    if pass.extent.rows == 0 {
        return Ok(vec![format!("{name}: has no rows; {ending}")]);
    }
    let mut problems = Vec::new();
    if files.left_out > 0 {
        let days = files::MAX_DAYS;
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

    fn print(&self, dataset: &Path, all: usize) {
        let rows = TABLES.iter().zip(self.rows).map(|(table, n)| format!("{n} {table}"));
        eprintln!(
            "raidtrace: {}: {} of {all} recordings, {}, {}",
            dataset.display(),
            self.recordings,
            rows.collect::<Vec<_>>().join(", "),
            units::size(self.bytes),
        );
    }
}

/// The error of a system call.
fn system(error: &Error) -> Option<&io::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// True if files cannot be written; other recordings have the same problem then.
fn is_of_files(error: &Error) -> bool {
    system(error).is_some()
}

/// The error of a dataset that cannot be written: what, why, and what to do.
fn refused(dataset: &Path, error: Error) -> Error {
    let system = system(&error);
    let advice = match system.map(io::Error::kind) {
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "free space there, or name another directory"
        }
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            "name a directory that this user may write, or change its mode"
        }
        Some(ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            "name a directory, or one that does not exist"
        }
        _ => "name another directory",
    };
    let name = dataset.display();
    let why = system.map_or_else(|| format!("{error:#}"), ToString::to_string);
    anyhow!("{name}: {why}: {advice}; files that were complete are unchanged")
}
