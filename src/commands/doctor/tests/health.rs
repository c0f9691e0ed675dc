//! Rules on redundancy, syncs and what md has recorded about blocks.

use super::Machine;
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::commands::doctor::rules::health;
use crate::machine::{RefusedArray, StoppedArray};

#[test]
fn degraded() {
    let lost = |level, disks| {
        Machine::new(level, disks, Some(32744)).with(
            "file sys/block/md0/md/degraded 1
            file sys/block/md0/md/dev-sdc/slot none
            file sys/block/md0/md/dev-sdc/state faulty",
        )
    };
    let two_left = lost("raid6", 7).only("array-degraded");
    assert_eq!(two_left.severity, FindingSeverity::Warning);
    assert!(two_left.title.contains("1 more disk may fail"), "{}", two_left.title);
    assert_eq!(
        two_left.commands,
        ["mdadm --manage /dev/md0 --remove sdc", "mdadm --manage /dev/md0 --add /dev/NEW_DISK"]
    );
    assert!(two_left.seen.iter().any(|s| s == "no working member in slot 2"));
    for (level, loses, read) in [
        ("raid5", "the next disk failure loses data", "computed from the others"),
        ("raid10", "the next disk failure can lose data", "read from the remaining copies"),
    ] {
        let none_left = lost(level, 6).only("array-degraded");
        assert_eq!(none_left.severity, FindingSeverity::Critical, "{level}");
        assert!(none_left.title.ends_with(loses), "{}", none_left.title);
        assert!(none_left.why.contains(read), "{level}: {}", none_left.why);
    }
}

/// A NAS makes its RAID 1 with a slot for each bay.
#[test]
fn slots_that_never_had_a_disk() {
    let machine = |slots: u32, missing: u32| {
        Machine::new("raid1", 4, Some(32744)).with(&format!(
            "file sys/block/md0/md/raid_disks {slots}
            file sys/block/md0/md/degraded {missing}"
        ))
    };
    let finding = machine(24, 20).only("array-slots");
    assert_eq!(
        (finding.severity, &*finding.title),
        (FindingSeverity::Info, "4 of 24 slots have a disk")
    );
    assert!(finding.commands.is_empty());
    assert_eq!(machine(5, 1).only("array-degraded").severity, FindingSeverity::Warning);
}

#[test]
fn degraded_and_rebuilding() {
    let found = Machine::raid6()
        .with(
            "file sys/block/md0/md/degraded 2
            file sys/block/md0/md/sync_action recover
            file sys/block/md0/md/sync_completed 123 / 1000
            file sys/block/md0/md/dev-sdc/state spare
            file sys/block/md0/md/dev-sdd/slot none
            file sys/block/md0/md/dev-sdd/state faulty",
        )
        .only("array-degraded");
    assert_eq!(found.severity, FindingSeverity::Critical);
    assert!(found.title.ends_with("rebuilding, 12.3 %"), "{}", found.title);
    assert!(found.commands.is_empty());
}

#[test]
fn failed_raid0() {
    let found = Machine::new("raid0", 12, Some(32744))
        .with("file sys/block/md0/md/array_state broken")
        .only("array-degraded");
    assert_eq!(found.severity, FindingSeverity::Critical);
    assert!(found.title.contains("failed"));
}

#[test]
fn more_failures_than_the_level_tolerates() {
    let found = Machine::new("raid5", 5, None)
        .with("file sys/block/md0/md/degraded 2")
        .only("array-degraded");
    assert_eq!(found.severity, FindingSeverity::Critical);
    assert_eq!(found.title, "failed: raid5 has lost more members than it tolerates");
    assert_eq!(found.commands, ["mdadm --detail /dev/md0"]);
}

/// md keeps the last copy in the array, and refuses writes (MD_BROKEN).
#[test]
fn a_mirror_whose_last_copy_fails() {
    let found = Machine::new("raid1", 2, None)
        .with(
            "file sys/block/md0/md/array_state broken
            file sys/block/md0/md/degraded 1",
        )
        .only("array-degraded");
    assert!(found.title.contains("on a disk that reports errors"), "{}", found.title);
    assert!(found.why.contains("refuses all writes"), "{}", found.why);
    assert_eq!(found.commands, ["mdadm --detail /dev/md0"]);
}

