//! Where a filesystem's fixed places fall on the members of an array, for a filesystem that exists or one that does not yet.
//!
//! * `size`, `geometry`: what was typed.
//! * `target`: what it means: a device, an image, an e2image, the text of dumpe2fs.
//! * `dumpe2fs`, `header`: that text.
//! * `filesystem`: fixed places and groups, wherever known from. Pure, as are the next ones.
//! * `spread`: what falls on which member, and how evenly.
//! * `search`: which options would be even, and what they cost.
//! * `grow`: what becomes of it on more disks.
//! * `words`: headline, cause and advice as sentences; `report`: all of it together.

mod dumpe2fs;
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

pub use filesystem::{Filesystem, Groups};
pub use report::Report;
pub use spread::{FIXED, Member, Skews, Spread};
pub use target::{Below, Target};
