//! Why the allocator burns CPU or waits: one sentence, whose numbers are all from sources that are there, and what mends
//! it. A healthy filesystem gets none.

use std::collections::BTreeMap;

use super::figures::{
    READS, SEARCHES, WAITS, allocator_cpus, at_least_us, criterion, has, has_groups, is_hooked,
    mean_goal, mean_groups, per_cent, reasons, tasks_at_once, total, whole, without,
};
use crate::doctor::facts::{Kernel, path_of};
use crate::doctor::finding::quote;
use crate::doctor::remedy;
use crate::model::alloc::{AllocSnapshot, Cpu, FsAlloc, Reason, Refused};
use crate::model::units;

/// Below this the allocator costs nobody anything: share of a CPU, or of the time that a task is in it.
const FELT: f64 = 0.1;
/// A search that looks at more groups goes through them. A healthy one looks at a few: with lists 2 to 18 even where free
/// space is in small pieces.
const MANY_GROUPS: f64 = 64.0;
/// So many looks a second are felt, even if no search has ended: 20 to 100 ns each.
const MANY_LOOKS: f64 = 1e6;
/// Of the time in the allocator from which bitmaps are what it waits for, or locks.
const MOSTLY: f64 = 0.5;
/// Bitmap reads that are enough to judge.
const READS_ENOUGH: u64 = 8;
/// Its part of the time in the allocator from which samples are this filesystem's.
const ITS_OWN: f64 = 0.9;
/// Samples likewise: at 99 Hz a fifth of a second.
const SAMPLES_ENOUGH: u64 = 20;
/// Without a count of groups the samples alone have to say it: share of a CPU ...
const BURNING: f64 = 0.5;
/// ... and CPU seconds for a request. A healthy one takes 2 to 50 µs.
const DEAR: f64 = 500e-6;
/// Searches that are not by list: the last two criteria, on every kernel.
const LATE: usize = 2;

/// What is known of a filesystem's allocator from elsewhere than its counters.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The running kernel.
    pub kernel: Kernel,
    /// Whether this kernel's ext4 has lists of groups by free space (5.13); `None`: not known.
    pub has_lists: Option<bool>,
    /// Whether it uses them here (mb_optimize_scan); `None`: not known.
    pub optimised: Option<bool>,
    /// Why groups are not counted, as a clause: `fentry and kprobes are refused`.
    pub unhooked: Option<String>,
    /// No other ext4 is mounted on this machine: samples in the allocator, which are the whole machine's, are then of this one.
    pub alone: bool,
}

/// Writes into every filesystem what stands out. `known`: by device number.
pub fn judge(snapshot: &mut AllocSnapshot, known: &BTreeMap<u32, Known>) {
    let nothing = Known::default();
    let found: Vec<Option<Reason>> = snapshot
        .filesystems
        .iter()
        .map(|fs| find(snapshot, fs, known.get(&fs.dev).unwrap_or(&nothing)))
        .collect();
    for (fs, reason) in snapshot.filesystems.iter_mut().zip(found) {
        fs.reason = reason;
    }
}

/// What stands out on `fs`, one of those in `snapshot`; `None`: nothing does.
pub fn find(snapshot: &AllocSnapshot, fs: &FsAlloc, known: &Known) -> Option<Reason> {
    let case = Case {
        snapshot,
        fs,
        known,
        seconds: snapshot.interval.as_secs_f64(),
    };
    if case.seconds <= 0.0 {
        return None;
    }
    case.cold_bitmaps()
        .or_else(|| case.stripe_livelock())
        .or_else(|| case.going_through_groups())
        .or_else(|| case.contended())
        .or_else(|| case.by_samples())
}

/// How the groups are found that a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// The kernel has no lists.
    NoLists,
    /// They are off for this mount.
    Off,
    /// They are on, and this kernel does not use them for files with extents (5.13 to 5.17, by its version).
    Unused,
    /// They are on.
    Lists,
    Unknown,
}

struct Case<'a> {
    snapshot: &'a AllocSnapshot,
    fs: &'a FsAlloc,
    known: &'a Known,
    seconds: f64,
}

