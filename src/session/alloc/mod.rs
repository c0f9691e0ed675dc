//! Data of `raidtrace alloc`.
//!
//! * [`fs_reader`]: allocator state that ext4 exports. [`sampler`]: intervals of that, hooks, CPU samples and disks.

pub mod fs_reader;
pub mod sampler;
