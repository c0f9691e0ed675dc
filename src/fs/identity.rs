//! Identity of a filesystem of any kind, to detect that a device no longer holds the filesystem
//! whose layout was read.

use std::fs::File;
use std::io;
use std::path::Path;

use super::uuid::Uuid;
use super::{ext4, xfs};

/// Identity of a filesystem and its layout. Equal identities have equal layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// UUID of the filesystem.
    pub uuid: Uuid,
    /// `s_mkfs_time` of an ext filesystem, seconds since 1970; 0 for XFS.
    pub mkfs_time: u32,
    /// Size of the filesystem in its blocks.
    pub blocks: u64,
    /// Digest of all other parameters that the layout depends on.
    pub(super) layout: u64,
}

impl Identity {
    /// Reads the superblock of an XFS or of an ext filesystem. `None` without either.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn read(dev: &File) -> io::Result<Option<Self>> {
        match xfs::identity(dev)? {
            None => ext4::identity(dev),
            found => Ok(found),
        }
    }

    /// Asks the kernel for the identity of the XFS on `device` (major, minor), mounted at `path`.
    /// The page cache of its device does not show what XFS has written since the mount. `None` if
    /// no XFS of that device is at `path`.
    ///
    /// # Errors
    /// The filesystem does not answer, for example because it was shut down.
    pub fn of_mounted_xfs(path: &Path, device: (u32, u32)) -> io::Result<Option<Self>> {
        xfs::mounted_identity(path, device)
    }
}
