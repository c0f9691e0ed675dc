//! Errors of reading a layout: one line each, with the field, its value and the next step. A problem
//! that affects only a part of the layout is a note, not an error.

use super::identify::FsKind;
use crate::fs::uuid::Uuid;

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
    /// `s_magic` is not that of ext2, ext3 and ext4.
    #[error(
        "s_magic at byte 1080 is {magic:#06x}, not 0xef53: this is {}, not ext2, ext3 or ext4; name the device that holds the filesystem",
        .found.map_or("unknown data".to_owned(), |kind| kind.to_string())
    )]
    NotExt {
        /// The value found; 0 if the device is too small.
        magic: u16,
        /// Content of the device; `None` without a known magic.
        found: Option<FsKind>,
    },
    /// `s_feature_incompat` marks an external journal.
    #[error(
        "s_feature_incompat has journal_dev: this is an external journal (UUID {uuid}), not a filesystem; name the filesystem that uses it (blkid shows which)"
    )]
    JournalDevice {
        /// UUID of the journal device.
        uuid: Uuid,
    },
    /// A field of the superblock has an impossible value.
    #[error(
        "the superblock is damaged: {field} is {value}, {rule}; check it with: e2fsck -n, and a backup with: e2fsck -n -b 32768"
    )]
    Field {
        /// The kernel's name of the field (fs/ext4/ext4.h, `struct ext4_super_block`).
        field: &'static str,
        /// Its value.
        value: u64,
        /// Rule for the value.
        rule: String,
    },
    /// `s_blocks_count` is larger than the device.
    #[error(
        "s_blocks_count is {blocks} blocks of {block_size} bytes, more than the device's {device} bytes: the image is truncated, or the device is only a part of the array; name the whole array"
    )]
    BeyondDevice {
        /// `s_blocks_count`.
        blocks: u64,
        /// Block size in bytes.
        block_size: u32,
        /// Size of the device in bytes.
        device: u64,
    },
    /// The mount point cannot be accessed.
    #[error(
        "cannot {what} the mount point: {source}; check that it is still mounted, and your permission to read it"
    )]
    MountPoint {
        /// Failed operation.
        what: &'static str,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The mounted filesystem is not ext4.
    #[error(
        "the mount point is not on ext2, ext3 or ext4 (statfs returns magic {magic:#x}): name the mount point of the filesystem"
    )]
    NotExtMount {
        /// `f_type` of statfs(2).
        magic: u64,
    },
    /// The mount point is on another filesystem.
    #[error(
        "the mount point is on device {}:{}, not {}:{}: another filesystem is mounted over it; name a path on the filesystem",
        .mounted.0, .mounted.1, .wanted.0, .wanted.1
    )]
    OtherMount {
        /// Device (major, minor) found there.
        mounted: (u32, u32),
        /// Expected device (major, minor).
        wanted: (u32, u32),
    },
    /// FS_IOC_GETFSMAP failed.
    #[error("FS_IOC_GETFSMAP on the mount point: {source}; {hint}")]
    GetFsmap {
        /// Error of the system call.
        source: std::io::Error,
        /// Meaning of the error for this call.
        hint: &'static str,
    },
    /// The result of FS_IOC_GETFSMAP is invalid.
    #[error("the result of FS_IOC_GETFSMAP {why}; allow raidtrace to read the device instead")]
    Fsmap {
        /// Reason.
        why: String,
    },
}

/// Returns the error of a field unless `ok`. `rule` continues the sentence "s_field is 3, ...".
pub(super) fn check(
    ok: bool,
    field: &'static str,
    value: impl Into<u64>,
    rule: &str,
) -> Result<(), Error> {
    if ok {
        return Ok(());
    }
    Err(Error::Field {
        field,
        value: value.into(),
        rule: rule.to_owned(),
    })
}
