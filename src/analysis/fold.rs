//! The fold: cumulative counters at two moments, and what they are of -> one [`Snapshot`].

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::{
    CellCounters, CellKey, CostCounters, Counters, JournalCounters, THROTTLED, TaskCounters, TaskId,
};
use super::files::{FileId, FileLocation, Files};
use super::nested;
use super::owed::Owed;
use super::snapshot::{
    ArrayInfo, ArraySnapshot, Cell, DiskUse, JournalStalls, MemberSnapshot, Snapshot, TaskIo,
    TaskSnapshot,
};
use super::uncounted::{self, Uncounted};
use crate::origin::{Op, Origin};

/// Everything known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The moment, as the wall clock has it.
    pub time: jiff::Timestamp,
    /// The moment on a clock that only goes forward; its start does not matter.
    pub clock: Duration,
    /// Cumulative, but for tasks and files.
    pub counters: Counters,
    /// The arrays, in the order of their numbers.
    pub arrays: Vec<Subject>,
    /// Names of the tasks in `counters`.
    pub tasks: HashMap<TaskId, TaskInfo>,
    /// Where the files in `counters` are, of those that were asked for.
    pub files: HashMap<FileId, FileLocation>,
    /// Waits for room in journals, cumulative, by number of the array and name of the filesystem's device.
    pub journals: BTreeMap<(u32, String), JournalCounters>,
    /// Passed on.
    pub notes: Vec<String>,
}

/// An array as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// For the header.
    pub info: ArrayInfo,
    /// In the order of their numbers.
    pub members: Vec<MemberNow>,
    /// Why md read is not certain: the kernel side was told that the array was whole and idle, which it no longer is.
    pub doubtful: bool,
}

/// A member as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberNow {
    /// Kernel name.
    pub name: String,
    /// md's raid_disk.
    pub slot: Option<u32>,
    /// `None` if in sync.
    #[serde(rename = "trouble")]
    pub health: Option<String>,
    /// The kernel's own statistics, cumulative; `None` when they cannot be read.
    pub disk: Option<DiskCounters>,
}

/// From `/sys/block/*/stat`, cumulative but for `in_flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    /// Requests completed, flushes included.
    pub requests: u64,
    /// Milliseconds with a request in flight.
    pub io_ticks_ms: u64,
    /// Requests in flight now.
    pub in_flight: u32,
    /// Requests that the kernel counted and raidtrace did not, since the recording began: what [`Fold::uncounted`] says.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncounted: u64,
    /// `requests` as it was just before raidtrace's own counters were read; `None` where the two cannot be compared.
    #[serde(skip)]
    pub requests_before: Option<u64>,
    /// Of a recording: microseconds with a request in flight, by its requests; in place of `io_ticks_ms`.
    #[serde(skip)]
    pub busy_us: Option<u64>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl DiskCounters {
    fn busy_us(&self) -> u64 {
        self.busy_us
            .unwrap_or(self.io_ticks_ms.saturating_mul(1000))
    }
}

/// A task, named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskInfo {
    /// Any bytes.
    pub comm: Vec<u8>,
    /// Path of its cgroup.
    pub cgroup: Option<String>,
    /// What it is, for kernel threads that are known.
    pub role: Option<String>,
}

/// Remembers the last sample.
#[derive(Debug)]
pub struct Fold {
    previous: Sample,
    /// By number of the array.
    owed: HashMap<u32, Owed>,
    /// By number of the array and of the member in it.
    checks: HashMap<(u32, u32), Uncounted>,
    /// By name of the member, since [`Fold::new`].
    uncounted: BTreeMap<String, u64>,
}

impl Fold {
    /// `start`: what was counted so far is not shown.
    pub fn new(start: Sample) -> Self {
        Self {
            previous: start,
            owed: HashMap::new(),
            checks: HashMap::new(),
            uncounted: BTreeMap::new(),
        }
    }

    /// The next interval begins with `start`, whatever there was before: what is cumulative began anew, or numbers are
    /// others. Who is to be charged with what had not completed is still known, as long as the arrays are the same.
    pub fn rebase(&mut self, start: Sample) {
        let names = |sample: &Sample| -> Vec<String> {
            let arrays = sample.arrays.iter();
            arrays.map(|a| a.info.name.clone()).collect()
        };
        if names(&start) != names(&self.previous) {
            self.owed.clear();
        }
        self.checks.clear();
        self.previous = start;
    }

