//! Signals that end a command. An ignored SIGHUP (nohup) stays ignored.

use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use tokio::sync::oneshot;

use super::task::own_mask;
use super::{Sys, privileges};

/// A future that completes on the first signal that ends a command.
pub(crate) type End = Pin<Box<dyn Future<Output = ()>>>;

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// True if the terminal sent it to all processes in the foreground.
    pub from_terminal: bool,
}

/// Receives SIGINT, SIGTERM and SIGHUP. If SIGINT was ignored, as in a background job of a script,
/// Ctrl-C has no effect and `kill -INT` is received.
pub struct Signals {
    received: mpsc::Receiver<Signal>,
    /// While true, SIGINT and SIGTERM end this process.
    fatal: Arc<AtomicBool>,
    in_background: bool,
}

impl Signals {
    /// Handles the signals from now on.
    ///
    /// # Errors
    ///
    /// No pipe or thread can be created.
    pub fn catch() -> Result<Self> {
        let in_background = is_ignored(SIGINT);
        let fatal = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            register_conditional_default(signal, Arc::clone(&fatal))
                .context("cannot handle signals")?;
        }
        let (sender, received) = mpsc::channel();
        receive(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
            let ctrl_c = signal.number == SIGINT && signal.from_terminal;
            if !(in_background && ctrl_c) {
                let _ = sender.send(signal);
            }
        })?;
        Ok(Self { received, fatal, in_background })
    }

    /// Lets SIGINT and SIGTERM end this process. Signals within `grace` are dropped as repetitions:
    /// timeout(1) sends its signal twice.
    pub fn release_after(&self, grace: Duration) {
        let start = Instant::now();
        while self.wait(grace.saturating_sub(start.elapsed())).is_some() {}
        self.fatal.store(true, Ordering::Relaxed);
    }

    /// Receives the signals again, after [`Signals::release_after`].
    pub fn catch_again(&self) {
        self.fatal.store(false, Ordering::Relaxed);
    }

    /// Waits up to `at_most` for the next signal.
    pub fn wait(&self, at_most: Duration) -> Option<Signal> {
        self.received.recv_timeout(at_most).ok()
    }

    /// Makes `command` ignore SIGINT if this process was started with SIGINT ignored. Exec resets
    /// handled signals to their default.
    pub fn pass_ignored_interrupt_to(&self, command: &mut Command) {
        if self.in_background {
            // SAFETY: called between fork and exec; signal(2) is async-signal-safe, and SIG_IGN
            // runs no code.
            unsafe { command.pre_exec(ignore_interrupt) };
        }
    }
}

