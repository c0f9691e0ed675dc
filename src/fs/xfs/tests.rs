//! The layout of small images that are built here, and of real ones (`tests/xfs_layout.rs`).

use proptest::prelude::*;

use super::{XfsFeatures, XfsGeometry, XfsLayout, XfsLog, identity};
use crate::address::{FsBlock, FsSector};
use crate::fs::{Error, ReadAt, SectorRange, Uuid};
use crate::origin::Origin;

/// 4 AGs of 16 MiB, the last one shorter, with a log of 64 blocks in the third.
fn geometry() -> XfsGeometry {
    XfsGeometry {
        version: 5,
        block_size: 4096,
        sector_size: 512,
        inode_size: 512,
        blocks: 3 * 4096 + 1000,
        ag_blocks: 4096,
        ag_count: 4,
        log: XfsLog::Internal { first: FsBlock(2 * 4096 + 16), blocks: 64 },
        stripe_unit: 16,
        stripe_width: 48,
        inode_align: 8,
        features: XfsFeatures { finobt: true, rmapbt: false, reflink: true },
        realtime_blocks: 0,
        uuid: Uuid([7; 16]),
    }
}

/// The first 4 sectors of each AG, as mkfs.xfs writes them.
fn image(geometry: &XfsGeometry) -> Vec<u8> {
    let mut image = vec![0; (geometry.blocks * u64::from(geometry.block_size)) as usize];
    let XfsLog::Internal { first, blocks } = geometry.log else {
        unreachable!("the log is internal");
    };
    let ag_log = geometry.ag_blocks.next_power_of_two().trailing_zeros();
    let (ag, block) =
        (first.0 / u64::from(geometry.ag_blocks), first.0 % u64::from(geometry.ag_blocks));
    let log_start = (ag << ag_log) | block;
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"XFSB");
    put(4, &geometry.block_size.to_be_bytes());
    put(8, &geometry.blocks.to_be_bytes());
    put(32, &geometry.uuid.0);
    put(48, &log_start.to_be_bytes());
    put(56, &128u64.to_be_bytes());
    put(84, &geometry.ag_blocks.to_be_bytes());
    put(88, &geometry.ag_count.to_be_bytes());
    put(96, &blocks.to_be_bytes());
    put(100, &0xb4a5u16.to_be_bytes());
    put(102, &512u16.to_be_bytes());
    put(104, &512u16.to_be_bytes());
    put(120, &[12, 9, 9, 3, ag_log as u8]);
    put(180, &geometry.inode_align.to_be_bytes());
    put(184, &geometry.stripe_unit.to_be_bytes());
    put(188, &geometry.stripe_width.to_be_bytes());
    put(212, &5u32.to_be_bytes());
    for ag in 0..geometry.ag_count {
        let at = geometry.ag_start(ag).byte(geometry.block_size) as usize;
        let length = geometry.ag_length(ag) as u32;
        for (sector, magic) in [(1, b"XAGF"), (2, b"XAGI")] {
            let at = at + sector * 512;
            put(at, magic);
            put(at + 8, &ag.to_be_bytes());
            put(at + 12, &length.to_be_bytes());
        }
        put(at + 512 + 16, &1u32.to_be_bytes());
        put(at + 512 + 20, &2u32.to_be_bytes());
        put(at + 512 + 88, &5u32.to_be_bytes());
        put(at + 1024 + 20, &3u32.to_be_bytes());
        put(at + 1024 + 328, &4u32.to_be_bytes());
    }
    let checksum = crc32c::crc32c(&image[..512]);
    image[224..228].copy_from_slice(&checksum.to_le_bytes());
    image
}

fn read(image: &[u8]) -> Result<XfsLayout, Error> {
    XfsLayout::read(&image)
}

