//! Consistency checks of superblock fields, by the rules of the kernel (fs/ext4/super.c,
//! `__ext4_fill_super`) and of e2fsck (e2fsck/super.c, `check_super_block`). Arithmetic on a
//! superblock that passes cannot overflow.

use super::features::{incompat, ro_compat};
use super::superblock::{Ext4Superblock, check};
use crate::fs::Error;

/// Maximum size of all group descriptors in bytes: enough for 2 PiB with 4 KiB blocks.
const MAX_DESCRIPTOR_BYTES: u64 = 1 << 30;

impl Ext4Superblock {
    /// Checks the geometry by the rules of the kernel and of e2fsck.
    pub(crate) fn check_geometry(&self) -> Result<(), Error> {
        let bits = 8 * self.block_size;
        let cpg = self.clusters_per_group;
        check(
            (8..=bits).contains(&cpg),
            if self.cluster_ratio > 1 { "s_clusters_per_group" } else { "s_blocks_per_group" },
            cpg,
            "but must be from 8 to the number of bits in a bitmap block",
        )?;
        check(
            u64::from(self.blocks_per_group) == u64::from(cpg) * u64::from(self.cluster_ratio),
            "s_blocks_per_group",
            self.blocks_per_group,
            "but must be s_clusters_per_group times the blocks per cluster",
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
            "but must be 1 with 1 KiB blocks (0 or 1 with bigalloc) and 0 with larger blocks",
        )?;
        let size = self.inode_size;
        check(
            size >= 128 && size.is_power_of_two() && u32::from(size) <= self.block_size,
            "s_inode_size",
            size,
            "but must be a power of two from 128 to the block size",
        )?;
        let ipg = self.inodes_per_group;
        check(
            (self.block_size / u32::from(size)..=bits).contains(&ipg),
            "s_inodes_per_group",
            ipg,
            "but must fill at least one block of the inode table and at most one bitmap block",
        )?;
        check(
            u64::from(self.inodes_count) == u64::from(ipg) * u64::from(self.groups),
            "s_inodes_count",
            self.inodes_count,
            "but must be s_inodes_per_group times the number of groups",
        )?;
        // EXT4_MIN_DESC_SIZE_64BIT, EXT4_MAX_DESC_SIZE. Without 64bit the size is 32 and is not
        // read from disk.
        let desc = self.desc_size;
        check(
            desc == 32 && !self.has_incompat(incompat::BIT64)
                || (64..=1024).contains(&desc) && desc.is_power_of_two(),
            "s_desc_size",
            desc,
            "but must be a power of two from 64 to 1024 with the feature 64bit",
        )?;
        check(
            u32::from(self.reserved_gdt_blocks) <= self.block_size / 4,
            "s_reserved_gdt_blocks",
            self.reserved_gdt_blocks,
            "but must be at most a quarter of the block size, the capacity of the resize inode",
        )?;
        // Without these, a superblock of a KiB describes more metadata than the disk has blocks:
        // ext2_fill_super() refuses the first, libext2fs the second (EXT2_ET_TOO_MANY_INODES).
        let per_group = u64::from(self.blocks_per_group);
        check(
            per_group >= u64::from(self.inode_table_blocks()) + 3,
            "s_blocks_per_group",
            self.blocks_per_group,
            "but must be at least the blocks of an inode table, two bitmaps and a superblock",
        )?;
        let descriptors = u64::from(self.old_gdt_blocks()) + u64::from(self.reserved_gdt_blocks);
        check(
            descriptors < per_group,
            "s_blocks_per_group",
            self.blocks_per_group,
            &format!("but a copy of the group descriptors takes {descriptors} blocks"),
        )?;
        let bytes = u64::from(self.groups) * u64::from(desc);
        check(
            bytes <= MAX_DESCRIPTOR_BYTES,
            "s_blocks_count",
            self.blocks_count,
            &format!(
                "which makes {} groups, whose descriptors take {} MiB; raidtrace reads at most \
                 {} MiB",
                self.groups,
                bytes >> 20,
                MAX_DESCRIPTOR_BYTES >> 20
            ),
        )?;
        check(
            !self.has_incompat(incompat::META_BG) || self.first_meta_bg <= self.gdt_blocks(),
            "s_first_meta_bg",
            self.first_meta_bg,
            "but must be at most the number of group descriptor blocks",
        )?;
        check(
            self.superblock_block().0 + u64::from(self.primary_gdt_blocks()) < self.blocks_count,
            "s_blocks_count",
            self.blocks_count,
            "which is too small for the group descriptors",
        )
    }
}
