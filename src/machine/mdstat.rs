//! Events of md: a member was added, removed or marked faulty; a recovery started or ended.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::retry_on_intr;

use super::Sys;

/// An open `/proc/mdstat`. md wakes pollers on events (drivers/md/md.c, `md_new_event()`).
pub struct Mdstat {
    file: File,
}

impl Mdstat {
    /// Opens the file; `None` if md is not loaded.
    pub fn open(sys: &Sys) -> Option<Self> {
        let file = File::open(sys.path("/proc/mdstat")).ok()?;
        Some(Self { file })
    }

    /// Waits up to `at_most` (`None`: without limit) for an event since the last one returned.
    /// False on timeout.
    pub fn wait(&self, at_most: Option<Duration>) -> bool {
        let at_most = at_most.and_then(|d| Timespec::try_from(d).ok());
        let mut poll = [PollFd::new(&self.file, PollFlags::PRI)];
        if retry_on_intr(|| event::poll(&mut poll, at_most.as_ref())).is_err()
            || !poll[0].revents().contains(PollFlags::PRI)
        {
            return false;
        }
        // Reading from the start acknowledges the event (`md_seq_show()`, later `md_seq_start()`).
        let _ = self.file.read_at(&mut [0; 64], 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Mdstat;
    use crate::machine::Sys;
    use crate::machine::dm::Ioctl;
    use std::time::Duration;

    #[test]
    fn without_md_nothing_happens() {
        let dir = tempfile::tempdir().unwrap();
        let sys = || Sys::at(dir.path(), Box::new(Ioctl));
        assert!(Mdstat::open(&sys()).is_none());
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/mdstat"), "Personalities :\n").unwrap();
        let file = Mdstat::open(&sys()).unwrap();
        assert!(!file.wait(Some(Duration::ZERO)), "a regular file has no events");
    }
}
