//! The result of a comparison for one array, and how it was computed.

use serde::{Serialize, Serializer};

use super::change::Change;
use super::pairs::PairReason;
use crate::analysis::snapshot::ArrayInfo;

/// Answer to "did the change help?"
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// Utilisation or latency are lower, and neither is higher.
    Better,
    /// Utilisation or latency are higher, and neither is lower.
    Worse,
    /// Some are lower, some are higher.
    Mixed,
    /// No difference beyond noise, or only small ones, in utilisation and latency.
    Same,
    /// The load is unknown, or it differs, which may explain the other differences.
    LoadDiffers,
    /// Too few intervals to tell differences from noise.
    TooShort,
    /// The members were idle before and after.
    NoRequests,
}

/// How differences were computed. Pairs are before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Method {
    /// Number of intervals.
    pub intervals: [usize; 2],
    /// Mean length of an interval in seconds.
    pub interval_s: [f64; 2],
    /// Number of intervals in a block; `None` if there are too few intervals for a bootstrap.
    pub block_intervals: Option<[usize; 2]>,
    /// Number of figures that were tested.
    pub tested: usize,
    /// Number of figures that differ beyond noise.
    pub different: usize,
}

/// Differences of one array.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArrayComparison {
    #[serde(serialize_with = "serialize_info")]
    #[cfg_attr(test, schemars(with = "ComparedInfo<'_>"))]
    pub before: ArrayInfo,
    #[serde(serialize_with = "serialize_info")]
    #[cfg_attr(test, schemars(with = "ComparedInfo<'_>"))]
    pub after: ArrayInfo,
    pub paired_by: PairReason,
    /// Answer to "did the change help?"
    pub verdict: ComparisonVerdict,
    /// The same as one sentence, without a full stop. Names in it are untrusted.
    pub headline: String,
    /// Differences, the most important one first.
    pub changes: Vec<Change>,
    /// Facts that limit the comparison, one sentence each.
    pub notes: Vec<String>,
}

impl ArrayComparison {
    /// Name of the array: `md0`, or `md0 -> md127`.
    pub fn name(&self) -> String {
        match (&self.before.name, &self.after.name) {
            (was, now) if was == now => now.clone(),
            (was, now) => format!("{was} -> {now}"),
        }
    }
}

fn serialize_info<S: Serializer>(info: &ArrayInfo, to: S) -> Result<S::Ok, S::Error> {
    let ArrayInfo { name, level, chunk_bytes, disks, health, .. } = info;
    let (chunk_bytes, disks) = (*chunk_bytes, *disks);
    ComparedInfo { name, level, chunk_bytes, disks, health: health.as_deref() }.serialize(to)
}

/// An array before or after.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComparedInfo<'a> {
    name: &'a str,
    level: &'a str,
    chunk_bytes: u64,
    disks: u32,
    health: Option<&'a str>,
}
