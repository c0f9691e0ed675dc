//! What can go wrong, each in one line: what, why, what to do.

use std::path::PathBuf;

/// Why the machine could not be described, or no longer is as it was.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No sysfs.
    #[error("/sys/block is not there: sysfs is not mounted: mount -t sysfs sysfs /sys")]
    NoSysfs,
    /// A file that every kernel has cannot be read.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// Which file.
        what: String,
        /// What the kernel said.
        why: String,
    },
    /// No device and no path of that name.
    #[error("{target}: no such device or directory: ls /sys/block shows what this machine has")]
    NotFound {
        /// As typed.
        target: String,
    },
    /// Something that is neither a block device nor a mount point.
    #[error(
        "{target}: neither a block device nor a mount point: it is on the filesystem mounted at {mounted}: name that"
    )]
    NotMountPoint {
        /// As typed.
        target: String,
        /// The mount point above it.
        mounted: PathBuf,
    },
    /// The same, and the filesystem that it is on has no disk either.
    #[error(
        "{target}: neither a block device nor a mount point, and no disk beneath the {fstype} that it is on: name a disk, an array or a mount point"
    )]
    NotBlock {
        /// As typed.
        target: String,
        /// `devtmpfs`, `proc`, `overlay`, ...
        fstype: String,
    },
    /// A mount without a block device.
    #[error(
        "{target} is {fstype}: no disk beneath that raidtrace could find: name a disk, an array or another mount point"
    )]
    NoDisk {
        /// As typed.
        target: String,
        /// `tmpfs`, `nfs4`, `overlay`, ...
        fstype: String,
    },
    /// A device mapper device that has nothing below.
    #[error(
        "{target}: nothing beneath it (its device mapper table names no disk): name a disk or an array"
    )]
    NothingBeneath {
        /// As typed.
        target: String,
    },
    /// An md device that serves no IO.
    #[error(
        "{name} is {state}: md serves no IO on it: start it (mdadm --run /dev/{name}) or name another"
    )]
    NotRunning {
        /// Kernel name.
        name: String,
        /// md/array_state.
        state: String,
    },
    /// An md container.
    #[error(
        "{name} is an md container, which holds metadata and no IO: name an array in it: {arrays}"
    )]
    Container {
        /// Kernel name.
        name: String,
        /// The arrays in it.
        arrays: String,
    },
    /// Nothing named, nothing found.
    #[error("no md array holds a mounted filesystem and no disk does: name one: raidtrace top sda")]
    Nothing,
    /// While watching: md no longer runs it.
    #[error("{name} was stopped: nothing to trace until it runs again")]
    Stopped {
        /// Kernel name.
        name: String,
    },
    /// While watching: the disk has gone.
    #[error("{name} was removed from this machine")]
    Removed {
        /// Kernel name.
        name: String,
    },
}
