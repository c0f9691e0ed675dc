//! Where an ext2, ext3 or ext4 filesystem keeps its metadata: superblock, descriptors, journal and
//! the inodes that mkfs makes, as sorted ranges of blocks with an [`Origin`](crate::origin::Origin).
//!
//! Owns the reading of the on-disk format, from a block device or an image, mounted or not, without
//! root where the file may be read; and, where the device may not be read, the asking of the kernel
//! that has it mounted. Must not know md, BPF, which mounts there are or a terminal, and writes
//! nothing. Everything it reads may be damaged or hostile: no panic, no endless walk, no unbounded
//! memory.
//!
//! * `read`: bytes at an offset; little-endian fields.
//! * `identify`: what is on a device, by magic.
//! * `identity`: whether it is still the same filesystem.
//! * `features`: names of the feature bits.
//! * `superblock`: the parsed fields.
//! * `check`: which superblocks are refused, and why.
//! * `descriptors`: group geometry and the group descriptor table.
//! * `inode`: the blocks of one inode, by extents or by block map.
//! * `ranges`: sorting, merging and the precedence where claims overlap.
//! * `layout`: all of it together.
//! * `image`: e2image files.
//! * `fsmap`: the fallback, the layout from a mount point.

mod check;
mod descriptors;
mod error;
pub mod features;
mod fsmap;
mod identify;
mod identity;
mod image;
mod inode;
mod layout;
mod ranges;
mod read;
mod superblock;
#[cfg(test)]
mod tests;

pub use descriptors::Descriptor;
pub use error::Error;
pub use identify::{FsKind, identify};
pub use identity::Identity;
pub use image::{E2Image, MISSING, is_e2image, is_qcow2};
pub use layout::{Journal, Layout};
pub(crate) use ranges::Collector;
pub use ranges::Range;
pub use read::ReadAt;
pub use superblock::{Checksum, JournalBackup, OnError, Superblock, Uuid};
