//! Sums since the start of `serve`. They never decrease: not when the programs are loaded again, and not when a member or an array
//! leaves and returns within an hour.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::analysis::counters::CostCounters;
use crate::analysis::hist::{BUCKETS, Hist, upper_edge};
use crate::analysis::hotspot::{self, Hotspot};
use crate::analysis::lost::{Loss, Lost};
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot, MemberSnapshot, Overhead, Snapshot};
use crate::machine::ArrayState;
use crate::origin::{Op, Origin};

/// Time after which a member or an array that has left is forgotten.
const FORGET: Duration = Duration::from_secs(3600);
/// Maximum number of members, those that have left included.
pub const MEMBERS: usize = 1024;
/// Maximum number of tasks with figures of their own.
pub const TASKS: usize = 512;

/// Upper edges of the buckets for device times, in µs: powers of two, at which buckets of [`Hist`] end.
pub const DEVICE_EDGES: [u64; 20] = edges(1);
/// Those for queue times.
pub const QUEUE_EDGES: [u64; 10] = edges(2);

/// 16 µs, and 2^`step` times as much for each that follows.
const fn edges<const N: usize>(step: usize) -> [u64; N] {
    let mut edges = [0; N];
    let mut i = 0;
    while i < N {
        edges[i] = 16 << (step * i);
        i += 1;
    }
    edges
}

/// A histogram of times with `N` edges. Its sum is estimated: each time counts as the middle of its bucket of [`Hist`].
#[derive(Clone, Debug, PartialEq)]
pub struct Times<const N: usize> {
    /// Number of times below each edge and not below the one before.
    pub counts: [u64; N],
    /// Number of all times.
    pub count: u64,
    /// Estimated sum in µs, 12 % too high or too low at most.
    pub sum_us: f64,
}

impl<const N: usize> Default for Times<N> {
    fn default() -> Self {
        Self {
            counts: [0; N],
            count: 0,
            sum_us: 0.0,
        }
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
    /// Requests completed.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Times in the queue.
    pub queue: Times<{ QUEUE_EDGES.len() }>,
    /// Times in the device.
    pub device: Times<{ DEVICE_EDGES.len() }>,
}

/// A member: array, name and slot. Slot `None` for a spare.
pub type MemberKey = (String, String, Option<u32>);

/// Sums of a member.
#[derive(Clone, Debug, Default)]
pub struct MemberTotals {
    /// By origin and operation.
    pub cells: BTreeMap<(Origin, Op), CellTotals>,
    /// Time with a request in flight.
    pub busy: Duration,
    /// Requests in flight at the end of the last interval; `None` if unknown.
    pub in_flight: Option<u32>,
    /// True if the member is in the array and in sync.
    pub is_up: bool,
    /// Time since it was last in a snapshot.
    absent: Duration,
}

/// Sums and last figures of an array.
#[derive(Clone, Debug, Default)]
pub struct ArrayTotals {
    /// Last description.
    pub info: ArrayInfo,
    /// Bytes submitted to the array.
    pub submitted: BTreeMap<(Origin, Op), u64>,
    /// Member IO of completed stripes, by the origin that dirtied them.
    pub costs: BTreeMap<Origin, CostCounters>,
    /// Bytes of member IO for a byte submitted, over the last seconds.
    pub amplification: Vec<(Origin, Op, f64)>,
    /// Busiest member over the mean, over the last seconds.
    pub skews: Vec<(Origin, Op, f64)>,
    /// Last hot spot.
    pub hotspot: Option<Hotspot>,
    /// Last state of md; `None` for a plain disk, and for an array that was stopped.
    pub state: Option<ArrayState>,
    absent: Duration,
}

/// All sums.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By name.
    pub arrays: BTreeMap<String, ArrayTotals>,
    /// By array, name and slot.
    pub members: BTreeMap<MemberKey, MemberTotals>,
    /// Bios and bytes submitted by tasks of a name, by array, name, origin and operation; empty unless asked for.
    pub tasks: BTreeMap<(String, String, Origin, Op), (u64, u64)>,
    /// Lost events.
    pub lost: Lost,
    /// Time in raidtrace's programs.
    pub overhead: Overhead,
    /// Intervals counted.
    pub intervals: u64,
    /// Members and tasks left out because there were too many.
    pub dropped_series: u64,
}

