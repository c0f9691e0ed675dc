//! Slow operations of a filesystem: which waits an operation consisted of, and who or what caused each.
//!
//! * [`event`]: operations, commits of journals, and flushes of members, as the programs of `bpf/slow*.bpf.c` report them.
//! * [`phase`]: the kinds of waits, and the kernel functions that they are recognised by.
//! * [`waterfall`]: an operation as phases that add up to its length. [`commit`]: a wait for a commit, cut by its states.
//! * [`sentence`]: an operation in one sentence. [`groups`]: sums by file, task, phase and lock.
//! * [`advice`]: what would have shortened an operation.
//! * [`names`]: names of devices and files. [`snapshot`]: an interval. [`history`]: all intervals since the start.
//!   [`recent`]: those of the last seconds. [`holders`]: what the holder of a lock did.

pub mod advice;
pub mod commit;
pub mod event;
#[cfg(test)]
pub(crate) mod fixture;
pub mod groups;
pub mod history;
pub mod holders;
pub mod names;
pub mod phase;
pub mod recent;
pub mod sentence;
pub mod snapshot;
#[cfg(test)]
mod tests;
pub mod waterfall;
