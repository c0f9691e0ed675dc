//! Figures of each interval of a recording, collected in one pass and in bounded memory.
//!
//! Intervals end at states, which are about a second apart. If there are too many intervals or
//! table entries, pairs of adjoining intervals are merged, which doubles their length. An item that
//! comes after the state of its interval counts in the next one. Busy times are exact.

mod sums;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

pub use self::sums::{Cell, Interval, Name};
use super::fine::{BUCKETS, Sparse, bucket};
use crate::analysis::counters::{CostCounters, TaskCounters, count_run};
use crate::analysis::events::{Events, NameLookup};
use crate::analysis::files::FileId;
use crate::analysis::item::{Item, Request, State, Submission};
use crate::analysis::slow::event::Kind;
use crate::analysis::slow::snapshot::KindSum;
use crate::origin::{Op, Origin};

/// Maximum number of intervals.
const INTERVALS: usize = 128;
/// Maximum number of entries in the tables of all intervals, each of about 40 bytes.
const ENTRIES: usize = 1 << 20;
/// Fewer intervals than this are not merged, however many entries they have.
const LEAST: usize = 32;
/// Maximum number of tasks, and of files, in an interval. Later ones are counted as unknown.
const NAMES: usize = 1 << 14;
/// Maximum time between two states, µs. If it is longer, part of the recording is missing.
const GAP_US: i64 = 10_000_000;
/// Cells of one member.
const CELLS: usize = Origin::ALL.len() * Op::ALL.len();

/// Intervals of a recording.
#[derive(Debug, Default)]
pub struct Series {
    /// Intervals in order. There may be gaps between them.
    pub intervals: Vec<Interval>,
    /// Names of arrays, by the array numbers of the intervals.
    pub arrays: Vec<String>,
    /// Names of array and member, by the member numbers of the intervals.
    pub members: Vec<(String, String)>,
    /// Total length of the intervals that are left out because states are missing in them, µs.
    pub gaps_us: i64,
    /// Number of intervals in which events were lost.
    pub with_losses: usize,
}

/// A cell of the current interval.
struct CurrentCell {
    requests: u64,
    bytes: u64,
    device: [u32; BUCKETS],
}

/// Sums by key.
#[derive(Default)]
struct Sums<K> {
    map: HashMap<K, TaskCounters>,
    /// Sum of the last bios, not yet in the map.
    run: Option<(K, TaskCounters)>,
}

impl<K: Copy + Eq + Hash> Sums<K> {
    #[inline]
    fn add(&mut self, key: K, unknown: K, bytes: u32) {
        if let Some((key, sum)) = count_run(&mut self.run, key, bytes) {
            let full = self.map.len() >= NAMES && !self.map.contains_key(&key);
            let key = if full { unknown } else { key };
            self.map.entry(key).or_default().add(sum);
        }
    }

    fn take(&mut self) -> HashMap<K, TaskCounters> {
        if let Some((key, sum)) = self.run.take() {
            self.map.entry(key).or_default().add(sum);
        }
        std::mem::take(&mut self.map)
    }
}

/// Collects a [`Series`] while a recording is read.
#[derive(Default)]
pub struct Collector {
    done: Vec<Interval>,
    entries: usize,
    from: i64,
    cells: Vec<Option<Box<CurrentCell>>>,
    submitted: BTreeMap<(u32, Origin, Op), TaskCounters>,
    tasks: Sums<(u32, Option<u32>)>,
    files: Sums<(u32, Option<FileId>)>,
    costs: BTreeMap<(u32, Origin), CostCounters>,
    slow: BTreeMap<Kind, KindSum>,
    lost: bool,
    gap: bool,
    /// Number of states per interval, and in the current interval.
    states: (u32, u32),
    state: Option<State>,
}

impl Collector {
    /// Starts at `from_us`.
    pub fn new(from_us: i64) -> Self {
        Self { from: from_us, states: (1, 0), ..Self::default() }
    }

    /// Adds an item other than a state. Ignores kinds that are not compared.
    #[inline]
    pub fn add(&mut self, events: &Events, item: &Item) {
        match item {
            Item::Request(r) => self.request(events, r),
            Item::Part(p) => {
                if let Some(cell) = self.cell(events, p.member, p.origin, p.op) {
                    cell.bytes += u64::from(p.bytes);
                }
            }
            Item::Submission(s) => self.submission(events, s),
            Item::Lost { .. } => self.lost = true,
            _ => {}
        }
    }

    /// Adds the operations of one recorded interval, slow or not.
    pub fn slow(&mut self, kinds: &BTreeMap<Kind, KindSum>) {
        for (kind, more) in kinds {
            self.slow.entry(*kind).or_default().add(*more);
        }
    }

    #[inline]
    fn cell(
        &mut self,
        events: &Events,
        member: u32,
        origin: Origin,
        op: Op,
    ) -> Option<&mut CurrentCell> {
        let number = events.member(member)? as usize;
        let at = number * CELLS + origin as usize * Op::ALL.len() + op as usize;
        if at >= self.cells.len() {
            self.cells.resize_with((number + 1) * CELLS, || None);
        }
        let open = self.cells.get_mut(at)?.get_or_insert_with(|| {
            Box::new(CurrentCell { requests: 0, bytes: 0, device: [0; BUCKETS] })
        });
        Some(open)
    }

