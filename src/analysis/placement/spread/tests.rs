//! Counts compared with the geometry, sector by sector.

use proptest::prelude::*;

use super::{FIXED, HEAD_BLOCKS, Skews, Spread, heads, skew};
use crate::address::{ArraySector, FsSector};
use crate::analysis::placement::filesystem::{BlockGroups, FsMetadata, Groups};
use crate::fs::SectorRange;
use crate::machine::{Segment, Stripe};
use crate::origin::Origin;
use crate::raid::{Geometry, Level, Params};

fn geometry(level: Level, layout: u32, disks: u32, chunk_sectors: u32) -> Geometry {
    Geometry::new(&Params { level, layout, disks, chunk_sectors, member_sectors: vec![1 << 40] })
        .unwrap()
}

fn whole() -> [Segment; 1] {
    [Segment::new(FsSector(0), ArraySector(0), u64::MAX)]
}

/// A range of blocks of 4 KiB.
fn range(first: u64, count: u64, origin: Origin) -> SectorRange {
    SectorRange { first: FsSector(first * 8), count: count * 8, origin }
}

fn filesystem(groups: u32, blocks: u32, ranges: Vec<SectorRange>) -> FsMetadata {
    FsMetadata {
        kind: "ext4".into(),
        block_size: 4096,
        blocks: u64::from(groups) * u64::from(blocks),
        groups: Some(Groups::Block(BlockGroups {
            count: groups,
            first_block: 0,
            blocks,
            per_flex: 16,
            table_blocks: 16,
        })),
        ranges,
        inodes: 0,
        grows_to: 0,
        stride: 0,
        stripe_width: 0,
        notes: Vec::new(),
    }
}

/// Measured on 6.18: 64128 inodes in 30 flex groups of 16 were all in the first group of each, in
/// one run from the first block of its table.
#[test]
fn inodes_are_packed_into_the_first_tables() {
    // Two flex groups of 16 tables of 16 blocks, as one range each; then one of 4 groups.
    let ranges = [(100, 256), (5000, 256), (9000, 64)]
        .map(|(first, count)| range(first, count, Origin::InodeTable));
    let fs = filesystem(36, 32768, ranges.to_vec());
    let heads: Vec<(u64, u64)> = heads(&fs).iter().map(|r| (r.first.0 / 8, r.count / 8)).collect();
    let tables = |first: u64| (0..4).map(move |i| (first + 16 * i, 16));
    let want: Vec<(u64, u64)> = [100, 5000, 9000].into_iter().flat_map(tables).collect();
    assert_eq!(heads, want);
    // Without flex groups each group fills its own table.
    let mut lone = fs;
    let Some(Groups::Block(groups)) = &mut lone.groups else {
        unreachable!();
    };
    groups.per_flex = 1;
    let heads = super::heads(&lone);
    assert!(heads.iter().all(|r| r.count == 8 * HEAD_BLOCKS));
    assert_eq!(heads.len(), 36);
}

#[test]
fn skews() {
    assert_eq!(skew([4, 0, 0, 0].into_iter()), Some(4.0));
    assert_eq!(skew([2, 2].into_iter()), Some(1.0));
    assert_eq!(skew([0, 0].into_iter()), None);
    assert_eq!(skew([].into_iter()), None);
}

#[test]
fn every_copy_is_counted() {
    let ranges = vec![range(0, 1000, Origin::Journal)];
    let fs = filesystem(1, 32768, ranges);
    for (array, copies) in [
        (geometry(Level::Raid1, 0, 3, 0), 3),
        (geometry(Level::Raid10, 0x102, 5, 128), 2),
        (geometry(Level::Raid10, 0x201, 5, 128), 2),
        (geometry(Level::Raid6, 2, 5, 128), 1),
    ] {
        let spread = Spread::new(&fs, &array, &whole());
        let all: u64 = spread.members.iter().flat_map(|m| m.sectors).sum();
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
    /// Two legs of a volume that is striped over three devices, of which the array has two, against
    /// their chunks one by one.
    #[test]
    fn a_striped_volume(
        array in arrays(),
        runs in prop::collection::vec((0u64..600, 1u64..120, 0usize..8), 1..6),
        chunk in 1u64..40,
    ) {
        let legs = [(0, 0), (2, 5000)].map(|(leg, at)| Segment {
            stripe: Stripe { chunk, gap: 2 * chunk, phase: 0 },
            ..Segment::new(FsSector(leg * chunk), ArraySector(at), 100 * chunk)
        });
        let mut chunks: Vec<Segment> = (0..100).flat_map(|row| [(0, 0), (2, 5000)].map(|(leg, at)| {
            let (fs, below) = ((row * 3 + leg) * chunk, at + row * chunk);
            Segment::new(FsSector(fs), ArraySector(below), chunk)
        })).collect();
        chunks.sort_by_key(|s| s.fs_sector);
        let ranges = runs.iter().map(|&(first, count, i)| range(first, count, FIXED[i])).collect();
        let fs = filesystem(1, 32768, ranges);
        let of = |segments: &[Segment]| {
            let spread = Spread::new(&fs, &array, segments);
            let sectors = |m: &super::MemberSpread| FIXED.map(|origin| m.sectors_of(origin));
            (spread.members.iter().map(sectors).collect::<Vec<_>>(), spread.outside)
        };
        prop_assert_eq!(of(&legs), of(&chunks));
    }

    /// Same counts as from `Geometry::copies` for each sector.
    #[test]
    fn counts_match_a_count_sector_by_sector(
        array in arrays(),
        runs in prop::collection::vec((0u64..600, 1u64..120, 0usize..8), 1..6),
        cut in 1u64..3000,
        shift in 0u64..200,
    ) {
        let segments = [
            (0, shift, cut),
            (cut + 8, shift + cut, 100_000),
        ]
        .map(|(fs_sector, array_sector, sectors)| {
            Segment::new(FsSector(fs_sector), ArraySector(array_sector), sectors)
        });
        let ranges: Vec<SectorRange> = runs
            .iter()
            .map(|&(first, count, i)| range(first, count, FIXED[i]))
            .collect();
        let fs = filesystem(1, 32768, ranges.clone());
        let spread = Spread::new(&fs, &array, &segments);
        let mut want = vec![[0; FIXED.len()]; array.disks() as usize];
        let mut outside = 0;
        for range in &ranges {
            let i = FIXED.iter().position(|&o| o == range.origin).unwrap();
            for sector in (range.first.0..range.first.0 + range.count).map(FsSector) {
                let segment = segments.iter().find(|s| {
                    sector >= s.fs_sector && sector < s.fs_sector + s.sectors
                });
                let copies = segment.map_or(Vec::new(), |s| {
                    array.copies(s.array_sector + (sector - s.fs_sector))
                });
                outside += u64::from(copies.is_empty());
                for (slot, _) in copies {
                    want[slot as usize][i] += 1;
                }
            }
        }
        let of = |m: &super::MemberSpread| FIXED.map(|origin| m.sectors_of(origin));
        let got: Vec<_> = spread.members.iter().map(of).collect();
        prop_assert_eq!(got, want);
        prop_assert_eq!(spread.outside, outside);
        prop_assert_eq!(Skews::new(&fs, &array, &segments), spread.skews(fs.figures()));
    }
}
