//! The figures of one interval that the verdict needs, and their sums.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::kind::{ENDED, WRITEBACK};
use crate::analysis::around::{Around, Asleep, DeviceIo, FullPool, HungTask};
use crate::analysis::cube::{Amount as _, Cube, amount};
use crate::analysis::recent::Waited;
use crate::analysis::snapshot::{ArraySnapshot, Cell, MemberSnapshot, TaskIo, TaskSnapshot};
use crate::origin::{Op, Origin};

/// Bytes that count as much work as a request.
const REQUEST_BYTES: f64 = 65_536.0;
/// Least number of tasks' own writes for a write of jbd2, for tasks to wait for the journal.
const MIN_JOURNAL_RATIO: f64 = 0.1;
/// Reads and writes of an array from whose mean time the usual time is known.
const MIN_USUAL_REQUESTS: u64 = 100_000;
/// Origins of writes that precede those of the data, or repeat them.
pub const EXTRA_WRITES: [Origin; 2] = [Origin::MdBitmap, Origin::Journal];
/// Moments at the end of the calm time in which the array has a member that went away in the slow
/// time: that may begin a little later.
const LAST_MOMENTS: usize = 5;
/// Tasks of an interval that are kept, the largest.
const MAX_TASKS: usize = 8;

/// Reads and writes of an array, and which of them tasks wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// Length, seconds.
    pub seconds: f64,
    /// Reads and writes that the array completed, and the sum of their times, µs.
    ended: [(f64, f64); 2],
    /// Bios of tasks that wait for them, and of all tasks: reads and writes.
    bios: [(f64, f64); 2],
    /// Writes of jbd2, which are in the second number of `bios`.
    journal: f64,
    /// Bytes of the reads and writes that the array completed.
    bytes: f64,
    /// Requests in flight at the end, times the length.
    in_flight: f64,
}

/// Figures of an array in one interval.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    pub over: Duration,
    pub waits: Waits,
    pub members: Vec<Load>,
    /// Work of the array's largest tasks by name.
    pub tasks: Cube<String, f64>,
    /// Names of the largest tasks that wait for their IO, and their bios.
    pub waiting: Cube<String, f64>,
    pub hung: Vec<HungTask>,
    pub asleep: Vec<Asleep>,
    pub suspended: Vec<String>,
    pub full_pools: Vec<FullPool>,
}

/// Load of one member's disk. Work is in requests of 64 KiB: requests, and bytes over 64 KiB.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub name: String,
    /// Kernel name of the disk.
    pub disk: String,
    /// Work of the array, without resync.
    pub own: f64,
    /// Parts of that, by index in [`EXTRA_WRITES`].
    pub extra: [f64; EXTRA_WRITES.len()],
    pub resync: f64,
    /// Bytes read and written by the array.
    pub bytes: f64,
    /// Work of other users of the disk, by name, with their user.
    pub neighbours: BTreeMap<String, (String, f64)>,
    /// Reads and writes of its paths, if it has several (NVMe multipath), by kernel name.
    pub paths: Cube<String, Waited>,
    /// Requests of the array, without resync, from their allocation to completion.
    pub waited: Waited,
    pub completed: u64,
    pub in_flight: u32,
    /// Requests in flight at the ends of intervals, times their lengths, seconds.
    queued: f64,
}

impl Load {
    pub fn neighbour(&self) -> f64 {
        self.neighbours.values().map(|n| n.1).sum()
    }

    pub fn total(&self) -> f64 {
        self.own + self.resync + self.neighbour()
    }

    /// Mean time of the requests, µs. If the member completed none in `seconds` although some are
    /// in flight, they have taken that long.
    pub fn mean_us(&self, seconds: f64) -> Option<f64> {
        let hangs = self.in_flight > 0 && self.completed == 0;
        self.waited.mean_us().or_else(|| hangs.then_some(seconds * 1e6))
    }

    /// Mean time of the disk's requests, µs: the mean of those that completed, or, by Little's law,
    /// the number in flight for each that completes in a second, whichever is longer.
    pub fn queue_us(&self, seconds: f64) -> f64 {
        let queued = if self.completed > 0 { self.queued / self.completed as f64 } else { 0.0 };
        self.mean_us(seconds).unwrap_or(0.0).max(queued * 1e6)
    }

    fn add(&mut self, other: &Self) {
        self.own += other.own;
        self.extra.add(&other.extra);
        self.resync += other.resync;
        self.bytes += other.bytes;
        for (name, (user, work)) in &other.neighbours {
            let sum = self.neighbours.entry(name.clone()).or_default();
            sum.0.clone_from(user);
            sum.1 += work;
        }
        self.paths.merge(&other.paths);
        self.waited.add(&other.waited);
        self.completed.add(&other.completed);
        self.in_flight = other.in_flight;
        self.queued += other.queued;
    }
}

