//! Sectors of each origin on each member, and of the inode tables in use. Pure arithmetic on ranges and a [`Geometry`].

use super::filesystem::Filesystem;
use crate::address::{ArraySector, FsSector};
use crate::fs::ext4::Range;
use crate::machine::Segment;
use crate::origin::Origin;
use crate::raid::Geometry;

/// Minimum skew of an uneven layout.
pub const UNEVEN_FROM: f64 = 1.5;

/// Origins with fixed locations, in the order of the tables.
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

/// Assumed number of inode table blocks in use per group. ext4 fills the tables of a flex group in order
/// (`find_group_orlov()`, `find_group_other()`), so the blocks in use are one run at their start. 4 blocks of 4 KiB hold 64
/// inodes: a file for every 2 MiB.
pub const HEAD_BLOCKS: u64 = 4;

/// Sectors on a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Sectors of each origin of [`FIXED`].
    pub sectors: [u64; FIXED.len()],
    /// Sectors of the inode table blocks in use, see [`HEAD_BLOCKS`].
    pub heads: u64,
}

impl Member {
    /// Sectors of an origin, 0 if it is not in [`FIXED`].
    pub fn sectors_of(&self, origin: Origin) -> u64 {
        let at = FIXED.iter().position(|&o| o == origin);
        at.map_or(0, |i| self.sectors[i])
    }

    /// Sectors of block and inode bitmaps.
    pub fn bitmaps(&self) -> u64 {
        self.sectors_of(Origin::BlockBitmap) + self.sectors_of(Origin::InodeBitmap)
    }

    /// Sectors of all origins in [`FIXED`].
    pub fn total(&self) -> u64 {
        self.sectors.iter().sum()
    }
}

/// A figure of a member.
pub type Figure = fn(&Member) -> u64;

/// The highest value over the mean; `None` if all are 0.
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
    /// The worse of block bitmaps alone and inode bitmaps alone: with small chunks they are on different members.
    pub one_bitmap: Option<f64>,
    /// Inode table blocks in use, see [`HEAD_BLOCKS`].
    pub tables: Option<f64>,
}

impl Skews {
    /// The highest skew; 1 if there is none.
    pub fn worst(&self) -> f64 {
        [self.bitmaps, self.one_bitmap, self.tables]
            .into_iter()
            .flatten()
            .fold(1.0, f64::max)
    }
}

/// Sectors of a filesystem by member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Members by slot.
    pub members: Vec<Member>,
    /// Sectors beyond the end of the array, or outside all segments.
    pub outside: u64,
}

impl Skews {
    /// Skews of a filesystem on an array. Faster than [`Spread::new`], because it counts only bitmaps and inode tables.
    pub fn new(fs: &Filesystem, geometry: &Geometry, segments: &[Segment]) -> Self {
        let bitmaps = [Origin::BlockBitmap, Origin::InodeBitmap];
        Spread::count(fs, geometry, segments, &bitmaps).skews()
    }
}

impl Spread {
    /// Counts every range of `fs`. `segments` is the location of the filesystem's device on the array, sorted by `fs_sector`.
    pub fn new(fs: &Filesystem, geometry: &Geometry, segments: &[Segment]) -> Self {
        Self::count(fs, geometry, segments, &FIXED)
    }

    /// Counts the ranges of some origins, and the inode table blocks in use.
    fn count(
        fs: &Filesystem,
        geometry: &Geometry,
        segments: &[Segment],
        origins: &[Origin],
    ) -> Self {
        let projection = Projection {
            owners: Owners::new(geometry),
            segments,
        };
        let disks = geometry.disks() as usize;
        let mut members = vec![Member::default(); disks];
        let mut outside = 0;
        let block_sectors = u64::from(fs.block_size / 512);
        let mut hits = vec![0; disks];
        let add = |range: Range, hits: &mut [u64]| {
            let sectors = range.count.saturating_mul(block_sectors);
            projection.add(range.first.sector(block_sectors), sectors, hits)
        };
        let counted = FIXED
            .iter()
            .enumerate()
            .filter(|(_, o)| origins.contains(o));
        for (i, origin) in counted {
            for range in fs.ranges.iter().filter(|r| r.origin == *origin) {
                outside += add(*range, &mut hits);
            }
            for (member, hits) in members.iter_mut().zip(&mut hits) {
                member.sectors[i] = std::mem::take(hits);
            }
        }
        for head in heads(fs) {
            add(head, &mut hits);
        }
        for (member, hits) in members.iter_mut().zip(hits) {
            member.heads = hits;
        }
        Self { members, outside }
    }

