//! `raidtrace top`: the screen, `--batch` and `--json`, three renderings of one
//! [`Snapshot`](crate::model::snapshot::Snapshot).
//!
//! * [`state`], [`keys`], [`rows`]: what is shown and what a key does. Pure: no terminal, no I/O.
//! * [`view`]: draws them. [`palette`]: colours and letters.
//! * [`batch`], [`json`]: write one interval to a pipe.
//! * [`sampler`] makes the snapshots of what [`live`](crate::live) counts.
//! * [`notice`] has what md does followed between two snapshots.
//! * [`text`]: makes untrusted bytes printable; everything goes through it.
//! * [`term`], [`screen`]: the only parts that touch a terminal.

pub mod batch;
pub mod command;
pub mod json;
pub mod keys;
pub mod notice;
pub mod palette;
pub mod rows;
pub mod sampler;
pub mod screen;
pub mod state;
pub mod term;
pub mod text;
pub mod view;