fn work(requests: u64, bytes: u64) -> f64 {
    requests as f64 + bytes as f64 / REQUEST_BYTES
}

fn load(member: &MemberSnapshot, around: &Around, seconds: f64) -> Load {
    let mut load = Load { name: member.name.clone(), ..Load::default() };
    load.disk.clone_from(&load.name);
    for cell in &member.io {
        // A discard has many bytes, none of which moves.
        let moves = matches!(cell.op, Op::Read | Op::Write);
        let done = work(cell.requests, if moves { cell.bytes } else { 0 });
        load.bytes += if moves { cell.bytes as f64 } else { 0.0 };
        if cell.origin == Origin::Resync {
            load.resync += done;
        } else {
            load.own += done;
            if let Some(at) = EXTRA_WRITES.iter().position(|origin| *origin == cell.origin) {
                load.extra[at] += done;
            }
            if moves {
                load.waited.add(&cell.measured());
            }
        }
    }
    if let Some(disk) = member.disk {
        (load.completed, load.in_flight) = (disk.requests, disk.in_flight);
        load.queued = f64::from(disk.in_flight) * seconds;
    }
    let sum = |two: [u64; 2]| two[0].saturating_add(two[1]);
    let waited = |io: &DeviceIo| Waited { requests: sum(io.requests), us: sum(io.ms) as f64 * 1e3 };
    // The times of a mapped device include those of a resync.
    if let Some(io) = around.mapped.get(&load.name).filter(|_| load.resync == 0.0) {
        load.waited = waited(io);
        (load.completed, load.in_flight) = (sum(io.requests), io.in_flight);
        load.queued = f64::from(io.in_flight) * seconds;
    }
    let paths = around.paths.get(&load.name).into_iter().flatten();
    load.paths = paths.map(|(name, io)| (name.clone(), waited(io))).collect();
    let opener = |disk: &str| around.openers.get(disk).cloned().unwrap_or_default();
    if let Some(shared) = around.disks.iter().find(|d| d.member == load.name) {
        let all = work(sum(shared.io.requests), sum(shared.io.bytes));
        let mut rest = all - load.own - load.resync;
        for other in &shared.others {
            let done = work(sum(other.io.requests), sum(other.io.bytes));
            rest -= done;
            load.neighbours.insert(other.device.clone(), (other.user.clone(), done));
        }
        // Requests that split or merge are counted differently: ignore a small rest.
        if rest > 0.1 * all {
            load.neighbours.insert(shared.disk.clone(), (opener(&shared.disk), rest));
        }
        load.disk.clone_from(&shared.disk);
        return load;
    }
    // md reads each byte of a read from one member only.
    let own = |c: &&Cell| c.op == Op::Read && !matches!(c.origin, Origin::Resync | Origin::RmwRead);
    let reads = member.io.iter().filter(own);
    let reads = reads.fold((0u64, 0u64), |sum, c| {
        (sum.0.saturating_add(c.requests), sum.1.saturating_add(c.bytes))
    });
    let foreign = reads.1.saturating_sub(around.io.bytes[0]) as f64 / (reads.1 as f64).max(1.0);
    if foreign > 0.5 {
        let rest = foreign * work(reads.0, reads.1);
        load.own -= rest;
        load.neighbours.insert(load.disk.clone(), (opener(&load.disk), rest));
    }
    load
}

/// Name of a task.
fn name(task: &TaskSnapshot) -> String {
    match &task.comm[..] {
        [] => ENDED.to_owned(),
        comm => String::from_utf8_lossy(comm).into_owned(),
    }
}

amount!(Waits { seconds, ended, bios, journal, bytes, in_flight });

impl Waits {
    /// Bios that tasks wait for, and all: reads or writes. Tasks that write themselves, for an
    /// fsync, wait for the journal, too; nobody is known to wait for a commit of written-back data.
    fn bios(&self, op: usize) -> (f64, f64) {
        let (own, all) = self.bios[op];
        let journal =
            if op == 1 && own >= MIN_JOURNAL_RATIO * self.journal { self.journal } else { 0.0 };
        (own + journal, all)
    }

    /// Number of reads or writes that tasks waited for, and the sum of their times, µs. Bios of
    /// writeback take as long as those of the tasks beside them.
    fn of_op(&self, op: usize) -> (f64, f64) {
        let (waited, all) = self.bios(op);
        let share = if all > 0.0 { waited / all } else { 0.0 };
        (self.ended[op].0 * share, self.ended[op].1 * share)
    }

