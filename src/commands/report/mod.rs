//! `raidtrace report`: what a recording says. [`gather`](crate::recording::gather) reads it; [`text`], [`chart`] and
//! [`json`] say it.

pub mod args;
pub mod chart;
pub mod command;
pub mod json;
pub mod text;
