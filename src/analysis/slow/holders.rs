//! What the task did that held an inode's lock, if its operation was slow, too.

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
