//! Maintenance of redundant arrays: regular checks, and notification of failures.

use super::list;
use crate::commands::doctor::facts::{ArrayFacts, Facts};
use crate::commands::doctor::finding::Finding;

/// Minimum number of days without a check to report: Debian and mdadm's own timer check monthly.
const MIN_DAYS: u64 = 35;

pub fn check(facts: &Facts) -> Vec<Finding> {
    // dmeventd watches LVM's arrays.
    let of_mdadm = |a: &&ArrayFacts| a.is_redundant() && a.array.mapper_name.is_none();
    let arrays = facts.arrays.iter().filter(of_mdadm);
    let unchecked = arrays.clone().filter_map(|a| unchecked(facts.host.uptime_days, a));
    let names: Vec<&str> = arrays.map(|a| a.array.name.as_str()).collect();
    let monitor =
        (facts.host.monitored == Some(false) && !names.is_empty()).then(|| no_monitor(&names));
    unchecked.chain(monitor).collect()
}

/// No check since assembly. The kernel keeps the last kind of sync, but not its time. mdadm's
/// mdcheck leaves a file (/var/lib/mdcheck/Checked_UUID), Debian's checkarray nothing.
fn unchecked(uptime: Option<u64>, of: &ArrayFacts) -> Option<Finding> {
    let last_sync = of.last_sync.as_deref().filter(|l| matches!(*l, "none" | "idle"))?;
    let days = uptime.filter(|d| *d >= MIN_DAYS)?;
    let idle = of.array.sync_action.as_deref() == Some("idle");
    if !idle || of.checked_days.is_some_and(|d| d < MIN_DAYS) {
        return None;
    }
    let title = format!("not checked since assembly; the host has been up for {days} days");
    Some(
        Finding::info("array-unchecked", title)
            .on_array(&of.array.name)
            .seen(format!(
                "md/last_sync_action is {last_sync}: neither check nor resync since assembly"
            ))
            .seen(match of.checked_days {
                Some(days) => {
                    format!("/var/lib/mdcheck: mdcheck last worked on this array {days} days ago")
                }
                None => "/var/lib/mdcheck has no record of this array (Debian's checkarray leaves \
                         none)"
                    .to_owned(),
            })
            .figure("uptime_days", days)
            .command(format!("echo check > {}", of.sysfs("md/sync_action"))),
    )
}

fn no_monitor(arrays: &[&str]) -> Finding {
    Finding::info(
        "monitor-none",
        "mdadm --monitor is not running: nobody is notified of a disk failure",
    )
    .seen("no process in /proc is `mdadm --monitor` (or --follow, -F)")
    .seen(format!("redundant: {}", list(arrays)))
    .command("systemctl start mdmonitor")
}
