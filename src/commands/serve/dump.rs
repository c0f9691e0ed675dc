//! Writes dumps of the flight recorder to a directory, on a separate thread, and limits the size of
//! the directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::flight::RecordingCopy;
use crate::analysis::units;
use crate::machine::limits;
use crate::machine::output::{Destination, OutputTarget};
use crate::ui::text;

/// File name prefix of dumps. Only files with this prefix are ever removed.
const PREFIX: &str = "raidtrace-";
/// File name suffix of dumps.
const SUFFIX: &str = ".rtrace";

/// File name suffix of a dump that is being written.
const UNFINISHED: &str = ".new";
/// Rule name of dumps requested by SIGUSR1 or from the page.
pub const ASKED: &str = "asked";
/// Pause between two checks for the end of the thread.
const POLL: Duration = Duration::from_millis(10);

pub struct Dump {
    pub recording: RecordingCopy,
    /// Name of the rule that fired, for the file name.
    pub rule: String,
    pub time: jiff::Timestamp,
}

/// Results of the dumps so far.
#[derive(Clone, Debug, Default)]
pub struct DumpResults {
    pub dumps: u64,
    /// Number of dumps that could not be written.
    pub errors: u64,
    /// Path of the last dump, or the reason that it could not be written.
    pub last: Option<Result<PathBuf, String>>,
}

/// The directory of the dumps, and the thread that writes them.
pub struct Dumper {
    jobs: SyncSender<Dump>,
    written: Arc<Mutex<DumpResults>>,
    thread: JoinHandle<()>,
}

impl Dumper {
    /// Starts the thread. Dumps take at most `most_bytes` in `dir`, apart from the newest of each
    /// rule: requested ones are removed first, then the oldest.
    ///
    /// # Errors
    /// `dir` is not a writable directory, or the thread cannot be started.
    pub fn start(dir: PathBuf, most_bytes: u64) -> Result<Self> {
        if !dir.is_dir() {
            bail!(
                "--dump-dir {} is not a directory: create it, writable for the user that runs \
                 raidtrace",
                dir.display()
            );
        }
        rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK).with_context(|| {
            format!(
                "--dump-dir {} cannot be written: its owner, or another user who runs raidtrace, \
                 needs write permission (the thread that writes runs as the owner)",
                dir.display()
            )
        })?;
        remove_unfinished(&dir);
        let (jobs, received) = mpsc::sync_channel::<Dump>(1);
        let written = Arc::new(Mutex::new(DumpResults::default()));
        let report = Arc::clone(&written);
        let thread = thread::Builder::new()
            .name("raidtrace:dump".to_owned())
            .spawn(move || {
                for dump in received {
                    let result = write(&dir, dump, most_bytes);
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    let result = result.map_err(|e| format!("{e:#}"));
                    match &result {
                        Ok(path) => {
                            report.dumps += 1;
                            log_line(&format!("the last minutes are in {}", path.display()));
                        }
                        Err(why) => {
                            report.errors += 1;
                            log_line(why);
                        }
                    }
                    report.last = Some(result);
                }
            })
            .context("starting the thread that writes dumps")?;
        Ok(Self { jobs, written, thread })
    }

    /// Waits until all queued dumps are written, at most for `patience`.
    pub fn finish(self, patience: Duration) {
        drop(self.jobs);
        if !ended_within(&self.thread, patience) {
            log_line("a dump is left unfinished: writing to the directory for dumps is too slow");
        }
    }

    /// Queues a dump. False if one dump is being written and another is already queued.
    pub fn dump(&self, dump: Dump) -> bool {
        match self.jobs.try_send(dump) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                written.errors += 1;
                false
            }
        }
    }

    /// Results of the dumps so far.
    pub fn written(&self) -> DumpResults {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.clone()
    }
}