/// mdadm refuses to add or replace disks of an array in a container.
#[test]
fn disks_of_a_container() {
    let external = |degraded: u32| {
        Machine::raid6().with(&format!(
            "file sys/block/md0/md/metadata_version external:/md127/0
            file sys/block/md0/md/degraded {degraded}
            file sys/block/md0/md/dev-sdd/bad_blocks 4096 8"
        ))
    };
    let of =
        |found: &[Finding], id: &str| found.iter().find(|f| f.id == id).unwrap().commands.clone();
    assert_eq!(
        of(&external(1).findings(), "array-degraded"),
        ["mdadm --manage /dev/md127 --add /dev/NEW_DISK"]
    );
    assert_eq!(
        of(&external(0).findings(), "member-bad-blocks"),
        ["mdadm --examine-badblocks /dev/sdd"]
    );
    let bitmap = external(0).with("file sys/block/md0/md/bitmap/chunksize 2097152");
    assert!(of(&bitmap.findings(), "bitmap-chunk").is_empty());
}

/// A reshape in place needs mdadm, which backs up blocks: no command may make md go on without it.
#[test]
fn an_interrupted_reshape_has_no_command_that_continues_it() {
    let interrupted = |state: &str, action: &str| {
        Machine::new("raid5", 5, None).with(&format!(
            "file sys/block/md0/md/reshape_position 1048576
            file sys/block/md0/md/raid_disks 5 (4)
            file sys/block/md0/md/array_state {state}
            file sys/block/md0/md/sync_action {action}
            file sys/block/md0/md/resync_start 5120
            file sys/block/md0/md/last_sync_action check
            file sys/block/md0/md/mismatch_cnt 8"
        ))
    };
    for (state, action) in [("read-auto", "idle"), ("readonly", "idle"), ("clean", "frozen")] {
        let found = interrupted(state, action).findings();
        assert!(found.iter().any(|f| f.id == "array-reshape-interrupted"), "{state}");
        assert!(found.len() > 1, "{state}");
        let commands: Vec<_> = found.iter().flat_map(|f| &f.commands).collect();
        assert!(
            !commands.iter().any(|c| c.contains("--readwrite") || c.contains("sync_action")),
            "{state}: {commands:?}"
        );
    }
    let running = interrupted("clean", "reshape").findings();
    assert!(!running.iter().any(|f| f.id == "array-reshape-interrupted"));
}

#[test]
fn stopped_array() {
    let found = Machine::raid6()
        .with(
            "md md7 9:7 0 level=raid1 array_state=inactive
            disk sdx 65:0 1000
            member md7 sdx slot=0 state=spare",
        )
        .only("array-stopped");
    assert_eq!(found.array.as_deref(), Some("md7"));
    assert_eq!(found.title, "not running: md/array_state is inactive");
    let some = StoppedArray {
        name: "md7".to_owned(),
        state: "inactive".to_owned(),
        members: vec!["sda".to_owned(), "sdb".to_owned()],
        slots: Some(4),
    };
    assert_eq!(health::stopped(&some).title, "not running: 2 of 4 members are here");
    // An array without members is ignored.
    Machine::raid6().with("md md7 9:7 0 array_state=clear").no_findings();
}

#[test]
fn syncing() {
    for (action, severity, title) in [
        ("check", FindingSeverity::Info, "check in progress, 25.0 % done"),
        ("resync", FindingSeverity::Warning, "resync in progress, 25.0 % done"),
        ("frozen", FindingSeverity::Warning, "resync and rebuild are frozen"),
    ] {
        let found = Machine::raid6()
            .with(&format!("file sys/block/md0/md/sync_action {action}"))
            .with("file sys/block/md0/md/sync_completed 10 / 40")
            .only("array-syncing");
        assert_eq!(found.severity, severity, "{action}");
        assert_eq!(found.title, title);
        assert_eq!(found.figures["done"], 0.25);
    }
}

/// md 9:124 of two arrays on the same disks.
#[test]
fn a_resync_that_waits() {
    let found = Machine::raid6()
        .with("file sys/block/md0/md/sync_action resync")
        .with("file sys/block/md0/md/sync_completed delayed")
        .only("array-syncing");
    assert_eq!(found.title, "resync waits for another array on the same disks");
    assert!(found.seen[1].contains("delayed"), "{:?}", found.seen);
}

#[test]
fn an_array_of_a_newer_kernel() {
    let found = health::refused(&RefusedArray {
        name: "nas:0".to_owned(),
        members: vec!["sda".to_owned(), "sdb".to_owned()],
        logical_block: 512,
    });
    assert_eq!(found.title, "array nas:0 is not assembled: a newer kernel made it (sda and sdb)");
    assert!(found.commands.is_empty() && found.risk.contains("--create"));
}