impl Totals {
    /// Adds an interval. `window` covers the last seconds up to its end. `with_tasks`: add up tasks too.
    pub fn add(&mut self, snapshot: &Snapshot, window: &Snapshot, with_tasks: bool) {
        self.intervals += 1;
        self.lost.add(&snapshot.lost);
        self.overhead.add(snapshot.overhead);
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
        self.members.retain(|_, m| m.absent < FORGET);
        self.arrays.retain(|_, a| a.absent < FORGET);
    }

    fn add_array(&mut self, array: &ArraySnapshot, window: &Snapshot) {
        let totals = self.arrays.entry(array.info.name.clone()).or_default();
        totals.absent = Duration::ZERO;
        totals.info = array.info.clone();
        for (key, bytes) in &array.submitted {
            let sum = totals.submitted.entry(*key).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        let rows = array.amplification.iter().flat_map(|a| &a.rows);
        totals.amplification = rows
            .filter_map(|row| Some((row.origin, row.op, row.factor()?)))
            .collect();
        let over = window
            .arrays
            .iter()
            .find(|a| a.info.name == array.info.name);
        totals.skews = over.map_or_else(Vec::new, hotspot::skews);
        totals.hotspot.clone_from(&array.hotspot);
    }

    fn add_member(&mut self, array: &ArraySnapshot, member: &MemberSnapshot, interval: Duration) {
        let key = (array.info.name.clone(), member.name.clone(), member.slot);
        if self.members.len() >= MEMBERS && !self.members.contains_key(&key) {
            self.dropped_series += 1;
            return;
        }
        let totals = self.members.entry(key).or_default();
        totals.absent = Duration::ZERO;
        let is_gone = matches!(array.info.health.as_deref(), Some("stopped" | "removed"));
        totals.is_up = member.slot.is_some() && member.health.is_none() && !is_gone;
        totals.in_flight = member.disk.map(|d| d.in_flight);
        if let Some(utilisation) = member.utilisation() {
            totals.busy += interval.mul_f64(utilisation);
        }
        for cell in &member.io {
            let sums = totals.cells.entry((cell.origin, cell.op)).or_default();
            sums.requests = sums.requests.saturating_add(cell.requests);
            sums.bytes = sums.bytes.saturating_add(cell.bytes);
            sums.queue.add(&cell.queue, &QUEUE_EDGES);
            sums.device.add(&cell.device, &DEVICE_EDGES);
        }
    }

    /// By name, not by pid: pids come and go.
    fn add_tasks(&mut self, array: &ArraySnapshot) {
        for task in &array.tasks {
            let comm = String::from_utf8_lossy(&task.comm);
            for io in &task.io {
                let key = (
                    array.info.name.clone(),
                    comm.clone().into_owned(),
                    io.origin,
                    io.op,
                );
                if self.tasks.len() >= TASKS && !self.tasks.contains_key(&key) {
                    self.dropped_series += 1;
                    continue;
                }
                let sum = self.tasks.entry(key).or_default();
                sum.0 = sum.0.saturating_add(io.bios);
                sum.1 = sum.1.saturating_add(io.bytes);
            }
        }
    }

    /// Stores the state of an array. `None`: it could not be read.
    pub fn set_state(&mut self, array: &str, state: Option<ArrayState>) {
        if let Some(totals) = self.arrays.get_mut(array) {
            totals.state = state;
        }
    }

    /// Lost events by reason.
    pub fn losses(&self) -> impl Iterator<Item = (Loss, u64)> {
        self.lost.iter()
    }
}