fn ignore_interrupt() -> io::Result<()> {
    // SAFETY: SIG_IGN runs no code.
    if unsafe { libc::signal(SIGINT, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Handles SIGINT, SIGTERM, SIGQUIT (Ctrl-\) and SIGHUP from now on. The returned future completes
/// on the first of these signals, even if the signal arrives before the first poll.
///
/// # Errors
///
/// No pipe or thread can be created.
pub fn asked_to_end() -> Result<End> {
    let (sender, first) = oneshot::channel();
    let mut sender = Some(sender);
    receive(&[SIGINT, SIGTERM, SIGQUIT, SIGHUP], move |_| {
        if let Some(sender) = sender.take() {
            let _ = sender.send(());
        }
    })?;
    Ok(Box::pin(async move {
        let _ = first.await;
    }))
}

/// Receives SIGUSR1 from now on. Each signal sends a message. The channel holds one message;
/// further signals are dropped.
///
/// # Errors
///
/// No pipe or thread can be created.
pub fn asked_to_dump() -> Result<tokio::sync::mpsc::Receiver<()>> {
    let (sender, asked) = tokio::sync::mpsc::channel(1);
    receive(&[SIGUSR1], move |_| {
        let _ = sender.try_send(());
    })?;
    Ok(asked)
}

/// Calls `on` for each of the signals, on a thread that runs until the process ends.
fn receive(signals: &[i32], mut on: impl FnMut(Signal) + Send + 'static) -> Result<()> {
    let handled = signals.iter().filter(|s| **s != SIGHUP || !is_ignored(SIGHUP));
    let mut received = SignalsInfo::<WithOrigin>::new(handled).context("cannot handle signals")?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            privileges::keep_none();
            for origin in received.forever() {
                on(Signal { number: origin.signal, from_terminal: origin.cause == Cause::Kernel });
            }
        })
        .context("cannot start the signal thread")?;
    Ok(())
}

/// True if this process ignores `signal`, as SIGHUP under nohup.
fn is_ignored(signal: i32) -> bool {
    own_mask(&Sys::live(), "SigIgn").is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::{Signal, Signals, asked_to_end};
    use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    /// Longer than any signal takes.
    const LONG: Duration = Duration::from_secs(300);
    /// Long enough for a signal that is wrongly received to arrive in most runs. A test that waits
    /// for no signal cannot fail because of a delay.
    const SHORT: Duration = Duration::from_millis(100);

    fn set(signal: i32, action: libc::sighandler_t) {
        // SAFETY: SIG_IGN and SIG_DFL run no code of ours.
        unsafe { libc::signal(signal, action) };
    }

    fn raise(signal: i32) {
        // SAFETY: handled or ignored; otherwise this process ends, and its parent checks the
        // status.
        unsafe { libc::raise(signal) };
    }

    /// Signal handlers belong to the process, so each test runs in a process of its own.
    fn in_own_process(test: &str) -> ExitStatus {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored"])
            .arg(format!("machine::signals::tests::{test}"))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(output.contains("running 1 test"), "{output}");
        println!("{output}");
        child.status
    }

    #[test]
    fn signals_are_received_in_the_background_too() {
        assert!(in_own_process("background").success());
    }

    #[test]
    #[ignore = "changes signal handlers: run by signals_are_received_in_the_background_too"]
    fn background() {
        set(SIGHUP, libc::SIG_IGN);
        set(SIGINT, libc::SIG_IGN);
        let signals = Signals::catch().unwrap();
        raise(SIGHUP);
        assert_eq!(signals.wait(SHORT), None);
        for signal in [SIGINT, SIGTERM] {
            raise(signal);
            assert_eq!(signals.wait(LONG).map(|s| s.number), Some(signal));
        }
        let mut child = Command::new("sh");
        child.args(["-c", "kill -INT $$; kill -TERM $$"]);
        signals.pass_ignored_interrupt_to(&mut child);
        assert_eq!(child.status().unwrap().signal(), Some(SIGTERM));
    }

    #[test]
    fn a_second_signal_is_fatal() {
        assert_eq!(in_own_process("second").signal(), Some(SIGTERM));
    }

    #[test]
    #[ignore = "ends its process: run by a_second_signal_is_fatal"]
    fn second() {
        set(SIGHUP, libc::SIG_DFL);
        set(SIGINT, libc::SIG_DFL);
        let signals = Signals::catch().unwrap();
        let mut child = Command::new("sh");
        child.args(["-c", "kill -INT $$"]);
        signals.pass_ignored_interrupt_to(&mut child);
        assert_eq!(child.status().unwrap().signal(), Some(SIGINT));
        raise(SIGHUP);
        assert_eq!(signals.wait(LONG).map(|s| s.number), Some(SIGHUP));
        signals.release_after(Duration::ZERO);
        signals.catch_again();
        raise(SIGTERM);
        assert_eq!(signals.wait(LONG).map(|s| s.number), Some(SIGTERM));
        signals.release_after(Duration::ZERO);
        raise(SIGTERM);
    }

    #[test]
    fn a_repetition_is_dropped() {
        let (sender, received) = mpsc::channel();
        let fatal = Arc::new(AtomicBool::new(false));
        let signals = Signals { received, fatal: Arc::clone(&fatal), in_background: false };
        let signal = Signal { number: SIGINT, from_terminal: false };
        sender.send(signal).unwrap();
        signals.release_after(SHORT);
        assert!(fatal.load(Ordering::Relaxed));
        assert_eq!(signals.wait(Duration::ZERO), None);
        signals.catch_again();
        assert!(!fatal.load(Ordering::Relaxed));
        sender.send(signal).unwrap();
        assert_eq!(signals.wait(Duration::ZERO), Some(signal));
    }

    #[test]
    fn signals_end_a_command() {
        assert!(in_own_process("end").success());
    }

    #[tokio::test(flavor = "current_thread")]
    #[ignore = "changes signal handlers: run by signals_end_a_command"]
    async fn end() {
        set(SIGHUP, libc::SIG_IGN);
        let mut end = asked_to_end().unwrap();
        raise(SIGHUP);
        assert!(tokio::time::timeout(SHORT, &mut end).await.is_err());
        raise(SIGQUIT);
        tokio::time::timeout(LONG, end).await.unwrap();
        set(SIGHUP, libc::SIG_DFL);
        let end = asked_to_end().unwrap();
        raise(SIGHUP);
        tokio::time::timeout(LONG, end).await.unwrap();
    }
}
