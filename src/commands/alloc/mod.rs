//! `raidtrace alloc`: how the ext4 block allocator spends its time, and why.
//!
//! * [`command`]: runs the command. [`source`]: the part that runs on the session's thread. [`outputs`]: optional output files.
//! * [`state`], [`view`], [`screen`]: the screen.
//! * [`text`]: an interval as text; [`replay`]: reads intervals from a recording.
//! * [`tree`], [`folded`], [`flame`]: stack samples as a tree, as folded lines, as a flame graph.

pub mod args;
pub mod command;
pub mod flame;
pub mod folded;
pub mod outputs;
pub mod replay;
pub mod screen;
pub mod source;
pub mod state;
pub mod text;
pub mod tree;
pub mod view;
