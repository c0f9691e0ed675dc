//! The rules: facts in, findings out. Pure. A rule without evidence says nothing; one that cannot know something does not
//! guess it.

mod align;
mod allocator;
mod bitmap;
mod direct;
mod errors;
mod health;
pub mod journal;
mod members;
mod memory;
mod parity;
mod power;
mod predict;
mod skew;
mod stripe;
mod timeout;
mod upkeep;

use super::facts::{ArrayFacts, Facts, FsFacts};
use super::finding::Finding;
use crate::advice::kernel::Kernel;

/// On the host and all its arrays at once.
type OnHost = fn(&Facts) -> Vec<Finding>;
/// On an array.
type OnArray = fn(&ArrayFacts) -> Vec<Finding>;
/// On a filesystem of an array.
type OnFilesystem = fn(&Kernel, &ArrayFacts, &FsFacts) -> Vec<Finding>;

const ARRAY: [OnArray; 9] = [
    health::redundancy,
    health::syncing,
    health::pending,
    health::bad_sectors,
    members::differ,
    members::zones,
    timeout::check,
    parity::check,
    bitmap::check,
];

const FILESYSTEM: [OnFilesystem; 8] = [
    errors::check,
    power::check,
    skew::check,
    stripe::check,
    allocator::check,
    direct::check,
    align::check,
    parity::discards,
];

const HOST: [OnHost; 2] = [upkeep::check, memory::check];

/// Every rule's name, sorted: what `--ignore` takes. docs/doctor.md has each of them.
pub const IDS: &[&str] = &[
    "alloc-linear",
    "alloc-spreading",
    "alloc-stripe-livelock",
    "alloc-stripe-ssd",
    "array-degraded",
    "array-mismatch",
    "array-read-ahead",
    "array-repaired",
    "array-resync-pending",
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
    "fs-nobarrier",
    "journal-small",
    "kernel-refuses",
    "layout-grow",
    "layout-skew",
    "layout-stride-inert",
    "live-disagrees",
    "live-skew",
    "member-bad-blocks",
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
];

/// All findings, the worst first; among equals in the order of arrays and rules.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts
        .stopped
        .iter()
        .map(|(name, state)| health::stopped(name, state))
        .collect();
    for array in &facts.arrays {
        let name = &array.array.name;
        for rule in ARRAY {
            found.extend(rule(array).into_iter().map(|f| Finding {
                array: Some(name.clone()),
                ..f
            }));
        }
        for fs in &array.filesystems {
            for rule in FILESYSTEM {
                found.extend(rule(&facts.kernel, array, fs).into_iter().map(|f| Finding {
                    array: Some(name.clone()),
                    ..f.on(fs)
                }));
            }
        }
    }
    found.extend(HOST.iter().flat_map(|rule| rule(facts)));
    // A filesystem that lies on two arrays is one filesystem.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|f| {
        f.filesystem.is_none() || seen.insert((f.id, f.filesystem.clone(), f.title.clone()))
    });
    found.sort_by_key(|f| std::cmp::Reverse(f.severity));
    found
}

/// `a`, `a and b`, `a, b and c`; of many the first few.
pub(super) fn list<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, second, third, _, _, ..] => {
            format!("{first}, {second}, {third} and {} more", words.len() - 3)
        }
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
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
