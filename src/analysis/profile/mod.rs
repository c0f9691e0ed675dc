//! What the CPUs are at: samples of kernel stacks, with the functions' names, added up by CPU, thread and stack.
//!
//! * [`filter`]: which functions belong to the allocator, ext4, jbd2, md and the block layer.
//! * [`sums`]: a [`Profile`].
//!
//! The timer that samples waits while interrupts are off: what runs then is charged to where they come back on. A
//! softirq on a CPU that is idle but for it counts as busy where `handle_softirqs()` is in the symbol table.

pub mod filter;
pub mod sums;

pub use sums::{Profile, Stack};
