//! Sums since the start of `serve`. Sums never decrease, even if the programs are reloaded, or if a
//! member or an array disappears and returns within an hour.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cgroups::{CgroupInterval, CgroupTotals, OTHER, RETENTION};
use crate::analysis::around::Around;
use crate::analysis::counters::CostCounters;
use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::fail_slow::FailSlow;
use crate::analysis::figures::CountedByOp;
use crate::analysis::hist::{BUCKETS, Hist, upper_edge};
use crate::analysis::hotspot::{self, Hotspot};
use crate::analysis::lost::Lost;
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot, MemberSnapshot, Overhead, Snapshot};
use crate::analysis::verdict::Verdict;
use crate::machine::ArrayState;
use crate::origin::{Op, Origin};
use crate::ui::text::sanitize;

/// Maximum number of members, including members that have disappeared.
pub const MAX_MEMBERS: usize = 1024;
/// Maximum number of arrays, including arrays that have disappeared.
pub const MAX_ARRAYS: usize = 256;
/// Number of series of tasks above which some are folded into [`OTHER`].
pub const MAX_TASKS: usize = 512;

/// Upper edges of the buckets for device times, in µs. These are powers of two, at which buckets of
/// [`Hist`] end.
pub const DEVICE_EDGES: [u64; 20] = edges(1);
/// Upper edges of the buckets for queue times, in µs.
pub const QUEUE_EDGES: [u64; 10] = edges(2);

/// Edges from 16 µs, each 2^`step` times the previous one.
const fn edges<const N: usize>(step: usize) -> [u64; N] {
    let mut edges = [0; N];
    let mut i = 0;
    while i < N {
        edges[i] = 16 << (step * i);
        i += 1;
    }
    edges
}

/// A histogram of times with `N` edges. The sum is estimated: each duration counts as the middle of
/// its bucket of [`Hist`].
#[derive(Clone, Debug, PartialEq)]
pub struct Times<const N: usize> {
    /// Number of durations below each edge and not below the previous edge.
    pub counts: [u64; N],
    /// Total number of durations, including those above the last edge.
    pub count: u64,
    /// Estimated sum in µs. The error of a duration of 4 µs or more is at most 12.5 %.
    pub sum_us: f64,
}

impl<const N: usize> Default for Times<N> {
    fn default() -> Self {
        Self { counts: [0; N], count: 0, sum_us: 0.0 }
    }
}

impl<const N: usize> Times<N> {
    fn add(&mut self, hist: &Hist, edges: &[u64; N]) {
        for (bucket, count) in (0..BUCKETS).zip(hist.counts()) {
            if *count == 0 {
                continue;
            }
            let upper = upper_edge(bucket);
            let lower = bucket.checked_sub(1).map_or(0, upper_edge);
            if let Some(to) = self.counts.get_mut(edges.partition_point(|e| *e < upper)) {
                *to += u64::from(*count);
            }
            self.count += u64::from(*count);
            self.sum_us += f64::from(*count) * (lower + upper) as f64 / 2.0;
        }
    }
}

/// Sums of one origin and operation on a member.
#[derive(Clone, Debug, Default)]
pub struct CellTotals {
    pub requests: u64,
    pub bytes: u64,
    pub queue: Times<{ QUEUE_EDGES.len() }>,
    pub device: Times<{ DEVICE_EDGES.len() }>,
}

/// Key of a member: array, name and slot. The slot of a spare is `None`.
pub type MemberKey = (String, String, Option<u32>);

#[derive(Clone, Debug, Default)]
pub struct MemberTotals {
    pub cells: BTreeMap<(Origin, Op), CellTotals>,
    /// The other figures that are counted.
    pub counted: CountedByOp,
    /// Time with a request in flight.
    pub busy: Duration,
    /// Requests in flight at the end of the last interval; `None` if unknown.
    pub in_flight: Option<u32>,
    /// True if the member is in the array and in sync.
    pub is_up: bool,
    /// Time since the member was last in a snapshot.
    absent: Duration,
}

