//! A histogram as quantiles and buckets.

use serde::{Deserialize, Serialize};

use crate::analysis::hist::{self, BUCKETS, Hist};

/// A histogram of µs. If `count` is 0, the quantiles are meaningless. `buckets` are pairs of an
/// exclusive upper bound and a count.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct QuantilesLine {
    p50: u64,
    p99: u64,
    max: u64,
    count: u64,
    buckets: Vec<(u64, u32)>,
}

impl From<&Hist> for QuantilesLine {
    fn from(h: &Hist) -> Self {
        let counts = h.counts().iter().enumerate().filter(|(_, n)| **n > 0);
        Self {
            p50: h.quantile(0.5).unwrap_or(0),
            p99: h.quantile(0.99).unwrap_or(0),
            max: h.max().unwrap_or(0),
            count: h.count(),
            buckets: counts.map(|(i, &n)| (hist::upper_edge(i), n)).collect(),
        }
    }
}

impl QuantilesLine {
    pub(super) fn hist(self) -> Hist {
        let mut counts = [0u32; BUCKETS];
        for (edge, n) in self.buckets {
            let slot = &mut counts[hist::bucket(edge.saturating_sub(1))];
            *slot = slot.saturating_add(n);
        }
        Hist::from_counts(counts)
    }
}
