//! The estimator: moving-block bootstrap over the intervals of two recordings, and control of the
//! false discovery rate.
//!
//! Successive intervals are not independent: a queue drains over seconds, a journal commits every 5
//! s. So whole blocks of successive intervals are drawn (Künsch 1989). A block that reaches the end
//! continues at the start, so that the first and last intervals are drawn as often as the others
//! (Politis and Romano 1992). The standard deviation of a figure over the resamples is its standard
//! error; Student's t allows for the small number of blocks.

use serde::{Serialize, Serializer};

/// Number of resamples.
pub const RESAMPLES: usize = 1000;
/// Minimum number of intervals for a bootstrap.
pub const MIN_INTERVALS: usize = 10;
/// Number of blocks in a recording. Simulations (`tests.rs`) have about the nominal rate of false
/// alarms with it. Lengths chosen from the data have up to twice that rate in short recordings.
const BLOCKS: usize = 8;
/// Two-sided 95 % quantile of the normal distribution.
const Z95: f64 = 1.959_963_985;

/// Deterministic random numbers: splitmix64 (Steele, Lea and Flood 2014). A generator of a crate
/// may change with its version, and the same recordings must always give the same output.
#[derive(Debug)]
pub(super) struct SplitMix64(pub u64);

impl SplitMix64 {
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The blocks of [`RESAMPLES`] resamples of a recording.
#[derive(Debug)]
pub struct Resamples {
    intervals: usize,
    /// Number of intervals in a block.
    pub block: usize,
    /// First intervals of the blocks of each resample.
    starts: Vec<Vec<usize>>,
}

impl Resamples {
    /// Draws the blocks. The same arguments give the same blocks. `None` if there are fewer than
    /// [`MIN_INTERVALS`].
    pub fn new(intervals: usize, seed: u64) -> Option<Self> {
        let block = intervals.div_ceil(BLOCKS);
        let mut random = SplitMix64(seed);
        // The bias is below 2^-50 for any number of intervals.
        let mut start = || ((u128::from(random.draw()) * intervals as u128) >> 64) as usize;
        let mut blocks = || (0..intervals.div_ceil(block)).map(|_| start()).collect();
        (intervals >= MIN_INTERVALS).then(|| Self {
            intervals,
            block,
            starts: (0..RESAMPLES).map(|_| blocks()).collect(),
        })
    }

    /// Number of blocks that fit into the recording; not rounded.
    fn effective(&self) -> f64 {
        self.intervals as f64 / self.block as f64
    }

    /// Value of `figure` for each resample. `figure` gets the sums of all `series` over the
    /// resample; they have a value for each interval.
    pub(super) fn figures(&self, all: &[Vec<f64>], figure: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let prefix = |series: &Vec<f64>| -> Vec<f64> {
            let around = series.iter().chain(series).take(series.len() + self.block);
            let sums = around.scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        let prefixes: Vec<Vec<f64>> = all.iter().map(prefix).collect();
        let length = |i: usize| (self.intervals - i * self.block).min(self.block);
        let mut sums = vec![0.0; all.len()];
        let figures = self.starts.iter().map(|starts| {
            for (sum, prefix) in sums.iter_mut().zip(&prefixes) {
                let blocks = starts.iter().enumerate();
                *sum = blocks.map(|(i, &s)| prefix[s + length(i)] - prefix[s]).sum();
            }
            figure(&sums)
        });
        figures.collect()
    }

    /// Factor by which the variance of resamples is too small: deviations are taken from the mean
    /// of few blocks, and correlation beyond a block is not seen. The latter is assumed to be that
    /// of intervals that correlate with the one before by 0.5: the variance of their mean is 3
    /// times that of independent intervals, and blocks of L intervals show 3 - 4 (1 - 0.5^L) / L
    /// times that.
    fn correction(&self) -> f64 {
        let length = self.block as f64;
        let seen = 3.0 - 4.0 * (1.0 - 0.5f64.powf(length)) / length;
        3.0 / seen / (1.0 - 1.0 / self.effective().max(2.0))
    }
}

/// Scale on which differences of a figure are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Ratios of times are closer to a normal distribution than their differences are.
    Log,
}

/// A figure before and after. Undefined figures, such as a ratio to nothing, are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    #[serde(serialize_with = "six_digits")]
    pub before: Option<f64>,
    #[serde(serialize_with = "six_digits")]
    pub after: Option<f64>,
    /// `after` less `before`.
    #[serde(serialize_with = "six_digits")]
    pub difference: Option<f64>,
    /// `after` over `before`; `None` if `before` is 0.
    #[serde(serialize_with = "six_digits")]
    pub ratio: Option<f64>,
    /// 95 % confidence interval of the difference; `None` if it is not tested.
    #[serde(serialize_with = "six_digits_each")]
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value of the difference; `None` without enough intervals, or if a figure is
    /// undefined.
    #[serde(serialize_with = "six_digits")]
    pub p: Option<f64>,
}

