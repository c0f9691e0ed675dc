//! All differences of one array.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Figure, Subject, latency};
use super::series::{Interval, Name};
use super::traffic::{Both, Side, is_moving};
use crate::analysis::amplification::Amplification;
use crate::analysis::hist::Hist;
use crate::analysis::snapshot::{ArraySnapshot, Cell, MemberSnapshot};
use crate::origin::{Op, Origin};

/// Maximum number of members that are compared, the busiest.
pub const MEMBERS: usize = 64;
/// Maximum number of tasks, and of files, that are compared: those with the most bytes.
pub const NAMES: usize = 16;
/// Minimum number of requests before and after for a skew.
const ENOUGH_FOR_SKEW: f64 = 64.0;
/// Operations whose device times are compared.
const TIMED: [Op; 3] = [Op::Read, Op::Write, Op::Flush];
/// Minimum amplification, before or after, to be compared.
const COSTLY: f64 = 1.05;
const MIB: f64 = (1 << 20) as f64;

/// Bytes read and written that were submitted to the array.
fn load_bytes(side: &Side<'_>, interval: &Interval) -> f64 {
    side.submitted(interval, |_, op| is_moving(op)).1
}

/// Differences of the load: what was submitted to the array.
pub fn load(both: &Both<'_>) -> Vec<Change> {
    let change = |figure, estimate| Change::new(Subject::Load, figure, estimate);
    let bios = both.rate(|side, i| side.submitted(i, |_, _| true).0);
    let bytes = both.rate(load_bytes);
    let reads = |side: &Side<'_>, i: &Interval| side.submitted(i, |_, op| op == Op::Read).1;
    [
        change(Figure::Bios, bios),
        change(Figure::Bytes, bytes),
        change(Figure::ReadShare, both.ratio(reads, load_bytes)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Differences of the array as a whole.
pub fn array(both: &Both<'_>) -> Vec<Change> {
    let change = |figure, estimate| Change::new(Subject::Array, figure, estimate);
    // Seconds, then busy seconds of each member.
    let series = |side: &Side<'_>| -> Vec<Vec<f64>> {
        let seconds = side.each(|_, i| i.seconds());
        let busy = side.present().map(|m| side.each(|s, i| s.busy(i, m)));
        std::iter::once(seconds).chain(busy).collect()
    };
    let split = |sums: &[f64]| -> (f64, f64, f64, f64) {
        let (seconds, busy) = sums.split_first().map_or((0.0, sums), |(s, b)| (*s, b));
        let most = busy.iter().copied().fold(0.0, f64::max);
        (seconds, most, busy.iter().sum(), busy.len().max(1) as f64)
    };
    let busiest = both.figure(series, |sums| {
        let (seconds, most, _, _) = split(sums);
        most / seconds
    });
    let mean = both.figure(series, |sums| {
        let (seconds, _, sum, members) = split(sums);
        sum / members / seconds
    });
    let members = both.before.present().count().max(both.after.present().count());
    let busy = |side: &Side<'_>, i: &Interval| -> f64 {
        // Include members that failed during the recording.
        let members = 0..side.members.len();
        members.map(|m| side.busy(i, m)).sum::<f64>() * 1e6
    };
    let disk_time = both.ratio(busy, |side, i| load_bytes(side, i) / MIB);
    let mut changes = vec![
        change(Figure::BusiestUtilisation, busiest),
        change(Figure::MeanUtilisation, mean).filter(|_| members > 1),
        change(Figure::DiskTime, disk_time),
        change(Figure::Skew, skew(both, |_, op| is_moving(op))).filter(|_| members > 1),
    ];
    changes.extend(TIMED.into_iter().flat_map(|op| {
        let times = both.latency(|_, _, _, o| o == op);
        latency(&Subject::Array, op, times).into_iter().map(Some)
    }));
    changes.into_iter().flatten().collect()
}

/// Load of the busiest member over the mean, by bytes, or by requests if there are no bytes.
/// Undefined with too few requests.
fn skew(both: &Both<'_>, keep: impl Fn(Origin, Op) -> bool) -> super::estimate::Estimate {
    let by_requests = [&both.before, &both.after].iter().all(|side| {
        side.each(|s, i| s.moved(i, |_, o, op| keep(o, op)).1).iter().all(|b| *b == 0.0)
    });
    let series = |side: &Side<'_>| -> Vec<Vec<f64>> {
        let requests = side.each(|s, i| s.moved(i, |_, o, op| keep(o, op)).0);
        let enough = requests.iter().sum::<f64>() >= ENOUGH_FOR_SKEW;
        if !enough {
            return Vec::new();
        }
        // One pass for all members: an array may have hundreds.
        let mut index = vec![None; side.series.members.len()];
        let present: Vec<usize> = side.present().collect();
        for (at, &member) in present.iter().enumerate() {
            let number = side.members.get(member).copied().flatten();
            if let Some(index) = number.and_then(|n| index.get_mut(n as usize)) {
                *index = Some(at);
            }
        }
        let intervals = &side.series.intervals;
        let mut each = vec![vec![0.0; intervals.len()]; present.len()];
        for (i, interval) in intervals.iter().enumerate() {
            for (member, origin, op, cell) in side.cells(interval) {
                let at = index.get(member as usize).copied().flatten();
                let sum = at.and_then(|at| each.get_mut(at)?.get_mut(i));
                if let Some(sum) = sum.filter(|_| keep(origin, op)) {
                    *sum += match (by_requests, is_moving(op)) {
                        (true, _) => cell.requests as f64,
                        (false, true) => cell.bytes as f64,
                        (false, false) => 0.0,
                    };
                }
            }
        }
        each
    };
    both.figure(series, |each| {
        let sum: f64 = each.iter().sum();
        let most = each.iter().copied().fold(0.0, f64::max);
        if sum > 0.0 { most * each.len() as f64 / sum } else { f64::NAN }
    })
}

