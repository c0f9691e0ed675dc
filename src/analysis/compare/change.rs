//! A difference between two recordings: its subject, its figure and its uncertainty.

use super::estimate::Estimate;
use super::latency::Latency;
use crate::origin::{Op, Origin};

/// Accepted share of false differences among those reported as significant (false discovery rate).
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// Multiple of a time that is not called noise, however few requests show it.
const LARGE: f64 = 3.0;

/// Subject of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// IO submitted to the array.
    Load,
    /// The array as a whole.
    Array,
    Member {
        /// md's raid_disk, if both have one.
        slot: Option<u32>,
        /// Name before; untrusted.
        before: String,
        /// Name after; untrusted.
        after: String,
    },
    /// An origin and operation on all members.
    Origin(Origin, Op),
    /// A task by name; untrusted, printable.
    Task(String),
    /// A file by path; untrusted, printable.
    File(String),
    /// A kind of operation on files: `fsync`.
    Operation(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Bios submitted per second.
    Bios,
    /// Requests completed per second.
    Requests,
    /// Bytes read and written per second.
    Bytes,
    /// Reads as a share of the bytes submitted.
    ReadShare,
    /// Share of the time with a request in flight.
    Utilisation,
    /// Utilisation of the busiest member.
    BusiestUtilisation,
    /// Mean utilisation of the members.
    MeanUtilisation,
    /// Share of the bytes that the members of the array read and wrote.
    Share,
    /// Median of the device time of requests of this operation.
    P50(Op),
    /// 99th percentile of the device time.
    P99(Op),
    /// Load of the busiest member over the mean.
    Skew,
    /// Time in which members had a request in flight, for each MiB submitted to the array.
    DiskTime,
    /// Bytes moved by the members for each byte submitted.
    Amplification,
    /// Operations per second.
    Operations,
    /// Mean time of an operation.
    MeanTime,
    /// Share of the operations that took at least the threshold.
    SlowShare,
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
    /// Microseconds per MiB.
    UsPerMib,
    /// A factor.
    Times,
}

impl Figure {
    /// Name in JSON, name in text, unit, and weight in the order of differences: what delays IO
    /// comes before what only counts it.
    fn properties(self) -> (&'static str, &'static str, Unit, f64) {
        match self {
            Self::Bios => ("bios_per_s", "bios/s", Unit::Rate, 1.0),
            Self::Requests => ("requests_per_s", "requests/s", Unit::Rate, 1.0),
            Self::Bytes => ("bytes_per_s", "MiB/s", Unit::Bytes, 1.0),
            Self::ReadShare => ("read_share", "share of reads", Unit::Share, 1.0),
            Self::Utilisation => ("utilisation", "busy", Unit::Share, 3.0),
            Self::BusiestUtilisation => ("busiest_utilisation", "busiest member", Unit::Share, 3.0),
            Self::MeanUtilisation => {
                ("mean_utilisation", "mean of members, busy", Unit::Share, 1.0)
            }
            Self::Share => ("share_of_bytes", "share of bytes", Unit::Share, 1.0),
            Self::P50(_) => ("device_p50_us", "p50", Unit::Us, 1.5),
            Self::P99(_) => ("device_p99_us", "p99", Unit::Us, 2.0),
            Self::Skew => ("skew", "skew", Unit::Times, 1.5),
            Self::DiskTime => ("disk_us_per_mib", "disk time per MiB", Unit::UsPerMib, 1.5),
            Self::Amplification => ("amplification", "amplification", Unit::Times, 1.5),
            Self::Operations => ("operations_per_s", "operations/s", Unit::Rate, 1.0),
            Self::MeanTime => ("mean_us", "mean time", Unit::Us, 2.0),
            Self::SlowShare => ("slow_share", "slow", Unit::Share, 2.0),
        }
    }

    /// Name in JSON.
    pub fn name(self) -> &'static str {
        self.properties().0
    }

    /// Name in text, without the operation.
    pub fn label(self) -> &'static str {
        self.properties().1
    }

    pub fn unit(self) -> Unit {
        self.properties().2
    }

    /// Operation of the requests whose times are compared.
    pub fn op(self) -> Option<Op> {
        match self {
            Self::P50(op) | Self::P99(op) => Some(op),
            _ => None,
        }
    }
}

/// A difference.
#[derive(Clone, Debug)]
pub struct Change {
    pub subject: Subject,
    pub figure: Figure,
    /// Figure before and after, with the confidence interval of the difference.
    pub estimate: Estimate,
    /// p value adjusted for the number of figures that were compared, see
    /// [`super::significance::adjusted`].
    pub adjusted: Option<f64>,
}

impl Change {
    /// Creates a difference. `None` if the figure is undefined, or 0, both before and after.
    pub fn new(subject: Subject, figure: Figure, estimate: Estimate) -> Option<Self> {
        let is_something = |v: Option<f64>| v.is_some_and(|v| v != 0.0);
        (is_something(estimate.before) || is_something(estimate.after)).then_some(Self {
            subject,
            figure,
            estimate,
            adjusted: None,
        })
    }

    /// True if the difference is beyond noise: its confidence interval does not include 0, and it
    /// is among the differences of which at most [`FALSE_DISCOVERIES`] are false.
    pub fn is_significant(&self) -> bool {
        let excludes_zero = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
        self.estimate.interval.is_some_and(excludes_zero)
            && self.adjusted.is_some_and(|q| q <= FALSE_DISCOVERIES)
    }

    /// True if a difference that is not beyond noise may be one all the same: its confidence
    /// interval does not include 0, or it is large and rests on few requests, such as a p99.
    pub fn is_undecided(&self) -> bool {
        let excludes_zero = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
        let is_large = matches!(self.figure.unit(), Unit::Us | Unit::UsPerMib)
            && self.times().ln().abs() >= LARGE.ln();
        !self.is_significant() && (self.estimate.interval.is_some_and(excludes_zero) || is_large)
    }

    /// `after` over `before`; infinite if `before` is 0.
    fn times(&self) -> f64 {
        let estimate = &self.estimate;
        estimate.ratio().unwrap_or(match estimate.after {
            Some(after) if after > 0.0 => f64::INFINITY,
            _ => 1.0,
        })
    }

    /// Sort key: larger for more important differences.
    pub fn importance(&self) -> f64 {
        let size = match self.figure.unit() {
            Unit::Share => 5.0 * self.estimate.difference().unwrap_or(0.0).abs(),
            _ => self.times().ln().abs().min(3.0),
        };
        let size = size * self.figure.properties().3;
        if self.is_significant() { size + 1000.0 } else { size }
    }
}

/// Differences of a latency.
pub fn latency(subject: &Subject, op: Op, latency: Option<Latency>) -> Vec<Change> {
    let Some(latency) = latency else {
        return Vec::new();
    };
    let p50 = Change::new(subject.clone(), Figure::P50(op), latency.p50);
    let p99 = latency.p99.and_then(|p99| Change::new(subject.clone(), Figure::P99(op), p99));
    p50.into_iter().chain(p99).collect()
}
