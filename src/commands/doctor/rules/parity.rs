//! Parity levels: the write hole, the stripe cache with its threads, and discards.

use super::list;
use crate::advice::kernel::Kernel;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, FindingSeverity};

/// NR_STRIPES of raid5.c.
const DEFAULT_CACHE: u64 = 256;
/// Advised stripe_cache_size.
const CACHE: u64 = 4096;
/// Advised group_thread_cnt.
const THREADS: u64 = 4;
const DISCARD: &str = "/sys/module/raid456/parameters/devices_handle_discard_safely";
const DISCARD_SOURCE: &str =
    "Linux, drivers/md/raid5.c, raid5_set_limits (devices_handle_discard_safely)";

/// Findings on arrays.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    if !of.has_parity() {
        return Vec::new();
    }
    let found = [write_hole(of), stripe_cache(of), trusted_discards(of)];
    found.into_iter().flatten().collect()
}

/// The mount option `discard` on an array on which md drops discards.
pub fn discards(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let capable = array.disks_with(|_, d| d.discards);
    let dropped = array.has_parity() && array.discards == Some(false) && !capable.is_empty();
    if !dropped || !fs.has_option("discard") {
        return Vec::new();
    }
    let parameter =
        array.discards_trusted.map(|safe| format!("{DISCARD}: {}", if safe { "Y" } else { "N" }));
    vec![
        Finding::info(
            "parity-discard-inert",
            "the mount option discard has no effect: md drops discards",
        )
        .seen(fs.option_seen("discard"))
        .seen(format!(
            "queue/discard_max_bytes is 0 on {}, and not on {}",
            array.array.name,
            list(&capable)
        ))
        .seen_all(parameter)
        .source(DISCARD_SOURCE),
    ]
}

fn write_hole(of: &ArrayFacts) -> Option<Finding> {
    let policy =
        of.array.consistency_policy.as_deref().filter(|p| matches!(*p, "resync" | "bitmap"))?;
    Some(
        Finding::info(
            "parity-write-hole",
            "a crash together with a lost disk can damage blocks that were not being written",
        )
        .seen(format!(
            "md/consistency_policy is {policy}: neither a journal nor a partial parity log"
        )),
    )
}

fn stripe_cache(of: &ArrayFacts) -> Option<Finding> {
    let (size, threads) = (of.stripe_cache?, of.threads?);
    let array = &of.array;
    if of.rotational() || size > DEFAULT_CACHE || threads > 0 || array.members.is_empty() {
        return None;
    }
    let bytes_per_stripe = 4096 * u64::from(array.raid_disks);
    let memory = |stripes: u64| units::size(stripes.saturating_mul(bytes_per_stripe));
    Some(
        Finding::info(
            "parity-stripe-cache",
            format!("a single thread and a cache of {size} stripes for solid-state disks"),
        )
        .seen(format!("md/group_thread_cnt is 0, md/stripe_cache_size {size} ({})", memory(size)))
        .seen("queue/rotational is 0 on all members")
        .figure("stripe_cache_size", size)
        .figure("group_thread_cnt", threads)
        .command(format!("echo {THREADS} > {}", of.sysfs("md/group_thread_cnt")))
        .command(format!("echo {CACHE} > {}", of.sysfs("md/stripe_cache_size")))
        .risk(format!(
            "the array pauses for a moment; the cache takes up to {} of memory. Undone with the \
             old values; neither survives a reboot",
            memory(CACHE)
        ))
        .not_when(format!(
            "{}_{} is far from 100 % of a CPU under load: then it is not the bottleneck",
            array.name, array.level
        )),
    )
}

fn trusted_discards(of: &ArrayFacts) -> Option<Finding> {
    if of.discards_trusted != Some(true) || of.discards != Some(true) {
        return None;
    }
    let mismatches = of.mismatches > 0 && of.last_sync.as_deref() == Some("check");
    let last_check = format!("the last check found {} mismatched sectors", of.mismatches);
    Some(
        Finding::info(
            "parity-discard-trusted",
            "md relies on every member to return zeroes for discarded blocks",
        )
        .raise_if(mismatches, FindingSeverity::Warning)
        .seen(format!("{DISCARD}: Y; queue/discard_max_bytes of {} is not 0", of.array.name))
        .seen_all(mismatches.then_some(last_check))
        .command(format!("echo N > {DISCARD}"))
        .source(DISCARD_SOURCE),
    )
}
