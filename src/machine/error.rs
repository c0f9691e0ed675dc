//! Errors, each in one line: what failed, why, and what to do.

use std::path::PathBuf;

/// Errors of reading the machine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No sysfs.
    #[error("/sys/block does not exist: sysfs is not mounted: mount -t sysfs sysfs /sys")]
    NoSysfs,
    /// A file that every kernel has cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// File name.
        file: String,
        /// Error of the kernel, or the reason why the content is invalid.
        error: String,
    },
    /// The target is neither a device nor a path.
    #[error(
        "{target}: no such device or directory: ls /sys/block lists the devices of this machine"
    )]
    NotFound {
        /// Target as entered.
        target: String,
    },
    /// The target is a path that is neither a block device nor a mount point.
    #[error(
        "{target}: neither a block device nor a mount point: it is on the filesystem mounted at {mounted}: name that mount point"
    )]
    NotMountPoint {
        /// Target as entered.
        target: String,
        /// Mount point of the filesystem that contains it.
        mounted: PathBuf,
    },
    /// The target is a path that is neither, and the filesystem that contains it has no disk.
    #[error(
        "{target}: neither a block device nor a mount point, and it is on {fstype}, which has no disk: name a disk, an array or a mount point"
    )]
    NotBlock {
        /// Target as entered.
        target: String,
        /// `devtmpfs`, `proc`, `overlay`, ...
        fstype: String,
    },
    /// The target is a mount without a block device.
    #[error(
        "{target} is {fstype}: no disk beneath it was found: name a disk, an array or another mount point"
    )]
    NoDisk {
        /// Target as entered.
        target: String,
        /// `tmpfs`, `nfs4`, `overlay`, ...
        fstype: String,
    },
    /// The target is a device mapper device without lower devices.
    #[error(
        "{target}: nothing beneath it (its device mapper table names no disk): name a disk or an array"
    )]
    NothingBeneath {
        /// Target as entered.
        target: String,
    },
    /// The target is an md device that serves no IO.
    #[error(
        "{name} is {state}: md serves no IO on it: start it (mdadm --run /dev/{name}) or name another array"
    )]
    NotRunning {
        /// Kernel name.
        name: String,
        /// md/array_state.
        state: String,
    },
    /// The target is an md container.
    #[error("{name} is an md container, which serves no IO: name an array in it: {arrays}")]
    Container {
        /// Kernel name.
        name: String,
        /// The arrays in it.
        arrays: String,
    },
    /// No target was given, and no disk holds a mounted filesystem.
    #[error("no md array and no disk has a mounted filesystem: name one: raidtrace top sda")]
    Nothing,
    /// md stopped a traced array.
    #[error("{name} was stopped: nothing to trace until it runs again")]
    Stopped {
        /// Kernel name.
        name: String,
    },
    /// A traced disk was removed.
    #[error("{name} was removed from this machine")]
    Removed {
        /// Kernel name.
        name: String,
    },
}
