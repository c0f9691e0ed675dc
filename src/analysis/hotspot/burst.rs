//! Members that are saturated for part of the time. A mean hides this: five saturated seconds of
//! ten look like 50 % utilisation.

use std::time::Duration;

use crate::analysis::recent::Recent;
use crate::analysis::recent::Waited;

/// Minimum utilisation, according to io_ticks, of a saturated member.
pub const SATURATED: f64 = 0.9;
/// Minimum length of a burst. A shorter burst is a journal commit or a short writeback.
const MIN_LENGTH: Duration = Duration::from_secs(2);
/// Sums over the recent intervals in which a member was saturated, and over the other intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Burst {
    /// Length of the saturated intervals.
    pub lasted: Duration,
    /// Length of all intervals.
    pub of: Duration,
    /// Mean utilisation in the saturated intervals.
    pub utilisation: f64,
    /// Requests that tasks waited for in the saturated intervals.
    pub waited: Waited,
    /// Requests that tasks waited for in the other intervals.
    pub otherwise: Waited,
}

impl Burst {
    /// Sums up the last intervals.
    pub fn new(recent: &[Recent]) -> Self {
        let mut burst = Self::default();
        let mut busy = 0.0;
        for interval in recent {
            burst.of = burst.of.saturating_add(interval.interval);
            match interval.utilisation.filter(|&u| u >= SATURATED) {
                Some(utilisation) => {
                    burst.lasted = burst.lasted.saturating_add(interval.interval);
                    burst.waited.add(interval.waited);
                    busy += utilisation * interval.interval.as_secs_f64();
                }
                None => burst.otherwise.add(interval.waited),
            }
        }
        burst.utilisation = busy / burst.lasted.as_secs_f64().max(f64::MIN_POSITIVE);
        burst
    }

    /// True if the burst lasted long enough to be reported.
    pub fn is_significant(&self) -> bool {
        self.lasted >= MIN_LENGTH && self.lasted < self.of
    }
}

#[cfg(test)]
mod tests {
    use super::Burst;
    use crate::analysis::recent::Recent;
    use crate::analysis::recent::Waited;
    use std::time::Duration;

    /// Measured on a loop device limited to 300 reads a second: 20 reads a second, plus 16
    /// concurrent reads for five seconds.
    #[test]
    fn a_burst_begins_and_ends_within_an_interval() {
        let intervals = [
            (0.01, 20, 300.0),
            (0.01, 20, 300.0),
            (0.01, 20, 300.0),
            (0.62, 247, 50_000.0),
            (0.98, 300, 56_000.0),
            (0.95, 330, 56_000.0),
            (0.97, 300, 56_000.0),
            (0.98, 257, 56_000.0),
            (0.31, 124, 50_000.0),
            (0.01, 20, 300.0),
        ];
        let recent = intervals.map(|(utilisation, requests, us)| Recent {
            interval: Duration::from_secs(1),
            utilisation: Some(utilisation),
            in_flight: Some(1),
            waited: Waited { requests, us: us * requests as f64 },
        });
        let burst = Burst::new(&recent);
        assert_eq!(burst.lasted, Duration::from_secs(4));
        assert_eq!(burst.waited.mean_us().map(f64::round), Some(56_000.0));
        assert_eq!(burst.otherwise.requests, 451);
    }
}
