//! The rules: facts in, findings out. Pure. A rule without evidence reports nothing.

mod align;
pub(super) mod allocation_groups;
pub mod allocator;
pub mod bitmap;
mod direct;
mod errors;
pub(super) mod health;
pub mod journal;
mod lvm;
mod members;
mod memory;
mod parity;
mod power;
mod predict;
mod reshape;
mod skew;
mod space;
mod stripe;
mod thin;
mod timeout;
mod upkeep;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::facts::{ArrayFacts, Facts, FsFacts};
use super::finding::Finding;
use crate::advice::kernel::Kernel;
use crate::analysis::units;

type OnFilesystem = fn(&Kernel, &ArrayFacts, &FsFacts) -> Vec<Finding>;

const HOST: [fn(&Facts) -> Vec<Finding>; 2] = [upkeep::check, memory::check];

const ARRAY: [fn(&ArrayFacts) -> Vec<Finding>; 11] = [
    health::redundancy,
    reshape::check,
    health::syncing,
    health::pending,
    health::bad_sectors,
    members::differences,
    members::zones,
    timeout::check,
    parity::check,
    bitmap::check,
    thin::check,
];

/// The rules for arrays of device mapper's raid target, which mdadm and md's sysfs files do not
/// know.
const DM_RAID: [fn(&ArrayFacts) -> Vec<Finding>; 5] =
    [lvm::check, members::differences, members::zones, timeout::check, thin::check];

const FILESYSTEM: [OnFilesystem; 9] = [
    space::check,
    errors::check,
    power::check,
    skew::check,
    stripe::check,
    allocator::check,
    direct::check,
    align::check,
    parity::discards,
];

/// Names of all rules, sorted: the values of `--ignore`. docs/doctor.md describes each.
pub const IDS: &[&str] = &[
    "alloc-counted",
    "alloc-linear",
    "alloc-spreading",
    "alloc-stripe-livelock",
    "alloc-stripe-ssd",
    "array-degraded",
    "array-mismatch",
    "array-read-ahead",
    "array-refused",
    "array-repaired",
    "array-reshape-interrupted",
    "array-resync-pending",
    "array-slots",
    "array-stopped",
    "array-syncing",
    "array-unchecked",
    "bitmap-chunk",
    "bitmap-file",
    "bitmap-hot",
    "bitmap-none",
    "dio-exclusive",
    "dio-nolock-inert",
    "dio-unwritten",
    "dirty-limits",
    "fs-async-commit",
    "fs-errors",
    "fs-errors-continue",
    "fs-full",
    "fs-nobarrier",
    "journal-small",
    "kernel-refuses",
    "layout-grow",
    "layout-skew",
    "layout-stride-inert",
    "live-disagrees",
    "live-skew",
    "live-slow",
    "member-bad-blocks",
    "member-faulty",
    "member-read-errors",
    "member-timeout",
    "member-timeout-unknown",
    "members-iostats",
    "members-limits",
    "members-model",
    "members-rotational",
    "members-scheduler",
    "members-size",
    "misaligned-blocks",
    "misaligned-stripes",
    "monitor-none",
    "parity-discard-inert",
    "parity-discard-trusted",
    "parity-stripe-cache",
    "parity-write-hole",
    "raid0-zones",
    "stripe-from-stride",
    "stripe-missing",
    "stripe-wrong",
    "stripe-zero-ignored",
    "thin-pool-full",
];

/// All findings, the worst first; those of equal severity in the order of arrays and rules.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let not = &facts.not_running;
    let mut found: Vec<Finding> = not.stopped.iter().map(health::stopped).collect();
    found.extend(not.refused.iter().map(health::refused));
    for array in &facts.arrays {
        let name = &array.array.name;
        let rules = if array.array.mapper_name.is_some() { &DM_RAID[..] } else { &ARRAY };
        let on_array = rules.iter().flat_map(|rule| rule(array));
        found.extend(on_array.map(|f| f.on_array(name)));
        for fs in &array.filesystems {
            let on_fs = FILESYSTEM.iter().flat_map(|rule| rule(&facts.kernel, array, fs));
            found.extend(on_fs.map(|f| f.on_array(name).on(fs)));
        }
    }
    found.extend(HOST.iter().flat_map(|rule| rule(facts)));
    for array in &facts.arrays {
        reshape::remove_commands(array, &mut found);
    }
    // A filesystem on two arrays was checked twice.
    let mut seen = BTreeSet::new();
    found.retain(|f| {
        f.filesystem.is_none() || seen.insert((f.id, f.filesystem.clone(), f.title.clone()))
    });
    found.sort_by_key(|f| Reverse(f.severity));
    found
}

/// `a`, `a and b`, `a, b and c`, `a, b, c and 2 more`.
pub(super) fn list<T: AsRef<str>>(words: &[T]) -> String {
    match words {
        [a, b, c, _, _, ..] => {
            let [a, b, c] = [a, b, c].map(AsRef::as_ref);
            format!("{a}, {b}, {c} and {} more", words.len() - 3)
        }
        _ => units::list(words),
    }
}

/// `1 disk`, `2 disks`.
pub(super) fn plural(n: usize, what: &str) -> String {
    match (n, what) {
        (1, _) => format!("1 {what}"),
        (_, "array or disk") => format!("{n} arrays or disks"),
        _ => format!("{n} {what}s"),
    }
}
