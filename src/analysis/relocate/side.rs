//! A filesystem, prepared for translation: its fixed ranges by block and by rank, and where files
//! and directories begin.

use crate::analysis::placement::{FIXED, Filesystem};
use crate::fs::SectorRange;
use crate::mke2fs::MAX_GROUPS;
use crate::origin::Origin;

/// Minimum groups per flex group for ext4 to keep the first group for directories
/// (EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME).
const DIRECTORY_SCHEME: u64 = 4;
/// Blocks of a group preallocation for small files (`s_mb_group_prealloc`,
/// MB_DEFAULT_GROUP_PREALLOC).
const PREALLOCATION: u64 = 512;

/// A fixed range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub first: u64,
    pub count: u64,
    /// Index in [`FIXED`].
    pub kind: usize,
    /// Blocks of the same kind in earlier ranges.
    pub rank: u64,
    /// Number of earlier ranges of the same kind.
    pub index: usize,
}

impl Fixed {
    pub(super) fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// A filesystem with block groups. All addresses and lengths are in its blocks.
#[derive(Clone, Debug)]
pub struct Side {
    pub(super) blocks: u64,
    pub(super) first_block: u64,
    pub(super) per_group: u64,
    pub(super) groups: u64,
    pub(super) per_flex: u64,
    pub(super) table_blocks: u64,
    pub(super) inodes_per_block: u64,
    /// Sorted by `first`, disjoint.
    ranges: Vec<Fixed>,
    /// The same ranges by kind.
    kinds: Vec<Vec<Fixed>>,
    /// First block without a fixed purpose, by flex group: in its first group.
    directories: Vec<u64>,
    /// The same in its second group, where regular files begin; equal to `directories` for small
    /// flex groups.
    files: Vec<u64>,
    /// Alignment of large allocations: the stripe that the kernel uses, or 1.
    stripe: u64,
    /// Buddies of an empty group, the smallest first: first block and size.
    buddies: Vec<(u64, u64)>,
}

impl Side {
    /// Prepares a filesystem. `stripe` is the number of blocks that the kernel aligns allocations
    /// to, 0 for none.
    ///
    /// # Errors
    /// If the filesystem has no block groups, or impossible ones.
    pub fn new(fs: &Filesystem, stripe: u64) -> Result<Self, String> {
        let groups = fs
            .block_groups()
            .ok_or_else(|| "the filesystem has no known block groups".to_owned())?;
        let (per_group, first_block) = (u64::from(groups.blocks), u64::from(groups.first_block));
        let most = fs.blocks.saturating_sub(first_block).div_ceil(per_group.max(1));
        if per_group == 0 || groups.count == 0 || u64::from(groups.count) != most {
            return Err(format!(
                "{} groups of {per_group} blocks do not make {} blocks",
                groups.count, fs.blocks
            ));
        }
        if u64::from(groups.count) > MAX_GROUPS {
            return Err(format!("{} groups are too many", groups.count));
        }
        let table_blocks = u64::from(groups.table_blocks).max(1);
        let inodes = fs.inodes / u64::from(groups.count);
        let mut side = Self {
            blocks: fs.blocks,
            first_block,
            per_group,
            groups: u64::from(groups.count),
            per_flex: u64::from(groups.per_flex).max(1),
            table_blocks,
            inodes_per_block: (inodes / table_blocks).max(1),
            ranges: Vec::with_capacity(fs.ranges.len()),
            kinds: vec![Vec::new(); FIXED.len()],
            directories: Vec::new(),
            files: Vec::new(),
            stripe: if stripe <= per_group { stripe.max(1) } else { 1 },
            buddies: buddies(per_group),
        };
        side.index(&fs.ranges, fs.block_sectors().max(1));
        side.areas();
        Ok(side)
    }

    fn index(&mut self, ranges: &[SectorRange], block_sectors: u64) {
        let mut ranks = [0_u64; FIXED.len()];
        let mut end = 0;
        for range in ranges {
            let Some(kind) = FIXED.iter().position(|o| *o == range.origin) else {
                continue;
            };
            let first = range.first.0 / block_sectors;
            // The ranges of a recording are untrusted.
            let last = first.saturating_add(range.count / block_sectors).min(self.blocks);
            if first < end || first >= last {
                continue;
            }
            end = last;
            let fixed = Fixed {
                first,
                count: last - first,
                kind,
                rank: ranks[kind],
                index: self.kinds[kind].len(),
            };
            ranks[kind] += fixed.count;
            self.ranges.push(fixed);
            self.kinds[kind].push(fixed);
        }
    }

    fn areas(&mut self) {
        let flexes = self.groups.div_ceil(self.per_flex);
        for flex in 0..flexes {
            let first = flex * self.per_flex;
            let second = if self.has_directory_groups() && first + 1 < self.groups {
                first + 1
            } else {
                first
            };
            self.directories.push(self.free_from(self.group(first)));
            self.files.push(self.free_from(self.group(second)));
        }
    }

    /// True if ext4 keeps the first group of a flex group for directories and starts regular files
    /// in the second.
    pub(super) fn has_directory_groups(&self) -> bool {
        self.per_flex >= DIRECTORY_SCHEME
    }

    pub(super) fn group(&self, group: u64) -> u64 {
        self.first_block + group * self.per_group
    }

    /// Number of flex groups.
    pub fn flexes(&self) -> u64 {
        self.directories.len() as u64
    }

