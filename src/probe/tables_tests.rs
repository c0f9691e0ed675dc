//! Tables of arrays in many configurations.

use super::{
    ARRAY_CRYPT, ARRAY_RESHAPING, DEV_CLASSIFIED, DEV_NESTED, DEV_STACKED, DEV_START_TIME,
    DEV_VOLUMES, Tables, rt_dev,
};
use crate::address::{ArraySector, DiskSector, FsSector, MemberSector};
use crate::fs::Uuid;
use crate::fs::ext4::{Ext4Layout, FsKind, Journal};
use crate::fs::xfs::{XfsFeatures, XfsGeometry, XfsLayout, XfsLog};
use crate::machine::topology::Topology;
use crate::machine::{
    Array, Dev, Filesystem, HostTopology, Member, MemberPiece, MetadataDevice, NvmePath,
    QueueFacts, Segment,
};

pub(in crate::probe) fn dev(major: u32, minor: u32) -> Dev {
    Dev { major, minor }
}

/// A member in this slot: an array if the major number is 9, otherwise a disk.
pub(in crate::probe) fn member(slot: u32, major: u32, minor: u32) -> Member {
    let name = format!("{}{minor}", if major == 9 { "md" } else { "sd" });
    Member {
        dev: dev(major, minor),
        disk: dev(major, minor),
        disk_name: name.clone(),
        name,
        sectors: 10_000,
        slot: Some(slot),
        data_offset: MemberSector(2048),
        data_sectors: 4096,
        sb_offset: Some(MemberSector(8)),
        sb_sectors: 8,
        nested_array: (major == 9).then_some(dev(major, minor)),
        queue: QueueFacts {
            nr_hw_queues: u32::from(major != 9),
            nr_tags: 64 * u32::from(major != 9),
            iostats: true,
            bio_based: major == 9,
            ..QueueFacts::default()
        },
        ..Member::default()
    }
}

pub(in crate::probe) fn array(minor: u32, level: &str, members: Vec<Member>) -> Array {
    Array {
        name: format!("md{minor}"),
        dev: dev(9, minor),
        sectors: 8192,
        level: level.into(),
        chunk_sectors: if level == "raid1" { 0 } else { 128 },
        raid_disks: members.len() as u32,
        component_sectors: if level == "raid1" { 4096 } else { 0 },
        members,
        ..Array::default()
    }
}

pub(in crate::probe) fn tables(arrays: Vec<Array>) -> Tables {
    let host = HostTopology { arrays, ..HostTopology::default() };
    let topology = Topology { host, ..Topology::default() };
    Tables::new(&topology).unwrap()
}

fn nested() -> Vec<Array> {
    let pair = |minor, a, b| array(minor, "raid1", vec![member(0, 8, a), member(1, 8, b)]);
    let mut second = member(1, 9, 3);
    second.start = DiskSector(64);
    second.sectors = 9000;
    vec![pair(2, 0, 16), pair(3, 32, 48), array(10, "raid0", vec![member(0, 9, 2), second])]
}

/// An ext4 of that many blocks of 4 KiB, without fixed structures.
fn ext4_of(blocks: u64) -> Ext4Layout {
    Ext4Layout {
        block_size: 4096,
        blocks,
        groups: Some(1),
        kind: FsKind::Ext4,
        superblock: None,
        ranges: Vec::new(),
        journal: Journal::Unknown,
        notes: Vec::new(),
    }
}

#[test]
fn a_nested_array_links_to_its_outer_array() {
    let t = tables(nested());
    let outers: Vec<_> = t.arrays.iter().map(|a| (a.outer_member, a.outer_start)).collect();
    assert_eq!(outers, [(5, 0), (6, 64), (0, 0)]);
    assert_eq!(t.members.len(), 6);
    assert!(t.notes.is_empty(), "{:?}", t.notes);
    // A nested array has two roles: it is an array, and it carries a member of the outer array.
    let entry = |d: Dev| t.index.iter().find(|(_, e)| e.dev == d.kernel()).unwrap().1;
    let md3 = entry(dev(9, 3));
    assert_eq!((md3.array, md3.flags & DEV_NESTED), (2, DEV_NESTED));
    assert!(t.need.bio_based);
    let part = t.devs[usize::from(md3.index)].parts[0];
    assert_eq!((part.start, part.end, part.member), (64, 9064, 5));
}

