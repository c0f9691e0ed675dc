//! The result of a comparison.

use super::change::Change;
use super::pairs::Reason;
use crate::analysis::snapshot::ArrayInfo;

/// Answer to "did the change help?"
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
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

impl Verdict {
    /// Name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Mixed => "mixed",
            Self::Same => "same",
            Self::LoadDiffers => "load_differs",
            Self::TooShort => "too_short",
            Self::NoRequests => "no_requests",
        }
    }
}

/// How differences were computed. Pairs are before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Method {
    /// Number of intervals.
    pub intervals: (usize, usize),
    /// Mean length of an interval in seconds.
    pub interval_s: (f64, f64),
    /// Number of intervals in a block; `None` if there are too few intervals for a bootstrap.
    pub blocks: Option<(usize, usize)>,
    /// Number of figures that were tested.
    pub tested: usize,
    /// Number of figures that differ beyond noise.
    pub different: usize,
}

/// Differences of one array.
#[derive(Clone, Debug)]
pub struct ArrayComparison {
    pub before: ArrayInfo,
    pub after: ArrayInfo,
    /// Reason for the pair.
    pub reason: Reason,
    /// Differences, the most important one first.
    pub changes: Vec<Change>,
    /// Facts that limit the comparison, one sentence each.
    pub notes: Vec<String>,
    /// Answer to "did the change help?"
    pub verdict: Verdict,
    /// The verdict as one sentence, without a full stop. Names in it are untrusted.
    pub headline: String,
}

/// Comparison of two recordings.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Arrays in both, in the order of the recording after.
    pub arrays: Vec<ArrayComparison>,
    /// Names of arrays that are only in the recording before.
    pub only_before: Vec<String>,
    /// Names of arrays that are only in the recording after.
    pub only_after: Vec<String>,
    /// Differences of operations on files, the most important one first.
    pub operations: Vec<Change>,
    pub method: Method,
}
