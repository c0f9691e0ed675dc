//! Rules on arrays and members.

use super::Machine;
use crate::commands::doctor::finding::{Finding, Severity};

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
            "mdadm --manage /dev/md0 --remove sdc",
            "mdadm --manage /dev/md0 --add /dev/NEW_DISK"
        ]
    );
    assert!(
        two_left
            .seen
            .iter()
            .any(|s| s == "no working member in slot 2")
    );
    for (level, loses, read) in [
        (
            "raid5",
            "the next disk failure loses data",
            "computed from the others",
        ),
        (
            "raid10",
            "the next disk failure can lose data",
            "read from the remaining copies",
        ),
    ] {
        let none_left = lost(level, 6).only("array-degraded");
        assert_eq!(none_left.severity, Severity::Critical, "{level}");
        assert!(none_left.title.ends_with(loses), "{}", none_left.title);
        assert!(none_left.why.contains(read), "{level}: {}", none_left.why);
    }
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
    assert_eq!(found.severity, Severity::Critical);
    assert!(
        found.title.ends_with("rebuilding, 12.3 %"),
        "{}",
        found.title
    );
    assert!(found.commands.is_empty());
}

#[test]
fn failed_raid0() {
    let found = Machine::new("raid0", 12, Some(32744))
        .with("file sys/block/md0/md/array_state broken")
        .only("array-degraded");
    assert_eq!(found.severity, Severity::Critical);
    assert!(found.title.contains("failed"));
}

