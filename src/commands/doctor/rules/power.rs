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
    .command(format!("mount -o remount,barrier=1 {}", fs.mount_point()));
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
        .commands(fs.mount_again("data=ordered")),
    )
}
