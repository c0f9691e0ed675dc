//! The recording: an Arrow IPC stream.
//!
//! * [`header`]: the machine and its arrays. [`schema`]: the columns. A row is an
//!   [`item`](crate::analysis::item).
//! * [`writer`]: collects items in `rows`; its thread encodes them (`encode`) and writes them to an
//!   [`output`].
//! * [`reader`]: splits the stream into messages (`frame`), decodes them (`batch`, `columns`), and
//!   converts rows to items (`names`). `files`: lists the files of a recording. [`join`](mod@join):
//!   joins pieces of a recording to one file.
//! * [`alloc`], [`slow`]: intervals of the ext4 allocator and of slow operations, as JSON in the
//!   column `text`.
//! * `dataset`: files of many recordings as Parquet tables, in a directory or a bucket
//!   ([`dataset_name`]).
//! * [`described`]: arrays and filesystems of a header, for computations.
//! * [`source`]: a series of snapshots, forwards and backwards. [`gather`]: one pass over a whole
//!   recording.

pub mod alloc;
mod batch;
mod columns;
#[cfg(feature = "export")]
pub mod dataset;
pub mod dataset_name;
pub mod described;
mod encode;
pub mod error;
pub mod file_json;
pub(crate) mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod frame;
pub mod gather;
pub mod header;
mod interval;
pub mod join;
mod limits;
pub(crate) mod names;
pub mod output;
pub mod reader;
mod rows;
pub mod schema;
pub mod slow;
pub mod source;
pub mod writer;

/// Why `--dataset` and `-f parquet` are refused without the feature `export`.
pub const WITHOUT_PARQUET: &str =
    "this raidtrace was built without Parquet (cargo build --features export)";

/// Why `--dataset s3://...` is refused without the feature `object-store`.
#[cfg(all(feature = "export", not(feature = "object-store")))]
pub const WITHOUT_OBJECT_STORE: &str = "this raidtrace was built without object storage: \
     name a directory and upload it with rclone copy or aws s3 sync, or build raidtrace with \
     cargo build --features object-store";

#[cfg(test)]
mod tests;
