//! What somebody has to do from time to time: read every sector, and hear of a disk that failed.

use crate::advice::quote::quote;
use crate::commands::doctor::facts::{ArrayFacts, Facts};
use crate::commands::doctor::finding::{Finding, Severity};

/// Days: Debian and mdadm's own timer check each month.
const MONTH: u64 = 35;

fn is_redundant(of: &ArrayFacts) -> bool {
    matches!(
        of.array.level.as_str(),
        "raid1" | "raid4" | "raid5" | "raid6" | "raid10"
    )
}

/// Both.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let arrays = facts.arrays.iter().filter(|a| is_redundant(a));
    let mut found: Vec<Finding> = arrays
        .clone()
        .filter_map(|a| unchecked(facts.host.uptime_days, a))
        .collect();
    if facts.host.monitored == Some(false) {
        found.extend(not_monitored(&arrays.collect::<Vec<_>>()));
    }
    found
}

/// The kernel remembers the last kind of sync, not its time, and only since the array was assembled; of mdadm's scripts mdcheck
/// leaves a file (/var/lib/mdcheck/Checked_UUID), Debian's checkarray nothing.
fn unchecked(uptime: Option<u64>, of: &ArrayFacts) -> Option<Finding> {
    let none = matches!(of.last_sync.as_deref(), Some("none" | "idle"));
    let idle = of.array.sync_action.as_deref() == Some("idle");
    let days = uptime.filter(|d| *d >= MONTH)?;
    if !none || !idle || of.checked_days.is_some_and(|d| d < MONTH) {
        return None;
    }
    let name = &of.array.name;
    let finding = Finding {
        array: Some(name.clone()),
        ..Finding::new(
            "array-unchecked",
            Severity::Info,
            format!("no check since the array was assembled; the host is up for {days} days"),
        )
    }
    .seen(format!(
        "md/last_sync_action is {}: neither check nor resync since it was assembled",
        of.last_sync.as_deref().unwrap_or_default()
    ))
    .seen(match of.checked_days {
        Some(days) => format!("/var/lib/mdcheck: mdcheck was last at it {days} days ago"),
        None => "/var/lib/mdcheck has nothing of it (Debian's checkarray leaves no record: only the kernel's word counts)".to_owned(),
    })
    .figure("uptime_days", days)
    .why("a sector that cannot be read any more is found when it is read: without checks that is during a rebuild, when no other copy is left")
    .command(format!("echo check > /sys/block/{}/md/sync_action", quote(name)))
    .risk("reads every sector of all members, for hours, beside what users do (md/sync_speed_max bounds it); changes nothing. Ended with `idle`")
    .unless("the array was assembled lately: the kernel does not say when")
    .source("md(4), SCRUBBING AND MISMATCHES; mdadm, misc/mdcheck; Linux, Documentation/admin-guide/md.rst, last_sync_action");
    Some(finding)
}

fn not_monitored(arrays: &[&ArrayFacts]) -> Option<Finding> {
    let names: Vec<&str> = arrays.iter().map(|a| a.array.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    Some(
        Finding::new(
            "monitor-none",
            Severity::Info,
            "no mdadm --monitor runs: nobody is notified when a disk fails",
        )
        .seen("none of the processes in /proc is `mdadm --monitor` (or --follow, -F)")
        .seen(format!("redundant: {}", super::list(&names)))
        .why("an array that has lost a disk goes on as before; the next failure is the one that is noticed")
        .command("systemctl start mdmonitor")
        .risk("none: it waits for events. It ends at once without MAILADDR or PROGRAM in mdadm.conf; `mdadm --monitor --scan --oneshot --test` sends a trial message")
        .unless("something else watches md/degraded or /proc/mdstat (node_exporter, a cron job, mdadm --monitor --oneshot from a timer)")
        .source("mdadm(8), MONITOR MODE"),
    )
}
