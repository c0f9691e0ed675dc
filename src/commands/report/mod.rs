//! `raidtrace report`: a summary of a recording. [`gather`](crate::recording::gather) reads it; [`text`], [`chart`],
//! [`allocator`], [`slow`] and [`json`] print it, [`html`] writes it as a page. [`against`] compares two recordings.

pub mod against;
pub mod allocator;
pub mod args;
pub mod chart;
pub mod command;
pub mod html;
pub mod json;
mod lines;
pub mod slow;
pub mod text;