    /// Mean size of the array's reads and writes, bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes / (self.ended[0].0 + self.ended[1].0).max(1.0)
    }

    /// True if no read or write was submitted or completed.
    pub fn is_idle(&self) -> bool {
        self.ended.iter().chain(&self.bios).all(|pair| *pair == (0.0, 0.0))
    }

    /// True if requests were in flight at the end.
    pub fn is_in_flight(&self) -> bool {
        self.in_flight > 0.0
    }

    /// Number of reads and writes that tasks waited for.
    pub fn requests(&self) -> f64 {
        self.of_op(0).0 + self.of_op(1).0
    }

    fn us(&self) -> f64 {
        self.of_op(0).1 + self.of_op(1).1
    }

    /// Mean time of a read or write that tasks waited for, µs.
    pub fn mean_us(&self) -> Option<f64> {
        let requests = self.requests();
        (requests > 0.0).then(|| self.us() / requests)
    }

    /// Share of the array's bios that tasks wait for; `None` without bios.
    pub fn waited_share(&self) -> Option<f64> {
        let (reads, writes) = (self.bios(0), self.bios(1));
        let all = reads.1 + writes.1;
        (all > 0.0).then(|| (reads.0 + writes.0) / all)
    }

    /// Number of tasks' reads and writes that are waited for at a time, on average: of those that
    /// have ended, or of those in flight if `share` of them are waited for.
    pub fn waiting(&self, share: f64) -> f64 {
        (self.us() / 1e6).max(self.in_flight * share) / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Mean time that these reads and writes took before, in µs, by what the array had counted
    /// since it was assembled; `None` if that is too little to compare with.
    pub fn usual_us(&self, earlier: &DeviceIo) -> Option<f64> {
        let usual = |op: usize| earlier.ms[op] as f64 * 1000.0 / earlier.requests[op].max(1) as f64;
        let all = earlier.requests[0].saturating_add(earlier.requests[1]);
        let (reads, writes) = (self.of_op(0).0, self.of_op(1).0);
        let us = (reads * usual(0) + writes * usual(1)) / (reads + writes).max(1.0);
        (all >= MIN_USUAL_REQUESTS && us > 0.0).then_some(us)
    }

    /// Mean time of all reads and writes, µs.
    pub fn mean_of_all_us(&self) -> Option<f64> {
        let (requests, us) = (self.ended[0].0 + self.ended[1].0, self.ended[0].1 + self.ended[1].1);
        (requests > 0.0).then(|| us / requests)
    }

    /// `reads` or `writes`: those that took most of the time; and its preposition.
    pub fn op(&self) -> (&'static str, &'static str) {
        if self.of_op(0).1 > self.of_op(1).1 { ("reads", "from") } else { ("writes", "to") }
    }
}

impl Moment {
    /// `None` without the facts of [`Around`].
    pub fn new(array: &ArraySnapshot, over: Duration) -> Option<Self> {
        let around = array.around.as_ref()?;
        let present = array.members.iter().filter(|m| m.is_present());
        let mut moment = Self {
            over,
            members: present.map(|m| load(m, around, over.as_secs_f64())).collect(),
            hung: around.hung.clone(),
            asleep: around.asleep.clone(),
            suspended: around.suspended.clone(),
            full_pools: around.full_pools.clone(),
            ..Self::default()
        };
        let waits = &mut moment.waits;
        waits.seconds = over.as_secs_f64();
        waits.in_flight = f64::from(around.io.in_flight) * waits.seconds;
        for (i, ended) in waits.ended.iter_mut().enumerate() {
            *ended = (around.io.requests[i] as f64, around.io.ms[i] as f64 * 1000.0);
            waits.bytes += around.io.bytes[i] as f64;
        }
        // md counts no times before 5.14.
        if waits.ended.iter().all(|e| e.1 == 0.0) {
            let mut waited = Waited::default();
            moment.members.iter().for_each(|m| waited.add(&m.waited));
            let us = waited.mean_us().unwrap_or(0.0);
            waits.ended.iter_mut().for_each(|e| e.1 = e.0 * us);
        }
        moment.add_tasks(array);
        Some(moment)
    }

