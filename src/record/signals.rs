//! Signals that end a recording, taken when there is time for them.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// By the terminal: all processes in the foreground have got it.
    pub from_terminal: bool,
}

/// SIGINT, SIGTERM and SIGHUP no longer end the process, but come out of [`Signals::wait`].
pub struct Signals(libc::sigset_t);

/// Of a command that is started: signals come to it as to any other.
pub fn give_back() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: `none` is made by sigemptyset before it is used; no old mask is asked for.
    let error = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Signals {
    /// Before any thread is started, so that none gets them. Whoever ignores one of them (nohup) goes on to.
    pub fn take() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `set` is made by sigemptyset before it is used; the signals' numbers are valid; no old mask is asked for.
        let (error, set) = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            (error, set.assume_init())
        };
        match error {
            0 => Ok(Self(set)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// The next one, if one comes in that time.
    pub fn wait(&self, at_most: Duration) -> Option<Signal> {
        let time = libc::timespec {
            tv_sec: at_most.as_secs().cast_signed(),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: all three pointers are to live objects of these types.
        let number =
            unsafe { libc::sigtimedwait(&raw const self.0, info.as_mut_ptr(), &raw const time) };
        if number <= 0 {
            return None; // the time is over, or a debugger was there
        }
        // SAFETY: zeroed, which is valid for it, and then filled in by the call.
        let info = unsafe { info.assume_init() };
        Some(Signal {
            number,
            from_terminal: info.si_code == libc::SI_KERNEL,
        })
    }
}
