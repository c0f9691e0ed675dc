//! `raidtrace alloc`: how the ext4 block allocator spends its time, and why.
//!
//! * [`command`]: runs the command. [`source`]: the part that runs on the session's thread.
//!   [`outputs`]: optional output files.
//! * [`state`], [`view`], [`screen`]: the screen.
//! * [`text`]: an interval as text; [`replay`]: reads intervals from a recording.
//! * [`folded`], [`flame`]: stack samples as folded lines, as a flame graph.

pub mod args;
pub mod command;
mod flame;
mod folded;
mod outputs;
mod replay;
mod screen;
mod source;
mod state;
mod text;
mod view;
