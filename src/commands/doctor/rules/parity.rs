//! What only parity levels have: the write hole, one thread and its cache, and discards that they cannot pass on.

use crate::advice::kernel::Kernel;
use crate::advice::quote::quote;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};

/// NR_STRIPES of raid5.c.
const DEFAULT_CACHE: u64 = 256;
/// What is advised instead.
const CACHE: u64 = 4096;
const THREADS: u64 = 4;
const DISCARD: &str = "/sys/module/raid456/parameters/devices_handle_discard_safely";

/// On arrays.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    if !of.has_parity() {
        return Vec::new();
    }
    let found = [write_hole(of), stripe_cache(of), trusted_discards(of)];
    found.into_iter().flatten().collect()
}

/// On filesystems: `discard` in force, which reaches no disk.
pub fn discards(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let can: Vec<&str> = array
        .array
        .members
        .iter()
        .zip(&array.disks)
        .filter(|(_, d)| d.discards)
        .map(|(m, _)| m.disk_name.as_str())
        .collect();
    let dropped = array.has_parity() && array.discards == Some(false) && !can.is_empty();
    if !dropped || !fs.has_option("discard") {
        return Vec::new();
    }
    let mut finding = Finding::new(
        "parity-discard-inert",
        Severity::Info,
        "the mount option discard does nothing: md passes no discards on",
    )
    .seen(format!("/proc/fs/ext4/{}/options: discard", fs.fs.name))
    .seen(format!(
        "queue/discard_max_bytes is 0 on {}, and not on {}",
        array.array.name,
        super::list(&can)
    ))
    .why("RAID 4, 5 and 6 pass discards on only where raid456.devices_handle_discard_safely is Y and the disks take whole stripes: parity stays right only if \
          discarded blocks read as zeroes. Without that SSDs never hear what is free")
    .risk("nothing is lost but the SSDs' endurance. With Y and a disk that returns anything but zeroes parity is wrong, and a rebuild writes garbage")
    .unless("nobody expects the disks to be told")
    .source("Linux, drivers/md/raid5.c, raid5_set_limits (devices_handle_discard_safely)");
    if let Some(safe) = array.discards_trusted {
        finding = finding.seen(format!("{DISCARD}: {}", if safe { "Y" } else { "N" }));
    }
    vec![finding]
}

fn write_hole(of: &ArrayFacts) -> Option<Finding> {
    let policy = of.array.consistency_policy.as_deref();
    let policy = policy.filter(|p| matches!(*p, "resync" | "bitmap"))?;
    Some(
        Finding::new(
            "parity-write-hole",
            Severity::Info,
            "a crash and a lost disk together can damage blocks that nobody was writing",
        )
        .seen(format!("md/consistency_policy is {policy}: neither a journal nor a partial parity log"))
        .why("a stripe that was half written at a crash has wrong parity until the resync reaches it. If a disk is missing by then, its block in that stripe is computed from \
              wrong parity: old data change, silently")
        .risk("what closes it costs an extra write for each stripe: `mdadm --grow --consistency-policy=ppl` (RAID 5 only, without a bitmap), or a journal device \
               (`mdadm --create --write-journal`, or `--add-journal` to an array that had one)")
        .unless("the power does not fail, or a resync after a crash finds all disks: then it is a matter of hours at most")
        .source("Linux, Documentation/driver-api/md/raid5-ppl.rst and raid5-cache.rst; mdadm(8), --consistency-policy"),
    )
}

fn stripe_cache(of: &ArrayFacts) -> Option<Finding> {
    let (size, threads) = (of.stripe_cache?, of.threads?);
    let array = &of.array;
    if of.rotational() || size > DEFAULT_CACHE || threads > 0 || array.members.is_empty() {
        return None;
    }
    let memory = |entries: u64| {
        units::size(
            entries
                .saturating_mul(4096)
                .saturating_mul(array.raid_disks.into()),
        )
    };
    let md = format!("/sys/block/{}/md", quote(&array.name));
    Some(
        Finding::new(
            "parity-stripe-cache",
            Severity::Info,
            format!("one thread and a cache of {size} stripes for disks that do not spin"),
        )
        .seen(format!("md/group_thread_cnt is 0, md/stripe_cache_size {size} ({})", memory(size)))
        .seen("queue/rotational is 0 on all members")
        .figure("stripe_cache_size", size)
        .figure("group_thread_cnt", threads)
        .why("parity is computed and stripes are handled by one kernel thread, which fast disks outrun; and with few stripes in the cache partial writes \
              go out before they are joined, for which md reads first")
        .command(format!("echo {THREADS} > {md}/group_thread_cnt"))
        .command(format!("echo {CACHE} > {md}/stripe_cache_size"))
        .risk(format!(
            "the array stands still for a moment; the cache takes up to {} of memory. Undone with the old values; neither outlives a reboot",
            memory(CACHE)
        ))
        .unless(format!("{}_{} is far from 100 % of a CPU under load: then it is not what is waited for", array.name, array.level))
        .source("Linux, Documentation/admin-guide/md.rst, stripe_cache_size and group_thread_cnt"),
    )
}

fn trusted_discards(of: &ArrayFacts) -> Option<Finding> {
    if of.discards_trusted != Some(true) || of.discards != Some(true) {
        return None;
    }
    let differ = of.mismatches > 0 && of.last_sync.as_deref() == Some("check");
    let severity = if differ {
        Severity::Warning
    } else {
        Severity::Info
    };
    let mut finding = Finding::new(
        "parity-discard-trusted",
        severity,
        "md relies on every member to return zeroes for what was discarded",
    )
    .seen(format!("{DISCARD}: Y; queue/discard_max_bytes of {} is not 0", of.array.name))
    .why("parity of a discarded stripe is right only if all its blocks read as zeroes. The kernel cannot ask the disks: someone has vouched for them, for every array of \
          this host")
    .command(format!("echo N > {DISCARD}"))
    .risk("takes effect when an array is assembled next; SSDs are told no more what is free")
    .unless("every member is known to return zeroes (hdparm -I: Deterministic read ZEROs after TRIM), those that will replace them too")
    .source("Linux, drivers/md/raid5.c, raid5_set_limits (devices_handle_discard_safely)");
    if differ {
        finding = finding.seen(format!(
            "and the last check found {} sectors that do not agree",
            of.mismatches
        ));
    }
    Some(finding)
}
