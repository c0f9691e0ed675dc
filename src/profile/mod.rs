//! What the CPUs are at: samples of kernel stacks, with the functions' names, added up by CPU, thread and stack.
//!
//! * [`sampler`]: from the kernel's samples to a [`Profile`]. [`symbols`]: address -> function.
//! * [`filter`]: which functions belong to the allocator, ext4, jbd2, md and the block layer.
//! * [`sums`]: a [`Profile`]. [`tree`], [`folded`], [`flame`]: its renderings.
//!
//! The timer that samples waits while interrupts are off: what runs then is charged to where they come back on. A
//! softirq on a CPU that is idle but for it counts as busy where `handle_softirqs()` is in the symbol table.

pub mod filter;
pub mod flame;
pub mod folded;
pub mod sampler;
pub mod sums;
pub mod symbols;
pub mod tree;

pub use sampler::Sampler;
pub use sums::{Profile, Stack};
pub use tree::{Node, Tree};
