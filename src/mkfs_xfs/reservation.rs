//! The largest transaction, which the smallest log and the log for many CPUs depend on
//! (libxfs/xfs_trans_resv.c and libxfs/xfs_log_rlimit.c). Sizes are in bytes.

use super::decided::{Decided, INODES_PER_CHUNK};
use super::groups::Groups;

/// Overhead of a buffer in the log (xfs_buf_log_overhead).
const BUFFER: u64 = 128;
/// Quotas of a transaction (XFS_DQUOT_LOGRES): 6 times xfs_dq_logformat and xfs_disk_dquot.
const QUOTAS: u64 = 6 * (24 + 104);
/// Log operation header, and xfs_inode_log_format.
const OPERATION: u64 = 12;
const INODE_FORMAT: u64 = 56;
/// Depth of the btree of a directory or of extended attributes (XFS_DA_NODE_MAXDEPTH).
const DEPTH: u64 = 5;
/// Levels of an rmap btree that was once assumed with reflink (XFS_OLD_REFLINK_RMAP_MAXLEVELS).
const OLD_RMAP_LEVELS: u64 = 9;
/// Intents of a parent pointer that is added (xfs_calc_pptr_link_overhead), and those of a
/// renaming: a replaced, a removed and an added one.
const LINK: u64 = 40 + 12 + 256;
const RENAME: u64 = 40 + 2 * (12 + 256) + 2 * LINK;
/// Bytes of a symbolic link (XFS_SYMLINK_MAXLEN).
const SYMLINK: u64 = 1024;
/// Size of an iclog, and the cycle data of one header in it (XLOG_MAX_RECORD_BSIZE,
/// XLOG_HEADER_CYCLE_SIZE).
const ICLOG: u64 = 256 << 10;
const CYCLE: u64 = 32 << 10;

/// Bytes of the largest transaction (xfs_log_get_max_trans_res), and the parts that it is logged
/// in.
pub struct Largest {
    part: u64,
    parts: u64,
}

impl Largest {
    pub fn bytes(&self) -> u64 {
        self.part * self.parts
    }

    /// Smallest log for this transaction, in blocks (xfs_log_calc_minimum_size).
    pub fn min_log(&self, decided: &Decided) -> u64 {
        let max = self.unit(decided).saturating_mul(self.parts).div_ceil(512);
        let unit = u64::from(decided.log_unit) * u64::from(decided.block_size) / 512;
        let sectors = match unit {
            0 | 1 => max + 2 * 512,
            unit => max.next_multiple_of(unit) + 2 * unit,
        };
        (sectors * 3).div_ceil(u64::from(decided.block_size) / 512)
    }

    /// Space of a part in the log, with headers and padding (xfs_log_calc_unit_res). Expects
    /// version 2 of the log.
    fn unit(&self, decided: &Decided) -> u64 {
        let header = 512 * (ICLOG / CYCLE);
        let space = ICLOG - header;
        // Transaction header, start record.
        let mut bytes = self.part + OPERATION + 16 + OPERATION;
        let mut headers = bytes.div_ceil(space);
        bytes += OPERATION * headers;
        while headers == 0 || bytes.div_ceil(space) > headers {
            bytes += OPERATION;
            headers += 1;
        }
        bytes += header * headers + header;
        let unit = u64::from(decided.log_unit) * u64::from(decided.block_size);
        bytes + 2 * if unit > 1 { unit } else { 512 }
    }
}

/// Computes the largest transaction of a filesystem.
pub fn largest(decided: &Decided, groups: &Groups) -> Largest {
    let sizes = Sizes::new(decided, groups);
    let mut all = if decided.parent { sizes.current(decided) } else { sizes.historic(decided) };
    let mut most = all.remove(0);
    for next in all {
        if next.0 * next.1 > most.0 * most.1 {
            most = next;
        }
    }
    // Compared without its parts, but logged in three.
    let attributes = sizes.attributes(decided.parent);
    if attributes > most.0 * most.1 {
        most = (attributes, 3);
    }
    Largest { part: most.0, parts: most.1 }
}

/// Sizes of blocks and btrees.
struct Sizes {
    block: u64,
    sector: u64,
    inode: u64,
    /// Blocks of a directory block.
    directory: u64,
    /// Blocks of an inode chunk.
    chunk: u64,
    /// Extents that one more block can hold in the worst case: the largest less the smallest
    /// number of records in a leaf of the free-space btrees (XFS_MAX_CONTIG_EXTENTS_PER_BLOCK).
    contiguous: u64,
    data_levels: u64,
    attribute_levels: u64,
    free_levels: u64,
    inode_levels: u64,
    rmap_levels: u64,
    refcount_levels: u64,
    finobt: bool,
    rmapbt: bool,
    reflink: bool,
}