/// Differences of each pair of members. `pairs` has indices into the members before and after. A
/// single member's utilisation, share of the bytes and times are left out: they are those of the
/// array.
pub fn members(both: &Both<'_>, pairs: &[(usize, usize)]) -> Vec<Change> {
    let mut changes = Vec::new();
    let several = pairs.len() > 1;
    for &(before, after) in pairs {
        let (was, now) =
            (both.before.array.members.get(before), both.after.array.members.get(after));
        let (Some(was), Some(now)) = (was, now) else {
            continue;
        };
        let subject = Subject::Member {
            slot: was.slot.filter(|_| was.slot == now.slot),
            before: was.name.clone(),
            after: now.name.clone(),
        };
        let index = |side: &Side<'_>| side.pick((before, after));
        let own = |side: &Side<'_>, member: u32| {
            side.members.get(index(side)).copied().flatten() == Some(member)
        };
        let moved = |side: &Side<'_>, i: &Interval| side.moved(i, |m, _, _| own(side, m));
        let change = |figure, estimate| Change::new(subject.clone(), figure, estimate);
        let all = |side: &Side<'_>, i: &Interval| side.moved(i, |_, _, _| true).1;
        let found = [
            change(Figure::Utilisation, both.rate(|side, i| side.busy(i, index(side))))
                .filter(|_| several),
            change(Figure::Requests, both.rate(|side, i| moved(side, i).0)),
            change(Figure::Bytes, both.rate(|side, i| moved(side, i).1)),
            change(Figure::Share, both.ratio(|side, i| moved(side, i).1, all)).filter(|_| several),
        ];
        changes.extend(found.into_iter().flatten());
        for op in TIMED.into_iter().filter(|_| several) {
            let times = both.latency(|side, m, _, o| own(side, m) && o == op);
            changes.extend(latency(&subject, op, times));
        }
    }
    changes
}

/// Differences of each origin and operation.
pub fn origins(both: &Both<'_>) -> Vec<Change> {
    let mut kinds = BTreeSet::new();
    for side in [&both.before, &both.after] {
        let intervals = side.series.intervals.iter();
        kinds.extend(intervals.flat_map(|i| side.cells(i).map(|c| (c.1, c.2))));
    }
    let several = both.before.present().count() > 1 && both.after.present().count() > 1;
    let mut changes = Vec::new();
    for (origin, op) in kinds {
        let subject = Subject::Origin(origin, op);
        let moved = |side: &Side<'_>, i: &Interval| side.moved(i, |_, o, p| (o, p) == (origin, op));
        let all = |side: &Side<'_>, i: &Interval| side.moved(i, |_, _, _| true).1;
        let change = |figure, estimate| Change::new(subject.clone(), figure, estimate);
        let skew = several.then(|| skew(both, |o, p| (o, p) == (origin, op)));
        let found = [
            change(Figure::Requests, both.rate(|side, i| moved(side, i).0)),
            change(Figure::Bytes, both.rate(|side, i| moved(side, i).1)),
            change(Figure::Share, both.ratio(|side, i| moved(side, i).1, all)),
            skew.and_then(|skew| change(Figure::Skew, skew)),
        ];
        changes.extend(found.into_iter().flatten());
        if TIMED.contains(&op) {
            let times = both.latency(|_, _, o, p| (o, p) == (origin, op));
            changes.extend(latency(&subject, op, times));
        }
    }
    changes
}

