//! A filesystem as far as its layout goes, wherever that is known from: a device, an image, the text of dumpe2fs, or a
//! plan. Pure.

use crate::fs::ext4::{Layout, Range, Superblock};

/// Fixed places, and the groups that they belong to.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// `ext4`, `ext3`, `ext2`.
    pub kind: String,
    /// Bytes a block.
    pub block_size: u32,
    /// Blocks.
    pub blocks: u64,
    /// `None` where it is known from a mount point only.
    pub groups: Option<Groups>,
    /// Inodes, 0 where not known.
    pub inodes: u64,
    /// Bytes that it can grow to while mounted with the descriptors reserved for that; 0 for none or not known.
    pub grows_to: u64,
    /// Sorted, disjoint.
    pub ranges: Vec<Range>,
    /// `-E stride`, blocks; 0 for none.
    pub stride: u32,
    /// `-E stripe_width`, blocks; 0 for none.
    pub stripe_width: u32,
    /// What could not be placed, one line each.
    pub notes: Vec<String>,
}

/// As far as the descriptors of the resize inode go.
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

/// How groups are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Groups.
    pub count: u32,
    /// First block of group 0.
    pub first_block: u32,
    /// Blocks a group.
    pub blocks: u32,
    /// Groups whose bitmaps and tables lie side by side; 1 without flex_bg.
    pub per_flex: u32,
    /// Blocks of an inode table.
    pub table_blocks: u32,
}

impl Groups {
    /// Flex groups; groups without flex_bg.
    pub fn flex_groups(&self) -> u32 {
        self.count.div_ceil(self.per_flex.max(1))
    }

    /// Blocks from one flex group to the next.
    pub fn step(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.per_flex)
    }
}

impl Filesystem {
    /// Of what was read from a device, an image or a mount.
    pub fn of(layout: Layout) -> Self {
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

    /// A planned filesystem of which only the first part has places: figures of the whole, ranges of the part.
    pub fn from_first_part(whole: &Superblock, part: Layout) -> Self {
        let mut fs = Self::of(part);
        fs.blocks = whole.blocks_count;
        fs.inodes = whole.inodes_count.into();
        fs.grows_to = grows_to(whole);
        if let Some(groups) = &mut fs.groups {
            groups.count = whole.groups;
        }
        fs
    }

    /// Bytes.
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
