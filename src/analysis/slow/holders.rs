//! Explains a wait for an inode's lock by the longest phase of the holder's operation, if that
//! operation was slow, too.

use std::collections::HashMap;

use super::event::Operation;
use super::names::SlowOperation;
use super::phase::Phase;
use crate::analysis::files::FileId;

/// Operations of the last interval. A holder's operation ends before the operation that waited for
/// the lock, which may end in the next interval.
#[derive(Debug, Default)]
pub struct Holders(Vec<HolderCandidate>);

/// An operation that may have held its file's lock.
#[derive(Clone, Copy, Debug)]
struct HolderCandidate {
    pid: u32,
    file: Option<FileId>,
    start_ns: u64,
    end_ns: u64,
    /// Phase that took most of the operation's time, if it explains why the operation held the
    /// lock for so long.
    mostly: Option<Phase>,
}

impl HolderCandidate {
    fn new(slow: &SlowOperation) -> Self {
        let op = &slow.operation;
        let longest = slow.waterfall.longest();
        let mostly = longest.first().and_then(|&(phase, part)| {
            // A holder that waited for the lock itself, or that merely ran, explains nothing.
            let explains = !matches!(phase, Phase::InodeLock | Phase::Other | Phase::Cpu);
            (explains && part.ns * 2 > op.total_ns()).then_some(phase)
        });
        HolderCandidate {
            pid: op.task.pid,
            file: op.file,
            start_ns: op.start_ns,
            end_ns: op.end_ns,
            mostly,
        }
    }

    /// Time in ns during which both operations ran.
    fn overlap(&self, other: &Operation) -> u64 {
        let from = self.start_ns.max(other.start_ns);
        self.end_ns.min(other.end_ns).saturating_sub(from)
    }
}

impl Holders {
    /// Adds, to each wait for an inode's lock, the phase that took most of the time of the holder's
    /// own operation, for example throttling. `operations` are those that ended in the next
    /// interval.
    pub fn explain(&mut self, operations: &mut [SlowOperation]) {
        let now: Vec<HolderCandidate> = operations.iter().map(HolderCandidate::new).collect();
        let mut by_task: HashMap<u32, Vec<HolderCandidate>> = HashMap::new();
        for held in self.0.iter().chain(&now) {
            by_task.entry(held.pid).or_default().push(*held);
        }
        self.0 = now;
        for slow in operations {
            let waiter = &slow.operation;
            let Some(part) = slow.waterfall.parts.get_mut(&Phase::InodeLock) else {
                continue;
            };
            let Some(holder) = part.culprit.task.as_ref().filter(|t| t.pid != waiter.task.pid)
            else {
                continue;
            };
            let all = by_task.get(&holder.pid).map_or(&[][..], Vec::as_slice);
            let on_file = all.iter().filter(|h| h.file == waiter.file);
            let held = on_file
                .map(|h| (h.overlap(waiter), h))
                .filter(|(ns, _)| *ns > 0)
                .max_by_key(|(ns, _)| *ns);
            let mostly = held.and_then(|(_, h)| h.mostly);
            if let (Some(phase), Some(what)) = (mostly, &mut part.culprit.what) {
                what.push_str(&format!(", mostly {}", phase.words()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Holders, Phase};
    use crate::analysis::slow::fixture::{MS, fsync, interval, task};
    use crate::analysis::slow::names::SlowOperation;
    use crate::analysis::slow::waterfall::{Culprit, PhaseTime, Waterfall};

    /// An operation from `from` to `to` ms with one phase.
    fn slow(pid: u32, (from, to): (u64, u64), phase: Phase, holder: Option<u32>) -> SlowOperation {
        let mut operation = fsync(to, Vec::new());
        operation.start_ns = from * MS;
        operation.task = task("dd", pid);
        let part = PhaseTime {
            ns: (to - from) * MS,
            culprit: Culprit {
                task: holder.map(|pid| task("dd", pid)),
                what: holder.map(|_| "buffered write".to_owned()),
                ..Culprit::default()
            },
            stack: None,
        };
        SlowOperation {
            operation,
            waterfall: Waterfall { parts: [(phase, part)].into() },
            ..interval().operations[0].clone()
        }
    }

    fn what(all: &[SlowOperation]) -> &str {
        let part = &all[0].waterfall.parts[&Phase::InodeLock];
        part.culprit.what.as_deref().unwrap()
    }

    #[test]
    fn a_lock_wait_names_the_longest_phase_of_its_holder() {
        let mut all = [
            slow(1, (10, 100), Phase::InodeLock, Some(2)),
            slow(2, (0, 95), Phase::Throttled, None),
            slow(2, (95, 105), Phase::OwnData, None),
        ];
        Holders::default().explain(&mut all);
        assert_eq!(what(&all), "buffered write, mostly throttled because too much is dirty");
    }

    /// An interval ends between the end of the holder's operation and the end of the waiter's
    /// operation.
    #[test]
    fn the_holder_may_have_ended_in_the_previous_interval() {
        let mut holders = Holders::default();
        holders.explain(&mut [slow(2, (0, 95), Phase::Throttled, None)]);
        let waiter = slow(1, (10, 100), Phase::InodeLock, Some(2));
        let mut next = [waiter.clone()];
        holders.explain(&mut next);
        assert!(what(&next).contains(", mostly throttled"));
        // Two intervals later the holder has been dropped.
        let mut last = [waiter];
        holders.explain(&mut last);
        assert_eq!(what(&last), "buffered write");
    }

    #[test]
    fn operations_at_other_times_or_of_other_files_explain_nothing() {
        let waiter = slow(1, (10, 100), Phase::InodeLock, Some(2));
        let mut other = slow(2, (0, 95), Phase::Throttled, None);
        other.operation.file = None;
        for holder in [
            slow(2, (100, 200), Phase::Throttled, None),
            slow(2, (0, 95), Phase::Cpu, None),
            slow(3, (0, 95), Phase::Throttled, None),
            other,
        ] {
            let mut all = [waiter.clone(), holder];
            Holders::default().explain(&mut all);
            assert_eq!(what(&all), "buffered write");
        }
    }
}
