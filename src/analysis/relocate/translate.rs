//! Block of today's filesystem to block of the planned one. No allocation, and arithmetic or a
//! binary search per block run.
//!
//! ext4 spreads the directories of the root by a hash modulo the number of flex groups
//! (`find_group_orlov`), keeps everything below them in the same flex group, and fills inode tables
//! and data areas of a flex group from their starts. So a block keeps its flex group, and its
//! distance from the start of its kind of area there. If there are fewer flex groups, several of
//! today's share one (their hash modulo the new number), and their areas interleave; if there are
//! twice as many or more, one is divided.

use super::side::{Fixed, Side};
use crate::analysis::placement::FIXED;
use crate::origin::Origin;

/// Largest file, in blocks, whose data come from a group preallocation (`s_mb_stream_request`).
const STREAM: u64 = 16;

/// Blocks in the planned filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First block; `None` if the planned filesystem has no such structure.
    pub block: Option<u64>,
    /// Number of blocks that follow each other in both filesystems, at least 1.
    pub run: u64,
}

impl Place {
    /// No place: the block is beyond the end of today's filesystem.
    pub(super) const NONE: Self = Self { block: None, run: u64::MAX };
}

/// Translation from today's filesystem to a planned one.
#[derive(Clone, Copy, Debug)]
pub struct Translation<'a> {
    today: &'a Side,
    planned: &'a Side,
    /// Largest number of today's flex groups that share a planned one.
    merged: u64,
    /// Planned flex groups that share one of today.
    divided: u64,
}

impl<'a> Translation<'a> {
    /// Translates between two filesystems with blocks of the same size.
    pub fn new(today: &'a Side, planned: &'a Side) -> Self {
        let (now, then) = (today.flexes().max(1), planned.flexes().max(1));
        Self { today, planned, merged: now.div_ceil(then), divided: (then / now).max(1) }
    }

    /// Planned flex groups that share one of today.
    pub fn divided(&self) -> u64 {
        self.divided
    }

    /// True if several flex groups of today share a planned one.
    pub fn is_merged(&self) -> bool {
        self.merged > 1
    }

    /// Today's flex group whose bitmap `block` is; `None` if it is no bitmap.
    pub fn bitmap_of(&self, block: u64) -> Option<u64> {
        let fixed = self.today.fixed(block).ok()?;
        let is_bitmap = matches!(FIXED[fixed.kind], Origin::BlockBitmap | Origin::InodeBitmap);
        let rank = fixed.rank + (block - fixed.first);
        is_bitmap.then_some(rank / self.today.per_flex)
    }

    /// Flex group of a directory's block, and the number of blocks before it in the area of
    /// directories.
    pub fn directory(&self, block: u64) -> (u64, u64) {
        let today = self.today;
        let flex = block.saturating_sub(today.first_block) / today.per_group / today.per_flex;
        (flex, block.saturating_sub(today.directories(flex)))
    }

    /// Place of `block`, which holds data of `origin`, in a bio of `length` blocks. `turn` selects
    /// among equally likely places.
    #[inline]
    pub fn place(&self, block: u64, origin: Origin, length: u64, turn: u64) -> Place {
        if block >= self.today.blocks {
            return Place::NONE;
        }
        let ((block_then, run), end) = match self.today.fixed(block) {
            Ok(fixed) => (self.structure(fixed, block - fixed.first, turn), fixed.end()),
            Err(end) => {
                let (at, run) = self.data(block, origin, length);
                ((Some(at), run), end)
            }
        };
        Place { block: block_then, run: run.clamp(1, end - block) }
    }

    /// A block `offset` blocks into a fixed range.
    fn structure(&self, fixed: &Fixed, offset: u64, turn: u64) -> (Option<u64>, u64) {
        let (today, planned) = (self.today, self.planned);
        let rank = fixed.rank + offset;
        let wanted = match FIXED[fixed.kind] {
            Origin::Journal => {
                let total = planned.total(fixed.kind).max(1);
                let rank = rank % total;
                return run(planned.at(fixed.kind, rank), total - rank);
            }
            Origin::BlockBitmap => {
                let (flex, group) = (rank / today.per_flex, rank % today.per_flex);
                self.bitmap(flex, group, turn)
            }
            Origin::InodeBitmap => {
                let (flex, group) = (rank / today.per_flex, rank % today.per_flex);
                let index = group * today.table_blocks;
                let (flex, index) = self.inodes(flex, index, turn);
                let group = index / planned.table_blocks;
                flex * planned.per_flex + group.min(planned.per_flex - 1)
            }
            Origin::InodeTable => {
                let per_flex = today.per_flex * today.table_blocks;
                let index = rank % per_flex;
                let (flex, index) = self.inodes(rank / per_flex, index, index);
                let per_flex = planned.per_flex * planned.table_blocks;
                flex * per_flex + index % per_flex
            }
            _ => return self.copy(fixed, offset),
        };
        run(planned.at(fixed.kind, wanted), 1)
    }

