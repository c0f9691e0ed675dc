//! All differences of two recordings.

use std::collections::BTreeSet;
use std::time::Duration;

use super::bootstrap::{Resamples, Scale, adjusted, compare};
use super::change::{self as figure, Change, Figure, MAX_FALSE_DISCOVERIES, Over, Subject};
use super::comparison::{ArrayComparison, ComparisonVerdict, Method};
use super::pairs::{self, PairReason, Pairs};
use super::series::{Quantity, Series, SumSubject, Sums};
use super::verdict::find_verdict;
use crate::analysis::hist::{BUCKETS, upper_edge};
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::units;
use crate::origin::Op;

/// Maximum number of members that are compared, the busiest.
const MAX_MEMBERS: usize = 64;
/// Maximum number of tasks, and of files, that are compared: those with the most bytes.
const MAX_NAMES: usize = 16;
/// Minimum number of requests, before and after, for a skew.
const MIN_FOR_SKEW: f64 = 64.0;
/// Quantiles of device times, with the minimum number of requests before and after.
const QUANTILES: [(&Figure, f64, f64); 2] =
    [(&figure::P50, 0.5, 32.0), (&figure::P99, 0.99, 200.0)];
/// Minimum amplification, before or after, to be compared.
const MIN_AMPLIFICATION: f64 = 1.05;
/// Operations whose device times are compared.
const TIMED: [Op; 3] = [Op::Read, Op::Write, Op::Flush];
/// Seeds of the two recordings.
const SEEDS: [u64; 2] = [1, 2];

/// One recording.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonInput<'a> {
    pub series: &'a Series,
    /// Its arrays over the whole period.
    pub arrays: &'a [ArraySnapshot],
    /// Minimum length of a slow operation; `None` if slow operations were not recorded.
    pub threshold: Option<Duration>,
}

/// Comparison of two recordings.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Arrays in both, in the order of the recording after.
    pub arrays: Vec<ArrayComparison>,
    /// Names of arrays that are only in the recording before, or after.
    pub only_before: Vec<String>,
    pub only_after: Vec<String>,
    /// Differences of operations on files, the most important one first.
    pub operations: Vec<Change>,
    pub method: Method,
}

impl Comparison {
    /// Compares two recordings. `asked` has pairs of array names that the user asked for.
    ///
    /// # Errors
    ///
    /// See [`pairs::arrays`].
    pub fn new(
        inputs: [ComparisonInput<'_>; 2],
        asked: &[(String, String)],
    ) -> Result<Self, String> {
        let infos = inputs.map(|input| input.arrays.iter().map(|a| &a.info).collect::<Vec<_>>());
        let Pairs { pairs, left } = pairs::arrays([&infos[0], &infos[1]], asked)?;
        let seconds = inputs.map(|input| input.series.seconds.as_slice());
        let intervals = seconds.map(<[f64]>::len);
        let resamples = [0, 1].map(|side| Resamples::new(intervals[side], SEEDS[side]));
        let resamples = match &resamples {
            [Some(before), Some(after)] => Some([before, after]),
            _ => None,
        };
        let pair = |sums| ArrayPair { sums, seconds, resamples, changes: Vec::new() };
        let empty = Sums::new();
        let compared = pairs.into_iter().map(|(both, reason)| {
            let arrays = [0, 1].map(|side| &inputs[side].arrays[both[side]]);
            let sums = |side: usize| inputs[side].series.arrays.get(&arrays[side].info.name);
            pair([0, 1].map(|side| sums(side).unwrap_or(&empty))).compare(arrays, reason)
        });
        let mut arrays: Vec<ArrayComparison> = compared.collect();
        let mut operations = pair(inputs.map(|input| &input.series.operations));
        operations.operations(inputs[0].threshold == inputs[1].threshold);
        let mut operations = operations.changes;
        let all = arrays.iter_mut().flat_map(|a| &mut a.changes).chain(&mut operations);
        let mut tested: Vec<&mut Change> = all.filter(|c| c.estimate.p.is_some()).collect();
        let p: Vec<f64> = tested.iter().filter_map(|c| c.estimate.p).collect();
        for (change, p) in tested.iter_mut().zip(adjusted(&p)) {
            change.p_adjusted = Some(p);
            change.significant = p <= MAX_FALSE_DISCOVERIES;
        }
        let mean = |s: &[f64]| s.iter().sum::<f64>() / s.len().max(1) as f64;
        let method = Method {
            intervals,
            interval_s: seconds.map(mean),
            block_intervals: resamples.map(|both| both.map(|r| r.block)),
            tested: tested.len(),
            different: tested.iter().filter(|c| c.significant).count(),
        };
        let sort = |changes: &mut Vec<Change>| {
            changes.sort_by(|a, b| b.importance().total_cmp(&a.importance()));
        };
        for array in &mut arrays {
            sort(&mut array.changes);
            (array.verdict, array.headline) = find_verdict(array);
        }
        sort(&mut operations);
        let [only_before, only_after] = [0, 1].map(|side| {
            left[side].iter().map(|&i| infos[side][i].name.clone()).collect::<Vec<_>>()
        });
        Ok(Self { arrays, only_before, only_after, operations, method })
    }
}

/// The figures of a member that the BPF programs count beside requests.
fn counted() -> Vec<&'static Figure> {
    figure::COUNTED_FIGURES.iter().collect()
}

