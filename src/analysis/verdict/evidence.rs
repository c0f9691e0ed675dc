//! Figures of the last seconds and of the calm time before, and comparisons of them.

use jiff::Timestamp;

use super::moment::{EXTRA_WRITES, Load, Moment, MomentSum};
use super::{AccountPart, Action, Cause, CauseKind, Waiting};
use crate::analysis::around::Around;
use crate::analysis::snapshot::ArraySnapshot;

/// Least multiple of its earlier work that a neighbour or task does, if it is the cause.
pub const MIN_GROWTH: f64 = 1.5;
/// Least share of the array's work of a task that is the cause.
const MIN_LOAD_SHARE: f64 = 0.3;
/// Least share of the array's earlier work by which that task's work grew: beside tasks that are
/// held up, small ones have a large share.
const MIN_ADDED_SHARE: f64 = 0.3;
/// Least multiple of its earlier time after which a member is slow although it does more than the
/// others now, which only wait for it, if it does no more than before, nor than they over a longer
/// time.
const MIN_STRANDED_RATIO: f64 = 8.0;
/// Members differ by chance by up to this.
const MAX_CHANCE_RATIO: f64 = 1.5;
/// Greatest multiple of the others' work, or of its own earlier work, that is no more work.
const MAX_SAME_WORK: f64 = 1.25;

/// Least share of the array's work of extra writes that are the cause.
const MIN_EXTRA_SHARE: f64 = 0.3;

/// Figures that a verdict is computed from.
pub struct Evidence<'a> {
    pub array: &'a ArraySnapshot,
    pub last: &'a Moment,
    /// Facts of the last interval.
    pub around: &'a Around,
    pub now: MomentSum,
    /// The last ten seconds.
    pub recent: MomentSum,
    /// The last half minute: what was dirtied then may be written now.
    pub backlog: MomentSum,
    /// The calm time before; `None` if it is too short, or nothing is slow.
    pub before: Option<MomentSum>,
    /// Mean wait in the calm time, µs.
    pub before_us: Option<f64>,
    /// Without a calm time: the mean in the same hour of the day before, or since the array was
    /// assembled, µs, and which of them.
    pub usual: Option<(f64, &'static str)>,
    /// Start of the slow time.
    pub since: Option<Timestamp>,
    /// Mean wait, µs.
    pub wait_us: f64,
    /// Name of the task whose sleep is [`Evidence::wait_us`], and true if it is that for each of
    /// its bios. `None` if it is the time of the array's reads and writes.
    pub asleep: Option<(String, bool)>,
    /// True if tasks are named.
    pub names: bool,
}

/// The cause, its words and its share of the waited time.
pub struct Explanation {
    pub cause: Cause,
    pub accused: Vec<String>,
    /// The sentence after who waits and how long.
    pub clause: String,
    pub actions: Vec<Action>,
}

