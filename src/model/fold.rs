//! The fold: cumulative counters at two moments, and what they are of -> one [`Snapshot`].

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::counters::{CellCounters, CellKey, CostCounters, Counters, TaskCounters, TaskKey};
use super::files::{FileId, FilePlace, Files};
use super::inner;
use super::snapshot::{
    ArrayInfo, ArraySnapshot, Cell, DiskUse, Lost, MemberSnapshot, Overhead, Snapshot, TaskIo,
    TaskSnapshot,
};
use crate::origin::{Op, Origin};

/// Everything known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The moment, as the wall clock has it.
    pub time: jiff::Timestamp,
    /// The moment on a clock that only goes forward; its start does not matter.
    pub clock: Duration,
    /// Cumulative.
    pub counters: Counters,
    /// The arrays, in the order of their numbers.
    pub arrays: Vec<Subject>,
    /// Names of the tasks in `counters`, by pid.
    pub tasks: HashMap<u32, Person>,
    /// Where the files in `counters` are, of those that were asked for.
    pub files: HashMap<FileId, FilePlace>,
    /// Passed on.
    pub notes: Vec<String>,
}

/// An array as it is now.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// For the header.
    pub info: ArrayInfo,
    /// In the order of their numbers.
    pub members: Vec<MemberNow>,
    /// Why md read is not certain: the kernel side was told that the array was whole and idle, which it no longer is.
    pub doubtful: bool,
}

/// A member as it is now.
#[derive(Clone, Debug, Default)]
pub struct MemberNow {
    /// Kernel name.
    pub name: String,
    /// md's raid_disk.
    pub slot: Option<u32>,
    /// `None` when in sync.
    pub trouble: Option<String>,
    /// The kernel's own statistics, cumulative; `None` when they cannot be read.
    pub disk: Option<DiskCounters>,
}

/// From `/sys/block/*/stat`, cumulative but for `in_flight`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskCounters {
    /// Requests completed, flushes included.
    pub requests: u64,
    /// Milliseconds with a request in flight.
    pub io_ticks_ms: u64,
    /// Requests in flight now.
    pub in_flight: u32,
}

/// A task, named.
#[derive(Clone, Debug, Default)]
pub struct Person {
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
}

impl Fold {
    /// `start`: what was counted so far is not shown.
    pub fn new(start: Sample) -> Self {
        Self { previous: start }
    }

    /// The interval from the last sample to this one.
    pub fn step(&mut self, mut sample: Sample) -> Snapshot {
        // A task's counters may read low for one interval (see `probe::counters`): never go back.
        for (key, io) in &mut sample.counters.tasks {
            if let Some(before) = self.previous.counters.tasks.get(key) {
                io.bios = io.bios.max(before.bios);
                io.bytes = io.bytes.max(before.bytes);
            }
        }
        let was = std::mem::replace(&mut self.previous, sample);
        let now = &self.previous;
        let interval = now.clock.saturating_sub(was.clock);
        let mut first = 0;
        let mut arrays: Vec<ArraySnapshot> = (0u32..)
            .zip(&now.arrays)
            .map(|(number, subject)| {
                let mut members: Vec<MemberSnapshot> = (first..)
                    .zip(&subject.members)
                    .map(|(id, member)| {
                        let before = disk_before(&was, number as usize, (id - first) as usize);
                        MemberSnapshot {
                            name: member.name.clone(),
                            slot: member.slot,
                            trouble: member.trouble.clone(),
                            io: cells(&was.counters.cells, &now.counters.cells, id),
                            disk: disk_use(before, member.disk, interval),
                        }
                    })
                    .collect();
                first += subject.members.len() as u32;
                if subject.doubtful {
                    members.iter_mut().for_each(doubt);
                }
                members.sort_by_key(|m| m.slot.unwrap_or(u32::MAX));
                let tasks = tasks(&was, now, number);
                ArraySnapshot {
                    info: subject.info.clone(),
                    members,
                    entered: entered(&tasks),
                    tasks,
                    costs: costs(&was.counters.costs, &now.counters.costs, number),
                    ledger: None,
                    files: files(now, number),
                    standout: None,
                }
            })
            .collect();
        inner::enter_members(&mut arrays);
        Snapshot {
            time: now.time,
            interval,
            arrays,
            lost: lost(&was.counters.lost, &now.counters.lost),
            overhead: Overhead {
                bpf_ns: now
                    .counters
                    .overhead
                    .bpf_ns
                    .saturating_sub(was.counters.overhead.bpf_ns),
                bpf_events: now
                    .counters
                    .overhead
                    .bpf_events
                    .saturating_sub(was.counters.overhead.bpf_events),
            },
            notes: now.notes.clone(),
        }
    }

    /// Takes out the tasks of the last sample that have submitted nothing since `older`: whoever
    /// deletes them at their source, too, has them start again from nothing.
    pub fn take_idle(&mut self, older: &HashMap<TaskKey, TaskCounters>) -> Vec<TaskKey> {
        self.previous
            .counters
            .tasks
            .extract_if(|key, io| older.get(key) == Some(io))
            .map(|(key, _)| key)
            .collect()
    }

