//! What the kernel side has counted since it was attached: cumulative, so that a reader can be
//! late without losing anything. The fold takes differences.

use std::collections::{BTreeMap, HashMap};

use super::files::FileId;
use super::hist::Hist;
use super::snapshot::{Lost, Overhead};
use crate::origin::{Op, Origin};

/// All counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Per member, origin and operation.
    pub cells: BTreeMap<CellKey, CellCounters>,
    /// Bios submitted to the arrays since the last reading, by task. These and `files` are not cumulative.
    pub tasks: HashMap<TaskKey, TaskCounters>,
    /// Metadata blocks and file data dirtied since the last reading, by task: they are written later, by jbd2 and by
    /// writeback. The operation is [`Op::Write`]; `bios` are handles, buffers or folios. Origin [`Origin::Unknown`]: metadata.
    pub dirtied: HashMap<TaskKey, TaskCounters>,
    /// File data dirtied since the last reading, by task and file.
    pub dirtied_files: HashMap<DirtyKey, TaskCounters>,
    /// Names of the tasks in `tasks` and `dirtied`.
    pub names: HashMap<TaskId, TaskName>,
    /// Bios of file data since the last reading, by file.
    pub files: HashMap<FileKey, TaskCounters>,
    /// What completing stripes cost, by number of the array and the origin that dirtied them.
    pub costs: BTreeMap<(u32, Origin), CostCounters>,
    /// Waits for room in journals, by device number of the filesystem.
    pub journals: BTreeMap<u32, JournalCounters>,
    /// What was not counted.
    pub lost: Lost,
    /// What counting cost.
    pub overhead: Overhead,
}

/// Members are numbered through all arrays in the order of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellKey {
    /// Number of the member.
    pub member: u32,
    /// What the IO belongs to.
    pub origin: Origin,
    /// What it does.
    pub op: Op,
}

/// One cell.
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
}

impl CellCounters {
    /// Adds another CPU's.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.queue.add(&other.queue);
        self.device.add(&other.device);
    }

    /// What has come since `was`.
    pub fn since(&self, was: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(was.requests),
            bytes: self.bytes.saturating_sub(was.bytes),
            queue: self.queue.since(&was.queue),
            device: self.device.since(&was.device),
        }
    }
}

/// What the members of a RAID 4/5/6 moved so that parity follows what an origin wrote. A stripe that several origins
/// dirtied is divided among them by their bytes in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct CostCounters {
    /// Bytes of P and Q written.
    pub parity: u64,
    /// Bytes read only to compute them.
    pub rmw_read: u64,
}

impl CostCounters {
    /// Adds another interval's.
    pub fn add(&mut self, other: Self) {
        self.parity = self.parity.saturating_add(other.parity);
        self.rmw_read = self.rmw_read.saturating_add(other.rmw_read);
    }

    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            parity: self.parity.saturating_sub(before.parity),
            rmw_read: self.rmw_read.saturating_sub(before.rmw_read),
        }
    }
}

/// Checkpoints of a journal that tasks waited for: the log had less room than the largest transaction takes
/// (fs/jbd2/checkpoint.c, `__jbd2_log_wait_for_space()`). Not those of an unmount, a freeze or a remount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounters {
    /// Transactions whose blocks were written to their places for it.
    pub checkpoints: u64,
    /// Nanoseconds from the begin of each until the log had room. One is under way at a time, however many tasks wait.
    pub wait_ns: u64,
}

impl JournalCounters {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            checkpoints: self.checkpoints.saturating_sub(before.checkpoints),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
        }
    }
}

/// In place of a pid: the low 31 bits of the id of a cgroup whose bio blk-throttle held back, and submitted later from a
/// kworker of its own, where the task that waits for it is not known.
pub const THROTTLED: u32 = crate::contract::THROTTLED;

/// A task on one array: a kworker that serves several arrays does something else on each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// Number of the array in the topology.
    pub array: u32,
    /// As [`TaskKey::pid`].
    pub pid: u32,
}

/// Who submitted what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskKey {
    /// Number of the array in the topology.
    pub array: u32,
    /// Thread id in the initial pid namespace; or [`THROTTLED`] and the id of a cgroup.
    pub pid: u32,
    /// What the IO belongs to.
    pub origin: Origin,
    /// What it does.
    pub op: Op,
}

impl TaskKey {
    /// Its task.
    pub fn id(&self) -> TaskId {
        TaskId {
            array: self.array,
            pid: self.pid,
        }
    }
}

/// Which file, submitted how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Number of the array in the topology.
    pub array: u32,
    /// `None`: it could not be told.
    pub file: Option<FileId>,
    /// What it does.
    pub op: Op,
}

/// A file, and a task that dirtied some of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirtyKey {
    /// Number of the array in the topology.
    pub array: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
    /// The file.
    pub file: FileId,
}

impl DirtyKey {
    /// Its task.
    pub fn task(&self) -> TaskId {
        TaskId {
            array: self.array,
            pid: self.pid,
        }
    }
}

/// A file's name as it was when the file was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    /// In its directory, without the terminating NUL: any bytes but `/`. Empty: not known.
    pub name: Vec<u8>,
    /// Inode and generation of the directory.
    pub parent: Option<(u64, u32)>,
    /// No directory had it by then.
    pub deleted: bool,
}

/// How much a task submitted, or was submitted of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounters {
    /// Bios.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A task as it was in the interval in which it last submitted to an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskName {
    /// Its process (thread group leader).
    pub tgid: u32,
    /// Id of its cgroup in the unified hierarchy (the inode number of the directory). Of [`THROTTLED`] in the hierarchy of
    /// the controller `io` or `blkio`.
    pub cgroup: u64,
    /// `comm`, without the terminating NUL: any bytes.
    pub comm: Vec<u8>,
    /// What a kworker was doing: its work queue, or `flush-9:127` in writeback; else empty.
    pub work: Vec<u8>,
}