#[test]
fn an_intact_filesystem() {
    let layout = read(&image(&geometry())).expect("a layout");
    assert_eq!(layout.geometry, geometry());
    assert_eq!(layout.notes, [""; 0]);
    let ranges: Vec<_> = layout.ranges.iter().map(|r| (r.first.0, r.count, r.origin)).collect();
    let ag = 4096 * 8;
    let headers = |n: u64| [(n * ag, 1, Origin::Superblock), (n * ag + 1, 7, Origin::AgHeader)];
    let log = [(2 * ag + 16 * 8, 64 * 8, Origin::Journal)];
    let want = [&headers(0)[..], &headers(1), &headers(2), &log, &headers(3)].concat();
    assert_eq!(ranges, want);
    let roots: Vec<_> = layout.roots.iter().map(|r| (r.first.0, r.origin)).collect();
    assert_eq!(
        roots[..6],
        [
            (8, Origin::FreeSpaceBtree),
            (16, Origin::FreeSpaceBtree),
            (24, Origin::InodeBtree),
            (32, Origin::InodeBtree),
            (40, Origin::RefcountBtree),
            (128, Origin::InodeCluster),
        ]
    );
    assert_eq!(roots.len(), 4 * 5 + 1);
    // The places after mkfs are the same.
    let planned = XfsLayout::from_geometry(geometry());
    assert_eq!(planned.ranges, layout.ranges);
    assert!(planned.roots.iter().all(|r| layout.roots.contains(r)));
}

#[test]
fn the_identity_follows_the_layout() {
    let was = geometry();
    let read = identity(&image(&was).as_slice()).expect("readable");
    assert_eq!(read, Some(was.identity()));
    assert_eq!(identity(&[0u8; 4096].as_slice()).expect("readable"), None);
    assert_eq!(identity(&[0u8; 10].as_slice()).expect("readable"), None);
    // Values that the kernel and the superblock report differently, and those that a mount changes.
    let same = |change: fn(&mut XfsGeometry)| {
        let mut now = was.clone();
        change(&mut now);
        now.identity() == was.identity()
    };
    assert!(same(|g| g.inode_align = 0));
    assert!(same(|g| (g.stripe_unit, g.stripe_width) = (0, 0)));
    assert!(!same(|g| g.uuid = Uuid([8; 16])));
    assert!(!same(|g| g.blocks += 1));
    assert!(!same(|g| g.ag_count += 1));
    assert!(!same(|g| g.realtime_blocks = 1));
    assert!(!same(|g| g.features.rmapbt = true));
    assert!(!same(|g| g.log = XfsLog::External { blocks: 64 }));
}

#[test]
fn an_external_log_is_all_journal() {
    let mut geometry = geometry();
    assert!(geometry.log_device().is_none() && geometry.realtime_device().is_none());
    geometry.log = XfsLog::External { blocks: 1000 };
    geometry.realtime_blocks = 5000;
    let log = geometry.log_device().expect("a log");
    let range = log.log.expect("a range");
    assert_eq!((range.first, range.count), (FsSector(0), 8000));
    assert_eq!((log.blocks, range.origin), (1000, Origin::Journal));
    let realtime = geometry.realtime_device().expect("a realtime device");
    assert_eq!((realtime.blocks, realtime.log), (5000, None));
    let mut layout = XfsLayout::from_geometry(geometry);
    assert_eq!(layout.notes.len(), 2);
    layout.drop_notes_on_devices(true, false);
    assert!(layout.notes.len() == 1 && layout.notes[0].contains("realtime"));
}

#[test]
fn roots_at_mkfs_follow_the_headers() {
    // Block of the first root by block and sector size, as mkfs.xfs 6.1 to 7.2 places it.
    for (block_size, sector_size, first) in
        [(1024, 512, 2), (4096, 512, 1), (4096, 4096, 4), (65536, 4096, 1)]
    {
        let geometry = XfsGeometry { block_size, sector_size, ..geometry() };
        assert_eq!(geometry.roots_at_mkfs()[0].0, first, "{block_size} {sector_size}");
    }
}

