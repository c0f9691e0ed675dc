//! How much the page cache reads ahead and holds back, against what the disks can do.

use crate::advice::quote::quote;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, Facts};
use crate::commands::doctor::finding::{Finding, Severity};

/// What a hard disk writes at best, in bytes a second: long runs, nothing in between.
const DISK_RATE: u64 = 150 << 20;
/// Seconds of writing at best from which the limit is far above what the array can write: files take ten to a hundred times as long.
const LONG: u64 = 30;
/// Seconds of writing at best that are advised.
const SHORT: u64 = 5;

/// Both.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let found = facts.arrays.iter().flat_map(|a| {
        let found = [read_ahead(a), dirty(facts, a)];
        found.into_iter().flatten().map(|f| Finding {
            array: Some(a.array.name.clone()),
            ..f
        })
    });
    found.collect()
}

fn read_ahead(of: &ArrayFacts) -> Option<Finding> {
    let disks = of.data_disks()?;
    let stripe = (u64::from(of.array.chunk_sectors) / 2).checked_mul(disks)?;
    let ahead = of.read_ahead_kib.filter(|kib| *kib < stripe)?;
    if !of.rotational() {
        return None;
    }
    let file = format!("/sys/block/{}/queue/read_ahead_kb", quote(&of.array.name));
    Some(
        Finding::new(
            "array-read-ahead",
            Severity::Info,
            format!("{ahead} KiB are read ahead, a stripe has {stripe} KiB"),
        )
        .seen(format!("queue/read_ahead_kb of {} is {ahead}", of.array.name))
        .seen(format!("chunks of {} KiB on {disks} data disks", of.array.chunk_sectors / 2))
        .figure("read_ahead_kib", ahead)
        .figure("stripe_kib", stripe)
        .why("a file that is read from begin to end keeps only those disks busy that the next read-ahead touches. md itself sets two stripes")
        .command(format!("echo {} > {file}", stripe.saturating_mul(2)))
        .risk(format!("more memory for each file that is read in order; undone with {ahead}, and does not outlive a reboot (a udev rule does)"))
        .unless("reads are small and random (a database): then it is small on purpose")
        .source("Linux, Documentation/ABI/stable/sysfs-block, read_ahead_kb; drivers/md/raid5.c, raid0.c, io_opt"),
    )
}

fn dirty(facts: &Facts, of: &ArrayFacts) -> Option<Finding> {
    let limit = facts.host.dirty.as_ref()?;
    // Of a disk of a virtual machine `rotational` says little.
    if !of.rotational() || !of.array.is_md() {
        return None;
    }
    let disks = of.data_disks().unwrap_or(1);
    let rate = DISK_RATE.saturating_mul(disks);
    let seconds = limit.bytes / rate;
    if seconds < LONG {
        return None;
    }
    let advised = rate.saturating_mul(SHORT);
    Some(
        Finding::new(
            "dirty-limits",
            Severity::Info,
            format!(
                "{} may wait in memory to be written: {seconds} s for this array at its very best",
                units::size(limit.bytes)
            ),
        )
        .seen(limit.how.clone())
        .seen(format!(
            "{disks} data disks that spin, {}/s each at best (reckoned, not measured)",
            units::size(DISK_RATE)
        ))
        .figure("limit_bytes", limit.bytes)
        .figure("seconds", seconds)
        .why("writers are slowed down only at that limit; until then everything looks fast. Then an fsync, an umount or a shutdown waits for all of it, minutes and more if it is \
              small files")
        .command(format!("echo {} > /proc/sys/vm/dirty_background_bytes", advised / 4))
        .command(format!("echo {advised} > /proc/sys/vm/dirty_bytes"))
        .risk("for the whole host: writers wait earlier, and bursts that fitted into memory do no more. Undone with the old values (a ratio that is written sets the bytes to 0); a file in \
               /etc/sysctl.d keeps it")
        .unless("bursts are what the memory is for, and nobody waits for fsync; or other, faster disks are what is written to")
        .source("Linux, Documentation/admin-guide/sysctl/vm.rst, dirty_bytes and dirty_ratio"),
    )
}
