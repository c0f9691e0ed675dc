//! `raidtrace alloc`: what the ext4 block allocator spends its time on, and why.
//!
//! * [`command`]: joins it all. [`state`], [`view`], [`screen`]: the live screen, as [`top`](crate::ui)'s.
//! * [`text`], [`json`]: write an interval to a pipe; [`replay`] reads the latter, by the types of [`wire`].
//! * [`tree`], [`folded`], [`flame`]: renderings of the samples.

pub mod args;
pub mod command;
pub mod flame;
pub mod folded;
pub mod json;
pub mod replay;
pub mod screen;
pub mod state;
pub mod text;
pub mod tree;
pub mod view;
mod wire;
