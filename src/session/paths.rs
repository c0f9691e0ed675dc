//! Paths of files. A separate thread looks them up, so that a filesystem that hangs cannot block
//! the screen.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::analysis::files::FileId;
use crate::machine::handle::{FileQuery, LookupResult, Mounts};
use crate::machine::{Sys, privileges};

/// Name of the thread. A lookup can read directories and inodes from the disk, so it must identify
/// raidtrace: 15 bytes at most (TASK_COMM_LEN).
const THREAD: &str = "raidtrace:paths";
/// Age at which a path is looked up again, because files are renamed and deleted.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Longest wait of a sample for answers. After a timeout, samples do not wait for answers again
/// until one has arrived.
const MAX_WAIT: Duration = Duration::from_millis(250);
/// Longest wait at the end of a recording, whose last paths are not asked for again.
const MAX_LAST_WAIT: Duration = Duration::from_secs(5);
/// Number of cached paths above which stale ones are dropped.
const MAX_CACHED: usize = 4096;
/// Shortest time between two reads of the mount table, which is read again for an unknown
/// filesystem.
const MIN_MOUNTS_PAUSE: Duration = Duration::from_secs(10);

/// Cache of paths and the lookup thread.
#[derive(Debug)]
pub struct Paths {
    wait: Duration,
    known: HashMap<FileId, (LookupResult, Instant)>,
    waiting: HashSet<FileId>,
    /// True after a timeout: do not wait or send requests until an answer arrives.
    late: bool,
    finder: Option<Finder>,
}

#[derive(Debug)]
struct Finder {
    requests: Sender<(FileId, FileQuery)>,
    answers: Receiver<(FileId, LookupResult)>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            wait: MAX_WAIT,
            known: HashMap::new(),
            waiting: HashSet::new(),
            late: false,
            finder: None,
        }
    }
}

impl Paths {
    /// Waits for answers from now on: a recording ends.
    pub fn wait_for_answers(&mut self) {
        (self.wait, self.late) = (MAX_LAST_WAIT, false);
    }

    /// A cache that never waits. Answers are available at the next request.
    pub fn without_waiting() -> Self {
        Self { wait: Duration::ZERO, ..Self::default() }
    }

    /// True if the path is unknown or older than [`MAX_AGE`], and no request is pending.
    pub fn is_stale(&self, id: &FileId) -> bool {
        let known = self.known.get(id);
        !self.waiting.contains(id) && known.is_none_or(|(_, since)| since.elapsed() >= MAX_AGE)
    }

    /// True if a request for the file is pending.
    pub fn is_waiting(&self, id: &FileId) -> bool {
        self.waiting.contains(id)
    }

    /// The last answer for a file; `None` without one.
    pub fn get(&self, id: &FileId) -> Option<&LookupResult> {
        self.known.get(id).map(|(found, _)| found)
    }

    /// Requests lookups and waits a short time for the answers.
    pub fn request(&mut self, wanted: Vec<(FileId, FileQuery)>) {
        self.ask(wanted);
        let end = Instant::now() + self.wait;
        while !self.waiting.is_empty() && !self.late {
            let left = end.saturating_duration_since(Instant::now());
            let Some(Ok(answer)) = self.finder.as_ref().map(|f| f.answers.recv_timeout(left))
            else {
                self.late = true;
                break;
            };
            self.note(answer);
        }
        self.forget();
    }

    /// Requests lookups without waiting for the answers.
    pub fn ask(&mut self, wanted: Vec<(FileId, FileQuery)>) {
        self.receive();
        if wanted.is_empty() && self.waiting.is_empty() {
            return;
        }
        if self.finder.is_none() {
            self.finder = Finder::start();
        }
        let Some(finder) = &self.finder else { return };
        for (id, wanted) in wanted.into_iter().filter(|_| !self.late) {
            if finder.requests.send((id, wanted)).is_ok() {
                self.waiting.insert(id);
            }
        }
    }

    /// Stores the answers that have arrived.
    fn receive(&mut self) {
        while let Some(Ok(answer)) = self.finder.as_ref().map(|f| f.answers.try_recv()) {
            self.note(answer);
            self.late = false;
        }
    }

