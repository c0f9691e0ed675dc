//! `raidtrace slow`: why an operation took so long.

pub mod args;
pub mod command;
mod json;
mod screen;
mod source;
mod state;
mod text;
mod view;
