//! Disks that try longer to read a bad sector than the kernel waits for them: the kernel resets them, and md throws a disk
//! out for one sector.

use super::list;
use crate::advice::quote::path_of;
use crate::commands::doctor::facts::{ArrayFacts, Disk};
use crate::commands::doctor::finding::{Finding, Severity};
use crate::machine::Member;

/// Seconds: longer than a disk without error recovery control takes for one sector (raid.wiki.kernel.org, Timeout Mismatch).
const LONG: u64 = 180;
const SOURCE: &str = "raid.wiki.kernel.org, Timeout Mismatch; smartctl(8), -l scterc; ACS-3, IDENTIFY DEVICE word 206; Linux, Documentation/ABI/testing/sysfs-ata";

/// On arrays that can mend a sector from the other members.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    let mends = matches!(
        of.array.level.as_str(),
        "raid1" | "raid4" | "raid5" | "raid6" | "raid10"
    );
    // Only of ATA disks is anything known; SAS disks and NVMe have limits of their own.
    let short: Vec<(&Member, &Disk, u64)> = of
        .array
        .members
        .iter()
        .zip(&of.disks)
        .filter(|(m, d)| m.queue.rotational && d.is_ata)
        .filter_map(|(m, d)| Some((m, d, d.timeout.filter(|t| *t < LONG)?)))
        .collect();
    if !mends || short.is_empty() {
        return Vec::new();
    }
    let (without, unknown): (Vec<_>, Vec<_>) = short
        .into_iter()
        .partition(|(_, d, _)| d.recovery_control == Some(false));
    let found = [no_control(&without), not_known(&unknown)];
    found.into_iter().flatten().collect()
}

fn names<'a>(disks: &[(&'a Member, &Disk, u64)]) -> Vec<&'a str> {
    disks.iter().map(|(m, _, _)| m.disk_name.as_str()).collect()
}

/// `30 s on sda and sdb`, by timeout.
fn waits(disks: &[(&Member, &Disk, u64)]) -> String {
    let mut by_time = std::collections::BTreeMap::<u64, Vec<&str>>::new();
    for (m, _, timeout) in disks {
        by_time.entry(*timeout).or_default().push(&m.disk_name);
    }
    let words = by_time
        .iter()
        .map(|(t, names)| format!("{t} s on {}", list(names)));
    words.collect::<Vec<_>>().join(", ")
}

fn no_control(disks: &[(&Member, &Disk, u64)]) -> Option<Finding> {
    let least = disks.iter().map(|(_, _, t)| *t).min()?;
    let finding = Finding::new(
        "member-timeout",
        Severity::Warning,
        format!(
            "{}: no limit on error recovery, and the kernel waits {least} s only",
            list(&names(disks))
        ),
    )
    .seen(format!("device/timeout: {}", waits(disks)))
    .seen("ata_device/*/id, word 206: no SCT Error Recovery Control on these")
    .figure("timeout_s", least)
    .why("such a disk tries to read a bad sector for up to two minutes or more and answers nothing meanwhile. The kernel gives up first, resets \
          the disk, which does not answer either, and md throws it out instead of rewriting one sector; during the rebuild the next disk \
          does the same")
    .risk("a disk that has died is noticed after three minutes only; takes effect at once, undone with the old value, and does not outlive a reboot (a udev \
           rule does)")
    .unless("the disk is soon replaced by one with error recovery control")
    .source(SOURCE);
    Some(disks.iter().fold(finding, |f, (m, _, _)| {
        f.command(format!(
            "echo {LONG} > /sys/block/{}/device/timeout",
            crate::advice::quote::quote(&m.disk_name)
        ))
    }))
}

/// The kernel shows whether a disk has the control, by its IDENTIFY data, but not what it is set to: that takes a command to the
/// disk, which doctor does not send.
fn not_known(disks: &[(&Member, &Disk, u64)]) -> Option<Finding> {
    let least = disks.iter().map(|(_, _, t)| *t).min()?;
    let has = disks
        .iter()
        .filter(|(_, d, _)| d.recovery_control == Some(true));
    let has: Vec<&str> = has.map(|(m, _, _)| m.disk_name.as_str()).collect();
    let finding = Finding::new(
        "member-timeout-unknown",
        Severity::Info,
        format!("whether {} give up on a sector before the kernel does is not known", list(&names(disks))),
    )
    .seen(format!("device/timeout: {}", waits(disks)))
    .seen(if has.is_empty() {
        "no ata_device/*/id below these disks' controller says whether they have SCT Error Recovery Control".to_owned()
    } else {
        format!("ata_device/*/id, word 206: {} can limit error recovery (SCT ERC)", list(&has))
    })
    .seen("what it is set to the kernel does not show: only the disk itself says so (smartctl)")
    .figure("timeout_s", least)
    .why("disks for RAID give up after 7 s, and md rewrites the sector from the others. Where the limit is disabled (the default of many others, \
          after each power-on) or absent, the kernel gives up first, and md throws the disk out")
    .risk("none: it only shows. What it shows has to be less than the timeout: else `smartctl -l scterc,70,70` sets 7 s until the next power-on; where it \
           says that the command is not supported, a timeout of 180 s")
    .unless("smartctl says less than the timeout: then nothing is wrong")
    .source(SOURCE);
    Some(disks.iter().fold(finding, |f, (m, _, _)| {
        f.command(format!("smartctl -l scterc {}", path_of(&m.disk_name)))
    }))
}
