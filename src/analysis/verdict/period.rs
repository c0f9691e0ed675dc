//! The verdict of a longer time: its worst interval.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::elsewhere::refer;
use super::{Severity, Verdict, lead};
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::analysis::units;

/// The worst verdicts of each array so far.
#[derive(Debug, Default)]
pub struct Worst {
    arrays: HashMap<String, SlowPeriod>,
    whole: Duration,
}

/// The slow intervals of an array.
#[derive(Debug)]
struct SlowPeriod {
    verdict: Verdict,
    /// Start of the first and end of the last slow interval.
    from: Timestamp,
    to: Timestamp,
    /// Length of the slow intervals.
    slow: Duration,
}

impl Worst {
    /// Adds the verdicts of an interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let (to, over) = (snapshot.time, snapshot.interval);
        let from = to.checked_sub(over).unwrap_or(to);
        self.whole += over;
        for array in &snapshot.arrays {
            let Some(verdict) = &array.verdict else { continue };
            let new = || SlowPeriod { verdict: verdict.clone(), from, to, slow: Duration::ZERO };
            let bad = self.arrays.entry(array.info.name.clone()).or_insert_with(new);
            if verdict.severity > Severity::None {
                if bad.slow.is_zero() {
                    bad.from = from;
                }
                bad.to = to;
                bad.slow += over;
            }
            if verdict.rank() > bad.verdict.rank() {
                bad.verdict = verdict.clone();
            }
        }
    }

    /// Gives the arrays of the whole time their worst verdicts.
    pub fn lead(&self, arrays: &mut [ArraySnapshot]) {
        arrays.iter_mut().for_each(|array| self.lead_one(array));
        refer(arrays);
    }

    fn lead_one(&self, array: &mut ArraySnapshot) {
        let Some(bad) = self.arrays.get(&array.info.name) else { return };
        let mut verdict = bad.verdict.clone();
        if verdict.severity > Severity::None && bad.slow < self.whole.mul_f64(0.9) {
            let clock = |at: Timestamp| at.strftime("%H:%M:%SZ").to_string();
            let when = format!(
                "{} to {} ({} of {} slow)",
                clock(bad.from),
                clock(bad.to),
                units::seconds_about(bad.slow).trim_end_matches(" s"),
                units::seconds_about(self.whole),
            );
            verdict.sentence = format!("{when}: {}", verdict.sentence);
            verdict.anonymous = format!("{when}: {}", verdict.anonymous);
        }
        lead(array, verdict);
    }
}
