//! Health of arrays of device mapper's raid target, which LVM manages instead of mdadm.

use super::health::{self, Redundancy, redundancy_left};
use crate::advice::quote::quote;
use crate::commands::doctor::facts::ArrayFacts;
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::machine::dm::lvm_volume;

/// Missing and failed devices, and a running sync.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    let Some(name) = array.mapper_name.as_deref() else {
        return Vec::new();
    };
    let lv = lvm_volume(name);
    let status = format!("dmsetup status {}", quote(name));
    let action = array.sync_action.as_deref().unwrap_or("idle");
    let source = "Linux, Documentation/admin-guide/device-mapper/dm-raid.rst; lvmraid(7)";
    let mut found = Vec::new();
    if array.degraded > 0 {
        let left = match redundancy_left(array) {
            Redundancy::Left(n) => Some(n),
            _ => None,
        };
        let title = health::degraded(array, left);
        let slots: Vec<String> = array.missing_slots().iter().map(u32::to_string).collect();
        let finding = match left {
            Some(1..) => Finding::warning("array-degraded", title),
            _ => Finding::critical("array-degraded", title),
        };
        let finding = finding
            .seen(format!(
                "{status}: {} of {} devices not in sync, action {action}",
                array.degraded, array.raid_disks
            ))
            .seen_all(
                (!slots.is_empty())
                    .then(|| format!("no working device in slot {}", super::list(&slots))),
            )
            .figure("degraded", array.degraded)
            .figure("failures_left", left.unwrap_or(0))
            .figure("rebuilding", action == "recover")
            .why("until the device is rebuilt, its blocks come from the others")
            .source(source);
        found.push(match &lv {
            _ if action == "recover" => finding.risk("no action: wait until the rebuild ends"),
            Some(lv) if left.is_some() => finding
                .command(format!("lvs -a -o name,lv_health_status,devices {}", quote(lv)))
                .command(format!("lvconvert --repair {}", quote(lv)))
                // LVM refuses other changes of the group while it misses a disk.
                .command(format!("vgreduce --removemissing {}", quote(group_of(lv))))
                .risk(
                    "lvconvert replaces the failed device by free space of another disk of the \
                     volume group, and reads all that it copies or computes from; vgreduce \
                     removes a disk that is missing, unless a volume still needs it",
                )
                .not_when(
                    "the disk only lost its cable or power: lvchange --refresh takes it back and \
                     copies only the changes",
                ),
            _ => finding.command(status.clone()).risk("none: the command only reports"),
        });
    }
    if action != "idle" && !(action == "recover" && array.degraded > 0) {
        let done = array.sync_completed.filter(|(_, total)| *total > 0);
        let at = done.map_or(String::new(), |(done, total)| {
            format!(", {:.1} % done", 100.0 * done as f64 / total as f64)
        });
        let title = match action {
            "frozen" => "resync and rebuild are frozen".to_owned(),
            _ => format!("{action} in progress{at}"),
        };
        let finding = Finding::info("array-syncing", title)
            .raise_if(!matches!(action, "check" | "repair"), FindingSeverity::Warning)
            .seen(format!("{status}: action {action}"))
            .figure("action", action)
            .why(match action {
                "frozen" => "md neither rebuilds nor resyncs until the action is changed",
                _ => "it reads every device until it ends, in addition to the load",
            })
            .source(source);
        found.push(match (action, &lv) {
            ("check" | "repair", _) => finding
                .command(format!("dmsetup message {} 0 idle", quote(name)))
                .risk(format!("none: the next {action} begins again"))
                .not_when("the array has little other load"),
            ("frozen", _) => finding
                .command(format!("dmsetup message {} 0 idle", quote(name)))
                .risk("the pending rebuild or resync starts at once")
                .not_when("an administrator froze it to replace a disk"),
            (_, Some(lv)) => finding
                .command(format!("lvchange --maxrecoveryrate 10M {}", quote(lv)))
                .risk("it takes longer, and the redundancy is reduced until it ends")
                .not_when("nothing waits for the array"),
            _ => finding.risk("no action: wait until it ends"),
        });
    }
    found
}

/// The volume group of `vg/lv`.
fn group_of(volume: &str) -> &str {
    volume.split('/').next().unwrap_or(volume)
}
