//! Sectors of each origin on each member, and of the inode tables in use. Pure arithmetic on ranges
//! and a [`Geometry`].

use super::figures::PlacementFigures;
pub use super::figures::{FIXED, MemberSpread, PlacementFigure};
use super::filesystem::{BlockGroups, FsMetadata, Groups};
use crate::address::{ArraySector, FsSector};
use crate::fs::SectorRange;
use crate::machine::Segment;
use crate::origin::Origin;
use crate::raid::{Geometry, Level};

/// Minimum skew of an uneven layout.
pub const MIN_UNEVEN_SKEW: f64 = 1.5;

/// Assumed number of inode table blocks in use per group. ext4 fills the tables of a flex group in
/// order (`find_group_orlov()`, `find_group_other()`), so the blocks in use are one run at their
/// start. 4 blocks of 4 KiB hold 64 inodes: a file for every 2 MiB.
pub const HEAD_BLOCKS: u64 = 4;

/// The highest value over the mean; `None` if all are 0.
pub fn skew(values: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let (n, sum) = values.clone().fold((0_u64, 0_u64), |(n, sum), v| (n + 1, sum + v));
    let most = values.max().filter(|&most| most > 0)?;
    Some(most as f64 * n as f64 / sum as f64)
}

/// The figures that decide whether a layout is even.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Skews {
    /// Allocation metadata: block bitmaps and inode bitmaps together, or AG headers.
    pub allocation: Option<f64>,
    /// The worst of its kinds alone: block bitmaps, inode bitmaps, or AG headers, btree roots.
    /// With small chunks they are on different members.
    pub alone: Option<f64>,
    /// Inodes in use, see [`MemberSpread::heads`].
    pub inodes: Option<f64>,
}

impl Skews {
    /// The highest skew; 1 if there is none.
    pub fn worst(&self) -> f64 {
        [self.allocation, self.alone, self.inodes].into_iter().flatten().fold(1.0, f64::max)
    }
}

/// Sectors of a filesystem by member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Members by slot.
    pub members: Vec<MemberSpread>,
    /// Sectors beyond the end of the array, or outside all segments.
    pub outside: u64,
}

impl Skews {
    /// Skews of a filesystem on an array. Faster than [`Spread::new`], because it counts only what
    /// the skews need.
    pub fn new(fs: &FsMetadata, geometry: &Geometry, segments: &[Segment]) -> Self {
        let figures = fs.figures();
        Spread::count(fs, geometry, segments, figures.allocation_origins).skews(figures)
    }
}

impl Spread {
    /// Counts every range of `fs`. `segments` is the location of the filesystem's device on the
    /// array, sorted by `fs_sector`.
    pub fn new(fs: &FsMetadata, geometry: &Geometry, segments: &[Segment]) -> Self {
        Self::count(fs, geometry, segments, fs.figures().origins)
    }

