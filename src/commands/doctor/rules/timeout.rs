//! Disks that retry a bad sector longer than the kernel waits: the kernel resets the disk, and md
//! fails it for one sector.

use std::collections::BTreeMap;

use super::list;
use crate::advice::quote::{path_of, quote};
use crate::commands::doctor::facts::{ArrayFacts, DiskFacts};
use crate::commands::doctor::finding::Finding;

/// Timeout in seconds that exceeds the retries of disks without error recovery control
/// (raid.wiki.kernel.org, Timeout Mismatch).
const LONG_TIMEOUT_S: u64 = 180;
const SOURCE: &str = "raid.wiki.kernel.org, Timeout Mismatch; smartctl(8), -l scterc; ACS-3, \
                      IDENTIFY DEVICE word 206; Linux, Documentation/ABI/testing/sysfs-ata";

/// Name of a disk, the disk, and its timeout in seconds.
type ShortTimeout<'a> = (&'a str, &'a DiskFacts, u64);

/// Short timeouts on arrays that can correct a sector from other members. Only ATA disks are
/// checked: SAS and NVMe disks have other limits.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    if !of.is_redundant() {
        return Vec::new();
    }
    let ata = of.members().filter(|(m, d)| m.queue.rotational && d.is_ata);
    let short = ata.filter_map(|(m, d)| {
        let timeout = d.timeout.filter(|t| *t < LONG_TIMEOUT_S)?;
        Some((m.disk_name.as_str(), d, timeout))
    });
    let (without, unknown): (Vec<ShortTimeout<'_>>, Vec<ShortTimeout<'_>>) =
        short.partition(|(_, d, _)| d.recovery_control == Some(false));
    let found = [no_control(&without), unknown_limit(&unknown)];
    found.into_iter().flatten().collect()
}

fn names<'a>(disks: &[ShortTimeout<'a>]) -> Vec<&'a str> {
    disks.iter().map(|(name, ..)| *name).collect()
}

/// `device/timeout: 30 s on sda and sdb`.
fn timeouts(disks: &[ShortTimeout<'_>]) -> String {
    let mut by_time = BTreeMap::<u64, Vec<&str>>::new();
    for (name, _, timeout) in disks {
        by_time.entry(*timeout).or_default().push(name);
    }
    let words = by_time.iter().map(|(t, names)| format!("{t} s on {}", list(names)));
    format!("device/timeout: {}", words.collect::<Vec<_>>().join(", "))
}

fn no_control(disks: &[ShortTimeout<'_>]) -> Option<Finding> {
    let least = disks.iter().map(|(.., t)| *t).min()?;
    let title = format!(
        "{}: unlimited error recovery, but the kernel waits only {least} s",
        list(&names(disks))
    );
    let command =
        |name| format!("echo {LONG_TIMEOUT_S} > /sys/block/{}/device/timeout", quote(name));
    Some(
        Finding::warning("member-timeout", title)
            .seen(timeouts(disks))
            .seen("ata_device/*/id, word 206: no SCT Error Recovery Control on these disks")
            .figure("timeout_s", least)
            .commands(names(disks).into_iter().map(command))
            .source(SOURCE),
    )
}

/// Disks that support error recovery control according to their IDENTIFY data, or for which that is
/// unknown. Only a command to the disk shows the current limit, and doctor sends none.
fn unknown_limit(disks: &[ShortTimeout<'_>]) -> Option<Finding> {
    let least = disks.iter().map(|(.., t)| *t).min()?;
    let capable: Vec<&str> = disks
        .iter()
        .filter(|(_, d, _)| d.recovery_control == Some(true))
        .map(|(name, ..)| *name)
        .collect();
    let title =
        format!("unknown if {} give up on a sector before the kernel does", list(&names(disks)));
    let command = |name| format!("smartctl -l scterc {}", path_of(name));
    Some(
        Finding::info("member-timeout-unknown", title)
            .seen(timeouts(disks))
            .seen(if capable.is_empty() {
                "no ata_device/*/id below the controller of these disks shows if they have SCT \
                 Error Recovery Control"
                    .to_owned()
            } else {
                format!(
                    "ata_device/*/id, word 206: {} can limit error recovery (SCT ERC)",
                    list(&capable)
                )
            })
            .seen("the kernel does not show the current limit: only the disk reports it (smartctl)")
            .figure("timeout_s", least)
            .commands(names(disks).into_iter().map(command))
            .source(SOURCE),
    )
}
