//! The layout of a filesystem of any kind.

use std::borrow::Cow;

use super::ext4::{Ext4Layout, FsKind};
use super::range::SectorRange;
use super::uuid::Uuid;
use super::xfs::{XfsDevice, XfsLayout};
use crate::address::{FsBlock, FsSector};
use crate::origin::Origin;

/// Structures with a fixed location in a filesystem.
#[derive(Clone, Debug)]
pub enum Layout {
    /// ext2, ext3, ext4, or an external journal of ext3 or ext4.
    Ext4(Box<Ext4Layout>),
    Xfs(Box<XfsLayout>),
    /// Log or realtime device of an XFS.
    XfsDevice(XfsDevice),
    /// Swap space on a whole device, in pages of 4 KiB.
    Swap {
        pages: u64,
    },
}

/// Bytes of a page of swap space. On machines with larger pages it is their unit of IO only.
const PAGE: u32 = 4096;

impl Layout {
    /// The layout of an ext2, ext3 or ext4.
    pub fn ext4(&self) -> Option<&Ext4Layout> {
        match self {
            Self::Ext4(layout) => Some(layout),
            Self::Xfs(_) | Self::XfsDevice(_) | Self::Swap { .. } => None,
        }
    }

    pub fn xfs(&self) -> Option<&XfsLayout> {
        match self {
            Self::Xfs(layout) => Some(layout),
            Self::Ext4(_) | Self::XfsDevice(_) | Self::Swap { .. } => None,
        }
    }

    /// True for a device of an XFS.
    pub fn is_xfs(&self) -> bool {
        matches!(self, Self::Xfs(_) | Self::XfsDevice(_))
    }

    /// `ext2`, `ext3`, `ext4`, an external journal, `XFS`, or swap space.
    pub fn kind(&self) -> FsKind {
        match self {
            Self::Ext4(layout) => layout.kind,
            Self::Xfs(_) | Self::XfsDevice(_) => FsKind::Xfs,
            Self::Swap { .. } => FsKind::Swap,
        }
    }

    /// The name that mount(8) uses (`ext4`, `xfs`), or that of an external journal.
    pub fn name(&self) -> String {
        self.kind().to_string().to_lowercase()
    }

    /// Block size in bytes.
    pub fn block_size(&self) -> u32 {
        match self {
            Self::Ext4(layout) => layout.block_size,
            Self::Xfs(layout) => layout.geometry.block_size,
            Self::XfsDevice(device) => device.block_size,
            Self::Swap { .. } => PAGE,
        }
    }

    /// Sectors per block.
    pub fn block_sectors(&self) -> u64 {
        u64::from(self.block_size() / 512)
    }

    /// Blocks of the filesystem on this device.
    pub fn blocks(&self) -> u64 {
        match self {
            Self::Ext4(layout) => layout.blocks,
            Self::Xfs(layout) => layout.geometry.blocks,
            Self::XfsDevice(device) => device.blocks,
            Self::Swap { pages } => *pages,
        }
    }

    /// First sector after the filesystem.
    pub fn end(&self) -> FsSector {
        FsBlock(self.blocks()).sector(self.block_sectors())
    }

    /// UUID; `None` for the layout of an ext4 that is from a mount, or of an external journal.
    pub fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Ext4(layout) => layout.superblock.as_ref().map(|s| s.uuid),
            Self::Xfs(layout) => Some(layout.geometry.uuid),
            Self::XfsDevice(device) => Some(device.uuid),
            Self::Swap { .. } => None,
        }
    }

    /// The fixed structures: sorted, disjoint.
    pub fn ranges(&self) -> Cow<'_, [SectorRange]> {
        match self {
            Self::Ext4(layout) => {
                let ranges = layout.ranges.iter();
                ranges.map(|r| SectorRange::from_blocks(*r, layout.block_size)).collect()
            }
            Self::Xfs(layout) => Cow::Borrowed(&layout.ranges),
            Self::XfsDevice(device) => Cow::Owned(device.log.into_iter().collect()),
            Self::Swap { .. } => Cow::Owned(vec![SectorRange {
                first: FsSector(0),
                count: self.end().0,
                origin: Origin::Swap,
            }]),
        }
    }

    /// Structures that were left out, and the reasons, one line each.
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Ext4(layout) => &layout.notes,
            Self::Xfs(layout) => &layout.notes,
            Self::XfsDevice(_) | Self::Swap { .. } => &[],
        }
    }
}

impl From<Ext4Layout> for Layout {
    fn from(layout: Ext4Layout) -> Self {
        Self::Ext4(Box::new(layout))
    }
}

impl From<XfsLayout> for Layout {
    fn from(layout: XfsLayout) -> Self {
        Self::Xfs(Box::new(layout))
    }
}
