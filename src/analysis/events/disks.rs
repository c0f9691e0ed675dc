//! Busy time and completed requests of each disk, up to any time in a recording.
//!
//! Busy time is defined as for io_ticks (Documentation/block/stat.rst): time with a request in
//! flight, here the union of the requests' times from allocation to completion. The kernel's
//! io_ticks, recorded with each state, samples that once per jiffy. It is used where a request was
//! in flight at a state, because that request may never complete in the recording.
//! Adjoining periods add up exactly: each is the difference of two values of one function of time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use std::time::Duration;

use super::interval::Directory;
use crate::analysis::cube::{Amount as _, amount};
use crate::analysis::fold::DiskCounters;
use crate::analysis::item::{Request, State};
use crate::analysis::recent::Stall;

/// Maximum number of periods between states ([`Stretch`]) that wait for late requests.
const MAX_STRETCHES: usize = 256;

/// Largest amount by which an item may be older than an item before it.
pub const MAX_DISORDER_US: i64 = 2_000_000;

/// Figures of one disk since the start of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSum {
    /// Time with a request in flight.
    pub busy_us: u64,
    /// Requests that the kernel counts as completed.
    pub requests: u64,
    /// Requests that the kernel counts and the recorder did not, see [`DiskCounters::uncounted`].
    pub uncounted: u64,
}

amount!(DiskSum { busy_us, requests, uncounted });

/// Figures of all disks, by member number. Sums are kept for each boundary.
#[derive(Debug, Default)]
pub struct Disks {
    /// Periods between states that late requests may still change. The last one has no end yet.
    stretches: VecDeque<Stretch>,
    /// Sums up to the first of `stretches`.
    base: Vec<DiskSum>,
    /// Time up to which the sums are final.
    settled: i64,
    newest: i64,
    /// Boundaries whose sums are not final yet.
    wanted: BTreeSet<i64>,
    /// Final sums by boundary.
    boundaries: BTreeMap<i64, Vec<DiskSum>>,
    /// Number of uses of a boundary beyond the first.
    reused: BTreeMap<i64, u32>,
    stalls: Vec<Stalls>,
    /// Period in which stalls are detected; `None`: the whole recording.
    stall_period: Option<(i64, i64)>,
}

/// Stalls of one disk: requests in flight at every state, and none completed between them.
#[derive(Clone, Copy, Debug, Default)]
struct Stalls {
    since: Option<i64>,
    longest: Stall,
}

impl Stalls {
    /// Adds the period from one state to the next.
    fn add(&mut self, was: DiskCounters, now: DiskCounters, from: i64, to: i64) {
        if was.in_flight == 0 || now.in_flight == 0 || now.requests != was.requests {
            self.since = None;
            self.longest.is_over = true;
            return;
        }
        let since = *self.since.get_or_insert(from);
        let lasted = Duration::from_micros(u64::try_from(to.saturating_sub(since)).unwrap_or(0));
        if lasted >= self.longest.lasted {
            self.longest =
                Stall { lasted, in_flight: was.in_flight.max(now.in_flight), is_over: false };
        }
    }
}

/// Period between two states.
#[derive(Debug)]
struct Stretch {
    from: i64,
    to: Option<i64>,
    disks: Vec<DiskActivity>,
}

#[derive(Debug, Default)]
struct DiskActivity {
    /// Times of requests from allocation to completion, clipped to the stretch.
    spans: Vec<(i64, i64)>,
    /// Number of leading `spans` that are sorted and disjoint.
    merged: usize,
    completions: Vec<i64>,
    /// Difference of the states at both ends, if both have the disk: `io_ticks` in µs, requests,
    /// uncounted requests.
    states: Option<DiskSum>,
    /// True if a request was in flight at either end.
    in_flight_at_either_end: bool,
}

impl DiskActivity {
    fn cover(&mut self, from: i64, to: i64) {
        if from >= to {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.0 <= from && from <= last.1 => last.1 = last.1.max(to),
            _ => self.spans.push((from, to)),
        }
        if self.spans.len() > 2 * self.merged + 1024 {
            self.merge();
        }
    }

    fn merge(&mut self) {
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        self.merged = self.spans.len();
    }

    /// Length of the disjoint spans before `time`.
    fn covered(&self, time: i64) -> u64 {
        self.spans.iter().take_while(|s| s.0 < time).map(|s| (s.1.min(time) - s.0) as u64).sum()
    }

