//! Computes numbers of groups, inodes and descriptors: the initial superblock of mke2fs
//! (lib/ext2fs/initialize.c: ext2fs_initialize, calc_reserved_gdt_blocks).

use super::decided::Decided;
use crate::fs::ext4::Ext4Superblock;
use crate::fs::ext4::features::{compat, incompat, ro_compat};

/// Maximum clusters per group, for 16-bit counters in old descriptors
/// (EXT2_MAX_CLUSTERS_PER_GROUP).
const MAX_CLUSTERS: u64 = (1 << 16) - 8;
/// Maximum number of groups, to bound memory and time: 4 PiB with groups of 128 MiB.
pub const MAX_GROUPS: u64 = 1 << 25;
/// Minimum number of inodes of a filesystem: EXT2_GOOD_OLD_FIRST_INO + 1.
const MIN_INODES: u64 = 12;
/// Minimum number of blocks of the last group besides its metadata. A smaller last group is
/// dropped.
const MIN_REST: u64 = 50;

/// The superblock before bitmaps and tables are allocated.
///
/// # Errors
/// mke2fs would reject the parameters.
pub fn superblock(d: &Decided) -> Result<Ext4Superblock, String> {
    let bigalloc = d.features.has_ro(ro_compat::BIGALLOC);
    let block = u64::from(d.block_size);
    let ratio = d.cluster / block;
    let mut features = d.features;
    let mut bpg = blocks_per_group(d, bigalloc, ratio)?;
    // Block 0 is outside the groups only with clusters of 1 KiB.
    let first: u64 = (d.cluster == 1024).into();
    let mut blocks = d.blocks / ratio * ratio;
    let desc_per_block = block / u64::from(d.desc_size);
    loop {
        let groups = blocks.saturating_sub(first).div_ceil(bpg);
        if groups == 0 || groups > MAX_GROUPS {
            return Err(format!(
                "{blocks} blocks make {groups} groups; raidtrace supports 1 to {MAX_GROUPS}"
            ));
        }
        let gdt = groups.div_ceil(desc_per_block);
        let wanted = u64::from(d.inodes).div_ceil(groups);
        if wanted > block * 8 {
            if bigalloc || bpg < 256 {
                return Err(format!(
                    "{} inodes are too many for {groups} groups: use a larger -i or a smaller -N",
                    d.inodes
                ));
            }
            bpg -= 8;
            blocks = d.blocks;
            continue;
        }
        let (ipg, tables) = inodes(d, wanted, groups);
        let mut reserved: u64 = if d.reserved_gdt > 0 {
            d.reserved_gdt.into()
        } else if features.has_compat(compat::RESIZE_INODE) {
            reserved_gdt(blocks, first, bpg, desc_per_block, gdt, block / 4)
        } else {
            0
        };
        if reserved + gdt > bpg * 3 / 4 {
            features.incompat |= incompat::META_BG;
            features.compat &= !compat::RESIZE_INODE;
            reserved = d.reserved_gdt.into();
        }
        let meta_bg = features.has_incompat(incompat::META_BG);
        let gdt_here = if meta_bg { 1 } else { gdt };
        if 3 + tables + reserved + gdt_here > bpg {
            return Err(format!(
                "an inode table of {tables} blocks does not fit in a group of {bpg}: use a larger \
                 -i or a smaller -N"
            ));
        }
        let mut sb = Ext4Superblock {
            block_size: d.block_size,
            blocks_count: blocks,
            first_data_block: first as u32,
            blocks_per_group: u32::try_from(bpg)
                .map_err(|_| format!("a group of {bpg} blocks is too large"))?,
            clusters_per_group: (bpg / ratio) as u32,
            cluster_ratio: ratio as u32,
            inodes_per_group: ipg as u32,
            inodes_count: u32::try_from(ipg * groups).map_err(|_| "too many inodes".to_owned())?,
            inode_size: d.inode_size,
            groups: groups as u32,
            desc_size: d.desc_size,
            feature_compat: features.compat,
            feature_incompat: features.incompat,
            feature_ro_compat: features.ro_compat,
            log_groups_per_flex: d.log_flex,
            reserved_gdt_blocks: reserved as u16,
            raid_stride: d.stride as u16,
            raid_stripe_width: d.stripe_width,
            journal_inum: if features.has_compat(compat::HAS_JOURNAL) { 8 } else { 0 },
            ..Ext4Superblock::default()
        };
        let rest = (blocks - first) % bpg;
        let needs = 2 + tables + if last_has_super(&sb, d) { 1 + gdt + reserved } else { 0 };
        if groups == 1 && rest > 0 && rest < needs {
            return Err(format!("{blocks} blocks are too few for a filesystem"));
        }
        if rest > 0 && rest < needs + MIN_REST {
            blocks -= rest;
            continue;
        }
        sb.backup_bgs = backups(d, groups as u32);
        return Ok(sb);
    }
}

