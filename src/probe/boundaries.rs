//! Builds the boundary table of an array from the layouts of its filesystems. A boundary is a
//! sector at which the origin changes.
//!
//! Converts ranges of filesystems on partitions or device mapper volumes to sectors of the array,
//! once. Pure.

use crate::address::{ArraySector, FsBlock, FsSector};
use crate::contract;
use crate::fs::SectorRange;
use crate::machine::Segment;
use crate::origin::Origin;

/// Code of blocks outside fixed structures. log2 of the sectors per block is added to it. Such a
/// boundary is the start of a block, from which the programs compute the starts of the following
/// blocks.
pub const DYNAMIC: u8 = contract::DYNAMIC as u8;
const _: () = assert!(Origin::ALL.len() <= DYNAMIC as usize);

/// Added to the code of such blocks of an XFS.
const DYNAMIC_XFS: u8 = contract::DYNAMIC_XFS as u8;
const _: () = assert!(DYNAMIC_XFS > MAX_BLOCK_LOG);
/// log2 of the sectors of the largest block, 64 KiB.
const MAX_BLOCK_LOG: u8 = 7;

/// [`DYNAMIC`] for blocks of `block_sectors` sectors, a power of two from 1 (512 bytes) to 128 (64
/// KiB).
pub fn dynamic(block_sectors: u64, xfs: bool) -> u8 {
    let log = block_sectors.trailing_zeros().min(MAX_BLOCK_LOG.into()) as u8;
    DYNAMIC + log + if xfs { DYNAMIC_XFS } else { 0 }
}

/// A boundary: sectors from `sector` on have the origin `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub sector: ArraySector,
    /// Number of the origin, or [`dynamic`].
    pub code: u8,
}

/// One filesystem of the array.
pub struct PlacedFs<'a> {
    /// Mapping of the filesystem device's sectors to the array.
    pub segments: &'a [Segment],
    /// Fixed structures of the filesystem, sorted and disjoint.
    pub ranges: &'a [SectorRange],
    /// Sectors per block.
    pub block_sectors: u64,
    /// Size in blocks.
    pub blocks: u64,
    /// True for XFS, false for ext.
    pub xfs: bool,
}

impl PlacedFs<'_> {
    /// True if some blocks of the filesystem are split, as on a volume whose stripes are smaller
    /// than a block. A split block outside fixed structures counts as file data; on a striped
    /// volume, each block outside them does.
    pub fn cuts_blocks(&self) -> bool {
        self.segments.iter().any(|segment| {
            !segment.fs_sector.0.is_multiple_of(self.block_sectors.max(1))
                || self.cuts_in_stripes(segment)
        })
    }

    /// True if blocks do not end where the chunks of a striped volume do.
    fn cuts_in_stripes(&self, segment: &Segment) -> bool {
        let (stripe, block_sectors) = (segment.stripe, self.block_sectors.max(1));
        let parts = [stripe.chunk, stripe.gap, segment.fs_sector.0.wrapping_sub(stripe.phase)];
        stripe.gap > 0 && parts.iter().any(|sectors| !sectors.is_multiple_of(block_sectors))
    }
}