    /// The tasks' counters of the last sample.
    pub fn tasks(&self) -> &HashMap<TaskKey, TaskCounters> {
        &self.previous.counters.tasks
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
    let busy = now.io_ticks_ms.saturating_sub(was.io_ticks_ms) as f64;
    let whole = interval.as_secs_f64() * 1000.0;
    Some(DiskUse {
        in_flight: now.in_flight,
        // The kernel's ticks are jiffies: a full interval can read as slightly more than one.
        utilisation: if whole > 0.0 {
            (busy / whole).min(1.0)
        } else {
            0.0
        },
        requests: now.requests.saturating_sub(was.requests),
    })
}

fn tasks(was: &Sample, now: &Sample, array: u32) -> Vec<TaskSnapshot> {
    let mut by_pid: BTreeMap<u32, Vec<TaskIo>> = BTreeMap::new();
    for (key, io) in &now.counters.tasks {
        if key.array != array {
            continue;
        }
        let before = was.counters.tasks.get(key).copied().unwrap_or_default();
        let (bios, bytes) = (io.bios - before.bios, io.bytes.saturating_sub(before.bytes));
        if bios > 0 {
            by_pid.entry(key.pid).or_default().push(TaskIo {
                origin: key.origin,
                op: key.op,
                bios,
                bytes,
            });
        }
    }
    let mut tasks: Vec<TaskSnapshot> = by_pid
        .into_iter()
        .map(|(pid, mut io)| {
            io.sort_by_key(|i| (i.origin, i.op));
            let person = now.tasks.get(&pid).cloned().unwrap_or_default();
            TaskSnapshot {
                pid,
                comm: person.comm,
                cgroup: person.cgroup,
                role: person.role,
                io,
            }
        })
        .collect();
    let size = |t: &TaskSnapshot| {
        t.io.iter()
            .fold((0u64, 0u64), |(b, n), i| (b + i.bytes, n + i.bios))
    };
    tasks.sort_by(|a, b| size(b).cmp(&size(a)).then(a.pid.cmp(&b.pid)));
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

fn files(now: &Sample, array: u32) -> Files {
    let mut files = Files::new(&now.counters.files, array);
    for file in &mut files.busiest {
        if let Some(place) = now.files.get(&file.id) {
            file.place = place.clone();
        }
    }
    files
}

fn lost(was: &Lost, now: &Lost) -> Lost {
    Lost {
        rows: now.rows.saturating_sub(was.rows),
        issue: now.issue.saturating_sub(was.issue),
        pieces: now.pieces.saturating_sub(was.pieces),
        tasks: now.tasks.saturating_sub(was.tasks),
        files: now.files.saturating_sub(was.files),
        missed: now.missed.saturating_sub(was.missed),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CellKey, DiskCounters, Duration, Fold, MemberNow, Person, Sample, Subject, TaskCounters,
        TaskKey,
    };
    use crate::model::counters::CostCounters;
    use crate::origin::{Op, Origin};

    const BITMAP: CellKey = CellKey {
        member: 1,
        origin: Origin::BlockBitmap,
        op: Op::Write,
    };
    const TASK: TaskKey = TaskKey {
        array: 0,
        pid: 7,
        origin: Origin::FileData,
        op: Op::Read,
    };

    fn sample(second: u64, requests: u64, ticks: u64) -> Sample {
        let member = |name: &str, slot| MemberNow {
            name: name.to_owned(),
            slot,
            disk: Some(DiskCounters {
                requests: requests + 5,
                io_ticks_ms: ticks,
                in_flight: 3,
            }),
            ..MemberNow::default()
        };
        let mut sample = Sample {
            clock: Duration::from_secs(second),
            arrays: vec![Subject {
                // A spare that md lists first is shown last.
                members: vec![member("spare", None), member("sda", Some(0))],
                ..Subject::default()
            }],
            ..Sample::default()
        };
        let cell = sample.counters.cells.entry(BITMAP).or_default();
        cell.requests = requests;
        cell.bytes = requests * 4096;
        cell.device.record(100);
        let task = TaskCounters {
            bios: requests,
            bytes: requests * 512,
        };
        sample.counters.tasks.insert(TASK, task);
        sample.tasks.insert(
            7,
            Person {
                comm: b"cat".to_vec(),
                ..Person::default()
            },
        );
        sample
    }

    #[test]
    fn pre_reads_of_an_interval_in_doubt_are_unknown() {
        let with = |second, mut rmw: u64, doubtful| {
            let mut sample = sample(second, 1, 0);
            sample.arrays[0].doubtful = doubtful;
            for origin in [Origin::RmwRead, Origin::Unknown] {
                let key = CellKey {
                    member: 1,
                    origin,
                    op: Op::Read,
                };
                let cell = sample.counters.cells.entry(key).or_default();
                (cell.requests, cell.bytes) = (rmw, rmw * 4096);
                rmw /= 2;
            }
            sample
        };
        let mut fold = Fold::new(with(10, 0, false));
        let origins = |snapshot: super::Snapshot| -> Vec<_> {
            let io = &snapshot.arrays[0].members[0].io;
            io.iter().map(|c| (c.origin, c.bytes / 4096)).collect()
        };
        assert_eq!(
            origins(fold.step(with(11, 4, false))),
            [(Origin::Unknown, 2), (Origin::RmwRead, 4)]
        );
        assert_eq!(
            origins(fold.step(with(12, 12, true))),
            [(Origin::Unknown, 12)]
        );
    }

    #[test]
    fn figures_are_those_of_the_interval() {
        let mut fold = Fold::new(sample(10, 100, 0));
        let snapshot = fold.step(sample(12, 130, 500));
        assert_eq!(snapshot.interval, Duration::from_secs(2));
        let members = &snapshot.arrays[0].members;
        assert_eq!(members[0].name, "sda");
        let cell = &members[0].io[0];
        assert_eq!(
            (cell.origin, cell.requests, cell.bytes),
            (Origin::BlockBitmap, 30, 30 * 4096)
        );
        assert_eq!(cell.device.count(), 0, "the one value was counted before");
        assert!(members[1].io.is_empty());
        let disk = members[0].disk.unwrap();
        assert_eq!(
            (disk.requests, disk.in_flight, disk.utilisation),
            (30, 3, 0.25)
        );
        let task = &snapshot.arrays[0].tasks[0];
        assert_eq!(
            (task.pid, task.comm.as_slice(), task.io[0].bios),
            (7, &b"cat"[..], 30)
        );
    }

    #[test]
    fn what_entered_is_of_all_tasks_and_of_this_array() {
        let with = |second, requests| {
            let mut sample = sample(second, requests, 0);
            let counters = &mut sample.counters;
            let task = counters.tasks[&TASK];
            counters.tasks.insert(TaskKey { pid: 8, ..TASK }, task);
            counters.tasks.insert(TaskKey { array: 1, ..TASK }, task);
            let (parity, rmw_read) = (requests * 4096, requests * 8192);
            let cost = CostCounters { parity, rmw_read };
            counters.costs.insert((0, Origin::FileData), cost);
            counters.costs.insert((1, Origin::Journal), cost);
            sample
        };
        let mut fold = Fold::new(with(10, 100));
        let array = fold.step(with(11, 130)).arrays.remove(0);
        assert_eq!(
            array.entered,
            [((TASK.origin, TASK.op), 2 * 30 * 512)].into()
        );
        let (parity, rmw_read) = (30 * 4096, 30 * 8192);
        let cost = CostCounters { parity, rmw_read };
        assert_eq!(array.costs, [(Origin::FileData, cost)].into());
        let array = fold.step(with(12, 130)).arrays.remove(0);
        assert!(array.entered.is_empty() && array.costs.is_empty());
    }

    #[test]
    fn nothing_new_is_an_empty_snapshot() {
        let mut fold = Fold::new(sample(10, 100, 0));
        let snapshot = fold.step(sample(11, 100, 0));
        assert!(snapshot.arrays[0].members.iter().all(|m| m.io.is_empty()));
        assert!(snapshot.arrays[0].tasks.is_empty());
    }

    #[test]
    fn a_task_that_reads_low_is_late_not_counted_twice() {
        let mut fold = Fold::new(sample(10, 100, 0));
        assert!(fold.step(sample(11, 90, 0)).arrays[0].tasks.is_empty());
        assert_eq!(
            fold.step(sample(12, 103, 0)).arrays[0].tasks[0].io[0].bios,
            3
        );
    }

    #[test]
    fn an_idle_task_is_taken_out_and_starts_again_from_nothing() {
        let mut fold = Fold::new(sample(10, 100, 0));
        let before = fold.tasks().clone();
        fold.step(sample(11, 101, 0));
        assert!(fold.take_idle(&before).is_empty(), "it was not idle");
        let before = fold.tasks().clone();
        fold.step(sample(12, 101, 0));
        assert_eq!(fold.take_idle(&before), [TASK]);
        assert_eq!(fold.step(sample(13, 4, 0)).arrays[0].tasks[0].io[0].bios, 4);
    }

    #[test]
    fn a_member_that_went_away_has_no_figures_and_no_panic() {
        let mut fold = Fold::new(sample(10, 100, 0));
        let mut gone = sample(11, 100, 0);
        gone.arrays[0].members[1].disk = None;
        assert_eq!(fold.step(gone).arrays[0].members[0].disk, None);
        let mut less = sample(12, 100, 0);
        less.arrays.clear();
        assert!(fold.step(less).arrays.is_empty());
        assert_eq!(fold.step(sample(13, 100, 0)).arrays.len(), 1);
    }
}
