//! `raidtrace export`: a recording for other tools. A cargo feature, on by default: Parquet is a third of the build.

#[cfg(feature = "export")]
mod columns;
pub mod command;
#[cfg(feature = "export")]
mod lines;
#[cfg(feature = "export")]
mod place;
#[cfg(feature = "export")]
mod table;
