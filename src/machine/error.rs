//! Errors, each in one line: what failed, why, and what to do.

/// Errors of reading the machine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No sysfs.
    #[error("/sys/block does not exist: sysfs is not mounted: mount -t sysfs sysfs /sys")]
    NoSysfs,
    /// A file that every kernel has cannot be read: its name, and the reason.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, String),
    /// The target is nothing that can be traced; the complete message.
    #[error("{0}")]
    Target(String),
    /// The target is a mount without a block device: the target as entered, and `tmpfs`, `nfs4`,
    /// `overlay`, ...
    #[error(
        "{0} is {1}: no disk beneath it was found: name a disk, an array or another mount point"
    )]
    NoDisk(String, String),
    /// No target was given, and no disk holds a mounted filesystem.
    #[error("no md array and no disk has a mounted filesystem: name one: raidtrace top sda")]
    Nothing,
    /// md stopped a traced array, named by the kernel.
    #[error("{0} was stopped: nothing to trace until it runs again")]
    Stopped(String),
    /// A traced disk, named by the kernel, was removed.
    #[error("{0} was removed from this machine")]
    Removed(String),
}
