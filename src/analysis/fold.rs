//! Turns cumulative counters at two moments into one [`Snapshot`] of the interval between them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::around::Around;
use super::counters::{
    CellCounters, CellKey, Counters, JournalCounters, THROTTLED, TaskCounters, TaskId,
};
use super::cube::{Amount as _, Cube};
use super::files::{FileId, FileLocation, Files};
use super::lost::Loss;
use super::nested;
use super::pending::PendingCharges;
use super::snapshot::{
    ArrayInfo, ArraySnapshot, Cell, DiskUse, JournalStalls, MemberSnapshot, Snapshot, TaskIo,
    TaskSnapshot,
};
use super::uncounted::{self, Uncounted};
use super::units::is_zero;
use crate::origin::{Op, Origin};

/// Counters, arrays and names at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Wall clock time.
    pub time: jiff::Timestamp,
    /// Monotonic time since an arbitrary start.
    pub clock: Duration,
    /// Cumulative counters, except those of tasks and files.
    pub counters: Counters,
    /// Arrays in the order of their numbers.
    pub arrays: Vec<ArrayNow>,
    /// Names of the tasks in `counters`.
    pub tasks: HashMap<TaskId, TaskInfo>,
    /// Locations of those files in `counters` that were looked up.
    pub files: HashMap<FileId, FileLocation>,
    /// Waits for room in journals, cumulative, by number of the array and name of the filesystem's
    /// device.
    pub journals: Cube<(u32, String), JournalCounters>,
    /// Notes for the snapshot.
    pub notes: Vec<String>,
}

/// Current state of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayNow {
    /// Description of the array.
    pub info: ArrayInfo,
    /// Members in the order of their numbers.
    pub members: Vec<MemberNow>,
    /// True if reads by md cannot be told apart from resync: the BPF programs were loaded for an
    /// array in sync and idle, which it no longer is. Recordings call it `doubtful`.
    #[serde(rename = "doubtful")]
    pub read_reason_uncertain: bool,
    /// Facts beside the members' requests, cumulative; `None` in recordings without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub around: Option<Around>,
}

/// Current state of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberNow {
    /// Kernel name.
    pub name: String,
    /// md's raid_disk.
    pub slot: Option<u32>,
    /// `None` when in sync.
    #[serde(rename = "trouble")]
    pub health: Option<String>,
    /// Cumulative kernel statistics; `None` when they cannot be read.
    pub disk: Option<DiskCounters>,
}

/// Disk statistics from `/sys/block/*/stat`, cumulative except for `in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    /// Requests completed, flushes included.
    pub requests: u64,
    /// Milliseconds with a request in flight.
    pub io_ticks_ms: u64,
    /// Requests in flight now.
    pub in_flight: u32,
    /// Requests that the kernel counted and raidtrace did not, since the start of the recording
    /// ([`Fold::uncounted`]).
    #[serde(skip_serializing_if = "is_zero")]
    pub uncounted: u64,
    /// Value of `requests` read just before raidtrace's own counters; `None` if the two cannot be
    /// compared.
    #[serde(skip)]
    pub requests_before: Option<u64>,
    /// Microseconds with a request in flight, computed from the requests of a recording; replaces
    /// `io_ticks_ms`.
    #[serde(skip)]
    pub busy_us: Option<u64>,
}

impl DiskCounters {
    fn busy_us(&self) -> u64 {
        self.busy_us.unwrap_or(self.io_ticks_ms.saturating_mul(1000))
    }
}

/// Name of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskInfo {
    /// `comm`, which may be any bytes.
    pub comm: Vec<u8>,
    /// Path of the task's cgroup.
    pub cgroup: Option<String>,
    /// Role of a known kernel thread.
    pub role: Option<String>,
}

/// Computes intervals; keeps the last sample.
#[derive(Debug)]
pub struct Fold {
    previous: Sample,
    /// Pending charges by array number.
    pending: HashMap<u32, PendingCharges>,
    /// Checks by member name. They continue after a rebase.
    checks: HashMap<String, Uncounted>,
    /// Total uncounted requests by member name since [`Fold::new`].
    uncounted: BTreeMap<String, u64>,
}

impl Fold {
    /// Starts at `start`; earlier counts are not included.
    pub fn new(start: Sample) -> Self {
        Self {
            previous: start,
            pending: HashMap::new(),
            checks: HashMap::new(),
            uncounted: BTreeMap::new(),
        }
    }

    /// Starts the next interval at `start`, after cumulative counters restarted or numbers changed.
    /// Keeps pending charges as long as the arrays are the same, and the checks of members.
    pub fn rebase(&mut self, start: Sample) {
        let names = |sample: &Sample| -> Vec<String> {
            sample.arrays.iter().map(|a| a.info.name.clone()).collect()
        };
        if names(&start) != names(&self.previous) {
            self.pending.clear();
        }
        let members = start.arrays.iter().flat_map(|a| &a.members);
        self.checks.retain(|name, _| members.clone().any(|m| m.name == *name));
        self.previous = start;
    }

