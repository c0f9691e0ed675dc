//! Blocked signals that end a recording, received with sigtimedwait(2).

use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Signal number.
    pub number: i32,
    /// True if the terminal sent it to all processes in the foreground.
    pub from_terminal: bool,
}

/// Blocks SIGINT, SIGTERM and SIGHUP, which [`Signals::wait`] then receives.
pub struct Signals {
    blocked: libc::sigset_t,
    /// True if SIGINT is ignored, as in a background job of a script: Ctrl-C does not end it, `kill -INT` does.
    in_background: bool,
}

/// Unblocks all signals, in a child process before exec.
pub fn unblock() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: `none` is made by sigemptyset before it is used; no old mask is asked for.
    let error = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    done(error)
}

fn done(error: i32) -> io::Result<()> {
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// True if `signal` is ignored, as SIGHUP is under nohup.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set; `now` is one, and zeroed is valid for it if the call fails.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

impl Signals {
    /// Blocks the signals. Call this before starting threads, so that none receives them. An ignored SIGHUP (nohup) is not
    /// blocked: sigtimedwait(2) would receive it.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `set` is made by sigemptyset before it is used; the signals' numbers are valid; no old mask is asked for.
        let (error, blocked) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            if !is_ignored(libc::SIGHUP) {
                libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            (error, set.assume_init())
        };
        done(error).map(|()| Self {
            blocked,
            in_background: is_ignored(libc::SIGINT),
        })
    }

    /// Lets SIGINT and SIGTERM end this process. Signals within `grace` are dropped as repetitions: timeout(1) sends its signal
    /// twice.
    pub fn unblock_after(&self, grace: Duration) -> io::Result<()> {
        let begun = Instant::now();
        while self.wait(grace.saturating_sub(begun.elapsed())).is_some() {}
        let mut set = MaybeUninit::uninit();
        // SAFETY: as in `block`.
        let error = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut())
        };
        done(error)
    }

    /// Blocks the signals again.
    pub fn block_again(&self) -> io::Result<()> {
        // SAFETY: the set is a valid one; no old mask is asked for.
        done(unsafe {
            libc::pthread_sigmask(
                libc::SIG_BLOCK,
                &raw const self.blocked,
                std::ptr::null_mut(),
            )
        })
    }

    /// Waits up to `at_most` for the next signal.
    pub fn wait(&self, at_most: Duration) -> Option<Signal> {
        let time = libc::timespec {
            tv_sec: at_most.as_secs().cast_signed(),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: all three pointers are to live objects of these types.
        let number = unsafe {
            libc::sigtimedwait(&raw const self.blocked, info.as_mut_ptr(), &raw const time)
        };
        if number <= 0 {
            return None; // timeout, or interrupted by a debugger
        }
        // SAFETY: zeroed, which is valid for it, and then filled in by the call.
        let info = unsafe { info.assume_init() };
        let signal = Signal {
            number,
            from_terminal: info.si_code == libc::SI_KERNEL,
        };
        let not_ours = self.in_background && number == libc::SIGINT && signal.from_terminal;
        (!not_ours).then_some(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::Signals;
    use std::time::Duration;

    fn raise(signal: i32) {
        // SAFETY: to this thread, which has it blocked, or where it is ignored.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    fn blocked(signal: i32) -> bool {
        // SAFETY: the mask of this thread is read into a set, for which zeroed is valid.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
            libc::sigismember(&raw const set, signal) == 1
        }
    }

    /// One test only: ignored signals are per process, signal masks per thread.
    #[test]
    fn signals_are_received_in_the_background_too() {
        let now = Duration::ZERO;
        // SAFETY: an ignored signal runs no code.
        let was_hangup = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let signals = Signals::block().unwrap();
        raise(libc::SIGHUP);
        assert_eq!(signals.wait(now), None);
        // SAFETY: neither action runs code. The suite itself may run under nohup.
        let was_interrupt = unsafe {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            libc::signal(libc::SIGINT, libc::SIG_IGN)
        };
        let signals = Signals::block().unwrap();
        raise(libc::SIGINT);
        assert_eq!(signals.wait(now).map(|s| s.number), Some(libc::SIGINT));
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };

        let signals = Signals::block().unwrap();
        for signal in [libc::SIGHUP, libc::SIGTERM] {
            raise(signal);
            assert_eq!(signals.wait(now).map(|s| s.number), Some(signal));
        }
        // The first has ended the recording; this one came with it, and would end the test.
        raise(libc::SIGTERM);
        signals.unblock_after(now).unwrap();
        let all = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        assert_eq!(all.map(blocked), [false, false, true]);
        signals.block_again().unwrap();
        assert_eq!(all.map(blocked), [true; 3]);
        // SAFETY: as it was.
        unsafe {
            libc::signal(libc::SIGHUP, was_hangup);
            libc::signal(libc::SIGINT, was_interrupt);
        }
    }
}
