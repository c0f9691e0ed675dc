//! Phrases of the headlines.

use crate::analysis::snapshot::{ArraySnapshot, TaskIo, TaskSnapshot};
use crate::analysis::units;
use crate::origin::{Op, Origin, io_name};

/// Maximum number of members that a headline names.
const MAX_NAMED: usize = 4;

/// Name and operation of the IO with the most bytes; `None` if `io` is empty.
pub fn io_of(io: &[TaskIo]) -> Option<(&'static str, Op)> {
    let most = io.iter().max_by_key(|i| i.bytes)?;
    Some((io_name(most.origin, most.op), most.op))
}

pub fn and_more(members: &[String]) -> String {
    let mut names: Vec<&str> = members.iter().map(String::as_str).take(MAX_NAMED).collect();
    let more = format!("{} more", members.len().saturating_sub(MAX_NAMED));
    if members.len() > MAX_NAMED {
        names.push(&more);
    }
    units::list(&names)
}

/// `loop1 is`, `loop1 and loop2 are`: members with the verb for one or several.
pub fn subject(members: &[String], one: &str, several: &str) -> String {
    let verb = if members.len() == 1 { one } else { several };
    format!("{} {verb}", and_more(members))
}

/// Minimum share of a submitting task to be named.
const MIN_NAMED_SHARE: f64 = 0.5;
/// Minimum share of a named task for the share itself to be left out.
const MIN_WHOLE_SHARE: f64 = 0.95;

/// `, from postgres (pid 4242)` or `, 63 % from ...`: the task that submitted most of the IO that
/// `keep` accepts; empty if there is no such task. Names are untrusted bytes.
pub fn from_task(array: &ArraySnapshot, keep: impl Fn(Origin, Op) -> bool) -> String {
    let sum = |bytes: bool, task: &TaskSnapshot| -> f64 {
        let io = task.io.iter().filter(|i| keep(i.origin, i.op));
        io.map(|i| if bytes { i.bytes } else { i.bios } as f64).sum()
    };
    // Flushes have no bytes.
    let by_bytes = array.tasks.iter().any(|t| sum(true, t) > 0.0);
    let all: f64 = array.tasks.iter().map(|t| sum(by_bytes, t)).sum();
    let top = array.tasks.iter().map(|t| (t, sum(by_bytes, t)));
    let Some((task, part)) = top.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return String::new();
    };
    if all <= 0.0 || part < MIN_NAMED_SHARE * all {
        return String::new();
    }
    let comm = String::from_utf8_lossy(&task.comm);
    let name = match (&task.role, &task.cgroup) {
        (Some(role), _) if !task.is_throttled() => format!("{role} ({comm})"),
        (_, Some(cgroup)) if task.pid == 0 => format!("cgroup {cgroup}"),
        _ => format!("{comm} (pid {})", task.pid),
    };
    let cause = if task.writes_for_others() { for_task(array, &keep) } else { String::new() };
    if part >= MIN_WHOLE_SHARE * all {
        format!(", from {name}{cause}")
    } else {
        format!(", {} from {name}{cause}", units::percent(part / all))
    }
}

/// ` for touch (pid 4711)` or ` for mostly ...`: the task that dirtied most of the data that `keep`
/// accepts and that jbd2 or writeback writes; empty if there is no such task.
fn for_task(array: &ArraySnapshot, keep: impl Fn(Origin, Op) -> bool) -> String {
    // Without `--dirtied-origins`, dirtied metadata has no origin.
    let metadata =
        Origin::ALL.into_iter().filter(|o| o.is_metadata()).into_iter().any(|o| keep(o, Op::Write));
    let dirtied = |task: &TaskSnapshot| -> f64 {
        let io = task.dirtied.iter().filter(|i| match i.origin {
            Origin::Unknown => metadata,
            origin => keep(origin, i.op),
        });
        io.map(|i| i.bytes as f64).sum()
    };
    let all: f64 = array.tasks.iter().map(dirtied).sum();
    let top = array.tasks.iter().map(|t| (t, dirtied(t)));
    match top.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((task, part)) if all > 0.0 && part >= MIN_NAMED_SHARE * all => {
            let mostly = if part >= MIN_WHOLE_SHARE * all { "" } else { "mostly " };
            let comm = String::from_utf8_lossy(&task.comm);
            format!(" for {mostly}{comm} (pid {})", task.pid)
        }
        _ => String::new(),
    }
}