#[test]
fn more_failures_than_the_level_tolerates() {
    let found = Machine::new("raid5", 5, None)
        .with("file sys/block/md0/md/degraded 2")
        .only("array-degraded");
    assert_eq!(found.severity, Severity::Critical);
    assert_eq!(
        found.title,
        "failed: raid5 has lost more members than it tolerates"
    );
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
    assert!(
        found.title.contains("on a disk that reports errors"),
        "{}",
        found.title
    );
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
    let of = |found: &[Finding], id: &str| {
        let found = found.iter().find(|f| f.id == id).unwrap();
        found.commands.clone()
    };
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
    for (state, action) in [
        ("read-auto", "idle"),
        ("readonly", "idle"),
        ("clean", "frozen"),
    ] {
        let found = interrupted(state, action).findings();
        assert!(
            found.iter().any(|f| f.id == "array-reshape-interrupted"),
            "{state}"
        );
        assert!(found.len() > 1, "{state}");
        let commands: Vec<_> = found.iter().flat_map(|f| &f.commands).collect();
        assert!(
            !commands
                .iter()
                .any(|c| c.contains("--readwrite") || c.contains("sync_action")),
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
    // An array without members is ignored.
    Machine::raid6()
        .with("md md7 9:7 0 array_state=clear")
        .no_findings();
}

#[test]
fn syncing() {
    for (action, severity, title) in [
        ("check", Severity::Info, "check in progress, 25.0 % done"),
        (
            "resync",
            Severity::Warning,
            "resync in progress, 25.0 % done",
        ),
        ("frozen", Severity::Warning, "resync and rebuild are frozen"),
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
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.commands, ["mdadm --readwrite /dev/md0"]);
    assert_eq!(found.figures["resync_from_sector"], 5120);
    // No command: an administrator may have made it read-only to save data.
    let found = waits("readonly").only("array-resync-pending");
    assert!(found.commands.is_empty());
    // A running resync is not pending.
    waits("active")
        .with("file sys/block/md0/md/sync_action resync")
        .only("array-syncing");
    for (file, text) in [("array_state", "read-auto"), ("resync_start", "none")] {
        Machine::raid6()
            .with(&format!("file sys/block/md0/md/{file} {text}"))
            .no_findings();
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
    assert_eq!(
        spare.only("array-degraded").commands,
        ["mdadm --readwrite /dev/md0"]
    );
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
        [
            "mdadm --manage /dev/md0 --remove /dev/sdc",
            "mdadm --manage /dev/md0 --add /dev/NEW_DISK"
        ]
    );
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
}

#[test]
fn mismatches_of_a_check_or_repair() {
    let after = |action: &str| {
        Machine::raid6()
            .with("file sys/block/md0/md/mismatch_cnt 94208")
            .with(&format!("file sys/block/md0/md/last_sync_action {action}"))
    };
    let found = after("check").only("array-mismatch");
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.figures["sectors"], 94208);
    assert!(found.seen[0].ends_with("md/last_sync_action check"));
    let repaired = after("repair").only("array-repaired");
    assert_eq!(repaired.severity, Severity::Info);
    assert!(
        repaired.title.contains("rewrote 94208 mismatched sectors"),
        "{}",
        repaired.title
    );
    // Blocks that a first resync or a rebuild counts may never have matched. `idle` and `none`: no sync since assembly.
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
    assert_eq!(mirror.only("array-mismatch").severity, Severity::Info);
    // The count of a running check is not final, and another check would start over.
    let running = after("check")
        .with("file sys/block/md0/md/sync_action check")
        .findings();
    let found = running.iter().find(|f| f.id == "array-mismatch").unwrap();
    assert!(found.title.contains("so far") && found.commands.is_empty());
}

#[test]
fn write_mostly_flags_of_a_mirror() {
    let mirror = |spinning: &str, ssd: &str| {
        Machine::new("raid1", 2, Some(32744))
            .with("file sys/block/sdb/queue/rotational 0")
            .with(&format!("file sys/block/md0/md/dev-sda/state {spinning}"))
            .with(&format!("file sys/block/md0/md/dev-sdb/state {ssd}"))
    };
    let commands = |machine: Machine| {
        let found = machine.findings();
        let found = found.into_iter().find(|f| f.id == "members-rotational");
        found.map(|f| f.commands)
    };
    let (plain, mostly) = ("in_sync", "in_sync,write_mostly");
    let (set, clear) = (
        "echo writemostly > /sys/block/md0/md/dev-sda/state",
        "echo -writemostly > /sys/block/md0/md/dev-sdb/state",
    );
    let of = |commands: &[&str]| Some(commands.iter().map(|c| (*c).to_owned()).collect());
    assert_eq!(commands(mirror(plain, plain)), of(&[set]));
    assert_eq!(commands(mirror(plain, mostly)), of(&[set, clear]));
    assert_eq!(commands(mirror(mostly, mostly)), of(&[clear]));
    assert_eq!(commands(mirror(mostly, plain)), None);
}

#[test]
fn no_advice_on_a_tie() {
    let half = |file: &str, text: &str| {
        (0..3).fold(Machine::new("raid10", 6, None), |m, i| {
            m.with(&format!(
                "file sys/block/{}/queue/{file} {text}",
                super::name(i)
            ))
        })
    };
    for (file, text, id) in [
        ("scheduler", "none [bfq]", "members-scheduler"),
        ("nr_requests", "1023", "members-limits"),
        ("max_sectors_kb", "128", "members-limits"),
    ] {
        let tie = half(file, text).only(id);
        assert!(tie.commands.is_empty(), "{:?}", tie.commands);
        assert!(
            tie.seen.iter().any(|s| s.contains("none is advised")),
            "{:?}",
            tie.seen
        );
        let odd = half(file, text)
            .with(&format!("file sys/block/sdd/queue/{file} {text}"))
            .only(id);
        assert_eq!(odd.commands.len(), 2, "{:?}", odd.commands);
    }
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
        // Equal values on all members cause no finding.
        if id != "members-iostats" {
            let mut all = Machine::raid6();
            for i in 0..7 {
                all = all.with(&format!("file sys/block/{}/{file} {text}", super::name(i)));
            }
            let ids = all.ids();
            let ssd = ["alloc-stripe-ssd", "parity-stripe-cache"];
            assert!(
                ids.iter().all(|i| ssd.iter().any(|s| i.contains(s))),
                "{ids:?}"
            );
        }
    }
}