/// Levels of a btree of `records` records with at least `leaf` of them in a leaf and `node` in a
/// node (xfs_btree_compute_maxlevels).
fn levels(leaf: u64, node: u64, records: u64) -> u64 {
    let (mut blocks, mut levels) = (records.div_ceil(leaf), 1);
    while blocks > 1 {
        blocks = blocks.div_ceil(node);
        levels += 1;
    }
    levels
}

/// Levels of a file's extent btree of `extents` extents, with at least `block` records in a block
/// and room for `root` in the inode (xfs_bmap_compute_maxlevels).
fn file_levels(block: u64, root: u64, extents: u64) -> u64 {
    let (mut blocks, mut levels) = (extents.div_ceil(block), 1);
    while blocks > 1 {
        blocks = if blocks <= root { 1 } else { blocks.div_ceil(block) };
        levels += 1;
    }
    levels
}

/// Levels of a btree of at most `blocks` blocks with at least `node` records in a node
/// (xfs_btree_space_to_height).
fn height(node: u64, blocks: u64) -> u64 {
    let (mut nodes, mut left, mut height) = (2, blocks.saturating_sub(1), 1);
    while nodes < left {
        left -= nodes;
        nodes *= node;
        height += 1;
    }
    height
}

impl Sizes {
    fn new(decided: &Decided, groups: &Groups) -> Self {
        let block = u64::from(decided.block_size);
        // Headers of the blocks of short and of long btrees.
        let (short, long) = if decided.v5 { (56, 72) } else { (16, 24) };
        let least = |record: u64| (block - short) / record / 2;
        let in_file = (block - long) / 16 / 2;
        let (data, attributes) = if decided.large_extent_counts {
            ((1 << 48) - 1, (1 << 32) - 1)
        } else {
            ((1 << 31) - 1, (1 << 15) - 1)
        };
        let size = u64::from(groups.size);
        let inodes = (size.next_power_of_two() * (block / u64::from(decided.inode_size)))
            / u64::from(INODES_PER_CHUNK);
        let rmap_levels = match (decided.rmapbt, decided.reflink) {
            (false, _) => 0,
            (true, true) if decided.parent => height((block - 56) / 44 / 2, size),
            (true, true) => OLD_RMAP_LEVELS,
            (true, false) => levels((block - 56) / 24 / 2, (block - 56) / 44 / 2, size),
        };
        let refcount_levels = if decided.reflink {
            levels((block - 56) / 12 / 2, (block - 56) / 8 / 2, size)
        } else {
            0
        };
        Self {
            block,
            sector: decided.sector_size.into(),
            // Core and forks, and the headers of the forks' btrees.
            inode: 4 * OPERATION + INODE_FORMAT + u64::from(decided.inode_size) + 2 * long,
            chunk: (u64::from(INODES_PER_CHUNK * decided.inode_size) / block).max(1),
            directory: (decided.directory_block / block).max(1),
            contiguous: (block - short) / 8 - least(8),
            data_levels: file_levels(in_file, 3, data),
            attribute_levels: file_levels(in_file, 2, attributes),
            free_levels: levels(least(8), least(12), size.div_ceil(2)),
            inode_levels: levels(least(16), least(8), inodes),
            rmap_levels,
            refcount_levels,
            finobt: decided.finobt,
            rmapbt: decided.rmapbt,
            reflink: decided.reflink,
        }
    }

    /// Bytes of `count` buffers of a block.
    fn blocks(&self, count: u64) -> u64 {
        count * (self.block + BUFFER)
    }

    /// Bytes of `count` buffers of a sector.
    fn sectors(&self, count: u64) -> u64 {
        count * (self.sector + BUFFER)
    }

    /// Blocks that the allocation or the freeing of extents changes (xfs_allocfree_block_count).
    fn allocation(&self, extents: u64) -> u64 {
        let rmap = if self.rmapbt { 2 * self.rmap_levels - 1 } else { 0 };
        extents * (2 * (2 * self.free_levels - 1) + rmap)
    }

    /// Freed extents (xfs_calc_finish_efi_reservation).
    fn freed(&self, extents: u64) -> u64 {
        self.sectors(2 * extents + 1) + self.blocks(self.allocation(extents))
    }

    /// Blocks of the refcount btree that extents change (xfs_refcountbt_block_count).
    fn refcounts(&self, extents: u64) -> u64 {
        if self.reflink { extents * (2 * self.refcount_levels - 1) } else { 0 }
    }

