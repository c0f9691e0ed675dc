//! Identity of an XFS, from its superblock or from the kernel.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::geometry::XfsGeometry;
use super::mount::geometry_of;
use super::superblock::{MAGIC, XfsSuperblock};
use crate::fs::{Error, Identity, ReadAt};

/// Reads the superblock. `None` without an XFS, and while mkfs.xfs runs.
///
/// # Errors
/// The device cannot be read.
pub fn identity(dev: &dyn ReadAt) -> io::Result<Option<Identity>> {
    let mut magic = [0; 4];
    match dev.read_at(0, &mut magic) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    // For an error message, XfsSuperblock::read() would look for other filesystems up to the end of
    // the device.
    if u32::from_be_bytes(magic) != MAGIC {
        return Ok(None);
    }
    match XfsSuperblock::read(dev) {
        Ok(superblock) => Ok(Some(superblock.geometry.identity())),
        Err(Error::Read { source, .. }) if source.kind() != io::ErrorKind::UnexpectedEof => {
            Err(source)
        }
        Err(_) => Ok(None),
    }
}

/// See [`Identity::of_mounted_xfs`].
pub fn mounted_identity(path: &Path, device: (u32, u32)) -> io::Result<Option<Identity>> {
    match geometry_of(path, device) {
        Ok(geometry) => Ok(Some(geometry.identity())),
        // XFS refuses to open any file after a shutdown.
        Err(Error::Mount { source, .. })
            if source.raw_os_error() == Some(Errno::IO.raw_os_error()) =>
        {
            Err(source)
        }
        Err(_) => Ok(None),
    }
}

impl XfsGeometry {
    /// Identity of the filesystem. Leaves out parameters without an effect on fixed places, such as
    /// the stripe unit, which a mount option changes.
    pub fn identity(&self) -> Identity {
        let mut layout = DefaultHasher::new();
        (self.version, self.block_size, self.sector_size).hash(&mut layout);
        (self.inode_size, self.ag_blocks, self.ag_count).hash(&mut layout);
        (self.log, self.features, self.realtime_blocks).hash(&mut layout);
        Identity { uuid: self.uuid, mkfs_time: 0, blocks: self.blocks, layout: layout.finish() }
    }
}