/// Sums and latest figures of an array.
#[derive(Clone, Debug, Default)]
pub struct ArrayTotals {
    pub info: ArrayInfo,
    pub submitted: Cube<(Origin, Op), u64>,
    /// Parity written, and blocks read to compute it, by the origin of the writes that caused it.
    pub costs: Cube<Origin, CostCounters>,
    /// Bytes of member IO per byte submitted, over the last seconds.
    pub amplification: Vec<(Origin, Op, f64)>,
    /// Ratio of the busiest member's load to the mean of all present members, in the last seconds.
    pub skews: Vec<(Origin, Op, f64)>,
    pub hotspot: Option<Hotspot>,
    /// Last verdict.
    pub verdict: Option<Verdict>,
    /// Time for which a task that used the array has been asleep in the kernel without running, the
    /// longest, in ms.
    pub hung_ms: Option<u64>,
    /// Last state of md; `None` for a plain disk or a stopped array.
    pub state: Option<ArrayState>,
    /// Time since the array was last in a snapshot.
    absent: Duration,
}

/// Sums of all tasks with the same name.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskTotals {
    pub bytes: u64,
    /// Time since the last submission.
    idle: Duration,
}

/// Array, task name, origin and operation.
pub type TaskTotalsKey = (String, String, Origin, Op);

#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub arrays: BTreeMap<String, ArrayTotals>,
    pub members: BTreeMap<MemberKey, MemberTotals>,
    /// Sums of tasks by array, task name, origin and operation. Empty unless requested.
    pub tasks: BTreeMap<TaskTotalsKey, TaskTotals>,
    /// Sums of cgroups. Empty unless requested.
    pub cgroups: CgroupTotals,
    /// Members that are slower than their peers, by array.
    pub fail_slow: BTreeMap<String, FailSlow>,
    pub lost: Lost,
    /// Time in raidtrace's programs.
    pub overhead: Overhead,
    pub intervals: u64,
    /// Updates of arrays and members left out because [`MAX_ARRAYS`] or [`MAX_MEMBERS`] was
    /// reached, and task series and cgroups that were folded into [`OTHER`] because of
    /// [`MAX_TASKS`] and of the maximum number of cgroups.
    pub dropped_series: u64,
}

impl Totals {
    /// Adds an interval. `window` covers the last seconds up to the end of that interval. If
    /// `with_tasks`, adds up tasks too.
    pub fn add(&mut self, snapshot: &Snapshot, window: &Snapshot, with_tasks: bool) {
        self.intervals += 1;
        self.lost.add(&snapshot.lost);
        self.overhead.add(&snapshot.overhead);
        for member in self.members.values_mut() {
            member.absent += snapshot.interval;
            (member.is_up, member.in_flight) = (false, None);
        }
        for array in self.arrays.values_mut() {
            array.absent += snapshot.interval;
            array.state = None;
        }
        for array in &snapshot.arrays {
            self.add_array(array, window);
            for member in &array.members {
                self.add_member(array, member, snapshot.interval);
            }
            if with_tasks {
                self.add_tasks(array);
            }
        }
        for task in self.tasks.values_mut() {
            task.idle += snapshot.interval;
        }
        self.members.retain(|_, m| m.absent < RETENTION);
        self.arrays.retain(|_, a| a.absent < RETENTION);
        self.fold_tasks();
        let Self { tasks, arrays, .. } = self;
        tasks.retain(|key, task| {
            if key.1 == OTHER { arrays.contains_key(&key.0) } else { task.idle < RETENTION }
        });
    }

    fn add_array(&mut self, array: &ArraySnapshot, window: &Snapshot) {
        let is_known = self.arrays.contains_key(&array.info.name);
        // A stopped array stays in snapshots: do not add it again.
        if !is_known && is_gone(array) {
            return;
        }
        if !is_known && self.arrays.len() >= MAX_ARRAYS {
            self.dropped_series += 1;
            return;
        }
        let totals = self.arrays.entry(array.info.name.clone()).or_default();
        if !is_gone(array) {
            totals.absent = Duration::ZERO;
        }
        totals.info = array.info.clone();
        totals.submitted.merge(&array.submitted);
        let rows = array.amplification.iter().flat_map(|a| &a.rows);
        totals.amplification =
            rows.filter_map(|row| Some((row.origin, row.op, row.factor()?))).collect();
        let over = window.arrays.iter().find(|a| a.info.name == array.info.name);
        totals.skews = over.map_or_else(Vec::new, hotspot::skews);
        totals.hotspot.clone_from(&array.hotspot);
        totals.verdict.clone_from(&array.verdict);
        let hung = |a: &Around| a.hung.iter().map(|h| h.ms).max().unwrap_or(0);
        totals.hung_ms = array.around.as_ref().map(hung);
    }

