//! The layout of a filesystem, from a device, an image, the output of dumpe2fs, or a plan. Pure.

use super::allocation_groups::AllocationGroups;
use crate::fs::ext4::{Ext4Layout, Ext4Superblock};
use crate::fs::xfs::XfsLayout;
use crate::fs::{Layout, SectorRange};

/// Blocks with fixed locations, and the groups that repeat them.
#[derive(Clone, Debug)]
pub struct FsMetadata {
    /// `ext4`, `ext3`, `ext2`, `xfs`.
    pub kind: String,
    /// Bytes per block.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// `None` if the layout of an ext4 is known only from /proc.
    pub groups: Option<Groups>,
    /// Number of inodes; 0 if unknown.
    pub inodes: u64,
    /// Size in bytes to which reserved group descriptors allow the filesystem to grow while
    /// mounted; 0 if none or unknown.
    pub grows_to: u64,
    /// Metadata, sorted and disjoint.
    pub ranges: Vec<SectorRange>,
    /// `-E stride` of mke2fs, `sunit` of mkfs.xfs, in blocks; 0 for none.
    pub stride: u32,
    /// `-E stripe_width` of mke2fs, `swidth` of mkfs.xfs, in blocks; 0 for none.
    pub stripe_width: u32,
    /// Metadata with unknown location, one line each.
    pub notes: Vec<String>,
}

/// Size in bytes that the descriptors of the resize inode allow.
fn grows_to(sb: &Ext4Superblock) -> u64 {
    if sb.reserved_gdt_blocks == 0 {
        return 0;
    }
    let descriptors = (u64::from(sb.gdt_blocks()) + u64::from(sb.reserved_gdt_blocks))
        * u64::from(sb.descs_per_block());
    descriptors.saturating_mul(sb.blocks_per_group.into()).saturating_mul(sb.block_size.into())
}

/// The groups of a filesystem, each with metadata of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Block groups of ext2, ext3 and ext4.
    Block(BlockGroups),
    /// Allocation groups of XFS.
    Allocation(AllocationGroups),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGroups {
    /// Number of groups.
    pub count: u32,
    /// First block of group 0.
    pub first_block: u32,
    /// Blocks per group.
    pub blocks: u32,
    /// Groups per flex group; 1 without flex_bg. The bitmaps and tables of a flex group are
    /// adjacent.
    pub per_flex: u32,
    /// Blocks of an inode table.
    pub table_blocks: u32,
}

impl BlockGroups {
    /// Number of flex groups, or of groups without flex_bg.
    pub fn flex_groups(&self) -> u32 {
        self.count.div_ceil(self.per_flex.max(1))
    }

    /// Blocks from one flex group to the next.
    pub fn step(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.per_flex)
    }
}

impl FsMetadata {
    /// An ext2, ext3 or ext4 with the given layout.
    pub fn new(layout: Ext4Layout) -> Self {
        let sb = layout.superblock.as_ref();
        let block_size = layout.block_size;
        let ranges = layout.ranges.into_iter();
        Self {
            kind: layout.kind.to_string(),
            block_size,
            blocks: layout.blocks,
            groups: sb.map(|sb| {
                Groups::Block(BlockGroups {
                    count: sb.groups,
                    first_block: sb.first_data_block,
                    blocks: sb.blocks_per_group,
                    per_flex: sb.groups_per_flex(),
                    table_blocks: sb.inode_table_blocks(),
                })
            }),
            inodes: sb.map_or(0, |sb| sb.inodes_count.into()),
            grows_to: sb.map_or(0, grows_to),
            stride: sb.map_or(0, |sb| sb.raid_stride.into()),
            stripe_width: sb.map_or(0, |sb| sb.raid_stripe_width),
            ranges: ranges.map(|r| SectorRange::from_blocks(r, block_size)).collect(),
            notes: layout.notes,
        }
    }

    /// A filesystem of any kind; `None` for a device that only holds a log or realtime blocks,
    /// or swap space.
    pub fn from_layout(layout: Layout) -> Option<Self> {
        match layout {
            Layout::Ext4(layout) => Some(Self::new(*layout)),
            Layout::Xfs(layout) => Some(Self::from_xfs(*layout)),
            Layout::XfsDevice(_) | Layout::Swap { .. } => None,
        }
    }

    /// An XFS with the given layout.
    pub fn from_xfs(layout: XfsLayout) -> Self {
        let geometry = &layout.geometry;
        let block_sectors = geometry.block_sectors();
        let inodes = (64 * u64::from(geometry.inode_size) / 512).max(1);
        let roots = geometry.roots_at_mkfs();
        // The free list (AGFL) of a new group takes the blocks after the roots: 4, or 6 with the
        // rmap btree (xfs_alloc_min_freelist).
        let free_list = if geometry.features.rmapbt { 6 } else { 4 };
        let used = roots.last().map_or(0, |root| u64::from(root.0) + 1) + free_list;
        let groups = AllocationGroups {
            count: geometry.ag_count,
            blocks: geometry.ag_blocks,
            sectors: u64::from(geometry.ag_blocks) * block_sectors,
            header: geometry.header_sectors(),
            inodes_at: (used * block_sectors).next_multiple_of(inodes),
            inodes,
        };
        let mut ranges = layout.ranges;
        ranges.extend(layout.roots);
        // Two sorted lists, which a stable sort merges.
        ranges.sort_by_key(|r| r.first);
        Self {
            kind: "xfs".to_owned(),
            block_size: geometry.block_size,
            blocks: geometry.blocks,
            groups: Some(Groups::Allocation(groups)),
            inodes: 0,
            grows_to: 0,
            ranges,
            stride: geometry.stripe_unit,
            stripe_width: geometry.stripe_width,
            notes: layout.notes,
        }
    }

    /// A planned filesystem with the sizes of the whole filesystem and the ranges of its first
    /// part.
    pub fn from_first_part(whole: &Ext4Superblock, part: Ext4Layout) -> Self {
        let mut fs = Self::new(part);
        fs.blocks = whole.blocks_count;
        fs.inodes = whole.inodes_count.into();
        fs.grows_to = grows_to(whole);
        if let Some(Groups::Block(groups)) = &mut fs.groups {
            groups.count = whole.groups;
        }
        fs
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_size.into())
    }

    /// Sectors per block.
    pub fn block_sectors(&self) -> u64 {
        u64::from(self.block_size / 512)
    }

    /// Block groups of ext2, ext3 and ext4, if known.
    pub fn block_groups(&self) -> Option<BlockGroups> {
        match self.groups {
            Some(Groups::Block(groups)) => Some(groups),
            _ => None,
        }
    }

    /// Allocation groups of XFS.
    pub fn allocation_groups(&self) -> Option<AllocationGroups> {
        match self.groups {
            Some(Groups::Allocation(groups)) => Some(groups),
            _ => None,
        }
    }

    /// The first block of each block group.
    pub fn group_starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.block_groups().into_iter().flat_map(|g| {
            (0..u64::from(g.count)).map(move |i| u64::from(g.first_block) + i * u64::from(g.blocks))
        })
    }
}
