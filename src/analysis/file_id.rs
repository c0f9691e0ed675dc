//! Identity of a file.

/// Identity of a file. The generation distinguishes files that used the same inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Kernel device number of the filesystem: major << 20 | minor.
    pub dev: u32,
    /// Inode number.
    pub inode: u64,
    /// Generation of the inode (`lsattr -v`).
    pub generation: u32,
}

impl FileId {
    /// Device number in the format of sysfs: `9:127`.
    pub fn device(&self) -> String {
        format!("{}:{}", self.dev >> 20, self.dev & 0xf_ffff)
    }
}
