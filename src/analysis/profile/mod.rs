//! CPU profile: samples of kernel stacks, summed by CPU, thread and stack.
//!
//! * [`filter`]: functions of the allocator, ext4, jbd2, md and the block layer.
//! * [`sums`]: a [`Profile`].
//!
//! While interrupts are off, the sampling timer is delayed: that time is charged to the function
//! that enables them again. A softirq on an otherwise idle CPU counts as busy if
//! `handle_softirqs()`, or before Linux 6.10 `__do_softirq()`, is in the symbol table.

pub mod filter;
pub mod sums;

pub use sums::{Profile, ProfileStack};
