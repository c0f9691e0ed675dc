//! `raidtrace layout`: placement of a filesystem's metadata on the members of an array, and its skew.
//!
//! * `table`, `json`, `picture`: output of a report.
//! * `comparison`: output of `--search`.
//! * `load`: `--load`.

pub mod args;
pub mod command;
pub mod comparison;
mod json;
mod load;
mod picture;
mod table;
#[cfg(test)]
mod tests;
