//! A histogram as quantiles and buckets.

use serde::{Deserialize, Serialize};

use crate::analysis::hist::{self, BUCKETS, Hist, Quantiles};

/// A histogram of µs. If `count` is 0, the quantiles are meaningless. `buckets` are pairs of an
/// exclusive upper bound and a count.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct QuantilesLine {
    #[serde(flatten, skip_deserializing)]
    quantiles: Quantiles,
    buckets: Vec<(u64, u32)>,
}

impl From<&Hist> for QuantilesLine {
    fn from(h: &Hist) -> Self {
        let counts = h.counts().iter().enumerate().filter(|(_, n)| **n > 0);
        Self {
            quantiles: h.into(),
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