    fn add_member(&mut self, array: &ArraySnapshot, member: &MemberSnapshot, interval: Duration) {
        let key = (array.info.name.clone(), member.name.clone(), member.slot);
        let (is_known, is_gone) = (self.members.contains_key(&key), is_gone(array));
        if !is_known && is_gone {
            return;
        }
        if self.members.len() >= MAX_MEMBERS && !is_known {
            self.dropped_series += 1;
            return;
        }
        let totals = self.members.entry(key).or_default();
        if !is_gone {
            totals.absent = Duration::ZERO;
        }
        totals.is_up = member.slot.is_some() && member.health.is_none() && !is_gone;
        totals.in_flight = member.disk.map(|d| d.in_flight);
        if let Some(utilisation) = member.utilisation() {
            totals.busy += interval.mul_f64(utilisation);
        }
        totals.counted.merge(&member.counted);
        for cell in &member.io {
            let sums = totals.cells.entry((cell.origin, cell.op)).or_default();
            sums.requests.add(&cell.requests);
            sums.bytes.add(&cell.bytes);
            sums.queue.add(&cell.queue, &QUEUE_EDGES);
            sums.device.add(&cell.device, &DEVICE_EDGES);
        }
    }

    /// Adds up tasks by name, not by pid, because pids are short-lived.
    fn add_tasks(&mut self, array: &ArraySnapshot) {
        for task in &array.tasks {
            let comm = family(&sanitize(&task.comm));
            for io in &task.io {
                let key = (array.info.name.clone(), comm.clone(), io.origin, io.op);
                let sum = self.tasks.entry(key).or_default();
                sum.bytes.add(&io.bytes);
                sum.idle = Duration::ZERO;
            }
        }
    }

    /// Adds the figures by cgroup of an interval of length `over` that was added before. Keeps at
    /// most `max` cgroups.
    pub fn add_cgroups(&mut self, interval: CgroupInterval, over: Duration, max: usize) {
        self.dropped_series += self.cgroups.add(interval, over, max);
        self.cgroups.retain_arrays(|array| self.arrays.contains_key(array));
    }

    /// Folds the series of tasks that exceed [`MAX_TASKS`] into [`OTHER`]: the smallest of those
    /// that have been idle longest in powers of two, so that neither many short processes nor a
    /// large one that has ended displaces a task that does IO now.
    fn fold_tasks(&mut self) {
        let excess = self.tasks.len().saturating_sub(MAX_TASKS);
        if excess == 0 {
            return;
        }
        let own = self.tasks.iter().filter(|(key, _)| key.1 != OTHER);
        let mut order: Vec<(u32, u64, TaskTotalsKey)> =
            own.map(|(key, t)| ((t.idle.as_secs() + 1).ilog2(), t.bytes, key.clone())).collect();
        order.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, &a.2).cmp(&(b.1, &b.2))));
        for (_, bytes, key) in order.into_iter().take(excess) {
            self.tasks.remove(&key);
            self.dropped_series += 1;
            let (array, _, origin, op) = key;
            let other = self.tasks.entry((array, OTHER.to_owned(), origin, op)).or_default();
            other.bytes.add(&bytes);
        }
    }

    /// Stores the state of an array. `None` if the state could not be read.
    pub fn set_state(&mut self, array: &str, state: Option<ArrayState>) {
        if let Some(totals) = self.arrays.get_mut(array) {
            totals.state = state;
        }
    }
}

/// True if md has stopped the array, or its device has been removed.
fn is_gone(array: &ArraySnapshot) -> bool {
    matches!(array.info.health.as_deref(), Some("stopped" | "removed"))
}

