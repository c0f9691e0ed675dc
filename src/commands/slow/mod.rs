//! `raidtrace slow`: explains slow operations.
//!
//! * [`command`]: traces; [`source`]: the source of intervals for the engine. [`replay`]: shows a
//!   recording.
//! * [`filter`]: selects operations.
//! * [`screen`], [`state`], [`view`]: the screen. [`text`]: `--batch`, `--json`.

pub mod args;
pub mod command;
mod filter;
mod replay;
mod screen;
mod source;
mod state;
mod text;
mod view;
