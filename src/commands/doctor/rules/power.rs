//! Data at risk in a power failure: ext4 considers it written, but it is in a disk's cache.

use super::list;
use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::Finding;

/// `EXT4_DEFM_NOBARRIER` of s_default_mount_opts.
const DEFAULT_NOBARRIER: u32 = 0x100;

/// Disabled barriers, and asynchronous commits.
pub fn check(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let found = [no_barriers(array, fs), async_commit(fs)];
    found.into_iter().flatten().collect()
}

/// The file that sets a mount option, for removing it.
fn set_in(fs: &FsFacts, option: impl Fn(&str) -> bool) -> Option<String> {
    let has = |options: &str| options.split(',').any(|o| option(o.trim()));
    let stored = fs.superblock.as_ref().map(|sb| sb.mount_opts.as_str());
    let origin = if fs.fstab.as_deref().is_some_and(has) {
        "/etc/fstab"
    } else if stored.is_some_and(has) {
        "the superblock's mount options (tune2fs -E mount_opts)"
    } else {
        return None;
    };
    Some(format!("from {origin}: remove it there, or the next mount sets it again"))
}

fn no_barriers(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    // These caches lose unflushed data.
    let disks = array.disks_with(|_, d| d.write_cache == "write back");
    if !fs.has_option("nobarrier") || disks.is_empty() {
        return None;
    }
    let finding = Finding::critical(
        "fs-nobarrier",
        "barriers are off: a power failure can damage this filesystem",
    )
    .seen(fs.option_seen("nobarrier"))
    .seen(format!("queue/write_cache is write back on {}", list(&disks)))
    .seen_all(set_in(fs, |o| matches!(o, "nobarrier" | "barrier=0")))
    .figure("disks_with_volatile_cache", disks.len())
    .why(
        "ext4 then never flushes disk caches, neither around a journal commit nor for fsync: \
         disks write their caches in any order, and a power failure can leave a journal that does \
         not match the disk, and lose files after a successful fsync",
    )
    .command(format!("mount -o remount,barrier=1 {}", fs.mount_point()))
    .risk("fsync and journal commits wait for flushes, as they should; undone with barrier=0")
    .not_when(
        "every disk and controller keeps its cache through a power failure (capacitors, battery) \
         although it reports write back",
    )
    .source(
        "Linux, Documentation/admin-guide/ext4.rst, barrier; \
         Documentation/block/writeback_cache_control.rst",
    );
    let sb = fs.superblock.as_ref();
    if sb.is_none_or(|sb| sb.default_mount_opts & DEFAULT_NOBARRIER == 0) {
        return Some(finding);
    }
    Some(
        finding
            .seen("the superblock's default mount options contain nobarrier")
            .command(format!("tune2fs -o ^nobarrier {}", fs.path())),
    )
}

fn async_commit(fs: &FsFacts) -> Option<Finding> {
    if !fs.has_option("journal_async_commit") {
        return None;
    }
    Some(
        Finding::warning(
            "fs-async-commit",
            "journal_async_commit: after a power failure new files can contain deleted data of \
             other files",
        )
        .seen(fs.option_seen("journal_async_commit"))
        .seen_all(set_in(fs, |o| o == "journal_async_commit"))
        .why(
            "the commit block is written together with the rest of the transaction, and the disk \
             is flushed once, afterwards: only a checksum shows that a transaction is complete, \
             and it can be replayed although the data of its files never left the cache. ext4 \
             therefore refuses it with data=ordered",
        )
        .commands(fs.mount_again("data=ordered"))
        .risk(
            "the filesystem is unavailable for a moment, as a remount cannot change it; add the \
             other options of /etc/fstab. Each commit waits for one more flush",
        )
        .not_when("the content can be created again after a crash")
        .source(
            "Linux, d4f761074353 (data=ordered refused) and 0e3d2a6313d0 (one flush); \
             Documentation/admin-guide/ext4.rst",
        ),
    )
}