    /// Superblocks, descriptors and other structures: the copy with the same number.
    fn copy(&self, fixed: &Fixed, offset: u64) -> (Option<u64>, u64) {
        let copies = self.planned.of(fixed.kind);
        let Some(copy) = copies.get(fixed.index).or_else(|| copies.last()) else {
            return (None, 1);
        };
        let offset = offset.min(copy.count - 1);
        (Some(copy.first + offset), copy.count - offset)
    }

    /// Group whose block bitmap changes when that of `group` of flex group `flex` does today.
    fn bitmap(&self, flex: u64, group: u64, turn: u64) -> u64 {
        let (today, planned) = (self.today, self.planned);
        let is_first = group == 0 && today.has_directory_groups();
        let from = u64::from(today.has_directory_groups());
        let position = group.saturating_sub(from) * today.per_group;
        let to = u64::from(planned.has_directory_groups() && !is_first);
        let (flex, position) = self.flex(flex, position, today.unit(), turn);
        let group = to + position / planned.per_group;
        (flex * planned.per_flex + group.min(planned.per_flex - 1)).min(planned.groups - 1)
    }

    /// Flex group, and block in its inode tables.
    fn inodes(&self, flex: u64, index: u64, turn: u64) -> (u64, u64) {
        let (from, to) = (self.today.inodes_per_block, self.planned.inodes_per_block);
        let index = if from == to { index } else { index * from / to };
        self.flex(flex, index, 1, turn)
    }

    /// Planned flex group of a flex group, and position in one of its areas, in which today's flex
    /// groups take turns of `unit`. `turn` selects one of several.
    #[inline]
    fn flex(&self, flex: u64, position: u64, unit: u64, turn: u64) -> (u64, u64) {
        let (whole, rest) = (position / unit, position % unit);
        if self.merged > 1 {
            let then = self.planned.flexes();
            let to = flex % then;
            // Some planned flex groups may have one more than others.
            let sharing = (self.today.flexes() - to).div_ceil(then);
            return (to, (whole * sharing + flex / then) * unit + rest);
        }
        if self.divided > 1 {
            let now = self.today.flexes();
            let flex = flex + now * (turn % self.divided);
            return (flex, whole / self.divided * unit + rest);
        }
        (flex, position)
    }

    /// A block without a fixed purpose.
    fn data(&self, block: u64, origin: Origin, length: u64) -> (u64, u64) {
        let (today, planned) = (self.today, self.planned);
        let group = block.saturating_sub(today.first_block) / today.per_group;
        let flex = group / today.per_flex;
        let is_directory = origin == Origin::Directory;
        let among_directories = if today.has_directory_groups() {
            group.is_multiple_of(today.per_flex)
        } else {
            is_directory
        };
        let free = |side: &Side, flex| {
            if among_directories { side.directories(flex) } else { side.files(flex) }
        };
        let unit = if is_directory { 1 } else { today.unit() };
        let start = free(today, flex);
        let aligned = if is_directory { start } else { today.aligned(start) };
        let early = block < aligned;
        let mut position = block.saturating_sub(if early { start } else { aligned });
        // Allocations fill an empty group from one end or the other.
        let size = if length <= STREAM { unit } else { length.next_power_of_two().min(unit) };
        let fills = !is_directory && today.per_group != planned.per_group;
        let mut most = u64::MAX;
        if fills && today.is_empty_group(start) && position < today.per_group {
            position = today.position(position, size);
            if length > STREAM && today.fills_upward() && position >= unit {
                // Larger files follow a preallocation for small ones, which has its own buddy.
                position -= unit;
            }
        }
        let (then, position) = self.flex(flex, position, unit, position / unit);
        if self.merged > 1 || self.divided > 1 {
            most = unit - position % unit;
        }
        let free = free(planned, then);
        let base = if early || is_directory { free } else { planned.aligned(free) };
        // If metadata fill the flex group, data go to the next free space.
        let end = Some(planned.flex_end(then)).filter(|end| base < *end);
        let room = end.unwrap_or(planned.blocks).saturating_sub(base).max(1);
        let mut position = position % room;
        if fills && planned.is_empty_group(free) && position < planned.per_group {
            let (at, run) = planned.filled(position, size);
            (position, most) = (at, most.min(run));
        } else {
            most = most.min(room - position);
        }
        let mut at = planned.free_from(base + position);
        if at >= planned.blocks {
            at = planned.free_from(planned.first_block).min(planned.blocks - 1);
        }
        let end = planned.fixed(at).err().unwrap_or(at + 1);
        (at, most.min(end - at))
    }
}

/// A place and its run, limited to `most`.
fn run(found: Option<(u64, u64)>, most: u64) -> (Option<u64>, u64) {
    found.map_or((None, 1), |(block, run)| (Some(block), run.min(most)))
}