/// The table of one array. The first boundary is at sector 0. Sectors outside of filesystems are
/// `raw`.
pub fn boundaries(filesystems: &[PlacedFs<'_>]) -> Vec<Boundary> {
    let mut pieces = Vec::new();
    for fs in filesystems {
        for segment in fs.segments {
            project(fs, segment, &mut pieces);
        }
    }
    pieces.sort_unstable();

    let mut table = vec![Boundary { sector: ArraySector(0), code: Origin::Raw as u8 }];
    let mut end = ArraySector(0);
    for (first, last, code) in pieces {
        // Filesystems should not overlap. If they do, sectors belong to the first one.
        let begin = first.max(end);
        if begin >= last {
            continue;
        }
        if begin > end {
            push(&mut table, end, Origin::Raw as u8);
        }
        let block = block_sectors(code);
        let whole = first + (begin - first).next_multiple_of(block);
        if whole > begin {
            push(&mut table, begin, Origin::FileData as u8);
        }
        if whole < last {
            push(&mut table, whole, code);
        }
        end = last;
    }
    push(&mut table, end, Origin::Raw as u8);
    table
}

/// Sectors per block for a dynamic code; 1 for other codes.
pub(super) fn block_sectors(code: u8) -> u64 {
    match code.checked_sub(DYNAMIC) {
        Some(of) => 1 << (of & MAX_BLOCK_LOG),
        None => 1,
    }
}

fn push(table: &mut Vec<Boundary>, sector: ArraySector, code: u8) {
    // Blocks of adjacent filesystems may have different offsets from block boundaries of the array.
    let continues =
        |b: &Boundary| b.code == code && (sector - b.sector).is_multiple_of(block_sectors(code));
    match table.last_mut() {
        Some(last) if continues(last) => {}
        Some(last) if last.sector == sector => {
            last.code = code;
            // The preceding boundary may now have the same code.
            if let [.., before, _] = table.as_slice()
                && continues(before)
            {
                table.pop();
            }
        }
        _ => table.push(Boundary { sector, code }),
    }
}

/// Pieces of the ranges of `fs`, and of the gaps between them, that lie in `segment`: first sector,
/// end, code.
fn project(fs: &PlacedFs<'_>, segment: &Segment, pieces: &mut Vec<(ArraySector, ArraySector, u8)>) {
    let from = segment.fs_sector;
    let to = segment.end().min(FsBlock(fs.blocks).sector(fs.block_sectors));
    let code = match fs.cuts_in_stripes(segment) {
        true => Origin::FileData as u8,
        false => dynamic(fs.block_sectors, fs.xfs),
    };
    // In the gaps of a stripe there is nothing.
    let mut add = |first: FsSector, last: FsSector, code: u8| {
        let (first, last) = (segment.map(first), segment.map(last));
        if first < last {
            pieces.push((first, last, code));
        }
    };
    let mut put = |first: FsSector, last: FsSector, code: u8| {
        let (first, last) = (first.max(from), last.min(to));
        let whole = match code {
            DYNAMIC.. => FsSector(first.0.next_multiple_of(fs.block_sectors)).min(last),
            _ => first,
        };
        // The rest of a block that begins in another segment.
        if first < whole {
            add(first, whole, Origin::FileData as u8);
        }
        if whole < last {
            add(whole, last, code);
        }
    };
    // Only the ranges that can touch the segment.
    let start = fs.ranges.partition_point(|r| r.end() <= from);
    let mut gap = from;
    for range in &fs.ranges[start..] {
        let (first, last) = (range.first, range.end());
        if first >= to {
            break;
        }
        put(gap, first, code);
        put(first, last, range.origin as u8);
        gap = last.max(gap);
    }
    put(gap, to, code);
}

#[cfg(test)]
mod tests {
    use super::{Boundary, PlacedFs, block_sectors, boundaries, dynamic};
    use crate::address::{ArraySector, FsBlock, FsSector};
    use crate::fs::SectorRange;
    use crate::machine::{Segment, Stripe};
    use crate::origin::Origin;
    use proptest::prelude::*;

    /// Blocks of 4 KiB.
    fn range(first: u64, count: u64, origin: Origin) -> SectorRange {
        SectorRange { first: FsBlock(first).sector(8), count: count * 8, origin }
    }

    fn codes(table: &[Boundary]) -> Vec<(u64, u8)> {
        table.iter().map(|b| (b.sector.0, b.code)).collect()
    }

    fn segment(fs_sector: u64, array_sector: u64, sectors: u64) -> Segment {
        Segment::new(FsSector(fs_sector), ArraySector(array_sector), sectors)
    }

    const RAW: u8 = Origin::Raw as u8;
    const DATA: u8 = Origin::FileData as u8;
    /// Code of blocks of 4 KiB.
    const DYNAMIC: u8 = 35;

    #[test]
    fn a_filesystem_on_the_whole_array() {
        let table = boundaries(&[PlacedFs {
            segments: &[segment(0, 0, 1000)],
            ranges: &[
                range(0, 1, Origin::Superblock),
                range(10, 2, Origin::BlockBitmap),
                range(12, 2, Origin::InodeBitmap),
            ],
            block_sectors: 8,
            blocks: 100,
            xfs: false,
        }]);
        assert_eq!(
            codes(&table),
            [
                (0, Origin::Superblock as u8),
                (8, DYNAMIC),
                (80, Origin::BlockBitmap as u8),
                (96, Origin::InodeBitmap as u8),
                (112, DYNAMIC),
                (800, RAW),
            ]
        );
    }

    #[test]
    fn a_partition_shifts_and_a_split_volume_jumps() {
        let segments = [segment(0, 5000, 88), segment(88, 2048, 712)];
        let table = boundaries(&[PlacedFs {
            segments: &segments,
            ranges: &[range(10, 2, Origin::InodeTable)],
            block_sectors: 8,
            blocks: 100,
            xfs: false,
        }]);
        assert_eq!(
            codes(&table),
            [
                (0, RAW),
                (2048, Origin::InodeTable as u8),
                (2056, DYNAMIC),
                (2760, RAW),
                (5000, DYNAMIC),
                (5080, Origin::InodeTable as u8),
                (5088, RAW),
            ]
        );
    }

    #[test]
    fn an_array_without_filesystems_is_raw() {
        assert_eq!(codes(&boundaries(&[])), [(0, RAW)]);
    }

    fn whole(array_sector: u64, block_sectors: u64, blocks: u64) -> ([Segment; 1], u64, u64) {
        let segment = segment(0, array_sector, block_sectors * blocks);
        ([segment], block_sectors, blocks)
    }

    fn table(filesystems: &[([Segment; 1], u64, u64)]) -> Vec<(u64, u8)> {
        let placed: Vec<_> = filesystems
            .iter()
            .map(|(segments, block_sectors, blocks)| PlacedFs {
                segments,
                ranges: &[],
                block_sectors: *block_sectors,
                blocks: *blocks,
                xfs: *block_sectors == 128,
            })
            .collect();
        codes(&boundaries(&placed))
    }

    #[test]
    fn block_sizes_side_by_side() {
        let got = table(&[whole(63, 2, 100), whole(263, 8, 10), whole(400, 128, 2)]);
        assert_eq!(got, [(0, RAW), (63, 33), (263, 35), (343, RAW), (400, 39 + 8), (656, RAW)]);
        assert_eq!([1, 2, 8, 128].map(|n| dynamic(n, false)), [32, 33, 35, 39]);
        assert_eq!([1, 2, 8, 128].map(|n| dynamic(n, true)), [40, 41, 43, 47]);
        assert_eq!([35, 43, 47, 12].map(block_sectors), [8, 8, 128, 1]);
    }

    #[test]
    fn filesystems_that_touch_or_overlap_keep_their_block_alignment() {
        // The blocks of the second filesystem are aligned with those of the first; the blocks of
        // the third are not.
        let cut = segment(0, 0, 21);
        let got = table(&[([cut], 8, 2), whole(16, 8, 1), whole(24, 8, 1)]);
        assert_eq!(got, [(0, DYNAMIC), (32, RAW)]);
        let got = table(&[([cut], 8, 4), whole(21, 8, 1)]);
        assert_eq!(got, [(0, DYNAMIC), (21, DYNAMIC), (29, RAW)]);
        let got = table(&[whole(0, 8, 2), whole(12, 8, 2)]);
        assert_eq!(got, [(0, DYNAMIC), (16, DATA), (20, DYNAMIC), (28, RAW)]);
    }

    #[test]
    fn the_second_piece_of_a_split_block_is_file_data() {
        let segments = [segment(0, 100, 12), segment(12, 200, 20)];
        let placed = PlacedFs {
            segments: &segments,
            ranges: &[range(1, 1, Origin::InodeTable)],
            block_sectors: 8,
            blocks: 4,
            xfs: false,
        };
        assert!(placed.cuts_blocks());
        assert_eq!(
            codes(&boundaries(&[placed])),
            [
                (0, RAW),
                (100, DYNAMIC),
                (108, Origin::InodeTable as u8),
                (112, RAW),
                (200, Origin::InodeTable as u8),
                (204, DYNAMIC),
                (220, RAW),
            ]
        );
        let placed =
            PlacedFs { segments: &segments, ranges: &[], block_sectors: 8, blocks: 4, xfs: false };
        assert_eq!(
            codes(&boundaries(&[placed])),
            [(0, RAW), (100, DYNAMIC), (112, RAW), (200, DATA), (204, DYNAMIC), (220, RAW)]
        );
    }

    /// Structures of these numbers of blocks after these gaps, and the blocks of the filesystem.
    fn filesystem(spans: &[(u64, u64)]) -> (Vec<SectorRange>, u64) {
        let mut end = 0;
        let ranges = spans.iter().enumerate().map(|(i, &(gap, count))| {
            let structure = range(end + gap, count, Origin::ALL[2 + i % 9]);
            end += gap + count;
            structure
        });
        (ranges.collect(), end + 5)
    }

    proptest! {
        /// A leg of a striped volume has the table that its chunks would have, one by one.
        #[test]
        fn a_striped_volume(
            spans in prop::collection::vec((1u64..20, 1u64..20), 0..30),
            chunk in prop::sample::select(vec![8u64, 16, 24, 128, 5, 12]),
            legs in 2u64..5, leg in 0u64..5, begin in 0u64..40,
        ) {
            let (ranges, blocks) = filesystem(&spans);
            let (leg, begin) = (leg % legs, begin * 8);
            // The volume begins at a sector of the stripes.
            let chunks: Vec<Segment> = (0..400).filter_map(|row| {
                let (first, last) = ((row * legs + leg) * chunk, (row * legs + leg + 1) * chunk);
                let from = first.max(begin);
                (from < last).then(|| {
                    segment(from - begin, 1000 + row * chunk + (from - first), last - from)
                })
            }).collect();
            let first = chunks[0];
            let whole = Segment {
                sectors: chunks.iter().map(|s| s.sectors).sum(),
                stripe: Stripe { chunk, gap: chunk * (legs - 1), phase: chunk - first.sectors },
                ..first
            };
            let whole = [whole];
            let [by_chunk, striped] = [&chunks[..], &whole].map(|segments| {
                [PlacedFs { segments, ranges: &ranges, block_sectors: 8, blocks, xfs: false }]
            });
            prop_assert_eq!(striped[0].cuts_blocks(), chunk % 8 != 0);
            let (mut by_chunk, striped) = (boundaries(&by_chunk), boundaries(&striped));
            if chunk % 8 != 0 {
                // Blocks that are not cut count as file data, too.
                for b in &mut by_chunk {
                    b.code = if b.code >= 32 { DATA } else { b.code };
                }
                by_chunk.dedup_by_key(|b| b.code);
            }
            prop_assert_eq!(codes(&by_chunk), codes(&striped));
        }

        #[test]
        fn every_sector_has_the_origin_of_its_block(
            spans in prop::collection::vec((1u64..20, 1u64..20), 0..30),
            offset in 0u64..5000,
            split in 0u64..4000,
            probe in 0u64..10_000,
        ) {
            let (ranges, blocks) = filesystem(&spans);
            let sectors = blocks * 8;
            let split = split.min(sectors);
            let segments = [
                segment(0, offset, split),
                segment(split, offset + sectors + 100, sectors - split),
            ];
            let probe = ArraySector(probe);
            let table = boundaries(
                &[
                    PlacedFs {
                        segments: &segments,
                        ranges: &ranges,
                        block_sectors: 8,
                        blocks,
                        xfs: false,
                    },
                ],
            );
            let continues = |a: &Boundary, b: &Boundary| {
                a.code == b.code && (a.code < 32 || (b.sector - a.sector).is_multiple_of(8))
            };
            prop_assert!(
                table.windows(2).all(|w| w[0].sector < w[1].sector && !continues(&w[0], &w[1]))
            );
            let at = table[table.partition_point(|b| b.sector <= probe) - 1];
            let got = at.code;
            let fs = segments
                .iter()
                .find(|s| (s.array_sector..s.array_sector + s.sectors).contains(&probe))
                .map(|s| FsBlock((probe - s.array_sector + s.fs_sector.0) / 8));
            let want = match fs {
                None => RAW,
                Some(b) => ranges
                    .iter()
                    .find(|r| (r.first..r.end()).contains(&b.sector(8)))
                    .map_or(DYNAMIC, |r| r.origin as u8),
            };
            if want == DYNAMIC && got == DATA {
                // The rest of the block that is cut.
                let second = segments[1];
                prop_assert!(split % 8 != 0 && probe - second.array_sector < 8 - split % 8);
            } else {
                prop_assert_eq!(got, want);
            }
            if got == DYNAMIC {
                // The boundary gives the beginning of its block.
                let s = segments
                    .iter()
                    .find(|s| (s.array_sector..s.array_sector + s.sectors).contains(&probe))
                    .unwrap();
                prop_assert_eq!(
                    (probe - at.sector) % 8,
                    (probe - s.array_sector + s.fs_sector.0) % 8
                );
            }
        }
    }
}
