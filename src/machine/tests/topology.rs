//! Topologies of various machines.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::tree::{Tree, raid0_of_12, segments};
use crate::address::MemberSector;
use crate::machine::superblock::tests::V1;
use crate::machine::{ArrayState, BeforeReshape, Dev, HostError};

const RAID5: &str = "
    disk sda 8:0 209715200
    disk sdb 8:16 209715200 queue/logical_block_size=4096
    disk sdc 8:32 209715200
    disk sdd 8:48 209715200
    md md0 9:0 628746240 level=raid5 layout=2 chunk_size=524288 raid_disks=4 \
                     component_size=104790528 metadata_version=1.2 array_state=active degraded=1 \
                     sync_action=recover sync_completed=1000~/~209581056 reshape_position=none \
                     consistency_policy=bitmap bitmap/location=+8 bitmap/space=128 \
                     bitmap/chunksize=67108864
    member md0 sda slot=0 state=in_sync offset=133120 new_offset=133120 size=104791040
    member md0 sdb slot=1 state=in_sync,write_mostly offset=133120 new_offset=133120 size=104791040
    member md0 sdc slot=3 state=spare offset=133120 new_offset=133120 size=104791040
    member md0 sdd slot=none state=faulty offset=133120 new_offset=133120 size=0
    mount 9:0 /data ext4 /dev/md0 rw";

#[test]
fn raid0_of_twelve_loops() {
    let array = raid0_of_12().array();
    assert_eq!((array.name.as_str(), array.dev.to_string()), ("md127", "9:127".into()));
    assert_eq!(array.dev.kernel(), 0x0090_007f);
    assert_eq!((array.level.as_str(), array.chunk_sectors), ("raid0", 1024));
    assert_eq!((array.layout, array.raid_disks), (0, 12));
    assert_eq!((array.degraded, array.sync_action.as_deref()), (0, None));
    assert_eq!((array.reshape_position, array.before_reshape), (None, None));
    let names: Vec<&str> = array.members.iter().map(|m| m.name.as_str()).collect();
    assert_eq!((names[0], names[1], names[11]), ("loop1", "loop2", "loop12"));
    let m = &array.members[11];
    assert_eq!((m.slot, m.dev, m.disk), (Some(11), Dev { major: 7, minor: 12 }, m.dev));
    assert_eq!((m.start.0, m.data_offset.0, m.data_sectors), (0, 133_120, 209_580_032));
    assert_eq!((m.bitmap, m.ppl, m.bad_block_log), (None, None, None));
    assert_eq!(m.queue.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!((m.queue.nr_hw_queues, m.queue.nr_tags, m.queue.bio_based), (1, 128, false));
    assert!(m.queue.iostats && !m.queue.rotational);
    let fs = &array.filesystems[0];
    assert_eq!(segments(&fs.segments), [(0, 0, 2_514_812_928)]);
    assert_eq!(fs.mounts[0].path.to_str(), Some("/srv"));
    assert_eq!(
        (fs.mounts[0].fstype.as_str(), fs.mounts[0].options.as_str()),
        ("ext4", "rw,stripe=1536")
    );
    assert!(fs.stack.is_empty() && fs.note.is_none());
}

#[test]
fn unequal_raid0_uses_the_layout_of_the_module() {
    let mut tree = raid0_of_12();
    tree.add("file sys/module/raid0/parameters/default_layout 2");
    assert_eq!(tree.array().layout, 2);
    tree.write("sys/block/md127/md/layout", "1\n");
    assert_eq!(tree.array().layout, 1);
}

#[test]
fn a_failing_member_leaves_its_slot_empty() {
    let tree = Tree::new(RAID5);
    // Between the error and the removal md still reports the slot.
    tree.write("sys/block/md0/md/dev-sda/state", "faulty,blocked\n");
    assert_eq!(tree.array().missing_slots(), [0, 2]);
    tree.write("sys/block/md0/md/raid_disks", "4294967295\n");
    // missing_slots() caps raid_disks at 1920, the number of roles in a superblock.
    assert_eq!(tree.array().missing_slots().len(), 1920 - 2);
}

#[test]
fn raid5_with_missing_member_spare_and_bitmap() {
    let tree = Tree::new(RAID5);
    let topology = tree.resolve(&["md0"]).unwrap();
    let array = &topology.arrays[0];
    assert_eq!((array.level.as_str(), array.layout, array.degraded), ("raid5", 2, 1));
    assert_eq!(array.component_sectors, 209_581_056);
    assert_eq!(array.sync_completed, Some((1000, 209_581_056)));
    assert_eq!(array.missing_slots(), [2]);
    let by_slot: Vec<(&str, Option<u32>)> =
        array.members.iter().map(|m| (m.name.as_str(), m.slot)).collect();
    assert_eq!(by_slot, [("sda", Some(0)), ("sdb", Some(1)), ("sdc", Some(3)), ("sdd", None)]);
    assert_eq!(array.members[1].state, ["in_sync", "write_mostly"]);
    // The /dev nodes of this tree are empty, so superblocks cannot be read. Fields come from sysfs
    // only, and one note names sda, sdb and sdc.
    assert_eq!(
        (array.members[0].sb_offset, array.members[0].bitmap),
        (Some(MemberSector(8)), Some((MemberSector(16), 128)))
    );
    let notes: Vec<&String> = topology.notes.iter().filter(|n| n.contains("superblock")).collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("sda, sdb, sdc"), "{notes:?}");
}