    /// First block after a flex group.
    pub(super) fn flex_end(&self, flex: u64) -> u64 {
        self.group((flex + 1) * self.per_flex).min(self.blocks)
    }

    /// First free block of the first group of a flex group.
    pub(super) fn directories(&self, flex: u64) -> u64 {
        self.directories.get(flex as usize).copied().unwrap_or(0)
    }

    /// First free block of the group in which regular files of a flex group begin.
    pub(super) fn files(&self, flex: u64) -> u64 {
        self.files.get(flex as usize).copied().unwrap_or(0)
    }

    /// First aligned block from `block`; the first block of a group as it is. mballoc aligns to
    /// absolute blocks if there is a stripe (`ext4_mb_scan_aligned`), else to the buddy, which
    /// begins with the group.
    pub(super) fn aligned(&self, block: u64) -> u64 {
        if self.is_empty_group(block) {
            return block;
        }
        if self.stripe > 1 {
            return block.next_multiple_of(self.stripe);
        }
        let within = block.saturating_sub(self.first_block) % self.per_group;
        block + (within.next_multiple_of(PREALLOCATION) - within)
    }

    /// Block of a group at which an allocation of `size` blocks ends up when `position` blocks of
    /// the group, empty at first, are in use by allocations of that size, and the length of the
    /// run. mballoc takes the smallest buddy that is large enough (`ext4_mb_simple_scan_group`). So
    /// a group of 32768 blocks fills from its start: ext4 has four buddies of 8192 blocks there,
    /// which are one here. A group of another size has smaller buddies at its end, which are taken
    /// first.
    pub(super) fn filled(&self, position: u64, size: u64) -> (u64, u64) {
        let mut rest = position;
        for &(first, count) in self.buddies.iter().filter(|b| b.1 >= size) {
            if rest < count {
                return (first + rest, count - rest);
            }
            rest -= count;
        }
        (position, 1)
    }

    /// Inverse of [`Side::filled`].
    pub(super) fn position(&self, block: u64, size: u64) -> u64 {
        let mut before = 0;
        for &(first, count) in self.buddies.iter().filter(|b| b.1 >= size) {
            if (first..first + count).contains(&block) {
                return before + block - first;
            }
            before += count;
        }
        block
    }

    /// True if `block` is the first one of a group. Callers pass a free block, so the group has no
    /// metadata at its start.
    pub(super) fn is_empty_group(&self, block: u64) -> bool {
        block.checked_sub(self.first_block).is_some_and(|at| at.is_multiple_of(self.per_group))
    }

    /// True if empty groups fill from their start.
    pub(super) fn fills_upward(&self) -> bool {
        self.buddies.len() == 1
    }

    /// Blocks that the allocator takes at once for small files.
    pub(super) fn unit(&self) -> u64 {
        PREALLOCATION.next_multiple_of(self.stripe)
    }

    /// The fixed range with `block`, or the end of the free run that begins there.
    pub(super) fn fixed(&self, block: u64) -> Result<&Fixed, u64> {
        let after = self.ranges.partition_point(|r| r.first <= block);
        if let Some(range) = after.checked_sub(1).and_then(|i| self.ranges.get(i))
            && block < range.end()
        {
            return Ok(range);
        }
        Err(self.ranges.get(after).map_or(self.blocks, |r| r.first))
    }

    /// First free block from `block`.
    pub(super) fn free_from(&self, block: u64) -> u64 {
        let mut block = block;
        let mut at = self.ranges.partition_point(|r| r.first <= block);
        at = at.saturating_sub(1);
        while let Some(range) = self.ranges.get(at).filter(|r| r.first <= block) {
            block = block.max(range.end());
            at += 1;
        }
        block
    }

    pub(super) fn of(&self, kind: usize) -> &[Fixed] {
        self.kinds.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Blocks of a kind.
    pub(super) fn total(&self, kind: usize) -> u64 {
        self.of(kind).last().map_or(0, |r| r.rank + r.count)
    }

    /// Block with this rank in its kind, and the length of the run in which ranks and blocks
    /// advance together. The last block if there are fewer.
    pub(super) fn at(&self, kind: usize, rank: u64) -> Option<(u64, u64)> {
        let ranges = self.of(kind);
        let rank = rank.min(self.total(kind).checked_sub(1)?);
        let after = ranges.partition_point(|r| r.rank <= rank);
        let range = ranges.get(after.checked_sub(1)?)?;
        let offset = rank - range.rank;
        Some((range.first + offset, range.count - offset))
    }

    /// Checks that bitmaps and inode tables are complete, so that their ranks name their groups.
    ///
    /// # Errors
    /// Names what is missing.
    pub fn check(&self) -> Result<(), String> {
        let expected = [
            (Origin::BlockBitmap, self.groups),
            (Origin::InodeBitmap, self.groups),
            (Origin::InodeTable, self.groups.saturating_mul(self.table_blocks)),
        ];
        for (origin, blocks) in expected {
            let kind = FIXED.iter().position(|o| *o == origin).unwrap_or(0);
            let found = self.total(kind);
            if found != blocks {
                return Err(format!("{found} of {blocks} blocks of {origin}"));
            }
        }
        Ok(())
    }
}

/// Powers of two that make `blocks`, the smallest first, each with its first block: the largest is
/// at the start.
fn buddies(blocks: u64) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let mut rest = blocks;
    while rest > 0 {
        let size = 1 << rest.trailing_zeros();
        rest -= size;
        all.push((rest, size));
    }
    all
}
