//! Where metadata falls.

use super::Machine;
use crate::doctor::finding::Severity;

#[test]
fn the_first_case() {
    let full = Machine::new("raid0", 12, None).sb(|sb| sb.free_inodes_count = sb.inodes_count / 2);
    let found = full.findings();
    assert_eq!(
        full.ids(),
        ["warning layout-skew", "info layout-stride-inert"]
    );
    let skew = &found[0];
    assert!(
        skew.title.contains("sda, sde and sdi hold"),
        "{}",
        skew.title
    );
    assert!(skew.figures["bitmaps"].as_f64().unwrap() > 3.9);
    assert_eq!(skew.figures["better_options"], "-g 32744");
    assert!(skew.figures["better_skew"].as_f64().unwrap() < 1.2);
    assert!(
        skew.seen
            .iter()
            .any(|s| s.contains("4096 modulo 12 disks is 4")),
        "{:?}",
        skew.seen
    );
    // Files are on it: nothing that destroys them may stand there ready to be copied.
    assert_eq!(skew.commands, ["mkfs.ext4 -g 32744 /dev/NEW_ARRAY"]);

    // One file is a file; and what a filesystem that was not unmounted says of itself is old.
    let used = |n: u32| {
        Machine::new("raid0", 12, None).sb(|sb| sb.free_inodes_count = sb.inodes_count - n)
    };
    let commands = |machine: Machine| machine.findings()[0].commands.clone();
    assert_eq!(commands(used(12)), skew.commands);
    assert_eq!(commands(used(11).sb(|sb| sb.state = 0)), skew.commands);
    let anew = ["umount /srv", "mkfs.ext4 -g 32744 /dev/md0"];
    assert_eq!(commands(used(11)), anew);
    assert_eq!(commands(used(12).sb(|sb| sb.orphan_file_inum = 12)), anew);
}

#[test]
fn the_advised_options_are_even() {
    Machine::new("raid0", 12, Some(32744)).nothing();
    Machine::new("raid5", 8, Some(32744)).nothing();
}

#[test]
fn raid5_is_as_bad() {
    let machine = Machine::new("raid5", 8, None);
    let found = &machine.findings()[0];
    assert_eq!(
        (found.id, found.severity),
        ("layout-skew", Severity::Warning)
    );
    assert!(found.figures["bitmaps"].as_f64().unwrap() > 7.9);
    // Aligned groups are worth something on parity levels: what evens the bitmaps alone is shown too.
    assert!(
        found
            .seen
            .iter()
            .any(|s| s.contains("groups aligned to chunks")),
        "{:?}",
        found.seen
    );
}

#[test]
fn ssds_are_only_told() {
    let machine = (0..12).fold(Machine::new("raid0", 12, None), |m, i| {
        m.with(&format!(
            "file sys/block/{}/queue/rotational 0",
            super::name(i)
        ))
    });
    machine.options("rw\nerrors=remount-ro\nstripe=0");
    assert_eq!(
        machine.ids(),
        ["info layout-skew", "info layout-stride-inert"]
    );
}

#[test]
fn a_disk_more_makes_it_uneven() {
    let grows = |from: u32, to: u32| {
        Machine::new("raid5", to, None).with(&format!(
            "file sys/block/md0/md/reshape_position 1048576
            file sys/block/md0/md/sync_action reshape
            file sys/block/md0/md/raid_disks {to} ({from})"
        ))
    };
    let machine = grows(7, 8);
    let ids = machine.ids();
    assert!(ids.contains(&"warning layout-grow".to_owned()), "{ids:?}");
    let all = machine.findings();
    let found = all.iter().find(|f| f.id == "layout-grow").unwrap();
    assert!(found.title.contains("from 7 to 8 disks"));
    assert!(found.figures["after"].as_f64().unwrap() > 7.9);
    for (from, to) in [(8, 7), (7, 9), (4, 8)] {
        let ids = grows(from, to).ids();
        assert!(
            !ids.iter().any(|i| i.contains("layout-grow")),
            "{from} {to} {ids:?}"
        );
    }
}
