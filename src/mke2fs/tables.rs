//! Allocation of bitmaps and inode tables (lib/ext2fs/alloc_tables.c:ext2fs_allocate_group_table,
//! flexbg_offset; misc/mke2fs.c:packed_allocate_tables).

use super::used::Used;
use crate::address::FsBlock;
use crate::fs::ext4::{Collector, Ext4Superblock};
use crate::origin::Origin;

/// Allocates bitmaps and inode tables of all groups, in order.
pub struct TableAllocator<'a> {
    pub sb: &'a Ext4Superblock,
    /// Blocks in use, including superblocks and descriptors.
    pub used: &'a mut Used,
    pub places: &'a mut Collector,
    /// `-E stride`; used only without flex groups.
    pub stride: u64,
}

/// Allocations of the previous group in the same flex group.
#[derive(Clone, Copy, Default)]
struct GroupTables {
    block_bitmap: u64,
    inode_bitmap: u64,
    table: u64,
}

impl TableAllocator<'_> {
    /// Allocates everything, flex group by flex group.
    ///
    /// # Errors
    /// Fails if the filesystem is full.
    pub fn allocate(&mut self) -> Result<(), String> {
        let per_flex = if self.sb.log_groups_per_flex > 0 { self.sb.groups_per_flex() } else { 1 };
        let mut group = 0;
        while group < self.sb.groups {
            let count = per_flex.min(self.sb.groups - group);
            if per_flex == 1 {
                self.allocate_group(group)?;
            } else if !self.allocate_flex_group(group, count, per_flex) {
                let mut got = GroupTables::default();
                for i in 0..count {
                    got = self.allocate_in_flex_group(group + i, per_flex, got)?;
                }
            }
            group += count;
        }
        Ok(())
    }

    fn table_blocks(&self) -> u64 {
        self.sb.inode_table_blocks().into()
    }

    /// First block after a group.
    fn end(&self, group: u32) -> u64 {
        (self.sb.group_first_block(group).0 + u64::from(self.sb.blocks_per_group))
            .min(self.sb.blocks_count)
    }

    fn take(&mut self, first: u64, count: u64, origin: Origin) {
        self.used.take(first, count);
        self.places.push(FsBlock(first), count, origin);
    }

    /// Distance in blocks between the regions of two kinds of metadata: one slot for each group of
    /// the flex group. The last flex group can have fewer groups, but with only one group it gets
    /// the space of a full flex group.
    fn spacing(&self, first: u32, per_flex: u32) -> u64 {
        let last = self.sb.groups - 1;
        if first.checked_add(per_flex).is_some_and(|next| next <= last) {
            return per_flex.into();
        }
        match (last.min(first | (per_flex - 1))) & (per_flex - 1) {
            0 => per_flex.into(),
            n => u64::from(n) + 1,
        }
    }

    /// Allocates a whole flex group at once. Returns false if its blocks are not free and
    /// contiguous after the start of its first group.
    fn allocate_flex_group(&mut self, group: u32, count: u32, per_flex: u32) -> bool {
        let start = self.sb.group_first_block(group).0;
        let end = self.end(group + count - 1);
        // Search for space for all block bitmaps of the flex group, but at most for a quarter of a
        // group.
        let ask = u64::from(count).min(u64::from(self.sb.blocks_per_group) / 4);
        let Some(base) = self.used.find(start, end - 1, ask) else {
            return false;
        };
        let each = self.table_blocks();
        let (n, apart) = (u64::from(count), self.spacing(group, per_flex));
        let all = 2 * apart + n * each;
        if base + all > end || !self.used.is_free(base, all) {
            return false;
        }
        self.take(base, n, Origin::BlockBitmap);
        self.take(base + apart, n, Origin::InodeBitmap);
        self.take(base + 2 * apart, n * each, Origin::InodeTable);
        true
    }

    /// flexbg_offset: start of the search, from the hint of the previous allocation; 0 for none.
    fn offset(&self, group: u32, hint: u64, remaining: u64, each: u64, per_flex: u32) -> u64 {
        let size = (remaining * each).min(u64::from(self.sb.blocks_per_group) / 4);
        if hint > 0
            && hint < self.sb.blocks_count
            && let Some(found) = self.used.find(hint, hint + size, each)
        {
            return found;
        }
        let start = self.sb.group_first_block(group & !(per_flex - 1)).0;
        let last = self.end(self.last_of_flex(group, per_flex)) - 1;
        let tries = [(start, size), (start, each), (0, each)];
        tries.iter().find_map(|&(from, n)| self.used.find(from, last, n)).unwrap_or(0)
    }

    fn last_of_flex(&self, group: u32, per_flex: u32) -> u32 {
        (group | (per_flex - 1)).min(self.sb.groups - 1)
    }

    /// Allocates one group of a fragmented flex group.
    fn allocate_in_flex_group(
        &mut self,
        group: u32,
        per_flex: u32,
        before: GroupTables,
    ) -> Result<GroupTables, String> {
        let last_group = self.last_of_flex(group, per_flex);
        let remaining = u64::from(last_group - group + 1);
        let last = self.end(last_group) - 1;
        let own = self.sb.group_first_block(group).0;
        let follows = group & (per_flex - 1) != 0;
        let apart = self.spacing(group & !(per_flex - 1), per_flex);
        let single = |this: &mut Self, hint: u64, origin| {
            let start = this.offset(group, hint, remaining, 1, per_flex);
            let found = this.used.find(start, last, 1).or_else(|| this.used.find(own, last, 1));
            let block = found.ok_or_else(|| no_room(group))?;
            this.take(block, 1, origin);
            Ok::<u64, String>(block)
        };
        let hint = if follows { before.block_bitmap + 1 } else { 0 };
        let block_bitmap = single(self, hint, Origin::BlockBitmap)?;
        let hint = if follows { before.inode_bitmap + 1 } else { block_bitmap + apart };
        let inode_bitmap = single(self, hint, Origin::InodeBitmap)?;
        let each = self.table_blocks();
        let hint = if follows { before.table + each } else { inode_bitmap + apart };
        let start = self.offset(group, hint, remaining, each, per_flex);
        let table = self.used.find(start, last, each).ok_or_else(|| no_room(group))?;
        self.take(table, each, Origin::InodeTable);
        Ok(GroupTables { block_bitmap, inode_bitmap, table })
    }

    /// Allocates inside one group: the first free blocks or, with a stride, bitmaps shifted from
    /// group to group.
    fn allocate_group(&mut self, group: u32) -> Result<(), String> {
        let first = self.sb.group_first_block(group).0;
        let last = self.end(group) - 1;
        let each = self.table_blocks();
        let mut start = first;
        if self.stride > 0 {
            start = self.used.find(first, last, 1).ok_or_else(|| no_room(group))? + each;
            if start <= last {
                // 32 bits, as in libext2fs.
                let step = u64::from((self.stride as u32).wrapping_mul(group));
                start += step % (last - start + 1);
            }
            if start >= last {
                start = first;
            }
        }
        for origin in [Origin::BlockBitmap, Origin::InodeBitmap] {
            let found = self.used.find(start, last, 1).or_else(|| self.used.find(first, last, 1));
            let block = found.ok_or_else(|| no_room(group))?;
            self.take(block, 1, origin);
        }
        let table = self.used.find(first, last, each).ok_or_else(|| no_room(group))?;
        self.take(table, each, Origin::InodeTable);
        Ok(())
    }

    /// Allocates for `-E packed_meta_blocks`: all block bitmaps, all inode bitmaps, all tables,
    /// from the start of the filesystem.
    ///
    /// # Errors
    /// Fails if the filesystem is full.
    pub fn pack(&mut self) -> Result<(), String> {
        let mut goal = 0;
        for origin in [Origin::BlockBitmap, Origin::InodeBitmap] {
            let mut left = u64::from(self.sb.groups);
            while left > 0 {
                let (block, run) = self.used.free_run(goal).ok_or_else(|| no_room(0))?;
                let n = run.min(left);
                self.take(block, n, origin);
                goal = block + n - 1;
                left -= n;
            }
        }
        let each = self.table_blocks();
        let last = self.sb.blocks_count - 1;
        let mut left = u64::from(self.sb.groups);
        while left > 0 {
            let block = self.used.find(goal, last, each).ok_or_else(|| no_room(0))?;
            let (_, run) = self.used.free_run(block).ok_or_else(|| no_room(0))?;
            // Allocate all tables that fit into this free run.
            let n = (run / each).min(left).max(1);
            self.take(block, n * each, Origin::InodeTable);
            goal = block + (n - 1) * each;
            left -= n;
        }
        Ok(())
    }
}

fn no_room(group: u32) -> String {
    format!(
        "no space for the bitmaps and the inode table of group {group}: use a larger -i or a \
         smaller -N"
    )
}
