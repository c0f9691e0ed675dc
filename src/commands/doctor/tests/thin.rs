//! Thin pools above an array.

use super::Machine;
use crate::commands::doctor::finding::{Finding, FindingSeverity};

/// The array with `vg/my-pool` on it, in this state.
fn with_pool(status: &str) -> Machine {
    Machine::raid6().with(&format!(
        "dm dm-0 253:0 8192 name=vg-my--pool_tmeta uuid=LVM-a slaves=md0
        dm dm-1 253:1 800000 name=vg-my--pool_tdata uuid=LVM-b slaves=md0
        dm dm-2 253:2 800000 name=vg-my--pool-tpool uuid=LVM-c slaves=dm-0,dm-1
        file sys/block/md0/holders/dm-0 x
        file sys/block/md0/holders/dm-1 x
        file sys/block/dm-0/holders/dm-2 x
        file sys/block/dm-1/holders/dm-2 x
        link sys/class/block ../block
        target 253:2 0 800000 thin-pool 253:0 253:1 128 32
        pool 253:2 {status}"
    ))
}

fn found(status: &str) -> Finding {
    with_pool(status).only("thin-pool-full")
}

#[test]
fn pools_that_are_full_or_take_no_writes() {
    let rest = "discard_passdown queue_if_no_space - 1024";
    with_pool(&format!("2 13/4096 700/800 - rw {rest}")).no_findings();
    let low = found(&format!("2 13/4096 750/800 - rw {rest}"));
    assert_eq!(low.severity, FindingSeverity::Warning);
    assert!(low.title.ends_with("has 94 % of its data blocks in use"), "{}", low.title);
    assert_eq!(low.commands, ["lvextend --extents +20%LV vg/my-pool"]);
    let full = found(&format!("2 13/4096 800/800 - out_of_data_space {rest}"));
    assert_eq!(full.severity, FindingSeverity::Critical);
    assert!(
        full.title.contains("that need one wait, and fail after no_space_timeout"),
        "{}",
        full.title
    );
    let broken = found("2 4096/4096 700/800 - ro discard_passdown error_if_no_space needs_check 1");
    assert_eq!(broken.commands, ["lvs -o name,lv_health_status vg/my-pool"]);
    assert!(found("Fail").title.ends_with("takes no writes: it is Fail"));
}
