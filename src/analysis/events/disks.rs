//! How long each disk was busy, and how many requests it completed, up to any moment of a recording.
//!
//! Busy is what io_ticks means (Documentation/block/stat.rst): the time with a request in flight, here the union of the
//! requests' times from allocation to completion. The kernel's io_ticks, known where there is a state, samples that once a
//! jiffy; it is used where a request was in flight at a state, which may never complete in the recording.
//! Windows that adjoin add up exactly: each is the difference of two values of one function of time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use std::time::Duration;

use super::tally::Roster;
use crate::analysis::fold::DiskCounters;
use crate::analysis::item::{Request, State};
use crate::analysis::recent::Stall;

/// No item of a recording is older than this against those before it.
pub const SLACK_US: i64 = 2_000_000;

/// Since the beginning of the recording, of one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSum {
    /// With a request in flight.
    pub busy_us: u64,
    /// Requests that the kernel counts as completed.
    pub requests: u64,
    /// Requests that it counts and the recorder did not, see [`DiskCounters::uncounted`].
    pub uncounted: u64,
}

impl DiskSum {
    fn add(&mut self, other: Self) {
        self.busy_us = self.busy_us.saturating_add(other.busy_us);
        self.requests = self.requests.saturating_add(other.requests);
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
    }

    /// What has come since `was`.
    pub fn since(self, was: Self) -> Self {
        Self {
            busy_us: self.busy_us.saturating_sub(was.busy_us),
            requests: self.requests.saturating_sub(was.requests),
            uncounted: self.uncounted.saturating_sub(was.uncounted),
        }
    }
}

/// By number of the member. A cut is a moment whose sums are wanted.
#[derive(Debug, Default)]
pub struct Disks {
    /// From state to state; those to which late requests may still come. The last one is open.
    stretches: VecDeque<Stretch>,
    /// Up to the first of them.
    base: Vec<DiskSum>,
    /// Up to here everything is known.
    settled: i64,
    newest: i64,
    wanted: BTreeSet<i64>,
    cuts: BTreeMap<i64, Vec<DiskSum>>,
    stalls: Vec<Stalls>,
    /// Where stalls are looked for; `None`: everywhere.
    part: Option<(i64, i64)>,
}

/// When a disk had requests in flight at every state and completed none from one to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Stalls {
    /// The one that is not over.
    since: Option<i64>,
    /// The longest, and whether it is over.
    longest: Stall,
}

impl Stalls {
    /// From one state of `part` to the next.
    fn add(&mut self, was: DiskCounters, now: DiskCounters, from: i64, to: i64) {
        if was.in_flight == 0 || now.in_flight == 0 || now.requests != was.requests {
            self.since = None;
            self.longest.is_over = true;
            return;
        }
        let since = *self.since.get_or_insert(from);
        let lasted = Duration::from_micros(u64::try_from(to.saturating_sub(since)).unwrap_or(0));
        if lasted >= self.longest.lasted {
            self.longest = Stall {
                lasted,
                in_flight: was.in_flight.max(now.in_flight),
                is_over: false,
            };
        }
    }
}

#[derive(Debug)]
struct Stretch {
    from: i64,
    to: Option<i64>,
    disks: Vec<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    /// From allocation to completion, within the stretch.
    spans: Vec<(i64, i64)>,
    /// How many of `spans` are sorted and disjoint.
    merged: usize,
    /// When requests completed.
    completions: Vec<i64>,
    /// What the states at its ends say, where both have the disk: `io_ticks` in µs, requests, uncounted ones.
    states: Option<DiskSum>,
    /// A request was in flight at its beginning or its end.
    waits: bool,
}

impl Disk {
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

    /// Of the disjoint spans: what lies before `time`.
    fn covered(&self, time: i64) -> u64 {
        let before = self.spans.iter().take_while(|s| s.0 < time);
        before.map(|s| (s.1.min(time) - s.0) as u64).sum()
    }

