//! Compares the last seconds with the calm time before, and finds the cause.

use std::time::Duration;

use jiff::Timestamp;

use super::calm::{
    MIN_SAME_SHARE, began, extra_slow, last_seconds, means, onset, slow_from, still_wait,
};
use super::evidence::{Evidence, Explanation, MIN_GROWTH, extra};
use super::held::{
    BARRIER, BITMAP, COMMIT, DIRTY_LIMIT, HANDLES, Held, INODE, MIN_HELD_SHARE, SUSPENDED, WBT,
    held, known as waits_in, sleep_us,
};
use super::kind::FULL_CERTAINTY;
use super::moment::{EXTRA_WRITES, Load, Waits, median};
use super::paths::{SlowPath, slow_paths};
use super::{CALM, Cause, CauseKind, Moment, NOW, SLOW, SLOW_ALONE, STALLED, Severity};
use super::{MomentSum, Verdict, WAITING, Waiting};
use super::{failed, words};
use crate::analysis::around::{Asleep, HungTask};
use crate::analysis::cube::Amount as _;
use crate::analysis::snapshot::ArraySnapshot;

/// What [`Evidence::usual`] is in `serve` after a day.
const YESTERDAY: &str = "at this hour yesterday";
/// Moments for which a cause is remembered.
const REMEMBERED_MOMENTS: u32 = 5;
/// Multiple of the usual time that is slow if nothing is known of the time before.
const MIN_UNUSUAL_RATIO: f64 = 10.0;
/// Times in which the tasks are looked for. What they dirtied is written within seconds, or up to
/// half a minute later (vm.dirty_expire_centisecs).
const RECENT_TIME: Duration = Duration::from_secs(10);
const BACKLOG_TIME: Duration = Duration::from_secs(30);
/// Time after which a task that has not run is still waiting for what it submitted before.
const MIN_HANG: Duration = Duration::from_secs(1);
/// Least share of the array's work of a task that has only itself to wait for.
const MIN_SOLE_SHARE: f64 = 0.5;
/// Shortest mean sleep that samples can tell, µs.
const MIN_SLEEP_US: f64 = 1_000.0;
/// Size up to which a read or write is expected to take no longer than a small one, bytes.
const MAX_SMALL_BYTES: f64 = 262_144.0;
/// Least share of the members' work of a resync or neighbour that is the cause.
const MIN_SHARED_WORK: f64 = 0.3;
/// Least multiple of the other members' time, or of its own earlier time, of a slow member.
const MIN_SLOWER_RATIO: f64 = 2.0;
/// The same during a resync or beside a neighbour, which can delay one member more than others.
const MIN_MUCH_SLOWER_RATIO: f64 = 8.0;
/// Least share of the slowest member's time that all take if what they share is slow.
const MIN_ALIKE_SHARE: f64 = 0.2;
/// Least share of the wait that a slow member's requests take; a wait may be for several of them.
const MIN_EXPLAINED_SHARE: f64 = 0.2;
/// Least share of the waited time that is spent in md for md to be the cause.
const MIN_MD_SHARE: f64 = 0.5;
/// Least number of tasks of a name that sleep, on average, to be judged by samples.
const MIN_ASLEEP: f64 = 0.5;

/// The verdict at the last of `known`, which are in order. `yesterday_us`: the mean wait in the
/// same hour of the day before.
pub fn judge(
    array: &ArraySnapshot,
    known: &[(Timestamp, &Moment)],
    yesterday_us: Option<f64>,
) -> Verdict {
    failed::judge(array)
        .unwrap_or_else(|| judge_back(array, known, yesterday_us, REMEMBERED_MOMENTS))
}

