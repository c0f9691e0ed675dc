//! `raidtrace export`: converts a recording for other tools. Parquet is a third of the build, so it
//! is a cargo feature (on by default).

pub mod args;
pub mod command;
#[cfg(feature = "export")]
mod dataset;
mod fio;
mod lines;
mod output;
mod perfetto;
mod period;
#[cfg(feature = "export")]
mod table;
#[cfg(test)]
mod tests;
mod written;
