//! A hot spot as part of a snapshot.

use std::time::Duration;

use serde::Serialize;

use crate::analysis::units::{rounded, rounded_seconds};
use crate::origin::{Op, Origin};
use crate::printable::show_as_in_json;

/// A hot spot of an array, or a summary of its load without one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hotspot {
    /// Kind of hot spot.
    pub kind: HotspotKind,
    pub severity: HotspotSeverity,
    /// Uneven origins that cause the hot spot. Empty if every origin is even.
    pub origins: Vec<Origin>,
    /// Operation of `origins`; `None` without them.
    pub op: Option<Op>,
    /// Names of the members that are saturated, slow, waited for, or carry `origins`, by slot.
    pub members: Vec<String>,
    /// Share of `origins` on the members that carry them, or share of all load on `members`,
    /// 0 to 1; 0 if the headline names neither.
    #[serde(serialize_with = "rounded")]
    pub share: f64,
    /// Load of the busiest member over the mean of all present members; 1.0 without load. Covers
    /// `origins`, or all load if `origins` is empty.
    #[serde(serialize_with = "rounded")]
    pub skew: f64,
    /// Time that was evaluated.
    #[serde(rename = "over_s", serialize_with = "rounded_seconds")]
    #[cfg_attr(test, schemars(with = "f64"))]
    pub over: Duration,
    /// One English sentence, without a full stop. Names in it are untrusted bytes.
    pub headline: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HotspotKind {
    /// Requests are in flight on a member and none completes.
    Stalled,
    /// A member is busy all the time, or for seconds while tasks wait for it.
    Saturated,
    /// A member is several times slower than the others.
    Slow,
    /// Requests wait, more and more are in flight, or a cgroup's limit holds IO back, while members
    /// are not saturated.
    Queued,
    /// Few members carry an origin, and no IO waits because of it.
    Uneven,
    /// No hot spot.
    Even,
    /// No IO at all.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HotspotSeverity {
    /// No problem.
    None,
    /// Information: the hot spot delays no IO.
    Info,
    /// The hot spot delays IO.
    Warning,
}

impl HotspotKind {
    /// True if there is anything to report, harmful or not.
    pub fn is_finding(self) -> bool {
        self.severity() > HotspotSeverity::None
    }

    pub(super) fn severity(self) -> HotspotSeverity {
        match self {
            Self::Stalled | Self::Saturated | Self::Slow | Self::Queued => HotspotSeverity::Warning,
            Self::Uneven => HotspotSeverity::Info,
            Self::Even | Self::Idle => HotspotSeverity::None,
        }
    }
}

show_as_in_json!(HotspotKind, HotspotSeverity);

impl Hotspot {
    /// True if the hot spot is a cgroup's limit.
    pub fn is_limit(&self) -> bool {
        self.kind == HotspotKind::Queued && self.members.is_empty()
    }

    /// True if the hot spot delays IO. Shown with an exclamation mark.
    pub fn is_warning(&self) -> bool {
        self.severity >= HotspotSeverity::Warning
    }
}
