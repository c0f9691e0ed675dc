//! `raidtrace layout`: placement of a filesystem's metadata on the members of an array, and its skew.
//!
//! * `table`, `json`, `picture`: output of a report.
//! * `comparison`: output of `--search`.

pub mod args;
pub mod command;
pub mod comparison;
mod json;
mod picture;
mod table;
#[cfg(test)]
mod tests;
