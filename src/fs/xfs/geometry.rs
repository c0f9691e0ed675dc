//! The parameters of an XFS that its fixed places follow from. Pure.

use crate::address::{FsBlock, FsSector};
use crate::fs::{SectorRange, Uuid};
use crate::origin::Origin;

/// Parameters that `mkfs.xfs` sets and that do not change afterwards, except for the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XfsGeometry {
    /// 4, or 5 with checksums.
    pub version: u8,
    /// Block size in bytes: 512 to 65536.
    pub block_size: u32,
    /// Sector size in bytes, which is the size of an AG header: 512 to 32768.
    pub sector_size: u32,
    /// Inode size in bytes: 256 to 2048.
    pub inode_size: u32,
    /// Blocks of the data device.
    pub blocks: u64,
    /// Blocks of an AG; the last one can be shorter.
    pub ag_blocks: u32,
    /// Number of AGs.
    pub ag_count: u32,
    pub log: XfsLog,
    /// `sunit` in blocks; 0 for none.
    pub stripe_unit: u32,
    /// `swidth` in blocks; 0 for none.
    pub stripe_width: u32,
    /// Alignment of inode chunks in blocks (`sb_inoalignmt`); 0 if none or unknown.
    pub inode_align: u32,
    /// Features with btrees of their own.
    pub features: XfsFeatures,
    /// Blocks of the realtime device, or of the realtime section of a zoned filesystem.
    pub realtime_blocks: u64,
    /// Identifier.
    pub uuid: Uuid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XfsLog {
    /// In the data device; it never crosses the end of an AG.
    Internal {
        first: FsBlock,
        /// Number of blocks.
        blocks: u32,
    },
    /// On a device of its own (`logdev=`).
    External {
        /// Number of blocks.
        blocks: u32,
    },
}

/// Features with btrees of their own in each AG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct XfsFeatures {
    /// Free inode btree.
    pub finobt: bool,
    /// Reverse mapping btree.
    pub rmapbt: bool,
    /// Reference count btree.
    pub reflink: bool,
}

/// Smallest AG (`XFS_AG_MIN_BYTES`).
pub const MIN_AG_BYTES: u64 = 16 << 20;
/// Largest number of AGs that is supported: 16 TiB with the smallest AGs, 1 EiB with the largest.
pub const MAX_AGS: u32 = 1 << 20;
/// Sectors of an AG's headers: superblock, AGF, AGI, AGFL (`XFS_AGFL_DADDR`).
const HEADERS: u64 = 4;

/// Number of AGs of `size` on a device of `total`. `least` is [`MIN_AG_BYTES`] in the same unit:
/// mkfs.xfs drops a shorter last AG (mkfs/xfs_mkfs.c, `align_ag_geometry`).
pub fn ag_count(total: u64, size: u64, least: u64) -> u64 {
    let size = size.max(1);
    total / size + u64::from(total % size >= least)
}

impl XfsGeometry {
    /// 512-byte sectors per block.
    pub fn block_sectors(&self) -> u64 {
        u64::from(self.block_size / 512)
    }

    /// First sector after the filesystem.
    pub fn end(&self) -> FsSector {
        FsBlock(self.blocks).sector(self.block_sectors())
    }

    /// Checks parameters that do not come from a superblock: sizes, and that the log is in an AG.
    ///
    /// # Errors
    /// Names what is impossible.
    pub fn check(&self) -> Result<(), String> {
        let sizes = [
            ("the block size", self.block_size, 512..=65536),
            ("the sector size", self.sector_size, 512..=self.block_size.min(32768)),
            ("the inode size", self.inode_size, 256..=2048),
        ];
        for (name, size, possible) in sizes {
            if !size.is_power_of_two() || !possible.contains(&size) {
                return Err(format!("{name} is {size}"));
            }
        }
        let (size, count) = (u64::from(self.ag_blocks), u64::from(self.ag_count));
        let most = size * count;
        if size * u64::from(self.block_size) < MIN_AG_BYTES
            || self.ag_count > MAX_AGS
            || self.blocks > most
            || self.blocks <= most.saturating_sub(size)
        {
            return Err(format!("{count} AGs of {size} blocks do not make {} blocks", self.blocks));
        }
        if let XfsLog::Internal { first, blocks } = self.log {
            let ag = first.0 / size;
            let end = (first.0 % size).saturating_add(blocks.into());
            if ag >= count || end > self.ag_length(ag as u32) {
                return Err(format!("the log of {blocks} blocks at {first} is not in an AG"));
            }
        }
        Ok(())
    }

    /// First block of an AG.
    pub fn ag_start(&self, ag: u32) -> FsBlock {
        FsBlock(u64::from(ag) * u64::from(self.ag_blocks))
    }

    /// Blocks of an AG: fewer in the last one.
    pub fn ag_length(&self, ag: u32) -> u64 {
        self.blocks.saturating_sub(self.ag_start(ag).0).min(self.ag_blocks.into())
    }

    /// Sectors of 512 bytes of an AG's headers (AGF, AGI, AGFL) after its superblock copy, to the
    /// end of their last block: nothing else is in it (`xfs_prealloc_blocks`), and md writes it
    /// along on RAID 4, 5 and 6.
    pub fn header_sectors(&self) -> u64 {
        let sector = u64::from(self.sector_size / 512);
        (HEADERS * sector).next_multiple_of(self.block_sectors().max(1)) - sector
    }

    /// The fixed structures, sorted and disjoint: superblock and headers of each AG, and the log.
    pub fn ranges(&self) -> Vec<SectorRange> {
        let sector = u64::from(self.sector_size / 512);
        let mut ranges = Vec::with_capacity(2 * self.ag_count as usize + 1);
        for ag in 0..self.ag_count {
            let first = self.ag_start(ag).sector(self.block_sectors());
            let mut put = |first: FsSector, count, origin| {
                ranges.push(SectorRange { first, count, origin });
            };
            put(first, sector, Origin::Superblock);
            put(first + sector, self.header_sectors(), Origin::AgHeader);
        }
        if let XfsLog::Internal { first, blocks } = self.log
            && blocks > 0
        {
            let log = SectorRange {
                first: first.sector(self.block_sectors()),
                count: u64::from(blocks) * self.block_sectors(),
                origin: Origin::Journal,
            };
            let at = ranges.partition_point(|r| r.first < log.first);
            ranges.insert(at, log);
        }
        ranges
    }

    /// Block in an AG of each btree's root after mkfs, in the order of the blocks
    /// (`xfs_prealloc_blocks`, `XFS_BNO_BLOCK`, ...). A root moves when its tree grows.
    pub fn roots_at_mkfs(&self) -> Vec<(u32, Origin)> {
        let agfl = (HEADERS as u32 - 1) * self.sector_size / self.block_size;
        let XfsFeatures { finobt, rmapbt, reflink } = self.features;
        let trees = [
            (true, Origin::FreeSpaceBtree), // by block
            (true, Origin::FreeSpaceBtree), // by length
            (true, Origin::InodeBtree),
            (finobt, Origin::InodeBtree),
            (rmapbt, Origin::RmapBtree),
            (reflink, Origin::RefcountBtree),
        ];
        let has = trees.into_iter().filter(|tree| tree.0);
        has.zip(agfl + 1..).map(|((_, origin), block)| (block, origin)).collect()
    }
}
