//! Compares the last seconds with the calm time before, and finds the cause.

use std::time::Duration;

use jiff::Timestamp;

use super::evidence::{Evidence, Found, GREW, median, quantile};
use super::moment::{Load, Waits};
use super::words;
use super::{CALM, Cause, Kind, Moment, NOW, SLOW, SLOW_ALONE, STALLED, Severity};
use super::{Sum, Verdict, WAITING, WAITS_IN};
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::units;

/// Least share of the calm time's waited-for bios whose tasks still wait, to compare with it.
const SAME: f64 = 0.1;
/// Multiple of the usual time that is slow if nothing is known of the time before.
const UNUSUAL: f64 = 10.0;
/// Time in which the tasks are looked for: what they dirtied is written for seconds.
const RECENT: Duration = Duration::from_secs(10);
/// Size up to which a read or write is expected to take no longer than a small one, bytes.
const LARGE: f64 = 262_144.0;
/// Least share of the members' work of a resync or neighbour that is the cause.
const SHARED: f64 = 0.3;
/// Least multiple of the other members' time, or of its own earlier time, of a slow member.
const SLOWER: f64 = 2.0;
/// The same during a resync or beside a neighbour, which can delay one member more than others.
const MUCH_SLOWER: f64 = 8.0;
/// Least share of the waited time that is spent in md for md to be the cause.
const IN_MD: f64 = 0.5;

/// The verdict at the last of `known`, which are in order.
pub fn judge(array: &ArraySnapshot, known: &[(Timestamp, &Moment)]) -> Verdict {
    let (Some((_, last)), Some(around)) = (known.last(), &array.around) else {
        return Verdict::default();
    };
    let start = last_seconds(known, NOW);
    let now = Sum::of(&known[start..]);
    let recent = Sum::of(&known[last_seconds(known, RECENT)..]);
    let onset = onset(known, start);
    let calm = &known[..onset.min(start)];
    let mut calm_waits = Waits::default();
    calm.iter().for_each(|k| calm_waits.add(&k.1.waits));
    let is_enough = calm_waits.seconds >= CALM.0.as_secs_f64()
        && calm_waits.requests() >= CALM.1
        && (recent.waiting.is_empty() || still_wait(calm, &recent) >= SAME);
    let mut evidence = Evidence {
        array,
        last,
        around,
        wait_us: now.waits.mean_us().unwrap_or(0.0),
        before_us: is_enough.then(|| median(means(calm))).flatten(),
        since: (onset < known.len()).then(|| began(known, onset)).filter(|_| onset > 0),
        before: None,
        usual_us: now.waits.usual_us(&around.earlier).filter(|_| !is_enough),
        now,
        recent,
        names: true,
    };
    // The first moment without completions: its requests may have been submitted at its end.
    let stuck = known.iter().rev().take_while(|k| k.1.is_stuck()).map(|k| k.1.waits.seconds);
    let stuck: f64 = stuck.collect::<Vec<f64>>().iter().rev().skip(1).sum();
    if let Some(mut verdict) = stalled(&mut evidence, stuck) {
        evidence.names = false;
        verdict.anonymous = stalled(&mut evidence, stuck).map_or(String::new(), |v| v.sentence);
        return verdict;
    }
    let waits = evidence.now.waits;
    let share = waits.waited_share().or(calm_waits.waited_share().filter(|_| is_enough));
    // Nothing was submitted, because the tasks wait for what they submitted before.
    if let (None, Some(us)) = (waits.waited_share(), waits.mean_of_all_us())
        && share > Some(0.0)
    {
        evidence.wait_us = us;
    }
    // Nothing has completed yet: it takes at least that long.
    if stuck >= 2.0 {
        evidence.wait_us = evidence.wait_us.max(stuck * 1e6);
    }
    let usual = evidence.usual_us.map_or(SLOW_ALONE, |us| UNUSUAL * us);
    let alone = usual.clamp(SLOW[2].0, SLOW_ALONE) * (waits.mean_bytes() / LARGE).max(1.0);
    let limit = evidence.before_us.map_or(alone, |us| slow_from(us).min(alone));
    let least = if evidence.wait_us >= 2.0 * limit { WAITING.1 } else { WAITING.0 };
    if waits.waiting(share.unwrap_or(0.0)) < least || evidence.wait_us < limit {
        return Verdict { waiting: evidence.waiting(), ..Verdict::default() };
    }
    evidence.before = is_enough.then(|| Sum::of(calm));
    let mut verdict = evidence.verdict(Severity::Slow, evidence.cause());
    evidence.names = false;
    verdict.anonymous = evidence.verdict(Severity::Slow, evidence.cause()).sentence;
    verdict
}

