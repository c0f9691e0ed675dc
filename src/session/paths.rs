//! Paths of files, found on a thread of its own: a filesystem that hangs must not hang the screen.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::analysis::files::FileId;
use crate::machine::Sys;
use crate::machine::handle::{Found, Mounts, Wanted};

/// Files may be renamed and deleted: what is older than this is asked again.
const FRESH: Duration = Duration::from_secs(10);
/// How long a sample waits for answers; once, if there are none.
const PATIENCE: Duration = Duration::from_millis(250);
/// Files that are remembered.
const MANY: usize = 4096;
/// The table of mounts is read again for a filesystem that was not found, but not more often than this.
const MOUNTS: Duration = Duration::from_secs(10);

/// What was found, and the thread that finds.
#[derive(Debug)]
pub struct Paths {
    patience: Duration,
    known: HashMap<FileId, (Found, Instant)>,
    waiting: HashSet<FileId>,
    /// It did not answer in time: no more waiting until it does.
    late: bool,
    finder: Option<Finder>,
}

#[derive(Debug)]
struct Finder {
    asks: Sender<(FileId, Wanted)>,
    answers: Receiver<(FileId, Found)>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            patience: PATIENCE,
            known: HashMap::new(),
            waiting: HashSet::new(),
            late: false,
            finder: None,
        }
    }
}

impl Paths {
    /// From here on it waits, as one that has just begun.
    pub fn be_patient(&mut self) {
        (self.patience, self.late) = (PATIENCE, false);
    }

    /// Never waits: answers are there the next time.
    pub fn without_patience() -> Self {
        Self {
            patience: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Whether a file is to be asked for.
    pub fn wants(&self, id: &FileId) -> bool {
        let known = self.known.get(id);
        !self.waiting.contains(id) && known.is_none_or(|(_, since)| since.elapsed() >= FRESH)
    }

    /// Where a file is; `None`: no answer yet.
    pub fn get(&self, id: &FileId) -> Option<&Found> {
        self.known.get(id).map(|(found, _)| found)
    }

    /// Asks for these, and waits a little for the answers.
    pub fn ask(&mut self, wanted: Vec<(FileId, Wanted)>) {
        self.take();
        if wanted.is_empty() && self.waiting.is_empty() {
            return;
        }
        if self.finder.is_none() {
            self.finder = Finder::start();
        }
        let Some(finder) = &self.finder else { return };
        // Who does not answer is not asked more.
        for (id, wanted) in wanted.into_iter().filter(|_| !self.late) {
            if finder.asks.send((id, wanted)).is_ok() {
                self.waiting.insert(id);
            }
        }
        let end = Instant::now() + self.patience;
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

    /// Answers that have come meanwhile.
    fn take(&mut self) {
        while let Some(Ok(answer)) = self.finder.as_ref().map(|f| f.answers.try_recv()) {
            self.note(answer);
            self.late = false;
        }
    }

    fn note(&mut self, (id, found): (FileId, Found)) {
        self.waiting.remove(&id);
        let found = match (self.known.remove(&id), found) {
            // Where it was is still worth telling.
            (Some((Found::At { path, .. }, _)), Found::Gone) => Found::At {
                path,
                deleted: true,
            },
            (_, found) => found,
        };
        self.known.insert(id, (found, Instant::now()));
    }

    fn forget(&mut self) {
        if self.known.len() > MANY {
            self.known.retain(|_, (_, since)| since.elapsed() < FRESH);
        }
    }
}

impl Finder {
    fn start() -> Option<Self> {
        let (asks, asked) = channel::<(FileId, Wanted)>();
        let (answer, answers) = channel();
        // It ends when nobody asks any more; nobody waits for it, for it may hang.
        std::thread::Builder::new()
            .name("paths".to_owned())
            .spawn(move || {
                let sys = Sys::live();
                let (mut mounts, mut read) = (Mounts::read(&sys), Instant::now());
                for (id, wanted) in asked {
                    let found = mounts.find(&wanted).or_else(|e| {
                        if read.elapsed() < MOUNTS {
                            return Err(e);
                        }
                        (mounts, read) = (Mounts::read(&sys), Instant::now());
                        mounts.find(&wanted)
                    });
                    if answer.send((id, found.unwrap_or(Found::Unknown))).is_err() {
                        return;
                    }
                }
            })
            .ok()?;
        Some(Self { asks, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::{FRESH, FileId, Finder, Found, Paths};
    use crate::machine::Dev;
    use crate::machine::handle::Wanted;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    const ID: FileId = FileId {
        dev: 1,
        inode: 2,
        generation: 3,
    };

    fn wanted() -> Vec<(FileId, Wanted)> {
        let wanted = Wanted {
            dev: Dev::default(),
            inode: (2, 3),
            parent: None,
            name: Vec::new(),
        };
        vec![(ID, wanted)]
    }

    fn at(path: &str, deleted: bool) -> Found {
        Found::At {
            path: path.into(),
            deleted,
        }
    }

    #[test]
    fn one_who_does_not_answer_is_waited_for_once() {
        let (asks, asked) = channel();
        let (answer, answers) = channel();
        let mut paths = Paths {
            finder: Some(Finder { asks, answers }),
            ..Paths::default()
        };
        paths.ask(wanted());
        assert!(paths.late && !paths.wants(&ID) && paths.get(&ID).is_none());
        paths.ask(wanted());
        assert_eq!(asked.try_iter().count(), 1);
        answer.send((ID, at("/a", false))).unwrap();
        paths.ask(Vec::new());
        assert_eq!(paths.get(&ID), Some(&at("/a", false)));
        assert!(!paths.late);
    }

    #[test]
    fn a_file_that_is_gone_keeps_its_path_and_is_asked_for_again() {
        let mut paths = Paths::default();
        paths.note((ID, at("/a", false)));
        assert!(!paths.wants(&ID));
        if let Some(old) = Instant::now().checked_sub(FRESH) {
            paths.known.insert(ID, (at("/a", false), old));
            assert!(paths.wants(&ID));
        }
        paths.note((ID, Found::Gone));
        assert_eq!(paths.get(&ID), Some(&at("/a", true)));
        paths.note((ID, Found::Gone));
        assert_eq!(paths.get(&ID), Some(&at("/a", true)));
    }
}