/// Sums of the same array before and after, and its differences so far.
struct ArrayPair<'a> {
    sums: [&'a Sums; 2],
    seconds: [&'a [f64]; 2],
    resamples: Option<[&'a Resamples; 2]>,
    changes: Vec<Change>,
}

/// Names of the members of an array that are present, before and after.
type Present<'a> = [Vec<&'a str>; 2];

impl ArrayPair<'_> {
    fn compare(mut self, arrays: [&ArraySnapshot; 2], paired_by: PairReason) -> ArrayComparison {
        let present: Present<'_> = arrays.map(|array| {
            let present = array.members.iter().filter(|m| m.is_present());
            present.map(|m| m.name.as_str()).collect()
        });
        self.add(&Subject::Load, &[&figure::BIOS, &figure::BYTES, &figure::READ_SHARE]);
        self.array(&present);
        let mut members = pairs::members(arrays);
        let several = members.len() > 1;
        let notes = notes(arrays, &present, &members);
        members.sort_by_cached_key(|subject| {
            let busy = [0, 1].map(|side| self.series(side, &subject.part(side), Quantity::Busy));
            std::cmp::Reverse((1e6 * busy.concat().iter().sum::<f64>()) as u64)
        });
        for subject in members.iter().take(MAX_MEMBERS) {
            self.add(subject, &[&figure::REQUESTS, &figure::BYTES]);
            self.add(subject, &counted());
            // Others of a single member are those of the array.
            if several {
                self.add(subject, &[&figure::UTILISATION, &figure::SHARE]);
                TIMED.into_iter().for_each(|op| self.device_times(subject, op));
            }
        }
        self.origins(&present);
        self.names();
        let [before, after] = arrays.map(|array| array.info.clone());
        let (verdict, headline, changes) = (ComparisonVerdict::Same, String::new(), self.changes);
        ArrayComparison { before, after, paired_by, verdict, headline, changes, notes }
    }

    /// The series of `part` in the recording `side`, with a value for each interval.
    fn series(&self, side: usize, part: &SumSubject, quantity: Quantity) -> Vec<f64> {
        let found = self.sums[side].get(&(part.clone(), quantity));
        let mut series = found.cloned().unwrap_or_default();
        series.resize(self.seconds[side].len(), 0.0);
        series
    }

    /// Adds a difference, unless its figure is undefined, or 0, both before and after.
    fn push(
        &mut self,
        (subject, op, figure): (&Subject, Option<Op>, &'static Figure),
        series: &[Vec<Vec<f64>>; 2],
        value: impl Fn(&[f64]) -> f64,
    ) {
        let is_quantile = QUANTILES.iter().any(|q| q.0 == figure);
        let scale = if is_quantile { Scale::Log } else { Scale::Linear };
        let estimate = compare(self.resamples, [&series[0], &series[1]], scale, value);
        let largest = estimate.before.unwrap_or(0.0).max(estimate.after.unwrap_or(0.0));
        let is_amplification = *figure == figure::AMPLIFICATION;
        if largest > 0.0 && (!is_amplification || largest >= MIN_AMPLIFICATION) {
            let (subject, p_adjusted, significant) = (subject.clone(), None, false);
            self.changes.push(Change { subject, op, figure, estimate, p_adjusted, significant });
        }
    }

    /// Adds figures that are a sum divided by another.
    fn add(&mut self, subject: &Subject, figures: &[&'static Figure]) {
        for &figure in figures {
            let Some((quantity, over, times)) = figure.sums else { continue };
            let series = [0, 1].map(|side| {
                let whole = match over {
                    Over::Seconds => self.seconds[side].to_vec(),
                    Over::Own(whole) => self.series(side, &subject.part(side), whole),
                    Over::Array(whole) => self.series(side, &SumSubject::Array, whole),
                    Over::Load(whole) => self.series(side, &SumSubject::Load, whole),
                };
                vec![self.series(side, &subject.part(side), quantity), whole]
            });
            self.push((subject, None, figure), &series, |sums| match sums {
                [part, whole] if *whole > 0.0 => times * part / whole,
                _ => f64::NAN,
            });
        }
    }

    fn array(&mut self, present: &Present<'_>) {
        let subject = &Subject::Array;
        // Seconds, then busy seconds of each member.
        let series = [0, 1].map(|side| {
            let own = present[side].iter().map(|name| SumSubject::Member((*name).to_owned()));
            let busy = own.map(|part| self.series(side, &part, Quantity::Busy));
            std::iter::once(self.seconds[side].to_vec()).chain(busy).collect::<Vec<_>>()
        });
        self.push((subject, None, &figure::BUSIEST_UTILISATION), &series, |sums| {
            sums[1..].iter().copied().fold(0.0, f64::max) / sums[0]
        });
        if present.iter().any(|members| members.len() > 1) {
            self.push((subject, None, &figure::MEAN_UTILISATION), &series, |sums| {
                sums[1..].iter().sum::<f64>() / (sums.len() - 1).max(1) as f64 / sums[0]
            });
            self.skew(subject, present, |name| SumSubject::Member(name.to_owned()));
        }
        self.add(subject, &[&figure::DISK_TIME, &figure::AMPLIFICATION]);
        self.add(subject, &counted());
        TIMED.into_iter().for_each(|op| self.device_times(subject, op));
    }

    /// Compares the load of the busiest member over the mean, by bytes, or by requests if there are
    /// no bytes.
    fn skew(
        &mut self,
        subject: &Subject,
        present: &Present<'_>,
        part: impl Fn(&str) -> SumSubject,
    ) {
        let each = |quantity| {
            [0, 1].map(|side| -> Vec<Vec<f64>> {
                let own = present[side].iter();
                own.map(|name| self.series(side, &part(name), quantity)).collect()
            })
        };
        let total = |all: &Vec<Vec<f64>>| all.iter().flatten().sum::<f64>();
        let (requests, bytes) = (each(Quantity::Count), each(Quantity::Bytes));
        let has_bytes = bytes.iter().any(|all| total(all) > 0.0);
        let mut series = if has_bytes { bytes } else { requests.clone() };
        for (series, requests) in series.iter_mut().zip(&requests) {
            if total(requests) < MIN_FOR_SKEW {
                series.clear();
            }
        }
        self.push((subject, None, &figure::SKEW), &series, |each| {
            let most = each.iter().copied().fold(0.0, f64::max);
            most * each.len() as f64 / each.iter().sum::<f64>()
        });
    }

    /// Compares the device times of requests of `op`.
    fn device_times(&mut self, subject: &Subject, op: Op) {
        let key = |side, bucket| (subject.part(side), Quantity::Device(op, bucket));
        let range = |side: usize| self.sums[side].range(key(side, 0)..=key(side, u8::MAX));
        let buckets = [0, 1].into_iter().flat_map(range).filter_map(|(key, _)| match key.1 {
            Quantity::Device(_, bucket) => Some(bucket),
            _ => None,
        });
        let buckets: BTreeSet<u8> = buckets.collect();
        let series = [0, 1].map(|side| -> Vec<Vec<f64>> {
            let keys = buckets.iter().map(|&bucket| key(side, bucket));
            keys.map(|(part, quantity)| self.series(side, &part, quantity)).collect()
        });
        let least = series.each_ref().map(|all| all.iter().flatten().sum::<f64>());
        let shown = (!matches!(subject, Subject::Origin { .. })).then_some(op);
        for (figure, q, min) in QUANTILES {
            if least[0].min(least[1]) >= min {
                let quantile = |counts: &[f64]| quantile(&buckets, counts, q);
                self.push((subject, shown, figure), &series, quantile);
            }
        }
    }

    /// Parts in either recording.
    fn parts(&self) -> BTreeSet<SumSubject> {
        self.sums.iter().flat_map(|sums| sums.keys()).map(|key| key.0.clone()).collect()
    }

    fn origins(&mut self, present: &Present<'_>) {
        for part in self.parts() {
            let SumSubject::Origin(origin, op) = part else { continue };
            let subject = &Subject::Origin { origin, op };
            self.add(subject, &[&figure::REQUESTS, &figure::BYTES, &figure::SHARE]);
            if present.iter().all(|members| members.len() > 1) {
                self.skew(subject, present, |name| SumSubject::Cell(name.to_owned(), origin, op));
            }
            self.add(subject, &[&figure::AMPLIFICATION]);
            if TIMED.contains(&op) {
                self.device_times(subject, op);
            }
        }
    }

    /// Compares the largest tasks and files.
    fn names(&mut self) {
        let size = |part: &SumSubject| -> u64 {
            let sum = |quantity| [0, 1].map(|side| self.series(side, part, quantity)).concat();
            let sum = |quantity| sum(quantity).iter().sum::<f64>() as u64;
            sum(Quantity::Bytes).max(sum(Quantity::Bios))
        };
        let mut all: Vec<SumSubject> = self.parts().into_iter().collect();
        all.sort_by_cached_key(|part| std::cmp::Reverse(size(part)));
        let tasks = all.iter().filter_map(|part| match part {
            SumSubject::Task(task) => Some(Subject::Task { task: task.clone() }),
            _ => None,
        });
        for subject in tasks.take(MAX_NAMES) {
            self.add(&subject, &[&figure::BYTES, &figure::BIOS]);
        }
        let files = all.iter().filter_map(|part| match part {
            SumSubject::File(path) => Some(Subject::File { path: path.clone() }),
            _ => None,
        });
        for subject in files.take(MAX_NAMES) {
            self.add(&subject, &[&figure::BYTES]);
        }
    }

    /// Compares operations on files, of the kinds in both recordings.
    fn operations(&mut self, same_threshold: bool) {
        for part in self.parts() {
            let is_in = |sums: &&Sums| sums.contains_key(&(part.clone(), Quantity::Count));
            let is_in_both = self.sums.iter().all(is_in);
            if let (SumSubject::Operation(operation), true) = (part, is_in_both) {
                let subject = &Subject::Operation { operation };
                self.add(subject, &[&figure::OPERATIONS, &figure::MEAN_TIME]);
                if same_threshold {
                    self.add(subject, &[&figure::SLOW_SHARE]);
                }
            }
        }
    }
}

/// The `q` quantile in µs, interpolated within its bucket. `counts` has the count of each of
/// `buckets`; NaN without values.
pub(super) fn quantile(buckets: &BTreeSet<u8>, counts: &[f64], q: f64) -> f64 {
    let rank = q * counts.iter().sum::<f64>();
    let mut before = 0.0;
    for (&bucket, &count) in buckets.iter().zip(counts) {
        if count > 0.0 && before + count >= rank {
            let bucket = usize::from(bucket).min(BUCKETS - 1);
            let lower = bucket.checked_sub(1).map_or(0, upper_edge) as f64;
            let width = upper_edge(bucket) as f64 - lower;
            return lower + width * ((rank - before) / count).clamp(0.0, 1.0);
        }
        before += count;
    }
    f64::NAN
}

/// Facts that limit the comparison of two arrays.
fn notes(arrays: [&ArraySnapshot; 2], present: &Present<'_>, members: &[Subject]) -> Vec<String> {
    let [was, now] = arrays.map(|array| &array.info);
    let mut notes = Vec::new();
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
    let [b, a] = present.each_ref().map(Vec::len);
    if b != a {
        notes.push(format!(
            "{b} members before, {a} after: members are not compared one by one, because a slot \
             has another part of the array"
        ));
    }
    let total = members.len();
    let is_renamed = |member: &&Subject| member.part(0) != member.part(1);
    let renamed = members.iter().filter(is_renamed).count();
    if renamed > 0 && now.level != "single" {
        notes.push(format!(
            "{renamed} of {total} members have another name now; members are compared by slot"
        ));
    }
    if total > MAX_MEMBERS {
        notes.push(format!("only the {MAX_MEMBERS} busiest members are compared one by one"));
    }
    notes
}
