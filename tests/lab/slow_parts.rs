//! Members that are partitions of the same disks.

use std::collections::BTreeSet;

use super::output::{each, word};
use super::{intervals, lab, text};

/// A phase names the member, not its disk, which holds a member of another array too.
pub(super) fn slow_members_are_partitions(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_parts") else {
        return;
    };
    assert_eq!(text(dir.join("slow.status")).trim(), "0");
    let intervals = intervals(dir.join("slow.out"));
    let operations = intervals.iter().flat_map(|i| each(i, "operations"));
    let phases = operations.flat_map(|o| each(o, "phases"));
    let members: BTreeSet<&str> =
        phases.map(|phase| word(phase, "member")).filter(|name| !name.is_empty()).collect();
    println!("{members:?}");
    assert!(!members.is_empty());
    assert!(members.iter().all(|m| ["nullb0p1", "nullb1p1"].contains(m)), "{members:?}");
}

/// Direct writes wait for blk-throttle, so the advice names the limit and not a disk.
pub(super) fn slow_writes_have_their_limit(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_parts") else {
        return;
    };
    assert_eq!(text(dir.join("limit.status")).trim(), "0");
    let intervals = intervals(dir.join("limit.out"));
    let advice: BTreeSet<&str> = intervals
        .iter()
        .flat_map(|i| each(i, "advice"))
        .map(|advice| word(advice, "text"))
        .collect();
    println!("{advice:?}");
    assert!(
        advice.iter().any(|a| a.contains("I/O limit of cgroup /limited on md120 (wiops=4)")),
        "{advice:?}"
    );
}
