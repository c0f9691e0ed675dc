//! `raidtrace record`: writes every request and submission to a file.
//!
//! * [`command`]: runs the command. [`child`]: the command that is recorded.
//! * [`recording`]: a session that is recorded. [`output`]: the files of a recording. [`summary`]: its last message.

pub mod args;
pub mod child;
pub mod command;
pub mod output;
pub mod recording;
pub mod summary;
