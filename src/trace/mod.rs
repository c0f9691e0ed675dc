//! The recording: an Arrow IPC stream.
//!
//! * [`item`]: what it is made of; [`header`]: what it is of; [`schema`]: its columns.
//! * [`writer`]: gathers `rows`; a thread of its own `encode`s and writes them.

mod encode;
#[cfg(test)]
pub(crate) mod fixture;
pub mod header;
pub mod item;
mod rows;
pub mod schema;
pub mod writer;