    /// Returns the interval from the last sample to this one.
    pub fn step(&mut self, sample: Sample) -> Snapshot {
        let was = std::mem::replace(&mut self.previous, sample);
        let now = &self.previous;
        let interval = now.clock.saturating_sub(was.clock);
        let mut first = 0;
        let (pending, checks) = (&mut self.pending, &mut self.checks);
        let mut lost = now.counters.lost.since(&was.counters.lost);
        let cells = now.counters.cells.since(&was.counters.cells);
        let counted = now.counters.counted.since(&was.counters.counted);
        let costs = now.counters.costs.since(&was.counters.costs);
        let journals = now.journals.since(&was.journals);
        let requests = requests_by_member(&cells, now);
        let mut arrays: Vec<ArraySnapshot> = (0u32..)
            .zip(&now.arrays)
            .map(|(number, subject)| {
                let mut members: Vec<MemberSnapshot> = (first..)
                    .zip(&subject.members)
                    .map(|(id, member)| {
                        let before = was
                            .arrays
                            .get(number as usize)
                            .and_then(|a| a.members.get((id - first) as usize)?.disk);
                        let mut snapshot = MemberSnapshot {
                            name: member.name.clone(),
                            slot: member.slot,
                            health: member.health.clone(),
                            io: self::cells(&cells, id),
                            counted: counted.group_by(|&(member, op)| (member == id).then_some(op)),
                            disk: disk_use(before, member.disk, interval),
                            ..MemberSnapshot::default()
                        };
                        let counted = requests.get(member.name.as_str()).copied().unwrap_or(0);
                        if let (Some(using), Some(before), Some(now)) =
                            (&mut snapshot.disk, before, member.disk)
                        {
                            if let Some(kernel) = now.requests_before {
                                let new = || Uncounted::new(before.requests);
                                let check = checks.entry(member.name.clone()).or_insert_with(new);
                                using.uncounted = check.grow(kernel, counted);
                            }
                            lost.count(Loss::Uncounted, using.uncounted);
                        }
                        snapshot
                    })
                    .collect();
                first += subject.members.len() as u32;
                if subject.read_reason_uncertain {
                    members.iter_mut().for_each(clear_read_reason);
                }
                members.sort_by_key(|m| m.slot.unwrap_or(u32::MAX));
                let tasks = tasks(now, number);
                let io = tasks.iter().flat_map(|t| &t.io);
                let new = costs.group_by(|&(array, origin)| (array == number).then_some(origin));
                let costs = pending.entry(number).or_default().charge(new, &members, now.clock);
                ArraySnapshot {
                    info: subject.info.clone(),
                    members,
                    submitted: io.map(|i| ((i.origin, i.op), i.bytes)).collect(),
                    tasks,
                    costs,
                    files: with_locations(Files::new(&now.counters.files, number), now),
                    dirtied_files: with_locations(
                        Files::dirtied(&now.counters.dirtied_files, number),
                        now,
                    ),
                    journal_stalls: journal_stalls(&journals, number),
                    around: subject.around.as_ref().map(|now| {
                        let same = was.arrays.iter().find(|a| a.info.name == subject.info.name);
                        let before = same.and_then(|a| a.around.as_ref());
                        now.since(before.unwrap_or(now))
                    }),
                    ..ArraySnapshot::default()
                }
            })
            .collect();
        let all = || now.arrays.iter().flat_map(|a| &a.members);
        let is_compared = |m: &MemberNow| m.disk.is_some_and(|d| d.requests_before.is_some());
        checks.retain(|name, _| all().any(|m| m.name == *name && is_compared(m)));
        nested::fill_submitted(&mut arrays);
        for member in arrays.iter().flat_map(|a| &a.members) {
            let growth = member.disk.map_or(0, |d| d.uncounted);
            if growth > 0 {
                *self.uncounted.entry(member.name.clone()).or_default() += growth;
            }
        }
        let mut notes = now.notes.clone();
        notes.extend(uncounted::note(self.uncounted.iter()));
        Snapshot {
            time: now.time,
            interval,
            arrays,
            lost,
            overhead: now.counters.overhead.since(&was.counters.overhead),
            notes,
        }
    }

    /// Requests of `member` since [`Fold::new`] that the kernel counted and raidtrace did not.
    pub fn uncounted(&self, member: &str) -> u64 {
        self.uncounted.get(member).copied().unwrap_or(0)
    }

    /// Replaces the disk statistics in `first` with those of the last sample, for disks in both:
    /// the statistics in `first` were read later than the counters in `first`.
    pub fn resume_disks(&self, first: &mut Sample) {
        let members = |s: &Sample| -> Vec<MemberNow> {
            s.arrays.iter().flat_map(|a| a.members.clone()).collect()
        };
        let before = members(&self.previous);
        for member in first.arrays.iter_mut().flat_map(|a| &mut a.members) {
            let was = before.iter().find(|m| m.name == member.name);
            // Smaller values mean that a new device has taken the name.
            if let (Some(was), Some(now)) = (was.and_then(|m| m.disk), &mut member.disk)
                && was.requests <= now.requests
                && was.io_ticks_ms <= now.io_ticks_ms
            {
                *now = was;
            }
        }
    }
}