/// Differences of the largest tasks and files.
pub fn names(both: &Both<'_>) -> Vec<Change> {
    let mut totals: BTreeMap<&Name, f64> = BTreeMap::new();
    for side in [&both.before, &both.after] {
        for ((array, name), sum) in side.series.intervals.iter().flat_map(|i| &i.names) {
            if Some(*array) == side.number {
                let size = sum.bytes.max(sum.bios) as f64;
                *totals.entry(name).or_default() += size;
            }
        }
    }
    let mut largest: Vec<(&Name, f64)> = totals.into_iter().collect();
    largest.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let is_task = |name: &Name| matches!(name, Name::Task(_));
    let (tasks, files): (Vec<_>, Vec<_>) = largest.into_iter().partition(|l| is_task(l.0));
    let kept = tasks.iter().take(NAMES).chain(files.iter().take(NAMES));
    let mut changes = Vec::new();
    for (name, _) in kept {
        let sum = |side: &Side<'_>, i: &Interval| {
            let number = side.number?;
            i.names.get(&(number, (*name).clone())).copied()
        };
        let bytes = both.rate(|s, i| sum(s, i).map_or(0.0, |sum| sum.bytes as f64));
        let (subject, bios) = match name {
            Name::Task(name) => {
                let bios = both.rate(|s, i| sum(s, i).map_or(0.0, |sum| sum.bios as f64));
                (Subject::Task(name.clone()), Some(bios))
            }
            Name::File(path) => (Subject::File(path.clone()), None),
        };
        changes.extend(Change::new(subject.clone(), Figure::Bytes, bytes));
        changes.extend(bios.and_then(|bios| Change::new(subject, Figure::Bios, bios)));
    }
    changes
}

/// Differences of the amplification of writes: of all, and of each origin.
pub fn amplification(both: &Both<'_>) -> Vec<Change> {
    type Rows = Vec<BTreeMap<Option<Origin>, (f64, f64)>>;
    let rows = |side: &Side<'_>| -> Rows {
        let intervals = side.series.intervals.iter();
        let each = intervals.map(|interval| {
            let amplification = Amplification::new(&bytes_of(side, interval), Default::default());
            let total = amplification.total(Op::Write);
            let own = amplification
                .rows
                .iter()
                .filter(|r| r.op == Op::Write)
                .map(|r| (Some(r.origin), (r.below() as f64, r.submitted as f64)));
            own.chain([(None, (total.below() as f64, total.submitted as f64))]).collect()
        });
        each.collect()
    };
    let (before, after) = (rows(&both.before), rows(&both.after));
    let origins: BTreeSet<Option<Origin>> =
        before.iter().chain(&after).flat_map(|r| r.keys().copied()).collect();
    let mut changes = Vec::new();
    for origin in origins {
        let series = |side: &Side<'_>| {
            let rows = side.pick((&before, &after));
            let each = |part: fn(&(f64, f64)) -> f64| -> Vec<f64> {
                rows.iter().map(|r| r.get(&origin).map_or(0.0, part)).collect()
            };
            [each(|r| r.0), each(|r| r.1)]
        };
        let estimate = both.figure(series, |sums| match sums {
            [below, submitted] if *submitted > 0.0 => below / submitted,
            _ => f64::NAN,
        });
        let costs = [estimate.before, estimate.after];
        if costs.iter().flatten().all(|factor| *factor < COSTLY) {
            continue;
        }
        let subject = origin.map_or(Subject::Array, |o| Subject::Origin(o, Op::Write));
        changes.extend(Change::new(subject, Figure::Amplification, estimate));
    }
    changes
}

/// Bytes of the array in one interval, with all members as one.
fn bytes_of(side: &Side<'_>, interval: &Interval) -> ArraySnapshot {
    let cells = side.cells(interval).map(|(_, origin, op, cell)| Cell {
        origin,
        op,
        requests: cell.requests,
        bytes: cell.bytes,
        queue: Hist::default(),
        device: Hist::default(),
    });
    let member = MemberSnapshot { slot: Some(0), io: cells.collect(), ..MemberSnapshot::default() };
    let own = |array: u32| Some(array) == side.number;
    let submitted = interval.submitted.iter().filter(|(key, _)| own(key.0));
    let costs = interval.costs.iter().filter(|(key, _)| own(key.0));
    ArraySnapshot {
        info: side.array.info.clone(),
        members: vec![member],
        submitted: submitted.map(|(&(_, origin, op), sum)| ((origin, op), sum.bytes)).collect(),
        costs: costs.map(|(&(_, origin), cost)| (origin, *cost)).collect(),
        ..ArraySnapshot::default()
    }
}
