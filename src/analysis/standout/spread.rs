//! How a part of the load spreads over the members, and who carries it.

use crate::analysis::snapshot::{Cell, MemberSnapshot};

/// From this skew on an origin is uneven. One of two members that has seven eighths has this much; what
/// `mkfs.ext4 -g 32744` leaves (up to 1.6) is below it.
const UNEVEN: f64 = 1.75;
/// An uneven origin is carried by the members that have this much more than the mean.
const ABOVE_MEAN: f64 = 1.5;

/// How something spreads over the members. `f64`: sums of arbitrary counters must not overflow.
pub struct Spread {
    /// Requests (not those that only ask for a flush) and bytes read or written, of each present member.
    pub each: Vec<(f64, f64)>,
}

impl Spread {
    pub fn of(members: &[&MemberSnapshot], keep: impl Fn(&Cell) -> bool) -> Self {
        let sum = |m: &&MemberSnapshot| {
            let traffic = m.traffic(&keep);
            let requests = traffic.requests().saturating_sub(traffic.empty_writes);
            (requests as f64, traffic.moved_bytes() as f64)
        };
        Self {
            each: members.iter().map(sum).collect(),
        }
    }

    pub fn requests(&self) -> f64 {
        self.each.iter().map(|e| e.0).sum()
    }

    pub fn bytes(&self) -> f64 {
        self.each.iter().map(|e| e.1).sum()
    }

    /// Bytes of each member; requests where there are no bytes (flushes).
    pub fn load(&self) -> Vec<f64> {
        let by_bytes = self.bytes() > 0.0;
        self.each
            .iter()
            .map(|e| if by_bytes { e.1 } else { e.0 })
            .collect()
    }

    /// The busiest member over the mean; 1.0 when there is nothing.
    pub fn skew(&self) -> f64 {
        let load = self.load();
        let (sum, most) = load
            .iter()
            .fold((0.0, 0.0f64), |(s, m), &l| (s + l, m.max(l)));
        if sum > 0.0 {
            (most * load.len() as f64 / sum).max(1.0)
        } else {
            1.0
        }
    }

    /// The share that these members have.
    pub fn share(&self, members: &[usize]) -> f64 {
        let load = self.load();
        let sum: f64 = load.iter().sum();
        if sum > 0.0 {
            (members.iter().map(|&i| load[i]).sum::<f64>() / sum).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// The members that carry it, when it is uneven and they are at most half of all: by index, ascending.
    ///
    /// They are those above 1.5x the mean, whatever share that comes to. "The fewest that have 90 %" would name a
    /// member with the mean beside those with four times as much, to make the number up.
    pub fn carriers(&self) -> Option<Vec<usize>> {
        let load = self.load();
        let mean = load.iter().sum::<f64>() / load.len() as f64;
        let few: Vec<usize> = (0..load.len())
            .filter(|&i| load[i] > ABOVE_MEAN * mean)
            .collect();
        // Where chance could have done it, nobody is to blame: four standard deviations of the request counts.
        let mean_requests = self.requests() / load.len() as f64;
        let beyond_chance = |i: usize| self.each[i].0 >= mean_requests + 4.0 * mean_requests.sqrt();
        (self.skew() >= UNEVEN
            && 2 * few.len() <= load.len()
            && few.iter().any(|&i| beyond_chance(i)))
        .then_some(few)
    }
}
