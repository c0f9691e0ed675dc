//! What `raidtrace alloc` samples.
//!
//! * [`places`]: what ext4 says of itself. [`sampler`]: that, the hooks, the CPUs and the disks -> snapshots.

pub mod places;
pub mod sampler;
