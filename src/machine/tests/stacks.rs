//! Stacked devices: device mapper, nested arrays, plain disks.

use super::tree::{Tree, segments, stripes};

const STACK: &str = "
    disk sda 8:0 2000000
    md md5 9:5 1000000 level=raid0 layout=1 chunk_size=65536 raid_disks=1 array_state=clean \
                     metadata_version=1.2
    member md5 sda slot=0 state=in_sync offset=2048 size=500000
    part md5p1 259:1 900000 disk=md5 number=1 start=2048
    dm dm-0 253:0 867232 name=secret uuid=CRYPT-LUKS2-abc slaves=md5p1
    dm dm-1 253:1 300000 name=vg-home uuid=LVM-xyz slaves=dm-0
    mount 253:1 /home ext4 /dev/mapper/vg-home rw";

#[test]
fn lvm_on_crypt_on_a_partition_of_md() {
    let mut tree = Tree::new(STACK);
    let closed = tree.array();
    let why = closed.filesystems[0].note.as_deref().unwrap_or_default();
    assert!(why.contains("dm-1") && why.contains("root"), "{why}");
    assert!(closed.filesystems[0].segments.is_empty());
    tree.add(
        "target 253:0 0 867232 crypt aes-xts-plain64 :64:logon:x 0 259:1 32768
        target 253:1 0 100000 linear 253:0 2048
        target 253:1 100000 100000 linear 253:0 102048
        target 253:1 200000 100000 linear 253:0 502048",
    );
    let array = tree.array();
    let fs = &array.filesystems[0];
    assert_eq!(fs.stack, ["LVM vg-home", "dm-crypt secret", "partition 1"]);
    // 2048 partition + 32768 LUKS header + 2048; the first two extents are contiguous and merged.
    assert_eq!(segments(&fs.segments), [(0, 36_864, 200_000), (200_000, 536_864, 100_000)]);
    assert_eq!((fs.name.as_str(), fs.note.as_deref()), ("dm-1", None));
}

#[test]
fn a_volume_striped_over_two_arrays() {
    let tree = Tree::new(
        "disk sda 8:0 1000
        disk sdb 8:16 1000
        dm dm-0 253:0 400 name=vg-s uuid=LVM-s slaves=sda,sdb
        target 253:0 0 400 striped 2 100 8:0 10 8:16 20
        mount 253:0 /s xfs /dev/mapper/vg-s rw",
    );
    let arrays = tree.resolve(&["/s"]).unwrap().arrays;
    let placed: Vec<_> =
        arrays.iter().map(|a| (a.name.as_str(), segments(&a.filesystems[0].segments))).collect();
    assert_eq!(placed[0], ("sda", vec![(0, 10, 200)]));
    assert_eq!(placed[1], ("sdb", vec![(100, 20, 200)]));
    for array in &arrays {
        assert_eq!(stripes(&array.filesystems[0].segments), [(100, 100, 0)]);
    }
}

/// A partition of a volume begins within a chunk of the second leg, and a leg has two pieces.
#[test]
fn a_part_of_a_striped_volume() {
    let mut tree = Tree::new(
        "disk sda 8:0 1000
        disk sdb 8:16 1000
        dm dm-0 253:0 120 name=vg-leg uuid=LVM-l slaves=sda
        target 253:0 0 60 linear 8:0 500
        target 253:0 60 60 linear 8:0 100
        dm dm-1 253:1 240 name=vg-s uuid=LVM-s slaves=dm-0,sdb
        target 253:1 0 240 striped 2 40 253:0 0 8:16 20
        dm dm-2 253:2 150 name=vg-part uuid=LVM-p slaves=dm-1
        target 253:2 0 150 linear 253:1 50
        mount 253:2 /s xfs /dev/mapper/vg-part rw",
    );
    let arrays = tree.resolve(&["/s"]).unwrap().arrays;
    let of = |n: usize| &arrays[n].filesystems[0].segments;
    // Sectors 50 to 200 of the volume: of leg 0 its sectors 40 to 120, of leg 1 10 to 80.
    assert_eq!(segments(of(0)), [(30, 540, 20), (50, 100, 60)]);
    assert_eq!(stripes(of(0)), [(40, 40, 0), (40, 40, 20)]);
    assert_eq!(segments(of(1)), [(0, 30, 70)]);
    assert_eq!(stripes(of(1)), [(40, 40, 10)]);
    tree.add(
        "dm dm-3 253:3 200 name=vg-twice uuid=LVM-t slaves=dm-1,sdb
        target 253:3 0 200 striped 2 40 253:1 0 8:16 400
        mount 253:3 /t xfs /dev/mapper/vg-twice rw",
    );
    let arrays = tree.resolve(&["/t"]).unwrap().arrays;
    let twice = arrays[0].filesystems.iter().find(|fs| fs.name == "dm-3").unwrap();
    assert_eq!(twice.note.as_deref(), Some("dm-1 is striped below a striped volume"));
}

