//! `raidtrace record`: every request of the members and every submission to the arrays, into a file.
//!
//! * [`command`]: when it begins and ends. [`signals`], [`child`]: what may end it.
//! * [`recorder`]: drains the kernel's buffer and says once a second what everything is like.
//! * [`items`]: events -> items of the recording; [`join`]: whose a request is. [`dirtied`]: counters -> items.
//! * [`header`]: what stands at the file's beginning. [`output`]: the files.

pub mod child;
pub mod command;
pub mod dirtied;
pub mod header;
pub mod items;
pub mod join;
pub mod output;
pub mod recorder;
pub mod signals;
