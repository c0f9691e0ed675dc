//! The one sentence at the top of the screen: what stands out.
//!
//! In this order: an origin that few members carry; a member slower than the others; a member that is busy all
//! the time; nothing. Pure; [`super::window`] decides over how long.

mod spread;
#[cfg(test)]
mod tests;
mod uneven;
mod words;

use std::time::Duration;

use super::hist::Hist;
use super::ledger::Ledger;
use super::snapshot::{ArraySnapshot, MemberSnapshot};
use super::units;
use crate::origin::{Op, Origin};
use spread::Spread;
use uneven::uneven;
use words::{and_more, mostly};

/// Fewer requests than this prove nothing.
const ENOUGH_REQUESTS: f64 = 16.0;
/// A busiest member below this multiple of the mean is not worth naming.
const NAMED_FROM: f64 = 1.5;
/// Unevenness that moves less than this share of the array's load comes after a slow member.
const MATTERS: f64 = 0.05;
/// What a member must have measured before its p99 means anything.
const ENOUGH_MEASURED: u64 = 64;
/// A member is slow at this multiple of the others' median p99 ...
const SLOW: f64 = 4.0;
/// ... if it is also this much more, µs: nobody is paged for 40 µs against 10 µs.
const SLOW_BY_US: u64 = 500;
/// Busy all the time, as far as io_ticks can tell.
const SATURATED: f64 = 0.95;

/// Pre-reads are worth a word from this multiple of what is written.
const COSTLY: f64 = 0.5;

/// What stands out, or that nothing does.
#[derive(Clone, Debug, PartialEq)]
pub struct Standout {
    /// What kind of finding.
    pub kind: Kind,
    /// The origins that are uneven, together; empty unless [`Kind::Uneven`].
    pub origins: Vec<Origin>,
    /// Their operation; `None` unless [`Kind::Uneven`].
    pub op: Option<Op>,
    /// Names of the members that carry them, are slow or saturated, by slot.
    pub members: Vec<String>,
    /// The share that `members` have of what the sentence speaks of, 0.0..=1.0; 0 when it speaks of none.
    pub share: f64,
    /// The busiest member over the mean of all present members; 1.0 when there was nothing.
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
    /// Few members carry an origin.
    Uneven,
    /// A member answers several times slower than the others.
    Slow,
    /// A member is busy all the time.
    Saturated,
    /// Nothing stands out.
    Even,
    /// No IO at all.
    Idle,
}

impl Kind {
    /// Whether someone should look at it.
    pub fn is_finding(self) -> bool {
        !matches!(self, Self::Even | Self::Idle)
    }
}

/// What stands out in `array`, whose figures are those of the time `over`.
pub fn find(array: &ArraySnapshot, over: Duration) -> Standout {
    let present: Vec<&MemberSnapshot> = array.members.iter().filter(|m| m.is_present()).collect();
    let total = Spread::of(&present, |_| true);
    if total.requests() == 0.0 && total.bytes() == 0.0 {
        let sentence = format!(
            "idle: no IO on the members in the last {}",
            units::seconds(over)
        );
        return Standout::quiet(Kind::Idle, over, sentence);
    }
    let uneven = uneven(&present, &total, array.info.chunk_bytes, over);
    let found = match uneven {
        Some((standout, excess)) if excess >= MATTERS => Some(standout),
        // A little unevenness must not hide a disk that is failing.
        minor => slow(&present, over).or(minor.map(|(standout, _)| standout)),
    };
    found.unwrap_or_else(|| {
        let mut standout =
            saturated(&present, &total, over).unwrap_or_else(|| even(&present, &total, over));
        let nobody = standout.members.is_empty() || standout.members.len() == present.len();
        if let Some(price) = price(array, total.requests(), over).filter(|_| nobody) {
            standout.sentence.push_str(&price);
        }
        standout
    })
}

/// `; writes cost 3.4x, 1.8x of it pre-reads` where that is most of what the members do: no member is to blame then.
fn price(array: &ArraySnapshot, requests: f64, over: Duration) -> Option<String> {
    let ledger = Ledger::of(array, over);
    let write = ledger.total(Op::Write);
    let all = ledger.rows.iter().map(|r| r.below() as f64).sum::<f64>();
    let pre_read = write.share(write.rmw_read)?;
    (requests >= ENOUGH_REQUESTS && pre_read >= COSTLY && write.below() as f64 >= all / 2.0).then(
        || {
            format!(
                "; writes cost {}, {} of it pre-reads",
                units::factor(write.factor()),
                units::factor(Some(pre_read))
            )
        },
    )
}

