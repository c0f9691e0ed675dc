//! Blocks of the inodes created by mke2fs: root, lost+found, resize inode, journal, MMP block and
//! orphan file, in that order (misc/mke2fs.c:main; lib/ext2fs/mkdir.c, expanddir.c, res_gdt.c,
//! mkjournal.c, fallocate.c, mmp.c, orphan.c).

use super::decided::{Decided, JournalAt};
use super::used::Used;
use crate::address::FsBlock;
use crate::fs::ext4::features::{compat, incompat};
use crate::fs::ext4::{Collector, Ext4Superblock, Journal};
use crate::origin::Origin;

/// Maximum number of blocks of an extent: EXT_INIT_MAX_LEN.
const MAX_EXTENT: u64 = 1 << 15;
/// Maximum number of extents in an inode.
const MAX_ROOT_EXTENTS: u64 = 4;

/// Default journal size in blocks for a filesystem of `blocks` blocks; `None` for no journal
/// (lib/ext2fs/mkjournal.c:ext2fs_default_journal_size).
pub fn default_journal_blocks(blocks: u64) -> Option<u64> {
    let log = match blocks {
        ..2048 => return None,
        2048..32_768 => 10,
        32_768..262_144 => 12,
        262_144..524_288 => 13,
        524_288..4_194_304 => 14,
        4_194_304..8_388_608 => 15,
        8_388_608..16_777_216 => 16,
        16_777_216..33_554_432 => 17,
        _ => 18,
    };
    Some(1 << log)
}

/// Allocates the blocks of inodes.
pub struct Inodes<'a> {
    pub sb: &'a Ext4Superblock,
    pub decided: &'a Decided,
    /// Blocks in use, including bitmaps and inode tables.
    pub used: &'a mut Used,
    pub places: &'a mut Collector,
    pub notes: &'a mut Vec<String>,
}