/// Share of the waited-for bios in `calm` whose tasks still wait.
fn still_wait(calm: &[(Timestamp, &Moment)], recent: &Sum) -> f64 {
    let (mut same, mut all) = (0.0, 0.0);
    for (name, bios) in calm.iter().flat_map(|k| &k.1.waiting) {
        all += bios;
        same += if recent.waiting.contains_key(name) { *bios } else { 0.0 };
    }
    same / f64::max(all, 1.0)
}

/// Index of the first of the last moments that cover `span`.
fn last_seconds(known: &[(Timestamp, &Moment)], span: Duration) -> usize {
    let mut start = known.len();
    let mut covered = Duration::ZERO;
    while start > 0 && covered < span.mul_f64(0.95) {
        start -= 1;
        covered += known[start].1.over;
    }
    start
}

/// Shortest slow wait after a calm time in which it was `before_us`, µs.
fn slow_from(before_us: f64) -> f64 {
    SLOW.into_iter().map(|(us, times)| us.max(times * before_us)).fold(f64::INFINITY, f64::min)
}

/// Start of a moment.
fn began(known: &[(Timestamp, &Moment)], at: usize) -> Timestamp {
    let (end, moment) = known[at];
    end.checked_sub(moment.over).unwrap_or(end)
}

/// Mean waits of the moments in which tasks waited, µs.
fn means(moments: &[(Timestamp, &Moment)]) -> Vec<f64> {
    moments.iter().filter_map(|k| k.1.waits.mean_us()).collect()
}

/// Index of the first moment of the slow time that has not ended; the number of moments if the last
/// one is not slow.
fn onset(known: &[(Timestamp, &Moment)], start: usize) -> usize {
    let low = quantile(means(&known[..start]), 0.2).unwrap_or(0.0);
    let limit = slow_from(low).min(2.0 * low.max(SLOW[1].0));
    let mut onset = known.len();
    for (at, (_, moment)) in known.iter().enumerate().rev() {
        let mean = moment.waits.mean_us();
        if moment.is_stuck() || mean.is_some_and(|us| us >= limit) {
            onset = at;
        } else if onset.min(start) > at + 2 {
            break;
        }
    }
    onset
}

/// Verdict if nothing returns: `stuck` is the time for which the array has completed nothing.
fn stalled(evidence: &mut Evidence<'_>, stuck: f64) -> Option<Verdict> {
    let known = |function: &str| WAITS_IN.iter().find(|known| function.starts_with(known.0));
    let last = evidence.last;
    let longest = last.hung.iter().find(|h| known(&h.function).is_some());
    let idle = evidence.now.waits.is_idle();
    let hung = longest.or(last.hung.first().filter(|_| idle || !last.suspended.is_empty()));
    let seconds = hung.map_or(0.0, |h| h.ms as f64 / 1000.0).max(stuck);
    if seconds < STALLED.as_secs_f64() {
        return None;
    }
    evidence.wait_us = seconds * 1e6;
    let name = &evidence.array.info.name;
    let of = |kind, cause: &str| Cause { kind, name: cause.to_owned(), share: 1.0 };
    let found = if last.suspended.contains(name) {
        words::suspended_array(name, of(Kind::Md, "suspended"))
    } else if let Some(member) = last.suspended.first() {
        words::suspended_member(member, of(Kind::Member, member))
    } else if let Some(known) = hung.and_then(|h| known(&h.function)) {
        words::sleeps_in(evidence, known.0, of(known.1, known.2))
    } else if hung.is_some() && stuck == 0.0 {
        words::before_the_array(name, of(Kind::Filesystem, ""))
    } else {
        let sick = |m: &&Load| m.in_flight > 0 && m.completed == 0;
        let sick: Vec<&Load> = evidence.now.members.iter().filter(sick).collect();
        match &sick[..] {
            [] => words::unexplained(of(Kind::Unexplained, "")),
            [one] => words::hangs(one, evidence, of(Kind::Member, &one.name)),
            all => words::all_hang(all, of(Kind::Path, "")),
        }
    };
    Some(evidence.verdict(Severity::Stalled, found))
}