impl Standout {
    fn quiet(kind: Kind, over: Duration, sentence: String) -> Self {
        Self {
            kind,
            origins: Vec::new(),
            op: None,
            members: Vec::new(),
            share: 0.0,
            skew: 1.0,
            over,
            sentence,
        }
    }
}

fn slow(present: &[&MemberSnapshot], over: Duration) -> Option<Standout> {
    let p99 = |m: &MemberSnapshot| {
        let mut all = Hist::default();
        m.io.iter().for_each(|c| all.add(&c.device));
        (all.count() >= ENOUGH_MEASURED)
            .then(|| all.quantile(0.99))
            .flatten()
    };
    let each: Vec<(usize, u64)> = present
        .iter()
        .enumerate()
        .filter_map(|(i, m)| Some((i, p99(m)?)))
        .collect();
    let &(index, worst) = each.iter().max_by_key(|e| e.1)?;
    let mut others: Vec<u64> = each.iter().filter(|e| e.0 != index).map(|e| e.1).collect();
    others.sort_unstable();
    let median = *others.get(others.len() / 2)?;
    if (worst as f64) < SLOW * median as f64 || worst - median < SLOW_BY_US {
        return None;
    }
    let member = present[index];
    let sentence = format!(
        "{} is slow: p99 {} in the device, the other members' median is {}",
        member.name,
        units::latency(Some(worst)),
        units::latency(Some(median)),
    );
    let total = Spread::of(present, |_| true);
    Some(Standout {
        kind: Kind::Slow,
        members: vec![member.name.clone()],
        share: total.share(&[index]),
        skew: total.skew(),
        ..Standout::quiet(Kind::Slow, over, sentence)
    })
}

fn saturated(present: &[&MemberSnapshot], total: &Spread, over: Duration) -> Option<Standout> {
    let busy = |i: usize| {
        present[i]
            .disk
            .map_or(0.0, |d| d.utilisation.clamp(0.0, 1.0))
    };
    let full: Vec<usize> = (0..present.len())
        .filter(|&i| busy(i) >= SATURATED)
        .collect();
    let members: Vec<String> = full.iter().map(|&i| present[i].name.clone()).collect();
    let rest: Vec<f64> = (0..present.len())
        .filter(|i| !full.contains(i))
        .map(busy)
        .collect();
    let least = full.iter().map(|&i| busy(i)).fold(1.0, f64::min);
    let most = total.skew();
    let sentence = match (full.len(), rest.len()) {
        (0, _) => return None,
        (1, 0) => format!(
            "{} is busy {} of the time, {}",
            members[0],
            units::percent(least),
            mostly(present)
        ),
        (n, 0) => format!(
            "all {n} members are busy {} of the time or more; the busiest carries {most:.1}x the mean",
            units::percent(least)
        ),
        (n, others) => format!(
            "{} {} busy {} of the time{}, the others {}",
            and_more(&members),
            if n == 1 { "is" } else { "are" },
            units::percent(least),
            if n == 1 { "" } else { " or more" },
            units::percent(rest.iter().sum::<f64>() / others as f64),
        ),
    };
    let share = total.share(&full);
    Some(Standout {
        members,
        share,
        skew: most,
        ..Standout::quiet(Kind::Saturated, over, sentence)
    })
}

fn even(present: &[&MemberSnapshot], total: &Spread, over: Duration) -> Standout {
    let (requests, skew) = (total.requests(), total.skew());
    let sentence = if present.len() == 1 {
        format!("nothing stands out: one disk, {}", mostly(present))
    } else if requests < ENOUGH_REQUESTS {
        format!("nothing stands out: {requests:.0} requests are too few to judge")
    } else if skew < NAMED_FROM {
        format!("nothing stands out: the busiest member carries {skew:.1}x the mean")
    } else {
        let load = total.load();
        let most = (0..load.len())
            .max_by(|&a, &b| load[a].total_cmp(&load[b]))
            .unwrap_or(0);
        format!(
            "no kind of block stands out: the busiest member, {}, carries {skew:.1}x the mean, {}",
            present[most].name,
            mostly(&present[most..=most]),
        )
    };
    Standout {
        skew,
        ..Standout::quiet(Kind::Even, over, sentence)
    }
}
