//! `raidtrace top`: the live screen, `--batch`, `--json`, and replay of recordings on the same
//! screen.

pub mod args;
pub mod command;
mod output;
pub mod replay;
mod slow;
