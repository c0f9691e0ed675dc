//! Why a layout cannot be read: one line each, with the field, its value and the next step. What
//! can be left out without making the rest wrong is a note of the layout, not an error.

use super::identify::FsKind;
use super::superblock::Uuid;

/// Why there is no layout.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device did not give the bytes.
    #[error(
        "cannot read the {what} at byte {offset}: {source}; check the device (dmesg) and that you may read it"
    )]
    Read {
        /// What was to be read there.
        what: &'static str,
        /// Byte on the device.
        offset: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// `s_magic` is not ext4's.
    #[error(
        "s_magic at byte 1080 is {magic:#06x}, not 0xef53: this is {}, not ext2, ext3 or ext4; name the device that holds the filesystem",
        .found.map_or("nothing we know".to_owned(), |kind| kind.to_string())
    )]
    NotExt {
        /// The value found, 0 where the device is too small to have one.
        magic: u16,
        /// What the device holds instead, `None` when no magic fits.
        found: Option<FsKind>,
    },
    /// `s_feature_incompat` says that this is an external journal.
    #[error(
        "s_feature_incompat has journal_dev: this is an external journal (UUID {uuid}), not a filesystem; name the filesystem that uses it (blkid shows which)"
    )]
    JournalDevice {
        /// UUID of the journal device.
        uuid: Uuid,
    },
    /// A field of the superblock cannot be what it is.
    #[error(
        "the superblock is damaged: {field} is {value}, {rule}; look at it with: e2fsck -n, and at a backup with: e2fsck -n -b 32768"
    )]
    Field {
        /// The kernel's name of the field (fs/ext4/ext4.h, `struct ext4_super_block`).
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it has to be.
        rule: String,
    },
    /// `s_blocks_count` says more than the device has.
    #[error(
        "s_blocks_count is {blocks} blocks of {block_size} bytes, more than the device's {device} bytes: the image is cut off or the device is a part of the array; name the whole of it"
    )]
    BeyondDevice {
        /// `s_blocks_count`.
        blocks: u64,
        /// Bytes a block.
        block_size: u32,
        /// Bytes of the device.
        device: u64,
    },
    /// The mount point cannot be looked at.
    #[error(
        "cannot {what} the mount point: {source}; check that it is still mounted and that you may read it"
    )]
    MountPoint {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is mounted there is no ext4.
    #[error(
        "the mount point is not of ext2, ext3 or ext4 (statfs gives magic {magic:#x}): name where the filesystem is mounted"
    )]
    NotExtMount {
        /// `f_type` of statfs(2).
        magic: u64,
    },
    /// Another filesystem is mounted there, or over it.
    #[error(
        "the mount point is of device {}:{}, not {}:{}: another filesystem is mounted over it; name a path where it can be seen",
        .mounted.0, .mounted.1, .wanted.0, .wanted.1
    )]
    OtherMount {
        /// Device (major, minor) found there.
        mounted: (u32, u32),
        /// Device (major, minor) asked for.
        wanted: (u32, u32),
    },
    /// The kernel refuses to tell the layout.
    #[error("FS_IOC_GETFSMAP on the mount point: {source}; {hint}")]
    GetFsmap {
        /// What the system said.
        source: std::io::Error,
        /// What that means here.
        hint: &'static str,
    },
    /// The kernel's answer makes no sense.
    #[error("the answer of FS_IOC_GETFSMAP {why}; allow the device itself to be read instead")]
    Fsmap {
        /// What is wrong with it.
        why: String,
    },
}