/// Requests since the last sample by member name: the volumes of a container share a disk, and the
/// kernel's count is that of the disk.
fn requests_by_member<'a>(
    new: &Cube<CellKey, CellCounters>,
    now: &'a Sample,
) -> HashMap<&'a str, u64> {
    let members: Vec<_> = now.arrays.iter().flat_map(|a| &a.members).collect();
    let mut sums = HashMap::new();
    for (key, cell) in new {
        if let Some(member) = members.get(key.member as usize) {
            *sums.entry(member.name.as_str()).or_default() += cell.requests;
        }
    }
    sums
}

/// A member's part of `new`.
fn cells(new: &Cube<CellKey, CellCounters>, member: u32) -> Vec<Cell> {
    let own =
        new.iter().filter(|(key, new)| key.member == member && (new.requests > 0 || new.bytes > 0));
    own.map(|(key, new)| Cell {
        origin: key.origin,
        op: key.op,
        requests: new.requests,
        bytes: new.bytes,
        queue: new.queue.clone(),
        device: new.device.clone(),
    })
    .collect()
}

/// Changes the origin of `rmw_read` to `unknown`: the reads may have been for a resync.
fn clear_read_reason(member: &mut MemberSnapshot) {
    let rmw = |c: &mut Cell| c.origin == Origin::RmwRead;
    for mut cell in member.io.extract_if(.., rmw).collect::<Vec<_>>() {
        cell.origin = Origin::Unknown;
        member.add_cell(cell);
    }
    member.io.sort_by_key(|c| (c.origin, c.op));
}

fn disk_use(
    was: Option<DiskCounters>,
    now: Option<DiskCounters>,
    interval: Duration,
) -> Option<DiskUse> {
    let (was, now) = (was?, now?);
    let busy = now.busy_us().saturating_sub(was.busy_us()) as f64;
    let whole = interval.as_secs_f64() * 1e6;
    Some(DiskUse {
        in_flight: now.in_flight,
        // The kernel's ticks are jiffies: a full interval can read as slightly more than one.
        utilisation: if whole > 0.0 { (busy / whole).min(1.0) } else { 0.0 },
        requests: now.requests.saturating_sub(was.requests),
        uncounted: now.uncounted.saturating_sub(was.uncounted),
    })
}

fn tasks(now: &Sample, array: u32) -> Vec<TaskSnapshot> {
    let mut by_pid: BTreeMap<u32, [Vec<TaskIo>; 2]> = BTreeMap::new();
    for (kind, counters) in [&now.counters.tasks, &now.counters.dirtied].into_iter().enumerate() {
        for (key, io) in counters.iter().filter(|(key, _)| key.array == array) {
            if io.bios > 0 {
                by_pid.entry(key.pid).or_default()[kind].push(TaskIo {
                    origin: key.origin,
                    op: key.op,
                    bios: io.bios,
                    bytes: io.bytes,
                });
            }
        }
    }
    let mut files: HashMap<u32, Vec<(FileId, TaskCounters)>> = HashMap::new();
    let dirtied = now.counters.dirtied_files.iter();
    for (key, sum) in dirtied.filter(|(key, _)| key.array == array) {
        files.entry(key.pid).or_default().push((key.file, *sum));
        // The task's own counter may appear one reading later.
        by_pid.entry(key.pid).or_default();
    }
    let mut tasks: Vec<TaskSnapshot> = by_pid
        .into_iter()
        .map(|(pid, mut io)| {
            for io in &mut io {
                io.sort_by_key(|i| (i.origin, i.op));
            }
            let [io, dirtied] = io;
            let info = now.tasks.get(&TaskId { array, pid }).cloned().unwrap_or_default();
            let files = files.remove(&pid).unwrap_or_default().into_iter();
            let files = Files::sum(files.map(|(file, sum)| (Some(file), Op::Write, sum)));
            TaskSnapshot {
                pid: if pid & THROTTLED != 0 { 0 } else { pid },
                comm: info.comm,
                cgroup: info.cgroup,
                role: info.role,
                io,
                dirtied,
                dirtied_files: with_locations(files, now),
            }
        })
        .collect();
    tasks.sort_by_key(|t| (std::cmp::Reverse(t.size()), t.pid));
    tasks
}

/// Waits for room in the journals of an array.
fn journal_stalls(new: &Cube<(u32, String), JournalCounters>, array: u32) -> Vec<JournalStalls> {
    let own = new.iter().filter(|((number, _), _)| *number == array);
    own.map(|((_, filesystem), new)| JournalStalls {
        filesystem: filesystem.clone(),
        checkpoints: new.checkpoints,
        wait: Duration::from_nanos(new.wait_ns),
    })
    .collect()
}

fn with_locations<const MOST: usize>(mut files: Files<MOST>, now: &Sample) -> Files<MOST> {
    for file in &mut files.busiest {
        if let Some(location) = now.files.get(&file.id) {
            file.location = location.clone();
        }
    }
    files
}

#[cfg(test)]
mod tests;
