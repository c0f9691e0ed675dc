//! Sums of slow operations: by file, task, phase and lock.

use std::collections::HashMap;
use std::hash::Hash;

use super::names::{Names, SlowOperation, task};
use super::phase::Phase;
use super::sentence::part_words;
use super::snapshot::SlowSnapshot;
use crate::analysis::files::FileId;

/// Operations, or phases of operations, with a common property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationGroup {
    /// The common property, printable.
    pub name: String,
    /// Number of operations.
    pub count: u64,
    /// Time in ns.
    pub ns: u64,
    /// Time of the longest operation or phase in ns.
    pub longest_ns: u64,
    /// The longest phase with its cause. In a group of phases, only the cause of the longest
    /// phase; empty if it is unknown.
    pub words: String,
}

impl OperationGroup {
    /// Adds an operation, or a phase of one, of `ns`. `words` describe it if it is the longest; the
    /// first of equals.
    fn add(&mut self, ns: u64, words: impl FnOnce() -> String) {
        self.count += 1;
        self.ns += ns;
        if ns > self.longest_ns {
            self.longest_ns = ns;
            self.words = words();
        }
    }
}

fn group<K: Eq + Hash>(
    snapshot: &SlowSnapshot,
    key: impl Fn(&SlowOperation) -> Option<K>,
    name: impl Fn(&K, &Names) -> String,
) -> Vec<OperationGroup> {
    let mut sums: HashMap<K, (OperationGroup, HashMap<Phase, OperationGroup>)> = HashMap::new();
    for slow in &snapshot.operations {
        let Some(key) = key(slow) else { continue };
        let (group, phases) = sums.entry(key).or_default();
        group.add(slow.operation.total_ns(), String::new);
        for (phase, part) in &slow.waterfall.parts {
            let words = || part_words(*phase, part, slow, &snapshot.names);
            phases.entry(*phase).or_default().add(part.ns, words);
        }
    }
    let groups = sums.into_iter().map(|(key, (group, phases))| {
        let largest = phases.into_iter().max_by_key(|(phase, sum)| (sum.ns, *phase));
        OperationGroup {
            name: name(&key, &snapshot.names),
            words: largest.map(|(_, sum)| sum.words).unwrap_or_default(),
            ..group
        }
    });
    sorted(groups.collect())
}

fn sorted(mut groups: Vec<OperationGroup>) -> Vec<OperationGroup> {
    groups.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    groups
}

pub fn files(snapshot: &SlowSnapshot) -> Vec<OperationGroup> {
    let key = |slow: &SlowOperation| slow.operation.file;
    group(snapshot, key, |file: &FileId, names| names.file(file))
}

/// Groups by thread.
pub fn tasks(snapshot: &SlowSnapshot) -> Vec<OperationGroup> {
    let key = |slow: &SlowOperation| Some(slow.operation.task.clone());
    group(snapshot, key, |by, _| task(by))
}

/// Groups by phase. A group's time is the time of the phase.
pub fn phases(snapshot: &SlowSnapshot) -> Vec<OperationGroup> {
    let mut groups: HashMap<Phase, OperationGroup> = HashMap::new();
    for slow in &snapshot.operations {
        for (phase, part) in &slow.waterfall.parts {
            let group = groups.entry(*phase).or_default();
            group.name = phase.words().to_owned();
            group.add(part.ns, || {
                let words = part_words(*phase, part, slow, &snapshot.names);
                // The group's name is already the name of the phase.
                let cause = words.strip_prefix(phase.words()).unwrap_or(&words);
                cause.trim_start_matches([',', ' ']).to_owned()
            });
        }
    }
    sorted(groups.into_values().collect())
}

/// Groups by locked inode and by the task that held the lock. A group's time is the time of the
/// waits.
pub fn locks(snapshot: &SlowSnapshot) -> Vec<OperationGroup> {
    let mut groups: HashMap<(FileId, String), OperationGroup> = HashMap::new();
    for slow in &snapshot.operations {
        let (Some(file), Some(part)) =
            (slow.operation.file, slow.waterfall.parts.get(&Phase::InodeLock))
        else {
            continue;
        };
        let holder = part.culprit.task.as_ref().map_or_else(|| "unknown".to_owned(), task);
        let group = groups.entry((file, holder.clone())).or_default();
        group.name = snapshot.names.file(&file);
        group.add(part.ns, || match &part.culprit.what {
            Some(what) => format!("{holder}: {what}"),
            None => holder,
        });
    }
    sorted(groups.into_values().collect())
}