    /// From the stretch's beginning to `time`, once it is settled.
    fn until(&self, stretch: (i64, i64), time: i64) -> DiskSum {
        let (from, to) = stretch;
        let (length, passed) = ((to - from).max(0) as u64, (time - from).max(0) as u64);
        let (busy, busy_until) = (self.covered(to), self.covered(time));
        let done = self.completions.len() as u64;
        let done_until = self.completions.partition_point(|&t| t < time) as u64;
        let Some(states) = self.states else {
            return DiskSum {
                busy_us: busy_until,
                requests: done_until,
                uncounted: 0,
            };
        };
        let more = if self.waits {
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
        DiskSum {
            busy_us,
            requests,
            uncounted: 0,
        }
    }

    /// All of it, by the state at its end.
    fn whole(&self, stretch: (i64, i64)) -> DiskSum {
        let mut sum = self.until(stretch, stretch.1);
        // Also where the stretch has no length.
        sum.requests = self.completions.len() as u64;
        if let Some(states) = self.states {
            (sum.requests, sum.uncounted) = (states.requests, states.uncounted);
        }
        sum
    }
}

/// `part` of `of`, as a share of `amount`. 0 of nothing.
fn share(amount: u64, part: u64, of: u64) -> u64 {
    let whole = u128::from(of);
    let share = u128::from(amount) * u128::from(part);
    share.checked_div(whole).map_or(0, |n| n as u64)
}

/// The `number`th, which is made where there are fewer.
fn at<T: Default>(all: &mut Vec<T>, number: u32) -> Option<&mut T> {
    let number = number as usize;
    if number >= all.len() {
        all.resize_with(number + 1, T::default);
    }
    all.get_mut(number)
}

impl Disks {
    /// A request of the member `number` completed.
    pub(super) fn request(&mut self, number: u32, request: &Request) {
        let time = request.time_us;
        let waited = i64::from(request.queue_us.unwrap_or(0));
        let begin = time - waited - i64::from(request.device_us.unwrap_or(0));
        let of = self.stretches.iter().rposition(|s| s.from <= time);
        let of = of.unwrap_or(0);
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

    /// Everything that `state` ends.
    pub(super) fn state(&mut self, roster: &Roster, before: Option<&State>, state: &State) {
        let time = state.time_us;
        if self.stretches.is_empty() {
            self.open(time);
        }
        let Some(last) = self.stretches.back_mut() else {
            return;
        };
        let time = time.max(last.from);
        last.to = Some(time);
        let mut numbers = roster.member_now.iter();
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
                    let (first, end) = self.part.unwrap_or((i64::MIN, i64::MAX));
                    let (from, to) = (before.time_us.max(first), time.min(end));
                    if from < to
                        && let Some(stalls) = at(&mut self.stalls, number)
                    {
                        stalls.add(was, now, from, to);
                    }
                }
                disk.states = was.map(|was| DiskSum {
                    busy_us: now
                        .io_ticks_ms
                        .saturating_sub(was.io_ticks_ms)
                        .saturating_mul(1000),
                    requests: now.requests.saturating_sub(was.requests),
                    uncounted: now.uncounted.saturating_sub(was.uncounted),
                });
                disk.waits = now.in_flight > 0 || was.is_some_and(|was| was.in_flight > 0);
            }
        }
        self.open(time);
    }

    fn open(&mut self, from: i64) {
        self.stretches.push_back(Stretch {
            from,
            to: None,
            disks: Vec::new(),
        });
    }

    /// The sums at `time` are wanted. To be asked for before [`Disks::is_settled`] of that time.
    pub(super) fn cut(&mut self, time: i64) {
        if !self.cuts.contains_key(&time) {
            self.wanted.insert(time);
        }
    }

    /// The sums at `time` are not wanted any more.
    pub(super) fn forget(&mut self, time: i64) {
        self.wanted.remove(&time);
        self.cuts.remove(&time);
    }

    /// Cuts before `time` are not wanted any more.
    pub(super) fn forget_before(&mut self, time: i64) {
        self.cuts = self.cuts.split_off(&time);
    }

    /// Whether all that was done up to `time` is known, and what the kernel's figures for it are.
    pub(super) fn is_settled(&self, time: i64) -> bool {
        time <= self.settled && self.settled > 0
    }

    /// An item of `time` has been read.
    #[inline]
    pub(super) fn read_until(&mut self, time: i64) {
        if time <= self.newest {
            return;
        }
        self.newest = time;
        let due = |s: &Stretch| s.to.is_some_and(|to| time >= to.saturating_add(SLACK_US));
        while self.stretches.front().is_some_and(due) {
            self.settle();
        }
    }

    /// Nothing older than `time` is going to come, not even a state: what is after the last one is known from requests alone.
    pub(super) fn end(&mut self, time: i64) {
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

    /// Puts the first stretch into the sums.
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
        // A cut at its end has what the state there says.
        let later = self.wanted.split_off(&to);
        let inside = std::mem::replace(&mut self.wanted, later);
        for time in inside {
            let mut sums = self.base.clone();
            for (number, disk) in (0..).zip(&stretch.disks) {
                if let Some(sum) = at(&mut sums, number) {
                    sum.add(disk.until(bounds, time.max(stretch.from)));
                }
            }
            self.cuts.insert(time, sums);
        }
        for (number, disk) in (0..).zip(&stretch.disks) {
            if let Some(base) = at(&mut self.base, number) {
                base.add(disk.whole(bounds));
            }
        }
        if self.wanted.remove(&to) {
            self.cuts.insert(to, self.base.clone());
        }
        self.settled = to.max(1);
    }

    /// Stalls are looked for from here to there only. To be said before anything is read.
    pub(super) fn look_for_stalls(&mut self, from: i64, to: i64) {
        self.part = Some((from, to));
    }

    /// The longest time in which a member had requests in flight and completed none, so far.
    pub(super) fn stall(&self, number: usize) -> Option<Stall> {
        let longest = self.stalls.get(number)?.longest;
        (longest.lasted > Duration::ZERO).then_some(longest)
    }

    /// The sums at a cut; those of the end for one that lies behind it.
    pub(super) fn sums(&self, time: i64) -> &[DiskSum] {
        let known = self.cuts.get(&time);
        known.map_or(&self.base, Vec::as_slice)
    }
}

/// A member's counters, by name.
fn disk_of(state: &State, array: &str, member: &str) -> Option<DiskCounters> {
    let subject = state.arrays.iter().find(|a| a.info.name == array)?;
    subject.members.iter().find(|m| m.name == member)?.disk
}