    fn note(&mut self, (id, found): (FileId, LookupResult)) {
        self.waiting.remove(&id);
        let found = match (self.known.remove(&id), found) {
            // Keep the last known path of a deleted file.
            (Some((LookupResult::At { path, .. }, _)), LookupResult::Gone) => {
                LookupResult::At { path, deleted: true }
            }
            (_, found) => found,
        };
        self.known.insert(id, (found, Instant::now()));
    }

    fn forget(&mut self) {
        if self.known.len() > MAX_CACHED {
            self.known.retain(|_, (_, since)| since.elapsed() < MAX_AGE);
        }
    }
}

impl Finder {
    fn start() -> Option<Self> {
        let (requests, receiver) = channel::<(FileId, FileQuery)>();
        let (answer, answers) = channel();
        // Ends when `requests` is dropped. Never joined, because a lookup may hang.
        std::thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                privileges::keep_for_paths();
                let sys = Sys::live();
                let (mut mounts, mut read) = (Mounts::read(&sys), Instant::now());
                for (id, wanted) in receiver {
                    let found = mounts.find(&wanted).or_else(|e| {
                        if read.elapsed() < MIN_MOUNTS_PAUSE {
                            return Err(e);
                        }
                        (mounts, read) = (Mounts::read(&sys), Instant::now());
                        mounts.find(&wanted)
                    });
                    if answer.send((id, found.unwrap_or(LookupResult::Unknown))).is_err() {
                        return;
                    }
                }
            })
            .ok()?;
        Some(Self { requests, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::{FileId, Finder, LookupResult, MAX_AGE, Paths, THREAD};
    use crate::machine::Dev;
    use crate::machine::handle::FileQuery;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    const ID: FileId = FileId { dev: 1, inode: 2, generation: 3 };

    fn wanted() -> Vec<(FileId, FileQuery)> {
        let wanted =
            FileQuery { dev: Dev::default(), inode: (2, 3), parent: None, name: Vec::new() };
        vec![(ID, wanted)]
    }

    fn at(path: &str, deleted: bool) -> LookupResult {
        LookupResult::At { path: path.into(), deleted }
    }

    /// Its reads are shown with this name in the processes view.
    #[test]
    fn the_thread_has_the_name_of_the_program() {
        assert!(THREAD.starts_with("raidtrace"));
        let finder = Finder::start();
        let names = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
            tasks.flatten().filter_map(|task| comm(task).ok()).collect::<Vec<_>>()
        };
        let begun = Instant::now();
        while !names().iter().any(|name| name.trim_end() == THREAD) {
            assert!(begun.elapsed() < Duration::from_secs(300), "no thread {THREAD}");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(finder);
    }

    #[test]
    fn no_waiting_after_a_timeout_until_an_answer_arrives() {
        let (requests, receiver) = channel();
        let (answer, answers) = channel();
        let mut paths = Paths { finder: Some(Finder { requests, answers }), ..Paths::default() };
        paths.request(wanted());
        assert!(paths.late && !paths.is_stale(&ID) && paths.get(&ID).is_none());
        paths.request(wanted());
        assert_eq!(receiver.try_iter().count(), 1);
        answer.send((ID, at("/a", false))).unwrap();
        paths.request(Vec::new());
        assert_eq!(paths.get(&ID), Some(&at("/a", false)));
        assert!(!paths.late);
    }

    #[test]
    fn a_deleted_file_keeps_its_path_and_is_looked_up_again() {
        let mut paths = Paths::default();
        paths.note((ID, at("/a", false)));
        assert!(!paths.is_stale(&ID));
        if let Some(old) = Instant::now().checked_sub(MAX_AGE) {
            paths.known.insert(ID, (at("/a", false), old));
            assert!(paths.is_stale(&ID));
        }
        paths.note((ID, LookupResult::Gone));
        assert_eq!(paths.get(&ID), Some(&at("/a", true)));
        paths.note((ID, LookupResult::Gone));
        assert_eq!(paths.get(&ID), Some(&at("/a", true)));
    }
}