    /// The interval from the last sample to this one.
    pub fn step(&mut self, sample: Sample) -> Snapshot {
        let was = std::mem::replace(&mut self.previous, sample);
        let now = &self.previous;
        let interval = now.clock.saturating_sub(was.clock);
        let mut first = 0;
        let (owed, checks) = (&mut self.owed, &mut self.checks);
        let mut lost = now.counters.lost.since(&was.counters.lost);
        let mut arrays: Vec<ArraySnapshot> = (0u32..)
            .zip(&now.arrays)
            .map(|(number, subject)| {
                let mut members: Vec<MemberSnapshot> = (first..)
                    .zip(&subject.members)
                    .map(|(id, member)| {
                        let place = (number, id - first);
                        let before = disk_before(&was, number as usize, place.1 as usize);
                        let mut snapshot = MemberSnapshot {
                            name: member.name.clone(),
                            slot: member.slot,
                            health: member.health.clone(),
                            io: cells(&was.counters.cells, &now.counters.cells, id),
                            disk: disk_use(before, member.disk, interval),
                            recent: Vec::new(),
                            stall: None,
                        };
                        let counted = snapshot.sum(|_| true).0;
                        if let (Some(using), Some(before), Some(now)) =
                            (&mut snapshot.disk, before, member.disk)
                        {
                            if let Some(kernel) = now.requests_before {
                                let check = checks.entry(place);
                                let check = check.or_insert(Uncounted::new(before.requests));
                                using.uncounted = check.grow(kernel, counted);
                            }
                            lost.uncounted = lost.uncounted.saturating_add(using.uncounted);
                        }
                        snapshot
                    })
                    .collect();
                first += subject.members.len() as u32;
                if subject.doubtful {
                    members.iter_mut().for_each(doubt);
                }
                members.sort_by_key(|m| m.slot.unwrap_or(u32::MAX));
                let tasks = tasks(now, number);
                let new = costs(&was.counters.costs, &now.counters.costs, number);
                let costs = owed
                    .entry(number)
                    .or_default()
                    .charge(new, &members, now.clock);
                ArraySnapshot {
                    info: subject.info.clone(),
                    members,
                    entered: entered(&tasks),
                    tasks,
                    costs,
                    ledger: None,
                    files: placed(Files::new(&now.counters.files, number), now),
                    dirtied_files: placed(Files::dirtied(&now.counters.dirtied_files, number), now),
                    journal_stalls: journal_stalls(&was, now, number),
                    standout: None,
                }
            })
            .collect();
        nested::enter_members(&mut arrays);
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
            overhead: now.counters.overhead.since(was.counters.overhead),
            notes,
        }
    }

    /// Requests of the member of this name that the kernel has counted and raidtrace has not, since [`Fold::new`].
    pub fn uncounted(&self, member: &str) -> u64 {
        self.uncounted.get(member).copied().unwrap_or(0)
    }

    /// Has the statistics of the disks that `first` shares with the last sample go on from there, whatever came since: they
    /// were read later than the counters that `first` begins with.
    pub fn resume_disks(&self, first: &mut Sample) {
        let members = |s: &Sample| -> Vec<MemberNow> {
            s.arrays.iter().flat_map(|a| a.members.clone()).collect()
        };
        let before = members(&self.previous);
        for member in first.arrays.iter_mut().flat_map(|a| &mut a.members) {
            let was = before.iter().find(|m| m.name == member.name);
            // Less than before: a device that has come anew under the old name.
            if let (Some(was), Some(now)) = (was.and_then(|m| m.disk), &mut member.disk)
                && was.requests <= now.requests
                && was.io_ticks_ms <= now.io_ticks_ms
            {
                *now = was;
            }
        }
    }
}

fn cells(
    was: &BTreeMap<CellKey, CellCounters>,
    now: &BTreeMap<CellKey, CellCounters>,
    member: u32,
) -> Vec<Cell> {
    let nothing = CellCounters::default();
    now.iter()
        .filter(|(key, _)| key.member == member)
        .filter_map(|(key, now)| {
            let was = was.get(key).unwrap_or(&nothing);
            let cell = Cell {
                origin: key.origin,
                op: key.op,
                requests: now.requests.saturating_sub(was.requests),
                bytes: now.bytes.saturating_sub(was.bytes),
                queue: now.queue.since(&was.queue),
                device: now.device.since(&was.device),
            };
            (cell.requests > 0 || cell.bytes > 0).then_some(cell)
        })
        .collect()
}

