//! Decides from a few figures of each member whether an array has a problem, and which.

use std::time::Duration;

use crate::analysis::cube::Amount as _;
use crate::analysis::hist::Hist;
use crate::analysis::recent::Stall;
use crate::analysis::snapshot::{Cell, DiskUse, MemberSnapshot};
use crate::origin::Op;

/// Minimum utilisation, according to io_ticks, of a saturated member.
pub const MIN_SATURATED: f64 = 0.9;
/// Mean time of a request, µs, below which utilisation alone does not prove saturation: a disk that
/// works in parallel can be busy all the time and still take more requests (iostat(1) on `%util` of
/// RAID arrays and SSDs).
const MAX_QUICK_US: f64 = 300.0;
/// Minimum time of a request on a slower member, as a multiple of the other members' time. A slower
/// member counts as saturated even if its requests are shorter than [`MAX_QUICK_US`].
const MIN_SLOWER_RATIO: f64 = 2.0;
/// Utilisation of the least busy member from which all members count as busy.
const MIN_ALL_BUSY: f64 = 0.8;
/// Multiple of the other members' requests or bytes from which more work is the cause of a problem.
const MIN_MORE_WORK: f64 = 1.25;
/// Minimum number of measured requests for latencies to be significant.
const MIN_MEASURED: u64 = 64;
/// Minimum mean wait before issue, µs, of requests that are held back.
const MIN_WAIT_US: f64 = 10_000.0;
/// Requests whose median wait is at least this multiple of the member's busy time cannot have
/// waited for the disk. In a burst of writeback, requests can wait long for each other, but not
/// longer than the disk is busy.
const MIN_WAIT_RATIO: f64 = 2.0;
/// Requests are also held back if the sum of their times in the device is less than this share of
/// the member's busy time. io_ticks starts when a request is allocated, so for the rest of the busy
/// time requests waited and none was in the device.
const MAX_DEVICE_SHARE: f64 = 0.5;
/// Minimum length of a stall. A large request alone does not take this long.
const MIN_STALL: Duration = Duration::from_secs(5);

/// Figures of one member that the decision uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberFigures {
    /// Share of the time with a request in flight; `None` if unknown.
    pub utilisation: Option<f64>,
    /// Requests completed.
    pub requests: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Mean time of reads and writes from allocation to completion, µs; `None`: too few were
    /// measured.
    pub mean_us: Option<f64>,
    /// Mean time of reads and writes before they were issued, and in the device, µs; `None`: too
    /// few were measured.
    pub times_us: Option<(f64, f64)>,
    /// Median time of reads and writes before they were issued, µs; `None`: too few were measured.
    pub queue_p50_us: Option<u64>,
    /// Times in the device of all requests, added up, µs; `None`: too few were measured.
    pub device_us: Option<f64>,
    /// Time with a request in flight, µs; `None` if unknown.
    pub busy_us: Option<f64>,
    /// Stall: requests were in flight and none completed. `None` without a stall, or if it was too
    /// short.
    pub stalled: Option<Stall>,
}

/// The problem of an array. Members are given by index.
#[derive(Clone, Debug, PartialEq)]
pub enum Symptom {
    /// No problem.
    None,
    /// Some members are busy all the time, others are not.
    Saturated {
        members: Vec<usize>,
        cause: SymptomCause,
        /// Utilisation of the least busy of `members`.
        least: f64,
        /// Mean utilisation of the other members.
        others: f64,
    },
    /// Every member whose utilisation is known is busy all the time.
    Full { members: Vec<usize>, least: f64 },
    /// Requests wait although the members are not saturated.
    Waiting {
        members: Vec<usize>,
        /// Mean time of the requests before they are issued, µs.
        wait_us: f64,
        /// Mean time of the requests in the device, µs.
        device_us: f64,
    },
    /// Members have requests in flight and complete none.
    Stalled {
        members: Vec<usize>,
        /// Longest stall, with the requests in flight of all `members`.
        stall: Stall,
    },
}

/// Reason why some members have the problem and others do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SymptomCause {
    /// The members have this multiple of the other members' work.
    MoreWork(f64),
    /// The members have no more work, but their requests take this multiple of the other members'
    /// time.
    Longer(f64),
    /// The figures do not show the cause.
    Elsewhere,
}

impl MemberFigures {
    /// Figures of a member in the time `over`.
    pub fn new(member: &MemberSnapshot, over: Duration) -> Self {
        let traffic = member.traffic(|_| true);
        let hist = |ops: &[Op], queue: bool| {
            let mut all = Hist::default();
            let cells = member.io.iter().filter(|c| ops.contains(&c.op));
            cells.for_each(|c| all.add(if queue { &c.queue } else { &c.device }));
            all
        };
        let enough = |h: &Hist| h.count() >= MIN_MEASURED;
        let both = [Op::Read, Op::Write];
        let (queue, device) = (hist(&both, true), hist(&both, false));
        let measured = enough(&device);
        let times = (queue.mean().unwrap_or(0.0), device.mean().unwrap_or(0.0));
        let utilisation = member.utilisation();
        Self {
            utilisation,
            busy_us: utilisation.map(|u| u * over.as_micros() as f64),
            requests: traffic.requests().saturating_sub(traffic.empty_writes) as f64,
            bytes: traffic.moved_bytes() as f64,
            mean_us: measured.then_some(times.0 + times.1),
            times_us: measured.then_some(times),
            queue_p50_us: queue.quantile(0.5).filter(|_| measured),
            device_us: measured.then(|| member.io.iter().map(Cell::device_us).sum()),
            stalled: stall(member, over),
        }
    }

