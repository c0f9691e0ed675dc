//! Counting against the geometry, block by block, and the first case's figures.

use proptest::prelude::*;

use super::{FIXED, Skews, Spread, skew};
use crate::ext4::Range;
use crate::host::Segment;
use crate::layout::filesystem::{Filesystem, Groups};
use crate::origin::Origin;
use crate::raid::{Geometry, Level, Params};

fn geometry(level: Level, layout: u32, disks: u32, chunk_sectors: u32) -> Geometry {
    Geometry::new(&Params {
        level,
        layout,
        disks,
        chunk_sectors,
        member_sectors: vec![1 << 40],
    })
    .unwrap()
}

fn whole() -> [Segment; 1] {
    [Segment {
        fs_sector: 0,
        array_sector: 0,
        sectors: u64::MAX,
    }]
}

fn filesystem(groups: u32, blocks: u32, ranges: Vec<Range>) -> Filesystem {
    Filesystem {
        kind: "ext4".into(),
        block_size: 4096,
        blocks: u64::from(groups) * u64::from(blocks),
        groups: Some(Groups {
            count: groups,
            first_block: 0,
            blocks,
            per_flex: 16,
            table_blocks: 16,
        }),
        ranges,
        inodes: 0,
        grows_to: 0,
        stride: 0,
        stripe_width: 0,
        notes: Vec::new(),
    }
}

/// The toy model of the first case: 1000 groups, 12 disks, 128 blocks a chunk.
#[test]
fn starts_of_a_thousand_groups() {
    let starts = |blocks| -> Vec<u64> {
        let array = geometry(Level::Raid0, 0, 12, 1024);
        let spread = Spread::new(&filesystem(1000, blocks, Vec::new()), &array, &whole());
        spread.members.iter().map(|m| m.starts(4096)).collect()
    };
    assert_eq!(starts(32768), [334, 0, 0, 0, 333, 0, 0, 0, 333, 0, 0, 0]);
    assert_eq!(
        starts(32744),
        [83, 83, 84, 84, 83, 84, 83, 83, 82, 84, 84, 83]
    );
}

#[test]
fn skews() {
    assert_eq!(skew([4, 0, 0, 0].into_iter()), Some(4.0));
    assert_eq!(skew([2, 2].into_iter()), Some(1.0));
    assert_eq!(skew([0, 0].into_iter()), None);
    assert_eq!(skew([].into_iter()), None);
}

/// A RAID 1 has everything everywhere; a RAID 10 twice.
#[test]
fn copies_count_each() {
    let ranges = vec![Range {
        first: 0,
        count: 1000,
        origin: Origin::Journal,
    }];
    let fs = filesystem(1, 32768, ranges);
    for (array, copies) in [
        (geometry(Level::Raid1, 0, 3, 0), 3),
        (geometry(Level::Raid10, 0x102, 5, 128), 2),
        (geometry(Level::Raid10, 0x201, 5, 128), 2),
        (geometry(Level::Raid6, 2, 5, 128), 1),
    ] {
        let spread = Spread::new(&fs, &array, &whole());
        let all: u64 = spread.members.iter().map(|m| m.all()).sum();
        assert_eq!(all, copies * 8000, "{array:?}");
    }
}

fn arrays() -> impl Strategy<Value = Geometry> {
    let uneven = (2u32..6, 3u32..7).prop_map(|(disks, log)| {
        let sizes = (0..disks).map(|i| 1000 + 700 * u64::from(i / 2)).collect();
        Geometry::new(&Params {
            level: Level::Raid0,
            layout: 2,
            disks,
            chunk_sectors: 1 << log,
            member_sectors: sizes,
        })
        .unwrap()
    });
    let regular = (0usize..8, 4u32..9, 3u32..8).prop_map(|(which, disks, log)| {
        let (level, layout) = [
            (Level::Raid0, 0),
            (Level::Raid4, 0),
            (Level::Raid5, 2),
            (Level::Raid5, 0),
            (Level::Raid6, 2),
            (Level::Raid10, 0x102),
            (Level::Raid10, 0x1_0201),
            (Level::Raid1, 0),
        ][which];
        geometry(level, layout, disks, 1 << log)
    });
    prop_oneof![3 => regular, 1 => uneven]
}

proptest! {
    /// Every sector by itself through `Geometry::copies` gives the same counts, in one segment or in two.
    #[test]
    fn as_sector_by_sector(
        array in arrays(),
        runs in prop::collection::vec((0u64..600, 1u64..120, 0usize..8), 1..6),
        cut in 1u64..3000,
        shift in 0u64..200,
    ) {
        let segments = [
            Segment { fs_sector: 0, array_sector: shift, sectors: cut },
            Segment { fs_sector: cut + 8, array_sector: shift + cut, sectors: 100_000 },
        ];
        let ranges: Vec<Range> = runs
            .iter()
            .map(|&(first, count, i)| Range { first, count, origin: FIXED[i] })
            .collect();
        let fs = filesystem(1, 32768, ranges.clone());
        let spread = Spread::new(&fs, &array, &segments);
        let mut want = vec![[0; FIXED.len()]; array.disks() as usize];
        let mut outside = 0;
        for range in &ranges {
            let i = FIXED.iter().position(|&o| o == range.origin).unwrap();
            for sector in range.first * 8..range.end() * 8 {
                let segment = segments.iter().find(|s| {
                    sector >= s.fs_sector && sector < s.fs_sector + s.sectors
                });
                let copies = segment.map_or(Vec::new(), |s| {
                    array.copies(sector - s.fs_sector + s.array_sector)
                });
                outside += u64::from(copies.is_empty());
                for (slot, _) in copies {
                    want[slot as usize][i] += 1;
                }
            }
        }
        let got: Vec<_> = spread.members.iter().map(|m| m.sectors).collect();
        prop_assert_eq!(got, want);
        prop_assert_eq!(spread.outside, outside);
        prop_assert_eq!(Skews::of(&fs, &array, &segments), spread.skews());
    }
}
