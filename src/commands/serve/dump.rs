//! Writes what the flight recorder keeps to a directory, on a thread of its own, and bounds that directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, bail};

use super::flight::Kept;
use crate::machine::output::{Destination, Target};
use crate::ui::text;

/// Begin of the names of dumps: only such files are ever removed.
const PREFIX: &str = "raidtrace-";
/// End of their names.
const SUFFIX: &str = ".rtrace";

/// A dump to be written.
pub struct Dump {
    /// The recording.
    pub kept: Kept,
    /// Word for its name: the rule that fired.
    pub rule: String,
    /// Time of the dump.
    pub time: jiff::Timestamp,
}

/// What became of the dumps so far.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Number of dumps written.
    pub dumps: u64,
    /// Number of dumps that could not be written.
    pub errors: u64,
    /// The last dump: its path, or why it could not be written.
    pub last: Option<Result<PathBuf, String>>,
}

/// The directory of the dumps, and the thread that writes them.
pub struct Dumper {
    jobs: SyncSender<Dump>,
    written: Arc<Mutex<Written>>,
}

impl Dumper {
    /// Starts the thread. Dumps take at most `most_bytes` of `dir`; the oldest are removed.
    ///
    /// # Errors
    /// `dir` is no directory that can be written, or there is no thread.
    pub fn start(dir: PathBuf, most_bytes: u64) -> Result<Self> {
        if !dir.is_dir() {
            bail!(
                "--dump-dir {} is not a directory: create it, for the user that runs raidtrace",
                dir.display()
            );
        }
        rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK)
            .with_context(|| format!("--dump-dir {} cannot be written", dir.display()))?;
        let (jobs, received) = mpsc::sync_channel::<Dump>(1);
        let written = Arc::new(Mutex::new(Written::default()));
        let report = Arc::clone(&written);
        thread::Builder::new()
            .name("dump".to_owned())
            .spawn(move || {
                for dump in received {
                    let result = write(&dir, dump, most_bytes);
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    let result = result.map_err(|e| format!("{e:#}"));
                    match &result {
                        Ok(path) => {
                            report.dumps += 1;
                            say(&format!("the last minutes are in {}", path.display()));
                        }
                        Err(why) => {
                            report.errors += 1;
                            say(why);
                        }
                    }
                    report.last = Some(result);
                }
            })
            .context("starting the thread that writes dumps")?;
        Ok(Self { jobs, written })
    }

    /// Hands over a dump. False if one is being written and another waits already.
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

    /// What became of the dumps so far.
    pub fn written(&self) -> Written {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.clone()
    }
}

/// True for the name of a dump. Such a name holds only ASCII letters, digits, hyphens and a dot.
pub fn is_dump(name: &str) -> bool {
    let inner = name
        .strip_prefix(PREFIX)
        .and_then(|n| n.strip_suffix(SUFFIX));
    inner.is_some_and(|inner| inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
}

/// Writes a line to stderr, which systemd passes to the journal.
pub fn say(line: &str) {
    use io::Write as _;
    let _ = writeln!(io::stderr(), "raidtrace: {}", text::clean(line));
}

fn write(dir: &Path, dump: Dump, most_bytes: u64) -> Result<PathBuf> {
    let time = dump.time.strftime("%Y%m%dT%H%M%SZ");
    let rule: String = dump
        .rule
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let path = dir.join(format!("{PREFIX}{time}-{rule}{SUFFIX}"));
    let cannot = || {
        format!(
            "the last minutes could not be written to {}",
            path.display()
        )
    };
    let target: Target = match Destination::new(&path, true).with_context(cannot)? {
        Destination::File(target) => target,
        _ => bail!("{} is no file", path.display()),
    };
    let (mut file, mut pending) = target.create().with_context(cannot)?;
    let bytes = dump.kept.write(&mut file).with_context(cannot)?;
    file.sync_all().with_context(cannot)?;
    pending.commit().with_context(cannot)?;
    make_room(dir, &path, bytes, most_bytes);
    Ok(path)
}

/// Removes the oldest dumps until all take at most `most_bytes`. `newest`, which takes `bytes`, stays.
fn make_room(dir: &Path, newest: &Path, bytes: u64, most_bytes: u64) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dumps: Vec<(String, PathBuf, u64)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let found = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            if !is_dump(&name) {
                return None;
            }
            Some((name, entry.path(), found.len()))
        })
        .filter(|(_, path, _)| path != newest)
        .collect();
    // Their names begin with their times.
    dumps.sort();
    let mut sum: u64 = bytes + dumps.iter().map(|d| d.2).sum::<u64>();
    for (_, path, size) in dumps {
        if sum <= most_bytes {
            break;
        }
        if fs::remove_file(&path).is_ok() {
            sum -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::make_room;

    #[test]
    fn the_oldest_dumps_go_first_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            path
        };
        let other = put("raidtrace-notes.txt");
        let first = put("raidtrace-20261124T000000Z-p99.rtrace");
        let second = put("raidtrace-20261124T000001Z-busy.rtrace");
        let third = put("raidtrace-20261124T000002Z-lost.rtrace");
        make_room(dir.path(), &third, 100, 250);
        let there = |path: &std::path::Path| path.exists();
        assert_eq!(
            [there(&other), there(&first), there(&second), there(&third)],
            [true, false, true, true]
        );
        make_room(dir.path(), &third, 100, 0);
        assert_eq!(
            [there(&other), there(&second), there(&third)],
            [true, false, true]
        );
    }
}
