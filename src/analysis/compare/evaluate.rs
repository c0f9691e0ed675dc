//! The whole comparison of two recordings.

use std::time::Duration;

use super::change::{Change, Figure, Subject};
use super::comparison::{ArrayComparison, Comparison, Method, Verdict};
use super::estimate::{self, Design};
use super::pairs::{self, Reason};
use super::resample::{Resamples, block_length};
use super::series::Series;
use super::significance::adjusted;
use super::traffic::{Both, Side};
use super::verdict;
use super::{figures, pairs::Pairs};
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot};
use crate::analysis::units;

/// Seeds of the two recordings.
const SEEDS: (u64, u64) = (1, 2);

/// One recording.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Its intervals.
    pub series: &'a Series,
    /// Its arrays over the whole period.
    pub arrays: &'a [ArraySnapshot],
    /// Minimum length of a slow operation; `None` if slow operations were not recorded.
    pub threshold: Option<Duration>,
}

/// Compares two recordings. `asked` has pairs of array names that the user asked for.
///
/// # Errors
///
/// See [`pairs::arrays`].
pub fn evaluate(
    before: Input<'_>,
    after: Input<'_>,
    asked: &[(String, String)],
) -> Result<Comparison, String> {
    let [was, now] = [before, after]
        .map(|input| -> Vec<&ArrayInfo> { input.arrays.iter().map(|a| &a.info).collect() });
    let found = pairs::arrays(&was, &now, asked)?;
    let resamples = [(before, SEEDS.0), (after, SEEDS.1)].map(|(input, seed)| {
        let intervals = input.series.intervals.len();
        Resamples::new(intervals, block_length(intervals), seed)
    });
    let design = match &resamples {
        [Some(before), Some(after)] => Some(Design { before, after }),
        _ => None,
    };
    let mut arrays = compared(before, after, &found, design);
    let mut operations = operations(before, after, design);
    let all = arrays.iter_mut().flat_map(|a| &mut a.changes);
    let mut tested: Vec<&mut Change> =
        all.chain(&mut operations).filter(|c| c.estimate.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|c| c.estimate.p).collect();
    for (change, adjusted) in tested.iter_mut().zip(adjusted(&p)) {
        change.adjusted = Some(adjusted);
    }
    let seconds = |input: Input<'_>| {
        let intervals = &input.series.intervals;
        intervals.iter().map(|i| i.seconds()).sum::<f64>() / intervals.len().max(1) as f64
    };
    let method = Method {
        intervals: (before.series.intervals.len(), after.series.intervals.len()),
        interval_s: (seconds(before), seconds(after)),
        blocks: design.map(|d| (d.before.block(), d.after.block())),
        tested: tested.len(),
        different: tested.iter().filter(|c| c.is_significant()).count(),
    };
    for array in &mut arrays {
        sort(&mut array.changes);
        (array.verdict, array.headline) = verdict::find_verdict(array);
    }
    sort(&mut operations);
    let names = |all: &[usize], infos: &[&ArrayInfo]| -> Vec<String> {
        all.iter().filter_map(|&i| Some(infos.get(i)?.name.clone())).collect()
    };
    Ok(Comparison {
        arrays,
        only_before: names(&found.before, &was),
        only_after: names(&found.after, &now),
        operations,
        method,
    })
}

fn sort(changes: &mut [Change]) {
    changes.sort_by(|a, b| b.importance().total_cmp(&a.importance()));
}

fn compared(
    before: Input<'_>,
    after: Input<'_>,
    found: &Pairs,
    design: Option<Design<'_>>,
) -> Vec<ArrayComparison> {
    let pairs = found.pairs.iter().filter_map(|&(b, a, reason)| {
        let (was, now) = (before.arrays.get(b)?, after.arrays.get(a)?);
        let both = Both {
            before: Side::new(false, before.series, was),
            after: Side::new(true, after.series, now),
            design,
        };
        let mut members = pairs::members(was, now);
        let mut notes = notes(was, now, reason, &members);
        if members.len() > figures::MEMBERS {
            let busy = |m: &(usize, usize)| -> f64 {
                let sum = |side: &Side<'_>, m| side.each(|s, i| s.busy(i, m)).iter().sum::<f64>();
                sum(&both.before, m.0) + sum(&both.after, m.1)
            };
            members.sort_by(|x, y| busy(y).total_cmp(&busy(x)));
            let more = members.len() - figures::MEMBERS;
            notes.push(format!(
                "the {} busiest members are compared one by one, not the other {more}",
                figures::MEMBERS
            ));
            members.truncate(figures::MEMBERS);
        }
        let changes = [
            figures::load(&both),
            figures::array(&both),
            figures::members(&both, &members),
            figures::origins(&both),
            figures::amplification(&both),
            figures::names(&both),
        ];
        Some(ArrayComparison {
            before: was.info.clone(),
            after: now.info.clone(),
            reason,
            changes: changes.concat(),
            notes,
            verdict: Verdict::Same,
            headline: String::new(),
        })
    });
    pairs.collect()
}

