//! The recording: an Arrow IPC stream.
//!
//! * [`header`]: what it is of; [`schema`]: its columns. [`item`](crate::analysis::item)s are what it is made of.
//! * [`writer`]: gathers `rows`; a thread of its own `encode`s and writes them.
//! * [`reader`]: `frame`s -> record `batch`es, which arrow-ipc validates -> `columns` -> items, by `names`.
//!   `files`: which files that are.
//! * [`source`]: intervals of it, forwards and back; [`gather`]: one pass over all of it.

mod batch;
mod columns;
mod encode;
pub mod error;
pub(crate) mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod frame;
pub mod gather;
pub mod header;
mod names;
pub mod reader;
mod rows;
pub mod schema;
pub mod source;
pub mod writer;
