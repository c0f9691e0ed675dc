//! The one sentence at the top of the screen: what hurts, and why.
//!
//! [`pain`] decides what hurts: a member that is busy all the time, is far slower than the others, or whose queue grows.
//! The sentence leads with it and names the cause: which origin, how uneven, from which task. A skew that hurts nobody
//! is information. Pure; [`super::window`] decides over how long.

mod burst;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod incidents;
mod limit;
mod pain;
mod sentence;
mod spread;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_any;
#[cfg(test)]
mod tests_pain;
mod uneven;
mod words;
mod work;

use std::time::Duration;

use super::snapshot::{ArraySnapshot, MemberSnapshot};
use super::units;
use crate::origin::{Op, Origin};
use limit::limited;
use pain::{Figures, Pain, hurts};
use sentence::Evidence;
use spread::Spread;

/// Fewer requests than this prove nothing.
const ENOUGH_REQUESTS: f64 = 16.0;

/// What stands out, or that nothing does.
#[derive(Clone, Debug, PartialEq)]
pub struct Standout {
    /// What kind of finding.
    pub kind: Kind,
    /// Whether someone should act on it.
    pub severity: Severity,
    /// The origins that are uneven, together: the cause, or all there is to tell. Empty where every origin is even.
    pub origins: Vec<Origin>,
    /// Their operation; `None` without `origins`.
    pub op: Option<Op>,
    /// Names of the members that are saturated, slow, waited for, or carry `origins`, by slot.
    pub members: Vec<String>,
    /// The share that the carrying members have of `origins`, or `members` of everything, 0.0..=1.0; 0 when the sentence
    /// speaks of none.
    pub share: f64,
    /// The busiest member over the mean of all present members, of `origins` or of everything; 1.0 when there was
    /// nothing.
    pub skew: f64,
    /// The time that was looked at.
    pub over: Duration,
    /// Complete English sentence, without a full stop. Names in it are untrusted bytes.
    pub sentence: String,
}

/// What kind of finding a [`Standout`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Requests are in flight on a member and none completes.
    Stalled,
    /// A member is busy all the time, or for seconds and somebody waits for it.
    Saturated,
    /// A member answers several times slower than the others.
    Slow,
    /// Requests wait, or more and more are in flight, while the members have time.
    Queued,
    /// Few members carry an origin, and it hurts nobody.
    Uneven,
    /// Nothing stands out.
    Even,
    /// No IO at all.
    Idle,
}

/// How much a [`Standout`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing to report.
    None,
    /// Worth knowing; IO does not suffer from it.
    Info,
    /// IO waits because of it.
    Warning,
}

impl Kind {
    /// True if there is anything to report, harmful or not.
    pub fn is_finding(self) -> bool {
        self.severity() > Severity::None
    }

    fn severity(self) -> Severity {
        match self {
            Self::Stalled | Self::Saturated | Self::Slow | Self::Queued => Severity::Warning,
            Self::Uneven => Severity::Info,
            Self::Even | Self::Idle => Severity::None,
        }
    }
}

/// What stands out in `array`, whose figures are those of the time `over`.
pub fn find(array: &ArraySnapshot, over: Duration) -> Standout {
    let present: Vec<&MemberSnapshot> = array.members.iter().filter(|m| m.is_present()).collect();
    let figures: Vec<Figures> = present.iter().map(|m| Figures::new(m, over)).collect();
    let evidence = Evidence {
        array,
        total: Spread::of(&present, |_| true),
        anything: present.iter().any(|m| !m.io.is_empty()),
        present,
        over,
    };
    match hurts(&figures) {
        Pain::None => limited(array).map_or_else(
            || sentence::write(&evidence, &figures, &Pain::None),
            |limited| sentence::limited(&evidence, &figures, limited),
        ),
        pain => sentence::write(&evidence, &figures, &pain),
    }
}

impl Standout {
    /// True if it deserves an exclamation mark.
    pub fn is_warning(&self) -> bool {
        self.severity >= Severity::Warning
    }
}
