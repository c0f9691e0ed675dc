//! The structures of a filesystem, and their places in another one. All addresses and lengths are
//! in sectors.
//!
//! Both filesystems have groups: flex groups or allocation groups. A group keeps its share of the
//! filesystem: group 8 of 16 becomes group 4 of 8, or groups 16 and 17 of 32 in turns. What each
//! group has keeps its offset there: a bitmap or an inode table among those of the group, a block
//! without a fixed place among the free ones. Structures of the whole filesystem, such as the
//! journal, keep their offset.

use crate::analysis::placement::{FsMetadata, Groups};
use crate::mke2fs::MAX_GROUPS;
use crate::origin::Origin;

/// Kind of the sectors without a fixed purpose. No structure has this origin.
const FREE: Origin = Origin::FileData;
/// Parts of a group's requests that can go to different planned groups.
const TURNS: u64 = 64;

/// Sectors that follow each other and have the same kind.
#[derive(Clone, Copy, Debug)]
struct SectorRun {
    first: u64,
    count: u64,
    kind: Origin,
    /// Sectors of this kind before the span.
    rank: u64,
}

/// A filesystem, prepared for look-ups.
#[derive(Clone, Debug)]
pub struct Side {
    /// Sorted, without gaps.
    spans: Vec<SectorRun>,
    /// The same spans by kind.
    kinds: Vec<Vec<SectorRun>>,
    /// Sectors of each kind in a group; 0 if they belong to the whole filesystem.
    each: Vec<u64>,
    sectors: u64,
    /// Number of flex groups or allocation groups, and block groups of each.
    groups: u64,
    per_group: u64,
    /// First sector of block group 0, and sectors of a block group.
    first: u64,
    size: u64,
}

impl Side {
    /// Prepares a filesystem.
    ///
    /// # Errors
    /// The filesystem has impossible groups, or bitmaps or inode tables are missing.
    pub fn new(fs: &FsMetadata) -> Result<Self, String> {
        let block = fs.block_sectors().max(1);
        let (count, first, blocks, per_flex) = match fs.groups {
            Some(Groups::Block(g)) => {
                (g.count, g.first_block, g.blocks, g.per_flex.clamp(1, g.count.max(1)))
            }
            Some(Groups::Allocation(g)) => (g.count, 0, g.blocks, 1),
            None => return Err("the filesystem has no known groups".to_owned()),
        };
        let most = fs.blocks.saturating_sub(first.into()).div_ceil(u64::from(blocks).max(1));
        if blocks == 0 || count == 0 || u64::from(count) != most || most > MAX_GROUPS {
            return Err(format!(
                "{count} groups of {blocks} blocks do not make {} blocks",
                fs.blocks
            ));
        }
        let mut side = Self {
            spans: Vec::with_capacity(2 * fs.ranges.len() + 1),
            kinds: vec![Vec::new(); Origin::ALL.len()],
            each: vec![0; Origin::ALL.len()],
            sectors: fs.blocks.saturating_mul(block),
            groups: count.div_ceil(per_flex).into(),
            first: u64::from(first) * block,
            per_group: per_flex.into(),
            size: u64::from(blocks) * block,
        };
        for range in fs.ranges.iter().filter(|r| r.origin != FREE) {
            // The ranges of a recording are untrusted.
            side.push(range.first.0, FREE);
            side.push(range.first.0.saturating_add(range.count), range.origin);
        }
        side.push(side.sectors, FREE);
        for kind in Origin::ALL.into_iter().filter(|k| ![FREE, Origin::Journal].contains(k)) {
            let each = match (fs.groups, kind) {
                (Some(Groups::Allocation(_)), _) => side.total(kind) / u64::from(count),
                (_, Origin::BlockBitmap | Origin::InodeBitmap) => block,
                (Some(Groups::Block(g)), Origin::InodeTable) => u64::from(g.table_blocks) * block,
                _ => continue,
            };
            let (found, all) = (side.total(kind), each * u64::from(count));
            if found != all {
                return Err(format!("{found} of {all} sectors of {kind}"));
            }
            side.each[kind as usize] = each * u64::from(per_flex);
        }
        Ok(side)
    }

    /// Adds a span from the end of the last one to `end`.
    fn push(&mut self, end: u64, kind: Origin) {
        let first = self.spans.last().map_or(0, |s| s.first + s.count);
        let count = end.min(self.sectors).saturating_sub(first);
        if count > 0 {
            let span = SectorRun { first, count, kind, rank: self.total(kind) };
            self.spans.push(span);
            self.kinds[kind as usize].push(span);
        }
    }

    /// Sectors of a kind.
    fn total(&self, kind: Origin) -> u64 {
        self.kinds[kind as usize].last().map_or(0, |s| s.rank + s.count)
    }

    /// Free sectors before a block group.
    fn free_before(&self, group: u64) -> u64 {
        let (start, free) = (self.first + group * self.size, &self.kinds[FREE as usize]);
        let last = free[..free.partition_point(|s| s.first < start)].last();
        last.map_or(0, |span| span.rank + span.count.min(start - span.first))
    }

    /// Planned sector of a sector of this filesystem, and the number of sectors that follow each
    /// other in both, at least 1. `None` if the planned filesystem has no such structure. `turn`
    /// selects one of the planned groups that have a share of the group.
    pub fn place(&self, planned: &Self, sector: u64, turn: u64) -> (Option<u64>, u64) {
        let before = &self.spans[..self.spans.partition_point(|s| s.first <= sector)];
        let Some(span) = before.last().filter(|s| sector - s.first < s.count) else {
            return (None, u64::MAX);
        };
        let (kind, offset) = (span.kind, sector - span.first);
        let rank = span.rank + offset;
        let share = |group| (group * TURNS + turn % TURNS) * planned.groups / (self.groups * TURNS);
        let each = [self, planned].map(|side| side.each[kind as usize]);
        let (to, run) = match each {
            _ if kind == FREE => {
                let at = sector.saturating_sub(self.first) / self.size;
                let (group, part) = (at / self.per_group, at % self.per_group);
                let to = share(group) * planned.per_group + part % planned.per_group;
                let offset = rank.saturating_sub(self.free_before(at));
                let run = self.first + (at + 1) * self.size - sector;
                (planned.free_before(to) + offset, run)
            }
            [now, then] if now > 0 && then > 0 => {
                let (group, offset) = (rank / now, rank % now);
                (share(group) * then + offset % then, (now - offset).min(then - offset % then))
            }
            _ => (rank, u64::MAX),
        };
        let run = run.min(span.count - offset);
        let spans = &planned.kinds[kind as usize];
        let Some(to) = to.checked_rem(planned.total(kind)) else { return (None, run) };
        let found = spans[..spans.partition_point(|s| s.rank <= to)].last();
        found.map_or((None, run), |found| {
            let offset = to - found.rank;
            (Some(found.first + offset), run.min(found.count - offset))
        })
    }
}
