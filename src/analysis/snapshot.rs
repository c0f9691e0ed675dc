//! Data of one interval, for the screen, `--batch`, `--json` and `report`.
//!
//! Figures cover the interval; they are never cumulative.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::CostCounters;
use super::cube::{Amount as _, Cube};
use super::figures::CountedByOp;
use super::files::{Files, MAX_TASK_FILES};
use super::hist::Hist;
use super::lost::Lost;
pub use super::overhead::Overhead;
use crate::origin::{Op, Origin};

/// One interval.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// End of the interval.
    pub time: jiff::Timestamp,
    /// Measured length (not the requested one).
    pub interval: Duration,
    /// Traced arrays, in the order of their names.
    pub arrays: Vec<ArraySnapshot>,
    /// Events that were not seen or not counted.
    pub lost: Lost,
    /// Time spent in raidtrace's own programs.
    pub overhead: Overhead,
    /// Data that this kernel or host cannot provide, one line each.
    pub notes: Vec<String>,
}

/// An array, or a plain disk as an array of one, in one interval.
#[derive(Clone, Debug, Default)]
pub struct ArraySnapshot {
    /// Description of the array.
    pub info: ArrayInfo,
    /// Members by slot; spares and faulty members (no slot) last.
    pub members: Vec<MemberSnapshot>,
    /// Tasks that submitted to the array, largest first.
    pub tasks: Vec<TaskSnapshot>,
    /// Bytes submitted to the array, by all tasks.
    pub submitted: Cube<(Origin, Op), u64>,
    /// Parity written, and blocks read to compute it, by the origin of the writes that caused it;
    /// empty on levels without parity.
    pub costs: Cube<Origin, CostCounters>,
    /// Amplification by origin, over the same time as `hotspot`.
    pub amplification: Option<super::amplification::Amplification>,
    /// Files whose data was submitted.
    pub files: Files,
    /// File data that tasks dirtied, by file.
    pub dirtied_files: Files,
    /// Filesystems on the array whose journals ran out of room.
    pub journal_stalls: Vec<JournalStalls>,
    /// Hot spot, or a summary without one; `None` until it is computed.
    pub hotspot: Option<super::hotspot::Hotspot>,
    /// Facts beside the members' requests, with the counters of the interval; `None` if unknown.
    pub around: Option<super::around::Around>,
    /// The time that tasks wait for the array, and its cause; `None` without `around`.
    pub verdict: Option<super::verdict::Verdict>,
    /// Sentence about the longest slow operation of the last ten seconds; `None` if there was
    /// none, or if slow operations are not traced.
    pub slow: Option<String>,
}

/// Waits of tasks for room in a filesystem's journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JournalStalls {
    /// Kernel name of the filesystem's device: `md127`, `dm-3`.
    pub filesystem: String,
    /// Transactions that were checkpointed while tasks waited.
    pub checkpoints: u64,
    /// Total time of these checkpoints.
    #[serde(rename = "wait_us", serialize_with = "super::units::micros")]
    #[cfg_attr(test, schemars(with = "u64"))]
    pub wait: Duration,
}

/// Description of an array, shown in the header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayInfo {
    /// Kernel name: `md127`, `sda`.
    pub name: String,
    /// The volume `vg/lv` of an LVM RAID, or its name in /dev/mapper if LVM did not make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// `raid0`, `raid5`, ... or `single`.
    pub level: String,
    /// Chunk in bytes; 0 where the level has none (raid1, single).
    pub chunk_bytes: u64,
    /// Size of the array in bytes.
    pub bytes: u64,
    /// raid_disks, including missing members; 1 for `single`.
    pub disks: u32,
    /// `None` if the array is in sync and idle, else e.g. `degraded, recover 12.3 %`,
    /// `stopped`.
    #[serde(rename = "trouble")]
    pub health: Option<String>,
    /// Filesystems on the array, one line each: `ext4 on /srv (md127), 4 KiB blocks, 9594 groups`.
    pub filesystems: Vec<String>,
    /// Allocation groups of an XFS on the array, if they start on few members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uneven_groups: Option<UnevenGroups>,
}

/// Allocation groups of an XFS that start on few members of its array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnevenGroups {
    /// Number of groups; on RAID 10, of their copies.
    pub groups: u64,
    /// Names of the members on which most groups start, by slot.
    pub members: Vec<String>,
    /// Number of groups (on RAID 10, of their copies) that start on `members`.
    pub on_members: u64,
    /// The agsize in bytes for which groups start on all members equally; `None` if there is none
    /// near the present one.
    pub agsize_bytes: Option<u64>,
}

/// A member disk in one interval.
#[derive(Clone, Debug, Default)]
pub struct MemberSnapshot {
    /// Kernel name of the member: `loop1`, `sda2`.
    pub name: String,
    /// md's raid_disk; `None` for a spare or a failed member.
    pub slot: Option<u32>,
    /// `None` when in sync, else `spare`, `faulty`, `missing`, `removed`, ...
    pub health: Option<String>,
    /// Nonzero counters, ordered by (origin, operation).
    pub io: Vec<Cell>,
    /// The other figures that are counted.
    pub counted: CountedByOp,
    /// Kernel disk statistics; `None` if they cannot be read.
    pub disk: Option<DiskUse>,
    /// Last intervals, this one included, oldest first; empty without a history
    /// ([`super::recent`]).
    pub recent: Vec<super::recent::DiskInterval>,
    /// Stall: requests are in flight and none completes. In a report, the longest stall of the
    /// period.
    pub stall: Option<super::recent::Stall>,
}