    /// Counts the ranges of some origins, and the inodes in use.
    fn count(
        fs: &FsMetadata,
        geometry: &Geometry,
        segments: &[Segment],
        origins: &[Origin],
    ) -> Self {
        let projection = Projection::new(geometry, segments);
        let disks = geometry.disks() as usize;
        let mut members = vec![MemberSpread::default(); disks];
        let mut outside = 0;
        let mut hits = vec![0; disks];
        let add =
            |range: SectorRange, hits: &mut [u64]| projection.add(range.first, range.count, hits);
        for &origin in origins {
            for range in fs.ranges.iter().filter(|r| r.origin == origin) {
                outside += add(*range, &mut hits);
            }
            for (member, hits) in members.iter_mut().zip(&mut hits) {
                member.sectors[origin as usize] = std::mem::take(hits);
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

    pub fn skew(&self, figure: impl Fn(&MemberSpread) -> u64 + Copy) -> Option<f64> {
        skew(self.members.iter().map(figure))
    }

    /// The skews that decide whether the layout is even. `figures` are those of the filesystem.
    pub fn skews(&self, figures: &PlacementFigures) -> Skews {
        // An array of a striped volume may have all bitmaps of one kind and nearly none of another.
        let sum = |figure: PlacementFigure| self.members.iter().map(figure).sum::<u64>();
        let most = figures.alone.iter().map(|&figure| sum(figure)).max().unwrap_or(0);
        let alone = figures.alone.iter().filter(|&&figure| sum(figure) >= most / 10);
        let alone = alone.filter_map(|&figure| self.skew(figure));
        Skews {
            allocation: self.skew(figures.allocation),
            alone: alone.reduce(f64::max),
            inodes: self.skew(|m| m.heads),
        }
    }
}

/// Inodes in use, assumed.
fn heads(fs: &FsMetadata) -> Vec<SectorRange> {
    match fs.groups {
        None => Vec::new(),
        Some(Groups::Block(groups)) => table_heads(fs, &groups).collect(),
        Some(Groups::Allocation(groups)) => groups.first_inodes(&fs.ranges),
    }
}

/// Inode table blocks in use: [`HEAD_BLOCKS`] per group, from the start of each flex group's
/// tables. Tables are in the order of their groups, and adjacent ones are one range.
fn table_heads(fs: &FsMetadata, groups: &BlockGroups) -> impl Iterator<Item = SectorRange> {
    let block_sectors = fs.block_sectors();
    let each = u64::from(groups.table_blocks) * block_sectors;
    let per_flex = u64::from(groups.per_flex.max(1));
    let tables =
        fs.ranges.iter().filter(move |r| r.origin == Origin::InodeTable && each > 0).flat_map(
            move |r| {
                (0..r.count.div_ceil(each))
                    .map(move |i| (r.first + i * each, each.min(r.count - i * each)))
            },
        );
    tables.enumerate().filter_map(move |(group, (first, sectors))| {
        let before = group as u64 % per_flex * each;
        let heads = HEAD_BLOCKS * per_flex * block_sectors;
        let count = heads.checked_sub(before)?.min(sectors);
        (count > 0).then_some(SectorRange { first, count, origin: Origin::InodeTable })
    })
}

/// Slots that hold each chunk of an array.
enum Owners<'a> {
    /// Every slot holds every sector.
    All,
    /// `copies` slots for each chunk number modulo the period.
    Periodic { chunk: u64, sectors: u64, period: u64, copies: usize, slots: Vec<u8> },
    /// RAID 0 with members of different sizes, and linear.
    Irregular(&'a Geometry),
}

impl<'a> Owners<'a> {
    fn new(geometry: &'a Geometry) -> Self {
        let Some(chunk) = geometry.chunk_sectors() else {
            let is_linear = geometry.level() == Level::Linear;
            return if is_linear { Self::Irregular(geometry) } else { Self::All };
        };
        let rows = geometry.array_sectors() / chunk;
        let Some(period) = geometry.period().filter(|&p| p <= rows) else {
            return Self::Irregular(geometry);
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

    /// Adds the sectors of a run on each slot to `hits`. Returns the number of sectors beyond the
    /// end of the array.
    fn add(&self, mut first: ArraySector, mut count: u64, hits: &mut [u64]) -> u64 {
        match self {
            Self::All => {
                for hit in hits {
                    *hit += count;
                }
                0
            }
            Self::Periodic { chunk, sectors, period, copies, slots } => {
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
            Self::Irregular(geometry) => {
                while count > 0 {
                    let copies = geometry.copies(first);
                    if copies.is_empty() {
                        return count;
                    }
                    let n = geometry.run(first).min(count);
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
pub(super) struct Projection<'a> {
    owners: Owners<'a>,
    segments: &'a [Segment],
    /// Ends of segments of a striped volume are in no order.
    is_striped: bool,
}

impl<'a> Projection<'a> {
    /// Prepares a geometry. `segments` is sorted by `fs_sector`.
    pub(super) fn new(geometry: &'a Geometry, segments: &'a [Segment]) -> Self {
        let is_striped = segments.iter().any(|s| s.stripe.gap > 0);
        Self { owners: Owners::new(geometry), segments, is_striped }
    }

    /// Number of sectors of the filesystem, from its first one on, among which are `sectors` of the
    /// first segment. Of a volume that is not striped: `sectors`.
    pub(super) fn distance(&self, sectors: u64) -> u64 {
        match self.segments.first() {
            Some(s) if s.stripe.gap > 0 => s.fs_sector.0.saturating_add(s.stripe.above(sectors)),
            _ => sectors,
        }
    }

    /// Adds the sectors of a run of the filesystem's on each slot to `hits`. Returns the number of
    /// sectors beyond the end of the array or outside all segments.
    pub(super) fn add(&self, first: FsSector, count: u64, hits: &mut [u64]) -> u64 {
        let end = first.saturating_add(count);
        let mut inside = 0;
        let from = match self.is_striped {
            true => 0,
            false => self.segments.partition_point(|s| s.end() <= first),
        };
        for segment in &self.segments[from..] {
            if segment.fs_sector >= end {
                break;
            }
            let within = |sector: FsSector| sector.max(segment.fs_sector).min(segment.end());
            let (first, last) = (segment.map(within(first)), segment.map(within(end)));
            inside += last - first - self.owners.add(first, last - first, hits);
        }
        end - first - inside
    }
}

#[cfg(test)]
mod tests;
