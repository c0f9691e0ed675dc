//! The recording: an Arrow IPC stream.
//!
//! * [`item`]: what it is made of; [`header`]: what it is of; [`schema`]: its columns.
//! * [`writer`]: gathers `rows`; a thread of its own `encode`s and writes them.
//! * [`reader`]: `frame`s -> `columns` -> a `batch` -> items, by `names`. It trusts nothing of what it reads.
//!   `files`: which files that are.

mod batch;
mod columns;
mod encode;
pub mod error;
pub(crate) mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod frame;
pub mod header;
pub mod item;
mod names;
pub mod reader;
mod rows;
pub mod schema;
pub mod writer;
