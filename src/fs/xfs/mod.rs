//! The parameters of an XFS that its fixed places follow from.

use crate::address::FsBlock;
use crate::fs::Uuid;

/// Parameters that `mkfs.xfs` sets and that do not change afterwards, except for the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
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
    /// The log.
    pub log: Log,
    /// `sunit` in blocks; 0 for none.
    pub stripe_unit: u32,
    /// `swidth` in blocks; 0 for none.
    pub stripe_width: u32,
    /// Alignment of inode chunks in blocks (`sb_inoalignmt`); 0 if none or unknown.
    pub inode_align: u32,
    /// Features with btrees of their own.
    pub features: Features,
    /// Blocks of the realtime device, or of the realtime section of a zoned filesystem.
    pub realtime_blocks: u64,
    /// Identifier.
    pub uuid: Uuid,
}

/// The log of an XFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// In the data device; it never crosses the end of an AG.
    Internal {
        /// First block.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Free inode btree.
    pub finobt: bool,
    /// Reverse mapping btree.
    pub rmapbt: bool,
    /// Reference count btree.
    pub reflink: bool,
}
