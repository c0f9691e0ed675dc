//! Geometry of block groups (locations of backups and descriptors, from the superblock alone) and
//! the group descriptor table, read in large sequential pieces. `layout` validates the descriptors.

use super::features::{compat, incompat, ro_compat};
use super::superblock::Ext4Superblock;
use crate::address::FsBlock;
use crate::fs::Error;
use crate::fs::read::{Fields, ReadAt};
use crate::origin::Origin;

/// Bytes of the GDT per read, large enough for sequential throughput.
const READ_BYTES: u64 = 1 << 20;

/// Block numbers of a group descriptor, `struct ext4_group_desc` (fs/ext4/ext4.h). They are valid
/// even with `BLOCK_UNINIT`, before the bitmap has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub block_bitmap: FsBlock,
    pub inode_bitmap: FsBlock,
    /// First block of the inode table.
    pub inode_table: FsBlock,
}

impl Descriptor {
    fn parse(raw: &[u8]) -> Self {
        let f = Fields(raw);
        // The upper halves exist from 64 bytes on (ext4_block_bitmap).
        let high = |at| (raw.len() >= 64).then_some(at);
        Self {
            block_bitmap: FsBlock(f.split(0x0, high(0x20))),
            inode_bitmap: FsBlock(f.split(0x4, high(0x24))),
            inode_table: FsBlock(f.split(0x8, high(0x28))),
        }
    }
}

/// True if `n` is 1, `base`, `base`², ... (balloc.c:test_root, which returns false for 1).
fn is_power(n: u32, base: u32) -> bool {
    let mut power = 1;
    while power < n {
        let Some(next) = u32::checked_mul(power, base) else {
            return false;
        };
        power = next;
    }
    power == n
}

impl Ext4Superblock {
    /// Block of the primary superblock, which contains byte 1024.
    pub fn superblock_block(&self) -> FsBlock {
        FsBlock((self.block_size == 1024).into())
    }

    /// Group descriptors per block.
    pub fn descs_per_block(&self) -> u32 {
        self.block_size / u32::from(self.desc_size)
    }

    /// Blocks of one copy of all group descriptors.
    pub fn gdt_blocks(&self) -> u32 {
        self.groups.div_ceil(self.descs_per_block())
    }