impl Case<'_> {
    fn scan(&self) -> Scan {
        let (version, known) = (self.known.kernel.version(), self.known);
        let said = self.fs.fragmentation.as_ref().and_then(|f| f.optimised);
        match (known.has_lists, known.optimised.or(said)) {
            (Some(false), _) => Scan::NoLists,
            (_, Some(false)) => Scan::Off,
            (_, Some(true)) if ((5, 13)..=(5, 17)).contains(&version) => Scan::Unused,
            (_, Some(true)) => Scan::Lists,
            _ => Scan::Unknown,
        }
    }

    /// Whether samples are this filesystem's: they do not tell filesystems apart, and those that are not watched burn too.
    fn has_samples(&self) -> bool {
        self.known.alone && self.part() >= ITS_OWN
    }

    /// Its part of the time in the allocator, of the filesystems that are watched.
    fn part(&self) -> f64 {
        let weight = |fs: &FsAlloc| fs.counts.nanoseconds as f64 + fs.counts.looks() as f64;
        let all: f64 = self.snapshot.filesystems.iter().map(weight).sum();
        if self.snapshot.filesystems.len() == 1 {
            1.0
        } else if all > 0.0 {
            weight(self.fs) / all
        } else {
            0.0
        }
    }

    /// Whether its CPU time is worth a word.
    fn is_felt(&self) -> bool {
        match allocator_cpus(self.snapshot).filter(|_| self.has_samples()) {
            Some(cpus) => cpus * self.part() >= FELT,
            None => {
                let waited = at_least_us(&self.fs.counts.waits) as f64 / 1e6 / self.seconds;
                tasks_at_once(self.fs, self.seconds) - waited >= FELT
                    || self.fs.counts.looks() as f64 / self.seconds >= MANY_LOOKS
            }
        }
    }

    /// `each allocation` where nearly all of them search.
    fn each(&self) -> &'static str {
        let c = &self.fs.counts;
        if c.searches.saturating_mul(10) >= c.requests.saturating_mul(9) {
            "each allocation"
        } else {
            "each search for free blocks"
        }
    }

    /// `each allocation looks at 41,000 groups`
    fn looks(&self) -> Option<String> {
        let (c, all) = (&self.fs.counts, u64::from(self.fs.groups));
        let mean = mean_groups(self.snapshot, c)?;
        let n = whole(mean.round() as u64);
        if c.groups.count() == 0 && is_hooked(self.snapshot, c) {
            return Some(format!(
                "{} groups were looked at in {} and no search has come to its end",
                whole(c.looks()),
                units::seconds(self.snapshot.interval)
            ));
        }
        let each = self.each();
        Some(if all > 0 && mean > all as f64 {
            format!(
                "{each} looks at all {} groups {:.1} times",
                whole(all),
                mean / all as f64
            )
        } else if all > 0 && mean >= all as f64 / 2.0 {
            format!("{each} looks at {n} of {} groups", whole(all))
        } else {
            format!("{each} looks at {n} groups")
        })
    }

    /// `None`: not known.
    fn refused_share(&self) -> Option<f64> {
        let c = &self.fs.counts;
        let share = || c.refusals() as f64 / c.looks().max(1) as f64;
        is_hooked(self.snapshot, c).then(share)
    }

    /// `99.2 % of groups have no free extent of 2^9 blocks`; by the reasons of some of those refused where the free
    /// extents are not known.
    fn why(&self) -> Option<String> {
        let goal = mean_goal(&self.fs.counts);
        if let (Some(goal), Some(f)) = (goal, &self.fs.fragmentation) {
            let order = goal.ilog2() as usize;
            if let Some((share, known)) = without(f, order).filter(|w| w.0 >= MOSTLY) {
                let of = if known as f64 >= 0.95 * f64::from(self.fs.groups) {
                    "groups".to_owned()
                } else {
                    format!("the {} groups in memory", whole(known))
                };
                return Some(format!(
                    "{} of {of} have no free extent of 2^{order} blocks",
                    per_cent(share)
                ));
            }
        }
        let (first, share) = *reasons(&self.fs.counts).first()?;
        if total(self.fs.counts.reasons.iter()) < SAMPLES_ENOUGH {
            return None;
        }
        let share = per_cent(share);
        Some(match (first, goal) {
            (Refused::Order, _) => {
                format!("{share} of the groups refused have no free extent of the order asked for")
            }
            (Refused::Average, Some(goal)) => format!(
                "in {share} of the groups refused the average free extent is shorter than the goal, {} blocks on average",
                whole(goal)
            ),
            (Refused::Average, None) => format!(
                "in {share} of the groups refused the average free extent is shorter than the goal"
            ),
            (Refused::Full, _) => format!("{share} of the groups refused are full"),
            (Refused::Blocks, _) => {
                format!("{share} of the groups refused have fewer free blocks than the goal")
            }
            (Refused::Corrupt, _) => format!("{share} of the groups refused have a corrupt bitmap"),
            (Refused::ForDirectories, _) => {
                format!("{share} of the groups refused are kept for directories")
            }
            (Refused::Other, _) => return None,
        })
    }

    /// How the groups are found, as the end of a sentence.
    fn how(&self) -> String {
        let release = &self.known.kernel.release;
        match self.scan() {
            Scan::NoLists if release.is_empty() => {
                "linear scan, this kernel has no lists of groups by free space".to_owned()
            }
            Scan::NoLists => {
                format!("linear scan, kernel {release} has no lists of groups by free space")
            }
            Scan::Off => "linear scan, mb_optimize_scan is off for this mount".to_owned(),
            Scan::Unused => format!(
                "linear scan, kernel {release} by its version does not use mb_optimize_scan for files with extents"
            ),
            Scan::Lists => "mb_optimize_scan is on".to_owned(),
            Scan::Unknown => "groups are asked one after the other".to_owned(),
        }
    }

    fn mount(&self) -> String {
        let mount = self.fs.mount.as_deref();
        mount.map_or("MOUNTPOINT".to_owned(), quote)
    }

    fn going_through_groups(&self) -> Option<Reason> {
        let c = &self.fs.counts;
        if !has_groups(self.snapshot, c)
            || mean_groups(self.snapshot, c)? < MANY_GROUPS
            || self.refused_share().is_some_and(|share| share < MOSTLY)
            || !self.is_felt()
        {
            return None;
        }
        // A list proposes groups that do: who is refused by the thousand in the first criteria is not on one.
        let names = self.snapshot.criteria.len().clamp(LATE + 1, c.looked.len());
        let early = total(c.looked[..names - LATE].iter());
        let linear = match self.scan() {
            Scan::NoLists | Scan::Off | Scan::Unused => true,
            Scan::Lists => false,
            Scan::Unknown => early as f64 >= MOSTLY * c.looks() as f64,
        };
        let mut sentence = self.looks()?;
        match (self.why(), self.refused_share()) {
            (Some(why), _) => sentence.push_str(&format!(" because {why}")),
            (None, Some(share)) => {
                sentence.push_str(&format!(", of which {} are refused", per_cent(share)));
            }
            (None, None) => {}
        }
        sentence.push_str(&format!("; {}", self.how()));
        if linear {
            return Some(self.linear(sentence));
        }
        sentence.push_str(&self.late().unwrap_or_default());
        Some(self.fragmented(sentence))
    }

    /// `, but 62 % of searches come down to CR_GOAL_LEN_SLOW, which asks one group after the other`
    fn late(&self) -> Option<String> {
        let c = &self.fs.counts;
        let names = &self.snapshot.criteria;
        let first = names.len().clamp(LATE + 1, c.criteria.len()) - LATE;
        let late = total(c.criteria[first..].iter());
        let share = late as f64 / total(c.criteria.iter()).max(1) as f64;
        (share >= FELT && has(self.snapshot, SEARCHES, c.searches > 0)).then(|| {
            format!(
                ", but {} of searches come down to {} or further, where groups are asked one after the other",
                per_cent(share),
                criterion(names, first)
            )
        })
    }

    fn linear(&self, sentence: String) -> Reason {
        let mut commands = Vec::new();
        let mut risk = remedy::ASK_FOR_LESS_RISK.to_owned();
        if self.scan() == Scan::Off {
            commands.extend(remedy::lists_on(&self.mount(), &path_of(&self.fs.name)));
            risk = format!("{risk}. {}", remedy::LISTS_ON_RISK);
        }
        commands.push(remedy::ask_for_less(&quote(&self.fs.name)));
        Reason {
            id: "linear_scan".to_owned(),
            sentence,
            commands,
            risk: Some(format!("{risk}. Not when {}", remedy::LINEAR_UNLESS)),
            rule: Some("alloc-linear".to_owned()),
        }
    }

    fn fragmented(&self, sentence: String) -> Reason {
        Reason {
            id: "fragmented".to_owned(),
            sentence,
            commands: vec![remedy::ask_for_less(&quote(&self.fs.name))],
            risk: Some(format!(
                "{}. Not when free space can be made instead: removing files helps at once",
                remedy::ASK_FOR_LESS_RISK
            )),
            rule: None,
        }
    }

    fn stripe_livelock(&self) -> Option<Reason> {
        let c = &self.fs.counts;
        let stripe = u64::from(self.fs.stripe);
        let lists = match self.scan() {
            Scan::Lists => Some(true),
            Scan::Unknown => None,
            _ => Some(false),
        };
        if !remedy::may_livelock(&self.known.kernel, lists, Some(stripe)) || !self.is_felt() {
            return None;
        }
        let about_all = (f64::from(self.fs.groups) / 2.0).max(MANY_GROUPS);
        let looks = if is_hooked(self.snapshot, c) {
            // The same group is proposed, found good, and then has no aligned run.
            let mean = mean_groups(self.snapshot, c)?;
            (mean >= about_all && self.refused_share()? < MOSTLY).then(|| {
                match c.groups.count() {
                    0 => format!(
                        "groups were looked at {} times in {} and no search has come to its end",
                        whole(c.looks()),
                        units::seconds(self.snapshot.interval)
                    ),
                    _ => format!(
                        "{} looks at groups {} times",
                        self.each(),
                        whole(mean.round() as u64)
                    ),
                }
            })?
        } else {
            // 16 bits a search: what wraps is less than there was, never more.
            let mean = c.scanned.checked_div(c.searches)?;
            (mean as f64 >= about_all.min(f64::from(u16::MAX / 4))).then(|| {
                format!(
                    "{} goes through groups {} times or more",
                    self.each(),
                    whole(mean)
                )
            })?
        };
        Some(Reason {
            id: "stripe_livelock".to_owned(),
            sentence: format!(
                "{looks}, there are {}: with stripe={stripe} this kernel ({}, by its version 6.0 to 6.7) tries aligned runs only, and is given the same group again and again",
                whole(u64::from(self.fs.groups)),
                self.known.kernel.release
            ),
            commands: remedy::stripe_off(&self.mount(), &path_of(&self.fs.name)).to_vec(),
            risk: Some(format!(
                "{}. Not when {}",
                remedy::STRIPE_OFF_RISK,
                remedy::STRIPE_OFF_UNLESS
            )),
            rule: Some("alloc-stripe-livelock".to_owned()),
        })
    }

    fn cold_bitmaps(&self) -> Option<Reason> {
        let (c, s) = (&self.fs.counts, self.snapshot);
        if c.reads < READS_ENOUGH || !has(s, READS, true) || !has(s, WAITS, c.waits.count() > 0) {
            return None;
        }
        let waited = at_least_us(&c.waits) as f64 / 1e6;
        let inside = c.nanoseconds as f64 / 1e9;
        if waited / self.seconds < FELT || waited < MOSTLY * inside {
            return None;
        }
        let mut sentence = format!(
            "the allocator waits for block bitmaps: {} read from disk in {}, waits add up to {} or more (p99 {})",
            whole(c.reads),
            units::seconds(s.interval),
            units::latency(Some((waited * 1e6) as u64)),
            units::latency(c.waits.quantile(0.99)),
        );
        sentence.push_str(&self.where_read().unwrap_or_default());
        Some(Reason {
            id: "cold_bitmaps".to_owned(),
            sentence,
            commands: Vec::new(),
            risk: Some(
                "a bitmap is read once after each mount: this passes. From 5.13 on ext4 fetches them ahead, unless no_prefetch_block_bitmaps is among its mount options; 5.9 to 5.12 with prefetch_block_bitmaps only. `raidtrace layout` shows how bitmaps fall on the members".to_owned(),
            ),
            rule: None,
        })
    }

    /// `; loop5 has 97 % of these reads, p99 84ms`
    fn where_read(&self) -> Option<String> {
        let members = &self.fs.members;
        let all = total(members.iter().map(|m| &m.1));
        let (name, n, _, us) = members.iter().max_by_key(|m| m.1).filter(|_| all > 0)?;
        let p99 = units::latency(us.quantile(0.99));
        if members.len() == 1 {
            return Some(format!("; all on {name}, p99 {p99}"));
        }
        let share = *n as f64 / all as f64;
        // Twice its even part, or most of them.
        (share >= MOSTLY).then(|| {
            format!(
                "; {name} has {} of what the members read, p99 {p99}",
                per_cent(share)
            )
        })
    }

    fn contended(&self) -> Option<Reason> {
        let cpu = self.cpu()?;
        let (name, n) = cpu.hottest.as_ref()?;
        let share = *n as f64 / cpu.allocator as f64;
        if !name.contains("spin_lock_slowpath") || share < MOSTLY || !self.is_felt() {
            return None;
        }
        Some(Reason {
            id: "contended".to_owned(),
            sentence: format!(
                "tasks wait for each other in the allocator: {} of its CPU time is in {name}, {:.1} tasks in it at a time",
                per_cent(share),
                tasks_at_once(self.fs, self.seconds)
            ),
            commands: Vec::new(),
            risk: Some("fewer writers at a time, or several filesystems; from 6.17 on the allocator leaves groups out that another task has locked".to_owned()),
            rule: None,
        })
    }

    /// Samples that can be this filesystem's only.
    fn cpu(&self) -> Option<&Cpu> {
        let enough = |c: &&Cpu| c.allocator >= SAMPLES_ENOUGH;
        self.snapshot
            .cpu
            .as_ref()
            .filter(enough)
            .filter(|_| self.has_samples())
    }

    /// Where groups cannot be counted.
    fn by_samples(&self) -> Option<Reason> {
        let (c, s) = (&self.fs.counts, self.snapshot);
        // Where nothing was asked for and nothing came to its end, nobody knows whether there was a request at all.
        if has_groups(s, c) || (c.requests == 0 && c.given == 0) {
            return None;
        }
        let (name, n) = self.cpu()?.hottest.as_ref()?;
        let cpus = allocator_cpus(s)?;
        let hottest = cpus * *n as f64 / self.cpu()?.allocator as f64;
        let goes_through = [
            "ext4_mb_good_group",
            "ext4_mb_find_good_group",
            "ext4_mb_regular_allocator",
            "ext4_mb_scan_group",
            "ext4_mb_choose_next_group",
            "ext4_get_group_info",
        ];
        if cpus < BURNING
            || hottest < 0.3 * cpus
            || cpus * self.seconds < DEAR * c.requests as f64
            || !goes_through.iter().any(|f| name.starts_with(f))
        {
            return None;
        }
        let mut sentence = format!(
            "{} of a CPU in {name}; how many groups it looks at is not known here{}",
            units::percent(hottest.min(1.0)),
            match &self.known.unhooked {
                Some(why) => format!(": {why}"),
                None => String::new(),
            }
        );
        if hottest > 1.0 {
            sentence = sentence.replacen("100 % of a CPU", &format!("{hottest:.1} CPUs"), 1);
        }
        match self.scan() {
            Scan::Unknown => Some(Reason {
                id: "hot".to_owned(),
                sentence,
                ..Reason::default()
            }),
            Scan::Lists => Some(self.fragmented(format!("{sentence}; {}", self.how()))),
            _ => Some(self.linear(format!("{sentence}; {}", self.how()))),
        }
    }
}

#[cfg(test)]
mod tests;
