//! Sums of each interval of a recording, by subject, collected from its snapshots in bounded
//! memory.
//!
//! If there are too many intervals, pairs of adjoining ones are merged, which doubles their length.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::analysis::amplification::Amplification;
use crate::analysis::cube::Cube;
use crate::analysis::slow::event::OperationKind;
use crate::analysis::slow::snapshot::KindSum;
use crate::analysis::snapshot::{ArraySnapshot, Snapshot, TaskSnapshot};
use crate::origin::{Op, Origin};
use crate::printable::{escape, sanitize};

/// Maximum number of intervals.
const MAX_INTERVALS: usize = 128;
/// Maximum number of tasks and files of an array. If there are more, the smaller half is dropped.
const MAX_NAMES: usize = 4096;
/// Longest interval. In a longer one, the recorder's states are missing.
const MAX_LENGTH: Duration = Duration::from_secs(10);
/// A shorter interval, such as the rest after the last state, is joined to the one before.
const MIN_LENGTH: Duration = Duration::from_millis(500);
/// Bytes of a path that are kept (PATH_MAX).
const MAX_PATH: usize = 4096;
/// Bytes of a task's name that are kept; TASK_COMM_LEN allows 15, /proc shows up to 63 for
/// kworkers.
const MAX_COMM: usize = 64;

/// Subject of a sum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SumSubject {
    /// IO submitted to the array.
    Load,
    /// All members.
    Array,
    /// A member by name.
    Member(String),
    /// An origin and operation on all members.
    Origin(Origin, Op),
    /// An origin and operation on one member.
    Cell(String, Origin, Op),
    /// A task by name, without its pid; printable.
    Task(String),
    /// A file by path; printable.
    File(String),
    /// A kind of operation on files.
    Operation(String),
}

/// Quantity of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Time with a request in flight, s.
    Busy,
    /// Requests completed, or operations.
    Count,
    /// Bios submitted.
    Bios,
    /// Bytes read and written.
    Bytes,
    /// Bytes read.
    ReadBytes,
    /// Bytes that members moved because of writes to the array, and the bytes of these writes.
    WrittenBelow,
    Written,
    /// Total time of operations, µs, and the number that took at least the threshold.
    Time,
    SlowCount,
    /// A sum of [`COUNTED`](crate::analysis::figures::COUNTED).
    Counted(usize),
    /// Requests of an operation by device time: bucket of [`Hist`](crate::analysis::hist::Hist).
    Device(Op, u8),
}

/// Sums by subject and quantity, with a value for each interval. Zeros at the end are left out.
pub type Sums = BTreeMap<(SumSubject, Quantity), Vec<f64>>;

/// Intervals of a recording.
#[derive(Debug, Default)]
pub struct Series {
    /// Length of each interval in seconds.
    pub seconds: Vec<f64>,
    /// Sums by array.
    pub arrays: BTreeMap<String, Sums>,
    /// Sums of operations on files.
    pub operations: Sums,
    /// Total length of the intervals that are left out because states are missing in them.
    pub gaps: Duration,
    /// Number of snapshots in which events were lost.
    pub with_losses: usize,
    /// Snapshots per interval, and in the last interval.
    snapshots: (u32, u32),
}