impl Inodes<'_> {
    /// Allocates all inodes; returns the location of the journal.
    ///
    /// # Errors
    /// The filesystem is full.
    pub fn allocate(&mut self) -> Result<Journal, String> {
        let sb = self.sb;
        let middle = self.middle();
        self.used.by_clusters(sb.cluster_ratio.into());
        self.directories()?;
        if sb.has_compat(compat::RESIZE_INODE) {
            let goal = sb.superblock_block().0
                + u64::from(sb.gdt_blocks())
                + u64::from(sb.reserved_gdt_blocks)
                + 2
                + u64::from(sb.inode_table_blocks());
            let block = self.allocate_block(goal)?;
            self.places.push(FsBlock(block), 1, Origin::OtherMetadata);
        }
        let journal = self.journal(middle)?;
        if sb.has_incompat(incompat::MMP) {
            let block = self.allocate_block(0)?;
            self.places.push(FsBlock(block), 1, Origin::OtherMetadata);
        }
        if !self.decided.features.has_ro(crate::fs::ext4::features::ro_compat::QUOTA) {
            if journal != Journal::None && sb.has_compat(compat::ORPHAN_FILE) {
                self.orphan_file()?;
            }
        } else {
            self.notes.push(
                "the few blocks of quota files (and of an orphan file) are not included".to_owned(),
            );
        }
        Ok(journal)
    }

    fn allocate_block(&mut self, goal: u64) -> Result<u64, String> {
        self.used.take_new(goal).ok_or_else(full)
    }

    /// The block after `before` in a file: the next block of the same cluster, or a block of a new
    /// cluster.
    fn next(&mut self, before: u64) -> Result<u64, String> {
        let ratio = u64::from(self.sb.cluster_ratio);
        if (before + 1) / ratio == before / ratio {
            return Ok(before + 1);
        }
        self.allocate_block(before)
    }

    /// Root directory (one block) and lost+found (16 KiB, but at least 2 and at most 12 blocks).
    fn directories(&mut self) -> Result<(), String> {
        let goal = self.sb.group_first_block(0).0;
        self.allocate_block(goal)?;
        let mut block = self.allocate_block(goal)?;
        let size = u64::from(self.sb.block_size);
        for i in 1..12 {
            if i * size >= 16 << 10 && i >= 2 {
                break;
            }
            block = self.next(block)?;
        }
        Ok(())
    }

    /// Free blocks of a group while tables are allocated, before used blocks are rounded to
    /// clusters ([`Used::by_clusters`]).
    fn free(&self, group: u32) -> u64 {
        let sb = self.sb;
        let first = sb.group_first_block(group).0;
        let end = (first + u64::from(sb.blocks_per_group)).min(sb.blocks_count);
        let taken = self.used.count(first, end);
        (end - first).saturating_sub(taken)
    }

    /// Goal block of the journal, in the emptier of the groups near the middle
    /// (get_midpoint_journal_block).
    fn middle(&self) -> u64 {
        let sb = self.sb;
        let (groups, flex) = (sb.groups, sb.groups_per_flex());
        let half = (sb.blocks_count - u64::from(sb.first_data_block)) / 2;
        // ext2fs_group_of_blk2() subtracts the first data block a second time.
        let mut group = (half.saturating_sub(sb.first_data_block.into())
            / u64::from(sb.blocks_per_group)) as u32;
        let start = if sb.log_groups_per_flex > 0 && group > flex {
            group &= !(flex - 1);
            while group < groups && self.free(group) == 0 {
                group += 1;
            }
            if group == groups {
                group = 0;
            }
            group
        } else {
            group.saturating_sub(1)
        };
        let end = if group + 1 < groups { group + 1 } else { group };
        let mut best = start;
        for other in start + 1..=end {
            if self.free(other) > self.free(best) {
                best = other;
            }
        }
        sb.group_first_block(best).0
    }

    /// Blocks of the journal, fast commit area included; 0 if the filesystem is too small.
    fn journal_blocks(&self) -> Result<u64, String> {
        let (blocks, d) = (self.sb.blocks_count, self.decided);
        let Some(mut size) = default_journal_blocks(blocks) else {
            return Ok(0);
        };
        let fast = self.sb.has_compat(compat::FAST_COMMIT);
        let mut commits = if fast { size / 64 } else { 0 };
        let kib = u64::from(d.block_size / 1024);
        if d.journal_mib > 0 {
            size = d.journal_mib.saturating_mul(1024) / kib;
        }
        if fast && d.fast_commit_kib > 0 {
            commits = d.fast_commit_kib / kib;
        }
        let all = size.saturating_add(commits);
        if d.journal_mib > 0 && !(1024..=10_240_000).contains(&all) {
            return Err(format!(
                "-J size={}: {all} blocks, but a journal has 1024 to 10240000",
                d.journal_mib
            ));
        }
        if d.journal_mib > 0 && all > blocks / 2 {
            return Err(format!("-J size={}: more than half of the filesystem", d.journal_mib));
        }
        Ok(all)
    }

    fn journal(&mut self, middle: u64) -> Result<Journal, String> {
        if !self.sb.has_compat(compat::HAS_JOURNAL) {
            return Ok(Journal::None);
        }
        let goal = match self.decided.journal_at {
            JournalAt::Elsewhere => return Ok(Journal::External { uuid: None }),
            JournalAt::Middle => middle,
            JournalAt::Block(block) => block,
        };
        let blocks = self.journal_blocks()?;
        if blocks == 0 {
            return Ok(Journal::None);
        }
        if self.sb.has_incompat(incompat::EXTENTS) {
            self.journal_extents(goal, blocks)?;
        } else {
            self.journal_map(blocks)?;
        }
        Ok(Journal::Internal { blocks })
    }

    /// Allocates extents that are as long as possible, and extent tree nodes. The goal of a new
    /// node is before the first extent of the full node (extent.c:extent_node_split).
    fn journal_extents(&mut self, goal: u64, blocks: u64) -> Result<(), String> {
        let ratio = u64::from(self.sb.cluster_ratio);
        let leaf = (u64::from(self.sb.block_size) - 12) / 12;
        let mut at = goal;
        if let Some((free, _)) = self.used.free_run(goal.max(1)) {
            at = at.max(free);
        }
        let (mut left, mut extents) = (blocks, 0_u64);
        // The node that gets the next extent: the first block of its first extent, its capacity,
        // and its number of extents.
        let (mut head, mut capacity) = (0, MAX_ROOT_EXTENTS);
        let mut in_node = 0;
        while left > 0 {
            let from = if at == 0 || at >= self.sb.blocks_count { 0 } else { at };
            let found = self.used.free_run(from / ratio * ratio).or_else(|| self.used.free_run(0));
            let (first, run) = found.ok_or_else(full)?;
            let n = left.min(MAX_EXTENT).min(run);
            self.used.take(first, n);
            self.places.push(FsBlock(first), n, Origin::Journal);
            if in_node == capacity {
                let before = (head.max(ratio) - ratio) / ratio * ratio;
                let node = self.allocate_block(before)?;
                self.places.push(FsBlock(node), 1, Origin::ExtentTree);
                if capacity == MAX_ROOT_EXTENTS {
                    capacity = leaf; // the new node gets the root's extents
                } else {
                    // At the end of the file, the full node is not split in half: only its last
                    // extent moves to the new node.
                    in_node = 1;
                    head = first;
                }
            }
            if extents == 0 {
                head = first;
            }
            in_node += 1;
            extents += 1;
            left -= n;
            at = first + n;
        }
        if extents > leaf {
            self.notes.push(format!(
                "the journal has {extents} extents: some blocks of its extent tree may differ \
                 from those of mke2fs"
            ));
        }
        Ok(())
    }

    /// Allocates a journal without extents: from the first free block, interleaved with map blocks,
    /// without a goal.
    fn journal_map(&mut self, blocks: u64) -> Result<(), String> {
        let per_map = u64::from(self.sb.block_size / 4);
        let mut at = self.sb.group_first_block(0).0;
        let mut give = |this: &mut Self, mut count: u64, origin| {
            while count > 0 {
                let (first, run) = this.used.free_run(at).ok_or_else(full)?;
                let n = run.min(count);
                this.used.take(first, n);
                this.places.push(FsBlock(first), n, origin);
                at = first + n;
                count -= n;
            }
            Ok::<(), String>(())
        };
        let mut done = blocks.min(12);
        give(self, done, Origin::Journal)?;
        let mut nr = 0; // map block
        while done < blocks {
            let maps = match nr {
                0 => 1,
                1 => 2,
                n if n == 1 + per_map => 3,
                n if n > 1 + per_map && (n - 1) % per_map == 0 => 2,
                _ => 1,
            };
            give(self, maps, Origin::ExtentTree)?;
            let n = (blocks - done).min(per_map);
            give(self, n, Origin::Journal)?;
            done += n;
            nr += 1;
        }
        Ok(())
    }

    fn orphan_file(&mut self) -> Result<(), String> {
        let ratio = u64::from(self.sb.cluster_ratio);
        let blocks = match self.sb.blocks_count {
            n if n < 128 << 10 => 32,
            n if n < 2 << 20 => n / 4096,
            _ => 512,
        };
        let mut last = 0;
        for i in 0..blocks.next_multiple_of(ratio) {
            last = if i == 0 { self.allocate_block(0)? } else { self.next(last)? };
            self.places.push(FsBlock(last), 1, Origin::OtherMetadata);
        }
        Ok(())
    }
}

fn full() -> String {
    "the filesystem is too small for what mke2fs allocates: use -O ^has_journal or -J size="
        .to_owned()
}