/// One origin and operation on one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub origin: Origin,
    /// Operation.
    pub op: Op,
    /// Requests completed, counted under the origin of their first bio.
    pub requests: u64,
    /// Bytes completed, exact per origin.
    pub bytes: u64,
    /// Times from allocation of the request to its issue to the driver.
    pub queue: Hist,
    /// Times from issue to completion.
    pub device: Hist,
}

/// Figures from `/sys/block/*/stat` (Documentation/block/stat.rst) for the interval; in a recording
/// `utilisation` is computed from the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiskUse {
    /// Requests in flight at the interval's end.
    pub in_flight: u32,
    /// Share of the interval with at least one request in flight, 0 to 1 (io_ticks).
    #[serde(serialize_with = "super::units::rounded")]
    pub utilisation: f64,
    /// Requests that the kernel counts as completed, all operations.
    pub requests: u64,
    /// Lower bound of the requests that the kernel counts as completed and raidtrace does not.
    pub uncounted: u64,
}

/// A task that submitted to the array, by origin and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSnapshot {
    /// Thread id in the initial pid namespace; 0 for a cgroup in place of a task, see
    /// [`TaskSnapshot::is_throttled`].
    pub pid: u32,
    /// Name from the kernel: untrusted bytes, made printable only when drawn.
    pub comm: Vec<u8>,
    /// Path below the cgroup root; `None` if it could not be resolved. Also untrusted.
    pub cgroup: Option<String>,
    /// `writeback`, `jbd2 journal of md127`, ... for kernel threads that are known by name.
    pub role: Option<String>,
    /// Submitted bios (not requests: merging comes later).
    pub io: Vec<TaskIo>,
    /// Metadata and file data that the task dirtied, written later by jbd2 or writeback. See
    /// [`super::counters::Counters::dirtied`].
    pub dirtied: Vec<TaskIo>,
    /// File data that the task dirtied, by file. Adds up to the file data in `dirtied`, except for
    /// data that was lost or was read one interval later.
    pub dirtied_files: Files<MAX_TASK_FILES>,
}

/// Suffix of the role of a task, or of a cgroup in place of a task, whose bios blk-throttle
/// delayed.
pub const THROTTLED_ROLE: &str = "throttled";

impl TaskSnapshot {
    /// Sort key of tasks: bytes submitted and dirtied, then bios submitted.
    pub fn size(&self) -> (u64, u64) {
        let bytes = self.io.iter().chain(&self.dirtied).map(|i| i.bytes);
        let bios = self.io.iter().map(|i| i.bios);
        (bytes.fold(0, u64::saturating_add), bios.fold(0, u64::saturating_add))
    }

    /// True for a task, or a cgroup (pid 0), whose bios a cgroup's I/O limit (blk-throttle)
    /// delayed.
    pub fn is_throttled(&self) -> bool {
        self.role.as_deref().unwrap_or_default().ends_with(THROTTLED_ROLE)
    }

    /// True for jbd2, xfsaild, writeback and other workers, which submit what others have dirtied.
    pub fn writes_for_others(&self) -> bool {
        let role = self.role.as_deref().unwrap_or_default();
        let roles = ["jbd2 journal", "writeback", "XFS metadata writeback"];
        roles.iter().any(|start| role.starts_with(start)) || self.is_worker()
    }

    /// True for a kernel worker that was not writing back when its name was read.
    pub fn is_worker(&self) -> bool {
        self.role.as_deref() == Some("kernel worker")
    }
}

/// One origin and operation of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TaskIo {
    pub origin: Origin,
    /// Operation.
    pub op: Op,
    /// Bios submitted to the array.
    pub bios: u64,
    /// Bytes of these bios.
    pub bytes: u64,
}

impl MemberSnapshot {
    /// Requests and bytes of the cells that `keep` accepts.
    pub fn sum(&self, keep: impl Fn(&Cell) -> bool) -> (u64, u64) {
        self.io
            .iter()
            .filter(|c| keep(c))
            .fold((0, 0), |(r, b), c| (r.saturating_add(c.requests), b.saturating_add(c.bytes)))
    }

    /// Adds `cell` to the cell of the same origin and operation, or appends it.
    pub fn add_cell(&mut self, cell: Cell) {
        let same = |c: &&mut Cell| (c.origin, c.op) == (cell.origin, cell.op);
        match self.io.iter_mut().find(same) {
            Some(sum) => {
                sum.requests.add(&cell.requests);
                sum.bytes.add(&cell.bytes);
                sum.queue.add(&cell.queue);
                sum.device.add(&cell.device);
            }
            None => self.io.push(cell),
        }
    }

    /// True if the member has a slot and is neither faulty nor missing. Spares and missing members
    /// must not lower the mean that the other members are compared with.
    pub fn is_present(&self) -> bool {
        self.slot.is_some()
            && !matches!(self.health.as_deref(), Some("faulty" | "missing" | "removed"))
    }
}