/// md's bios are seen at a device mapper device, its requests on the disk below it, if there is
/// one.
#[test]
fn members_on_device_mapper() {
    let mut in_one_piece = member(0, 8, 0);
    in_one_piece.dev = dev(252, 0);
    in_one_piece.mapped = true;
    in_one_piece.start = DiskSector(2048);
    let mut in_pieces = member(1, 252, 1);
    in_pieces.mapped = true;
    in_pieces.queue.bio_based = true;
    // Device mapper may split bios of any level: `rt_md_submit` keeps them.
    let mirror = tables(vec![array(1, "raid1", vec![in_pieces.clone(), member(1, 8, 16)])]);
    assert!(mirror.need.md_submits);
    let flags: Vec<_> = mirror.devs.iter().filter(|d| d.nr_parts > 0).map(|d| d.flags).collect();
    assert_eq!(flags.iter().map(|f| f & DEV_CLASSIFIED).sum::<u32>(), DEV_CLASSIFIED);
    let t = tables(vec![array(5, "raid5", vec![in_one_piece, in_pieces, member(2, 8, 16)])]);
    assert!(t.notes.is_empty() && t.need.bio_based, "{:?}", t.notes);
    let found = |d: Dev| {
        let entry = t.index.iter().find(|(_, e)| e.dev == d.kernel()).unwrap().1;
        let part = t.devs[usize::from(entry.index)].parts[0];
        (entry.flags & (DEV_CLASSIFIED | DEV_NESTED), part.start, part.end, part.member)
    };
    assert_eq!(found(dev(252, 0)), (DEV_CLASSIFIED, 0, 10_000, 0));
    assert_eq!(found(dev(8, 0)), (0, 2048, 12_048, 0));
    assert_eq!(found(dev(252, 1)), (DEV_CLASSIFIED | DEV_NESTED, 0, 10_000, 1));
    assert_eq!(found(dev(8, 16)), (DEV_CLASSIFIED, 0, 10_000, 2));
}

/// Volumes of a container: members on the same device.
/// LVM puts the metadata device of a slot before its data, and somewhere else later.
#[test]
fn a_metadata_device_follows_the_data_of_the_member() {
    let mut before = member(0, 8, 0);
    let at = |minor, start| {
        Some(MetadataDevice { dev: dev(252, minor), start: DiskSector(start), sectors: 8192 })
    };
    (before.start, before.metadata_device) = (DiskSector(10_240), at(0, 2048));
    let mut after = member(1, 8, 16);
    after.metadata_device = at(1, 50_000);
    let t = tables(vec![array(5, "raid1", vec![before, after])]);
    let own: Vec<_> = t.devs.iter().filter(|d| d.nr_parts == 1).map(|d| d.parts[0]).collect();
    let own: Vec<_> = own.iter().map(|p| (p.first, p.end, 0_u64.wrapping_sub(p.start))).collect();
    assert_eq!(own, [(0, 8192, 10_000); 2]);
    let parts: Vec<_> = t.devs.iter().filter(|d| d.nr_parts == 2).map(|d| &d.parts[..3]).collect();
    for (parts, first) in parts.iter().zip([2048, 50_000]) {
        let [data, metadata, none] = parts else { panic!("{parts:?}") };
        assert_eq!((data.first, data.end - data.start), (data.start, 10_000));
        assert_eq!((metadata.first, metadata.end), (first, first + 8192));
        assert_eq!(first.wrapping_sub(metadata.start), 10_000, "sector of the member");
        assert_eq!((metadata.member, none.end), (data.member, 0));
    }
}

