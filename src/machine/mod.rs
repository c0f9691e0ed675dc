//! Block devices, md arrays and their members, filesystems, mounts and tasks of this machine.
//!
//! Reads sysfs, /proc, device mapper tables and md superblocks into plain data ([`HostTopology`]).
//! Runs no other program, except for mkfs.xfs to ask what it would do. File contents are not
//! trusted: nothing here panics, and unreadable information is left out with a note.

mod array;
mod blocks;
pub mod call;
mod cgroup;
mod change;
mod container;
pub mod crowded;
pub mod dm;
pub mod dm_raid;
mod error;
mod filesystems;
pub mod handle;
pub mod host_id;
pub mod landlock;
pub mod limits;
pub mod mballoc;
mod mdstat;
mod metadata;
pub mod mkfs_xfs;
pub mod mounts;
pub mod neighbours;
mod nested;
mod not_running;
pub mod nvme;
mod pool_status;
mod project;
mod resolve;
mod segment;
mod stat;
mod state;
pub mod superblock;
mod sys;
pub mod task;
pub mod thin;
mod types;

pub mod modules;
pub mod output;
pub mod own;
pub mod privileges;
pub mod programs;
pub mod signals;
pub mod symbols;
#[cfg(test)]
pub(crate) mod tests;
pub mod topology;
pub mod tracefs;

pub use cgroup::Cgroups;
pub use change::{differences, with_lost};
pub use container::container_of;
pub use error::HostError;
pub use mdstat::Mdstat;
pub use not_running::{NotRunning, RefusedArray, StoppedArray};
pub use pool_status::PoolStatus;
pub use resolve::{not_running, resolve, resolve_again, resolve_all};
pub use segment::{Segment, Stripe};
pub use stat::{DiskStat, StatFile};
pub use state::{ArrayState, MemberState};
pub use sys::Sys;
pub use types::{
    Array, BeforeReshape, Dev, DeviceRole, Filesystem, HostTopology, MainDevice, Member,
    MemberPiece, MetadataDevice, Mount, NvmePath, QueueFacts,
};
