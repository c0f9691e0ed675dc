//! Data of `raidtrace alloc`.
//!
//! * [`fs_reader`]: allocator state that ext4 exports. `hooks`: loads the programs. `bitmaps`:
//!   reads of the members.
//! * [`sampler`]: makes intervals from these and CPU samples.

mod bitmaps;
pub mod fs_reader;
mod hooks;
pub mod sampler;
