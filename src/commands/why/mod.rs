//! `raidtrace why`: the verdict of the next seconds, or of a recording, in ten lines.
//!
//! * [`command`]: watches or reads. [`answer`]: the verdict of all arrays, as text and JSON.

mod answer;
pub mod args;
pub mod command;
