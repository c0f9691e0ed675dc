//! Slow operations since the start, for the screen.

use super::snapshot::SlowSnapshot;
use crate::analysis::cube::Amount as _;

/// Maximum number of operations kept. The longest are kept.
const MAX_OPERATIONS: usize = 1000;
/// Maximum number of commits kept. The newest are kept.
const MAX_COMMITS: usize = 500;

/// Adds an interval to the sum of all earlier intervals.
pub fn add(sum: &mut SlowSnapshot, next: &SlowSnapshot) {
    sum.time = next.time;
    sum.clock_ns = next.clock_ns;
    sum.interval += next.interval;
    sum.threshold = next.threshold;
    sum.operations.extend(next.operations.iter().cloned());
    sum.operations.sort_by_key(|s| std::cmp::Reverse(s.operation.total_ns()));
    sum.operations.truncate(MAX_OPERATIONS);
    sum.unended.clone_from(&next.unended);
    sum.unended_count = next.unended_count;
    sum.kinds.merge(&next.kinds);
    for found in &next.advice {
        if !sum.advice.iter().any(|f| f.advice == found.advice) {
            sum.advice.push(found.clone());
        }
    }
    sum.commits.extend(next.commits.iter().cloned());
    let old = sum.commits.len().saturating_sub(MAX_COMMITS);
    sum.commits.drain(..old);
    sum.names.devices.extend(next.names.devices.clone());
    sum.names.members.clone_from(&next.names.members);
    sum.names.files.extend(next.names.files.clone());
    sum.lost.slots += next.lost.slots;
    sum.lost.tables += next.lost.tables;
    sum.lost.events += next.lost.events;
    sum.lost.missed += next.lost.missed;
    sum.lost.ios += next.lost.ios;
    sum.overhead.add(&next.overhead);
    sum.notes.clone_from(&next.notes);
    // Drop paths of files that no longer appear.
    let sum_of = &*sum;
    let all = sum_of.unended.iter().chain(&sum_of.operations);
    let own = all.filter_map(|s| s.operation.file);
    let ordered = sum_of.commits.iter().flat_map(|c| c.ordered.iter().map(|o| o.file));
    let used: std::collections::HashSet<_> = own.chain(ordered).collect();
    sum.names.files.retain(|id, _| used.contains(id));
}
