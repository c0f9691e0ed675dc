//! A slow operation in one sentence.

use super::event::OperationKind;
use super::names::{Names, SlowOperation, task};
use super::phase::Phase;
use super::waterfall::PhaseTime;
use crate::analysis::units;
use crate::printable::sanitize;

/// Minimum share of the total for a phase to be named.
const MIN_SHARE: f64 = 0.15;
/// Maximum number of phases that are named.
const MAX_PHASES: usize = 3;

/// A time in ns: `1.8 s`, `120 ms`, `0.4 ms`, `20 µs`.
pub fn time(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms >= 999.5 {
        format!("{:.1} s", ms / 1e3)
    } else if ms >= 9.95 {
        format!("{ms:.0} ms")
    } else if ns >= 99_500 || ns == 0 {
        format!("{ms:.1} ms")
    } else {
        format!("{:.0} µs", ns as f64 / 1e3)
    }
}

/// `fsync of /srv/db/redo.log by mysqld(812): 1.8 s; 62 % the commit's flush on sdc (1.1 s; the
/// other 11 members 4 ms)`.
pub fn sentence(slow: &SlowOperation, names: &Names) -> String {
    let total = slow.operation.total_ns();
    let so_far = if slow.unended { " so far" } else { "" };
    let mut text = format!("{}: {}{so_far}", subject(slow, names), time(total));
    let longest = slow.waterfall.longest();
    let large = longest
        .iter()
        .filter(|(_, part)| part.ns as f64 >= MIN_SHARE * total as f64)
        .take(MAX_PHASES);
    for (number, (phase, part)) in large.enumerate() {
        let share = units::percent(part.ns as f64 / total.max(1) as f64);
        text.push_str(if number == 0 { "; " } else { ", " });
        text.push_str(&format!("{share} {}", part_words(*phase, part, slow, names)));
    }
    text
}

/// `direct write of /srv/db/ibd by mysqld(812)`.
pub fn subject(slow: &SlowOperation, names: &Names) -> String {
    let op = &slow.operation;
    let how = match (op.flags.direct, op.flags.syncs) {
        (true, true) => "direct synchronous ",
        (true, false) => "direct ",
        (false, true) => "synchronous ",
        (false, false) => "",
    };
    let object = match (&op.file, op.dev) {
        (Some(file), _) => match op.kind {
            OperationKind::Rename | OperationKind::Unlink | OperationKind::Create => {
                format!(" in {}", names.file(file))
            }
            _ => format!(" of {}", names.file(file)),
        },
        (None, 0) => " of all filesystems".to_owned(),
        (None, dev) => format!(" of {}", names.device(dev)),
    };
    let kind = match op.kind {
        OperationKind::Other => "call".to_owned(),
        kind => kind.to_string(),
    };
    format!("{how}{kind}{object} by {}", task(&op.task))
}

/// A phase with its cause.
pub fn part_words(phase: Phase, part: &PhaseTime, slow: &SlowOperation, names: &Names) -> String {
    let culprit = &part.culprit;
    let mut text = phase.words().to_owned();
    if let Some((dev, ns)) = culprit.member {
        // A member that is not slower than the others is not the cause.
        let is_slower = ns > culprit.other_members_ns.saturating_mul(5) / 4;
        let on = if is_slower { " on" } else { ", last on" };
        text.push_str(&format!("{on} {} ({}", names.device(dev), time(ns)));
        let members = slow.array.as_ref().and_then(|a| names.members.get(a));
        let others = at_most(culprit.other_members_ns);
        match members.copied().unwrap_or(1) {
            0 | 1 => {}
            2 => text.push_str(&format!("; the other member {others}")),
            n => text.push_str(&format!("; the other {} members {others}", n - 1)),
        }
        text.push(')');
    }
    if let Some(file) = &culprit.file {
        text.push_str(&format!(" of {}", names.file(file)));
    }
    if let Some(bytes) = culprit.bytes {
        text.push_str(&format!(" (up to {})", units::size(bytes)));
    }
    if let Some(journal) = culprit.journal {
        text += &format!(" on the journal's device {}", names.device(journal));
    }
    let verb = match phase {
        Phase::InodeLock => "held",
        Phase::LogSpace => "freed",
        _ if culprit.file.is_some() => "written",
        _ => "requested",
    };
    text += &match (culprit.task.as_ref().map(task), &culprit.what) {
        (Some(by), Some(what)) => format!(", held by {by} ({})", sanitize(what.as_bytes())),
        (Some(by), None) => format!(", {verb} by {by}"),
        (None, Some(what)) => format!(" ({what})"),
        (None, None) => String::new(),
    };
    text
}

/// Longest flush in words. 0 means that no flush took a millisecond: shorter flushes are not
/// reported.
fn at_most(ns: u64) -> String {
    match ns {
        0 => "less than 1 ms".to_owned(),
        ns => time(ns),
    }
}