#[test]
fn pieces_of_a_member() {
    let mut pieces = member(0, 8, 0);
    (pieces.dev, pieces.mapped, pieces.start) = (dev(252, 0), true, DiskSector(2048));
    pieces.later_pieces =
        vec![MemberPiece { sector: MemberSector(6000), start: DiskSector(50_000), sectors: 4000 }];
    let t = tables(vec![array(1, "raid1", vec![pieces, member(1, 8, 16)])]);
    let parts = |d: &rt_dev| -> Vec<_> {
        let own = &d.parts[..d.nr_parts as usize];
        own.iter().map(|p| (p.start, p.first, p.end, p.member)).collect()
    };
    let found: Vec<_> = t.devs.iter().map(parts).collect();
    // The disk; then the volume, whose bios md submits.
    assert!(found.contains(&vec![(2048, 2048, 8048, 0), (44_000, 50_000, 54_000, 0)]), "{found:?}");
    assert!(found.contains(&vec![(0, 0, 10_000, 0)]), "{found:?}");
}

#[test]
fn ranges_of_one_disk() {
    let volume = |minor, start, sectors| {
        let mut m = member(0, 8, 0);
        (m.start, m.sectors, m.other_volumes) = (DiskSector(start), sectors, 1);
        (m.sb_offset, m.sb_sectors) = (Some(MemberSector(9000)), 1000);
        array(minor, "raid1", vec![m])
    };
    let t = tables(vec![volume(1, 0, 10_000), volume(2, 10_000, 10_000)]);
    let parts: Vec<_> = t.devs[0].parts[..2].iter().map(|p| (p.start, p.end, p.array)).collect();
    assert_eq!(parts, [(0, 10_000, 0), (10_000, 20_000, 1)]);
    assert_eq!(t.devs[0].flags & DEV_VOLUMES, DEV_VOLUMES);
    assert_eq!((t.members[1].superblock.start, t.members[1].superblock.sectors), (9000, 1000));
}

#[test]
fn two_members_on_one_nested_array() {
    let mut arrays = nested();
    arrays[2].members[1].disk = dev(9, 2);
    arrays[2].members[1].nested_array = Some(dev(9, 2));
    let t = tables(arrays);
    assert_eq!(t.arrays[0].outer_member, 5);
    assert!(t.notes[0].contains("several members"), "{:?}", t.notes);
}

#[test]
fn data_of_an_unsupported_level_has_unknown_origin() {
    let mut gone = member(1, 8, 16);
    gone.data_sectors = 0;
    let mut spare = member(2, 8, 32);
    spare.slot = None;
    let t = tables(vec![array(1, "faulty", vec![member(0, 8, 0), gone, spare])]);
    let wire = t.arrays[0];
    assert_eq!(wire.flags & ARRAY_RESHAPING, ARRAY_RESHAPING);
    assert_eq!((wire.nr_tiles, wire.geometry.array_sectors), (1, 8192));
    let data: Vec<_> = t.members.iter().map(|m| (m.data_offset, m.data_sectors)).collect();
    assert_eq!(data, [(2048, 4096), (2048, 7952), (2048, 4096)]);
    assert!(t.notes[0].contains("faulty"), "{:?}", t.notes);
}

#[test]
fn extents_of_md_metadata() {
    let mut first = member(0, 8, 0);
    first.bad_block_log = Some((MemberSector(16), 8));
    first.bitmap = Some((MemberSector(24), 128));
    first.ppl = Some((MemberSector(200), 1024));
    let mut log = member(1, 8, 16);
    log.slot = None;
    log.state = vec!["journal".into()];
    let t = tables(vec![array(1, "raid5", vec![first, member(1, 8, 32), log])]);
    let places = |m: usize| {
        let m = t.members[m];
        [m.superblock, m.bad_blocks, m.bitmap, m.journal].map(|e| (e.start, e.sectors))
    };
    assert_eq!(places(0), [(8, 8), (16, 8), (24, 128), (200, 1024)]);
    assert_eq!(places(2), [(8, 8), (0, 0), (0, 0), (0, 10_000)]);
    assert_eq!(t.members[2].data_sectors, 0);
}