    /// Refcounts in a transaction of their own (xfs_calc_finish_cui_reservation).
    fn counted(&self, extents: u64) -> u64 {
        if self.reflink { self.sectors(extents) + self.blocks(self.refcounts(extents)) } else { 0 }
    }

    /// Blocks for new extents of a file (XFS_NEXTENTADD_SPACE_RES).
    fn added(&self, extents: u64, levels: u64) -> u64 {
        extents.div_ceil(self.contiguous) * (levels - 1)
    }

    /// Blocks of a change of a directory (XFS_DIROP_LOG_COUNT).
    fn directory(&self) -> u64 {
        let depth = DEPTH + 2;
        self.directory * depth + depth * self.added(self.directory, self.data_levels) + 1
    }

    /// The largest attribute (xfs_log_calc_max_attrsetm_res). Before parent pointers (not `fixed`),
    /// its size in bytes counted as blocks.
    fn attributes(&self, fixed: bool) -> u64 {
        // xfs_attr_leaf_entsize_local_max, without the name.
        let size = (self.block / 2 + self.block / 4 - 257).min(self.block);
        let levels = self.attribute_levels;
        let mut blocks = DEPTH + DEPTH * self.added(1, levels) + size.div_ceil(self.block);
        let counted = if fixed { size.div_ceil(self.block) } else { size };
        blocks += self.added(counted, levels);
        let set = QUOTAS + self.inode + self.sectors(1) + self.blocks(DEPTH);
        set + (self.sectors(1) + self.blocks(levels)) * blocks
    }

    /// Buffers of a write (xfs_calc_write_reservation), with those of the refcounts if they are in
    /// the same transaction.
    fn write(&self, refcounts: u64) -> u64 {
        let freed = self.blocks(self.allocation(2));
        let (allocate, join) = (
            self.inode + self.blocks(self.data_levels) + self.sectors(3) + freed,
            self.sectors(5) + freed,
        );
        QUOTAS + refcounts + allocate.max(join)
    }

    /// Creation of an inode (xfs_calc_icreate_reservation). The chunk of a new inode is logged only
    /// without checksums.
    fn create(&self, v5: bool, overhead: u64) -> u64 {
        let tree = self.blocks(self.inode_levels) + self.blocks(self.allocation(1));
        let free = if self.finobt { tree } else { 0 };
        let chunk = if v5 { 0 } else { self.blocks(self.chunk) };
        let allocate =
            self.sectors(2) + self.sector + self.blocks(self.allocation(1)) + chunk + tree + free;
        let modify =
            2 * self.inode + self.sectors(1) + self.block + self.blocks(self.directory()) + free;
        QUOTAS + overhead + allocate.max(modify)
    }

    /// Renaming (xfs_calc_rename_reservation).
    fn rename(&self, overhead: u64) -> u64 {
        let directories = 5 * self.inode + self.blocks(2 * self.directory());
        QUOTAS + overhead + directories.max(self.freed(3))
    }

    /// Truncation of a file (xfs_calc_itruncate_reservation).
    fn truncate(&self, refcounts: u64) -> u64 {
        let inode = self.inode + self.blocks(self.data_levels + 1);
        QUOTAS + inode.max(self.freed(4) + refcounts)
    }

    /// Large transactions and their parts as the kernel logs them (xfs_trans_resv_calc), with
    /// parent pointers.
    fn current(&self, decided: &Decided) -> Vec<(u64, u64)> {
        let intents = u64::from(self.reflink || self.rmapbt)
            + u64::from(self.reflink)
            + u64::from(self.rmapbt);
        let truncate = self.truncate(0).max(QUOTAS + self.counted(2));
        let quota = self.write(0).max(QUOTAS + self.counted(1)) + self.blocks(1) - 1;
        vec![
            (quota, 2 + intents),
            (truncate, 2 + intents),
            (self.rename(RENAME), 5),
            (self.create(decided.v5, LINK) + SYMLINK + BUFFER, 6),
        ]
    }

    /// Large transactions and their parts without parent pointers: larger than those that the
    /// kernel logs, as in the first releases with reflink
    /// (xfs_log_calc_trans_resv_for_minlogblocks).
    fn historic(&self, decided: &Decided) -> Vec<(u64, u64)> {
        let parts = if self.reflink { 8 } else { 2 };
        let quota = self.write(self.blocks(self.refcounts(2))) + self.blocks(1) - 1;
        vec![
            (quota, parts),
            (self.truncate(self.blocks(self.refcounts(4))), parts),
            (self.rename(0), 2),
            (self.create(decided.v5, 0) + SYMLINK + BUFFER, 3),
        ]
    }
}