/// Waits for the end of a thread. False if it has not ended after `patience`.
pub fn ended_within(thread: &JoinHandle<()>, patience: Duration) -> bool {
    let begun = Instant::now();
    while !thread.is_finished() {
        if begun.elapsed() > patience {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// True for the name of a dump, such as `raidtrace-20261124T042540Z-p99.rtrace`. Other files in the
/// directory are never touched.
pub fn is_dump(name: &str) -> bool {
    let inner = name.strip_prefix(PREFIX).and_then(|n| n.strip_suffix(SUFFIX));
    inner.and_then(|i| i.split_once('-')).is_some_and(|(time, rule)| {
        let is_digit = |b: &u8| b.is_ascii_digit();
        let is_time = match time.as_bytes() {
            [date @ .., b'Z'] if date.len() == 15 => {
                date[..8].iter().all(is_digit) && date[8] == b'T' && date[9..].iter().all(is_digit)
            }
            _ => false,
        };
        let is_rule = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        is_time && !rule.is_empty() && rule.chars().all(is_rule)
    })
}

/// Removes unfinished dumps of an earlier process.
fn remove_unfinished(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|n| n.strip_suffix(UNFINISHED));
        if name.is_some_and(is_dump) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes a line to stderr, which systemd passes to the journal.
pub fn log_line(line: &str) {
    use io::Write as _;
    let _ = writeln!(io::stderr(), "raidtrace: {}", text::clean(line));
}

fn write(dir: &Path, dump: Dump, most_bytes: u64) -> Result<PathBuf> {
    let time = dump.time.strftime("%Y%m%dT%H%M%SZ");
    let rule: String = dump.rule.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = dir.join(format!("{PREFIX}{time}-{rule}{SUFFIX}"));
    let cannot = || format!("the last minutes could not be written to {}", path.display());
    // Make room before writing. If the filesystem is full nevertheless, free what this dump needs
    // and retry once.
    let (bytes, is_asked) = (dump.recording.bytes(), rule == ASKED);
    let taken: u64 = dumps(dir).iter().map(|d| d.bytes).sum();
    let excess = (taken + bytes).saturating_sub(most_bytes);
    let freed = free(dir, excess, is_asked);
    if is_asked && freed < excess && freed < taken {
        bail!(
            "{}: recordings of rules take {} of --dump-bytes, and are not removed for a requested \
             one",
            cannot(),
            units::bytes((taken - freed) as f64)
        );
    }
    match write_file(&path, &dump.recording).with_context(cannot) {
        Err(error) if is_full(&error) && free(dir, bytes, is_asked) > 0 => {
            write_file(&path, &dump.recording).with_context(cannot)?;
        }
        result => result?,
    }
    Ok(path)
}

fn is_full(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|e| e.downcast_ref::<io::Error>());
    io.is_some_and(|e| limits::is_full(e.kind()))
}

fn write_file(path: &Path, recording: &RecordingCopy) -> Result<()> {
    let target: OutputTarget = match Destination::new(path, true)? {
        Destination::File(target) => target,
        _ => bail!("{} is not a regular file", path.display()),
    };
    let (mut file, mut pending) = target.create()?;
    recording.write(&mut file)?;
    file.sync_all()?;
    pending.commit()?;
    Ok(())
}

struct DumpFile {
    /// Name of the rule; [`ASKED`] for a requested dump.
    rule: String,
    name: String,
    path: PathBuf,
    bytes: u64,
}

/// Dumps in the directory, in the order of removal.
fn dumps(dir: &Path) -> Vec<DumpFile> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<DumpFile> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            is_dump(&name).then(|| DumpFile {
                rule: name.trim_end_matches(SUFFIX).rsplit('-').next().unwrap_or_default().into(),
                path: entry.path(),
                bytes: found.len(),
                name,
            })
        })
        .collect();
    // Requested dumps first. File names begin with the time, so this also sorts by age.
    found.sort_by(|a, b| (a.rule != ASKED, &a.name).cmp(&(b.rule != ASKED, &b.name)));
    found
}

/// Removes dumps until `bytes` are free: requested ones first, then those of rules, from the oldest
/// on. The newest of each rule stays, and for a requested dump all of them. Returns the number of
/// bytes freed.
fn free(dir: &Path, bytes: u64, is_asked: bool) -> u64 {
    let found = dumps(dir);
    let mut freed = 0;
    for (index, dump) in found.iter().enumerate() {
        let later = found.get(index + 1..).unwrap_or_default();
        let stays =
            dump.rule != ASKED && (is_asked || !later.iter().any(|other| other.rule == dump.rule));
        if freed < bytes && !stays && remove(dump) {
            freed += dump.bytes;
        }
    }
    freed
}

fn remove(dump: &DumpFile) -> bool {
    match fs::remove_file(&dump.path) {
        Ok(()) => true,
        Err(error) => {
            log_line(&format!("{} cannot be removed: {error}", dump.path.display()));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{free, is_dump, remove_unfinished};

    #[test]
    fn the_oldest_dumps_go_first_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            path
        };
        let own = put("raidtrace-before-upgrade.rtrace");
        let first = put("raidtrace-20261124T000000Z-p99.rtrace");
        let second = put("raidtrace-20261124T000001Z-busy.rtrace");
        let third = put("raidtrace-20261124T000003Z-p99.rtrace");
        let asked = put("raidtrace-20261124T000002Z-asked.rtrace");
        let there = || [&own, &asked, &first, &second, &third].map(|p| p.exists());
        assert_eq!(free(dir.path(), 0, false), 0);
        assert_eq!(there(), [true; 5]);
        // A requested dump removes only requested ones.
        assert_eq!(free(dir.path(), 1000, true), 100);
        assert_eq!(there(), [true, false, true, true, true]);
        assert_eq!(free(dir.path(), 1000, true), 0);
        // Only as much as is needed.
        put("raidtrace-20261124T000002Z-asked.rtrace");
        assert_eq!(free(dir.path(), 1, false), 100);
        assert_eq!(there(), [true, false, true, true, true]);
        // The newest of each rule stays.
        assert_eq!(free(dir.path(), 1000, false), 100);
        assert_eq!(there(), [true, false, false, true, true]);
        let unfinished = put("raidtrace-20261124T000003Z-p99.rtrace.new");
        let other = put("notes.new");
        remove_unfinished(dir.path());
        assert!(!unfinished.exists() && other.exists());
    }

    #[test]
    fn other_file_names_are_not_dumps() {
        assert!(is_dump("raidtrace-20261124T000000Z-p99.rtrace"));
        for other in [
            "raidtrace-before-upgrade.rtrace",
            "raidtrace-20261124T000000Z.rtrace",
            "raidtrace-20261124T000000Z-.rtrace",
            "raidtrace-20261124T00000aZ-p99.rtrace",
            "raidtrace-20261124T000000Z-../x.rtrace",
            "raidtrace-2026112\u{e9}T00000Z-p99.rtrace",
            "",
        ] {
            assert!(!is_dump(other), "{other}");
        }
    }
}
