//! Sectors on a member, and the figures of each kind of filesystem: origins with fixed locations,
//! and the two figures that decide whether a layout is even.

use super::filesystem::{FsMetadata, Groups};
use crate::origin::Origin;
use crate::origin::Origin::{
    AgHeader, BlockBitmap, ExtentTree, FreeSpaceBtree, GroupDescriptors, InodeBitmap, InodeBtree,
    InodeCluster, InodeTable, Journal, OtherMetadata, RefcountBtree, RmapBtree, Superblock,
};

/// Origins with fixed locations in ext2, ext3 and ext4, in the order of the tables.
pub const FIXED: [Origin; 8] = [
    BlockBitmap,
    InodeBitmap,
    InodeTable,
    GroupDescriptors,
    Superblock,
    Journal,
    ExtentTree,
    OtherMetadata,
];

/// Sectors on a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSpread {
    /// Sectors of each origin, by number.
    pub(super) sectors: [u64; Origin::ALL.len()],
    /// Sectors of the inodes in use: of ext4's inode tables (see
    /// [`HEAD_BLOCKS`](super::spread::HEAD_BLOCKS)), or the first inodes of XFS's allocation
    /// groups.
    pub heads: u64,
}

impl MemberSpread {
    pub fn sectors_of(&self, origin: Origin) -> u64 {
        self.sectors[origin as usize]
    }

    /// Sectors of block and inode bitmaps.
    pub fn bitmaps(&self) -> u64 {
        self.sectors_of(BlockBitmap) + self.sectors_of(InodeBitmap)
    }
}

pub type PlacementFigure = fn(&MemberSpread) -> u64;

/// Origins and figures of a kind of filesystem.
pub struct PlacementFigures {
    /// Origins with fixed locations, in the order of the tables.
    pub origins: &'static [Origin],
    /// Origins of `allocation` and `alone`.
    pub allocation_origins: &'static [Origin],
    /// Metadata that each allocation writes.
    pub allocation: PlacementFigure,
    /// Kinds of this metadata that an application may write alone.
    pub alone: &'static [PlacementFigure],
    /// Names of `allocation` and of the inodes in use.
    pub names: [&'static str; 2],
    /// Their names in JSON.
    pub keys: [&'static str; 2],
}

/// Figures of ext2, ext3 and ext4.
pub static EXT4: PlacementFigures = PlacementFigures {
    origins: &FIXED,
    allocation_origins: &[BlockBitmap, InodeBitmap],
    allocation: |m| m.bitmaps(),
    alone: &[|m| m.sectors_of(BlockBitmap), |m| m.sectors_of(InodeBitmap)],
    names: ["bitmaps", "inode tables"],
    keys: ["bitmaps", "inode_table_heads"],
};

/// Btrees of an allocation group. Their roots are after its header at mkfs, and move when they
/// grow.
const BTREES: [Origin; 4] = [FreeSpaceBtree, InodeBtree, RmapBtree, RefcountBtree];

/// Figures of XFS. Superblock copies are not written in use, so they are not part of a figure.
pub static XFS: PlacementFigures = PlacementFigures {
    origins: &[
        Superblock,
        AgHeader,
        FreeSpaceBtree,
        InodeBtree,
        RmapBtree,
        RefcountBtree,
        InodeCluster,
        Journal,
        OtherMetadata,
    ],
    allocation_origins: &[AgHeader, FreeSpaceBtree, InodeBtree, RmapBtree, RefcountBtree],
    allocation: |m| m.sectors_of(AgHeader),
    alone: &[|m| BTREES.iter().map(|&o| m.sectors_of(o)).sum()],
    names: ["AG headers", "first inodes"],
    keys: ["ag_headers", "first_inodes"],
};

impl FsMetadata {
    /// Figures of this kind of filesystem.
    pub fn figures(&self) -> &'static PlacementFigures {
        match self.groups {
            None | Some(Groups::Block(_)) => &EXT4,
            Some(Groups::Allocation(_)) => &XFS,
        }
    }

    /// Sectors per unit in the columns of the two figures. The unit is a block, or for XFS an
    /// allocation group's header or first inodes.
    pub fn units(&self) -> [u64; 2] {
        match self.groups {
            Some(Groups::Allocation(g)) => [g.header.max(1), g.inodes.max(1)],
            _ => [self.block_sectors(); 2],
        }
    }

    /// Name of the unit of the table of origins, and its sectors: blocks, or for XFS, whose headers
    /// share blocks, sectors.
    pub fn origin_unit(&self) -> (&'static str, u64) {
        match self.groups {
            Some(Groups::Allocation(_)) => ("sectors", 1),
            _ => ("blocks", self.block_sectors()),
        }
    }

    /// Number of pieces that `sectors` of an origin can be spread in.
    pub fn pieces(&self, origin: Origin, sectors: u64) -> u64 {
        match self.groups {
            Some(Groups::Allocation(g)) if origin != Journal => g.count.into(),
            _ => sectors / self.block_sectors(),
        }
    }
}
