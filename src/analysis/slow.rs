//! Slow operations of a filesystem: the waits of each operation, and the cause of each wait.
//!
//! * [`event`]: operations, commits of journals, and flushes of members, as the programs of
//!   `bpf/slow*.bpf.c` report them.
//! * [`phase`]: the kinds of waits, and the kernel functions that identify them.
//! * [`waterfall`]: an operation as phases that add up to its length. [`commit`]: a wait for a
//!   commit, cut by the states of the commit.
//! * [`asynchronous`]: operations that go on without their task.
//! * [`sentence`]: an operation in one sentence. [`groups`]: sums by file, task, phase and lock.
//! * [`advice`]: changes that would have shortened an operation.
//! * [`names`]: names of devices and files. [`snapshot`]: an interval. [`history`]: all intervals
//!   since the start. [`recent`]: operations of the last seconds. [`holders`]: the operation of a
//!   lock's holder.

pub mod advice;
pub mod asynchronous;
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
