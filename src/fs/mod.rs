//! Filesystems: what is where on their device.

pub mod ext4;
