//! Figures by cgroup (container, pod, unit): bytes that its tasks submitted and dirtied, the time
//! that they waited, by cause, and the cgroups that made them wait.
//!
//! Each figure of an interval is in exactly one cgroup, so that the sums of all cgroups are those
//! of all tasks. [`OTHER`] has the cgroups that are not kept, [`UNKNOWN`] the tasks without a known
//! one. A path begins with `/`, so that no cgroup has these names.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use crate::analysis::cube::{Amount as _, Cube, amount};
use crate::analysis::snapshot::{ArraySnapshot, Snapshot, TaskSnapshot};
use crate::analysis::verdict::{CauseKind, Verdict};
use crate::origin::{Op, Origin};
use crate::ui::text::clean;

/// Number of cgroups that are kept unless the command line says otherwise.
pub const DEFAULT_MAX: &str = "50";
/// Time after which a member or an array that has disappeared, or an idle series of tasks, is
/// forgotten, and an idle cgroup is added to [`OTHER`].
pub const RETENTION: Duration = Duration::from_secs(3600);
/// Name of the task or cgroup with the sums of those that were folded.
pub const OTHER: &str = "other";
/// Name of the cgroup of tasks whose cgroup is not known.
pub const UNKNOWN: &str = "unknown";
/// Kinds of dirtied bytes.
pub const DIRTIED: [&str; 2] = ["data", "metadata"];

/// Figures of a cgroup on one array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupFigures {
    /// Bytes of bios that its tasks submitted to the array.
    pub submitted: Cube<Op, u64>,
    /// Bytes that its tasks dirtied, by index in [`DIRTIED`]: they, writeback or jbd2 write them
    /// later.
    pub dirtied: [u64; DIRTIED.len()],
    /// Time that its tasks were asleep in the kernel, µs, by the cause in the array's verdict of
    /// the same second. Times of tasks that sleep side by side add up.
    pub waiting_us: Cube<CauseKind, u64>,
    /// The part of that in which the verdict names a load, by the cgroup of the load's tasks.
    pub made_wait_us: Cube<String, u64>,
}

/// Array and cgroup.
pub type CgroupKey = (String, String);

/// Figures of an interval.
pub type CgroupInterval = Cube<CgroupKey, CgroupFigures>;

amount!(CgroupFigures { submitted, dirtied, waiting_us, made_wait_us });

impl CgroupFigures {
    /// Order of cgroups: bytes, and microseconds of waiting.
    fn size(&self) -> u64 {
        let parts = self.submitted.values().chain(&self.dirtied).chain(self.waiting_us.values());
        parts.fold(0, |sum, more| sum.saturating_add(*more))
    }
}

/// Figures of an interval by array and cgroup. `window` covers the last seconds up to its end: the
/// task that the verdict names may have submitted nothing in the interval itself.
pub fn figures(snapshot: &Snapshot, window: &Snapshot) -> CgroupInterval {
    let mut all = CgroupInterval::default();
    for array in &snapshot.arrays {
        let key = |cgroup: Option<&str>| (array.info.name.clone(), name(cgroup));
        for task in &array.tasks {
            let sums = all.sum_mut(key(task.cgroup.as_deref()));
            task.io.iter().for_each(|io| sums.submitted.add(io.op, &io.bytes));
            for io in &task.dirtied {
                sums.dirtied[usize::from(io.origin != Origin::FileData)].add(&io.bytes);
            }
        }
        let kind = array.verdict.as_ref().map_or(CauseKind::None, |verdict| verdict.cause.kind);
        let over = window.arrays.iter().find(|a| a.info.name == array.info.name);
        let culprits =
            array.verdict.as_ref().zip(over).map(|(verdict, over)| culprits(verdict, over));
        let slept = array.around.iter().flat_map(|around| &around.slept_us);
        for (cgroup, us) in slept {
            let sums = all.sum_mut(key(cgroup.as_deref()));
            sums.waiting_us.add(kind, us);
            for (by, part) in shares(*us, culprits.iter().flatten()) {
                sums.made_wait_us.add(by, &part);
            }
        }
    }
    all
}