    #[inline]
    fn request(&mut self, events: &Events, r: &Request) {
        if let Some(cell) = self.cell(events, r.member, r.origin, r.op) {
            cell.requests += 1;
            cell.bytes += u64::from(r.bytes);
            let slot = r.device_us.and_then(|us| cell.device.get_mut(bucket(us)));
            if let Some(count) = slot {
                *count = count.saturating_add(1);
            }
        }
    }

    #[inline]
    fn submission(&mut self, events: &Events, s: &Submission) {
        let Some(array) = events.array(s.array) else {
            return;
        };
        let sum = self.submitted.entry((array, s.origin, s.op)).or_default();
        sum.add(TaskCounters::one(s.length));
        // Discarded bytes are not moved.
        let moved = matches!(s.op, Op::Read | Op::Write);
        let bytes = if moved { s.length } else { 0 };
        self.tasks.add((array, Some(s.pid)), (array, None), bytes);
        if s.origin == Origin::FileData && moved {
            self.files.add((array, s.file), (array, None), bytes);
        }
    }

    /// Adds a state from before the start, as the base of its cumulative counters.
    pub fn first_state(&mut self, state: &State) {
        self.state = Some(state.clone());
    }

    /// Adds a state, at which an interval may end.
    pub fn state(&mut self, events: &mut Events, state: &State) {
        if let Some(before) = &self.state {
            let since = state.time_us.saturating_sub(before.time_us.max(self.from));
            self.gap |= since > GAP_US;
            if !state.restart {
                self.lost |= state.lost.since(&before.lost).events() > 0;
                for (array, origin, cost) in state.costs_since(before) {
                    if let Some(array) = events.array(array) {
                        self.costs.entry((array, origin)).or_default().add(cost);
                    }
                }
            }
        }
        self.state = Some(state.clone());
        self.states.1 += 1;
        if self.states.1 < self.states.0 || state.time_us <= self.from {
            return;
        }
        self.end(events, state.time_us);
        let too_many =
            |c: &Self| c.done.len() >= INTERVALS || (c.entries > ENTRIES && c.done.len() >= LEAST);
        while too_many(self) {
            self.merge(events);
        }
    }

    fn merge(&mut self, events: &mut Events) {
        self.states.0 = self.states.0.saturating_mul(2);
        let mut all = std::mem::take(&mut self.done).into_iter();
        while let Some(mut interval) = all.next() {
            if let Some(second) = all.next() {
                events.disks.remove_boundary(interval.to_us);
                interval.join(second);
            }
            self.done.push(interval);
        }
        self.entries = self.done.iter().map(Interval::entries).sum();
    }

    fn end(&mut self, events: &mut Events, time_us: i64) {
        events.disks.add_boundary(time_us);
        let ops = Op::ALL.len();
        let mut cells = BTreeMap::new();
        for (at, open) in self.cells.iter_mut().enumerate() {
            let Some(open) = open.take() else { continue };
            let origin = Origin::from_u8((at % CELLS / ops) as u8);
            if let (Some(origin), Some(op)) = (origin, Op::from_u8((at % ops) as u8)) {
                let counts = (0u16..).zip(&open.device).filter(|(_, n)| **n > 0);
                let cell = Cell {
                    requests: open.requests,
                    bytes: open.bytes,
                    device: counts.map(|(b, &n)| (b, n)).collect::<Sparse>(),
                };
                cells.insert(((at / CELLS) as u32, origin, op), cell);
            }
        }
        let tasks = self.tasks.take().into_iter();
        let files = self.files.take().into_iter();
        let interval = Interval {
            from_us: self.from,
            to_us: time_us,
            disks: Vec::new(),
            cells,
            submitted: std::mem::take(&mut self.submitted),
            names: BTreeMap::new(),
            tasks: tasks.collect(),
            files: files.collect(),
            costs: std::mem::take(&mut self.costs),
            slow: std::mem::take(&mut self.slow),
            lost: std::mem::take(&mut self.lost),
            gap: std::mem::take(&mut self.gap),
        };
        self.entries += interval.entries();
        self.done.push(interval);
        (self.from, self.states.1) = (time_us, 0);
    }

    /// Ends the last interval at `to_us`. Call it before `Disks::end`.
    pub fn finish(&mut self, events: &mut Events, to_us: i64) {
        let last = self.done.last().map(|i| i.to_us - i.from_us);
        self.gap |= to_us.saturating_sub(self.from) > GAP_US.max(last.unwrap_or(0));
        if to_us > self.from {
            self.end(events, to_us);
            // Join a short last interval to the one before it.
            let rest = to_us - self.done.last().map_or(to_us, |i| i.from_us);
            if last.is_some_and(|last| rest < last / 2)
                && let Some(rest) = self.done.pop()
                && let Some(interval) = self.done.last_mut()
            {
                events.disks.remove_boundary(interval.to_us);
                interval.join(rest);
            }
        }
    }

    /// Returns the series. Call it after `Disks::end`.
    pub fn series(self, events: &Events, names: &dyn NameLookup) -> Series {
        let arrays = events.arrays().to_vec();
        let members = events.members();
        let mut series = Series {
            members: members.map(|(a, m)| (a.to_owned(), m.to_owned())).collect(),
            ..Series::default()
        };
        let mut labels = sums::Labels::new(names, &arrays);
        for mut interval in self.done {
            if interval.gap {
                series.gaps_us += interval.to_us - interval.from_us;
                continue;
            }
            series.with_losses += usize::from(interval.lost);
            interval.disks = events.disks.between(interval.from_us, interval.to_us);
            labels.name(&mut interval);
            series.intervals.push(interval);
        }
        series.arrays = arrays;
        series
    }
}
