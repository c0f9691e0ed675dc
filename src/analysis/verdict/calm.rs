//! The calm time before: which moments belong to it, and the wait that is slow after it.

use std::time::Duration;

use jiff::Timestamp;

use super::evidence::extra;
use super::moment::quantile;
use super::{Moment, MomentSum, SLOW};

/// Least share of the calm time's waited-for bios whose tasks still wait, to compare with it.
pub const MIN_SAME_SHARE: f64 = 0.1;
/// Shortest mean wait that is slow if extra writes are the cause, µs, and its least multiple of the
/// wait before, by index in [`super::moment::EXTRA_WRITES`]. A journal is also written more often
/// for a while.
const EXTRA_SLOW: [(f64, f64); 2] = [(10_000.0, 1.5), (30_000.0, 2.0)];

/// Share of the waited-for bios in `calm` whose tasks still wait.
pub fn still_wait(calm: &[(Timestamp, &Moment)], recent: &MomentSum) -> f64 {
    let (mut same, mut all) = (0.0, 0.0);
    for (name, bios) in calm.iter().flat_map(|k| &k.1.waiting) {
        all += bios;
        same += if recent.waiting.contains_key(name) { *bios } else { 0.0 };
    }
    same / f64::max(all, 1.0)
}

/// Index of the first of the last moments that cover `span`.
pub fn last_seconds(known: &[(Timestamp, &Moment)], span: Duration) -> usize {
    let mut start = known.len();
    let mut covered = Duration::ZERO;
    while start > 0 && covered < span.mul_f64(0.95) {
        start -= 1;
        covered += known[start].1.over;
    }
    start
}

/// Shortest slow wait after a calm time in which it was `before_us`, µs.
pub fn slow_from(before_us: f64) -> f64 {
    SLOW.into_iter().map(|(us, times)| us.max(times * before_us)).fold(f64::INFINITY, f64::min)
}

/// Start of a moment.
pub fn began(known: &[(Timestamp, &Moment)], at: usize) -> Timestamp {
    let (end, moment) = known[at];
    end.checked_sub(moment.over).unwrap_or(end)
}

/// Mean waits of the moments in which tasks waited, µs.
pub fn means(moments: &[(Timestamp, &Moment)]) -> Vec<f64> {
    moments.iter().filter_map(|k| k.1.waits.mean_us()).collect()
}

/// Index of the first moment of the slow time that has not ended, by the mean waits; the number of
/// moments if the last one is not slow.
pub fn onset(
    known: &[(Timestamp, &Moment)],
    start: usize,
    mean: impl Fn(&Moment) -> Option<f64>,
    is_stuck: impl Fn(&Moment) -> bool,
) -> usize {
    let calm = known[..start].iter().filter_map(|k| mean(k.1)).collect();
    let low = quantile(calm, 0.2).unwrap_or(0.0);
    let limit = slow_from(low).min(2.0 * low.max(SLOW[1].0));
    let (mut onset, mut calm) = (known.len(), 0);
    for (at, (_, moment)) in known.iter().enumerate().rev() {
        let us = mean(moment);
        if is_stuck(moment) || us.is_some_and(|us| us >= limit) {
            (onset, calm) = (at, 0);
        } else if us.is_some() || !moment.waits.is_in_flight() {
            // Else nothing that is waited for has ended: that is neither slow nor calm.
            calm += 1;
        }
        if at < start && calm > 2 {
            break;
        }
    }
    onset
}

/// Shortest slow wait if extra writes grew since `calm`, in which the wait was `before_us`, µs.
pub fn extra_slow(now: &MomentSum, calm: &[(Timestamp, &Moment)], before_us: f64) -> f64 {
    extra(now, &MomentSum::of(calm)).map_or(f64::INFINITY, |(at, _)| {
        let (shortest, times) = EXTRA_SLOW[at];
        shortest.max(times * before_us)
    })
}