fn blocks_per_group(d: &Decided, bigalloc: bool, ratio: u64) -> Result<u64, String> {
    let block = u64::from(d.block_size);
    if !bigalloc {
        let own = if d.group > 0 { d.group.into() } else { block * 8 };
        return Ok(own.min(MAX_CLUSTERS));
    }
    let clusters = match d.group {
        // With clusters of 2^17 KiB or more, the size of a group in KiB exceeds 32 bits
        // (ext2fs_initialize()).
        0 if d.cluster.ilog2() - 10 + 15 < 32 => block * 8,
        0 => (block - 1) * 8,
        own => own.into(),
    };
    let bpg = clusters.min(MAX_CLUSTERS) * ratio;
    if bpg > u64::from(u32::MAX) {
        return Err(format!("-C {} makes groups of {bpg} blocks, which is too large", d.cluster));
    }
    Ok(bpg)
}

/// Inodes per group and blocks of the inode table: whole blocks, a multiple of eight inodes, at
/// most 32 bits in total, and enough for the reserved inodes.
fn inodes(d: &Decided, wanted: u64, groups: u64) -> (u64, u64) {
    let (block, size) = (u64::from(d.block_size), u64::from(d.inode_size));
    let mut ask = wanted.min((1 << 16) - block / size);
    loop {
        let tables = (ask * size).div_ceil(block);
        let ipg = (tables * block / size).max(8) & !7;
        let tables = (ipg * size).div_ceil(block);
        if ipg * groups > u64::from(u32::MAX) && ask > 1 {
            ask -= 1;
        } else if ipg * groups < MIN_INODES {
            ask += 8;
        } else {
            return (ipg, tables);
        }
    }
}

/// Reserved GDT blocks for growth by a factor of 1024, limited by 32 bits and the resize inode.
fn reserved_gdt(blocks: u64, first: u64, bpg: u64, per_block: u64, gdt: u64, most: u64) -> u64 {
    let all = u64::from(u32::MAX);
    let to = if blocks < all / 1024 { blocks * 1024 } else { all };
    let grown = (to - first).div_ceil(bpg).div_ceil(per_block);
    // mke2fs computes an unsigned difference, which wraps below zero.
    grown.checked_sub(gdt).map_or(most, |n| n.min(most))
}

/// True if the last group counts as a group with a backup.
fn last_has_super(sb: &Ext4Superblock, d: &Decided) -> bool {
    if d.features.has_compat(compat::SPARSE_SUPER2) {
        // With two groups, the second is the first backup.
        return d.backups >= if sb.groups == 2 { 1 } else { 2 };
    }
    sb.has_super(sb.groups - 1)
}

/// The two groups with backups under sparse_super2.
fn backups(d: &Decided, groups: u32) -> [u32; 2] {
    if !d.features.has_compat(compat::SPARSE_SUPER2) {
        return [0, 0];
    }
    let mut at = [u32::from(d.backups >= 1), if d.backups >= 2 { u32::MAX } else { 0 }];
    at = at.map(|g| g.min(groups - 1));
    if at[0] == at[1] {
        at[1] = 0;
    }
    at.sort_unstable();
    at
}