/// Compares a figure that `figure` computes from sums over a recording. `before` and `after` have
/// one series for each sum, with a value for each interval. `figure` may return NaN. `resamples`
/// are those of the recordings before and after; without them nothing is tested.
pub fn compare(
    resamples: Option<[&Resamples; 2]>,
    series: [&[Vec<f64>]; 2],
    scale: Scale,
    figure: impl Fn(&[f64]) -> f64,
) -> Estimate {
    let whole = series.map(|all| {
        let sums: Vec<f64> = all.iter().map(|series| series.iter().sum()).collect();
        Some(figure(&sums)).filter(|value| value.is_finite())
    });
    let mut estimate = Estimate { before: whole[0], after: whole[1], ..Estimate::default() };
    let [Some(before), Some(after)] = whole else {
        return estimate;
    };
    estimate.difference = Some(after - before);
    estimate.ratio = (before > 0.0).then(|| after / before);
    let Some(resamples) = resamples else {
        return estimate;
    };
    // `clamp` keeps NaN, which `max` does not.
    let to_scale = |value: f64| match scale {
        Scale::Linear => value,
        Scale::Log => value.clamp(0.5, f64::INFINITY).ln(),
    };
    let each = [0, 1].map(|i| resamples[i].figures(series[i], &figure));
    let deltas = each[0].iter().zip(&each[1]).map(|(&b, &a)| to_scale(a) - to_scale(b));
    let deltas: Vec<f64> = deltas.filter(|delta| delta.is_finite()).collect();
    // The figure is undefined in most resamples.
    if 2 * deltas.len() <= RESAMPLES {
        return estimate;
    }
    let count = deltas.len() as f64;
    let mean = deltas.iter().sum::<f64>() / count;
    let variance = deltas.iter().map(|delta| (delta - mean).powi(2)).sum::<f64>() / count;
    let correction = resamples[0].correction().max(resamples[1].correction());
    let error = (variance * correction).sqrt();
    // Degrees of freedom: blocks, less one for each mean.
    let freedom = (resamples[0].effective() + resamples[1].effective() - 2.0).max(1.0);
    let difference = to_scale(after) - to_scale(before);
    let margin = error * student_95(freedom);
    let from_scale = |value: f64| match scale {
        Scale::Linear => value,
        Scale::Log => before * value.exp_m1(),
    };
    estimate.interval = Some((from_scale(difference - margin), from_scale(difference + margin)));
    // Sums of floating-point numbers: a deviation below this is zero.
    estimate.p = Some(if error > 1e-9 * difference.abs() {
        student_p(difference / error, freedom)
    } else {
        f64::from(u8::from(difference == 0.0))
    });
    estimate
}

/// Two-sided p value of `t` with `freedom` degrees of freedom, by Wallace's approximation (Annals
/// of Mathematical Statistics 30, 1959, page 1124).
pub(super) fn student_p(t: f64, freedom: f64) -> f64 {
    let z = (freedom * (t * t / freedom).ln_1p()).sqrt() * (8.0 * freedom + 1.0);
    libm::erfc(z / (8.0 * freedom + 3.0) / std::f64::consts::SQRT_2)
}

/// Two-sided 95 % quantile of Student's t: the inverse of [`student_p`].
pub(super) fn student_95(freedom: f64) -> f64 {
    let z = Z95 * (8.0 * freedom + 3.0) / (8.0 * freedom + 1.0);
    (freedom * (z * z / freedom).exp_m1()).sqrt()
}

/// Adjusted p values by Benjamini and Hochberg (1995), in the order of `p`. Differences whose
/// adjusted value is at most 0.05 include at most 5 % false ones in the long run.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut least = 1.0f64;
    let mut adjusted = vec![1.0; p.len()];
    for (larger, &i) in order.iter().enumerate() {
        let rank = (p.len() - larger) as f64;
        least = least.min(p[i] * p.len() as f64 / rank);
        adjusted[i] = least;
    }
    adjusted
}

/// `value` with six significant digits.
fn rounded(value: f64) -> f64 {
    let scale = 10f64.powi(5 - value.abs().log10().floor().clamp(-300.0, 300.0) as i32);
    if scale.is_normal() { (value * scale).round() / scale } else { value }
}

#[expect(clippy::ref_option, reason = "serde's signature")]
pub(super) fn six_digits<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    value.map(rounded).serialize(to)
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn six_digits_each<S: Serializer>(value: &Option<(f64, f64)>, to: S) -> Result<S::Ok, S::Error> {
    value.map(|(low, high)| [rounded(low), rounded(high)]).serialize(to)
}
