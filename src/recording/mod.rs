//! The recording: an Arrow IPC stream.
//!
//! * [`header`]: the machine and its arrays; [`schema`]: the columns. Rows are [`item`](crate::analysis::item)s.
//! * [`writer`]: collects `rows`; its thread `encode`s and writes them to an [`output`].
//! * [`reader`]: `frame`s -> record `batch`es, which arrow-ipc validates -> `columns` -> items, by `names`.
//!   `files`: the files of a recording. [`join`](mod@join): makes one of its pieces.
//! * [`alloc`], [`slow`]: intervals of the ext4 allocator and of slow operations, as JSON in the column `text`.
//! * [`source`]: intervals, forwards and back; [`gather`]: one pass over a whole recording.

pub mod alloc;
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
pub mod join;
mod limits;
mod names;
pub mod output;
pub mod reader;
mod rows;
pub mod schema;
pub mod slow;
pub mod source;
pub mod writer;

#[cfg(test)]
mod tests;