/// Name of a cgroup in figures, which is safe on a terminal: users choose paths.
fn name(cgroup: Option<&str>) -> String {
    cgroup.map_or_else(|| UNKNOWN.to_owned(), |path| clean(path).into_owned())
}

/// Bytes of the tasks that `verdict` names as the load, by their cgroup; empty if it names none.
/// Writeback and jbd2 work for others, which are not known then.
fn culprits(verdict: &Verdict, over: &ArraySnapshot) -> Cube<String, u64> {
    let is_named = |task: &&TaskSnapshot| {
        (task.role.is_none() || task.is_throttled())
            && String::from_utf8_lossy(&task.comm) == verdict.cause.name
    };
    let is_load = verdict.cause.kind == CauseKind::Load;
    let named = over.tasks.iter().filter(|_| is_load).filter(is_named);
    named.map(|task| (name(task.cgroup.as_deref()), task.size().0)).collect()
}

/// Divides `us` in proportion to `work`. The parts add up to `us` exactly.
fn shares<'a>(
    us: u64,
    work: impl Iterator<Item = (&'a String, &'a u64)> + Clone,
) -> Vec<(String, u64)> {
    let all: u128 = work.clone().map(|(_, bytes)| u128::from(*bytes)).sum();
    let upto = |done: u128| (u128::from(us) * done / all.max(1)) as u64;
    let mut done = 0;
    let each = work.map(|(by, bytes)| {
        let before = upto(done);
        done += u128::from(*bytes);
        (by.clone(), upto(done) - before)
    });
    each.collect()
}

/// Sums of cgroups.
#[derive(Clone, Debug, Default)]
pub struct CgroupTotals {
    pub sums: CgroupInterval,
    /// Kept cgroups, and the time since each last had a figure, or made one wait.
    idle: BTreeMap<String, Duration>,
}

impl CgroupTotals {
    /// Adds an interval of length `over`. Then adds cgroups that have had no figure for
    /// [`RETENTION`], and those that exceed `max`, to [`OTHER`]: the smallest of those that have
    /// been idle longest in powers of two. Returns how many exceeded `max`.
    pub fn add(&mut self, interval: CgroupInterval, over: Duration, max: usize) -> u64 {
        for idle in self.idle.values_mut() {
            idle.add(&over);
        }
        for (key, figures) in interval {
            if !figures.is_zero() {
                for name in figures.made_wait_us.keys().chain([&key.1]) {
                    self.idle.insert(name.clone(), Duration::ZERO);
                }
                self.sums.add(key, &figures);
            }
        }
        self.idle.retain(|name, idle| *idle < RETENTION && name != UNKNOWN && name != OTHER);
        let excess = self.idle.len().saturating_sub(max);
        if excess > 0 {
            let mut sizes = Cube::<&str, u64>::default();
            for ((_, name), figures) in &self.sums {
                sizes.add(name, &figures.size());
                figures.made_wait_us.iter().for_each(|(by, us)| sizes.add(by, us));
            }
            let mut order: Vec<(u32, u64, &String)> = self
                .idle
                .iter()
                .map(|(name, idle)| ((idle.as_secs() + 1).ilog2(), sizes.sum(&name.as_str()), name))
                .collect();
            order.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
            let gone: BTreeSet<String> =
                order.into_iter().take(excess).map(|(.., name)| name.clone()).collect();
            self.idle.retain(|name, _| !gone.contains(name));
        }
        let kept = |name: &String| match self.idle.contains_key(name) || name == UNKNOWN {
            true => name.clone(),
            false => OTHER.to_owned(),
        };
        let folded = mem::take(&mut self.sums).into_iter().map(|((array, cgroup), mut figures)| {
            figures.made_wait_us = figures.made_wait_us.group_by(|by| Some(kept(by)));
            ((array, kept(&cgroup)), figures)
        });
        self.sums = folded.collect();
        excess as u64
    }

    /// Removes the sums of other arrays than those that `is_kept` accepts.
    pub fn retain_arrays(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.sums.retain(|(array, _), _| is_kept(array));
    }
}

#[cfg(test)]
mod tests;