#[test]
fn spares_are_not_compared() {
    Machine::raid6()
        .with(
            "disk sdz 65:16 600000000 queue/iostats=1 queue/rotational=0 queue/scheduler=none device/model=OTHER
            member md0 sdz slot=none state=spare offset=264192 size=268435456",
        )
        .no_findings();
}

#[test]
fn larger_members() {
    let found = Machine::raid6()
        .with("file sys/block/md0/md/dev-sda/size 536870912")
        .only("members-size");
    assert_eq!(found.figures["unused_bytes"].as_u64(), Some(256 << 30));
    assert!(found.commands.is_empty());
    // Disks of one model differ by a few MiB.
    Machine::raid6()
        .with("file sys/block/md0/md/dev-sda/size 268439552")
        .no_findings();
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
    // mdadm 4.4 has no command for a bitmap in a file.
    assert_eq!(
        found.commands[0],
        "echo none > /sys/block/md0/md/bitmap/location"
    );
    assert!(found.commands[1].contains("--bitmap=internal"));
    let fine = || Machine::raid6().with("file sys/block/md0/md/bitmap/chunksize 2097152");
    assert_eq!(
        fine().only("bitmap-chunk").figures["bits"].as_u64(),
        Some(131_072)
    );
    let none = || {
        Machine::new("raid10", 6, None).with(
            "file sys/block/md0/md/bitmap/location none
            file sys/block/md0/md/consistency_policy resync",
        )
    };
    none().only("bitmap-none");
    // mdadm refuses during a check, so there is no command.
    let busy = none()
        .with("file sys/block/md0/md/sync_action check")
        .findings();
    let found = busy.iter().find(|f| f.id == "bitmap-none").unwrap();
    assert!(found.commands.is_empty());
    // Another consistency policy needs no bitmap.
    none()
        .with("file sys/block/md0/md/consistency_policy ppl")
        .no_findings();
}

/// `disks` of the RAID 6 as libata shows them, with word 206 of their IDENTIFY data.
fn ata(disks: u32, timeout: u64, word: Option<&str>) -> Machine {
    (0..disks).fold(Machine::raid6(), |m, i| {
        let name = super::name(i);
        let scsi = format!("sys/devices/ata{i}/host{i}/target{i}:0:0/{i}:0:0:0");
        // In sysfs `device` is a link, not a directory.
        std::fs::remove_dir_all(m.tree.path(format!("sys/block/{name}/device"))).unwrap();
        m.tree.write(format!("{scsi}/vendor"), "ATA     \n");
        m.tree
            .write(format!("{scsi}/timeout"), format!("{timeout}\n"));
        if let Some(word) = word {
            let file = format!("sys/devices/ata{i}/link{i}/dev{i}.0/ata_device/dev{i}.0/id");
            m.tree
                .write(file, format!("{}{word} 0000\n", "0000 ".repeat(206)));
        }
        m.with(&format!("link sys/block/{name}/device ../../../{scsi}"))
    })
}

#[test]
fn command_timeouts_shorter_than_error_recovery() {
    let found = ata(2, 30, Some("0000")).only("member-timeout");
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(
        found.commands,
        [
            "echo 180 > /sys/block/sda/device/timeout",
            "echo 180 > /sys/block/sdb/device/timeout"
        ]
    );
    // The kernel does not show the current limit.
    let found = ata(2, 30, Some("003d")).only("member-timeout-unknown");
    assert_eq!(found.severity, Severity::Info);
    assert_eq!(found.commands[0], "smartctl -l scterc /dev/sda");
    assert!(
        found.seen[1].contains("sda and sdb can limit"),
        "{:?}",
        found.seen
    );
    ata(2, 30, None).only("member-timeout-unknown");
    for word in [Some("0000"), Some("003d"), None] {
        ata(2, 180, word).no_findings();
    }
    // Solid-state disks do not retry for minutes.
    let ids = ata(1, 30, None)
        .with("file sys/block/sda/queue/rotational 0")
        .ids();
    assert_eq!(ids, ["warning members-rotational"]);
}
