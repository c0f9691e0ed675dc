//! `raidtrace top`: the live screen, `--batch`, `--json`, and a recording in the same screen.

pub mod args;
pub mod command;
pub mod replay;
mod slow;
