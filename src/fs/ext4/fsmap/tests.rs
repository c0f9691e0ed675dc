//! Layouts of synthetic and real kernel records.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::{major, minor};

use super::*;

const DEVICE: u32 = 0x0900;
const BLOCK: u64 = 4096;

fn record(owner: u64, first: u64, count: u64) -> FsmapRecord {
    FsmapRecord {
        device: DEVICE,
        flags: OF_SPECIAL_OWNER,
        physical: first * BLOCK,
        owner,
        length: count * BLOCK,
        ..FsmapRecord::zeroed()
    }
}

fn layout(records: &[FsmapRecord]) -> Ext4Layout {
    let mut map = FsmapLayout::new(DEVICE, BLOCK as u32);
    records.iter().for_each(|r| map.add(r));
    map.finish(0)
}

fn ranges(layout: &Ext4Layout) -> Vec<(u64, u64, Origin)> {
    let range = |r: &super::super::Range| (r.first.0, r.count, r.origin);
    layout.ranges.iter().map(range).collect()
}

/// Two groups with flex_bg.
fn sound() -> Vec<FsmapRecord> {
    vec![
        record(OWN_FS, 0, 1),
        record(OWN_GDT, 1, 1),
        record(OWN_RESV_GDT, 2, 30),
        record(OWN_BLKBM, 32, 2),
        record(OWN_INOBM, 34, 2),
        record(OWN_INODES, 36, 100),
        record(owner(0, 2), 136, 864),
        record(owner(0, 1), 1000, 64536),
    ]
}

#[test]
fn records_in_any_order_give_the_same_layout() {
    let want = [
        (0, 1, Origin::Superblock),
        (1, 31, Origin::GroupDescriptors),
        (32, 2, Origin::BlockBitmap),
        (34, 2, Origin::InodeBitmap),
        (36, 100, Origin::InodeTable),
    ];
    let mut records = sound();
    for _ in 0..records.len() {
        records.rotate_left(3);
        let layout = layout(&records);
        assert_eq!(ranges(&layout), want);
        assert_eq!((layout.groups, layout.blocks), (Some(2), 65536));
        assert_eq!(layout.journal, Journal::Unknown);
        assert_eq!(layout.notes.len(), 1, "{:?}", layout.notes);
        assert!(layout.notes[0].contains("learned as they are written"));
    }
}

#[test]
fn overlaps_are_resolved_and_noted() {
    let mut records = sound();
    records.push(record(OWN_INODES, 30, 10));
    let layout = layout(&records);
    assert_eq!(ranges(&layout)[3], (34, 2, Origin::InodeBitmap));
    assert!(layout.notes[1].starts_with("10 blocks are claimed more than once"));
    // A bitmap that is reported twice makes the number of groups unknown.
    let mut records = sound();
    records.push(record(OWN_BLKBM, 32, 1));
    records.push(record(OWN_INOBM, 34, 1));
    assert_eq!(super::tests::layout(&records).groups, None);
}

#[test]
fn invalid_records_are_left_out_and_counted() {
    let mut records = sound();
    let odd = |physical, length| FsmapRecord { physical, length, ..record(OWN_INODES, 0, 0) };
    records.extend([
        odd(u64::MAX - 4095, 4096),
        odd(MAX_BLOCKS * BLOCK, BLOCK),
        odd(0, MAX_BLOCKS.wrapping_mul(BLOCK).wrapping_add(BLOCK)),
        odd(0, 0),
        odd(512, BLOCK),
        odd(0, 512),
    ]);
    let layout = layout(&records);
    assert_eq!(ranges(&layout), ranges(&super::tests::layout(&sound())));
    assert_eq!(layout.blocks, 65536);
    assert!(layout.notes[1].starts_with("6 records of"), "{:?}", layout.notes);
}

#[test]
fn an_external_journal_has_no_ranges() {
    let mut records = sound();
    records.push(FsmapRecord { device: DEVICE + 1, ..record(OWN_LOG, 0, 1000) });
    let layout = layout(&records);
    assert_eq!(layout.journal, Journal::External { uuid: None });
    assert_eq!(ranges(&layout), ranges(&super::tests::layout(&sound())));
}

#[test]
fn the_boot_block_is_metadata() {
    let mut map = FsmapLayout::new(DEVICE, 1024);
    map.add(&FsmapRecord { physical: 1024, length: 1024, ..record(OWN_FS, 0, 0) });
    let layout = map.finish(0);
    assert_eq!(layout.origin_of(FsBlock(0)), Some(Origin::OtherMetadata));
    assert_eq!(layout.origin_of(FsBlock(1)), Some(Origin::Superblock));
}

/// Simulates a kernel that returns `records`, `page` of them per call.
fn kernel(
    records: Vec<FsmapRecord>,
    page: usize,
) -> impl FnMut(FsmapRecord) -> Result<Vec<FsmapRecord>, Error> {
    move |low| {
        let from = (low.device, low.physical + low.length);
        let after = |r: &&FsmapRecord| (r.device, r.physical) >= from;
        Ok(records.iter().filter(after).take(page).copied().collect())
    }
}

