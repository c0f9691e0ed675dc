//! Blocks of each origin on each member, and of the part of the inode tables that is in use. Pure arithmetic on ranges and
//! a [`Geometry`].

use super::filesystem::Filesystem;
use crate::fs::ext4::Range;
use crate::machine::Segment;
use crate::origin::Origin;
use crate::raid::Geometry;

/// The origins that have fixed places, in the order of a table.
pub const FIXED: [Origin; 8] = [
    Origin::BlockBitmap,
    Origin::InodeBitmap,
    Origin::InodeTable,
    Origin::GroupDescriptors,
    Origin::Superblock,
    Origin::Journal,
    Origin::ExtentTree,
    Origin::OtherMetadata,
];

/// Inode table blocks in use for each group of a flex group. ext4 fills the tables of a flex group from the first one on
/// (`find_group_orlov`, `find_group_other`), so the blocks in use are one run at the start of each flex group's tables.
/// 4 blocks of 4 KiB hold 64 inodes: a file for every 2 MiB.
pub const HEAD_BLOCKS: u64 = 4;

/// What one member holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Sectors of each origin of [`FIXED`].
    pub sectors: [u64; FIXED.len()],
    /// Sectors of the inode table blocks in use, see [`HEAD_BLOCKS`].
    pub heads: u64,
}

impl Member {
    /// Sectors of an origin, 0 for one without fixed places.
    pub fn of(&self, origin: Origin) -> u64 {
        let at = FIXED.iter().position(|&o| o == origin);
        at.map_or(0, |i| self.sectors[i])
    }

    /// Sectors of block and inode bitmaps.
    pub fn bitmaps(&self) -> u64 {
        self.of(Origin::BlockBitmap) + self.of(Origin::InodeBitmap)
    }

    /// All sectors with a fixed place.
    pub fn all(&self) -> u64 {
        self.sectors.iter().sum()
    }
}

/// A figure of a member.
pub type Of = fn(&Member) -> u64;

/// The busiest over the mean; `None` where there is nothing.
pub fn skew(values: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let (n, sum) = values
        .clone()
        .fold((0_u64, 0_u64), |(n, sum), v| (n + 1, sum + v));
    let most = values.max().filter(|&most| most > 0)?;
    Some(most as f64 * n as f64 / sum as f64)
}

/// The figures that decide whether a layout is even.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Skews {
    /// Block bitmaps and inode bitmaps together.
    pub bitmaps: Option<f64>,
    /// Either of the two by itself, the worse one: at small chunks they lie on different members.
    pub one_bitmap: Option<f64>,
    /// Inode table blocks in use, see [`HEAD_BLOCKS`].
    pub tables: Option<f64>,
}

impl Skews {
    /// The worst of them, 1 where there is nothing to be uneven.
    pub fn worst(&self) -> f64 {
        [self.bitmaps, self.one_bitmap, self.tables]
            .into_iter()
            .flatten()
            .fold(1.0, f64::max)
    }
}

/// What falls on which member, by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// By slot.
    pub members: Vec<Member>,
    /// Sectors that lie behind the end of the array or on no segment of it.
    pub outside: u64,
}

impl Skews {
    /// Of a filesystem on an array, without counting anything else.
    pub fn of(fs: &Filesystem, geometry: &Geometry, segments: &[Segment]) -> Self {
        let place = Place {
            owners: Owners::new(geometry),
            segments,
        };
        let block_sectors = u64::from(fs.block_size / 512);
        let count = |ranges: &mut dyn Iterator<Item = (u64, u64)>| {
            let mut hits = vec![0; geometry.disks() as usize];
            for (first, count) in ranges {
                place.add(first * block_sectors, count, &mut hits);
            }
            hits
        };
        let of = |origin| {
            let own = fs.ranges.iter().filter(move |r| r.origin == origin);
            count(&mut own.map(|r| (r.first, r.count * block_sectors)))
        };
        let (block, inode) = (of(Origin::BlockBitmap), of(Origin::InodeBitmap));
        let both = block.iter().zip(&inode).map(|(b, i)| b + i);
        let one = [&block, &inode].map(|hits| skew(hits.iter().copied()));
        let heads = count(&mut heads(fs).map(|r| (r.first, r.count * block_sectors)));
        Self {
            bitmaps: skew(both),
            one_bitmap: one.into_iter().flatten().reduce(f64::max),
            tables: skew(heads.into_iter()),
        }
    }
}

impl Spread {
    /// Counts every range of `fs`. `segments`: where the sectors of its device lie on the array, by `fs_sector`.
    pub fn new(fs: &Filesystem, geometry: &Geometry, segments: &[Segment]) -> Self {
        let place = Place {
            owners: Owners::new(geometry),
            segments,
        };
        let disks = geometry.disks() as usize;
        let mut members = vec![Member::default(); disks];
        let mut outside = 0;
        let block_sectors = u64::from(fs.block_size / 512);
        let sectors =
            |first: u64, count: u64| (first * block_sectors, count.saturating_mul(block_sectors));
        let mut hits = vec![0; disks];
        for (i, origin) in FIXED.into_iter().enumerate() {
            for range in fs.ranges.iter().filter(|r| r.origin == origin) {
                let (first, count) = sectors(range.first, range.count);
                outside += place.add(first, count, &mut hits);
            }
            for (member, hits) in members.iter_mut().zip(&mut hits) {
                member.sectors[i] = std::mem::take(hits);
            }
        }
        for head in heads(fs) {
            let (first, count) = sectors(head.first, head.count);
            place.add(first, count, &mut hits);
        }
        for (member, hits) in members.iter_mut().zip(hits) {
            member.heads = hits;
        }
        Self { members, outside }
    }

