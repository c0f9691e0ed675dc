//! `raidtrace slow`: why an operation took so long.
//!
//! * [`command`]: traces; [`source`] is what the engine runs. [`replay`]: shows a recording.
//! * [`filter`]: the operations that the command line asks for.
//! * [`screen`], [`state`], [`view`]: the screen. [`text`]: `--batch`. [`json`]: `--json`.

pub mod args;
pub mod command;
mod filter;
mod json;
mod replay;
mod screen;
mod source;
mod state;
mod text;
mod view;