/// Task name without the id of a kernel worker, which changes frequently:
/// `kworker/u16:5+flush-9:127` becomes `kworker+flush-9:127`.
fn family(comm: &str) -> String {
    match comm.strip_prefix("kworker/") {
        Some(worker) => match worker.split_once(['+', '-']) {
            Some((_, work)) => format!("kworker+{work}"),
            None => "kworker".to_owned(),
        },
        None => comm.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX_TASKS, OTHER, Totals, family};
    use crate::analysis::around::{Around, HungTask};
    use crate::analysis::fixture::raid0;
    use crate::machine::ArrayState;

    #[test]
    fn kernel_workers_are_grouped_by_work() {
        assert_eq!(family("kworker/u16:5+flush-9:127"), "kworker+flush-9:127");
        assert_eq!(family("kworker/u16:5-md"), "kworker+md");
        assert_eq!(family("kworker/0:1"), "kworker");
        assert_eq!(family("postgres"), "postgres");
    }

    /// Many short processes do not hide a task that does IO later, and no bytes are lost.
    #[test]
    fn short_tasks_are_folded_into_other() {
        let mut totals = Totals::default();
        let mut snapshot = raid0(2);
        let task = snapshot.arrays[0].tasks[0].clone();
        let each: u64 = task.io.iter().map(|io| io.bytes).sum();
        let mut submitted = 0;
        let mut other = 0;
        for second in 0..30 {
            let named = |i: u64| {
                let mut task = task.clone();
                task.comm = format!("t{second}-{i}").into_bytes();
                task
            };
            snapshot.arrays[0].tasks = (0..100).map(named).collect();
            if second >= 20 {
                snapshot.arrays[0].tasks[99].comm = b"realdatabase\x1b[2J".to_vec();
            }
            submitted += 100 * each;
            totals.add(&snapshot, &snapshot, true);
            let sum = |name: &str| -> u64 {
                let of = totals.tasks.iter().filter(|(key, _)| key.1.starts_with(name));
                of.map(|(_, t)| t.bytes).sum()
            };
            assert_eq!(sum(""), submitted);
            // Counters of Prometheus never decrease.
            assert!(sum(OTHER) >= other);
            other = sum(OTHER);
            if second >= 20 {
                assert_eq!(sum("realdatabase\\x1b[2J"), (second - 19) * each);
            }
            assert!(totals.tasks.len() <= MAX_TASKS + 2 * task.io.len(), "{}", totals.tasks.len());
        }
        assert!(totals.dropped_series > 0 && other > 0);
    }

    #[test]
    fn the_longest_hung_task_counts() {
        let mut snapshot = raid0(2);
        let name = snapshot.arrays[0].info.name.clone();
        let hung = |ms: &[u64]| {
            let task = |ms: &u64| HungTask { ms: *ms, ..HungTask::default() };
            Around { hung: ms.iter().map(task).collect(), ..Around::default() }
        };
        for (around, expected) in
            [(None, None), (Some(hung(&[])), Some(0)), (Some(hung(&[400, 3100])), Some(3100))]
        {
            snapshot.arrays[0].around = around;
            let mut totals = Totals::default();
            totals.add(&snapshot, &snapshot, true);
            assert_eq!(totals.arrays[&name].hung_ms, expected);
        }
    }

    #[test]
    fn a_stopped_array_is_forgotten_after_an_hour() {
        let mut totals = Totals::default();
        let mut snapshot = raid0(2);
        totals.add(&snapshot, &snapshot, true);
        let name = snapshot.arrays[0].info.name.clone();
        totals.set_state(&name, Some(ArrayState::default()));
        let requests = |t: &Totals| -> u64 {
            t.members.values().flat_map(|m| m.cells.values()).map(|c| c.requests).sum()
        };
        let before = requests(&totals);
        assert!(before > 0 && !totals.tasks.is_empty());
        snapshot.interval = Duration::from_secs(60);
        snapshot.arrays[0].info.health = Some("stopped".to_owned());
        for member in &mut snapshot.arrays[0].members {
            member.io.clear();
        }
        snapshot.arrays[0].tasks.clear();
        for _ in 0..59 {
            totals.add(&snapshot, &snapshot, true);
        }
        assert_eq!(requests(&totals), before);
        assert!(totals.arrays[&name].state.is_none());
        for _ in 0..3 {
            totals.add(&snapshot, &snapshot, true);
        }
        assert!(totals.arrays.is_empty() && totals.members.is_empty() && totals.tasks.is_empty());
    }
}