    /// Figures from the start of the stretch to `time`. Call [`DiskActivity::merge`] first.
    fn until(&self, stretch: (i64, i64), time: i64) -> DiskSum {
        let (from, to) = stretch;
        let (length, passed) = ((to - from).max(0) as u64, (time - from).max(0) as u64);
        let (busy, busy_until) = (self.covered(to), self.covered(time));
        let done = self.completions.len() as u64;
        let done_until = self.completions.partition_point(|&t| t < time) as u64;
        let Some(states) = self.states else {
            return DiskSum { busy_us: busy_until, requests: done_until, uncounted: 0 };
        };
        let more = if self.in_flight_at_either_end {
            states.busy_us.min(length).saturating_sub(busy)
        } else {
            0
        };
        let busy_us = busy_until + share(more, passed - busy_until, length - busy);
        let requests = if states.requests >= done {
            done_until + share(states.requests - done, passed, length)
        } else {
            share(states.requests, done_until, done)
        };
        DiskSum { busy_us, requests, uncounted: 0 }
    }

    /// Figures of the whole stretch, based on the state at its end.
    fn whole(&self, stretch: (i64, i64)) -> DiskSum {
        let mut sum = self.until(stretch, stretch.1);
        // Count completions even if the stretch has no length.
        sum.requests = self.completions.len() as u64;
        if let Some(states) = self.states {
            (sum.requests, sum.uncounted) = (states.requests, states.uncounted);
        }
        sum
    }
}

/// `amount * part / of`; 0 if `of` is 0.
fn share(amount: u64, part: u64, of: u64) -> u64 {
    let whole = u128::from(of);
    let share = u128::from(amount) * u128::from(part);
    share.checked_div(whole).map_or(0, |n| n as u64)
}

/// Element `number`; extends `all` if it is shorter.
fn at<T: Default>(all: &mut Vec<T>, number: u32) -> Option<&mut T> {
    let number = number as usize;
    if number >= all.len() {
        all.resize_with(number + 1, T::default);
    }
    all.get_mut(number)
}

impl Disks {
    /// Adds a completed request of member `number`.
    pub(super) fn request(&mut self, number: u32, request: &Request) {
        let time = request.time_us;
        let waited = i64::from(request.queue_us.unwrap_or(0));
        let begin = time - waited - i64::from(request.device_us.unwrap_or(0));
        let of = self.stretches.iter().rposition(|s| s.from <= time).unwrap_or(0);
        for (i, stretch) in self.stretches.iter_mut().enumerate().rev() {
            let (from, to) = (stretch.from, stretch.to.unwrap_or(i64::MAX));
            let within = i == of || (begin < to && time > from);
            if within && let Some(disk) = at(&mut stretch.disks, number) {
                if i == of {
                    disk.completions.push(time.max(from));
                }
                disk.cover(begin.max(from), time.min(to));
            }
            if i <= of && from <= begin {
                break;
            }
        }
    }

    /// Ends the current stretch at `state`.
    pub(super) fn state(&mut self, directory: &Directory, before: Option<&State>, state: &State) {
        let time = state.time_us;
        if self.stretches.is_empty() {
            self.open(time);
        }
        let Some(last) = self.stretches.back_mut() else {
            return;
        };
        let time = time.max(last.from);
        last.to = Some(time);
        let mut numbers = directory.member_now.iter();
        for subject in &state.arrays {
            for member in &subject.members {
                let Some(&number) = numbers.next() else {
                    continue;
                };
                let (Some(now), Some(disk)) = (member.disk, at(&mut last.disks, number)) else {
                    continue;
                };
                let was = before.and_then(|b| disk_of(b, &subject.info.name, &member.name));
                if let (Some(was), Some(before)) = (was, before) {
                    let (first, end) = self.stall_period.unwrap_or((i64::MIN, i64::MAX));
                    let (from, to) = (before.time_us.max(first), time.min(end));
                    if from < to
                        && let Some(stalls) = at(&mut self.stalls, number)
                    {
                        stalls.add(was, now, from, to);
                    }
                }
                disk.states = was.map(|was| DiskSum {
                    busy_us: now.io_ticks_ms.saturating_sub(was.io_ticks_ms).saturating_mul(1000),
                    requests: now.requests.saturating_sub(was.requests),
                    uncounted: now.uncounted.saturating_sub(was.uncounted),
                });
                disk.in_flight_at_either_end =
                    now.in_flight > 0 || was.is_some_and(|was| was.in_flight > 0);
            }
        }
        self.open(time);
        // States are about a second apart; a damaged recording may have any number at the same
        // time.
        while self.stretches.len() > MAX_STRETCHES {
            self.settle();
        }
    }

    fn open(&mut self, from: i64) {
        self.stretches.push_back(Stretch { from, to: None, disks: Vec::new() });
    }

