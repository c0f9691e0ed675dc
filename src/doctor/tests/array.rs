//! Rules on arrays and members.

use super::Machine;
use crate::doctor::finding::Severity;

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
    assert_eq!(two_left.severity, Severity::Warning);
    assert!(
        two_left.title.contains("1 more disk may fail"),
        "{}",
        two_left.title
    );
    assert_eq!(
        two_left.commands,
        [
            "mdadm --manage /dev/md0 --remove /dev/sdc",
            "mdadm --manage /dev/md0 --add /dev/NEW_DISK"
        ]
    );
    assert!(
        two_left
            .seen
            .iter()
            .any(|s| s == "no working member in slot 2")
    );
    for level in ["raid5", "raid10"] {
        let none_left = lost(level, 6).only("array-degraded");
        assert_eq!(none_left.severity, Severity::Critical, "{level}");
    }
}

#[test]
fn degraded_and_mending() {
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
    assert_eq!(found.severity, Severity::Critical);
    assert!(
        found.title.ends_with("rebuilding, 12.3 %"),
        "{}",
        found.title
    );
    assert!(found.commands.is_empty());
}

#[test]
fn raid0_that_is_broken() {
    let found = Machine::new("raid0", 12, Some(32744))
        .with("file sys/block/md0/md/array_state broken")
        .only("array-degraded");
    assert_eq!(found.severity, Severity::Critical);
    assert!(found.title.contains("failed"));
}

#[test]
fn more_gone_than_the_level_bears() {
    let found = Machine::new("raid5", 5, None)
        .with("file sys/block/md0/md/degraded 2")
        .only("array-degraded");
    assert_eq!(found.severity, Severity::Critical);
    assert_eq!(
        found.title,
        "failed: more members are gone than raid5 bears"
    );
    assert_eq!(found.commands, ["mdadm --detail /dev/md0"]);
}

#[test]
fn an_array_that_does_not_run() {
    let found = Machine::raid6()
        .with(
            "md md7 9:7 0 level=raid1 array_state=inactive
            disk sdx 65:0 1000
            member md7 sdx slot=0 state=spare",
        )
        .only("array-stopped");
    assert_eq!(found.array.as_deref(), Some("md7"));
    // One that holds nothing is nobody's.
    Machine::raid6()
        .with("md md7 9:7 0 array_state=clear")
        .nothing();
}

#[test]
fn syncing() {
    for (action, severity) in [
        ("check", Severity::Info),
        ("resync", Severity::Warning),
        ("frozen", Severity::Warning),
    ] {
        let found = Machine::raid6()
            .with(&format!("file sys/block/md0/md/sync_action {action}"))
            .with("file sys/block/md0/md/sync_completed 10 / 40")
            .only("array-syncing");
        assert_eq!(found.severity, severity, "{action}");
        assert_eq!(found.figures["done"], 0.25);
    }
}

#[test]
fn bad_sectors() {
    let bad = || Machine::raid6().with("file sys/block/md0/md/dev-sdb/bad_blocks 4096 8");
    let found = bad().only("member-bad-blocks");
    assert_eq!(
        (found.severity, found.figures["sectors"].as_u64()),
        (Severity::Warning, Some(8))
    );
    let ids = bad().with("file sys/block/md0/md/degraded 1").ids();
    assert_eq!(ids[0], "critical member-bad-blocks");
    Machine::raid6()
        .with("file sys/block/md0/md/dev-sdb/errors 3")
        .only("member-read-errors");
    Machine::raid6()
        .with("file sys/block/md0/md/mismatch_cnt 128")
        .only("array-mismatch");
}

#[test]
fn members_that_differ() {
    for (file, text, id, command) in [
        ("queue/rotational", "0", "members-rotational", None),
        (
            "queue/scheduler",
            "[none] mq-deadline",
            "members-scheduler",
            Some("echo mq-deadline > /sys/block/sdd/queue/scheduler"),
        ),
        (
            "queue/max_sectors_kb",
            "128",
            "members-limits",
            Some("echo 1280 > /sys/block/sdd/queue/max_sectors_kb"),
        ),
        ("queue/write_cache", "write through", "members-limits", None),
        ("device/model", "ST12000NM0008", "members-model", None),
        (
            "queue/iostats",
            "0",
            "members-iostats",
            Some("echo 1 > /sys/block/sdd/queue/iostats"),
        ),
    ] {
        let found = Machine::raid6()
            .with(&format!("file sys/block/sdd/{file} {text}"))
            .only(id);
        assert_eq!(
            found.commands.first().map(String::as_str),
            command,
            "{file}"
        );
        // Alike on all is no difference.
        if id != "members-iostats" {
            let mut all = Machine::raid6();
            for i in 0..7 {
                all = all.with(&format!("file sys/block/{}/{file} {text}", super::name(i)));
            }
            let ids = all.ids();
            assert!(
                ids.iter().all(|i| i.contains("alloc-stripe-ssd")),
                "{ids:?}"
            );
        }
    }
}

#[test]
fn a_spare_may_be_otherwise() {
    Machine::raid6()
        .with(
            "disk sdz 65:16 600000000 queue/iostats=1 queue/rotational=0 queue/scheduler=none device/model=OTHER
            member md0 sdz slot=none state=spare offset=264192 size=268435456",
        )
        .nothing();
}

#[test]
fn larger_members() {
    let found = Machine::raid6()
        .with("file sys/block/md0/md/dev-sda/size 536870912")
        .only("members-size");
    assert_eq!(found.figures["unused_bytes"].as_u64(), Some(256 << 30));
    assert!(found.commands.is_empty());
    // A few MiB more is how disks are.
    Machine::raid6()
        .with("file sys/block/md0/md/dev-sda/size 268439552")
        .nothing();
}

#[test]
fn raid0_of_unequal_members() {
    let found = Machine::new("raid0", 12, Some(32744))
        .with("file sys/block/md0/md/dev-sda/size 536870912")
        .with("file sys/block/md0/md/layout 2")
        .only("raid0-zones");
    assert_eq!(found.figures["members_beyond"], 1);
    assert_eq!(found.figures["beyond_bytes"].as_u64(), Some(256 << 30));
}

#[test]
fn bitmaps() {
    let found = Machine::raid6()
        .with(
            "file sys/block/md0/md/bitmap/location file
            file proc/mdstat nothing",
        )
        .only("bitmap-file");
    assert!(found.commands[1].contains("--bitmap=internal"));
    let fine = || Machine::raid6().with("file sys/block/md0/md/bitmap/chunksize 2097152");
    assert_eq!(
        fine().only("bitmap-chunk").figures["bits"].as_u64(),
        Some(131_072)
    );
    let none = || {
        Machine::raid6().with(
            "file sys/block/md0/md/bitmap/location none
            file sys/block/md0/md/consistency_policy resync",
        )
    };
    none().only("bitmap-none");
    // mdadm refuses while it rebuilds: nothing to type then.
    let busy = none()
        .with("file sys/block/md0/md/sync_action check")
        .findings();
    let found = busy.iter().find(|f| f.id == "bitmap-none").unwrap();
    assert!(found.commands.is_empty());
    // Another way to be consistent needs no bitmap.
    none()
        .with("file sys/block/md0/md/consistency_policy ppl")
        .nothing();
}
