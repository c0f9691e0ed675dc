//! Rules on members and bitmaps.

use super::Machine;
use crate::commands::doctor::finding::FindingSeverity;

#[test]
fn write_mostly_flags_of_a_mirror() {
    let mirror = |spinning: &str, ssd: &str| {
        Machine::new("raid1", 2, Some(32744))
            .with("file sys/block/sdb/queue/rotational 0")
            .with(&format!("file sys/block/md0/md/dev-sda/state {spinning}"))
            .with(&format!("file sys/block/md0/md/dev-sdb/state {ssd}"))
    };
    let commands = |machine: Machine| {
        let found = machine.findings().into_iter().find(|f| f.id == "members-rotational");
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
            m.with(&format!("file sys/block/{}/queue/{file} {text}", super::name(i)))
        })
    };
    for (file, text, id) in [
        ("scheduler", "none [bfq]", "members-scheduler"),
        ("nr_requests", "1023", "members-limits"),
        ("max_sectors_kb", "128", "members-limits"),
    ] {
        let tie = half(file, text).only(id);
        assert!(tie.commands.is_empty(), "{:?}", tie.commands);
        assert!(tie.seen.iter().any(|s| s.contains("none is advised")), "{:?}", tie.seen);
        let odd =
            half(file, text).with(&format!("file sys/block/sdd/queue/{file} {text}")).only(id);
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
        ("queue/iostats", "0", "members-iostats", Some("echo 1 > /sys/block/sdd/queue/iostats")),
    ] {
        let found = Machine::raid6().with(&format!("file sys/block/sdd/{file} {text}")).only(id);
        assert_eq!(found.commands.first().map(String::as_str), command, "{file}");
        // Equal values on all members cause no finding.
        if id != "members-iostats" {
            let mut all = Machine::raid6();
            for i in 0..7 {
                all = all.with(&format!("file sys/block/{}/{file} {text}", super::name(i)));
            }
            let ids = all.ids();
            let ssd = ["alloc-stripe-ssd", "parity-stripe-cache"];
            assert!(ids.iter().all(|i| ssd.iter().any(|s| i.contains(s))), "{ids:?}");
        }
    }
}

#[test]
fn spares_are_not_compared() {
    Machine::raid6()
        .with(
            "disk sdz 65:16 600000000 queue/iostats=1 queue/rotational=0 queue/scheduler=none \
             device/model=OTHER
            member md0 sdz slot=none state=spare offset=264192 size=268435456",
        )
        .no_findings();
}

#[test]
fn larger_members() {
    let found =
        Machine::raid6().with("file sys/block/md0/md/dev-sda/size 536870912").only("members-size");
    assert_eq!(found.figures["unused_bytes"].as_u64(), Some(256 << 30));
    assert!(found.commands.is_empty());
    // Disks of one model differ by a few MiB.
    Machine::raid6().with("file sys/block/md0/md/dev-sda/size 268439552").no_findings();
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
    assert_eq!(found.commands[0], "echo none > /sys/block/md0/md/bitmap/location");
    assert!(found.commands[1].contains("--bitmap=internal"));
    let fine = || Machine::raid6().with("file sys/block/md0/md/bitmap/chunksize 2097152");
    assert_eq!(fine().only("bitmap-chunk").figures["bits"].as_u64(), Some(131_072));
    let none = || {
        Machine::new("raid10", 6, None).with(
            "file sys/block/md0/md/bitmap/location none
            file sys/block/md0/md/consistency_policy resync",
        )
    };
    none().only("bitmap-none");
    // mdadm refuses during a check, so there is no command.
    let busy = none().with("file sys/block/md0/md/sync_action check").findings();
    let found = busy.iter().find(|f| f.id == "bitmap-none").unwrap();
    assert!(found.commands.is_empty());
    // Another consistency policy needs no bitmap.
    none().with("file sys/block/md0/md/consistency_policy ppl").no_findings();
}

/// `disks` of the RAID 6 as libata shows them, with word 206 of their IDENTIFY data.
fn ata(disks: u32, timeout: u64, word: Option<&str>) -> Machine {
    (0..disks).fold(Machine::raid6(), |m, i| {
        let name = super::name(i);
        let scsi = format!("sys/devices/ata{i}/host{i}/target{i}:0:0/{i}:0:0:0");
        // In sysfs `device` is a link, not a directory.
        std::fs::remove_dir_all(m.tree.path(format!("sys/block/{name}/device"))).unwrap();
        m.tree.write(format!("{scsi}/vendor"), "ATA     \n");
        m.tree.write(format!("{scsi}/timeout"), format!("{timeout}\n"));
        if let Some(word) = word {
            let file = format!("sys/devices/ata{i}/link{i}/dev{i}.0/ata_device/dev{i}.0/id");
            m.tree.write(file, format!("{}{word} 0000\n", "0000 ".repeat(206)));
        }
        m.with(&format!("link sys/block/{name}/device ../../../{scsi}"))
    })
}

#[test]
fn command_timeouts_shorter_than_error_recovery() {
    let found = ata(2, 30, Some("0000")).only("member-timeout");
    assert_eq!(found.severity, FindingSeverity::Warning);
    assert_eq!(
        found.commands,
        ["echo 180 > /sys/block/sda/device/timeout", "echo 180 > /sys/block/sdb/device/timeout"]
    );
    // The kernel does not show the current limit.
    let found = ata(2, 30, Some("003d")).only("member-timeout-unknown");
    assert_eq!(found.severity, FindingSeverity::Info);
    assert_eq!(found.commands[0], "smartctl -l scterc /dev/sda");
    assert!(found.seen[1].contains("sda and sdb can limit"), "{:?}", found.seen);
    ata(2, 30, None).only("member-timeout-unknown");
    for word in [Some("0000"), Some("003d"), None] {
        ata(2, 180, word).no_findings();
    }
    // Solid-state disks do not retry for minutes.
    let ids = ata(1, 30, None).with("file sys/block/sda/queue/rotational 0").ids();
    assert_eq!(ids, ["warning members-rotational"]);
}
