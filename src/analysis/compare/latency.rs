//! Compares the device times of requests.

use super::estimate::{Design, Estimate, deltas, interval, p};
use super::fine::{Sparse, quantile};

/// Minimum number of measured requests, before and after, for the median to be compared.
const ENOUGH: f64 = 32.0;
/// Minimum number of measured requests for the 99th percentile.
const ENOUGH_P99: f64 = 200.0;

/// Device times before and after, µs.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Median.
    pub p50: Estimate,
    /// 99th percentile; `None` if too few requests were measured.
    pub p99: Option<Estimate>,
}

/// A series for each of `buckets`: its count in each interval.
fn series(buckets: &[u16], intervals: &[Sparse]) -> Vec<Vec<f64>> {
    let mut series = vec![vec![0.0; intervals.len()]; buckets.len()];
    for (i, interval) in intervals.iter().enumerate() {
        for (bucket, count) in interval {
            let at = buckets.binary_search(bucket).ok();
            if let Some(counts) = at.and_then(|at| series.get_mut(at)) {
                counts[i] = f64::from(*count);
            }
        }
    }
    series
}

/// Compares the device times in `before` and `after`, which have a histogram for each interval.
/// `None` if too few requests were measured.
pub fn compare(design: Option<Design<'_>>, before: &[Sparse], after: &[Sparse]) -> Option<Latency> {
    let mut buckets: Vec<u16> = before.iter().chain(after).flatten().map(|b| b.0).collect();
    buckets.sort_unstable();
    buckets.dedup();
    let tables = [before, after].map(|each| series(&buckets, each));
    let total = |table: &Vec<Vec<f64>>| -> Vec<f64> {
        table.iter().map(|counts| counts.iter().sum()).collect()
    };
    let totals = tables.each_ref().map(total);
    let least = totals.iter().map(|t| t.iter().sum()).fold(f64::INFINITY, f64::min);
    if least < ENOUGH {
        return None;
    }
    // Median and 99th percentile of a resample; NaN if it has no requests.
    let quantiles =
        |counts: &[f64]| [0.5, 0.99].map(|q| quantile(&buckets, counts, q).unwrap_or(f64::NAN));
    let resampled = design.map(|design| {
        let [before, after] = &tables;
        [design.before.figures(before, quantiles), design.after.figures(after, quantiles)]
    });
    let estimate = |index: usize, q: f64| {
        let [before, after] = totals.each_ref().map(|t| quantile(&buckets, t, q));
        let mut estimate = Estimate { before, after, ..Estimate::default() };
        if let (Some(design), Some([b, a]), Some(before), Some(after)) =
            (design, &resampled, before, after)
        {
            // Ratios of times are closer to a normal distribution than differences are.
            // `clamp` keeps NaN, which `max` does not.
            let log = |us: f64| us.clamp(0.5, f64::INFINITY).ln();
            let logs = |all: &[[f64; 2]]| all.iter().map(|q| log(q[index])).collect::<Vec<_>>();
            let ratio = log(after) - log(before);
            let deltas = deltas(logs(b), logs(a));
            let difference = |ratio: f64| before * ratio.exp_m1();
            let ratios = interval(ratio, &deltas, design);
            estimate.interval = ratios.map(|(low, high)| (difference(low), difference(high)));
            estimate.p = p(ratio, &deltas, design);
        }
        estimate
    };
    let p99 = (least >= ENOUGH_P99).then(|| estimate(1, 0.99));
    Some(Latency { p50: estimate(0, 0.5), p99 })
}
