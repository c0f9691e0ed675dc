//! Rules on the placement of metadata.

use super::Machine;
use crate::commands::doctor::finding::FindingSeverity;
use crate::mke2fs::{Conf, Options, plan};

#[test]
fn default_layout_on_12_disks() {
    let full = Machine::new("raid0", 12, None).sb(|sb| sb.free_inodes_count = sb.inodes_count / 2);
    let found = full.findings();
    assert_eq!(full.ids(), ["info layout-skew", "info layout-stride-inert"]);
    let skew = &found[0];
    assert!(skew.title.contains("sda, sde and sdi hold"), "{}", skew.title);
    assert!(skew.figures["bitmaps"].as_f64().unwrap() > 3.9);
    assert_eq!(skew.figures["better_options"], "-g 32744");
    assert!(skew.figures["better_skew"].as_f64().unwrap() < 1.2);
    assert!(skew.seen.iter().any(|s| s.contains("4096 modulo 12 disks is 4")), "{:?}", skew.seen);
    let mkfs = ["mkfs.ext4 -g 32744 /dev/NEW_ARRAY"];
    assert_eq!(skew.commands, mkfs);

    // The evidence mentions files. The command never names an existing device, even if there are
    // none.
    let files = |machine: Machine| {
        let found = machine.findings().remove(0);
        assert_eq!(found.commands, mkfs);
        found.seen.last().unwrap().clone()
    };
    let used = |n: u32| {
        Machine::new("raid0", 12, None).sb(|sb| sb.free_inodes_count = sb.inodes_count - n)
    };
    let none = "no inodes in use besides the reserved ones when it was checked";
    assert_eq!(files(used(12)), "1 inodes in use besides the reserved ones");
    assert_eq!(files(used(11)), none);
    assert_eq!(files(used(12).sb(|sb| sb.orphan_file_inum = 12)), none);
    // The superblock is outdated if the filesystem was not unmounted.
    assert_eq!(files(used(11).sb(|sb| sb.state = 0)), "the filesystem may hold files");
}

#[test]
fn the_advised_options_are_even() {
    Machine::new("raid0", 12, Some(32744)).no_findings();
    Machine::new("raid5", 8, Some(32744)).no_findings();
}

#[test]
fn default_layout_on_raid5() {
    let machine = Machine::new("raid5", 8, None);
    let found = &machine.findings()[0];
    assert_eq!((found.id, found.severity), ("layout-skew", FindingSeverity::Info));
    assert!(found.figures["bitmaps"].as_f64().unwrap() > 7.9);
    // No flex groups of 128 GiB, which would spread only the bitmaps evenly.
    assert!(!found.seen.iter().any(|s| s.contains("-G")), "{:?}", found.seen);
}

/// A few groups cannot be even, and are rarely written.
#[test]
fn small_filesystems_are_ignored() {
    let groups = |n: u64| {
        let mut machine = Machine::new("raid0", 12, None);
        let bytes = n * 32768 * 4096;
        machine.layout = plan(bytes, 512 << 10, &Options::default(), &Conf::compiled_in()).unwrap();
        machine.sb(|sb| {
            sb.raid_stride = 128;
            sb.raid_stripe_width = 1536;
        })
    };
    let skew = |machine: Machine| machine.ids().iter().any(|i| i.contains("layout"));
    assert!(!skew(groups(25)));
    assert!(!skew(groups(32 * 12 - 1)));
    assert!(skew(groups(32 * 12)));
}

#[test]
fn reshape_that_makes_a_layout_uneven() {
    let grows = |from: u32, to: u32| {
        Machine::new("raid5", to, None).with(&format!(
            "file sys/block/md0/md/reshape_position 1048576
            file sys/block/md0/md/sync_action reshape
            file sys/block/md0/md/raid_disks {to} ({from})"
        ))
    };
    let machine = grows(7, 8);
    let ids = machine.ids();
    assert!(ids.contains(&"info layout-grow".to_owned()), "{ids:?}");
    let all = machine.findings();
    let found = all.iter().find(|f| f.id == "layout-grow").unwrap();
    assert!(found.title.contains("from 7 to 8 disks"));
    assert!(found.figures["after"].as_f64().unwrap() > 7.9);
    for (from, to) in [(8, 7), (7, 9), (4, 8)] {
        let ids = grows(from, to).ids();
        assert!(!ids.iter().any(|i| i.contains("layout-grow")), "{from} {to} {ids:?}");
    }
}
