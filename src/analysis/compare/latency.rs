//! Compares the device times of requests.

use super::estimate::{Design, Estimate, deltas, interval, p};
use super::fine::{Sparse, quantile};
use super::ranks;
use super::resample::Resamples;

/// Minimum number of measured requests, before and after, for the median to be compared.
const ENOUGH: f64 = 32.0;
/// Minimum number of measured requests for the 99th percentile.
const ENOUGH_P99: f64 = 200.0;

/// Device times before and after, µs.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Median. Its p value is the larger one of the bootstrap and of the rank test.
    pub p50: Estimate,
    /// 99th percentile; `None` if too few requests were measured.
    pub p99: Option<Estimate>,
    /// Probability that a request after took longer than one before, see [`ranks::Ranks`].
    pub superiority: f64,
}

/// Counts of the same buckets in each interval.
struct Table<'a> {
    buckets: &'a [u16],
    /// Rows of the intervals, one after the other.
    rows: Vec<u32>,
}

impl<'a> Table<'a> {
    fn new(buckets: &'a [u16], intervals: &[Sparse]) -> Self {
        let mut rows = vec![0; intervals.len() * buckets.len()];
        for (row, interval) in rows.chunks_mut(buckets.len().max(1)).zip(intervals) {
            for (bucket, count) in interval {
                let at = buckets.binary_search(bucket).ok();
                if let Some(cell) = at.and_then(|at| row.get_mut(at)) {
                    *cell = *count;
                }
            }
        }
        Self { buckets, rows }
    }

    fn total(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.buckets.len()];
        for row in self.rows.chunks(self.buckets.len().max(1)) {
            for (sum, &count) in total.iter_mut().zip(row) {
                *sum += f64::from(count);
            }
        }
        total
    }

    /// Median and 99th percentile of each resample.
    fn resampled(&self, resamples: &Resamples) -> [Vec<f64>; 2] {
        let mut quantiles = [Vec::new(), Vec::new()];
        resamples.rows(&self.rows, self.buckets.len(), |_, counts| {
            for (all, q) in quantiles.iter_mut().zip([0.5, 0.99]) {
                all.push(quantile(self.buckets, counts, q).unwrap_or(f64::NAN));
            }
        });
        quantiles
    }
}

/// Compares the device times in `before` and `after`, which have a histogram for each interval. `None` if too few requests were
/// measured.
pub fn compare(design: Option<Design<'_>>, before: &[Sparse], after: &[Sparse]) -> Option<Latency> {
    let mut buckets: Vec<u16> = before.iter().chain(after).flatten().map(|b| b.0).collect();
    buckets.sort_unstable();
    buckets.dedup();
    let tables = [before, after].map(|each| Table::new(&buckets, each));
    let totals = tables.each_ref().map(Table::total);
    let least = totals
        .iter()
        .map(|t| t.iter().sum())
        .fold(f64::INFINITY, f64::min);
    if least < ENOUGH {
        return None;
    }
    let ranks = ranks::test(&totals[0], &totals[1])?;
    let resampled = design.map(|design| {
        let [before, after] = &tables;
        [
            before.resampled(design.before),
            after.resampled(design.after),
        ]
    });
    let estimate = |index: usize, q: f64| {
        let [before, after] = totals.each_ref().map(|t| quantile(&buckets, t, q));
        let mut estimate = Estimate {
            before,
            after,
            ..Estimate::default()
        };
        if let (Some(design), Some([b, a]), Some(before), Some(after)) =
            (design, &resampled, before, after)
        {
            // Ratios of times are closer to a normal distribution than differences are.
            // A resample without requests has no percentile (NaN), and is left out.
            let log = |us: &f64| {
                if us.is_nan() {
                    f64::NAN
                } else {
                    us.max(0.5).ln()
                }
            };
            let logs = |all: &[f64]| -> Vec<f64> { all.iter().map(log).collect() };
            let ratio = log(&after) - log(&before);
            let deltas = deltas(&logs(&b[index]), &logs(&a[index]));
            let difference = |ratio: f64| before * ratio.exp_m1();
            let ratios = interval(ratio, &deltas, design);
            estimate.interval = ratios.map(|(low, high)| (difference(low), difference(high)));
            estimate.p = p(ratio, &deltas, design);
        }
        estimate
    };
    let mut p50 = estimate(0, 0.5);
    // Medians and ranks may point in opposite directions if the shapes differ.
    let agree = (ranks.superiority - 0.5) * p50.difference().unwrap_or(0.0) >= 0.0;
    p50.p = p50.p.map(|p| if agree { p.max(ranks.p) } else { 1.0 });
    Some(Latency {
        p50,
        p99: (least >= ENOUGH_P99).then(|| estimate(1, 0.99)),
        superiority: ranks.superiority,
    })
}
