//! Reasons for waits in the allocator: bitmap reads, locks, and waits that no figure explains.

use super::{AllocCase, MIN_NOTICEABLE_COST, MIN_REASON_SHARE};
use crate::advice::quote::quote;
use crate::analysis::alloc::Reason;
use crate::analysis::alloc::figures::{
    GROUPS, READS, WAITS, allocator_cpus, at_least_us, has, has_groups, is_slow, mean_groups,
    per_cent, tasks_at_once, total, whole,
};
use crate::analysis::units;

/// Minimum number of bitmap reads for a reason, unless tasks wait for long.
const MIN_READS: u64 = 8;

impl AllocCase<'_> {
    pub(super) fn cold_bitmaps(&self) -> Option<Reason> {
        let (c, s) = (&self.fs.counts, self.snapshot);
        // Tasks may still wait for reads that were submitted in the previous interval.
        let slow = is_slow(self.fs, self.seconds);
        if !(c.reads >= MIN_READS || slow)
            || !has(s, READS, true)
            || !has(s, WAITS, c.waits.count() > 0)
        {
            return None;
        }
        let waited = at_least_us(&c.waits) as f64 / 1e6;
        let inside = c.nanoseconds as f64 / 1e9;
        // The waits are lower bounds: if the allocator's time is noticeable, their share decides.
        // Searches that have not ended have no time yet.
        let cost = waited.max(inside) / self.seconds;
        if cost < MIN_NOTICEABLE_COST || waited < MIN_REASON_SHARE * inside {
            return None;
        }
        let mut sentence = format!(
            "the allocator waits for block bitmaps: {} read from disk in {}, waits add up to {} \
             or more (p99 {})",
            whole(c.reads),
            units::seconds(s.interval),
            units::latency(Some((waited * 1e6) as u64)),
            units::latency(c.waits.quantile(0.99)),
        );
        sentence.push_str(&self.where_read().unwrap_or_default());
        Some(Reason {
            id: "cold_bitmaps".to_owned(),
            sentence,
            risk: Some(
                "a bitmap is read once after each mount, unless memory pressure evicts it: this \
                 passes. From 5.13 on ext4 fetches them ahead, unless no_prefetch_block_bitmaps \
                 is among its mount options; 5.9 to 5.12 with prefetch_block_bitmaps only. \
                 `raidtrace layout` shows which members hold the bitmaps"
                    .to_owned(),
            ),
            ..Reason::default()
        })
    }

    /// Member with most of the bitmap reads: `; loop5 serves 97 % of these reads, p99 84ms`
    fn where_read(&self) -> Option<String> {
        let members = &self.fs.members;
        let all = total(members.iter().map(|m| &m.1));
        let (name, n, _, us) = members.iter().max_by_key(|m| m.1).filter(|_| all > 0)?;
        let p99 = units::latency(us.quantile(0.99));
        if members.len() == 1 {
            return Some(format!("; all on {name}, p99 {p99}"));
        }
        let share = *n as f64 / all as f64;
        // Name a member only if it has most of the reads.
        (share >= MIN_REASON_SHARE)
            .then(|| format!("; {name} serves {} of these reads, p99 {p99}", per_cent(share)))
    }

    pub(super) fn contended(&self) -> Option<Reason> {
        let cpu = self.cpu()?;
        let (name, n) = cpu.hottest.as_ref()?;
        let share = *n as f64 / cpu.allocator as f64;
        if !name.contains("spin_lock_slowpath") || share < MIN_REASON_SHARE || !self.is_noticeable()
        {
            return None;
        }
        Some(Reason {
            id: "contended".to_owned(),
            sentence: format!(
                "tasks wait for each other in the allocator: {} of its CPU time is in {name}, on \
                 average {:.1} tasks are in it",
                per_cent(share),
                tasks_at_once(self.fs, self.seconds)
            ),
            risk: Some(
                "use fewer concurrent writers, or several filesystems; since 6.17 the allocator \
                 skips groups that another task has locked"
                    .to_owned(),
            ),
            ..Reason::default()
        })
    }

    /// Reason for waits in the allocator that no figure explains.
    pub(super) fn slow_unexplained(&self) -> Option<Reason> {
        let (c, s) = (&self.fs.counts, self.snapshot);
        if !is_slow(self.fs, self.seconds) {
            return None;
        }
        let mut seen = Vec::new();
        let mut missing = Vec::new();
        match mean_groups(s, c) {
            Some(mean) => {
                seen.push(format!("a search considers {} groups", whole(mean.round() as u64)))
            }
            None if has_groups(s, c) || has(s, GROUPS, false) => {}
            None => missing.push("groups considered"),
        }
        if has(s, WAITS, c.waits.count() > 0) {
            let waited = at_least_us(&c.waits) as f64 / 1e6;
            let share = waited / (c.nanoseconds as f64 / 1e9).max(f64::MIN_POSITIVE);
            seen.push(format!("{} of that time is waiting for bitmaps", per_cent(share)));
        } else {
            missing.push("waits for bitmaps");
        }
        let tasks = tasks_at_once(self.fs, self.seconds);
        let hottest = s.cpu.as_ref().and_then(|cpu| cpu.hottest.as_ref());
        match (allocator_cpus(s), hottest) {
            (None, _) => missing.push("samples of the CPUs"),
            (Some(cpus), hottest) => {
                let of = if self.has_samples() { "" } else { " of all ext4 filesystems" };
                seen.push(match hottest {
                    Some((name, _)) => {
                        format!("{cpus:.2} CPUs{of} are in the allocator, most in {name}")
                    }
                    None => format!("no CPU{of} is in the allocator"),
                });
                if self.has_samples() && cpus < tasks * MIN_REASON_SHARE {
                    missing.push("what tasks sleep on (locks, memory, other disk reads)");
                }
            }
        }
        let mut sentence = format!(
            "on average {tasks:.1} tasks are in the allocator (latency p50 {}, p99 {}), and no \
             figure explains it",
            units::latency(c.latency.quantile(0.5)),
            units::latency(c.latency.quantile(0.99)),
        );
        if tasks < MIN_NOTICEABLE_COST {
            sentence = format!(
                "{} searches for free blocks are in progress, the longest for {}, and no figure \
                 explains it",
                whole(self.fs.searching.tasks),
                units::latency(Some(self.fs.searching.longest_us)),
            );
        }
        sentence.push_str(&format!(": {}", seen.join(", ")));
        if !missing.is_empty() {
            sentence.push_str(&format!("; not known: {}", missing.join(", ")));
        }
        let target = self.fs.mount.as_deref().unwrap_or(&self.fs.name);
        Some(Reason {
            id: "slow_unexplained".to_owned(),
            sentence,
            risk: Some(format!(
                "raidtrace alloc --duration 30s --flame FILE.html {} shows the stacks of the \
                 allocator",
                quote(target)
            )),
            ..Reason::default()
        })
    }
}