    /// Blocks of a group's inode table.
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size);
        bytes.div_ceil(self.block_size.into()) as u32
    }

    /// Groups whose bitmaps are adjacent; 1 without flex_bg (super.c:ext4_fill_flex_info).
    pub fn groups_per_flex(&self) -> u32 {
        if self.has_incompat(incompat::FLEX_BG) && self.log_groups_per_flex < 32 {
            1 << self.log_groups_per_flex
        } else {
            1
        }
    }

    pub fn group_first_block(&self, group: u32) -> FsBlock {
        FsBlock(self.first_data_block.into()) + u64::from(group) * u64::from(self.blocks_per_group)
    }

    /// Block of a group's superblock: the first block of the group, except for group 0 with 1 KiB
    /// blocks and bigalloc (libext2fs, ext2fs_super_and_bgd_loc2).
    pub(super) fn group_super_block(&self, group: u32) -> FsBlock {
        if group == 0 { self.superblock_block() } else { self.group_first_block(group) }
    }

    /// True if `group` begins with a superblock (balloc.c:ext4_bg_has_super).
    pub fn has_super(&self, group: u32) -> bool {
        if group == 0 {
            true
        } else if self.has_compat(compat::SPARSE_SUPER2) {
            self.backup_bgs.contains(&group)
        } else if group == 1 || !self.has_ro_compat(ro_compat::SPARSE_SUPER) {
            true
        } else {
            group % 2 == 1 && [3, 5, 7].iter().any(|&base| is_power(group, base))
        }
    }

    /// Number of group descriptor blocks directly after a superblock, without reserved blocks: all
    /// descriptor blocks, or with meta_bg those before the first meta group
    /// (balloc.c:ext4_bg_num_gdb_nometa).
    pub(super) fn old_gdt_blocks(&self) -> u32 {
        if self.has_incompat(incompat::META_BG) { self.first_meta_bg } else { self.gdt_blocks() }
    }

    /// Blocks of descriptors after the primary superblock, with or without meta_bg.
    pub(super) fn primary_gdt_blocks(&self) -> u32 {
        self.old_gdt_blocks().max(1)
    }

    /// True if the descriptors of `group` are in its meta group.
    pub(super) fn in_meta_bg(&self, group: u32) -> bool {
        self.has_incompat(incompat::META_BG) && group / self.descs_per_block() >= self.first_meta_bg
    }

    /// Calls `put` with the first block, count and origin of each range that the superblock alone
    /// determines: the boot block, superblocks and group descriptors with their backups, clipped to
    /// the end of the filesystem.
    pub(crate) fn fixed_blocks(&self, put: &mut dyn FnMut(FsBlock, u64, Origin)) {
        let boot = self.superblock_block() - FsBlock(0);
        put(FsBlock(0), boot, Origin::OtherMetadata);
        let mut clipped = |first: FsBlock, count: u64, origin| {
            let room = self.blocks_count.saturating_sub(first.0);
            put(first, count.min(room), origin);
        };
        let old_gdt = u64::from(self.old_gdt_blocks()) + u64::from(self.reserved_gdt_blocks);
        for group in (0..self.groups).filter(|&group| self.has_super(group)) {
            let at = self.group_super_block(group);
            clipped(at, 1, Origin::Superblock);
            if !self.in_meta_bg(group) {
                clipped(at + 1, old_gdt, Origin::GroupDescriptors);
            }
        }
        if self.has_incompat(incompat::META_BG) {
            for nr in self.first_meta_bg..self.gdt_blocks() {
                for block in self.meta_bg_blocks(nr) {
                    clipped(block, 1, Origin::GroupDescriptors);
                }
            }
        }
    }

    /// Up to three copies of the descriptor block of meta group `nr`: in its first, second and last
    /// group (balloc.c:ext4_bg_num_gdb_meta). The kernel reads the first one.
    pub(super) fn meta_bg_blocks(&self, nr: u32) -> impl Iterator<Item = FsBlock> + '_ {
        let per_block = u64::from(self.descs_per_block());
        let first = u64::from(nr) * per_block;
        let last = first + per_block - 1;
        // With one descriptor per block, all three copies are in the same group.
        let mut groups = vec![first, first + 1, last];
        groups.sort_unstable();
        groups.dedup();
        groups
            .into_iter()
            .filter(move |&group| group <= last)
            .filter_map(|group| u32::try_from(group).ok())
            .filter(|&group| group < self.groups)
            .map(|group| self.group_super_block(group) + u64::from(self.has_super(group)))
    }

    /// Block from which the kernel reads descriptor block `nr` (super.c:descriptor_loc).
    pub(super) fn descriptor_block(&self, nr: u32) -> FsBlock {
        if nr < self.old_gdt_blocks() {
            self.superblock_block() + 1 + u64::from(nr)
        } else {
            self.meta_bg_blocks(nr).next().unwrap_or(FsBlock(u64::MAX))
        }
    }

    fn read_descriptor_blocks(
        &self,
        dev: &dyn ReadAt,
        block: FsBlock,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        let offset = block.byte(self.block_size);
        dev.read_at(offset, buf).map_err(|source| Error::Read {
            what: "group descriptors",
            offset,
            source,
        })
    }

    /// Calls `each` with the descriptors of all groups in order.
    pub fn for_each_descriptor(
        &self,
        dev: &dyn ReadAt,
        each: &mut dyn FnMut(u32, Descriptor),
    ) -> Result<(), Error> {
        let block_size = self.block_size as usize;
        let most = (READ_BYTES / u64::from(self.block_size)) as u32;
        let total = self.gdt_blocks();
        let mut buf = Vec::new();
        let mut nr = 0;
        while nr < total {
            let at = self.descriptor_block(nr);
            let mut run = 1;
            while run < most.min(total - nr)
                && self.descriptor_block(nr + run) == at + u64::from(run)
            {
                run += 1;
            }
            buf.resize(run as usize * block_size, 0);
            self.read_descriptor_blocks(dev, at, &mut buf)?;
            let first = nr * self.descs_per_block();
            // No descriptor crosses a block: the superblock checks require sizes that are powers of
            // two.
            for (group, raw) in (first..self.groups).zip(buf.chunks_exact(self.desc_size.into())) {
                each(group, Descriptor::parse(raw));
            }
            nr += run;
        }
        Ok(())
    }

    pub fn descriptor(&self, dev: &dyn ReadAt, group: u32) -> Result<Descriptor, Error> {
        let mut buf = vec![0; self.block_size as usize];
        let per_block = self.descs_per_block();
        self.read_descriptor_blocks(dev, self.descriptor_block(group / per_block), &mut buf)?;
        let at = (group % per_block) as usize * usize::from(self.desc_size);
        Ok(Descriptor::parse(&buf[at..at + usize::from(self.desc_size)]))
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptor, FsBlock, is_power};

    #[test]
    fn powers() {
        let of = |base| (1..3000).filter(|&n| is_power(n, base)).collect::<Vec<_>>();
        assert_eq!(of(3), [1, 3, 9, 27, 81, 243, 729, 2187]);
        assert_eq!(of(7), [1, 7, 49, 343, 2401]);
        assert!(!is_power(u32::MAX, 3));
        assert!(!is_power(0, 3));
    }

    #[test]
    fn upper_halves_need_64_byte_descriptors() {
        let mut raw = [0; 64];
        raw[..12].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        raw[0x20] = 1;
        raw[0x24] = 2;
        raw[0x28] = 3;
        let wide = Descriptor::parse(&raw);
        assert_eq!(wide.block_bitmap, FsBlock(0x1_0000_0001));
        assert_eq!(wide.inode_bitmap, FsBlock(0x2_0000_0002));
        assert_eq!(wide.inode_table, FsBlock(0x3_0000_0003));
        let narrow = Descriptor::parse(&raw[..32]);
        assert_eq!(
            (narrow.block_bitmap, narrow.inode_bitmap, narrow.inode_table),
            (FsBlock(1), FsBlock(2), FsBlock(3))
        );
    }
}
