//! `raidtrace report`: what a recording says, over the whole of it or a part.
//!
//! * [`gather`]: one pass over the file. [`text`], [`json`]: say it. [`time`]: what `--from` and `--to` mean.

pub mod command;
pub mod gather;
pub mod json;
pub mod text;
pub mod time;
