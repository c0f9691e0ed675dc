//! The headline at the top of the screen: the worst problem of an array and its cause.
//!
//! [`symptom`] finds the problem: a member that is busy all the time, is far slower than the
//! others, or whose queue grows. The headline states the problem and its cause: the origin, its
//! skew, and the task. A skew that delays no IO is only information. [`super::window`] sets the
//! evaluated time.

mod burst;
mod headline;
mod limit;
mod spread;
mod symptom;
#[cfg(test)]
mod tests;
mod uneven;
mod words;
mod work;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::snapshot::{ArraySnapshot, MemberSnapshot};
use super::units;
use crate::origin::{Op, Origin};
use headline::Evidence;
use limit::limited;
use spread::Spread;
use symptom::{Figures, Symptom, find_symptom};

/// Minimum number of requests for a figure to be significant.
const ENOUGH_REQUESTS: f64 = 16.0;

/// A hot spot of an array, or a summary of its load without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hotspot {
    /// Kind of hot spot.
    pub kind: Kind,
    /// Severity.
    pub severity: Severity,
    /// Uneven origins that cause the hot spot. Empty if every origin is even.
    pub origins: Vec<Origin>,
    /// Operation of `origins`; `None` without them.
    pub op: Option<Op>,
    /// Names of the members that are saturated, slow, waited for, or carry `origins`, by slot.
    pub members: Vec<String>,
    /// Share of `origins` on the members that carry them, or share of all load on `members`,
    /// 0.0..=1.0; 0 if the headline names neither.
    pub share: f64,
    /// Load of the busiest member over the mean of all present members; 1.0 without load. Covers
    /// `origins`, or all load if `origins` is empty.
    pub skew: f64,
    /// Time that was evaluated.
    pub over: Duration,
    /// One English sentence, without a full stop. Names in it are untrusted bytes.
    pub headline: String,
}

/// Kind of a [`Hotspot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
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

/// Severity of a [`Hotspot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No problem.
    None,
    /// Information: the hot spot delays no IO.
    Info,
    /// The hot spot delays IO.
    Warning,
}

impl Kind {
    /// True if there is anything to report, harmful or not.
    pub fn is_finding(self) -> bool {
        self.severity() > Severity::None
    }

    /// Name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Saturated => "saturated",
            Self::Slow => "slow",
            Self::Queued => "queued",
            Self::Uneven => "uneven",
            Self::Even => "even",
            Self::Idle => "idle",
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::Stalled | Self::Saturated | Self::Slow | Self::Queued => Severity::Warning,
            Self::Uneven => Severity::Info,
            Self::Even | Self::Idle => Severity::None,
        }
    }
}

impl Severity {
    /// Name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}

/// Finds the hot spot of `array`, whose figures cover the time `over`.
pub fn find(array: &ArraySnapshot, over: Duration) -> Hotspot {
    let present: Vec<&MemberSnapshot> = array.members.iter().filter(|m| m.is_present()).collect();
    let figures: Vec<Figures> = present.iter().map(|m| Figures::new(m, over)).collect();
    let evidence = Evidence {
        array,
        total: Spread::new(&present, |_| true),
        anything: present.iter().any(|m| !m.io.is_empty()),
        untraced: (0..present.len()).filter(|&i| is_untraced(present[i])).collect(),
        present,
        over,
    };
    match find_symptom(&figures) {
        Symptom::None => limited(array).map_or_else(
            || headline::write(&evidence, &figures, &Symptom::None),
            |limited| headline::limited(&evidence, &figures, limited),
        ),
        symptom => headline::write(&evidence, &figures, &symptom),
    }
}

/// True if the kernel counts requests of `member` and raidtrace none: the request tracepoints do
/// not fire for a bio-based device.
fn is_untraced(member: &MemberSnapshot) -> bool {
    let counted = member.disk.map_or(0, |d| d.requests);
    member.io.is_empty() && counted as f64 >= ENOUGH_REQUESTS
}

/// Load of the busiest member over the mean of all present members, for each origin and operation
/// with enough requests.
pub fn skews(array: &ArraySnapshot) -> Vec<(Origin, Op, f64)> {
    let present: Vec<&MemberSnapshot> = array.members.iter().filter(|m| m.is_present()).collect();
    let cells = present.iter().flat_map(|m| &m.io);
    let keys: BTreeSet<(Origin, Op)> = cells.map(|c| (c.origin, c.op)).collect();
    keys.into_iter()
        .filter_map(|(origin, op)| {
            let spread = Spread::new(&present, |c| c.origin == origin && c.op == op);
            (spread.requests() >= ENOUGH_REQUESTS).then(|| (origin, op, spread.skew()))
        })
        .collect()
}

impl Hotspot {
    /// True if the hot spot delays IO. Shown with an exclamation mark.
    pub fn is_warning(&self) -> bool {
        self.severity >= Severity::Warning
    }
}
