//! A difference between two recordings: its subject, its figure and its uncertainty.

use std::sync::LazyLock;

use serde::{Serialize, Serializer};

use super::bootstrap::{Estimate, six_digits};
use super::series::{Quantity, SumSubject};
use crate::analysis::figures::{COUNTED, CountedFigure, CountedUnit};
use crate::origin::{Op, Origin};

/// Accepted share of false differences among those reported as significant (false discovery rate).
pub const MAX_FALSE_DISCOVERIES: f64 = 0.05;
/// Multiple of a time that is not called noise, however few requests show it.
const MIN_LARGE_RATIO: f64 = 3.0;

/// Subject of a difference. Names are untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "subject", rename_all = "snake_case")]
pub enum Subject {
    /// IO submitted to the array.
    Load,
    /// The array as a whole.
    Array,
    /// A member, with md's raid_disk if both have the same, and its names before and after.
    Member { slot: Option<u32>, member_before: String, member_after: String },
    /// An origin and operation on all members.
    Origin { origin: Origin, op: Op },
    /// A task by name.
    Task { task: String },
    /// A file by path.
    File { path: String },
    /// A kind of operation on files: `fsync`.
    Operation { operation: String },
}

impl Subject {
    /// The sums of the subject in the recording before (0) or after (1).
    pub(super) fn part(&self, side: usize) -> SumSubject {
        match self.clone() {
            Self::Load => SumSubject::Load,
            Self::Array => SumSubject::Array,
            Self::Member { member_before, .. } if side == 0 => SumSubject::Member(member_before),
            Self::Member { member_after, .. } => SumSubject::Member(member_after),
            Self::Origin { origin, op } => SumSubject::Origin(origin, op),
            Self::Task { task } => SumSubject::Task(task),
            Self::File { path } => SumSubject::File(path),
            Self::Operation { operation } => SumSubject::Operation(operation),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Per second.
    Rate,
    /// Bytes per second.
    Bytes,
    /// 0.0..=1.0; differences are in percentage points.
    Share,
    /// Microseconds.
    Us,
    /// A factor.
    Times,
}

/// Denominator of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Over {
    /// Length of the recording in seconds.
    Seconds,
    /// Another sum of the same subject.
    Own(Quantity),
    /// A sum of all members.
    Array(Quantity),
    /// A sum of what was submitted to the array.
    Load(Quantity),
}

/// A figure: a sum over a recording divided by another one, or (without `sums`) a maximum or a
/// quantile that `differences.rs` computes.
#[derive(Debug)]
pub struct Figure {
    /// Name in JSON.
    pub name: &'static str,
    /// Name in text, without the operation.
    pub label: &'static str,
    pub unit: Unit,
    /// Weight in the order of differences: what delays IO comes before what only counts it.
    weight: f64,
    pub(super) sums: Option<(Quantity, Over, f64)>,
}

const US_PER_MIB: f64 = 1e6 * (1 << 20) as f64;

type SumRatio = (Quantity, Over, f64);

/// Defines the figures, one on each line.
macro_rules! figures {
    ($($id:ident: $name:literal, $label:literal, $unit:ident, $weight:literal, $sums:expr;)+) => {$(
        pub static $id: Figure =
            Figure { name: $name, label: $label, unit: Unit::$unit, weight: $weight, sums: $sums };
    )+};
}

const fn sums(part: Quantity, over: Over) -> Option<SumRatio> {
    Some((part, over, 1.0))
}

figures! {
    BIOS: "bios_per_s", "bios/s", Rate, 1.0, sums(Quantity::Bios, Over::Seconds);
    REQUESTS: "requests_per_s", "requests/s", Rate, 1.0, sums(Quantity::Count, Over::Seconds);
    BYTES: "bytes_per_s", "MiB/s", Bytes, 1.0, sums(Quantity::Bytes, Over::Seconds);
    READ_SHARE: "read_share", "share of reads", Share, 1.0,
        sums(Quantity::ReadBytes, Over::Own(Quantity::Bytes));
    UTILISATION: "utilisation", "busy", Share, 3.0, sums(Quantity::Busy, Over::Seconds);
    BUSIEST_UTILISATION: "busiest_utilisation", "busiest member", Share, 3.0, None;
    MEAN_UTILISATION: "mean_utilisation", "mean of members, busy", Share, 1.0, None;
    SHARE: "share_of_bytes", "share of bytes", Share, 1.0,
        sums(Quantity::Bytes, Over::Array(Quantity::Bytes));
    P50: "device_p50_us", "p50", Us, 1.5, None;
    P99: "device_p99_us", "p99", Us, 2.0, None;
    SKEW: "skew", "skew", Times, 1.5, None;
    DISK_TIME: "disk_us_per_mib", "disk time per MiB", Us, 1.5,
        Some((Quantity::Busy, Over::Load(Quantity::Bytes), US_PER_MIB));
    AMPLIFICATION: "amplification", "amplification", Times, 1.5,
        sums(Quantity::WrittenBelow, Over::Own(Quantity::Written));
    OPERATIONS: "operations_per_s", "operations/s", Rate, 1.0,
        sums(Quantity::Count, Over::Seconds);
    MEAN_TIME: "mean_us", "mean time", Us, 2.0, sums(Quantity::Time, Over::Own(Quantity::Count));
    SLOW_SHARE: "slow_share", "slow", Share, 2.0,
        sums(Quantity::SlowCount, Over::Own(Quantity::Count));
}

/// The figures of [`COUNTED`]: events per second, and mean times.
pub(super) static COUNTED_FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let figures = COUNTED.iter().enumerate();
    let figure = |(at, counted): (usize, &CountedFigure)| {
        let (unit, over, times) = match counted.unit {
            CountedUnit::Events => (Unit::Rate, Over::Seconds, 1.0),
            CountedUnit::TimeOf(of) => (Unit::Us, Over::Own(Quantity::Counted(of)), 1e-3),
        };
        let sums = Some((Quantity::Counted(at), over, times));
        Figure { name: counted.compared, label: counted.title, unit, weight: 1.5, sums }
    };
    figures.map(figure).collect()
});

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.name.serialize(to)
    }
}

