//! CPU profile: samples of kernel stacks, summed by CPU, thread and stack.
//!
//! * [`filter`]: functions of the allocator, ext4, jbd2, md and the block layer.
//! * [`sums`]: a [`Profile`].
//!
//! The sampling timer is delayed while interrupts are off, so that time is charged to the function that enables them. A
//! softirq on an otherwise idle CPU counts as busy if `handle_softirqs()` is in the symbol table.

pub mod filter;
pub mod sums;

pub use sums::{Profile, Stack};