#[test]
fn superblocks_add_fields_that_sysfs_lacks() {
    let tree = Tree::new(RAID5);
    let put = |disk: &str, sb: V1| {
        let file = File::create(tree.path(format!("dev/{disk}"))).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&sb.bytes(), 4096).unwrap();
    };
    put("sda", V1::raid5());
    put("sdb", V1 { log_offset: 200, ..V1::raid5() });
    put("sdc", V1 { data_offset: 4096, ..V1::raid5() });
    let topology = tree.resolve(&[]).unwrap();
    let members = &topology.arrays[0].members;
    assert_eq!(members[0].sb_offset, Some(MemberSector(8)));
    assert_eq!(members[0].sb_sectors, 1);
    assert_eq!(members[0].bad_block_log, Some((MemberSector(144), 8)));
    assert_eq!(
        (members[1].sb_sectors, members[1].bad_block_log),
        (8, Some((MemberSector(208), 8)))
    );
    // sysfs has precedence.
    assert_eq!(members[2].data_offset, MemberSector(133_120));
    assert!(
        topology
            .notes
            .iter()
            .any(|n| n.contains("sdc begins at sector 133120 according to sysfs and 4096"))
    );
    assert_eq!(topology.notes.len(), 1, "{:?}", topology.notes);
}

#[test]
fn bitmap_without_known_space() {
    let tree = Tree::new(RAID5);
    tree.write("sys/block/md0/md/bitmap/space", "0\n");
    // 209581056 sectors in chunks of 131072 are 1599 bits: 256 + 200 bytes, one page.
    assert_eq!(tree.array().members[0].bitmap, Some((MemberSector(16), 8)));
    tree.write("sys/block/md0/md/bitmap/chunksize", "0\n");
    let bitmap = (MemberSector(16), 133_120 - 16);
    assert_eq!(tree.array().members[0].bitmap, Some(bitmap));
    for none in ["none\n", "file\n", "+0x\n", "+9223372036854775807\n", "-9\n"] {
        tree.write("sys/block/md0/md/bitmap/location", none);
        assert_eq!(tree.array().members[0].bitmap, None, "{none}");
    }
}

#[test]
fn reshape_shows_both_geometries() {
    let mut tree = Tree::new(RAID5);
    tree.add(
        "file sys/block/md0/md/raid_disks 4 (3)
        file sys/block/md0/md/layout 5 (2)
        file sys/block/md0/md/chunk_size 1048576 (524288)
        file sys/block/md0/md/reshape_position 8192
        file sys/block/md0/md/reshape_direction forwards",
    );
    let array = tree.array();
    assert_eq!((array.raid_disks, array.layout, array.chunk_sectors), (4, 5, 2048));
    let before = BeforeReshape { layout: 2, chunk_sectors: 1024, raid_disks: 3, backwards: false };
    assert_eq!((array.reshape_position, array.before_reshape), (Some(8192), Some(before)));
}

