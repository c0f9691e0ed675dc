//! Differences and sums of allocator counters.

use super::{AllocShare, Counts, GroupsConsidered, MbCount};
use crate::analysis::cube::{Amount as _, amount};

/// Saturating sum: values from a file are untrusted.
pub fn total<'a>(each: impl Iterator<Item = &'a u64>) -> u64 {
    each.fold(0, |sum, n| sum.saturating_add(*n))
}

impl GroupsConsidered {
    /// Smallest and largest number of groups in `bucket`; the last bucket has no upper limit.
    pub const fn range(bucket: usize) -> (u64, Option<u64>) {
        match bucket {
            0 => (0, Some(0)),
            b if b + 1 < super::GROUPS_BUCKETS => (1 << (b - 1), Some((1 << b) - 1)),
            _ => (1 << (super::GROUPS_BUCKETS - 2), None),
        }
    }

    /// Bucket for a number of groups.
    pub const fn bucket(groups: u64) -> usize {
        let bits = 64 - groups.leading_zeros() as usize;
        if bits < super::GROUPS_BUCKETS { bits } else { super::GROUPS_BUCKETS - 1 }
    }

    /// Number of searches in the histogram.
    pub fn count(&self) -> u64 {
        total(self.0.iter())
    }

    /// Bucket of the `q` quantile (0.0..=1.0); `None` if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Option<usize> {
        let total = self.count();
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0u64;
        self.0.iter().position(|n| {
            seen = seen.saturating_add(*n);
            seen >= rank
        })
    }
}

amount!(GroupsConsidered { 0 });
amount!(Counts {
    requests,
    asked,
    given,
    got,
    latency,
    nanoseconds,
    searches,
    goal,
    preallocated,
    criteria,
    scanned,
    hits,
    locality,
    groups,
    looked,
    refused,
    reasons,
    bitmaps,
    buddies,
    reads,
    prefetches,
    waits,
    discards
});
amount!(MbCount { searches, groups });

impl Counts {
    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Groups considered, all criteria.
    pub fn looks(&self) -> u64 {
        total(self.looked.iter())
    }

    /// Groups refused, all criteria.
    pub fn refusals(&self) -> u64 {
        total(self.refused.iter())
    }
}

impl AllocShare {
    /// Increase since `earlier`. If a count went down, the table entry is new and all of its counts
    /// are returned.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let restarted = self.requests < earlier.requests
            || self.blocks < earlier.blocks
            || self.nanoseconds < earlier.nanoseconds
            || self.looked < earlier.looked;
        if restarted {
            return *self;
        }
        Self {
            requests: self.requests - earlier.requests,
            blocks: self.blocks - earlier.blocks,
            nanoseconds: self.nanoseconds - earlier.nanoseconds,
            looked: self.looked - earlier.looked,
        }
    }

    /// Adds the share of another interval.
    pub fn add(&mut self, other: &Self) {
        self.requests.add(&other.requests);
        self.blocks.add(&other.blocks);
        self.nanoseconds.add(&other.nanoseconds);
        self.looked.add(&other.looked);
    }
}

#[cfg(test)]
mod tests {
    use super::{AllocShare, Counts, GroupsConsidered};
    use crate::analysis::alloc::GROUPS_BUCKETS;
    use crate::analysis::cube::Amount as _;
    use crate::analysis::hist::Hist;
    use proptest::prelude::*;

    #[test]
    fn group_buckets_are_contiguous() {
        assert_eq!(GroupsConsidered::range(0), (0, Some(0)));
        assert_eq!(GroupsConsidered::range(1), (1, Some(1)));
        assert_eq!(GroupsConsidered::range(GROUPS_BUCKETS - 1), (1 << 22, None));
        for b in 0..GROUPS_BUCKETS - 1 {
            let (first, last) = GroupsConsidered::range(b);
            let last = last.unwrap();
            assert_eq!((GroupsConsidered::bucket(first), GroupsConsidered::bucket(last)), (b, b));
            assert_eq!(GroupsConsidered::range(b + 1).0, last + 1);
        }
        assert_eq!(GroupsConsidered::bucket(u64::MAX), GROUPS_BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_groups() {
        let mut groups = GroupsConsidered::default();
        assert_eq!(groups.quantile(0.5), None);
        groups.0[1] = 98;
        groups.0[17] = 2;
        assert_eq!(groups.quantile(0.5), Some(1));
        assert_eq!(groups.quantile(0.99), Some(17));
        assert_eq!(groups.quantile(1.0), Some(17));
    }

    #[test]
    fn an_evicted_entry_starts_at_zero() {
        let share = |requests, blocks| AllocShare { requests, blocks, ..AllocShare::default() };
        assert_eq!(share(9, 90).since(&share(4, 40)), share(5, 50));
        assert_eq!(share(3, 90).since(&share(4, 40)), share(3, 90));
        assert_eq!(share(9, 30).since(&share(4, 40)), share(9, 30));
    }

    fn counts() -> impl Strategy<Value = Counts> {
        prop::collection::vec(0u64..1 << 40, 63).prop_map(|n| {
            let mut hist = Hist::default();
            hist.record(n[0]);
            let mut waits = Hist::default();
            waits.record(n[1]);
            Counts {
                requests: n[0],
                asked: n[1],
                given: n[2],
                got: n[3],
                latency: hist,
                nanoseconds: n[4],
                searches: n[5],
                goal: n[6],
                preallocated: n[7],
                criteria: std::array::from_fn(|i| n[8 + i]),
                scanned: n[13],
                hits: n[62],
                locality: n[61],
                groups: GroupsConsidered(std::array::from_fn(|i| n[14 + i])),
                looked: std::array::from_fn(|i| n[38 + i]),
                refused: std::array::from_fn(|i| n[43 + i]),
                reasons: std::array::from_fn(|i| n[48 + i]),
                bitmaps: n[56],
                buddies: n[57],
                reads: n[58],
                prefetches: n[59],
                waits,
                discards: n[60],
            }
        })
    }

    proptest! {
        #[test]
        fn since_undoes_add(earlier in counts(), more in counts()) {
            let mut now = earlier.clone();
            now.add(&more);
            prop_assert_eq!(now.since(&earlier), more);
            prop_assert!(earlier.since(&now).looks() == 0);
        }
    }
}
