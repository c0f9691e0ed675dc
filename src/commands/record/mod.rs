//! `raidtrace record`: writes every request and submission to a file.
//!
//! * [`command`]: runs the command. [`child`]: the recorded command.
//! * [`recording`]: a recorded session. [`output`]: the files of a recording. [`summary`]: the
//!   final message.

pub mod args;
mod child;
pub mod command;
pub mod output;
pub mod recording;
mod summary;
