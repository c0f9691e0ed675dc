//! The verdict of an array: how long tasks wait for it, where that time goes, and what to do.
//!
//! * [`kind`]: a verdict and its parts.
//! * [`moment`]: the figures of one interval that the verdict needs, and sums of several.
//! * [`calm`]: the calm time before, and the wait that is slow after it.
//! * [`evidence`]: the last seconds and the calm time, with measures of them; [`cause`] finds the
//!   cause. [`held`]: waits before IO reaches the array.
//! * [`elsewhere`]: filesystems on several arrays. [`words`]: the sentence; [`actions`]: what to
//!   do. [`period`]: the verdict of a longer time.
//!
//! The verdict depends only on the moments before it, so a recording gives the same verdict as the
//! live run, in whatever order it is read.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::cube::Amount as _;
use super::hotspot::{Hotspot, HotspotKind, HotspotSeverity};
use super::snapshot::{ArraySnapshot, Snapshot};

mod actions;
mod calm;
mod cause;
mod elsewhere;
mod evidence;
mod failed;
mod held;
mod kind;
mod moment;
mod paths;
mod period;
#[cfg(test)]
mod tests;
mod texts;
mod words;

pub use held::{ALLOCATOR, WAITS_IN};
pub use kind::{AccountPart, Action, Cause, CauseKind, Severity, Verdict, Waiting};
use moment::{Moment, MomentSum, Waits};
pub use period::Worst;

/// Time for which nothing completes until an array is stalled.
const STALLED: Duration = Duration::from_secs(3);
/// The last seconds, which are judged.
const NOW: Duration = Duration::from_secs(3);
/// Time that is kept to compare with.
const MEMORY: Duration = Duration::from_secs(300);
/// Calm time and waited-for requests without which there is nothing to compare with.
const CALM: (Duration, f64) = (Duration::from_secs(6), 20.0);
/// Shortest mean waits that can be slow, µs, each with its least multiple of the wait before: disks
/// whose reads take 8 ms vary more than flash.
const SLOW: [(f64, f64); 3] = [(30_000.0, 4.0), (20_000.0, 10.0), (5_000.0, 20.0)];
/// Shortest mean wait that is slow if nothing is known of the time before, µs.
const SLOW_ALONE: f64 = 100_000.0;
/// Least number of tasks that wait, on average; and the same if the wait is twice as long as one
/// that is slow: few waits differ by chance.
const WAITING: (f64, f64) = (0.25, 0.1);

/// Moments of all arrays by the time of their end. Times that are judged again replace themselves.
#[derive(Debug, Default)]
pub struct Accounts {
    arrays: HashMap<String, BTreeMap<Timestamp, Moment>>,
    /// Waits of the arrays by hour since 1970, of the last day.
    hours: HashMap<String, BTreeMap<i64, Waits>>,
}

impl Accounts {
    /// Adds an interval and fills in the verdicts. `hotspot` must be filled in: it names the work
    /// of members.
    pub fn judge(&mut self, snapshot: &mut Snapshot) {
        let (now, over) = (snapshot.time, snapshot.interval);
        let oldest = now.checked_sub(MEMORY).unwrap_or(Timestamp::MIN);
        let hour = now.as_second().div_euclid(3600);
        for array in &snapshot.arrays {
            let Some(moment) = Moment::new(array, over) else { continue };
            let moments = self.arrays.entry(array.info.name.clone()).or_default();
            let hours = self.hours.entry(array.info.name.clone()).or_default();
            let waits = moment.waits;
            if moments.insert(now, moment).is_none() {
                hours.entry(hour).or_default().add(&waits);
            }
            while hours.first_key_value().is_some_and(|(oldest, _)| *oldest < hour - 24) {
                hours.pop_first();
            }
        }
        let known = snapshot.arrays.iter().map(|array| {
            let moments = self.arrays.get(&array.info.name).into_iter();
            moments.flat_map(|m| m.range(oldest..=now)).map(|(at, moment)| (*at, moment)).collect()
        });
        let known: Vec<Vec<(Timestamp, &Moment)>> = known.collect();
        for (array, known) in snapshot.arrays.iter_mut().zip(&known) {
            if known.last().is_some_and(|last| last.0 == now) {
                let yesterday = self.hours.get(&array.info.name).and_then(|h| h.get(&(hour - 24)));
                let yesterday = yesterday.filter(|of| of.requests() >= CALM.1);
                let verdict = cause::judge(array, known, yesterday.and_then(Waits::mean_us));
                lead(array, verdict);
            }
        }
        elsewhere::join(&mut snapshot.arrays, &known);
        elsewhere::refer(&mut snapshot.arrays);
        let names = |s: &Snapshot, name: &str| s.arrays.iter().any(|a| a.info.name == name);
        self.arrays.retain(|name, _| names(snapshot, name));
        self.hours.retain(|name, _| names(snapshot, name));
        // A recording can be read again from an earlier time, so older moments stay for as long.
        for moments in self.arrays.values_mut().filter(|m| m.len() > MOMENTS) {
            moments.pop_first();
        }
    }
}

/// Maximum number of moments kept of an array.
const MOMENTS: usize = 4096;

/// Gives `array` the verdict, and makes the headline say the same.
pub fn lead(array: &mut ArraySnapshot, mut verdict: Verdict) {
    if let Some(hotspot) = &mut array.hotspot {
        // A limit holds bios that tasks have submitted, so their stacks do not show it. Without a
        // calm time a load is only the largest one.
        let is_vague = verdict.severity < Severity::Stalled
            && (verdict.cause.kind == CauseKind::Unexplained
                || verdict.cause.name == held::COMMIT
                || verdict.cause.kind == CauseKind::Load && verdict.waiting.before_us.is_none());
        if verdict.severity > Severity::None && !(is_vague && hotspot.is_limit()) {
            hotspot.lead_with(&verdict);
        } else if hotspot.is_limit() {
            verdict.severity = Severity::Slow;
            verdict.cause =
                Cause { kind: CauseKind::CgroupLimit, name: String::new(), share: hotspot.share };
            verdict.actions = actions::lift_limit();
            let us = verdict.account.iter().map(|part| part.us).sum();
            verdict.account = vec![AccountPart { part: "held", us }];
            verdict.sentence.clone_from(&hotspot.headline);
            verdict.clauses = Default::default();
        } else {
            hotspot.is_not_waited_for();
            verdict.sentence.clone_from(&hotspot.headline);
        }
    }
    array.verdict = Some(verdict);
}

impl Hotspot {
    /// Replaces the headline by the sentence of `verdict`.
    fn lead_with(&mut self, verdict: &Verdict) {
        self.kind = match (verdict.severity, verdict.cause.kind) {
            (Severity::Stalled, _) => HotspotKind::Stalled,
            (_, CauseKind::Member | CauseKind::Path) => HotspotKind::Slow,
            (_, CauseKind::Load) if self.kind == HotspotKind::Saturated => HotspotKind::Saturated,
            _ => HotspotKind::Queued,
        };
        self.severity = HotspotSeverity::Warning;
        if self.kind != HotspotKind::Saturated {
            (self.members, self.origins, self.op) = (verdict.accused.clone(), Vec::new(), None);
        }
        self.headline.clone_from(&verdict.sentence);
    }

    /// No task waits long: busy or slow members are no warning.
    fn is_not_waited_for(&mut self) {
        if matches!(self.kind, HotspotKind::Saturated | HotspotKind::Slow | HotspotKind::Queued) {
            self.severity = HotspotSeverity::Info;
        }
    }
}