#[test]
fn a_reshape_covers_old_and_new_data_offsets() {
    let mut moved = member(0, 8, 0);
    moved.new_data_offset = MemberSector(1024);
    let mut a = array(1, "raid5", vec![moved, member(1, 8, 16), member(2, 8, 32)]);
    a.members[1].new_data_offset = MemberSector(2048);
    a.members[2].new_data_offset = MemberSector(2048);
    a.component_sectors = 4096;
    a.reshape_position = Some(0);
    let t = tables(vec![a]);
    let data: Vec<_> = t.members.iter().map(|m| (m.data_offset, m.data_sectors)).collect();
    assert_eq!(data, [(1024, 5120), (2048, 4096), (2048, 4096)]);
}

/// During a replacement two members have the same slot. A member that is being recovered has a
/// slot, a spare has none.
#[test]
fn a_member_and_its_replacement() {
    for level in ["raid0", "raid1", "raid5", "raid10"] {
        let mut new = member(1, 8, 48);
        new.state = vec!["replacement".into()];
        let mut spare = member(0, 8, 64);
        spare.slot = None;
        let members = vec![member(0, 8, 0), member(1, 8, 16), new, member(2, 8, 32), spare];
        let mut a = array(1, level, members);
        a.raid_disks = 3;
        a.layout = match level {
            "raid10" => 0x102,
            "raid5" => 2,
            _ => 0,
        };
        // md sets component_size for all levels but RAID 0.
        for component in [4096, 0] {
            a.component_sectors = component;
            let t = tables(vec![a.clone()]);
            assert!(t.notes.is_empty(), "{level}: {:?}", t.notes);
            let [_, old, new, _, spare] = &t.members[..] else { panic!() };
            assert_eq!(format!("{:?}", old.slot), format!("{:?}", new.slot));
            assert_eq!((old.slot.slot, old.data_sectors), (1, new.data_sectors));
            assert!(old.slot.sectors > 0 && spare.slot.sectors == 0, "{level}");
            assert_eq!(spare.data_sectors, 4096, "unknown");
        }
    }
}

#[test]
fn a_filesystem_on_dm_crypt() {
    let fs = |minor, segments: &[(u64, u64, u64)]| Filesystem {
        name: format!("dm-{minor}"),
        dev: dev(253, minor),
        segments: segments
            .iter()
            .map(|&(fs_sector, array_sector, sectors)| {
                Segment::new(FsSector(fs_sector), ArraySector(array_sector), sectors)
            })
            .collect(),
        stack: vec!["dm-crypt secret".into(), "LVM vg-lv".into(), "partition 1".into()],
        ..Filesystem::default()
    };
    let layout = || ext4_of(125);
    let mut a = array(1, "raid0", vec![member(0, 8, 0), member(1, 8, 16)]);
    a.filesystems = vec![
        fs(0, &[(0, 4096, 1024)]),
        fs(1, &[(0, 6000, 104), (104, 7000, 896)]),
        fs(2, &[(0, 5000, 104), (200, 5200, 100)]),
        fs(3, &[(0, 5400, 104)]),
    ];
    let t = Tables::new(&Topology {
        layouts: (0..4).map(|i| (dev(253, i), layout().into())).collect(),
        host: HostTopology { arrays: vec![a], ..HostTopology::default() },
        ..Topology::default()
    })
    .unwrap();
    let entry = |minor| {
        let found = t.index.iter().find(|(_, e)| e.dev == dev(253, minor).kernel());
        found.map(|(_, e)| (e.flags & DEV_STACKED, t.devs[usize::from(e.index)]))
    };
    let (flag, whole) = entry(0).unwrap();
    assert_eq!((flag, whole.fs_array, whole.fs_start), (DEV_STACKED, 1, 4096));
    let (flag, pieces) = entry(1).unwrap();
    assert_eq!((flag, pieces.fs_array), (0, 0), "in pieces: not watched");
    // Dirtied data is still charged to the array, because it has all blocks.
    assert_eq!((whole.dirty_array, pieces.dirty_array), (1, 1));
    // Of 2, a piece is elsewhere, of 3 the rest. Their files are known, but they are not watched.
    for (flag, d) in [entry(2).unwrap(), entry(3).unwrap()] {
        assert_eq!((flag, d.fs_array, d.dirty_array), (0, 0, 0));
    }
    assert_eq!(t.arrays[0].flags & ARRAY_CRYPT, ARRAY_CRYPT);
    assert_eq!(t.notes.len(), 3, "{:?}", t.notes);
    assert!(t.notes[0].contains("dm-1: encrypted"));
}

