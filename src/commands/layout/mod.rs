//! `raidtrace layout`: placement of a filesystem's metadata on the members of an array, and its skew.
//!
//! * `table`, `json`, `picture`: output of a report.
//! * `comparison`: output of `--search`; `agsizes`: the same for XFS.
//! * `xfs`: plans, advice and search for XFS.
//! * `load`: `--load`.

mod agsizes;
pub mod args;
pub mod command;
pub mod comparison;
mod json;
mod load;
mod picture;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_xfs;
mod xfs;
