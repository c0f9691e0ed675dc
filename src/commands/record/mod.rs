//! `raidtrace record`: writes every request and submission to a file.
//!
//! * [`command`]: runs the command. [`child`]: the command that is recorded.
//! * [`recorder`]: writes a session to a recording.
//! * [`items`]: makes items of a recording from events; [`join`]: finds the submission that a request belongs to.
//!   [`dirtied`]: makes items from counters of dirtied data.
//! * [`output`]: the files of a recording. [`summary`]: its last message.

pub mod args;
pub mod child;
pub mod command;
pub mod dirtied;
pub mod items;
pub mod join;
pub mod output;
pub mod recorder;
mod slow_rows;
pub mod summary;
