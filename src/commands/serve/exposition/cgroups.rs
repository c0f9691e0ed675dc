//! Metrics by cgroup.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::{counters, label};
use crate::commands::serve::cgroups::{CgroupTotals, DIRTIED};

/// Encodes nothing without cgroups.
pub fn encode(cgroups: &CgroupTotals, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let sums = &cgroups.sums;
    if sums.is_empty() {
        return Ok(());
    }
    let seconds = |us: &u64| *us as f64 / 1e6;
    counters(
        encoder,
        ("raidtrace_cgroup_submitted", Some(Unit::Bytes)),
        "Bytes submitted to the array by the tasks of a cgroup",
        sums.iter().flat_map(|((array, cgroup), of)| {
            let each = of.submitted.iter();
            each.map(move |(op, bytes)| {
                ([label("array", array), label("cgroup", cgroup), label("op", op.name())], *bytes)
            })
        }),
    )?;
    counters(
        encoder,
        ("raidtrace_cgroup_dirtied", Some(Unit::Bytes)),
        "Bytes that the tasks of a cgroup dirtied, and that they, writeback or jbd2 write later",
        sums.iter().flat_map(|((array, cgroup), of)| {
            let each = DIRTIED.into_iter().zip(of.dirtied).filter(|(_, bytes)| *bytes > 0);
            each.map(move |(kind, bytes)| {
                ([label("array", array), label("cgroup", cgroup), label("kind", kind)], bytes)
            })
        }),
    )?;
    counters(
        encoder,
        ("raidtrace_cgroup_waiting", Some(Unit::Seconds)),
        "Time that the tasks of a cgroup were asleep in the kernel, from samples, by the cause in \
         the array's verdict; none: the array was not slow",
        sums.iter().flat_map(move |((array, cgroup), of)| {
            let each = of.waiting_us.iter();
            each.map(move |(cause, us)| {
                let labels = [
                    label("array", array),
                    label("cgroup", cgroup),
                    label("cause", cause.to_string()),
                ];
                (labels, seconds(us))
            })
        }),
    )?;
    counters(
        encoder,
        ("raidtrace_cgroup_made_wait", Some(Unit::Seconds)),
        "The part of raidtrace_cgroup_waiting_seconds_total in which the verdict names a load, by \
         the cgroup of the load's tasks",
        sums.iter().flat_map(move |((array, cgroup), of)| {
            let each = of.made_wait_us.iter();
            each.map(move |(by, us)| {
                let labels = [label("array", array), label("cgroup", cgroup), label("by", by)];
                (labels, seconds(us))
            })
        }),
    )
}
