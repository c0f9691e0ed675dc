//! What a power failure can take: data that ext4 believes to be on the disk, and is in its cache.

use super::list;
use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};

/// `EXT4_DEFM_NOBARRIER` of s_default_mount_opts.
const DEFAULT_NOBARRIER: u32 = 0x100;

/// Barriers turned off, commits that do not wait.
pub fn check(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let found = [no_barriers(array, fs), async_commit(fs)];
    found.into_iter().flatten().collect()
}

/// Disks whose cache loses what has not been flushed (queue/write_cache).
fn volatile(array: &ArrayFacts) -> Vec<&str> {
    let members = array.array.members.iter().zip(&array.disks);
    members
        .filter(|(_, d)| d.write_cache == "write back")
        .map(|(m, _)| m.disk_name.as_str())
        .collect()
}

/// Where an option in force was set, so that it can be taken out there.
fn set_in(fs: &FsFacts, option: impl Fn(&str) -> bool) -> Option<&'static str> {
    let has = |options: &str| options.split(',').any(|o| option(o.trim()));
    let stored = fs.superblock.as_ref().map(|sb| sb.mount_opts.as_str());
    if fs.fstab.as_deref().is_some_and(has) {
        Some("/etc/fstab")
    } else if stored.is_some_and(has) {
        Some("the superblock's mount options (tune2fs -E mount_opts)")
    } else {
        None
    }
}

fn no_barriers(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let disks = volatile(array);
    if !fs.has_option("nobarrier") || disks.is_empty() {
        return None;
    }
    let mut finding = Finding::new(
        "fs-nobarrier",
        Severity::Critical,
        "barriers are off: a power failure can damage this filesystem",
    )
    .seen(format!("/proc/fs/ext4/{}/options: nobarrier", fs.fs.name))
    .seen(format!("queue/write_cache is write back on {}", list(&disks)))
    .figure("disks_with_volatile_cache", disks.len())
    .why("ext4 flushes no disk cache then, neither around a journal commit nor for fsync: disks write their caches in any order, and a \
          power failure leaves a journal that says more than is there, and files lost after fsync has said that they are safe")
    .command(format!("mount -o remount,barrier=1 {}", fs.mount_point()))
    .risk("fsync and journal commits wait for flushes, which is what they are for; undone with barrier=0")
    .unless("every disk and controller keeps its cache through a power failure (capacitors, battery) although it says write back")
    .source("Linux, Documentation/admin-guide/ext4.rst, barrier; Documentation/block/writeback_cache_control.rst");
    if let Some(place) = set_in(fs, |o| matches!(o, "nobarrier" | "barrier=0")) {
        finding = finding.seen(format!(
            "from {place}: to be taken out there, or the next mount has it again"
        ));
    }
    let sb = fs.superblock.as_ref();
    if sb.is_some_and(|sb| sb.default_mount_opts & DEFAULT_NOBARRIER != 0) {
        finding = finding
            .seen("the superblock's default mount options have nobarrier")
            .command(format!("tune2fs -o ^nobarrier {}", fs.path()));
    }
    Some(finding)
}

fn async_commit(fs: &FsFacts) -> Option<Finding> {
    if !fs.has_option("journal_async_commit") {
        return None;
    }
    let mut finding = Finding::new(
        "fs-async-commit",
        Severity::Warning,
        "journal_async_commit: after a power failure new files can hold what others deleted",
    )
    .seen(format!(
        "/proc/fs/ext4/{}/options: journal_async_commit",
        fs.fs.name
    ))
    .why("the commit block is written with the rest of the transaction and the disk flushed once, afterwards: that a transaction is whole \
          only its checksum says, and it can be replayed although the data of its files never left the cache. For that reason ext4 refuses it \
          with data=ordered")
    .command(format!("umount {}", fs.mount_point()))
    .command(format!("mount -o data=ordered {} {}", fs.path(), fs.mount_point()))
    .risk("the filesystem is away for a moment, and a remount cannot change it; other options of /etc/fstab have to be given too. Each \
           commit waits for one flush more")
    .unless("what is on it can be made again after a crash")
    .source("Linux, d4f761074353 (data=ordered refused) and 0e3d2a6313d0 (one flush); Documentation/admin-guide/ext4.rst");
    if let Some(place) = set_in(fs, |o| o == "journal_async_commit") {
        finding = finding.seen(format!("from {place}: to be taken out there first"));
    }
    Some(finding)
}
