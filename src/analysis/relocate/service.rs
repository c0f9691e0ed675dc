//! Service-time model: mean device time of the recorded requests by operation and size.

use super::figures::{CLASSES, Figures, SIZES};
use super::{Direction, figures};

/// Minimum number of requests for a mean of its own.
const ENOUGH: u64 = 20;

/// Device times of recorded requests.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Requests and µs by class.
    sums: [(u64, u64); CLASSES],
}

impl Service {
    /// Adds a request.
    pub fn add(&mut self, direction: Direction, bytes: u64, device_us: u32) {
        let (count, sum) = &mut self.sums[figures::class(direction, bytes)];
        *count += 1;
        *sum = sum.saturating_add(device_us.into());
    }

    /// Mean µs by class. A class with few requests has the mean of the nearest class of the same
    /// direction with enough, else of all requests.
    fn means(&self) -> [f64; CLASSES] {
        let mean = |sums: &[(u64, u64)]| {
            let (count, sum) = sums.iter().fold((0, 0), |(n, s), one| (n + one.0, s + one.1));
            sum as f64 / count.max(1) as f64
        };
        let mut means = [mean(&self.sums); CLASSES];
        for (direction, sums) in self.sums.chunks(SIZES).enumerate() {
            let enough: Vec<usize> = (0..SIZES).filter(|&i| sums[i].0 >= ENOUGH).collect();
            for i in 0..SIZES {
                let nearest = enough.iter().min_by_key(|&&j| j.abs_diff(i));
                if let Some(&j) = nearest {
                    means[direction * SIZES + i] = mean(&sums[j..=j]);
                }
            }
        }
        means
    }

    /// True if no device time was recorded.
    pub fn is_empty(&self) -> bool {
        self.sums.iter().all(|sum| sum.0 == 0)
    }

    /// Estimated device time of the busiest member in each interval, as a share of the interval:
    /// the mean number of requests that its disk works on.
    pub fn busiest(&self, figures: &Figures) -> Vec<f64> {
        let means = self.means();
        let (interval_us, rows) = figures.intervals();
        let load = |row: &[u32; CLASSES]| device_us(row, &means) / interval_us as f64;
        rows.map(|members| members.iter().map(load).fold(0.0, f64::max)).collect()
    }

    /// Estimated device time of each member in seconds.
    pub fn seconds(&self, figures: &Figures) -> Vec<f64> {
        let means = self.means();
        let mut sums = vec![0.0; figures.members()];
        for members in figures.intervals().1 {
            for (sum, row) in sums.iter_mut().zip(members) {
                *sum += device_us(row, &means) / 1e6;
            }
        }
        sums
    }
}

/// Device time of requests by class, µs.
fn device_us(requests: &[u32; CLASSES], means: &[f64; CLASSES]) -> f64 {
    requests.iter().zip(means).map(|(n, us)| f64::from(*n) * us).sum()
}
