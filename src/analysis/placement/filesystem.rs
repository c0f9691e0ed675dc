//! The layout of a filesystem, from a device, an image, the output of dumpe2fs, or a plan. Pure.

use crate::fs::ext4::{Layout, Range, Superblock};

/// Blocks with fixed locations, and block groups.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// `ext4`, `ext3`, `ext2`.
    pub kind: String,
    /// Bytes per block.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// `None` if the layout is known only from /proc.
    pub groups: Option<Groups>,
    /// Number of inodes; 0 if unknown.
    pub inodes: u64,
    /// Size in bytes to which reserved group descriptors allow the filesystem to grow while mounted; 0 if none or unknown.
    pub grows_to: u64,
    /// Metadata, sorted and disjoint.
    pub ranges: Vec<Range>,
    /// `-E stride`, blocks; 0 for none.
    pub stride: u32,
    /// `-E stripe_width`, blocks; 0 for none.
    pub stripe_width: u32,
    /// Metadata with unknown location, one line each.
    pub notes: Vec<String>,
}

/// Size in bytes that the descriptors of the resize inode allow.
fn grows_to(sb: &Superblock) -> u64 {
    if sb.reserved_gdt_blocks == 0 {
        return 0;
    }
    let descriptors = (u64::from(sb.gdt_blocks()) + u64::from(sb.reserved_gdt_blocks))
        * u64::from(sb.descs_per_block());
    descriptors
        .saturating_mul(sb.blocks_per_group.into())
        .saturating_mul(sb.block_size.into())
}

/// Block groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Number of groups.
    pub count: u32,
    /// First block of group 0.
    pub first_block: u32,
    /// Blocks per group.
    pub blocks: u32,
    /// Groups per flex group; 1 without flex_bg. The bitmaps and tables of a flex group are adjacent.
    pub per_flex: u32,
    /// Blocks of an inode table.
    pub table_blocks: u32,
}

impl Groups {
    /// Number of flex groups, or of groups without flex_bg.
    pub fn flex_groups(&self) -> u32 {
        self.count.div_ceil(self.per_flex.max(1))
    }

    /// Blocks from one flex group to the next.
    pub fn step(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.per_flex)
    }
}

impl Filesystem {
    /// A filesystem with the given layout.
    pub fn new(layout: Layout) -> Self {
        let sb = layout.superblock.as_ref();
        Self {
            kind: layout.kind.to_string(),
            block_size: layout.block_size,
            blocks: layout.blocks,
            groups: sb.map(|sb| Groups {
                count: sb.groups,
                first_block: sb.first_data_block,
                blocks: sb.blocks_per_group,
                per_flex: sb.groups_per_flex(),
                table_blocks: sb.inode_table_blocks(),
            }),
            inodes: sb.map_or(0, |sb| sb.inodes_count.into()),
            grows_to: sb.map_or(0, grows_to),
            stride: sb.map_or(0, |sb| sb.raid_stride.into()),
            stripe_width: sb.map_or(0, |sb| sb.raid_stripe_width),
            ranges: layout.ranges,
            notes: layout.notes,
        }
    }

    /// A planned filesystem with the sizes of the whole filesystem and the ranges of its first part.
    pub fn from_first_part(whole: &Superblock, part: Layout) -> Self {
        let mut fs = Self::new(part);
        fs.blocks = whole.blocks_count;
        fs.inodes = whole.inodes_count.into();
        fs.grows_to = grows_to(whole);
        if let Some(groups) = &mut fs.groups {
            groups.count = whole.groups;
        }
        fs
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_size.into())
    }

    /// The first block of each group.
    pub fn group_starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.groups.into_iter().flat_map(|g| {
            (0..u64::from(g.count)).map(move |i| u64::from(g.first_block) + i * u64::from(g.blocks))
        })
    }
}
