//! Processes that a test starts, with the signal dispositions of a login shell.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::DEADLINE;

/// Starts `command` with the default action for every signal that the tests send. Ignored signals
/// stay ignored over exec: the suite runs with SIGHUP ignored under nohup, and with SIGINT and
/// SIGQUIT ignored in the background of a script. Every process of a test must be started here.
pub fn spawn(command: &mut Command) -> Child {
    // SAFETY: between fork and exec, `default_signals` only calls functions that are
    // async-signal-safe.
    unsafe { command.pre_exec(default_signals) };
    command.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", command.get_program()))
}

fn default_signals() -> io::Result<()> {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: SIG_DFL runs no code.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits until `done` returns true. Panics at the deadline with `what` was missing. Each pause is
/// twice as long as the one before, from 1 ms up to 30 ms.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !done() {
        assert!(start.elapsed() < DEADLINE, "no {what}");
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(30));
    }
}

/// Pids of the children of a process. /proc/PID/task/PID/children needs CONFIG_PROC_CHILDREN.
pub fn children(parent: u32) -> Vec<u32> {
    let line = format!("PPid:\t{parent}");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|text| text.lines().any(|l| l == line))
    })
    .collect()
}

/// The lines of a pipe, as they arrive.
pub fn lines(pipe: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let mut line = Vec::new();
            match pipe.read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return,
            }
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The remaining lines of a process that has ended. A descendant can keep the pipe open, which is
/// an error at the deadline.
pub fn rest(lines: &Receiver<String>) -> String {
    let mut text = String::new();
    loop {
        match lines.recv_timeout(DEADLINE) {
            Ok(line) => text.push_str(&line),
            Err(RecvTimeoutError::Disconnected) => return text,
            Err(RecvTimeoutError::Timeout) => panic!("the pipe stays open: {text}"),
        }
    }
}
