//! What libbpf and the kernel's verifier print, kept for messages instead of going to stderr.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

/// What libbpf and the verifier said last.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The lines that libbpf and the verifier have printed last, oldest first: for a report of what a
/// kernel refused.
pub fn log() -> Vec<String> {
    LOG.lock().map(|l| l.clone()).unwrap_or_default()
}

/// From here on libbpf writes into the log, not to stderr.
pub(super) fn collect() {
    set_print(Some((PrintLevel::Warn, keep)));
}

pub(super) fn keep(_: PrintLevel, line: String) {
    if let Ok(mut log) = LOG.lock() {
        // The verifier can print megabytes; the reason is at the end.
        log.extend(line.lines().map(str::to_owned));
        let excess = log.len().saturating_sub(200);
        log.drain(..excess);
    }
}

/// Which program failed, and the verifier's own reason: its last line before the statistics.
pub(super) fn last_words() -> String {
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
        .unwrap_or("libbpf said nothing");
    match reason {
        Some(reason) => format!("{failed} ({reason})"),
        None => failed.to_owned(),
    }
}

pub(super) fn short(why: &str) -> String {
    why.rsplit(": ").next().unwrap_or(why).to_owned()
}

pub(super) fn refusal(why: &str) -> String {
    let hint = if why.contains("-EPERM") || why.contains("-1") && why.contains("permitted") {
        "are you root, and is the kernel not locked down (cat /sys/kernel/security/lockdown)?"
    } else {
        "please report this line and `uname -r`"
    };
    format!("the kernel refused raidtrace's programs: {why}; {hint}")
}
