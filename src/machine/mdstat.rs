//! Events of md: a member was added, removed or marked faulty; a recovery started or ended.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::Sys;

/// An open `/proc/mdstat`. md wakes pollers on events (drivers/md/md.c, `md_new_event()`).
pub struct Mdstat {
    file: File,
}

impl Mdstat {
    /// `None` if md is not loaded.
    pub fn open(sys: &Sys) -> Option<Self> {
        let file = File::open(sys.path("/proc/mdstat")).ok()?;
        Some(Self { file })
    }

    /// Waits up to `at_most` (`None`: without limit) for an event since the last one returned. False on timeout.
    pub fn wait(&self, at_most: Option<Duration>) -> bool {
        let mut poll = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLPRI,
            revents: 0,
        };
        let at_most = at_most.map_or(-1, |d| d.as_millis().try_into().unwrap_or(i32::MAX));
        let ready = loop {
            // SAFETY: one structure, of a descriptor that is open.
            let ready = unsafe { libc::poll(&raw mut poll, 1, at_most) };
            let interrupted = std::io::Error::last_os_error().kind() == ErrorKind::Interrupted;
            if ready >= 0 || !interrupted {
                break ready;
            }
        };
        if ready < 1 || poll.revents & libc::POLLPRI == 0 {
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
        assert!(!file.wait(Some(Duration::ZERO)), "a file that nobody wakes");
    }
}
