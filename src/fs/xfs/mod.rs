//! Layout of an XFS: superblocks, AG headers, log, and the roots of the AGs' btrees.
//!
//! Reads the on-disk format (fs/xfs/libxfs/xfs_format.h, big-endian) from a block device or an
//! image, or asks the kernel through a mount point, which requires no privilege. Writes nothing.
//! Input may be damaged or hostile, but causes no panic, no endless walk and no unbounded memory
//! use.
//!
//! * `geometry`: the parameters that all fixed places follow from. `superblock`: reads and checks
//!   them.
//! * `ag`: the headers of an AG, for the roots of its btrees. `device`: the log device and the
//!   realtime device.
//! * `layout`: the complete layout. `mount`: the geometry from a mount point. `identity`: detects
//!   another filesystem. `printed`: the geometry in the output of mkfs.xfs.

mod ag;
mod device;
mod geometry;
mod identity;
mod layout;
mod mount;
mod printed;
mod superblock;
#[cfg(test)]
mod tests;

pub use device::XfsDevice;
pub use geometry::{MAX_AGS, MIN_AG_BYTES, XfsFeatures, XfsGeometry, XfsLog, ag_count};
pub use identity::{identity, mounted_identity};
pub use layout::{ROOTS_AT_MKFS, XfsLayout};
pub use printed::{is_printed, printed};
