//! On-disk layouts of filesystems: [`ext4`] (with ext2 and ext3) and [`xfs`].
//!
//! * `layout`: the layout of either kind; `range`: its ranges. `identity`: distinguishes
//!   filesystems; `detect`: reads the identity of either kind.
//! * `partitions`: partition tables. `read`: bytes at an offset. `mount`: opens a mount point.
//!   `uuid`: identifiers. `error`: errors.

mod detect;
mod error;
pub mod ext4;
mod identity;
mod layout;
mod mount;
mod partitions;
mod range;
mod read;
mod uuid;
pub mod xfs;

pub use error::Error;
pub use identity::Identity;
pub use layout::Layout;
pub use partitions::{Partition, partitions};
pub use range::SectorRange;
pub(crate) use read::Fields;
pub use read::ReadAt;
pub use uuid::Uuid;