const PARTITIONS: &str = "
    disk sda 8:0 2000000
    part sda1 8:1 100000 disk=sda number=1 start=2048
    part sda2 8:2 1800000 disk=sda number=2 start=102400
    disk nvme0n1 259:0 2000000 queues=4
    part nvme0n1p2 259:2 1800000 disk=nvme0n1 number=2 start=206848
    md md1 9:1 1700000 level=raid1 chunk_size=0 layout=0 raid_disks=2 component_size=850000 \
                          metadata_version=1.0 array_state=clean degraded=0 sync_action=idle \
                          sync_completed=none
    member md1 sda2 slot=0 state=in_sync offset=0 size=850000
    member md1 nvme0n1p2 slot=1 state=in_sync offset=0 size=850000
    part md1p1 259:7 1000000 disk=md1 number=1 start=2048
    part md1p2 259:8 600000 disk=md1 number=2 start=1002048
    mount 259:7 /var/lib/pg ext4 /dev/md1p1 rw
    mount 259:8 /with\\040space ext4 /dev/md1p2 rw
    mount 8:1 /boot/efi vfat /dev/sda1 rw";

#[test]
fn partitions_below_and_on_an_array() {
    let tree = Tree::new(PARTITIONS);
    let topology = tree.resolve(&[]).unwrap();
    assert_eq!(topology.arrays.len(), 1);
    let array = &topology.arrays[0];
    let m = &array.members[1];
    assert_eq!(
        (m.name.as_str(), m.disk_name.as_str(), m.start.0),
        ("nvme0n1p2", "nvme0n1", 206_848)
    );
    assert_eq!((m.disk.to_string(), m.queue.nr_hw_queues), ("259:0".into(), 4));
    // Metadata version 1.0: the superblock is 8 to 12 KiB before the end, on a 4 KiB boundary.
    assert_eq!(m.sb_offset, Some(MemberSector(1_799_984)));
    let fs: Vec<_> = array
        .filesystems
        .iter()
        .map(|f| (f.name.as_str(), segments(&f.segments), f.stack.join(" on ")))
        .collect();
    assert_eq!(fs[0], ("md1p1", vec![(0, 2048, 1_000_000)], "partition 1".into()));
    assert_eq!(fs[1], ("md1p2", vec![(0, 1_002_048, 600_000)], "partition 2".into()));
    assert_eq!(array.filesystems[1].mounts[0].path.to_str(), Some("/with space"));
    assert!(
        topology
            .notes
            .iter()
            .any(|n| n == "sda also carries /boot/efi (sda1), which is not on md1"),
        "{:?}",
        topology.notes
    );
}

#[test]
fn mounted_in_another_namespace() {
    let mut tree = Tree::new(RAID5);
    tree.add(
        "disk sdx 8:112 1000\n file sys/fs/ext4/sdx/lifetime 1\n file sys/fs/ext4/features/x 1",
    );
    let array = &tree.resolve(&["sdx"]).unwrap().arrays[0];
    assert_eq!((array.filesystems[0].name.as_str(), array.filesystems[0].mounts.len()), ("sdx", 0));
}

#[test]
fn state_at_run_time() {
    let tree = Tree::new(RAID5);
    let array = tree.array();
    let state = ArrayState::read(&tree.sys(), &array).unwrap();
    assert_eq!(state, ArrayState::from_array(&array));
    assert_eq!(state.health().as_deref(), Some("degraded, recover 0.0 %"));
    let health: Vec<_> = state.members.iter().map(|m| m.health()).collect();
    let words: Vec<_> = health.iter().map(|t| t.as_deref().unwrap_or("-")).collect();
    assert_eq!(words, ["-", "-", "recovering", "faulty"]);
    tree.write("sys/block/md0/md/array_state", "clear\n");
    let stopped = HostError::Stopped("md0".into());
    assert_eq!(ArrayState::read(&tree.sys(), &array), Err(stopped));
}
