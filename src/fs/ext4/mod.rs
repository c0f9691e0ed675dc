//! Layout of an ext2, ext3 or ext4 filesystem: superblocks, descriptors, bitmaps, inode tables,
//! journal and the inodes created by mkfs, as sorted ranges of blocks with an
//! [`Origin`](crate::origin::Origin).
//!
//! Reads the on-disk format from a block device or an image, mounted or not; root is needed only
//! for device permissions. For unreadable devices, it falls back to asking the kernel through a
//! mount point. Writes nothing. Input may be damaged or hostile, but causes no panic, no endless
//! walk and no unbounded memory use.
//!
//! * `identify`: the content of a device by magic numbers.
//! * `identity`: detects that a device holds another filesystem.
//! * `features`: names of the feature bits.
//! * `superblock`: the parsed fields.
//! * `check`: consistency checks of the superblock.
//! * `descriptors`: group geometry and the group descriptor table.
//! * `inode`: the blocks of one inode, by extents or by block map.
//! * `ranges`: sorting and merging of ranges, and precedence of overlapping claims.
//! * `layout`: the complete layout.
//! * `image`: e2image files.
//! * `fsmap`: the fallback, the layout from a mount point.

mod check;
mod descriptors;
pub mod features;
mod fsmap;
mod identify;
mod identity;
mod image;
mod inode;
mod layout;
mod ranges;
mod superblock;
#[cfg(test)]
mod tests;

pub use crate::fs::{Error, ReadAt, Uuid};
pub use descriptors::Descriptor;
pub use identify::{FsKind, identify};
pub use identity::identity;
pub use image::{E2Image, NOT_IN_E2IMAGE, is_e2image, is_qcow2};
pub use layout::{Ext4Layout, Journal};
pub(crate) use ranges::Collector;
pub use ranges::Range;
pub use superblock::{Checksum, Ext4Superblock, JournalBackup, OnError};