/// The verdict, with a cause that was found in one of the last `back` moments if there is none now,
/// or only work whose task is not known: what a task dirties is written in bursts.
fn judge_back(
    array: &ArraySnapshot,
    known: &[(Timestamp, &Moment)],
    yesterday_us: Option<f64>,
    back: u32,
) -> Verdict {
    let (Some((_, last)), Some(around)) = (known.last(), &array.around) else {
        return Verdict::default();
    };
    let start = last_seconds(known, NOW);
    let now = MomentSum::of(&known[start..]);
    let recent = MomentSum::of(&known[last_seconds(known, RECENT_TIME)..]);
    let backlog = MomentSum::of(&known[last_seconds(known, BACKLOG_TIME)..]);
    let onset = onset(known, start, |m| m.waits.mean_us(), Moment::is_stuck);
    let calm = &known[..onset.min(start)];
    let mut calm_waits = Waits::default();
    calm.iter().for_each(|k| calm_waits.add(&k.1.waits));
    let is_enough = calm_waits.seconds >= CALM.0.as_secs_f64()
        && calm_waits.requests() >= CALM.1
        && (recent.waiting.is_empty() || still_wait(calm, &recent) >= MIN_SAME_SHARE);
    let usual = || now.waits.usual_us(&around.earlier).map(|us| (us, "on average until now"));
    let yesterday = yesterday_us.map(|us| (us, YESTERDAY));
    let mut evidence = Evidence {
        array,
        last,
        around,
        wait_us: now.waits.mean_us().unwrap_or(0.0),
        before_us: is_enough.then(|| median(means(calm))).flatten(),
        since: (onset < known.len()).then(|| began(known, onset)).filter(|_| onset > 0),
        before: None,
        usual: yesterday.or_else(usual).filter(|_| !is_enough),
        now,
        recent,
        backlog,
        asleep: None,
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
    // Nothing was submitted, or only for others, because the tasks wait for what they submitted
    // before.
    let hangs = |hung: &HungTask| {
        Duration::from_millis(hung.ms) >= MIN_HANG
            && evidence.recent.waiting.contains_key(&hung.comm)
    };
    let own = waits.waited_share().filter(|share| *share > 0.0 || !last.hung.iter().any(hangs));
    let earlier = || evidence.recent.waits.waited_share().filter(|share| *share > 0.0);
    let calm_share = || calm_waits.waited_share().filter(|_| is_enough);
    let share = own.or_else(earlier).or_else(calm_share);
    if let (None, Some(us)) = (own, waits.mean_of_all_us())
        && share > Some(0.0)
    {
        evidence.wait_us = us;
    }
    let measured_us = evidence.wait_us;
    // Nothing has completed yet: it takes at least that long.
    if stuck >= 2.0 {
        evidence.wait_us = evidence.wait_us.max(stuck * 1e6);
    }
    let large = (waits.mean_bytes() / MAX_SMALL_BYTES).max(1.0);
    let alone = match evidence.usual {
        Some((us, YESTERDAY)) => slow_from(us).min(SLOW_ALONE),
        Some((us, _)) => (MIN_UNUSUAL_RATIO * us).clamp(SLOW[2].0, SLOW_ALONE),
        None => SLOW_ALONE,
    } * large;
    let mut limit = evidence.before_us.map_or(alone, |us| slow_from(us).min(alone));
    // It has become slow over hours.
    let than_yesterday = yesterday_us.map_or(f64::INFINITY, |us| slow_from(us) * large);
    let is_drift = evidence.wait_us < limit && evidence.wait_us >= than_yesterday;
    if is_drift {
        (evidence.before_us, evidence.since, evidence.usual) = (None, None, yesterday);
        limit = than_yesterday;
    }
    if let Some(us) = evidence.before_us {
        limit = limit.min(extra_slow(&evidence.now, calm, us));
    }
    if let Some(path) = evidence.slow_paths().first() {
        limit = limit.min(slow_from(path.others_us));
    }
    let least = if evidence.wait_us >= 2.0 * limit { WAITING.1 } else { WAITING.0 };
    let is_fast = waits.waiting(share.unwrap_or(0.0)) < least || evidence.wait_us < limit;
    if !is_fast {
        evidence.before = (is_enough && !is_drift).then(|| MomentSum::calm(calm));
    } else if !evidence.sleeps_long(known, start) {
        (evidence.before, evidence.wait_us) = (None, measured_us);
        return Verdict { waiting: evidence.waiting(), ..Verdict::default() };
    }
    let verdict = evidence.slow(Evidence::cause);
    if verdict.certainty() == FULL_CERTAINTY || back == 0 {
        return verdict;
    }
    let earlier = judge_back(array, &known[..known.len() - 1], yesterday_us, back - 1);
    // Anything but a load is known by what is going on now.
    let is_known =
        earlier.cause.kind == CauseKind::Load && earlier.certainty() > verdict.certainty();
    let is_same = earlier.severity == Severity::Slow
        && earlier.waiting.since.is_some()
        && earlier.waiting.since == verdict.waiting.since;
    if !(is_known && is_same) {
        return verdict;
    }
    evidence.slow(|evidence| Explanation {
        cause: earlier.cause.clone(),
        accused: Vec::new(),
        clause: earlier.clauses[usize::from(!evidence.names)].clone(),
        actions: earlier.actions.clone(),
    })
}

/// Verdict if nothing returns: `stuck` is the time for which the array has completed nothing.
fn stalled(evidence: &mut Evidence<'_>, stuck: f64) -> Option<Verdict> {
    let last = evidence.last;
    let idle = evidence.now.waits.is_idle() && !evidence.now.waits.is_in_flight();
    // A commit, and a task with a lock, wait for IO in turn.
    let tells = |h: &&HungTask| {
        waits_in(&h.function).is_some_and(|known| ![COMMIT, INODE].contains(&known.2) || idle)
    };
    let longest = last.hung.iter().find(tells);
    let hung = longest.or(last.hung.first().filter(|_| idle || !last.suspended.is_empty()));
    let full = last.full_pools.first();
    let hung = hung.or(last.hung.first().filter(|_| full.is_some()));
    let seconds = hung.map_or(0.0, |h| h.ms as f64 / 1000.0).max(stuck);
    let seconds = seconds.max(full.map_or(0.0, |pool| pool.ms as f64 / 1000.0));
    if seconds < STALLED.as_secs_f64() {
        return None;
    }
    let wait_us = std::mem::replace(&mut evidence.wait_us, seconds * 1e6);
    let name = &evidence.array.info.name;
    let of = |kind, cause: &str| Cause { kind, name: cause.to_owned(), share: 1.0 };
    let found = if let Some(pool) = full {
        words::full_pool(pool, of(CauseKind::Filesystem, &pool.name))
    } else if last.suspended.contains(name) {
        words::suspended_array(evidence, of(CauseKind::Md, SUSPENDED))
    } else if let Some(member) = last.suspended.first() {
        words::suspended_member(member, of(CauseKind::Member, member))
    } else if let Some((hung, known)) = hung.and_then(|h| Some((h, waits_in(&h.function)?))) {
        words::sleeps_in(evidence, &hung.function, of(known.1, known.2))
    } else if hung.is_some() && stuck == 0.0 {
        words::before_the_array(name, of(CauseKind::Filesystem, ""))
    } else {
        let sick = |m: &&Load| m.in_flight > 0 && m.completed == 0;
        let sick: Vec<&Load> = evidence.now.members.iter().filter(sick).collect();
        match &sick[..] {
            [] => {
                // All members complete something now and then: slow, rather.
                evidence.wait_us = wait_us;
                return None;
            }
            [one] => words::hangs(one, evidence, of(CauseKind::Member, &one.name)),
            all => words::all_hang(all, of(CauseKind::Path, "")),
        }
    };
    Some(evidence.verdict(Severity::Stalled, found))
}

/// Judges an array for which no task waits, as if the `waiting` for another array were for it.
/// `None` if its disks and their other users do not explain the wait.
pub fn judge_for(
    array: &ArraySnapshot,
    known: &[(Timestamp, &Moment)],
    waiting: &Waiting,
) -> Option<Verdict> {
    let since: Timestamp = waiting.since.as_ref()?.parse().ok()?;
    let calm = &known[..known.partition_point(|k| k.0 < since)];
    let over = |time| MomentSum::of(&known[last_seconds(known, time)..]);
    let mut evidence = Evidence {
        array,
        last: known.last()?.1,
        around: array.around.as_ref()?,
        now: over(NOW),
        recent: over(RECENT_TIME),
        backlog: over(BACKLOG_TIME),
        before: (!calm.is_empty()).then(|| MomentSum::calm(calm)),
        before_us: None,
        usual: None,
        since: None,
        wait_us: waiting.us as f64,
        asleep: None,
        names: true,
    };
    let verdict = evidence.slow(Evidence::cause);
    let is_found =
        matches!(verdict.cause.kind, CauseKind::Member | CauseKind::Neighbour | CauseKind::Resync);
    is_found.then_some(verdict)
}

impl Evidence<'_> {
    /// The verdict of a slow array, with and without names of tasks.
    fn slow(&mut self, find: impl Fn(&Self) -> Explanation) -> Verdict {
        let found = find(self);
        let named = found.clause.clone();
        let mut verdict = self.verdict(Severity::Slow, found);
        self.names = false;
        let found = find(self);
        verdict.clauses = [named, found.clause.clone()];
        verdict.anonymous = self.verdict(Severity::Slow, found).sentence;
        self.names = true;
        verdict
    }

    fn verdict(&self, severity: Severity, found: Explanation) -> Verdict {
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
            clauses: Default::default(),
        }
    }

    /// True if a task sleeps longer in the kernel than before, although the reads and writes of the
    /// array are not longer: an fsync takes several of them, and tasks wait before their IO gets
    /// there.
    fn sleeps_long(&mut self, known: &[(Timestamp, &Moment)], start: usize) -> bool {
        let asleep = self.now.asleep.values().filter(|a| !a.is_kernel);
        let tasks = asleep.map(|a| (a.total_ms(), a.comm.clone()));
        let long = self.now.waits.seconds * 1000.0 * MIN_ASLEEP;
        let mut tasks: Vec<(u64, String)> = tasks.filter(|task| task.0 as f64 >= long).collect();
        tasks.sort_by(|a, b| b.cmp(a));
        tasks.into_iter().any(|(_, comm)| self.sleeps_longer(&comm, known, start))
    }

    fn sleeps_longer(&mut self, comm: &str, known: &[(Timestamp, &Moment)], start: usize) -> bool {
        let submits = known.iter().any(|k| k.1.waiting.contains_key(comm));
        let mean = |m: &Moment| {
            let asleep = m.asleep.iter().find(|a| a.comm == comm)?;
            let bios = m.waiting.get(comm).copied().unwrap_or(0.0);
            Some(sleep_us(asleep, submits.then_some(bios)))
        };
        let bios = self.now.waiting.get(comm).copied().unwrap_or(0.0);
        let asleep = self.now.asleep.get(comm);
        let us = asleep.map_or(0.0, |a| sleep_us(a, submits.then_some(bios)));
        if us < SLOW[2].0 {
            return false;
        }
        let onset = onset(known, start, mean, |_| false);
        let calm = &known[..onset.min(start)];
        let seconds = calm.iter().filter(|k| mean(k.1).is_some()).map(|k| k.1.waits.seconds);
        let is_enough = seconds.sum::<f64>() >= CALM.0.as_secs_f64();
        // The sum, because a task with little IO does not sleep in most samples.
        let mut all = Asleep::default();
        calm.iter().flat_map(|k| &k.1.asleep).filter(|a| a.comm == comm).for_each(|a| all.add(a));
        let bios = calm.iter().filter_map(|k| k.1.waiting.get(comm)).sum();
        let before = is_enough.then(|| sleep_us(&all, submits.then_some(bios)).max(MIN_SLEEP_US));
        // A task that has just begun is only known to be held if it does not wait for its own IO.
        let held =
            held(&self.now, |other| other == comm).filter(|held| held.share >= MIN_HELD_SHARE);
        let by = held.map(|held| held.by.2);
        let is_odd = by.is_some_and(|by| ![DIRTY_LIMIT, COMMIT, INODE].contains(&by));
        let alone = if is_odd { SLOW_ALONE } else { f64::INFINITY };
        let limit = |was: f64| slow_from(was).min(extra_slow(&self.now, calm, was));
        if us < before.map_or(alone, limit) {
            return false;
        }
        self.before = is_enough.then(|| MomentSum::calm(calm));
        // A task waits for its own work, or for the limit of what it dirties itself.
        let is_most = self.largest().is_some_and(|most| most.0 == comm && most.1 >= MIN_SOLE_SHARE);
        let is_own = self.grown().is_some_and(|grown| grown.0 == comm);
        if is_own || is_most && by == Some(DIRTY_LIMIT) {
            return false;
        }
        self.since = (onset < known.len()).then(|| began(known, onset)).filter(|_| onset > 0);
        (self.wait_us, self.before_us, self.usual) = (us, before, None);
        self.asleep = Some((comm.to_owned(), submits));
        true
    }

    /// The wait before their IO in which the tasks spend most of their time asleep, without the
    /// task that does more than before.
    fn held(&self) -> Option<Held> {
        let grown = self.grown().map(|grown| grown.0);
        let waits =
            |comm: &str| self.asleep.as_ref().map_or(Some(comm) != grown, |task| task.0 == comm);
        held(&self.now, waits).filter(|held| held.share >= MIN_HELD_SHARE)
    }

    /// Slow paths, slowest first, if the drive of the slowest explains the wait; else none.
    fn slow_paths(&self) -> Vec<SlowPath<'_>> {
        let us = |m: &Load| self.mean_us(m).unwrap_or(0.0);
        let longest = self.worst().map_or(0.0, us);
        let mut paths = slow_paths(&self.now.members);
        let explains = |path: &SlowPath<'_>| {
            us(path.member) >= MIN_EXPLAINED_SHARE * self.wait_us
                && us(path.member) >= MIN_ALIKE_SHARE * longest
        };
        if !paths.first().is_some_and(explains) {
            paths.clear();
        }
        paths
    }

    fn cause(&self) -> Explanation {
        let of = |kind, name: &str, share: f64| Cause { kind, name: name.to_owned(), share };
        let array = &self.array.info.name;
        if self.last.suspended.contains(array) {
            return words::suspended_array(self, of(CauseKind::Md, SUSPENDED, 1.0));
        }
        let sum = |of: fn(&Load) -> f64| self.now.members.iter().map(of).sum::<f64>();
        let (all, device) = (sum(Load::total).max(f64::MIN_POSITIVE), self.in_device());
        let of_worst = self.worst().map_or(0.0, |m| m.resync / m.total().max(f64::MIN_POSITIVE));
        let resync = (sum(|m| m.resync) / all).max(of_worst);
        // md's barrier lets no write into the area that is being resynced.
        let held_by = self.held();
        let at_barrier = held_by.filter(|held| held.by.2 == BARRIER);
        let is_held = matches!(self.array.info.level.as_str(), "raid1" | "raid10")
            && (device < MIN_MD_SHARE || at_barrier.is_some())
            && resync > 0.0;
        let is_resync = self.around.sync_action.is_some() && (resync >= MIN_SHARED_WORK || is_held);
        let shared = |m: &&Load| {
            m.neighbour() > 0.0
                && m.neighbour() >= MIN_SHARED_WORK * m.total()
                && self.grew(&m.name, MIN_GROWTH, Load::neighbour)
        };
        let us = |m: &Load| self.mean_us(m).unwrap_or(0.0);
        let longest = |of: &'_ MomentSum| -> Option<usize> {
            let at = (0..of.members.len()).filter(|at| shared(&&of.members[*at]));
            at.max_by(|a, b| us(&of.members[*a]).total_cmp(&us(&of.members[*b])))
        };
        let paths = self.slow_paths();
        if let Some(slowest) = paths.first() {
            return words::slow_paths(&paths, of(CauseKind::Path, slowest.name, device));
        }
        // Requests that wait behind those of a neighbour complete seconds later.
        let neighbour = longest(&self.now).map(|at| &self.now.members[at]);
        let neighbour = neighbour.or(longest(&self.recent).map(|at| &self.recent.members[at]));
        let is_disturbed = is_resync || neighbour.is_some();
        let least = if is_disturbed { MIN_MUCH_SLOWER_RATIO } else { MIN_SLOWER_RATIO };
        let grown = self.grown();
        let has_neighbour =
            |m: &&Load| shared(m) || self.recent.member(&m.name).is_some_and(|m| shared(&m));
        // Without a member the others have more work, each by chance at its own time.
        let gone = self.gone();
        if let Some((members, times)) = self.slower()
            && gone.is_empty()
            && times >= least
            && !members.iter().any(has_neighbour)
            && (members.len() == 1 || words::carriers(self).is_empty())
            && members.iter().any(|m| us(m) >= MIN_EXPLAINED_SHARE * self.wait_us)
            // More work would delay the other members, too.
            && (device >= MIN_MD_SHARE && grown.is_none() || times >= MIN_MUCH_SLOWER_RATIO)
        {
            return words::slow_members(&members, self, device);
        }
        if let Some(member) = neighbour
            && (!is_resync || member.neighbour() / member.total() > resync)
        {
            let most = member.neighbours.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
            let name = most.map_or("", |most| most.0);
            let share = member.neighbour() / member.total();
            return words::neighbour(member, self, of(CauseKind::Neighbour, name, share));
        }
        if is_resync {
            let share = match at_barrier {
                Some(held) => held.share,
                None if resync < MIN_SHARED_WORK => 1.0 - device,
                None => resync,
            };
            let is_barrier = at_barrier.is_some() || resync < MIN_SHARED_WORK;
            return words::resync(self, is_barrier, of(CauseKind::Resync, array, share));
        }
        // Whoever has the lock or handle may wait for slow IO.
        let is_cause = |held: &Held| match held.by.2 {
            COMMIT | WBT => false,
            INODE | HANDLES => self.asleep.is_some(),
            _ => true,
        };
        if let Some(held) = held_by.filter(is_cause) {
            if held.by.2 == "stripe_cache" {
                return words::stripe_cache(self, of(CauseKind::Md, held.by.2, held.share));
            }
            return words::held(self, &held, grown, of(held.by.1, held.by.2, held.share));
        }
        if let Some((at, share)) = self.before.as_ref().and_then(|was| extra(&self.now, was)) {
            let (kind, name) = [(CauseKind::Md, BITMAP), (CauseKind::Journal, "writes")][at];
            return words::extra(self, EXTRA_WRITES[at], of(kind, name, share));
        }
        if let Some((name, share)) = grown {
            return words::load(self, true, of(CauseKind::Load, name, share));
        }
        if !gone.is_empty() {
            return words::degraded(&gone, self, of(CauseKind::Md, "degraded", 1.0));
        }
        if device < MIN_MD_SHARE && self.asleep.is_none() {
            return if self.around.stripe_cache_full {
                words::stripe_cache(self, of(CauseKind::Md, "stripe_cache", 1.0 - device))
            } else {
                words::in_md(self, of(CauseKind::Md, "", 1.0 - device))
            };
        }
        if let Some((name, share)) = self.largest().filter(|_| self.before.is_none()) {
            return words::load(self, false, of(CauseKind::Load, name, share));
        }
        let worst = self.worst().map_or(0.0, us);
        let all_slower = self.now.members.iter().filter(|m| m.waited.requests > 0).all(|m| {
            let was = self.before.as_ref().and_then(|b| b.member(&m.name));
            was.is_some_and(|was| us(m) >= MIN_SLOWER_RATIO * us(was))
                && us(m) >= MIN_ALIKE_SHARE * worst
        });
        // Small requests and flushes before, large ones now: more work in bytes.
        let bytes = |of: &MomentSum, name: &str| of.rate(name, |m| m.bytes);
        let more = self.now.members.iter().any(|m| {
            let before = self.before.as_ref().map_or(0.0, |before| bytes(before, &m.name));
            self.grew(&m.name, MIN_GROWTH, Load::total)
                || bytes(&self.recent, &m.name) >= 2.0 * MIN_GROWTH * before
        });
        if all_slower && !more && worst >= MIN_EXPLAINED_SHARE * self.wait_us {
            return words::path(self, of(CauseKind::Path, array, device));
        }
        if let Some(held) = held_by.filter(|_| self.asleep.is_some()) {
            return words::held(self, &held, None, of(held.by.1, held.by.2, held.share));
        }
        words::unexplained(self, of(CauseKind::Unexplained, "", 1.0))
    }
}