    fn add_tasks(&mut self, array: &ArraySnapshot) {
        let mut tasks: Vec<&TaskSnapshot> = array.tasks.iter().collect();
        tasks.sort_by_key(|t| std::cmp::Reverse(t.size()));
        // Without jbd2's handles it is not known who dirtied the metadata that is written back.
        let dirtied = || tasks.iter().flat_map(|t| &t.dirtied);
        let known = [
            dirtied().any(|io| io.origin != Origin::FileData),
            dirtied().any(|io| io.origin == Origin::FileData),
        ];
        let is_known = |io: &TaskIo| known[0] || known[1] && io.origin == Origin::FileData;
        for (rank, task) in tasks.iter().enumerate() {
            let role = task.role.as_deref().unwrap_or_default();
            let waits = role.is_empty() || task.is_throttled();
            let (is_journal, writes) = (role.starts_with("jbd2 journal"), task.writes_for_others());
            let mut done = 0.0;
            for io in &task.io {
                let bios = io.bios as f64;
                let i = match io.op {
                    Op::Read => 0,
                    Op::Write => 1,
                    _ => {
                        done += bios;
                        continue;
                    }
                };
                self.waits.bios[i].1 += bios;
                if is_journal {
                    self.waits.journal += bios;
                }
                // A worker reads for a task that waits: of dm-crypt, for example.
                if waits || i == 0 && task.is_worker() {
                    self.waits.bios[i].0 += bios;
                    if rank < MAX_TASKS {
                        self.waiting.add(name(task), &bios);
                    }
                }
                if waits || writes && !is_journal && !is_known(io) {
                    done += work(io.bios, io.bytes);
                }
            }
            done += task.dirtied.iter().map(|io| work(0, io.bytes)).sum::<f64>();
            if done > 0.0 && rank < MAX_TASKS {
                let name = if waits {
                    name(task)
                } else if task.is_worker() {
                    format!("{WRITEBACK}{}", array.info.name)
                } else {
                    role.to_owned()
                };
                self.tasks.add(name, &done);
            }
        }
    }

    /// True if the array has IO in flight and completed none.
    pub fn is_stuck(&self) -> bool {
        let disks = self.members.iter().any(|m| m.in_flight > 0);
        self.waits.ended.iter().all(|e| e.0 == 0.0) && (self.waits.in_flight > 0.0 || disks)
    }
}

pub fn quantile(mut values: Vec<f64>, part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * part) as usize).or(values.last()).copied()
}

pub fn median(values: Vec<f64>) -> Option<f64> {
    quantile(values, 0.5)
}

/// The sum of several moments.
#[derive(Clone, Debug, Default)]
pub struct MomentSum {
    pub waits: Waits,
    pub members: Vec<Load>,
    pub tasks: Cube<String, f64>,
    pub waiting: Cube<String, f64>,
    /// Time asleep of tasks, by name.
    pub asleep: BTreeMap<String, Asleep>,
}

impl MomentSum {
    pub fn of(moments: &[(Timestamp, &Moment)]) -> Self {
        let mut sum = Self::default();
        for (_, moment) in moments {
            sum.waits.add(&moment.waits);
            for load in &moment.members {
                match sum.members.iter_mut().find(|m| m.name == load.name) {
                    Some(all) => all.add(load),
                    None => sum.members.push(load.clone()),
                }
            }
            for asleep in &moment.asleep {
                match sum.asleep.get_mut(&asleep.comm) {
                    Some(all) => all.add(asleep),
                    None => _ = sum.asleep.insert(asleep.comm.clone(), asleep.clone()),
                }
            }
            sum.tasks.merge(&moment.tasks);
            sum.waiting.merge(&moment.waiting);
        }
        sum
    }

    /// The sum of a calm time. The mean times of its members are the medians of the moments' means:
    /// a busy minute among them does not count more than a quiet one. Members that the array lost
    /// earlier are left out.
    pub fn calm(moments: &[(Timestamp, &Moment)]) -> Self {
        let mut sum = Self::of(moments);
        let last = moments.iter().rev().take(LAST_MOMENTS);
        let was = |name: &str| last.clone().any(|k| k.1.members.iter().any(|m| m.name == name));
        sum.members.retain(|m| was(&m.name));
        let mut means = BTreeMap::<&str, Vec<f64>>::new();
        for load in moments.iter().flat_map(|k| &k.1.members) {
            means.entry(&load.name).or_default().extend(load.waited.mean_us());
        }
        for member in &mut sum.members {
            if let Some(us) = means.remove(&*member.name).and_then(median) {
                member.waited.us = us * member.waited.requests as f64;
            }
        }
        sum
    }

    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&Load> {
        self.members.iter().find(|m| m.name == name)
    }

    /// Work of the member `name`, per second.
    pub fn rate(&self, name: &str, of: impl Fn(&Load) -> f64) -> f64 {
        self.per_second(self.member(name).map_or(0.0, of))
    }

    /// `sum` per second.
    pub fn per_second(&self, sum: f64) -> f64 {
        sum / self.waits.seconds.max(f64::MIN_POSITIVE)
    }
}
