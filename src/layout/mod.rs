//! `raidtrace layout`: where a filesystem's fixed places fall on the members of an array, for a filesystem that exists
//! or one that does not yet.
//!
//! * `size`, `geometry`: what was typed.
//! * `target`: what it means: a device, an image, an e2image, the text of dumpe2fs.
//! * `dumpe2fs`, `header`: that text.
//! * `filesystem`: fixed places and groups, wherever known from. Pure, as are the next ones.
//! * `spread`: what falls on which member, and how evenly.
//! * `plan`: what mke2fs would make.
//! * `search`: which options would be even, and what they cost.
//! * `grow`: what becomes of it on more disks.
//! * `words`: what stands out, as sentences.
//! * `table`, `json`, `picture`: renderings of one `report`.
//! * `command`: all of it together.

pub mod command;
mod dumpe2fs;
mod filesystem;
#[cfg(test)]
mod fixtures;
pub mod geometry;
mod grow;
mod header;
mod json;
mod picture;
pub mod plan;
pub(crate) mod report;
#[cfg(test)]
mod screen_tests;
pub mod search;
pub mod size;
mod spread;
mod table;
pub(crate) mod target;
mod words;

pub use filesystem::{Filesystem, Groups};
pub use report::Report;
pub use spread::{FIXED, Member, Skews, Spread};
pub use target::{Below, Target};