    /// Adds the start or end of an interval, µs since 1970. Call it before items more than
    /// [`MAX_DISORDER_US`] later are added.
    pub fn add_boundary(&mut self, time: i64) {
        if self.boundaries.contains_key(&time) || !self.wanted.insert(time) {
            *self.reused.entry(time).or_default() += 1;
        }
    }

    /// Removes a boundary added by [`Disks::add_boundary`]. A boundary that was added twice remains
    /// until it is removed twice.
    pub fn remove_boundary(&mut self, time: i64) {
        if let Some(more) = self.reused.get_mut(&time).filter(|more| **more > 0) {
            *more -= 1;
            return;
        }
        self.reused.remove(&time);
        self.wanted.remove(&time);
        self.boundaries.remove(&time);
    }

    /// Drops data of intervals that begin before `time`.
    pub fn forget_before(&mut self, time: i64) {
        self.boundaries = self.boundaries.split_off(&time);
        self.reused = self.reused.split_off(&time);
    }

    /// True if an interval that ends at `time` is complete: its figures are final.
    pub fn is_settled(&self, time: i64) -> bool {
        time <= self.settled && self.settled > 0
    }

    /// Settles stretches that end [`MAX_DISORDER_US`] or more before `time`, the time of an item
    /// that was read.
    #[inline]
    pub(super) fn read_until(&mut self, time: i64) {
        if time <= self.newest {
            return;
        }
        self.newest = time;
        let due = |s: &Stretch| s.to.is_some_and(|to| time >= to.saturating_add(MAX_DISORDER_US));
        while self.stretches.front().is_some_and(due) {
            self.settle();
        }
    }

    /// Settles everything up to `time`: no older item follows. Figures after the last state come
    /// from requests alone.
    pub fn end(&mut self, time: i64) {
        let Some(last) = self.stretches.back_mut() else {
            self.settled = time.max(1);
            return;
        };
        let time = time.max(last.from);
        last.to = Some(time);
        self.open(time);
        while self.stretches.len() > 1 {
            self.settle();
        }
    }

    /// Adds the oldest stretch to the sums, which are final then.
    fn settle(&mut self) {
        let Some(mut stretch) = self.stretches.pop_front() else {
            return;
        };
        let to = stretch.to.unwrap_or(self.newest).max(stretch.from);
        let bounds = (stretch.from, to);
        for disk in &mut stretch.disks {
            disk.merge();
            disk.completions.sort_unstable();
        }
        // A boundary at the end of the stretch gets the figures of the state at that time.
        let later = self.wanted.split_off(&to);
        let inside = std::mem::replace(&mut self.wanted, later);
        for time in inside {
            let mut sums = self.base.clone();
            for (number, disk) in (0..).zip(&stretch.disks) {
                if let Some(sum) = at(&mut sums, number) {
                    sum.add(&disk.until(bounds, time.max(stretch.from)));
                }
            }
            self.boundaries.insert(time, sums);
        }
        for (number, disk) in (0..).zip(&stretch.disks) {
            if let Some(base) = at(&mut self.base, number) {
                base.add(&disk.whole(bounds));
            }
        }
        if self.wanted.remove(&to) {
            self.boundaries.insert(to, self.base.clone());
        }
        self.settled = to.max(1);
    }

    /// Limits stall detection to a period. Call it before items are added.
    pub fn set_stall_period(&mut self, from: i64, to: i64) {
        self.stall_period = Some((from, to));
    }

    /// Longest time in which a member had requests in flight and completed none.
    pub fn stall(&self, number: usize) -> Option<Stall> {
        let longest = self.stalls.get(number)?.longest;
        (longest.lasted > Duration::ZERO).then_some(longest)
    }

    /// Figures between two boundaries, in the order of [`Events::members`](super::Events::members).
    pub fn between(&self, from: i64, to: i64) -> Vec<DiskSum> {
        let was = self.sums(from);
        let now = self.sums(to).iter().enumerate();
        now.map(|(i, sum)| sum.since(&was.get(i).copied().unwrap_or_default())).collect()
    }

    /// Sums at a boundary; the final sums for a time after the end.
    fn sums(&self, time: i64) -> &[DiskSum] {
        self.boundaries.get(&time).map_or(&self.base, Vec::as_slice)
    }
}

/// Counters of a member, found by name.
fn disk_of(state: &State, array: &str, member: &str) -> Option<DiskCounters> {
    let subject = state.arrays.iter().find(|a| a.info.name == array)?;
    subject.members.iter().find(|m| m.name == member)?.disk
}
