//! On-disk layouts of filesystems.

pub mod ext4;
