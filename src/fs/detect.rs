//! Reads the identity of the filesystem on a device or at a mount point, whatever its kind.

use std::fs::File;
use std::io;
use std::path::Path;

use super::identity::Identity;
use super::{ext4, xfs};

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
