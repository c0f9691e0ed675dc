//! `raidtrace record`: every request and submission into a file.
//!
//! * [`command`]: when it begins and ends. [`child`]: a command that it records.
//! * [`recorder`]: drains the kernel's buffer and says once a second what everything is like.
//! * [`items`]: events -> items of the recording; [`join`]: whose a request is. [`dirtied`]: counters -> items.
//! * [`output`]: the files.

pub mod args;
pub mod child;
pub mod command;
pub mod dirtied;
pub mod items;
pub mod join;
pub mod output;
pub mod recorder;
