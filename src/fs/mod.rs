//! On-disk layouts of filesystems.

pub mod ext4;
pub mod xfs;

pub use ext4::Uuid;
