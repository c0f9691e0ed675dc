//! Finds the reason why the allocator uses CPU time or waits, and a fix. A reason is one sentence
//! with figures from available sources only. A healthy filesystem gets no reason.

mod groups;
mod waits;

use super::figures::{MIN_NOTICEABLE_COST, allocator_cpus, at_least_us, tasks_at_once};
use crate::advice::kernel::Kernel;
use crate::advice::quote::quote;
use crate::analysis::alloc::{AllocSnapshot, Cpu, FsAlloc, Reason};

/// Number of groups considered per second from which on the cost is noticeable, even if no search
/// has ended: at 20 to 100 ns per group, 2 to 10 % of a CPU.
const MIN_GROUP_RATE: f64 = 1e6;
/// Share of the time in the allocator above which waits for bitmaps, or locks, are the reason.
const MIN_REASON_SHARE: f64 = 0.5;
/// Share of the allocator time of all filesystems above which samples are attributed to one
/// filesystem.
const MIN_OWN_SHARE: f64 = 0.9;
/// Minimum number of CPU samples (a fifth of a second at 99 Hz), or of sampled refusals, for a
/// reason.
const MIN_SAMPLES: u64 = 20;
/// Number of criteria that do not use the lists: the last two, on every kernel.
const LATE_CRITERIA: usize = 2;

/// Sets the reason of every filesystem.
pub fn evaluate(snapshot: &mut AllocSnapshot) {
    let each = snapshot.filesystems.iter();
    let found: Vec<Option<Reason>> = each.map(|fs| find(snapshot, fs)).collect();
    for (fs, reason) in snapshot.filesystems.iter_mut().zip(found) {
        fs.reason = reason;
    }
}

/// Finds the reason for `fs`, a filesystem of `snapshot`; `None` if the allocator is not a problem.
pub fn find(snapshot: &AllocSnapshot, fs: &FsAlloc) -> Option<Reason> {
    let case = AllocCase {
        snapshot,
        fs,
        kernel: Kernel { release: fs.known.kernel.clone(), new_allocator: fs.known.new_allocator },
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
        .or_else(|| case.slow_unexplained())
}

/// Method by which a search finds groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// The kernel has no lists.
    NoLists,
    /// The lists are off for this mount.
    Off,
    /// The lists are on, but this kernel does not use them for files with extents (5.13 to 5.17,
    /// according to its version).
    Unused,
    Lists,
    Unknown,
}

struct AllocCase<'a> {
    snapshot: &'a AllocSnapshot,
    fs: &'a FsAlloc,
    kernel: Kernel,
    seconds: f64,
}

impl AllocCase<'_> {
    fn scan(&self) -> Scan {
        let version = self.kernel.version();
        let optimised = self.fs.fragmentation.as_ref().and_then(|f| f.optimised);
        match (self.fs.known.has_lists, optimised) {
            (Some(false), _) => Scan::NoLists,
            (_, Some(false)) => Scan::Off,
            (_, Some(true)) if ((5, 13)..=(5, 17)).contains(&version) => Scan::Unused,
            (_, Some(true)) => Scan::Lists,
            _ => Scan::Unknown,
        }
    }

    /// True if samples can be attributed to this filesystem. Samples include all filesystems,
    /// watched or not.
    fn has_samples(&self) -> bool {
        self.fs.known.alone && self.own_share() >= MIN_OWN_SHARE
    }

    /// This filesystem's share of the allocator time of all watched filesystems. A group considered
    /// counts as 1 ns, because searches that have not ended have no time yet.
    fn own_share(&self) -> f64 {
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

    /// True if the allocator takes a tenth of a CPU, a tenth of a task's time (not counting waits
    /// for bitmaps), or considers [`MIN_GROUP_RATE`] groups per second.
    fn is_noticeable(&self) -> bool {
        let c = &self.fs.counts;
        let cpus = allocator_cpus(self.snapshot).filter(|_| self.has_samples());
        let waited = at_least_us(&c.waits) as f64 / 1e6 / self.seconds;
        cpus.is_some_and(|cpus| cpus * self.own_share() >= MIN_NOTICEABLE_COST)
            || tasks_at_once(self.fs, self.seconds) - waited >= MIN_NOTICEABLE_COST
            || c.looks() as f64 / self.seconds >= MIN_GROUP_RATE
    }

    /// Subject of the sentence: `each allocation` if nearly all allocations search.
    fn each(&self) -> &'static str {
        let c = &self.fs.counts;
        if c.searches.saturating_mul(10) >= c.requests.saturating_mul(9) {
            "each allocation"
        } else {
            "each search for free blocks"
        }
    }

    fn mount(&self) -> String {
        self.fs.mount.as_deref().map_or("MOUNTPOINT".to_owned(), quote)
    }

    /// CPU samples, if there are enough and all can be attributed to this filesystem.
    fn cpu(&self) -> Option<&Cpu> {
        let enough = |c: &&Cpu| c.allocator >= MIN_SAMPLES;
        self.snapshot.cpu.as_ref().filter(enough).filter(|_| self.has_samples())
    }
}

#[cfg(test)]
mod tests;