    /// Skew of a figure.
    pub fn skew(&self, figure: impl Fn(&Member) -> u64 + Copy) -> Option<f64> {
        skew(self.members.iter().map(figure))
    }

    /// The skews that decide whether the layout is even.
    pub fn skews(&self) -> Skews {
        let one =
            [Origin::BlockBitmap, Origin::InodeBitmap].map(|o| self.skew(|m| m.sectors_of(o)));
        Skews {
            bitmaps: self.skew(Member::bitmaps),
            one_bitmap: one.into_iter().flatten().reduce(f64::max),
            tables: self.skew(|m| m.heads),
        }
    }
}

/// Inode table blocks in use: [`HEAD_BLOCKS`] per group, from the start of each flex group's tables. Tables are in the order of
/// their groups, and adjacent ones are one range.
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

/// Slots that hold each chunk of an array.
enum Owners<'a> {
    /// Every slot holds every sector.
    All,
    /// `copies` slots for each chunk number modulo the period.
    Periodic {
        chunk: u64,
        sectors: u64,
        period: u64,
        copies: usize,
        slots: Vec<u8>,
    },
    /// RAID 0 with members of different sizes.
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
        let copies = geometry.copies(ArraySector(0)).len();
        let slots = (0..period).flat_map(|c| geometry.copies(ArraySector(c * chunk)));
        Self::Periodic {
            chunk,
            sectors: geometry.array_sectors(),
            period,
            copies,
            // Slots are below MAX_DISKS.
            slots: slots.map(|(slot, _)| slot as u8).collect(),
        }
    }

    /// Adds the sectors of a run on each slot to `hits`. Returns the number of sectors beyond the end of the array.
    fn add(&self, mut first: ArraySector, mut count: u64, hits: &mut [u64]) -> u64 {
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
                let inside = count.min(sectors.saturating_sub(first.0));
                let outside = count - inside;
                count = inside;
                // A whole period contains each of its chunks once, wherever it starts.
                let periods = count / (chunk * period);
                if periods > 0 {
                    for &slot in slots {
                        hits[usize::from(slot)] += periods * chunk;
                    }
                    count -= periods * chunk * period;
                    first += periods * chunk * period;
                }
                while count > 0 {
                    let at = (first.0 / chunk % period) as usize * copies;
                    let n = (chunk - first.0 % chunk).min(count);
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
                    let n = (chunk - first.0 % chunk).min(count);
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

/// Maps sectors of the filesystem to slots.
struct Projection<'a> {
    owners: Owners<'a>,
    segments: &'a [Segment],
}

impl Projection<'_> {
    /// Like [`Owners::add`], for a run of the filesystem's sectors.
    fn add(&self, mut first: FsSector, count: u64, hits: &mut [u64]) -> u64 {
        let end = first.saturating_add(count);
        let mut outside = 0;
        let from = self.segments.partition_point(|s| s.end() <= first);
        for segment in &self.segments[from..] {
            if segment.fs_sector >= end {
                break;
            }
            if segment.fs_sector > first {
                outside += segment.fs_sector - first;
                first = segment.fs_sector;
            }
            let n = end.min(segment.end()) - first;
            outside += self.owners.add(segment.map(first), n, hits);
            first += n;
        }
        outside + (end - first)
    }
}

#[cfg(test)]
mod tests;