impl Evidence<'_> {
    fn verdict(&self, severity: Severity, found: Found) -> Verdict {
        let waiting = self.waiting();
        Verdict {
            severity,
            sentence: words::sentence(self, severity, &waiting, &found.clause),
            account: self.account(&found, waiting.us),
            waiting,
            cause: found.cause,
            accused: found.accused,
            actions: found.actions,
            is_suspended: severity == Severity::Stalled && !self.last.suspended.is_empty(),
            anonymous: String::new(),
        }
    }

    fn cause(&self) -> Found {
        let of = |kind, name: &str, share: f64| Cause { kind, name: name.to_owned(), share };
        let array = &self.array.info.name;
        let sum = |of: fn(&Load) -> f64| self.now.members.iter().map(of).sum::<f64>();
        let (all, device) = (sum(Load::total).max(f64::MIN_POSITIVE), self.in_device());
        let of_worst = self.worst().map_or(0.0, |m| m.resync / m.total().max(f64::MIN_POSITIVE));
        let resync = (sum(|m| m.resync) / all).max(of_worst);
        // md's barrier lets no write into the area that is being resynced.
        let is_held = matches!(self.array.info.level.as_str(), "raid1" | "raid10")
            && device < IN_MD
            && resync > 0.0;
        let is_resync = self.around.sync_action.is_some() && (resync >= SHARED || is_held);
        let shared = |m: &&Load| {
            m.neighbour() > 0.0
                && m.neighbour() >= SHARED * m.total()
                && self.grew(&m.name, GREW, Load::neighbour)
        };
        let us = |m: &Load| self.mean_us(m).unwrap_or(0.0);
        let neighbour = self.now.members.iter().filter(shared);
        let neighbour = neighbour.max_by(|a, b| us(a).total_cmp(&us(b)));
        let is_disturbed = is_resync || neighbour.is_some();
        let least = if is_disturbed { MUCH_SLOWER } else { SLOWER };
        let grown = self.grown();
        if let Some((members, times)) = self.slower()
            && times >= least
            && (device >= IN_MD || times >= MUCH_SLOWER)
            && grown.is_none()
        {
            let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
            let cause = of(Kind::Member, &units::list(&names), device);
            return words::slow_members(&members, self, cause);
        }
        if let Some(member) = neighbour
            && (!is_resync || member.neighbour() / member.total() > resync)
        {
            let most = member.neighbours.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
            let name = most.map_or("", |most| most.0);
            let share = member.neighbour() / member.total();
            return words::neighbour(member, self, of(Kind::Neighbour, name, share));
        }
        if is_resync {
            let at_barrier = resync < SHARED;
            let share = if at_barrier { 1.0 - device } else { resync };
            return words::resync(self, at_barrier, of(Kind::Resync, array, share));
        }
        if let Some((name, share)) = grown {
            return words::load(self, true, of(Kind::Load, name, share));
        }
        if device < IN_MD {
            return if self.around.stripe_cache_full {
                words::stripe_cache(self, of(Kind::Md, "stripe_cache", 1.0 - device))
            } else {
                words::in_md(self, of(Kind::Md, "", 1.0 - device))
            };
        }
        if self.before.is_none() {
            let most = self.now.tasks.iter().max_by(|a, b| a.1.total_cmp(b.1));
            let tasks: f64 = self.now.tasks.values().sum();
            let (name, share) = most.map_or(("", 0.0), |(n, w)| (n.as_str(), w / tasks));
            return words::load(self, false, of(Kind::Load, name, share));
        }
        let all_slower = self.now.members.iter().filter(|m| m.waited.requests > 0).all(|m| {
            let was = self.before.as_ref().and_then(|b| b.member(&m.name));
            was.is_some_and(|was| us(m) >= SLOWER * us(was))
        });
        if all_slower {
            return words::path(self, of(Kind::Path, array, device));
        }
        words::unexplained(of(Kind::Unexplained, "", 1.0))
    }
}
