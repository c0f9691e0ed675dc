//! One difference between two recordings, with its 95 % confidence interval and p value.

use super::resample::Resamples;
use super::significance::{Z95, student_95, student_p};

/// Resamples of both recordings.
#[derive(Clone, Copy, Debug)]
pub struct Design<'a> {
    /// Resamples of the recording before.
    pub before: &'a Resamples,
    /// Resamples of the recording after.
    pub after: &'a Resamples,
}

impl Design<'_> {
    /// Degrees of freedom: blocks that fit into the recordings, less one for each mean.
    pub fn freedom(&self) -> f64 {
        (self.before.effective() + self.after.effective() - 2.0).max(1.0)
    }

    /// Factor by which a standard deviation of resamples is too small: deviations are taken from
    /// the mean of few blocks, and correlation beyond a block is not seen. The latter is assumed to
    /// be that of intervals that correlate with the one before by 0.5: the variance of their mean
    /// is 3 times that of independent intervals, and blocks of L intervals show 3 - 4 (1 - 0.5^L) /
    /// L times that.
    fn correction(&self) -> f64 {
        let factor = |resamples: &Resamples| {
            let length = resamples.block() as f64;
            let seen = 3.0 - 4.0 * (1.0 - 0.5f64.powf(length)) / length;
            3.0 / seen / (1.0 - 1.0 / resamples.effective().max(2.0))
        };
        factor(self.before).max(factor(self.after)).sqrt()
    }
}

/// A figure before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Figure before; `None` if undefined, for example a ratio to nothing.
    pub before: Option<f64>,
    /// Figure after.
    pub after: Option<f64>,
    /// 95 % confidence interval of the difference; `None` without enough intervals, or if a figure
    /// is undefined.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value of the difference.
    pub p: Option<f64>,
}

impl Estimate {
    /// `after` less `before`.
    pub fn difference(&self) -> Option<f64> {
        Some(self.after? - self.before?)
    }

    /// `after` over `before`; `None` if `before` is 0.
    pub fn ratio(&self) -> Option<f64> {
        let before = self.before.filter(|b| *b > 0.0)?;
        Some(self.after? / before)
    }
}

/// Compares a figure that `figure` computes from sums over a recording. `before` and `after` have
/// one series for each sum, with a value for each interval. `figure` may return NaN.
pub fn compare(
    design: Option<Design<'_>>,
    before: &[Vec<f64>],
    after: &[Vec<f64>],
    figure: impl Fn(&[f64]) -> f64,
) -> Estimate {
    let whole = |series: &[Vec<f64>]| -> f64 {
        let sums: Vec<f64> = series.iter().map(|s| s.iter().sum()).collect();
        figure(&sums)
    };
    let some = |value: f64| value.is_finite().then_some(value);
    let mut estimate =
        Estimate { before: some(whole(before)), after: some(whole(after)), ..Estimate::default() };
    if let (Some(design), Some(difference)) = (design, estimate.difference()) {
        let before = design.before.figures(before, &figure);
        let after = design.after.figures(after, &figure);
        let deltas = deltas(before, after);
        estimate.interval = interval(difference, &deltas, design);
        estimate.p = p(difference, &deltas, design);
    }
    estimate
}

/// Differences between pairs of resamples, ascending, without undefined ones.
pub fn deltas(before: Vec<f64>, after: Vec<f64>) -> Vec<f64> {
    let each = before.into_iter().zip(after).map(|(b, a)| a - b);
    let mut deltas: Vec<f64> = each.filter(|d| d.is_finite()).collect();
    deltas.sort_by(f64::total_cmp);
    deltas
}

/// 95 % confidence interval: percentiles of the ascending `deltas`, centred at `difference`, and
/// widened for the number of blocks.
pub fn interval(difference: f64, deltas: &[f64], design: Design<'_>) -> Option<(f64, f64)> {
    let at = |q: f64| deltas.get((q * deltas.len() as f64) as usize).copied();
    let middle = at(0.5).filter(|_| is_enough(deltas))?;
    let wider = design.correction() * student_95(design.freedom()) / Z95;
    let (low, high) = (at(0.025)?, at(0.975)?);
    Some((
        difference + wider * (low - middle).min(0.0),
        difference + wider * (high - middle).max(0.0),
    ))
}

/// p value of `difference`: Student's t with the standard deviation of `deltas`.
pub fn p(difference: f64, deltas: &[f64], design: Design<'_>) -> Option<f64> {
    if !is_enough(deltas) {
        return None;
    }
    let count = deltas.len() as f64;
    let mean = deltas.iter().sum::<f64>() / count;
    let squares: f64 = deltas.iter().map(|d| (d - mean).powi(2)).sum();
    let error = (squares / count).sqrt() * design.correction();
    // Sums of floating-point numbers: a deviation below this is zero.
    if error <= 1e-9 * difference.abs() || error == 0.0 {
        return Some(if difference == 0.0 { 1.0 } else { 0.0 });
    }
    Some(student_p(difference / error, design.freedom()))
}

/// False if a figure was undefined in most resamples.
fn is_enough(deltas: &[f64]) -> bool {
    2 * deltas.len() > super::resample::RESAMPLES
}
