//! Rules that trigger a dump of the flight recorder.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::analysis::cube::Amount as _;
use crate::analysis::fail_slow::FailSlow;
use crate::analysis::hist::Hist;
use crate::analysis::lost::Loss;
use crate::analysis::snapshot::{ArraySnapshot, MemberSnapshot, Snapshot};
use crate::analysis::units;
use crate::analysis::verdict::{CauseKind, Severity, Verdict};
use crate::machine::ArrayState;
use crate::ui::typed::short_time;

/// Minimum time before a rule fires again for the same array.
const MIN_PAUSE: Duration = Duration::from_secs(300);
/// The same for `fail-slow`, which holds until the disk is replaced.
const MIN_FAIL_SLOW_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// Period of the utilisation for `busy`.
const BUSY_PERIOD: Duration = Duration::from_secs(10);
/// Minimum number of requests for a 99th percentile.
const MIN_REQUESTS: u64 = 100;

/// A rule of `--dump-on`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DumpRule {
    /// The 99th percentile of a member's device times exceeds this, over the last 10 s.
    P99(Duration),
    /// The hot spot's skew reaches this.
    Skew(f64),
    /// A member's utilisation over 10 s reaches this share, while the mean of the other members is
    /// at most half as high.
    Busy(f64),
    /// An operation on a file took at least this long.
    Slow(Duration),
    /// Events were lost, not counting [`Loss::Uncounted`], or the recording in memory lacks rows or
    /// operations.
    Lost,
    /// An array has lost a member.
    Degraded,
    /// A member has been slower than its peers at the same throughput for an hour.
    FailSlow,
    /// The verdict on an array.
    Verdict(VerdictCondition),
}

/// Verdicts that a rule waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VerdictCondition {
    /// Nothing returns.
    Stalled,
    /// Tasks wait much longer than before, for any reason.
    Slow,
    /// Because of a resync, rebuild or check.
    Resync,
    /// Because of another user of the disks.
    Neighbour,
    /// Because md or device mapper holds the IO.
    Suspended,
}

/// Rules on verdicts by name.
const JUDGED: [(&str, VerdictCondition); 5] = [
    ("stalled", VerdictCondition::Stalled),
    ("slow-array", VerdictCondition::Slow),
    ("rebuild-slow", VerdictCondition::Resync),
    ("neighbour", VerdictCondition::Neighbour),
    ("suspended", VerdictCondition::Suspended),
];

impl VerdictCondition {
    fn name(self) -> &'static str {
        JUDGED.iter().find(|j| j.1 == self).map_or("", |j| j.0)
    }

    fn is(self, verdict: &Verdict) -> bool {
        let kind = verdict.cause.kind;
        match self {
            Self::Stalled => verdict.severity == Severity::Stalled,
            Self::Slow => verdict.severity > Severity::None,
            Self::Resync => kind == CauseKind::Resync,
            Self::Neighbour => kind == CauseKind::Neighbour,
            Self::Suspended => verdict.is_suspended,
        }
    }
}

impl DumpRule {
    /// Name of the rule, for file names.
    pub fn name(self) -> &'static str {
        use DumpRule::*;
        match self {
            P99(_) => "p99",
            Skew(_) => "skew",
            Busy(_) => "busy",
            Slow(_) => "slow",
            Lost => "lost",
            Degraded => "degraded",
            FailSlow => "fail-slow",
            Verdict(judged) => judged.name(),
        }
    }
}

impl fmt::Display for DumpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DumpRule::*;
        match self {
            P99(time) => write!(f, "p99={}", ShortTime(*time)),
            Skew(skew) => write!(f, "skew={skew}"),
            Busy(share) => write!(f, "busy={}%", share * 100.0),
            Slow(time) => write!(f, "slow={}", ShortTime(*time)),
            Lost | Degraded | FailSlow | Verdict(_) => f.write_str(self.name()),
        }
    }
}

/// Prints a time in the syntax of the command line.
struct ShortTime(Duration);

impl fmt::Display for ShortTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            us if us % 1_000_000 == 0 => write!(f, "{}s", us / 1_000_000),
            us if us % 1000 == 0 => write!(f, "{}ms", us / 1000),
            us => write!(f, "{us}us"),
        }
    }
}