/// True for operations whose bytes move between host and disk.
pub fn is_moving(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

impl Series {
    /// Adds the next snapshot, and the operations that ended in it.
    pub fn add(&mut self, snapshot: &Snapshot, operations: &Cube<OperationKind, KindSum>) {
        if snapshot.interval > MAX_LENGTH {
            self.gaps += snapshot.interval;
            return;
        }
        self.with_losses += usize::from(snapshot.lost.events() > 0);
        let is_full = self.snapshots.1 >= self.snapshots.0 && snapshot.interval >= MIN_LENGTH;
        if is_full || self.seconds.is_empty() {
            if self.seconds.len() >= MAX_INTERVALS {
                self.merge();
            }
            self.seconds.push(0.0);
            self.snapshots = (self.snapshots.0.max(1), 0);
        }
        self.snapshots.1 += 1;
        let at = self.seconds.len() - 1;
        self.seconds[at] += snapshot.interval.as_secs_f64();
        for array in &snapshot.arrays {
            let sums = self.arrays.entry(array.info.name.clone()).or_default();
            let mut adder = Adder { sums, at };
            adder.members(array, snapshot.interval.as_secs_f64());
            adder.submitted(array);
            drop_names(sums);
        }
        let mut adder = Adder { sums: &mut self.operations, at };
        for (kind, sum) in operations {
            let part = SumSubject::Operation(kind.to_string());
            adder.add(&part, Quantity::Count, sum.count);
            adder.add(&part, Quantity::Time, sum.ns / 1000);
            adder.add(&part, Quantity::SlowCount, sum.slow);
        }
    }

    /// Merges pairs of intervals.
    fn merge(&mut self) {
        self.snapshots.0 *= 2;
        let sums = self.arrays.values_mut().chain([&mut self.operations]);
        for series in sums.flat_map(BTreeMap::values_mut).chain([&mut self.seconds]) {
            *series = series.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }
}

/// Adds to the sums of one interval.
struct Adder<'a> {
    sums: &'a mut Sums,
    at: usize,
}

impl Adder<'_> {
    fn add(&mut self, part: &SumSubject, quantity: Quantity, amount: u64) {
        self.add_f64(part, quantity, amount as f64);
    }

    fn add_f64(&mut self, part: &SumSubject, quantity: Quantity, amount: f64) {
        if amount != 0.0 {
            let series = self.sums.entry((part.clone(), quantity)).or_default();
            series.resize(self.at + 1, 0.0);
            series[self.at] += amount;
        }
    }

    /// Adds what the members did, and the amplification of writes.
    fn members(&mut self, array: &ArraySnapshot, seconds: f64) {
        for member in &array.members {
            let name = &member.name;
            let own = SumSubject::Member(name.clone());
            let busy = member.disk.map_or(0.0, |d| d.utilisation * seconds);
            for part in [&own, &SumSubject::Array] {
                self.add_f64(part, Quantity::Busy, busy);
            }
            let counted = member.counted.total();
            for (at, &sum) in counted.0.iter().enumerate() {
                for part in [&own, &SumSubject::Array] {
                    self.add(part, Quantity::Counted(at), sum);
                }
            }
            for cell in &member.io {
                let (origin, op) = (cell.origin, cell.op);
                let all = SumSubject::Origin(origin, op);
                let bytes = if is_moving(op) { cell.bytes } else { 0 };
                for part in
                    [&SumSubject::Array, &own, &all, &SumSubject::Cell(name.clone(), origin, op)]
                {
                    self.add(part, Quantity::Count, cell.requests);
                    self.add(part, Quantity::Bytes, bytes);
                }
                for (bucket, &n) in (0u8..).zip(cell.device.counts()).filter(|(_, n)| **n > 0) {
                    for part in [&SumSubject::Array, &own, &all] {
                        self.add(part, Quantity::Device(op, bucket), n.into());
                    }
                }
            }
        }
        let amplification = Amplification::new(array, Duration::default());
        let own = amplification.rows.iter().filter(|row| row.op == Op::Write);
        let own = own.map(|row| (SumSubject::Origin(row.origin, Op::Write), *row));
        for (part, row) in own.chain([(SumSubject::Array, amplification.total(Op::Write))]) {
            self.add(&part, Quantity::WrittenBelow, row.below());
            self.add(&part, Quantity::Written, row.submitted);
        }
    }

    /// Adds what tasks submitted, in total, by task and by file.
    fn submitted(&mut self, array: &ArraySnapshot) {
        for task in &array.tasks {
            let name = SumSubject::Task(task_name(task));
            for io in &task.io {
                let bytes = if is_moving(io.op) { io.bytes } else { 0 };
                for part in [&SumSubject::Load, &name] {
                    self.add(part, Quantity::Bios, io.bios);
                    self.add(part, Quantity::Bytes, bytes);
                }
                let read = if io.op == Op::Read { bytes } else { 0 };
                self.add(&SumSubject::Load, Quantity::ReadBytes, read);
            }
        }
        for file in &array.files.busiest {
            if let Some(path) = file.location.path.as_deref() {
                let path = SumSubject::File(escape(path.get(..MAX_PATH).unwrap_or(path)));
                self.add(&path, Quantity::Bytes, file.bytes());
            }
        }
    }
}

/// Drops the smaller half of the tasks and files if there are more than [`MAX_NAMES`].
fn drop_names(sums: &mut Sums) {
    let is_name = |part: &SumSubject| matches!(part, SumSubject::Task(_) | SumSubject::File(_));
    let size = |series: &[f64]| series.iter().sum::<f64>();
    let names = sums.iter().filter(|(key, _)| is_name(&key.0));
    let mut sizes: Vec<f64> = names.map(|(_, series)| size(series)).collect();
    if sizes.len() > 2 * MAX_NAMES {
        sizes.sort_by(f64::total_cmp);
        let median = sizes[sizes.len() / 2];
        sums.retain(|key, series| !is_name(&key.0) || size(series) > median);
    }
}

/// Name of a task that is the same on another host: kernel threads by their role, without the
/// array's name and their number.
fn task_name(task: &TaskSnapshot) -> String {
    let comm = sanitize(task.comm.get(..MAX_COMM).unwrap_or(&task.comm));
    match task.role.as_deref() {
        Some(role) if role.starts_with("jbd2 journal") => "jbd2 journal".to_owned(),
        Some(role) if role.starts_with("writeback") => "writeback".to_owned(),
        Some(role) if comm.is_empty() => role.to_owned(),
        _ if comm.starts_with("kworker/") => "kworker".to_owned(),
        _ if comm.is_empty() => "(unknown task)".to_owned(),
        _ => comm,
    }
}
