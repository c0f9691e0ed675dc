//! Filesystem layouts -> the boundary table of an array: from each boundary on, which origin.
//!
//! Where a filesystem lies on a partition or a device-mapper device, its ranges are projected
//! onto the array's addresses here, once. Pure.

use crate::ext4::Range;
use crate::host::Segment;
use crate::origin::Origin;

/// Marks blocks that no fixed structure owns (`RT_DYNAMIC` of `bpf/raidtrace.h`): plus log2 of the sectors of a block, which
/// is up to 7 (64 KiB).
pub const DYNAMIC: u8 = 24;

/// From `sector` of the array on, the origin is `code` ([`Origin`] or [`DYNAMIC`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Array sector.
    pub sector: u64,
    /// Number of the origin, or [`DYNAMIC`] and more.
    pub code: u8,
}

impl Boundary {
    /// As the kernel side reads it.
    pub fn wire(self) -> u64 {
        self.sector << 8 | u64::from(self.code)
    }
}

/// One filesystem of the array.
pub struct Placed<'a> {
    /// Where its device's sectors lie on the array.
    pub segments: &'a [Segment],
    /// Its layout, sorted and disjoint, in blocks.
    pub ranges: &'a [Range],
    /// Sectors per block.
    pub block_sectors: u64,
    /// Size in blocks.
    pub blocks: u64,
}

/// The table of one array; its first boundary is at 0, and what no filesystem occupies is `raw`.
pub fn boundaries(filesystems: &[Placed<'_>]) -> Vec<Boundary> {
    let mut pieces: Vec<(u64, u64, u8)> = Vec::new();
    for fs in filesystems {
        for segment in fs.segments {
            project(fs, segment, &mut pieces);
        }
    }
    pieces.sort_unstable();

    let mut table = vec![Boundary {
        sector: 0,
        code: Origin::Raw as u8,
    }];
    let mut end = 0;
    for (first, last, code) in pieces {
        // Overlapping filesystems are somebody's mistake: the first one keeps the place.
        let first = first.max(end);
        if first >= last {
            continue;
        }
        if first > end {
            push(&mut table, end, Origin::Raw as u8);
        }
        push(&mut table, first, code);
        end = last;
    }
    push(&mut table, end, Origin::Raw as u8);
    table
}

fn push(table: &mut Vec<Boundary>, sector: u64, code: u8) {
    match table.last_mut() {
        Some(last) if last.code == code => {}
        Some(last) if last.sector == sector => {
            last.code = code;
            // The boundary before may now say the same.
            if let [.., before, last] = table.as_slice()
                && before.code == last.code
            {
                table.pop();
            }
        }
        _ => table.push(Boundary { sector, code }),
    }
}

/// The ranges of `fs` and the dynamic gaps between them, as far as they lie in `segment`.
fn project(fs: &Placed<'_>, segment: &Segment, out: &mut Vec<(u64, u64, u8)>) {
    let dynamic = DYNAMIC + fs.block_sectors.max(1).ilog2().min(7) as u8;
    let from = segment.fs_sector;
    let to = segment
        .fs_sector
        .saturating_add(segment.sectors)
        .min(fs.blocks.saturating_mul(fs.block_sectors));
    let mut put = |first: u64, last: u64, code: u8| {
        let (first, last) = (first.max(from), last.min(to));
        if first < last {
            let at = segment.array_sector;
            out.push((first - from + at, last - from + at, code));
        }
    };
    // Only the ranges that can touch the segment.
    let start = fs
        .ranges
        .partition_point(|r| r.end().saturating_mul(fs.block_sectors) <= from);
    let mut gap = from;
    for range in &fs.ranges[start..] {
        let first = range.first.saturating_mul(fs.block_sectors);
        let last = range.end().saturating_mul(fs.block_sectors);
        if first >= to {
            break;
        }
        put(gap, first, dynamic);
        put(first, last, range.origin as u8);
        gap = last.max(gap);
    }
    put(gap, to, dynamic);
}

/// What makes a look-up in a table cost the same however many boundaries it has: the boundary (its place in `table`) that
/// the sector `i << shift` lies behind, for each `i` up to the end of the array and one more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Places in the table.
    pub entries: Vec<u32>,
    /// log2 of the sectors that an entry stands for.
    pub shift: u32,
}

impl Index {
    /// About two entries a boundary, at most 2^20 (4 MiB).
    pub fn new(table: &[Boundary], sectors: u64) -> Self {
        let wanted = (table.len() as u64 * 2).clamp(1, 1 << 20);
        let mut shift = 0;
        while sectors >> shift > wanted {
            shift += 1;
        }
        let mut entries = Vec::new();
        let mut at = 0;
        for i in 0..=(sectors >> shift) + 1 {
            let sector = i << shift;
            while table.get(at + 1).is_some_and(|b| b.sector <= sector) {
                at += 1;
            }
            entries.push(at as u32);
        }
        Self { entries, shift }
    }
}