/// Differences of operations on files, of the kinds in both recordings.
fn operations(before: Input<'_>, after: Input<'_>, design: Option<Design<'_>>) -> Vec<Change> {
    let intervals = before.series.intervals.iter();
    let mut kinds: Vec<_> = intervals.flat_map(|i| i.slow.keys().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let is_after = |kind| {
        let mut intervals = after.series.intervals.iter();
        intervals.any(|i| i.slow.contains_key(&kind))
    };
    let mut changes = Vec::new();
    for kind in kinds.into_iter().filter(|&kind| is_after(kind)) {
        let series = |input: Input<'_>| -> [Vec<f64>; 4] {
            let each = |part: fn(u64, u64, u64) -> u64| -> Vec<f64> {
                let intervals = input.series.intervals.iter();
                let sums = intervals.map(|i| i.slow.get(&kind).copied().unwrap_or_default());
                sums.map(|s| part(s.count, s.ns, s.slow) as f64).collect()
            };
            let seconds = input.series.intervals.iter().map(|i| i.seconds());
            [
                each(|count, _, _| count),
                each(|_, ns, _| ns / 1000),
                each(|_, _, slow| slow),
                seconds.collect(),
            ]
        };
        let (b, a) = (series(before), series(after));
        let mut add = |figure, part: usize, whole: usize| {
            let estimate =
                estimate::compare(design, &b, &a, |sums| match (sums.get(part), sums.get(whole)) {
                    (Some(part), Some(whole)) if *whole > 0.0 => part / whole,
                    _ => f64::NAN,
                });
            let subject = Subject::Operation(kind.name());
            changes.extend(Change::new(subject, figure, estimate));
        };
        add(Figure::Operations, 0, 3);
        add(Figure::MeanTime, 1, 0);
        if before.threshold == after.threshold {
            add(Figure::SlowShare, 2, 0);
        }
    }
    changes
}

/// Facts that limit the comparison of two arrays.
fn notes(
    before: &ArraySnapshot,
    after: &ArraySnapshot,
    reason: Reason,
    members: &[(usize, usize)],
) -> Vec<String> {
    let (was, now) = (&before.info, &after.info);
    let mut notes = Vec::new();
    if reason == Reason::Order && was.name != now.name {
        notes.push(format!(
            "{} and {} are compared because of their order; --pair BEFORE=AFTER chooses others",
            was.name, now.name
        ));
    }
    if was.level != now.level {
        notes.push(format!("the level was {}, now {}", was.level, now.level));
    }
    if was.chunk_bytes != now.chunk_bytes {
        let chunk = |bytes: u64| match bytes {
            0 => "none".to_owned(),
            bytes => units::size(bytes),
        };
        let (was, now) = (chunk(was.chunk_bytes), chunk(now.chunk_bytes));
        notes.push(format!("the chunk was {was}, now {now}"));
    }
    for (which, info) in [("before", was), ("after", now)] {
        if let Some(health) = &info.health {
            notes.push(format!("{which}: {} was {health}", info.name));
        }
    }
    let present = |array: &ArraySnapshot| array.members.iter().filter(|m| m.is_present()).count();
    let (b, a) = (present(before), present(after));
    if b != a {
        notes.push(format!(
            "{b} members before, {a} after: members are not compared one by one, because a slot \
             has another part of the array"
        ));
    }
    let renamed = members
        .iter()
        .filter(|m| {
            let names = (before.members.get(m.0), after.members.get(m.1));
            matches!(names, (Some(was), Some(now)) if was.name != now.name)
        })
        .count();
    if renamed > 0 && now.level != "single" {
        notes.push(format!(
            "{renamed} of {} members have another name now; members are compared by slot",
            members.len()
        ));
    }
    notes
}