#[test]
fn pending_resync() {
    let waits_on = |machine: Machine, state: &str| {
        machine
            .with("file sys/block/md0/md/resync_start 5120")
            .with(&format!("file sys/block/md0/md/array_state {state}"))
    };
    let waits = |state| waits_on(Machine::raid6(), state);
    let raid10 = waits_on(Machine::new("raid10", 6, Some(32744)), "read-auto");
    for (machine, from) in [
        (waits("read-auto"), "from sector 5120 of each member"),
        (raid10, "from sector 5120 of the array"),
    ] {
        let found = machine.only("array-resync-pending");
        assert!(found.seen[0].ends_with(from), "{}", found.seen[0]);
    }
    let found = waits("read-auto").only("array-resync-pending");
    assert_eq!(found.severity, FindingSeverity::Warning);
    assert_eq!(found.commands, ["mdadm --readwrite /dev/md0"]);
    assert_eq!(found.figures["resync_from_sector"], 5120);
    // No command: an administrator may have made it read-only to save data.
    let found = waits("readonly").only("array-resync-pending");
    assert!(found.commands.is_empty());
    // A running resync is not pending.
    waits("active").with("file sys/block/md0/md/sync_action resync").only("array-syncing");
    for (file, text) in [("array_state", "read-auto"), ("resync_start", "none")] {
        Machine::raid6().with(&format!("file sys/block/md0/md/{file} {text}")).no_findings();
    }
    Machine::new("raid0", 12, Some(32744))
        .with("file sys/block/md0/md/resync_start 0")
        .no_findings();
    // md starts to rebuild a spare at the first write.
    let spare = Machine::raid6().with(
        "file sys/block/md0/md/array_state read-auto
        file sys/block/md0/md/degraded 1
        file sys/block/md0/md/dev-sdc/slot none
        file sys/block/md0/md/dev-sdc/state spare",
    );
    assert_eq!(spare.only("array-degraded").commands, ["mdadm --readwrite /dev/md0"]);
}

/// After `mdadm --replace`, or after a spare has been rebuilt.
#[test]
fn a_faulty_member_that_is_not_needed() {
    let found = Machine::raid6()
        .with(
            "file sys/block/md0/md/dev-sdc/slot none
            file sys/block/md0/md/dev-sdc/state faulty",
        )
        .only("member-faulty");
    assert_eq!(
        found.commands,
        ["mdadm --manage /dev/md0 --remove sdc", "mdadm --manage /dev/md0 --add /dev/NEW_DISK"]
    );
}

#[test]
fn bad_sectors() {
    let bad = || Machine::raid6().with("file sys/block/md0/md/dev-sdb/bad_blocks 4096 8");
    let found = bad().only("member-bad-blocks");
    assert_eq!(
        (found.severity, found.figures["sectors"].as_u64()),
        (FindingSeverity::Warning, Some(8))
    );
    let ids = bad().with("file sys/block/md0/md/degraded 1").ids();
    assert_eq!(ids[0], "critical member-bad-blocks");
    Machine::raid6().with("file sys/block/md0/md/dev-sdb/errors 3").only("member-read-errors");
}

#[test]
fn mismatches_of_a_check_or_repair() {
    let after = |action: &str| {
        Machine::raid6()
            .with("file sys/block/md0/md/mismatch_cnt 94208")
            .with(&format!("file sys/block/md0/md/last_sync_action {action}"))
    };
    let found = after("check").only("array-mismatch");
    assert_eq!(found.severity, FindingSeverity::Warning);
    assert_eq!(found.figures["sectors"], 94208);
    assert!(found.seen[0].ends_with("md/last_sync_action check"));
    let repaired = after("repair").only("array-repaired");
    assert_eq!(repaired.severity, FindingSeverity::Info);
    assert!(repaired.title.contains("rewrote 94208 mismatched sectors"), "{}", repaired.title);
    // Blocks that a first resync or a rebuild counts may never have matched. `idle` and `none`: no
    // sync since assembly.
    for action in ["resync", "recover", "reshape", "garbage"] {
        after(action).no_findings();
    }
    for action in ["idle", "none"] {
        assert_eq!(after(action).ids(), ["info array-unchecked"]);
    }
    // Mirrors differ if a page changed while it was written.
    let mirror = Machine::new("raid10", 6, None)
        .with("file sys/block/md0/md/mismatch_cnt 128")
        .with("file sys/block/md0/md/last_sync_action check");
    assert_eq!(mirror.only("array-mismatch").severity, FindingSeverity::Info);
    // The count of a running check is not final, and another check would start over.
    let running = after("check").with("file sys/block/md0/md/sync_action check").findings();
    let found = running.iter().find(|f| f.id == "array-mismatch").unwrap();
    assert!(found.title.contains("so far") && found.commands.is_empty());
}
