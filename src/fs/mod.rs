//! On-disk layouts of filesystems: [`ext4`] (with ext2 and ext3) and [`xfs`].
//!
//! * `layout`: what both have in common; `identity`: detects another filesystem; `range`: its ranges. `read`: bytes at an offset. `uuid`: identifiers.

pub mod ext4;
mod identity;
mod layout;
mod range;
mod read;
mod uuid;
pub mod xfs;

pub use identity::Identity;
pub use layout::Layout;
pub use range::SectorRange;
pub use read::ReadAt;
pub use uuid::Uuid;
