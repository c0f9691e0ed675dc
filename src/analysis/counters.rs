//! Counters of the BPF programs. Most are cumulative since the programs were attached, so that a
//! late reader loses nothing; those by task and file (tasks, dirtied, files, dirtied_files) are
//! since the last reading. [`super::fold`] takes differences.

use std::collections::HashMap;

use super::cube::{Amount as _, Cube, amount};
use super::figures::Counted;
use super::file_id::FileId;
use super::hist::Hist;
use super::lost::Lost;
use super::overhead::Overhead;
use crate::origin::{Op, Origin};

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Requests by member, origin and operation.
    pub cells: Cube<CellKey, CellCounters>,
    /// The figures of [`COUNTED`](super::figures::COUNTED), by member number and operation.
    pub counted: Cube<(u32, Op), Counted>,
    /// Bios submitted to the arrays since the last reading, by task.
    pub tasks: HashMap<TaskKey, TaskCounters>,
    /// Metadata blocks and file data dirtied since the last reading, by task; jbd2 and writeback
    /// write them later. The operation is [`Op::Write`]; `bios` counts folios of file data, and
    /// buffers of metadata; if origins are not traced, jbd2 handles, and all metadata is
    /// [`Origin::Unknown`].
    pub dirtied: HashMap<TaskKey, TaskCounters>,
    /// File data dirtied since the last reading, by task and file.
    pub dirtied_files: HashMap<DirtyKey, TaskCounters>,
    /// Names of the tasks in `tasks` and `dirtied`.
    pub names: HashMap<TaskId, TaskName>,
    /// Bios of file data since the last reading, by file.
    pub files: HashMap<FileKey, TaskCounters>,
    /// Parity written, and blocks read to compute it, by array number and the origin of the writes
    /// that caused it.
    pub costs: Cube<(u32, Origin), CostCounters>,
    /// Waits for room in journals, by device number of the filesystem.
    pub journals: Cube<u32, JournalCounters>,
    /// Events that were not counted.
    pub lost: Lost,
    /// Time spent counting.
    pub overhead: Overhead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellKey {
    /// Member number, counted through all arrays in the order of the topology.
    pub member: u32,
    /// Origin of the IO.
    pub origin: Origin,
    /// Operation.
    pub op: Op,
}

/// Counters of one member, origin and operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellCounters {
    /// Requests completed.
    pub requests: u64,
    /// Bytes completed.
    pub bytes: u64,
    /// Allocation to issue, µs.
    pub queue: Hist,
    /// Issue to completion, µs.
    pub device: Hist,
    /// Sums of the other figures.
    pub counted: Counted,
}

amount!(CellCounters { requests, bytes, queue, device, counted });

/// Bytes that members of a RAID 4/5/6 moved to update parity for the writes of one origin. The
/// bytes of a stripe that several origins dirtied are split in proportion to their bytes in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct CostCounters {
    /// Bytes of P and Q written.
    pub parity: u64,
    /// Bytes read only to compute P and Q.
    pub rmw_read: u64,
}

amount!(CostCounters { parity, rmw_read });

/// Checkpoints of a journal that tasks waited for: the log had less room than the largest
/// transaction takes (fs/jbd2/checkpoint.c, `__jbd2_log_wait_for_space()`). Checkpoints by an
/// unmount, a freeze or a remount are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounters {
    /// Transactions checkpointed to make room.
    pub checkpoints: u64,
    /// Nanoseconds from the start of each checkpoint until the log had room. Only one runs at a
    /// time, however many tasks wait.
    pub wait_ns: u64,
}

amount!(JournalCounters { checkpoints, wait_ns });

/// Flag in place of a pid. The low 31 bits are the id of a cgroup: blk-throttle delayed a bio of
/// this cgroup and submitted it later from a kthrotld kworker, and no task is known to wait for the
/// bio.
pub const THROTTLED: u32 = crate::contract::THROTTLED;

/// A task on one array: a kworker that serves several arrays has a different name on each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// Number of the array in the topology.
    pub array: u32,
    /// Thread id, see [`TaskKey::pid`].
    pub pid: u32,
}

/// Key of the bios that a task submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskKey {
    /// Number of the array in the topology.
    pub array: u32,
    /// Thread id in the initial pid namespace; or [`THROTTLED`] and the id of a cgroup.
    pub pid: u32,
    /// Origin of the IO.
    pub origin: Origin,
    /// Operation.
    pub op: Op,
}

impl TaskKey {
    pub fn id(&self) -> TaskId {
        TaskId { array: self.array, pid: self.pid }
    }
}

/// Key of the bios of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Number of the array in the topology.
    pub array: u32,
    /// The file; `None` if unknown.
    pub file: Option<FileId>,
    /// Operation.
    pub op: Op,
}

/// A file, and a task that dirtied some of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirtyKey {
    /// Number of the array in the topology.
    pub array: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
    pub file: FileId,
}

impl DirtyKey {
    pub fn task(&self) -> TaskId {
        TaskId { array: self.array, pid: self.pid }
    }
}

/// Name of a file when it was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    /// Name in its directory, without the terminating NUL: any bytes but `/`. Empty if unknown.
    pub name: Vec<u8>,
    /// Inode and generation of the directory.
    pub parent: Option<(u64, u32)>,
    /// True if the file had no directory entry any more.
    pub deleted: bool,
}

/// Bios and bytes of a task or a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TaskCounters {
    pub bios: u64,
    /// Bytes of these bios.
    pub bytes: u64,
}

impl TaskCounters {
    /// A bio.
    pub fn one(bytes: u32) -> Self {
        let bytes = bytes.into();
        Self { bios: 1, bytes }
    }
}

amount!(TaskCounters { bios, bytes });

/// Counts a bio in `run`, the sum of the last bios as long as they have the same key. Returns the
/// run that the bio ends. The next bio mostly has the key of the last one, so that a run saves most
/// look-ups in a map.
#[inline]
pub(super) fn count_run<K: PartialEq>(
    run: &mut Option<(K, TaskCounters)>,
    key: K,
    bytes: u32,
) -> Option<(K, TaskCounters)> {
    let bio = TaskCounters::one(bytes);
    match run {
        Some((last, sum)) if *last == key => {
            sum.add(&bio);
            None
        }
        _ => run.replace((key, bio)),
    }
}

/// Name of a task, from the interval in which the task last submitted to an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskName {
    /// Process id (thread group leader).
    pub tgid: u32,
    /// Cgroup id in the unified hierarchy (the inode number of the directory); for [`THROTTLED`],
    /// in the hierarchy of the controller `io` or `blkio`.
    pub cgroup: u64,
    /// `comm`, without the terminating NUL: any bytes.
    pub comm: Vec<u8>,
    /// Work queue of a kworker, or `flush-9:127` for writeback; empty otherwise.
    pub work: Vec<u8>,
}
