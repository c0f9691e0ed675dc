//! Disk statistics of a member in one of the last intervals.

use std::time::Duration;

use super::cube::amount;

/// Number of intervals kept: more than the widest sparkline shows.
pub const INTERVALS: usize = 60;

/// Disk statistics of a member in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskInterval {
    /// Length of the interval.
    pub interval: Duration,
    /// Utilisation, see
    /// [`MemberSnapshot::utilisation`](super::snapshot::MemberSnapshot::utilisation).
    pub utilisation: Option<f64>,
    /// Requests in flight at the interval's end; `None` where the statistics cannot be read.
    pub in_flight: Option<u32>,
}

/// Count and total time of measured requests that tasks waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waited {
    /// Number of requests.
    pub requests: u64,
    /// Sum of their times from allocation to completion, µs.
    pub us: f64,
}

amount!(Waited { requests, us });

impl Waited {
    /// Mean time of a request, µs; `None` without requests.
    pub fn mean_us(self) -> Option<f64> {
        (self.requests > 0).then(|| self.us / self.requests as f64)
    }
}

/// Period in which a disk had requests in flight and completed none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Lower bound of the stall's length: the time between two readings of the statistics.
    pub lasted: Duration,
    /// Requests in flight in the last interval of the stall.
    pub in_flight: u32,
    /// True if the disk has completed requests since.
    pub is_over: bool,
}