impl FromStr for DumpRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (text, None),
        };
        let number = |text: &str, least: f64, most: f64| {
            let number: f64 = text.parse().map_err(|_| format!("{text} is not a number"))?;
            if (least..=most).contains(&number) {
                Ok(number)
            } else {
                Err(format!("{text} is not between {least} and {most}"))
            }
        };
        match (word, value) {
            ("p99", Some(time)) => Ok(Self::P99(short_time(time)?)),
            ("slow", Some(time)) => Ok(Self::Slow(short_time(time)?)),
            ("skew", Some(skew)) => Ok(Self::Skew(number(skew, 1.0, 1000.0)?)),
            ("busy", Some(share)) => {
                let share = share.strip_suffix('%').unwrap_or(share);
                Ok(Self::Busy(number(share, 1.0, 100.0)? / 100.0))
            }
            ("lost", None) => Ok(Self::Lost),
            ("degraded", None) => Ok(Self::Degraded),
            ("fail-slow", None) => Ok(Self::FailSlow),
            (name, None) => {
                let judged = JUDGED.iter().find(|j| j.0 == name);
                judged.map(|j| Self::Verdict(j.1)).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

fn wrong() -> String {
    "a rule is stalled, slow-array, rebuild-slow, neighbour, suspended, p99=TIME, slow=TIME, \
     skew=FACTOR, busy=PERCENT, fail-slow, lost or degraded"
        .to_owned()
}

#[derive(Clone, Debug, PartialEq)]
pub struct FiredRule {
    pub rule: DumpRule,
    /// Array for which the rule fired; empty if it is not about one array.
    pub array: String,
    /// Finding, as a sentence without a full stop.
    pub why: String,
}

/// The rules, and the last time that each fired.
pub struct Rules {
    rules: Vec<DumpRule>,
    fired: HashMap<(&'static str, String), Instant>,
    missing: HashMap<String, u32>,
}

impl Rules {
    /// Rules that have not fired yet.
    pub fn new(rules: Vec<DumpRule>) -> Self {
        Self { rules, fired: HashMap::new(), missing: HashMap::new() }
    }

    /// Returns the rules that fire now. `snapshot` is the last interval; `window` covers the last
    /// seconds up to its end. `recorder_lost` is the number of rows and operations missing from the
    /// recording since the last call.
    pub fn check<'a>(
        &mut self,
        snapshot: &Snapshot,
        window: &Snapshot,
        fail_slow: &BTreeMap<String, FailSlow>,
        states: impl Iterator<Item = (&'a str, &'a ArrayState)>,
        recorder_lost: u64,
        now: Instant,
    ) -> Vec<FiredRule> {
        let mut found = Vec::new();
        for rule in &self.rules {
            for array in &snapshot.arrays {
                let over = window.arrays.iter().find(|a| a.info.name == array.info.name);
                if let Some(why) = over.and_then(|over| finding(*rule, array, over)) {
                    found.push((*rule, array.info.name.clone(), why));
                }
            }
            if *rule == DumpRule::FailSlow {
                let slow =
                    |(array, of): (&String, &FailSlow)| (*rule, array.clone(), of.sentence());
                found.extend(fail_slow.iter().map(slow));
            }
            if *rule == DumpRule::Lost {
                // Ignore `Uncounted`, which a change of the host can cause.
                let own = snapshot.lost.nonzero().filter(|(l, _)| *l != Loss::Uncounted);
                let parts: Vec<String> =
                    own.map(|(loss, count)| format!("{count} ({})", loss.label())).collect();
                if !parts.is_empty() {
                    let why = format!("events were lost: {}", parts.join(", "));
                    found.push((*rule, String::new(), why));
                } else if recorder_lost > 0 {
                    let why = format!("the recording lacks {recorder_lost} rows or operations");
                    found.push((*rule, String::new(), why));
                }
            }
        }
        for (array, state) in states {
            let before = self.missing.insert(array.to_owned(), state.degraded);
            let more = before.is_some_and(|before| state.degraded > before);
            if more && self.rules.contains(&DumpRule::Degraded) {
                let why = format!("{array} lacks {} of its members", state.degraded);
                found.push((DumpRule::Degraded, array.to_owned(), why));
            }
        }
        self.fired.retain(|(rule, _), at| {
            let pause =
                if *rule == DumpRule::FailSlow.name() { MIN_FAIL_SLOW_PAUSE } else { MIN_PAUSE };
            now.saturating_duration_since(*at) < pause
        });
        let mut fired = Vec::new();
        for (rule, array, why) in found {
            let key = (rule.name(), array.clone());
            if let Entry::Vacant(entry) = self.fired.entry(key) {
                entry.insert(now);
                fired.push(FiredRule { rule, array, why });
            }
        }
        fired
    }
}

fn finding(rule: DumpRule, array: &ArraySnapshot, over: &ArraySnapshot) -> Option<String> {
    match rule {
        DumpRule::P99(limit) => {
            let most = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
            let slowest = over.members.iter().filter_map(|m| Some((p99(m)?, &m.name))).max()?;
            (slowest.0 > most).then(|| {
                format!(
                    "the 99th percentile of the device times of {} is {}",
                    slowest.1,
                    units::latency(Some(slowest.0))
                )
            })
        }
        DumpRule::Skew(least) => {
            let hotspot = array.hotspot.as_ref()?;
            (hotspot.skew >= least && hotspot.kind.is_finding()).then(|| {
                format!("skew {:.1} on {}: {}", hotspot.skew, array.info.name, hotspot.headline)
            })
        }
        DumpRule::Busy(least) => {
            let present = array.members.iter().filter(|m| m.is_present());
            let busy: Vec<(f64, &str)> = present
                .filter_map(|m| {
                    let enough = m.recent(BUSY_PERIOD).iter().map(|r| r.interval).sum::<Duration>();
                    let busy = m
                        .utilisation_over(BUSY_PERIOD)
                        .filter(|_| enough * 10 >= BUSY_PERIOD * 9)?;
                    Some((busy, m.name.as_str()))
                })
                .collect();
            let (most, name) = busy.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
            // The rule needs other members to compare with.
            let others = busy.len().checked_sub(1).filter(|n| *n > 0)?;
            let sum: f64 = busy.iter().map(|b| b.0).sum();
            let mean = (sum - most) / others as f64;
            (most >= least && mean <= most / 2.0).then(|| {
                format!(
                    "{name} is busy {:.0} % of the time, the other members {:.0} %",
                    most * 100.0,
                    mean * 100.0
                )
            })
        }
        DumpRule::Slow(_) => array.slow.clone(),
        DumpRule::Verdict(judged) => {
            let verdict = array.verdict.as_ref().filter(|v| judged.is(v))?;
            Some(verdict.sentence.clone())
        }
        DumpRule::Lost | DumpRule::Degraded | DumpRule::FailSlow => None,
    }
}

/// The 99th percentile of the device times of all requests of a member, in µs.
fn p99(member: &MemberSnapshot) -> Option<u64> {
    let mut all = Hist::default();
    member.io.iter().for_each(|cell| all.add(&cell.device));
    (all.count() >= MIN_REQUESTS).then(|| all.quantile(0.99))?
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use super::{DumpRule, Rules};
    use crate::analysis::fail_slow::FailSlow;
    use crate::analysis::fixture::{array, cell, member, snapshot};
    use crate::machine::ArrayState;
    use crate::origin::{Op, Origin};

    #[test]
    fn rules_are_read_and_printed() {
        for text in
            ["p99=200ms", "slow=1s", "slow=1500us", "skew=3", "busy=90%", "lost", "degraded"]
        {
            assert_eq!(text.parse::<DumpRule>().unwrap().to_string(), text);
        }
        assert_eq!("p99=200ms".parse(), Ok(DumpRule::P99(Duration::from_millis(200))));
        for wrong in ["", "p99", "p99=5", "skew=0", "skew=NaN", "busy=200", "lost=1", "x=1"] {
            assert!(wrong.parse::<DumpRule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rule_fires_once_and_again_after_a_pause() {
        let slow = |us| {
            let io = vec![cell(Origin::FileData, Op::Read, 200, 4096, us)];
            snapshot(array(vec![member(0, io), member(1, vec![])]))
        };
        let mut rules = Rules::new(vec![DumpRule::P99(Duration::from_millis(100))]);
        let begun = Instant::now();
        let mut check = |us, after| {
            let now = begun + Duration::from_secs(after);
            let (none, states) = (BTreeMap::new(), std::iter::empty());
            let fired = rules.check(&slow(us), &slow(us), &none, states, 0, now);
            fired.into_iter().map(|f| f.why).collect::<Vec<_>>()
        };
        assert_eq!(check(1000, 0), Vec::<String>::new());
        assert_eq!(check(200_000, 1).len(), 1);
        assert_eq!(check(200_000, 2).len(), 0);
        assert_eq!(check(200_000, 302).len(), 1);
    }

    #[test]
    fn a_slow_disk_fires_once_a_day() {
        let empty = snapshot(array(Vec::new()));
        let mut rules = Rules::new(vec!["fail-slow".parse().unwrap()]);
        let slow = FailSlow { member: "sdc".into(), op: Op::Write, ratio: 2.13, us: 24_000.0 };
        let found = BTreeMap::from([("md0".to_owned(), slow)]);
        let begun = Instant::now();
        let mut check = |hours: u64| {
            let now = begun + Duration::from_secs(3600 * hours);
            let fired = rules.check(&empty, &empty, &found, std::iter::empty(), 0, now);
            fired.into_iter().map(|f| f.why).collect::<Vec<_>>()
        };
        assert_eq!(
            check(0),
            ["sdc answers writes in 24ms (median of the last two hours), 2.1x what its peers \
                 take at the same throughput"]
        );
        assert_eq!((check(23).len(), check(25).len()), (0, 1));
    }

    #[test]
    fn an_array_degraded_at_the_start_does_not_fire() {
        let mut rules = Rules::new(vec![DumpRule::Degraded]);
        let empty = snapshot(array(Vec::new()));
        let mut check = |degraded| {
            let state = ArrayState { degraded, ..ArrayState::default() };
            let states = [("md1", &state)].into_iter();
            rules.check(&empty, &empty, &BTreeMap::new(), states, 0, Instant::now()).len()
        };
        assert_eq!((check(1), check(1), check(2)), (0, 0, 1));
    }

    #[test]
    fn rows_lost_by_the_recorder_fire_the_rule() {
        let empty = snapshot(array(Vec::new()));
        let mut rules = Rules::new(vec![DumpRule::Lost]);
        let mut check = |lost| {
            let (none, states) = (BTreeMap::new(), std::iter::empty());
            rules.check(&empty, &empty, &none, states, lost, Instant::now()).len()
        };
        assert_eq!((check(0), check(3)), (0, 1));
    }
}
