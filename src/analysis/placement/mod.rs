//! Placement of a filesystem's metadata on the members of an array, for existing and planned
//! filesystems.
//!
//! * `size`, `geometry`: parse command-line options.
//! * `target`: finds the filesystem and the array: a device, an image, an e2image, the output of
//!   dumpe2fs.
//! * `dumpe2fs`, `header`: parse the output of dumpe2fs.
//! * `filesystem`: metadata locations and groups. Pure, like the following modules.
//! * `allocation_groups`: the allocation groups of XFS; `agsize`: the members on which they start,
//!   and the size to use.
//! * `figures`: the origins and figures of each kind of filesystem.
//! * `spread`: sectors by member, and skews.
//! * `search`: mke2fs options with an even layout, and their costs.
//! * `grow`: skews on more disks.
//! * `words`: headline, cause and advice as sentences; `report`: all figures and sentences that are
//!   printed.

pub mod agsize;
pub mod allocation_groups;
mod dumpe2fs;
pub mod figures;
pub mod filesystem;
#[cfg(test)]
mod fixtures;
pub mod geometry;
pub mod grow;
mod header;
pub(crate) mod report;
pub mod search;
pub mod size;
pub mod spread;
pub(crate) mod target;
pub mod words;

pub use allocation_groups::AllocationGroups;
pub use filesystem::{BlockGroups, FsMetadata, Groups};
pub use report::PlacementReport;
pub use spread::MIN_UNEVEN_SKEW;
pub use spread::{MemberSpread, Skews, Spread};
pub use target::{Target, TargetArray};