#[test]
fn damage_has_a_reason() {
    let whole = image(&geometry());
    for (at, bytes, words) in [
        (0, &b"XFSM"[..], "xfs_mdrestore"),
        (0, b"EXT4", "not XFS"),
        (4, &[0, 0, 0, 0], "sb_blocksize is 0"),
        (84, &[0, 0, 0, 0], "sb_agblocks is 0"),
        (88, &[0, 0, 0, 0], "sb_agcount is 0"),
        (88, &[0xff; 4], "not supported"),
        (8, &[0xff; 8], "sb_dblocks"),
        (101, &[0xa3], "not of version 4 or 5"),
        (48, &[0xff; 8], "sb_logstart"),
        (48, &[0, 0, 0, 0, 0, 0, 0, 1], ""),
        (96, &[0xff; 4], "sb_logblocks"),
        (126, &[1], "has not finished"),
        (124, &[11], "sb_agblklog is 11"),
        (123, &[4], "sb_inopblog is 4"),
    ] {
        let mut image = whole.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        match read(&image) {
            Err(why) => assert!(why.to_string().contains(words), "{at}: {why}"),
            Ok(layout) => {
                assert_eq!(words, "", "byte {at} is accepted");
                assert!(layout.notes[0].contains("sb_crc"), "{:?}", layout.notes);
            }
        }
    }
    for (bytes, words) in [(1 << 20, "truncated"), (100, "not XFS")] {
        let why = read(&whole[..bytes]).expect_err(words).to_string();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn a_damaged_ag_header_is_a_note() {
    let mut image = image(&geometry());
    let agf = 4096 * 4096 + 512;
    image[agf] = 0;
    let layout = read(&image).expect("a layout");
    assert_eq!(layout.notes, ["the AGF of AG 1 is damaged: check it with: xfs_repair -n"]);
    // The places after mkfs.
    assert!(
        layout
            .roots
            .iter()
            .any(|r| r.first == FsSector(4097 * 8) && r.origin == Origin::FreeSpaceBtree)
    );
}

/// Ranges and roots together: disjoint, and inside the filesystem; each of them sorted.
fn check(layout: &XfsLayout) -> Result<(), TestCaseError> {
    let sorted = |ranges: &[SectorRange]| ranges.windows(2).all(|w| w[0].end() <= w[1].first);
    prop_assert!(sorted(&layout.ranges));
    prop_assert!(sorted(&layout.roots));
    let mut all = [&layout.ranges[..], &layout.roots].concat();
    all.sort_by_key(|r| r.first);
    prop_assert!(sorted(&all));
    let end = layout.geometry.end();
    prop_assert!(all.iter().all(|r| r.count > 0 && r.end() <= end));
    Ok(())
}

/// Only the first bytes of a device: the rest reads as 0.
struct Sparse<'a>(&'a [u8]);

impl ReadAt for Sparse<'_> {
    fn size(&self) -> std::io::Result<u64> {
        Ok(u64::MAX)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        for (byte, at) in buffer.iter_mut().zip(at..) {
            let at = usize::try_from(at).ok();
            *byte = at.and_then(|at| self.0.get(at)).copied().unwrap_or(0);
        }
        Ok(())
    }
}

#[test]
fn a_superblock_with_many_ags_reads_few_headers() {
    // The first note is of the checksum.
    let mut sector = image(&geometry())[..2048].to_vec();
    for (ags, words) in [(4097, "4097 AGs"), (1 << 20, "1048576 AGs")] {
        sector[8..16].copy_from_slice(&(u64::from(ags) * 4096).to_be_bytes());
        sector[88..92].copy_from_slice(&u32::to_be_bytes(ags));
        let layout = XfsLayout::read(&Sparse(&sector)).expect("a layout");
        assert!(layout.notes[1].starts_with(words), "{:?}", layout.notes);
        assert_eq!(layout.ranges.len(), 2 * ags as usize + 1);
        check(&layout).expect("disjoint ranges");
    }
}

/// A byte in the headers of an AG, mostly in a field that moves something.
fn place() -> impl Strategy<Value = usize> {
    // The low bytes of sb_logstart, sb_rootino, sb_logblocks, and of the roots in AGF and AGI.
    let fields = vec![54usize, 62, 98, 530, 534, 602, 1046, 1354];
    prop_oneof![
        3 => (prop::sample::select(fields), 0usize..2).prop_map(|(at, n)| at + n),
        1 => 0usize..2048,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changed_bytes_cause_no_panic(
        changes in prop::collection::vec((place(), 0usize..4, any::<u8>()), 1..6),
    ) {
        let mut image = image(&geometry());
        for (at, ag, byte) in changes {
            image[ag * 4096 * 4096 + at] = byte;
        }
        if let Ok(layout) = read(&image) {
            check(&layout)?;
        }
    }

    #[test]
    fn any_superblock_causes_no_panic(mut raw in prop::collection::vec(any::<u8>(), 512..2048)) {
        raw[..4].copy_from_slice(b"XFSB");
        raw[101] = 0xa5;
        let _ = read(&raw);
    }
}
