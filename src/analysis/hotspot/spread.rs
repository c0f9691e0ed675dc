//! Distribution of some load over the members, and the members that carry it.

use crate::analysis::snapshot::{Cell, MemberSnapshot};

/// Minimum skew of an uneven origin: two members with seven eighths of the load on one have this
/// skew. The skew left by `mkfs.ext4 -g 32744` (up to 1.6) is below it.
const MIN_UNEVEN_SKEW: f64 = 1.75;
/// Minimum load of a member that carries an uneven origin, as a multiple of the mean.
const MIN_CARRIER_LOAD: f64 = 1.5;

/// Load of each member. Uses `f64`, because sums of arbitrary counters must not overflow.
pub struct LoadSpread {
    /// Requests (except empty flushes) and bytes read or written, of each present member.
    pub each: Vec<(f64, f64)>,
}

impl LoadSpread {
    pub fn new(members: &[&MemberSnapshot], keep: impl Fn(&Cell) -> bool) -> Self {
        let sum = |m: &&MemberSnapshot| {
            let traffic = m.traffic(&keep);
            let requests = traffic.requests().saturating_sub(traffic.empty_writes);
            (requests as f64, traffic.moved_bytes() as f64)
        };
        Self { each: members.iter().map(sum).collect() }
    }

    pub fn requests(&self) -> f64 {
        self.each.iter().map(|e| e.0).sum()
    }

    pub fn bytes(&self) -> f64 {
        self.each.iter().map(|e| e.1).sum()
    }

    /// Bytes of each member, or requests if there are no bytes (flushes).
    pub fn load(&self) -> Vec<f64> {
        let by_bytes = self.bytes() > 0.0;
        self.each.iter().map(|e| if by_bytes { e.1 } else { e.0 }).collect()
    }

    /// Load of the busiest member over the mean; 1.0 without load.
    pub fn skew(&self) -> f64 {
        let load = self.load();
        let (sum, most) = load.iter().fold((0.0, 0.0f64), |(s, m), &l| (s + l, m.max(l)));
        if sum > 0.0 { (most * load.len() as f64 / sum).max(1.0) } else { 1.0 }
    }

    /// Share of the load on these members.
    pub fn share(&self, members: &[usize]) -> f64 {
        let load = self.load();
        let sum: f64 = load.iter().sum();
        if sum > 0.0 {
            (members.iter().map(|&i| load[i]).sum::<f64>() / sum).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Ascending indices of the members that carry the load. `None` if the load is even, or if more
    /// than half of the members carry it.
    ///
    /// Carriers are the members above 1.5x the mean, whatever their share. "The fewest members with
    /// 90 %" could include one with the mean load beside others with four times as much.
    pub fn carriers(&self) -> Option<Vec<usize>> {
        let load = self.load();
        let mean = load.iter().sum::<f64>() / load.len() as f64;
        let few: Vec<usize> =
            (0..load.len()).filter(|&i| load[i] > MIN_CARRIER_LOAD * mean).collect();
        // Ignore differences that may be chance: below four standard deviations of the request
        // counts.
        let mean_requests = self.requests() / load.len() as f64;
        let beyond_chance = |i: usize| self.each[i].0 >= mean_requests + 4.0 * mean_requests.sqrt();
        (self.skew() >= MIN_UNEVEN_SKEW
            && 2 * few.len() <= load.len()
            && few.iter().any(|&i| beyond_chance(i)))
        .then_some(few)
    }
}
