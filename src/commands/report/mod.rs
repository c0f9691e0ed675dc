//! `raidtrace report`: a summary of a recording. [`gather`](crate::recording::gather) reads it;
//! [`text`], [`chart`], [`allocator`], [`slow`] and [`json`] print it, [`html`] writes it as a
//! page. [`against`] compares two recordings.

mod against;
mod allocator;
pub mod args;
mod chart;
pub mod command;
mod html;
mod json;
mod lines;
mod slow;
mod text;
