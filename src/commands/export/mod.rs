//! `raidtrace export`: converts a recording for other tools. A cargo feature, on by default, because Parquet is a third of the
//! build.

pub mod args;
pub mod command;
#[cfg(feature = "export")]
mod lines;
#[cfg(feature = "export")]
mod table;
