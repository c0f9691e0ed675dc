//! The longest phase of the operation that held an inode's lock, if that was slow, too.

use std::collections::HashMap;

use super::names::Slow;
use super::phase::Phase;

/// Adds to each wait for an inode's lock in what the holder's own operation spent most of its time, for example throttled.
pub fn explain(operations: &mut [Slow]) {
    let mut by_task: HashMap<u32, Vec<usize>> = HashMap::new();
    for (i, slow) in operations.iter().enumerate() {
        by_task.entry(slow.operation.task.pid).or_default().push(i);
    }
    for i in 0..operations.len() {
        let Some(phase) = longest_of_holder(operations, i, &by_task) else {
            continue;
        };
        let part = operations[i].waterfall.parts.get_mut(&Phase::InodeLock);
        if let Some(what) = part.and_then(|p| p.culprit.what.as_mut()) {
            what.push_str(&format!(", mostly {}", phase.words()));
        }
    }
}

/// The longest phase of the operation on the same file by the task that held the lock during operation `i`.
fn longest_of_holder(
    operations: &[Slow],
    i: usize,
    by_task: &HashMap<u32, Vec<usize>>,
) -> Option<Phase> {
    let waiter = &operations[i].operation;
    let part = operations[i].waterfall.parts.get(&Phase::InodeLock)?;
    let holder = part.culprit.task.as_ref()?;
    let overlap = |j: &usize| {
        let op = &operations[*j].operation;
        let from = op.start_ns.max(waiter.start_ns);
        let until = op.end_ns.min(waiter.end_ns);
        (op.file == waiter.file).then(|| until.saturating_sub(from))
    };
    let held = by_task
        .get(&holder.pid)?
        .iter()
        .filter(|&&j| j != i)
        .filter_map(|j| Some((overlap(j)?, *j)))
        .filter(|(ns, _)| *ns > 0)
        .max()?
        .1;
    let (phase, part) = *operations[held].waterfall.longest().first()?;
    // A holder that waited for the lock itself, or that merely ran, explains nothing.
    let explains = !matches!(phase, Phase::InodeLock | Phase::Other | Phase::Cpu);
    (explains && part.ns * 2 > operations[held].operation.total_ns()).then_some(phase)
}

#[cfg(test)]
mod tests {
    use super::{Phase, explain};
    use crate::analysis::slow::fixture::{MS, fsync, interval, task};
    use crate::analysis::slow::names::Slow;
    use crate::analysis::slow::waterfall::{Culprit, Part, Waterfall};

    /// An operation from `from` to `to` ms with one phase.
    fn slow(pid: u32, (from, to): (u64, u64), phase: Phase, holder: Option<u32>) -> Slow {
        let mut operation = fsync(to, Vec::new());
        operation.start_ns = from * MS;
        operation.task = task("dd", pid);
        let part = Part {
            ns: (to - from) * MS,
            culprit: Culprit {
                task: holder.map(|pid| task("dd", pid)),
                what: holder.map(|_| "buffered write".to_owned()),
                ..Culprit::default()
            },
            stack: None,
        };
        Slow {
            operation,
            waterfall: Waterfall {
                parts: [(phase, part)].into(),
            },
            ..interval().operations[0].clone()
        }
    }

    fn what(all: &[Slow]) -> &str {
        let part = &all[0].waterfall.parts[&Phase::InodeLock];
        part.culprit.what.as_deref().unwrap()
    }

    #[test]
    fn a_wait_names_what_its_holder_waited_for() {
        let mut all = [
            slow(1, (10, 100), Phase::InodeLock, Some(2)),
            slow(2, (0, 95), Phase::Throttled, None),
            slow(2, (95, 105), Phase::OwnData, None),
        ];
        explain(&mut all);
        assert_eq!(
            what(&all),
            "buffered write, mostly throttled because too much is dirty"
        );
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
            explain(&mut all);
            assert_eq!(what(&all), "buffered write");
        }
    }
}
