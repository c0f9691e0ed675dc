//! Replays a recording as the snapshots of a live session.
//!
//! * [`source`](crate::recording::source): reads intervals forwards and backwards.
//! * [`demo`]: the recordings that are part of raidtrace.
//! * [`screen`]: keys and pace of `top --replay`. [`command`]: runs `top --replay` and `demo`.

pub mod command;
pub mod demo;
pub mod screen;
