//! Consistency checks of superblock fields, after the kernel (fs/ext4/super.c, `__ext4_fill_super`) and
//! e2fsck (e2fsck/super.c, `check_super_block`). Arithmetic on a superblock that passes cannot overflow.

use super::error::{Error, check};
use super::features::{incompat, ro_compat};
use super::superblock::Superblock;

impl Superblock {
    /// Checks that the kernel makes before mounting.
    pub(crate) fn check_geometry(&self) -> Result<(), Error> {
        let bits = 8 * self.block_size;
        let cpg = self.clusters_per_group;
        check(
            (8..=bits).contains(&cpg),
            if self.cluster_ratio > 1 {
                "s_clusters_per_group"
            } else {
                "s_blocks_per_group"
            },
            cpg,
            "but it is at least 8 and one block of bitmap must hold that many bits",
        )?;
        check(
            u64::from(self.blocks_per_group) == u64::from(cpg) * u64::from(self.cluster_ratio),
            "s_blocks_per_group",
            self.blocks_per_group,
            "which is not s_clusters_per_group times the blocks of a cluster",
        )?;
        // The rule of e2fsck. Both values exist with 1 KiB blocks and bigalloc.
        let one_kib = self.block_size == 1024;
        let bigalloc = self.has_ro_compat(ro_compat::BIGALLOC);
        check(
            match self.first_data_block {
                0 => !one_kib || bigalloc,
                1 => one_kib,
                _ => false,
            },
            "s_first_data_block",
            self.first_data_block,
            "but it is 1 with 1 KiB blocks and 0 with larger ones",
        )?;
        let size = self.inode_size;
        check(
            size >= 128 && size.is_power_of_two() && u32::from(size) <= self.block_size,
            "s_inode_size",
            size,
            "but it is a power of two from 128 to the block size",
        )?;
        let ipg = self.inodes_per_group;
        check(
            (self.block_size / u32::from(size)..=bits).contains(&ipg),
            "s_inodes_per_group",
            ipg,
            "but it fills at least a block of the inode table and at most one of the bitmap",
        )?;
        check(
            u64::from(self.inodes_count) == u64::from(ipg) * u64::from(self.groups),
            "s_inodes_count",
            self.inodes_count,
            "which is not s_inodes_per_group times the number of groups",
        )?;
        // EXT4_MIN_DESC_SIZE_64BIT, EXT4_MAX_DESC_SIZE; 32 is not read from disk.
        let desc = self.desc_size;
        check(
            desc == 32 && !self.has_incompat(incompat::BIT64)
                || (64..=1024).contains(&desc) && desc.is_power_of_two(),
            "s_desc_size",
            desc,
            "but with the feature 64bit it is a power of two from 64 to 1024",
        )?;
        check(
            u32::from(self.reserved_gdt_blocks) <= self.block_size / 4,
            "s_reserved_gdt_blocks",
            self.reserved_gdt_blocks,
            "but the resize inode can hold at most a quarter of the block size",
        )?;
        check(
            !self.has_incompat(incompat::META_BG) || self.first_meta_bg <= self.gdt_blocks(),
            "s_first_meta_bg",
            self.first_meta_bg,
            "which is more than the blocks of group descriptors",
        )?;
        check(
            self.superblock_block().0 + u64::from(self.primary_gdt_blocks()) < self.blocks_count,
            "s_blocks_count",
            self.blocks_count,
            "which has no room for its own group descriptors",
        )
    }
}
