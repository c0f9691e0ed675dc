//! Moving-block bootstrap over the intervals of a recording.
//!
//! Successive intervals are not independent: a queue drains over seconds, a journal commits every 5
//! s. So whole blocks of successive intervals are drawn (Künsch 1989). A block that reaches the end
//! continues at the start, so that the first and last intervals are drawn as often as the others
//! (Politis and Romano 1992).

/// Number of resamples.
pub const RESAMPLES: usize = 1000;
/// Minimum number of intervals for a bootstrap.
pub const ENOUGH_INTERVALS: usize = 10;
/// Number of blocks that fit into a recording.
const BLOCKS: usize = 8;

/// Deterministic random numbers: splitmix64 (Steele, Lea and Flood 2014). A generator of a crate
/// may change with its version, and the same recordings must always give the same output.
#[derive(Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// Next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Next number below `limit`; 0 if `limit` is 0.
    fn below(&mut self, limit: u64) -> u64 {
        // The bias is below 2^-50 for any number of intervals.
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }
}

/// The blocks of [`RESAMPLES`] resamples of a recording.
#[derive(Debug)]
pub struct Resamples {
    intervals: usize,
    block: usize,
    /// First intervals of the blocks, `blocks` for each resample.
    starts: Vec<u32>,
    blocks: usize,
}

impl Resamples {
    /// Draws blocks of `block` of `intervals` intervals. The same arguments give the same blocks.
    /// `None` if there are fewer than [`ENOUGH_INTERVALS`].
    pub fn new(intervals: usize, block: usize, seed: u64) -> Option<Self> {
        if intervals < ENOUGH_INTERVALS {
            return None;
        }
        let block = block.clamp(1, intervals);
        let blocks = intervals.div_ceil(block);
        let mut numbers = Numbers(seed);
        let starts = (0..RESAMPLES * blocks).map(|_| numbers.below(intervals as u64) as u32);
        Some(Self { intervals, block, starts: starts.collect(), blocks })
    }

    /// Number of intervals in a block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Number of blocks that fit into the recording; not rounded.
    pub fn effective(&self) -> f64 {
        self.intervals as f64 / self.block as f64
    }

    /// Blocks of resample `number`: first interval, and number of intervals.
    fn blocks(&self, number: usize) -> impl Iterator<Item = (usize, usize)> {
        let starts = self.starts.iter().skip(number * self.blocks);
        let lengths = (0..self.blocks).map(|i| (self.intervals - i * self.block).min(self.block));
        starts.map(|&s| s as usize).zip(lengths)
    }

    /// Value of `figure` for each resample. `figure` gets the sums of all `series` over the
    /// resample; they have a value for each interval.
    pub fn figures<T>(&self, series: &[Vec<f64>], figure: impl Fn(&[f64]) -> T) -> Vec<T> {
        let prefixes: Vec<Vec<f64>> = series
            .iter()
            .map(|series| {
                let mut sum = 0.0;
                let around = series.iter().chain(series).take(series.len() + self.block);
                let sums = around.map(|v| {
                    sum += v;
                    sum
                });
                std::iter::once(0.0).chain(sums).collect()
            })
            .collect();
        let mut sums = vec![0.0; series.len()];
        let figures = (0..RESAMPLES).map(|n| {
            let blocks: Vec<(usize, usize)> = self.blocks(n).collect();
            for (sum, prefix) in sums.iter_mut().zip(&prefixes) {
                let each = blocks.iter().map(|&(s, l)| prefix[s + l] - prefix[s]);
                *sum = each.sum();
            }
            figure(&sums)
        });
        figures.collect()
    }
}

/// Number of intervals in a block, for a recording of `intervals`: an eighth. Simulations
/// (`simulation.rs`) have about the nominal rate of false alarms with this length. Lengths chosen
/// from the data have up to twice that rate in short recordings.
pub fn block_length(intervals: usize) -> usize {
    intervals.div_ceil(BLOCKS).max(1)
}

#[cfg(test)]
mod tests {
    use super::{RESAMPLES, Resamples, block_length};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_resample_has_all_its_intervals(n in 10usize..80, block in 1usize..20, seed in any::<u64>()) {
            let resamples = Resamples::new(n, block, seed).unwrap();
            let ones = vec![1.0; n];
            let sums = resamples.figures(&[ones], |sums| sums[0]);
            prop_assert_eq!(sums.len(), RESAMPLES);
            prop_assert!(sums.iter().all(|&sum| sum == n as f64));
            // A figure gets the sums of all series over the same resample.
            let rows: Vec<u32> = (0..2 * n as u32).map(|v| v * v % 97).collect();
            let column = |c: usize| -> Vec<f64> { rows.chunks(2).map(|r| f64::from(r[c])).collect() };
            let [first, second] = [0, 1].map(|c| resamples.figures(&[column(c)], |sums| sums[0]));
            let both = resamples.figures(&[column(0), column(1)], |sums| (sums[0], sums[1]));
            prop_assert_eq!(both, first.into_iter().zip(second).collect::<Vec<_>>());
        }
    }

    #[test]
    fn too_few_intervals_are_not_resampled() {
        assert!(Resamples::new(9, 1, 1).is_none());
        let resamples = Resamples::new(10, 100, 1).unwrap();
        assert_eq!((resamples.block(), resamples.effective()), (10, 1.0));
        assert_eq!([0, 10, 60, 128].map(block_length), [1, 2, 8, 16]);
    }
}
