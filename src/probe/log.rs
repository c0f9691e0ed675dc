//! Output of libbpf and the kernel's verifier, kept for error messages instead of printed to
//! stderr.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

use crate::machine::limits;

/// The last lines of output.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The last 200 lines that libbpf and the verifier printed, oldest first.
pub fn log() -> Vec<String> {
    LOG.lock().map(|l| l.clone()).unwrap_or_default()
}

/// Redirects libbpf's output from stderr to the log.
pub(super) fn collect() {
    set_print(Some((PrintLevel::Warn, keep)));
}

pub(super) fn keep(_: PrintLevel, line: String) {
    if let Ok(mut log) = LOG.lock() {
        // The verifier can print megabytes. The reason is at the end.
        log.extend(line.lines().map(str::to_owned));
        let excess = log.len().saturating_sub(200);
        log.drain(..excess);
    }
}

/// The name of the program that failed and the verifier's reason, which is its last line before the
/// statistics.
pub(super) fn loader_error() -> String {
    let log = log();
    let mut lines = log.iter().map(|l| l.trim().trim_start_matches("libbpf: "));
    let reason = lines
        .clone()
        .zip(lines.clone().skip(1))
        .rfind(|(_, next)| next.starts_with("processed ") || next.starts_with("verification time"))
        .map(|(line, _)| line)
        .filter(|l| !l.starts_with("verification time"));
    let failed = lines
        .clone()
        .rfind(|l| l.contains("prog '") && l.contains("failed"))
        .or_else(|| lines.next_back())
        .unwrap_or("no message from libbpf");
    match reason {
        Some(reason) => format!("{failed} ({reason})"),
        None => failed.to_owned(),
    }
}

/// The last part of an error chain, which is the cause.
pub(super) fn short(why: &str) -> String {
    why.rsplit(": ").next().unwrap_or(why).to_owned()
}

/// An error message for programs that the kernel refused.
pub(super) fn refusal(why: &str) -> String {
    let limit;
    let hint = if why.contains("-EMFILE") || why.contains("Too many open files") {
        limit = limits::open_files();
        &limit
    } else if why.contains("-EPERM") || why.contains("-1") && why.contains("permitted") {
        "run it as root, and check that the kernel is not locked down (cat \
         /sys/kernel/security/lockdown)"
    } else {
        "please report this line and `uname -r`"
    };
    format!("the kernel refused raidtrace's programs: {why}; {hint}")
}
