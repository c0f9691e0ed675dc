//! `raidtrace report`: what a recording says, over the whole of it or a part.
//!
//! * [`gather`]: one pass over the file. [`timeline`]: intervals of it. [`text`], [`chart`],
//!   [`json`]: say it. [`time`]: what `--from`
//!   and `--to` mean, and local time.

pub mod chart;
pub mod command;
pub mod gather;
pub mod json;
pub mod text;
pub mod time;
pub mod timeline;