    fn is_saturated(&self, others_us: Option<f64>) -> bool {
        let quick = self.mean_us.is_some_and(|us| {
            us < MAX_QUICK_US && others_us.is_none_or(|others| us < MIN_SLOWER_RATIO * others)
        });
        self.utilisation.is_some_and(|u| u >= MIN_SATURATED) && !quick && !self.is_held()
    }

    /// True if requests wait before they are issued, for something other than the disk.
    pub fn is_held(&self) -> bool {
        let (Some((queue_us, device_us)), Some(busy_us)) = (self.times_us, self.busy_us) else {
            return false;
        };
        let has_time = self.device_us.is_some_and(|us| us < MAX_DEVICE_SHARE * busy_us)
            || (self.queue_p50_us).is_some_and(|us| us as f64 >= MIN_WAIT_RATIO * busy_us);
        queue_us >= MIN_WAIT_US && queue_us > device_us && has_time
    }
}

/// A stall that lasted long enough to be reported.
fn stall(member: &MemberSnapshot, over: Duration) -> Option<Stall> {
    // Without a history, use the interval.
    let busy = |d: &DiskUse| d.requests == 0 && d.in_flight > 0 && d.utilisation >= MIN_SATURATED;
    let busy = member.disk.filter(busy).map(|d| Stall {
        lasted: over,
        in_flight: d.in_flight,
        is_over: false,
    });
    member.stall.or(busy).filter(|s| s.lasted >= MIN_STALL)
}

pub fn median<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

/// Median of the mean time of a request, over all members but `i`.
fn others_us(all: &[MemberFigures], i: usize) -> Option<f64> {
    let others = (0..all.len()).filter(|&o| o != i);
    median(others.filter_map(|o| all[o].mean_us))
}

/// Returns the worst problem, in this order: stalled members; saturated members; requests that wait
/// for something other than the disk. How long tasks wait is the matter of the verdict. A member of
/// unknown utilisation is neither saturated nor idle.
pub fn find_symptom(all: &[MemberFigures]) -> Symptom {
    stalled(all).or_else(|| saturated(all)).or_else(|| waiting(all)).unwrap_or(Symptom::None)
}

fn stalled(all: &[MemberFigures]) -> Option<Symptom> {
    let all = all.iter().enumerate();
    let mut stalls: Vec<(usize, Stall)> = all.filter_map(|(i, f)| Some((i, f.stalled?))).collect();
    // A current stall matters more than one that is over.
    let is_over = stalls.iter().all(|s| s.1.is_over);
    stalls.retain(|s| s.1.is_over == is_over);
    let sum = |n: u32, s: &(usize, Stall)| n.saturating_add(s.1.in_flight);
    Some(Symptom::Stalled {
        stall: Stall {
            lasted: stalls.iter().map(|s| s.1.lasted).max()?,
            in_flight: stalls.iter().fold(0, sum),
            is_over,
        },
        members: stalls.iter().map(|s| s.0).collect(),
    })
}

fn saturated(all: &[MemberFigures]) -> Option<Symptom> {
    let members: Vec<usize> =
        (0..all.len()).filter(|&i| all[i].is_saturated(others_us(all, i))).collect();
    let known = |i: &usize| all[*i].utilisation.is_some();
    let rest: Vec<usize> = (0..all.len()).filter(|i| !members.contains(i) && known(i)).collect();
    let utilisation = |i: usize| all[i].utilisation.unwrap_or(0.0);
    let least = |of: &[usize]| of.iter().map(|&i| utilisation(i)).fold(1.0, f64::min);
    if members.is_empty() {
        return None;
    }
    if rest.is_empty() || (least(&rest) >= MIN_ALL_BUSY && members.len() >= rest.len()) {
        let members: Vec<usize> = (0..all.len()).filter(known).collect();
        let least = least(&members);
        return Some(Symptom::Full { members, least });
    }
    let others = rest.iter().map(|&i| utilisation(i)).sum::<f64>() / rest.len() as f64;
    Some(Symptom::Saturated {
        cause: find_cause(all, &members, &rest),
        least: least(&members),
        others,
        members,
    })
}

/// Finds the reason why `members` have the problem and `rest` do not.
pub fn find_cause(all: &[MemberFigures], members: &[usize], rest: &[usize]) -> SymptomCause {
    let mean = |of: &[usize], value: &dyn Fn(&MemberFigures) -> f64| {
        of.iter().map(|&i| value(&all[i])).sum::<f64>() / of.len().max(1) as f64
    };
    let times = |value: &dyn Fn(&MemberFigures) -> f64| {
        let (these, others) = (mean(members, value), mean(rest, value));
        if these > 0.0 { these / others } else { 0.0 }
    };
    let work = times(&|f| f.requests).max(times(&|f| f.bytes));
    if work >= MIN_MORE_WORK {
        return SymptomCause::MoreWork(work);
    }
    let us = |of: &[usize]| median(of.iter().filter_map(|&i| all[i].mean_us));
    match us(members).zip(us(rest)) {
        Some((these, others)) if these >= MIN_SLOWER_RATIO * others => {
            SymptomCause::Longer(these / others)
        }
        _ => SymptomCause::Elsewhere,
    }
}

fn waiting(all: &[MemberFigures]) -> Option<Symptom> {
    let members: Vec<usize> = (0..all.len()).filter(|&i| all[i].is_held()).collect();
    let figures = members.iter().filter_map(|&i| all[i].times_us);
    let (wait_us, device_us) = figures.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Symptom::Waiting { members, wait_us, device_us })
}
