//! Opens a mount point, to ask the kernel about the filesystem there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, major, minor};

use super::error::Error;

/// Opens `path`, which must be on `device` (major, minor).
pub(super) fn open(path: &Path, device: (u32, u32)) -> Result<File, Error> {
    let failed = |source| Error::Mount {
        call: "open",
        source,
        hint: "check that it is still mounted, and your permission to read it",
    };
    // A mount point can be a file of any kind, and opening it must not block.
    let opened =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let file = opened.map_err(failed)?;
    let dev = file.metadata().map_err(failed)?.dev();
    if (major(dev), minor(dev)) != device {
        return Err(Error::Unusable(format!(
            "the mount point is on device {}:{}, not {}:{}: another filesystem is mounted over \
             it; name a path on the filesystem",
            major(dev),
            minor(dev),
            device.0,
            device.1
        )));
    }
    Ok(file)
}