#[test]
fn pages_are_joined() {
    let want = layout(&sound());
    for page in 1..10 {
        for flags in [OF_SPECIAL_OWNER, OF_SPECIAL_OWNER | OF_LAST] {
            let mut records = sound();
            records.last_mut().unwrap().flags = flags;
            let mut map = FsmapLayout::new(DEVICE, BLOCK as u32);
            walk(&mut map, 100, kernel(records, page)).unwrap();
            assert_eq!(map.finish(0).ranges, want.ranges);
        }
    }
}

#[test]
fn a_walk_that_does_not_advance_is_an_error() {
    let walked = |limit, answer: Vec<FsmapRecord>| {
        let mut map = FsmapLayout::new(DEVICE, BLOCK as u32);
        let message = walk(&mut map, limit, |_| Ok(answer.clone())).unwrap_err().to_string();
        assert!(!message.contains('\n'));
        message
    };
    assert!(walked(100, sound()).contains("goes back to byte"));
    assert!(walked(100, vec![record(OWN_FS, 0, 0)]).contains("goes back"));
    let overflows = FsmapRecord { physical: u64::MAX, ..record(OWN_FS, 0, 1) };
    assert!(walked(100, vec![overflows]).contains("goes back"));
    assert!(walked(8, sound()).contains("does not end after 8 records"));
    assert!(walked(8, vec![]).contains("is empty"));
}

proptest! {
    #[test]
    fn ranges_are_sorted_disjoint_and_merged_for_any_records(
        records in prop::collection::vec(
            (
                0_u32..2,
                0_u32..64,
                any::<bool>(),
                0_u64..100,
                any::<u64>(),
                0_u64..40,
                any::<u64>(),
                0_usize..9,
            ),
            0..60,
        ),
    ) {
        let owners = [
            OWN_FS, OWN_LOG, OWN_INODES, OWN_GDT, OWN_RESV_GDT, OWN_BLKBM, OWN_INOBM,
            owner(0, 1), owner(0, 2),
        ];
        let records: Vec<_> = records
            .into_iter()
            .map(|(other, flags, wild, first, physical, count, length, i)| FsmapRecord {
                device: DEVICE + other,
                flags,
                physical: if wild { physical } else { first * BLOCK },
                length: if wild { length } else { count * BLOCK },
                ..record(owners[i], 0, 0)
            })
            .collect();
        let layout = layout(&records);
        for pair in layout.ranges.windows(2) {
            prop_assert!(pair[0].end() <= pair[1].first);
            prop_assert!(pair[0].end() < pair[1].first || pair[0].origin != pair[1].origin);
        }
        prop_assert!(layout.ranges.last().map_or(0, |r| r.end().0) <= layout.blocks);
        let mut pages = records.chunks(7);
        let mut map = FsmapLayout::new(DEVICE, BLOCK as u32);
        let _ = walk(&mut map, 1000, |_| Ok(pages.next().unwrap_or_default().to_vec()));
    }
}

fn device_of(path: &str) -> (u32, u32) {
    let dev = std::fs::metadata(path).unwrap().dev();
    (major(dev), minor(dev))
}

#[test]
fn other_mounts_are_rejected() {
    let error = |path: &str, device| {
        Ext4Layout::from_mount(Path::new(path), device).unwrap_err().to_string()
    };
    let message = error("/proc", device_of("/proc"));
    assert!(message.contains("magic 0x9fa0"), "{message}");
    let message = error("/nonexistent", (0, 0));
    assert!(message.starts_with("cannot open the mount point"));
    let message = error("/", (4095, 1));
    assert!(message.contains("not 4095:1") || message.contains("magic"), "{message}");
}

/// Checks invariants on the real root filesystem, whatever it contains.
#[test]
fn the_root_filesystem_is_read_from_its_mount() {
    const SKIPS: [&str; 2] = ["not on ext2, ext3 or ext4", "call FS_IOC_GETFSMAP on"];
    let layout = match Ext4Layout::from_mount(Path::new("/"), device_of("/")) {
        Ok(layout) => layout,
        Err(why) if SKIPS.iter().any(|words| why.to_string().contains(words)) => {
            eprintln!("SKIPPED: the root filesystem of this machine has no layout: {why}");
            return;
        }
        Err(why) => panic!("{why}"),
    };
    let mut blocks = BTreeMap::new();
    for range in &layout.ranges {
        *blocks.entry(range.origin).or_insert(0) += range.count;
    }
    let groups = u64::from(layout.groups.unwrap());
    assert_eq!(blocks[&Origin::BlockBitmap], groups);
    assert_eq!(blocks[&Origin::InodeBitmap], groups);
    assert_eq!(blocks[&Origin::InodeTable] % groups, 0);
    assert_eq!(
        layout.origin_of(FsBlock((layout.block_size == 1024).into())),
        Some(Origin::Superblock)
    );
    // A bitmap is one block, so a group has at most as many blocks as a block has bits (without
    // bigalloc).
    let per_group = layout.blocks.div_ceil(groups);
    assert!(per_group.next_power_of_two() <= u64::from(layout.block_size) * 8, "{per_group}");
    assert_eq!(layout.notes.len(), 1, "{:?}", layout.notes);
    for pair in layout.ranges.windows(2) {
        assert!(pair[0].end() <= pair[1].first);
    }
    eprintln!(
        "/: {} blocks, {groups} groups, {} ranges, {blocks:?}",
        layout.blocks,
        layout.ranges.len()
    );
}