#[cfg(test)]
mod tests {
    use super::{Boundary, DYNAMIC, Index, Placed, boundaries};
    use crate::ext4::Range;
    use crate::host::Segment;
    use crate::origin::Origin;
    use proptest::prelude::*;

    fn range(first: u64, count: u64, origin: Origin) -> Range {
        Range {
            first,
            count,
            origin,
        }
    }

    fn codes(table: &[Boundary]) -> Vec<(u64, u8)> {
        table.iter().map(|b| (b.sector, b.code)).collect()
    }

    const RAW: u8 = Origin::Raw as u8;

    #[test]
    fn a_filesystem_on_the_whole_array() {
        let table = boundaries(&[Placed {
            segments: &[Segment {
                fs_sector: 0,
                array_sector: 0,
                sectors: 1000,
            }],
            ranges: &[
                range(0, 1, Origin::Superblock),
                range(10, 2, Origin::BlockBitmap),
                range(12, 2, Origin::InodeBitmap),
            ],
            block_sectors: 8,
            blocks: 100,
        }]);
        assert_eq!(
            codes(&table),
            [
                (0, Origin::Superblock as u8),
                (8, DYNAMIC + 3),
                (80, Origin::BlockBitmap as u8),
                (96, Origin::InodeBitmap as u8),
                (112, DYNAMIC + 3),
                (800, RAW),
            ]
        );
    }

    #[test]
    fn a_partition_shifts_and_a_split_volume_jumps() {
        let segments = [
            Segment {
                fs_sector: 0,
                array_sector: 5000,
                sectors: 88,
            },
            Segment {
                fs_sector: 88,
                array_sector: 2048,
                sectors: 712,
            },
        ];
        let table = boundaries(&[Placed {
            segments: &segments,
            ranges: &[range(10, 2, Origin::InodeTable)],
            block_sectors: 8,
            blocks: 100,
        }]);
        assert_eq!(
            codes(&table),
            [
                (0, RAW),
                (2048, Origin::InodeTable as u8),
                (2056, DYNAMIC + 3),
                (2760, RAW),
                (5000, DYNAMIC + 3),
                (5080, Origin::InodeTable as u8),
                (5088, RAW),
            ]
        );
    }

    #[test]
    fn nothing_on_it_is_raw() {
        assert_eq!(codes(&boundaries(&[])), [(0, RAW)]);
    }

    proptest! {
        #[test]
        fn every_sector_has_the_origin_of_its_block(
            spans in prop::collection::vec((1u64..20, 1u64..20), 0..30),
            offset in 0u64..5000,
            split in 0u64..4000,
            probe in 0u64..10_000,
        ) {
            let mut at = 0;
            let ranges: Vec<Range> = spans.iter().enumerate().map(|(i, &(gap, count))| {
                let r = range(at + gap, count, Origin::ALL[2 + i % 9]);
                at = r.end();
                r
            }).collect();
            let blocks = at + 5;
            let sectors = blocks * 8;
            let split = split.min(sectors);
            let segments = [
                Segment { fs_sector: 0, array_sector: offset, sectors: split },
                Segment { fs_sector: split, array_sector: offset + sectors + 100, sectors: sectors - split },
            ];
            let table = boundaries(&[Placed { segments: &segments, ranges: &ranges, block_sectors: 8, blocks }]);
            prop_assert!(table.windows(2).all(|w| w[0].sector < w[1].sector && w[0].code != w[1].code));
            let got = table[table.partition_point(|b| b.sector <= probe) - 1].code;
            let fs = segments.iter().find(|s| (s.array_sector..s.array_sector + s.sectors).contains(&probe))
                .map(|s| (probe - s.array_sector + s.fs_sector) / 8);
            let want = match fs {
                None => RAW,
                Some(b) => ranges.iter().find(|r| (r.first..r.end()).contains(&b)).map_or(DYNAMIC + 3, |r| r.origin as u8),
            };
            prop_assert_eq!(got, want);

            // As the kernel side looks it up.
            let end = offset + 2 * sectors + 200;
            let index = Index::new(&table, end);
            let at = (probe.min(end) >> index.shift) as usize;
            let (low, high) = (index.entries[at] as usize, index.entries[at + 1] as usize);
            let found = low + table[low..=high].partition_point(|b| b.sector <= probe.min(end)) - 1;
            prop_assert_eq!(found, table.partition_point(|b| b.sector <= probe.min(end)) - 1);
        }
    }
}
