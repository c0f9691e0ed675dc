//! `raidtrace layout`: placement of a filesystem's metadata on the members of an array, and its
//! skew.
//!
//! * `table`, `json`, `picture`: output of a report.
//! * `found`: output of `--search`; `comparison`: its rows for ext4.
//! * `xfs`: plans, advice and search for XFS. `mkfs`: options of either mkfs.
//! * `load`: `--load`.

pub mod args;
pub mod command;
pub(crate) mod comparison;
mod found;
mod json;
mod load;
mod mkfs;
mod picture;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_xfs;
mod xfs;
