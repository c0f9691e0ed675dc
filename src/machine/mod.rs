//! What this machine has: block devices, md arrays and their members, filesystems and mounts.
//!
//! Owns: reading sysfs, /proc, device mapper tables and md superblocks, and making plain data of them ([`HostTopology`]).
//! Knows nothing of BPF, of what lies inside a filesystem, or of how md computes addresses. Starts no program and parses
//! no program's output. Whatever a file holds, it does not panic: what cannot be read is left out and said in a note.

mod array;
mod blocks;
mod cgroup;
mod change;
pub mod dm;
mod error;
mod filesystems;
pub mod handle;
pub mod mballoc;
mod mdstat;
mod mounts;
mod nested;
mod places;
mod project;
mod resolve;
mod stat;
mod state;
pub mod superblock;
mod sys;
pub mod task;
mod types;

pub mod output;
pub mod signals;
pub mod symbols;
#[cfg(test)]
pub(crate) mod tests;
pub mod topology;

pub use cgroup::Cgroups;
pub use change::{differences, with_lost};
pub use error::HostError;
pub use mdstat::Mdstat;
pub use resolve::{resolve, resolve_again, resolve_all};
pub use stat::{DiskStat, StatFile};
pub use state::{ArrayState, MemberState};
pub use sys::Sys;
pub use types::{
    Array, BeforeReshape, Dev, Filesystem, HostTopology, Member, Mount, QueueFacts, Segment,
};