/// An XFS with this UUID on an array, and an ext4 behind it if `ext`.
fn xfs_tables(uuid: u8, ext: bool) -> Tables {
    let on = |minor, first, sectors| Filesystem {
        name: format!("dm-{minor}"),
        dev: dev(253, minor),
        segments: vec![Segment::new(FsSector(0), ArraySector(first), sectors)],
        ..Filesystem::default()
    };
    let geometry = XfsGeometry {
        version: 5,
        block_size: 4096,
        sector_size: 512,
        inode_size: 512,
        blocks: 512,
        ag_blocks: 512,
        ag_count: 1,
        log: XfsLog::External { blocks: 64 },
        stripe_unit: 0,
        stripe_width: 0,
        inode_align: 8,
        features: XfsFeatures::default(),
        realtime_blocks: 0,
        uuid: Uuid([uuid; 16]),
    };
    let behind = ext4_of(512);
    let mut a = array(1, "raid0", vec![member(0, 8, 0), member(1, 8, 16)]);
    let mut layouts = vec![(dev(253, 0), XfsLayout::from_geometry(geometry).into())];
    a.filesystems = vec![on(0, 0, 4096)];
    if ext {
        a.filesystems.push(on(1, 4096, 4096));
        layouts.push((dev(253, 1), behind.into()));
    }
    Tables::new(&Topology {
        layouts: layouts.into_iter().collect(),
        host: HostTopology { arrays: vec![a], ..HostTopology::default() },
        ..Topology::default()
    })
    .unwrap()
}

/// Blocks learned in the previous filesystem are forgotten, because the programs are loaded again.
#[test]
fn another_filesystem_of_the_same_layout_needs_other_programs() {
    let (was, same, other) = (xfs_tables(1, false), xfs_tables(1, false), xfs_tables(2, false));
    assert_eq!((was.digest(), was.layout_digest()), (same.digest(), same.layout_digest()));
    assert_eq!(was.boundaries, other.boundaries);
    assert!(was.digest() != other.digest() && was.layout_digest() != other.layout_digest());
}

#[test]
fn blocks_of_xfs_and_ext4_on_one_array_have_their_own_codes() {
    let codes: Vec<u64> = xfs_tables(1, true).boundaries.iter().map(|b| b & 255).collect();
    assert!(codes.contains(&43) && codes.contains(&35), "{codes:?}");
}

/// Each path of an NVMe drive has the members of the head, and slots of its own.
#[test]
fn paths_of_nvme_multipath() {
    let path = |minor, nr_tags| NvmePath {
        name: format!("nvme0c{minor}n1"),
        dev: dev(259, minor),
        queue: QueueFacts { nr_hw_queues: 2, nr_tags, iostats: true, ..QueueFacts::default() },
    };
    let mut head = member(0, 259, 9);
    head.queue = QueueFacts { iostats: true, ..QueueFacts::default() };
    head.paths = vec![path(0, 64), path(1, 32)];
    let whole = tables(vec![array(0, "raid1", vec![head.clone(), member(1, 8, 16)])]);
    // By device number: 8:16, 9:0, 259:0, 259:1, 259:9.
    let [first, second, of_head] = [2, 3, 4].map(|at| whole.devs[at]);
    assert_eq!((first.depth, first.nr_slots, second.depth, second.nr_slots), (64, 128, 32, 64));
    assert_eq!((of_head.nr_slots, of_head.nr_parts), (0, 1));
    assert_ne!(first.slot_base, second.slot_base);
    for path in [first, second] {
        assert_eq!((path.nr_parts, path.parts[0].member, path.flags), (1, 0, DEV_START_TIME));
    }
    // Partitions of the head.
    (head.dev, head.start) = (dev(259, 10), DiskSector(2048));
    let parts = tables(vec![array(0, "raid1", vec![head, member(1, 8, 16)])]);
    assert_eq!(parts.devs[2].parts[0].start, 2048);
    assert_eq!(parts.devs[2].flags, DEV_START_TIME | DEV_VOLUMES);
}
