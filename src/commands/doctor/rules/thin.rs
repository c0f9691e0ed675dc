//! Thin pools above an array: what they have left, and whether they still write.

use crate::advice::quote::quote;
use crate::analysis::units;
use crate::commands::doctor::facts::ArrayFacts;
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::machine::PoolStatus;
use crate::machine::dm::lvm_pool;

/// Share of the blocks in use from which little is left: lvm.conf's example of
/// thin_pool_autoextend_threshold is 70 %, and warnings of dmeventd begin at 80 %.
const MIN_USED: f64 = 0.9;

/// Pools that write no more, or soon will not.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    of.pools.iter().filter_map(|(pool, status)| finding(pool, status)).collect()
}

fn finding(pool: &str, status: &PoolStatus) -> Option<Finding> {
    let share = |(used, all): (u64, u64)| if all > 0 { used as f64 / all as f64 } else { 0.0 };
    let (data, metadata) = (share(status.data), share(status.metadata));
    let then = if status.queues {
        "wait, and fail after no_space_timeout (by default 60 s)"
    } else {
        "fail"
    };
    let title = match status.mode.as_str() {
        "out_of_data_space" => {
            format!("thin pool {pool} has no free data blocks: writes that need one {then}")
        }
        "rw" if data >= MIN_USED || metadata >= MIN_USED => {
            let what = if data >= metadata { "data" } else { "metadata" };
            let used = units::percent(data.max(metadata));
            format!("thin pool {pool} has {used} of its {what} blocks in use")
        }
        "rw" => return None,
        mode => format!("thin pool {pool} takes no writes: it is {mode}"),
    };
    let repair = status.needs_check || status.mode == "Fail";
    let command = match lvm_pool(pool) {
        None => format!("dmsetup status {}", quote(pool)),
        Some(lv) if repair => format!("lvs -o name,lv_health_status {}", quote(lv)),
        Some(lv) => format!("lvextend --extents +20%LV {}", quote(lv)),
    };
    let finding = Finding::warning("thin-pool-full", title)
        .raise_if(status.mode != "rw", FindingSeverity::Critical)
        .seen(format!(
            "device mapper's status: {}, {} of {} data blocks and {} of {} metadata blocks in \
             use{}",
            status.mode,
            status.data.0,
            status.data.1,
            status.metadata.0,
            status.metadata.1,
            if status.needs_check { ", needs_check" } else { "" }
        ))
        .figure("pool", pool.to_owned())
        .figure("data_used", data)
        .figure("metadata_used", metadata)
        .figure("mode", status.mode.clone())
        .command(command);
    Some(finding)
}