/// A difference.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    #[serde(flatten)]
    pub subject: Subject,
    /// Operation of the requests whose times are compared, unless the subject has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    #[cfg_attr(test, schemars(with = "String"))]
    pub figure: &'static Figure,
    #[serde(flatten)]
    pub estimate: Estimate,
    /// p value adjusted for the number of figures that were compared.
    #[serde(serialize_with = "six_digits")]
    pub p_adjusted: Option<f64>,
    /// True if the difference is beyond noise: it is among those of which at most
    /// [`MAX_FALSE_DISCOVERIES`] are false. Its interval does not include 0.
    pub significant: bool,
}

impl Change {
    /// True if a difference that is not beyond noise may be one all the same: its confidence
    /// interval does not include 0, or it is large and rests on few requests, such as a p99.
    pub fn is_undecided(&self) -> bool {
        let excludes_zero = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
        let is_large = self.figure.unit == Unit::Us && self.size() >= MIN_LARGE_RATIO.ln();
        !self.significant && (self.estimate.interval.is_some_and(excludes_zero) || is_large)
    }

    /// True if the figure differs by at least the factor `by`.
    pub fn is_beyond(&self, by: f64) -> bool {
        let (before, after) = (self.estimate.before, self.estimate.after);
        before.zip(after).is_some_and(|(b, a)| b * by <= a || a * by <= b)
    }

    /// Logarithm of the ratio, without its sign; infinite if the figure was 0.
    pub fn size(&self) -> f64 {
        match (self.estimate.ratio, self.estimate.after) {
            (Some(ratio), _) => ratio.ln().abs(),
            (None, Some(after)) if after > 0.0 => f64::INFINITY,
            _ => 0.0,
        }
    }

    /// Sort key: larger for more important differences.
    pub fn importance(&self) -> f64 {
        let size = match self.figure.unit {
            Unit::Share => 5.0 * self.estimate.difference.unwrap_or(0.0).abs(),
            _ => self.size().min(3.0),
        };
        size * self.figure.weight + if self.significant { 1000.0 } else { 0.0 }
    }
}