/// Reads that may have been for a resync are nobody's.
fn doubt(member: &mut MemberSnapshot) {
    let rmw = |c: &mut Cell| c.origin == Origin::RmwRead;
    for mut cell in member.io.extract_if(.., rmw).collect::<Vec<_>>() {
        cell.origin = Origin::Unknown;
        match member
            .io
            .iter_mut()
            .find(|c| (c.origin, c.op) == (cell.origin, cell.op))
        {
            Some(unknown) => {
                unknown.requests += cell.requests;
                unknown.bytes += cell.bytes;
                unknown.queue.add(&cell.queue);
                unknown.device.add(&cell.device);
            }
            None => member.io.push(cell),
        }
    }
    member.io.sort_by_key(|c| (c.origin, c.op));
}

fn disk_before(was: &Sample, array: usize, member: usize) -> Option<DiskCounters> {
    was.arrays.get(array)?.members.get(member)?.disk
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
        utilisation: if whole > 0.0 {
            (busy / whole).min(1.0)
        } else {
            0.0
        },
        requests: now.requests.saturating_sub(was.requests),
        uncounted: now.uncounted.saturating_sub(was.uncounted),
    })
}

fn tasks(now: &Sample, array: u32) -> Vec<TaskSnapshot> {
    let mut by_pid: BTreeMap<u32, [Vec<TaskIo>; 2]> = BTreeMap::new();
    for (kind, counters) in [&now.counters.tasks, &now.counters.dirtied]
        .into_iter()
        .enumerate()
    {
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
        // Its own figure may come a reading later.
        by_pid.entry(key.pid).or_default();
    }
    let mut tasks: Vec<TaskSnapshot> = by_pid
        .into_iter()
        .map(|(pid, mut io)| {
            for io in &mut io {
                io.sort_by_key(|i| (i.origin, i.op));
            }
            let [io, dirtied] = io;
            let info = now.tasks.get(&TaskId { array, pid });
            let info = info.cloned().unwrap_or_default();
            let files = files.remove(&pid).unwrap_or_default().into_iter();
            let files = Files::sum(files.map(|(file, sum)| (Some(file), Op::Write, sum)));
            TaskSnapshot {
                pid: if pid & THROTTLED != 0 { 0 } else { pid },
                comm: info.comm,
                cgroup: info.cgroup,
                role: info.role,
                io,
                dirtied,
                dirtied_files: placed(files, now),
            }
        })
        .collect();
    tasks.sort_by_key(|t| (std::cmp::Reverse(t.size()), t.pid));
    tasks
}

fn entered(tasks: &[TaskSnapshot]) -> BTreeMap<(Origin, Op), u64> {
    let mut sums = BTreeMap::new();
    for io in tasks.iter().flat_map(|t| &t.io) {
        let sum: &mut u64 = sums.entry((io.origin, io.op)).or_default();
        *sum = sum.saturating_add(io.bytes);
    }
    sums
}

fn costs(
    was: &BTreeMap<(u32, Origin), CostCounters>,
    now: &BTreeMap<(u32, Origin), CostCounters>,
    array: u32,
) -> BTreeMap<Origin, CostCounters> {
    now.iter()
        .filter(|((number, _), _)| *number == array)
        .map(|(key, now)| (key.1, now.since(was.get(key).copied().unwrap_or_default())))
        .filter(|(_, cost)| *cost != CostCounters::default())
        .collect()
}

fn journal_stalls(was: &Sample, now: &Sample, array: u32) -> Vec<JournalStalls> {
    let own = now.journals.iter().filter(|((n, _), _)| *n == array);
    own.map(|(key, counted)| {
        let new = counted.since(was.journals.get(key).copied().unwrap_or_default());
        JournalStalls {
            filesystem: key.1.clone(),
            checkpoints: new.checkpoints,
            wait: Duration::from_nanos(new.wait_ns),
        }
    })
    .filter(|j| j.checkpoints > 0 || !j.wait.is_zero())
    .collect()
}

fn placed<const MOST: usize>(mut files: Files<MOST>, now: &Sample) -> Files<MOST> {
    for file in &mut files.busiest {
        if let Some(location) = now.files.get(&file.id) {
            file.location = location.clone();
        }
    }
    files
}

#[cfg(test)]
mod tests;
