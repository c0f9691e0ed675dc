//! Errors of reading a layout: one line each, with the field, its value and the next step.

use crate::fs::ext4::FsKind;

/// Errors of reading a layout.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read of the device failed.
    #[error(
        "cannot read the {what} at byte {offset}: {source}; check dmesg and your permission to read the device"
    )]
    Read {
        /// Structure at that offset.
        what: &'static str,
        /// Byte offset on the device.
        offset: u64,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// `sb_magicnum` is not that of XFS.
    #[error(
        "sb_magicnum at byte 0 is {magic:#010x}, not 0x58465342: this is {}, not XFS; name the device that holds the filesystem",
        .found.map_or("unknown data".to_owned(), |kind| kind.to_string())
    )]
    NotXfs {
        /// The value found; 0 if the device is too small.
        magic: u32,
        /// Content of the device; `None` without a known magic.
        found: Option<FsKind>,
    },
    /// The file is the output of `xfs_metadump`.
    #[error(
        "this is the output of xfs_metadump: restore it with xfs_mdrestore FILE IMAGE, which is sparse, and name IMAGE"
    )]
    Metadump,
    /// A field of the superblock has an impossible value.
    #[error("the superblock is damaged: {field} is {value}, {rule}; check it with: xfs_repair -n")]
    Field {
        /// The kernel's name of the field (`struct xfs_dsb`).
        field: &'static str,
        /// Its value.
        value: u64,
        /// The values that are possible.
        rule: String,
    },
    /// The filesystem is larger than its device.
    #[error(
        "the filesystem has {blocks} blocks of {block_size} bytes, but the device only {bytes} bytes: this is a part of it, or the image is truncated"
    )]
    Truncated {
        /// `sb_dblocks`.
        blocks: u64,
        /// `sb_blocksize`.
        block_size: u32,
        /// Size of the device.
        bytes: u64,
    },
    /// `XFS_IOC_FSGEOMETRY` failed.
    #[error("{path}: XFS_IOC_FSGEOMETRY: {source}: {hint}")]
    Mount {
        /// The mount point.
        path: String,
        /// Error of the system call.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
}
