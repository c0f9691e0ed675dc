//! A recording -> the snapshots that live tracing would have made.
//!
//! * [`source`](crate::recording::source): one interval after another, forwards and back.
//! * [`screen`]: the keys and the pace of `top --replay`. [`command`]: what was typed.

pub mod command;
pub mod screen;