/// The kind of extra writes that is much of the work on the members, and twice the share that it
/// was before: its index in [`EXTRA_WRITES`], and its share.
pub fn extra(now: &MomentSum, before: &MomentSum) -> Option<(usize, f64)> {
    let grew = |(at, share): &(usize, f64)| {
        *share >= MIN_EXTRA_SHARE && *share >= 2.0 * share_of_extra(before, *at)
    };
    let shares = (0..EXTRA_WRITES.len()).map(|at| (at, share_of_extra(now, at)));
    shares.filter(grew).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn share_of_extra(sum: &MomentSum, at: usize) -> f64 {
    let of = |part: &dyn Fn(&Load) -> f64| sum.members.iter().map(part).sum::<f64>();
    of(&|m| m.extra[at]) / of(&|m| m.own).max(f64::MIN_POSITIVE)
}

impl Evidence<'_> {
    pub fn waiting(&self) -> Waiting {
        let mut tasks: Vec<(&String, &f64)> = self.now.waiting.iter().collect();
        tasks.sort_by(|a, b| b.1.total_cmp(a.1));
        let mut tasks: Vec<String> = tasks.into_iter().take(3).map(|t| t.0.clone()).collect();
        if tasks.is_empty() {
            tasks = self.last.hung.iter().map(|h| h.comm.clone()).collect();
            tasks.dedup();
        }
        Waiting {
            us: self.wait_us as u64,
            before_us: self.before_us.map(|us| us as u64),
            since: self.since.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            tasks,
        }
    }

    /// Mean time of a member's requests, µs.
    pub fn mean_us(&self, member: &Load) -> Option<f64> {
        member.mean_us(self.now.waits.seconds)
    }

    /// The member whose requests take longest.
    pub fn worst(&self) -> Option<&Load> {
        let mean = |m: &Load| self.mean_us(m).unwrap_or(0.0);
        self.now.members.iter().max_by(|a, b| mean(a).total_cmp(&mean(b)))
    }

    /// Share of the waited time in the device of the slowest member; the rest is spent in md. A
    /// write to RAID 4/5/6 may wait for a read and then for a write.
    pub fn in_device(&self) -> f64 {
        let steps = match self.array.info.level.as_str() {
            "raid4" | "raid5" | "raid6" => 2.0,
            _ => 1.0,
        };
        let us = |m: &Load| m.queue_us(self.now.waits.seconds);
        let us = self.now.members.iter().map(us).fold(0.0, f64::max);
        let io = if self.asleep.is_some() { self.now.waits.mean_us() } else { None };
        (steps * us / io.unwrap_or(self.wait_us).max(1.0)).min(1.0)
    }

    pub fn account(&self, found: &Explanation, us: u64) -> Vec<AccountPart> {
        let device =
            if found.cause.kind == CauseKind::Unexplained { 0.0 } else { self.in_device() };
        let shares: Vec<(&'static str, f64)> = match (&found.cause.kind, self.worst()) {
            (CauseKind::Member | CauseKind::Path, _) => vec![("device", 1.0)],
            (CauseKind::Resync | CauseKind::Neighbour | CauseKind::Load, Some(worst)) => {
                let part = |work: f64| device * work / worst.total().max(f64::MIN_POSITIVE);
                vec![
                    ("device_own", part(worst.own)),
                    ("device_resync", part(worst.resync)),
                    ("device_neighbour", part(worst.neighbour())),
                    ("md", 1.0 - device),
                ]
            }
            (CauseKind::Md, _) => vec![("md", 1.0 - device), ("device", device)],
            (
                CauseKind::CgroupLimit
                | CauseKind::Filesystem
                | CauseKind::Journal
                | CauseKind::Allocator
                | CauseKind::Lock,
                _,
            ) => vec![("held", 1.0)],
            _ => vec![("unexplained", 1.0 - device), ("device", device)],
        };
        let parts = shares.into_iter().filter(|s| s.1 > 0.0);
        let mut parts: Vec<AccountPart> = parts
            .map(|(part, share)| AccountPart { part, us: (share * us as f64) as u64 })
            .collect();
        // What rounding has lost.
        let all: u64 = parts.iter().map(|p| p.us).sum();
        if let Some(largest) = parts.iter_mut().max_by_key(|p| p.us) {
            largest.us += us.saturating_sub(all);
        }
        parts.sort_by_key(|p| std::cmp::Reverse(p.us));
        parts
    }

    /// True if `of` the member `name` is at least `times` what it was in the calm time, or if there
    /// was none.
    pub fn grew(&self, name: &str, times: f64, of: impl Fn(&Load) -> f64) -> bool {
        let now = self.now.rate(name, &of);
        self.before.as_ref().is_none_or(|before| now >= times * before.rate(name, &of))
    }

    /// Members that take long, and how many times as long as [`MAX_CHANCE_RATIO`] times the slowest
    /// other member, and as before, they take at least. `None` if they have more work, or are most
    /// of the members.
    pub fn slower(&self) -> Option<(Vec<&Load>, f64)> {
        let longest = self.mean_us(self.worst()?)?;
        let is_slow = |m: &&Load| self.mean_us(m).is_some_and(|us| us >= longest / 2.0);
        let (slow, others): (Vec<&Load>, Vec<&Load>) = self.now.members.iter().partition(is_slow);
        let least = slow.iter().filter_map(|m| self.mean_us(m)).fold(f64::INFINITY, f64::min);
        let most = others.iter().filter_map(|m| self.mean_us(m)).fold(0.0, f64::max);
        let alone = self.now.members.len() == 1;
        if !alone && 2 * slow.len() > self.now.members.len() {
            return None;
        }
        // Without requests on the others, the members are compared with their own past.
        let was = slow.iter().filter_map(|m| self.before.as_ref()?.member(&m.name));
        let was = was.filter_map(|m| m.waited.mean_us()).fold(0.0, f64::max);
        let times = |other: f64| if other > 0.0 { least / other } else { f64::INFINITY };
        let grew = |least: f64| {
            self.before.is_none() || slow.iter().any(|m| self.grew(&m.name, least, Load::total))
        };
        let more = if most == 0.0 {
            grew(MIN_GROWTH)
        } else {
            let is_more = |sum: &MomentSum| {
                let of = |these: &[&Load]| -> f64 {
                    let each = these.iter().filter_map(|m| sum.member(&m.name));
                    each.map(Load::total).fold(0.0, f64::max)
                };
                of(&slow) > MAX_SAME_WORK * of(&others)
            };
            is_more(&self.now)
                && (grew(1.0) || times(was) < MIN_STRANDED_RATIO || is_more(&self.backlog))
        };
        (!more).then(|| (slow, (times(most) / MAX_CHANCE_RATIO).min(times(was))))
    }

    /// Members of the calm time that the array no longer has.
    pub fn gone(&self) -> Vec<&str> {
        let before = self.before.iter().flat_map(|before| &before.members);
        let is_gone = |m: &&Load| !self.last.members.iter().any(|now| now.name == m.name);
        before.filter(is_gone).map(|m| m.name.as_str()).collect()
    }

    /// Name of the task whose work grew most, and its share of the array's work, if that is large.
    /// `None` without a calm time.
    pub fn grown(&self) -> Option<(&str, f64)> {
        [&self.recent, &self.now, &self.backlog].into_iter().find_map(|sum| self.grown_in(sum))
    }

    fn grown_in<'b>(&self, now: &'b MomentSum) -> Option<(&'b str, f64)> {
        let before = self.before.as_ref()?;
        let rate =
            |of: &MomentSum, name: &str| of.per_second(of.tasks.get(name).copied().unwrap_or(0.0));
        let all: f64 = now.tasks.values().sum();
        let growth = |name: &&String| rate(now, name) - rate(before, name);
        let most = now.tasks.keys().max_by(|a, b| growth(a).total_cmp(&growth(b)))?;
        let share = now.tasks.get(most)? / all.max(f64::MIN_POSITIVE);
        let all_before = before.per_second(before.tasks.values().sum());
        let is_more = rate(now, most) >= MIN_GROWTH * rate(before, most)
            && growth(&most) >= MIN_ADDED_SHARE * all_before;
        (share >= MIN_LOAD_SHARE && is_more).then_some((most.as_str(), share))
    }

    /// Name of the task with the most work, and its share of the array's work.
    pub fn largest(&self) -> Option<(&str, f64)> {
        let sums = [&self.now, &self.recent, &self.backlog];
        let tasks = sums.into_iter().map(|sum| &sum.tasks).find(|tasks| !tasks.is_empty())?;
        let all: f64 = tasks.values().sum();
        let (name, work) = tasks.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((name, work / all.max(f64::MIN_POSITIVE)))
    }
}