    /// The skew of what `of` says of a member.
    pub fn skew(&self, of: impl Fn(&Member) -> u64 + Copy) -> Option<f64> {
        skew(self.members.iter().map(of))
    }

    /// Those that count.
    pub fn skews(&self) -> Skews {
        let one = [Origin::BlockBitmap, Origin::InodeBitmap].map(|o| self.skew(|m| m.of(o)));
        Skews {
            bitmaps: self.skew(Member::bitmaps),
            one_bitmap: one.into_iter().flatten().reduce(f64::max),
            tables: self.skew(|m| m.heads),
        }
    }
}

/// The inode table blocks in use: the first [`HEAD_BLOCKS`] for each group, from the start of each flex group's tables.
/// Tables lie in the order of their groups, and touching ones are one range.
fn heads(fs: &Filesystem) -> impl Iterator<Item = Range> + '_ {
    let (each, per_flex) = fs.groups.as_ref().map_or((0, 1), |g| {
        (u64::from(g.table_blocks), u64::from(g.per_flex.max(1)))
    });
    let tables = fs
        .ranges
        .iter()
        .filter(move |r| r.origin == Origin::InodeTable && each > 0);
    let tables = tables.flat_map(move |r| {
        (0..r.count.div_ceil(each)).map(move |i| (r.first + i * each, each.min(r.count - i * each)))
    });
    tables
        .enumerate()
        .filter_map(move |(group, (first, blocks))| {
            let before = group as u64 % per_flex * each;
            let count = (HEAD_BLOCKS * per_flex).checked_sub(before)?.min(blocks);
            (count > 0).then_some(Range {
                first,
                count,
                origin: Origin::InodeTable,
            })
        })
}

/// Which slots have the chunks of an array.
enum Owners<'a> {
    /// Every slot has every sector.
    All,
    /// By the chunk's number modulo the period: slots, `copies` of them each.
    Periodic {
        chunk: u64,
        sectors: u64,
        period: u64,
        copies: usize,
        slots: Vec<u8>,
    },
    /// A RAID 0 of unequal members.
    Irregular { chunk: u64, geometry: &'a Geometry },
}

impl<'a> Owners<'a> {
    fn new(geometry: &'a Geometry) -> Self {
        let Some(chunk) = geometry.chunk_sectors() else {
            return Self::All;
        };
        let rows = geometry.array_sectors() / chunk;
        let Some(period) = geometry.period().filter(|&p| p <= rows) else {
            return Self::Irregular { chunk, geometry };
        };
        let copies = geometry.copies(0).len();
        let slots = (0..period).flat_map(|c| geometry.copies(c * chunk));
        Self::Periodic {
            chunk,
            sectors: geometry.array_sectors(),
            period,
            copies,
            // Slots are below MAX_DISKS.
            slots: slots.map(|(slot, _)| slot as u8).collect(),
        }
    }

    /// Adds what each slot has of the run to `hits`; gives the sectors that are behind the array's end.
    fn add(&self, mut first: u64, mut count: u64, hits: &mut [u64]) -> u64 {
        match self {
            Self::All => {
                for hit in hits {
                    *hit += count;
                }
                0
            }
            Self::Periodic {
                chunk,
                sectors,
                period,
                copies,
                slots,
            } => {
                let inside = count.min(sectors.saturating_sub(first));
                let outside = count - inside;
                count = inside;
                // Whole turns give every chunk of the period once, wherever they begin.
                let turns = count / (chunk * period);
                if turns > 0 {
                    for &slot in slots {
                        hits[usize::from(slot)] += turns * chunk;
                    }
                    count -= turns * chunk * period;
                    first += turns * chunk * period;
                }
                while count > 0 {
                    let at = (first / chunk % period) as usize * copies;
                    let n = (chunk - first % chunk).min(count);
                    for &slot in &slots[at..at + copies] {
                        hits[usize::from(slot)] += n;
                    }
                    first += n;
                    count -= n;
                }
                outside
            }
            Self::Irregular { chunk, geometry } => {
                while count > 0 {
                    let copies = geometry.copies(first);
                    if copies.is_empty() {
                        return count;
                    }
                    let n = (chunk - first % chunk).min(count);
                    for (slot, _) in copies {
                        hits[slot as usize] += n;
                    }
                    first += n;
                    count -= n;
                }
                0
            }
        }
    }
}

/// From a sector of the filesystem to slots.
struct Place<'a> {
    owners: Owners<'a>,
    segments: &'a [Segment],
}

impl Place<'_> {
    /// As [`Owners::add`], from an address of the filesystem.
    fn add(&self, first: u64, count: u64, hits: &mut [u64]) -> u64 {
        let (mut first, end) = (first, first.saturating_add(count));
        let mut outside = 0;
        let behind = |s: &Segment| s.fs_sector.saturating_add(s.sectors);
        let from = self.segments.partition_point(|s| behind(s) <= first);
        for segment in &self.segments[from..] {
            if segment.fs_sector >= end {
                break;
            }
            if segment.fs_sector > first {
                outside += segment.fs_sector - first;
                first = segment.fs_sector;
            }
            let n = end.min(behind(segment)) - first;
            let at = first - segment.fs_sector + segment.array_sector;
            outside += self.owners.add(at, n, hits);
            first += n;
        }
        outside + (end - first)
    }
}

#[cfg(test)]
mod tests;