#[test]
fn targets_without_a_known_mapping() {
    let mut tree = Tree::new(
        "disk sda 8:0 1000
        dm dm-0 253:0 400 name=vg-thin uuid=LVM-t slaves=sda
        target 253:0 0 400 thin 8:0 1
        mount 253:0 /t ext4 /dev/mapper/vg-thin rw",
    );
    let topology = tree.resolve(&[]).unwrap();
    assert_eq!(topology.arrays[0].name, "sda");
    assert!(topology.arrays[0].filesystems[0].segments.is_empty());
    assert!(topology.notes[0].contains("thin volume"), "{:?}", topology.notes);
    tree.add(
        "disk sdb 8:16 1000000
        dm dm-1 253:1 1000000 name=vg-wide uuid=LVM-w slaves=sdb
        target 253:1 0 1000000 striped 2 8 8:16 0 8:16 500000
        mount 253:1 /w ext4 /dev/mapper/vg-wide rw",
    );
    let fs = &tree.resolve(&["sdb"]).unwrap().arrays[0].filesystems[0];
    assert_eq!(segments(&fs.segments), [(0, 0, 500_000), (8, 500_000, 500_000)]);
}

#[test]
fn a_plain_disk_is_an_array_of_one() {
    let tree = Tree::new(
        "disk vda 254:0 83886080 queue/rotational=1
        part vda1 254:1 80000000 disk=vda number=1 start=2048
        mount 254:1 / ext4 /dev/root rw
        disk zram0 253:0 1000 queues=0",
    );
    let array = tree.array();
    assert_eq!(
        (array.name.as_str(), array.level.as_str(), array.is_md()),
        ("vda", "single", false)
    );
    assert_eq!((array.chunk_sectors, array.raid_disks, array.metadata.as_deref()), (0, 1, None));
    let m = &array.members[0];
    assert_eq!((m.name.as_str(), m.slot, m.data_sectors), ("vda", Some(0), 83_886_080));
    assert!(m.queue.rotational && !m.queue.bio_based);
    assert_eq!(segments(&array.filesystems[0].segments), [(0, 2048, 80_000_000)]);
    assert!(tree.resolve(&["zram0"]).unwrap().arrays[0].members[0].queue.bio_based);
}

#[test]
fn a_multipath_device_is_the_disk() {
    let tree = Tree::new(
        "disk sda 8:0 1000
        disk sdb 8:16 1000
        dm dm-0 253:0 1000 name=mpatha uuid=mpath-3600 slaves=sda,sdb
        dm dm-1 253:1 900 name=mpatha-part1 uuid=part1-mpath-3600 slaves=dm-0
        target 253:1 0 900 linear 253:0 63
        mount 253:1 /san ext4 /dev/mapper/mpatha-part1 rw",
    );
    let array = tree.array();
    assert_eq!(
        (array.name.as_str(), array.filesystems[0].stack.join("")),
        ("dm-0", "partition mpatha-part1".into())
    );
    assert_eq!(segments(&array.filesystems[0].segments), [(0, 63, 900)]);
}

#[test]
fn md_on_dm_and_md_on_md() {
    let mut tree = Tree::new(
        "disk sda 8:0 2000
        dm dm-0 253:0 1000 name=c0 uuid=CRYPT-PLAIN-c0 slaves=sda
        target 253:0 0 1000 crypt aes - 0 8:0 16
        md md1 9:1 900 level=raid1 raid_disks=1 array_state=clean metadata_version=1.2
        member md1 dm-0 slot=0 state=in_sync offset=8 size=400
        md md0 9:0 800 level=raid0 chunk_size=4096 raid_disks=1 array_state=clean \
         metadata_version=1.2
        member md0 md1 slot=0 state=in_sync offset=8 size=400
        mount 9:1 /one ext4 /dev/md1 rw",
    );
    let arrays = tree.resolve(&[]).unwrap().arrays;
    let m = &arrays[1].members[0];
    assert_eq!((m.name.as_str(), m.disk_name.as_str(), m.start.0), ("dm-0", "sda", 16));
    tree.add("mount 9:0 /nested ext4 /dev/md0 rw");
    let topology = tree.resolve(&["/nested"]).unwrap();
    assert_eq!(topology.arrays[0].members[0].nested_array, Some(topology.arrays[1].dev));
    assert_eq!(tree.names(&["sda"]).as_deref(), Ok("md0 md1"));
}

