//! Log-linear latency histograms: four buckets per power of two from 4 µs on, so that the upper
//! edge of a bucket is at most 25 % above its lower edge. Below 4 µs a bucket is 1 µs wide.
//!
//! The BPF programs use the same buckets (`bpf/shared/hist.h`); a test compares both
//! implementations.

use serde::Serialize;

use super::cube::Amount;

/// Number of buckets of a histogram. The last one has all values from 7/8 of 2^33 µs (2.1 hours)
/// on.
pub const BUCKETS: usize = crate::contract::HIST_BUCKETS as usize;

/// A histogram of microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hist {
    counts: [u32; BUCKETS],
}

impl Default for Hist {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

/// Bucket of `us` microseconds.
///
/// 0..4 µs have a bucket each; from 4 µs on, every power of two is split into four.
pub const fn bucket(us: u64) -> usize {
    if us < 4 {
        return us as usize;
    }
    let log = 63 - us.leading_zeros() as usize;
    let index = (log - 1) * 4 + ((us >> (log - 2)) & 3) as usize;
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// Exclusive upper edge of `bucket`, µs.
pub const fn upper_edge(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64 + 1;
    }
    let (log, quarter) = (bucket / 4 + 1, bucket % 4);
    (4 + quarter as u64 + 1) << (log - 2)
}

/// Counters wrap, as those of the BPF programs do, so that [`Amount::since`] is exact across a
/// wrap.
impl Amount for Hist {
    fn add(&mut self, other: &Self) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a = a.wrapping_add(*b);
        }
    }

    fn since(&self, was: &Self) -> Self {
        let mut out = self.clone();
        for (a, b) in out.counts.iter_mut().zip(&was.counts) {
            *a = a.wrapping_sub(*b);
        }
        out
    }
}

impl Hist {
    /// Creates a histogram from the counters of the BPF programs.
    pub fn from_counts(counts: [u32; BUCKETS]) -> Self {
        Self { counts }
    }

    /// Counts one value of `us` microseconds.
    pub fn record(&mut self, us: u64) {
        let slot = &mut self.counts[bucket(us)];
        *slot = slot.saturating_add(1);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&c| u64::from(c)).sum()
    }

    /// Counts per bucket, in order.
    pub fn counts(&self) -> &[u32; BUCKETS] {
        &self.counts
    }

    /// The `q` quantile (0.0..=1.0) in µs as the upper edge of its bucket, at most 25 % (below 4
    /// µs: 1 µs) too high; `None` if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        });
        bucket.map(upper_edge)
    }

    /// Mean in µs, where each value counts as its bucket's upper edge: at most 25 % (values below 4
    /// µs: 1 µs) too high; `None` if the histogram is empty.
    pub fn mean(&self) -> Option<f64> {
        let values = self.counts.iter().zip((0..BUCKETS).map(upper_edge));
        let sum: f64 = values.map(|(&n, us)| f64::from(n) * us as f64).sum();
        let count = self.count();
        (count > 0).then(|| sum / count as f64)
    }

    /// The largest value in µs, as the upper edge of its bucket; `None` if the histogram is empty.
    pub fn max(&self) -> Option<u64> {
        self.counts.iter().rposition(|&c| c > 0).map(upper_edge)
    }
}

/// Quantiles of `count` measurements; meaningless if `count` is 0.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Quantiles {
    p50: u64,
    p99: u64,
    max: u64,
    count: u64,
}

impl From<&Hist> for Quantiles {
    fn from(h: &Hist) -> Self {
        Self {
            p50: h.quantile(0.5).unwrap_or(0),
            p99: h.quantile(0.99).unwrap_or(0),
            max: h.max().unwrap_or(0),
            count: h.count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Hist, bucket, upper_edge};
    use crate::analysis::cube::Amount as _;
    use proptest::prelude::*;

    #[test]
    fn adjacent_buckets_share_an_edge() {
        for b in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper_edge(b) - 1), b, "last value of bucket {b}");
            assert_eq!(bucket(upper_edge(b)), b + 1, "first value after bucket {b}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(upper_edge(BUCKETS - 1), 1 << 33);
    }

    #[link(name = "raidtrace_native", kind = "static")]
    unsafe extern "C" {
        safe fn rt_native_bucket(us: u64) -> u32;
    }

    #[test]
    fn bpf_programs_use_the_same_buckets() {
        for b in 0..124 {
            for us in [upper_edge(b) - 1, upper_edge(b)] {
                // The BPF programs stop at 32 bits of microseconds, over an hour.
                if us <= u64::from(u32::MAX) {
                    assert_eq!(rt_native_bucket(us) as usize, bucket(us), "{us} us");
                }
            }
        }
        assert_eq!(rt_native_bucket(u64::MAX), 123);
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Hist::default().quantile(0.5), None);
        assert_eq!(Hist::default().max(), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_at_most_25_percent_too_high(
            mut values in prop::collection::vec(0u64..1 << 26, 1..200),
            q in 0.0f64..=1.0,
        ) {
            let mut h = Hist::default();
            for &v in &values {
                h.record(v);
            }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let got = h.quantile(q).unwrap();
            prop_assert!(got > exact, "{got} <= {exact}");
            prop_assert!(got as f64 <= exact as f64 * 1.25 + 1.0, "{got} > 1.25 * {exact}");
            prop_assert_eq!(h.quantile(1.0), h.max());
        }

        #[test]
        fn since_undoes_add_across_a_wrap(
            start in any::<u32>(),
            extra in 0u32..1000,
            b in 0..BUCKETS,
        ) {
            let mut counts = [0; BUCKETS];
            counts[b] = start;
            let earlier = Hist::from_counts(counts);
            counts[b] = start.wrapping_add(extra);
            prop_assert_eq!(Hist::from_counts(counts).since(&earlier).count(), u64::from(extra));
        }
    }
}
