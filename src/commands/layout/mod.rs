//! `raidtrace layout`: where a filesystem's metadata falls on the members of an array, and how evenly.

pub mod args;
pub mod command;
pub mod json;
pub mod picture;
#[cfg(test)]
mod screen_tests;
pub mod show;
pub mod table;
