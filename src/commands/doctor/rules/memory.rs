//! Read-ahead and dirty limits of the page cache, compared with the speed of the disks.

use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, Facts, FsFacts};
use crate::commands::doctor::finding::Finding;

/// Sequential write rate of a hard disk, bytes per second.
const DISK_RATE: u64 = 150 << 20;
/// Minimum seconds of sequential writing that make the dirty limit too high. Small files take ten
/// to a hundred times as long.
const MIN_LONG_S: u64 = 30;
/// Advised limit in seconds of sequential writing.
const ADVISED_S: u64 = 5;

/// Read-ahead and dirty limits, for each array.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let found = facts.arrays.iter().flat_map(|a| {
        let found = [read_ahead(a), dirty(facts, a)];
        found.into_iter().flatten().map(|f| f.on_array(&a.array.name))
    });
    found.collect()
}

fn read_ahead(of: &ArrayFacts) -> Option<Finding> {
    let (name, disks) = (&of.array.name, of.data_disks()?);
    let chunk = u64::from(of.array.chunk_sectors) / 2;
    let stripe = chunk.checked_mul(disks)?;
    let ahead = of.read_ahead_kib.filter(|kib| *kib < stripe)?;
    // Files are read ahead by the setting of the filesystem's own device, so that of the array has
    // no effect below device mapper.
    let is_direct =
        |fs: &FsFacts| fs.fs.name == *name || fs.fs.name.starts_with(&format!("{name}p"));
    if !of.filesystems.is_empty() && !of.filesystems.iter().any(is_direct) {
        return None;
    }
    let finding = Finding::info(
        "array-read-ahead",
        format!("read-ahead is {ahead} KiB, less than a stripe of {stripe} KiB"),
    )
    .seen(format!("queue/read_ahead_kb of {name} is {ahead}"))
    .seen(format!("chunks of {chunk} KiB on {disks} data disks"))
    .figure("read_ahead_kib", ahead)
    .figure("stripe_kib", stripe)
    .command(format!("echo {} > {}", stripe.saturating_mul(2), of.sysfs("queue/read_ahead_kb")))
    .risk(format!(
        "more memory for each file that is read sequentially; undone with {ahead}, and lost at a \
         reboot unless a udev rule sets it"
    ));
    of.rotational().then_some(finding)
}

fn dirty(facts: &Facts, of: &ArrayFacts) -> Option<Finding> {
    let limit = facts.host.dirty.as_ref()?;
    // Virtual machines report `rotational` for any disk, so plain disks are left out.
    if !of.rotational() || !of.array.is_md() {
        return None;
    }
    let disks = of.data_disks().unwrap_or(1);
    let rate = DISK_RATE.saturating_mul(disks);
    let seconds = limit.bytes / rate;
    if seconds < MIN_LONG_S {
        return None;
    }
    let advised = rate.saturating_mul(ADVISED_S);
    let size = units::size(limit.bytes);
    let title =
        format!("up to {size} of dirty pages: at least {seconds} s of writing for this array");
    Some(
        Finding::info("dirty-limits", title)
            .seen(limit.setting.clone())
            .seen(format!(
                "{disks} rotational data disks with {}/s each at most (assumed, not measured)",
                units::size(DISK_RATE)
            ))
            .figure("limit_bytes", limit.bytes)
            .figure("seconds", seconds)
            .command(format!("echo {} > /proc/sys/vm/dirty_background_bytes", advised / 4))
            .command(format!("echo {advised} > /proc/sys/vm/dirty_bytes")),
    )
}