/// RAID 0 over RAID 1 pairs. One member is a partition of its pair.
fn raid0_over_raid1() -> Tree {
    let mut tree = Tree::new(
        "md md10 9:10 4000 level=raid0 chunk_size=65536 raid_disks=2 array_state=clean \
         metadata_version=1.2
        member md10 md2 slot=0 state=in_sync offset=8 size=990
        member md10 md3p1 slot=1 state=in_sync offset=8 size=990
        part md3p1 259:3 1900 disk=md3 number=1 start=64
        mount 9:10 /nested ext4 /dev/md10 rw",
    );
    for (md, disks) in [(2, ["sda", "sdb"]), (3, ["sdc", "sdd"])] {
        tree.add(&format!(
            "md md{md} 9:{md} 2000 level=raid1 raid_disks=2 component_size=1000 array_state=clean \
             metadata_version=1.0"
        ));
        for (slot, disk) in disks.iter().enumerate() {
            let minor = 16 * (usize::from(disk.as_bytes()[2] - b'a'));
            tree.add(&format!(
                "disk {disk} 8:{minor} 2100
                member md{md} {disk} slot={slot} state=in_sync offset=0 size=1000"
            ));
        }
    }
    tree
}

#[test]
fn raid0_over_raid1_pairs() {
    let tree = raid0_over_raid1();
    // Any part of the stack as target.
    for targets in
        [&[][..], &["/nested"], &["md10"], &["md3"], &["md3p1"], &["sda"], &["md2", "md10"]]
    {
        assert_eq!(tree.names(targets).as_deref(), Ok("md2 md3 md10"), "{targets:?}");
    }
    let topology = tree.resolve(&[]).unwrap();
    let [first, second, outer] = &topology.arrays[..] else { panic!() };
    let links: Vec<_> = outer.members.iter().map(|m| (m.nested_array, m.start.0)).collect();
    assert_eq!(links, [(Some(first.dev), 0), (Some(second.dev), 64)]);
    assert!(first.members.iter().all(|m| m.nested_array.is_none()));
    // md2 and md3p1 are members of md10: neither is an unmounted device that could hold a
    // filesystem.
    assert_eq!(outer.filesystems.len(), 1);
    for nested in [first, second] {
        let unmounted: Vec<_> = nested.unmounted.iter().map(|f| f.name.as_str()).collect();
        assert!(nested.filesystems.is_empty());
        assert!(!unmounted.contains(&"md2") && !unmounted.contains(&"md3p1"));
    }
    assert!(!topology.notes.iter().any(|n| n.contains("not traced")), "{:?}", topology.notes);
}

#[test]
fn too_many_levels_and_cycles() {
    let mut tree = Tree::new("disk sda 8:0 5000");
    let below = ["sda", "md1", "md2", "md3", "md4"];
    for (n, on) in (1..).zip(below) {
        tree.add(&format!(
            "md md{n} 9:{n} 4000 level=raid1 raid_disks=1 array_state=clean metadata_version=1.2
            member md{n} {on} slot=0 state=in_sync offset=8 size=1000"
        ));
    }
    tree.add("mount 9:5 /deep ext4 /dev/md5 rw");
    let topology = tree.resolve(&[]).unwrap();
    let followed: Vec<bool> =
        topology.arrays.iter().map(|a| a.members[0].nested_array.is_some()).collect();
    assert_eq!(followed.len(), 5);
    assert_eq!(followed.iter().filter(|f| **f).count(), 3, "{followed:?}");
    assert!(topology.notes.iter().any(|n| n.contains("too many levels")), "{:?}", topology.notes);

    tree.add("member md1 md5 slot=1 state=in_sync offset=8 size=1000");
    assert_eq!(tree.names(&[]).as_deref(), Ok("md1 md2 md3 md4 md5"));
    let circle = Tree::new(
        "md md1 9:1 4000 level=raid1 raid_disks=1 array_state=clean
        md md2 9:2 4000 level=raid1 raid_disks=1 array_state=clean
        member md1 md2 slot=0 state=in_sync size=1000
        member md2 md1 slot=0 state=in_sync size=1000
        mount 9:1 /c ext4 /dev/md1 rw",
    );
    let topology = circle.resolve(&[]).unwrap();
    assert!(topology.notes.iter().any(|n| n.contains("built on itself")), "{:?}", topology.notes);
}
