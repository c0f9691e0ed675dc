//! Makes rows of a recording from the counters of dirtied data. Pure.

use std::collections::HashMap;

use crate::analysis::counters::{Counters, TaskId};
use crate::analysis::item::{Dirtied, Item};
use crate::origin::Origin;

/// The programs count file data twice: by task, and by task and file. One of the two counts may
/// arrive one reading late. Rows use the counts by task and file. If the count by task still
/// exceeds the sum of the task's counts by file after two readings, the table of files was full,
/// and the difference gets a row without a file.
#[derive(Debug, Default)]
pub struct DirtiedRows {
    /// Bytes of a task minus the bytes of its files, unless 0.
    missing: HashMap<TaskId, i64>,
}

impl DirtiedRows {
    /// Rows of a reading. `last` is true if no reading follows that could add missing counts.
    pub fn step(&mut self, counters: &Counters, time_us: i64, last: bool) -> Vec<Item> {
        let mut rows = Vec::new();
        let mut now: HashMap<TaskId, i64> = HashMap::new();
        for (key, sum) in &counters.dirtied {
            if key.origin == Origin::FileData {
                let missing = now.entry(key.id()).or_default();
                *missing = missing.saturating_add_unsigned(sum.bytes);
            } else {
                let row = row(key.id(), key.origin, time_us);
                push(&mut rows, row, sum.bytes);
            }
        }
        for (key, sum) in &counters.dirtied_files {
            let mut row = row(key.task(), Origin::FileData, time_us);
            row.file = Some(key.file);
            push(&mut rows, row, sum.bytes);
            let missing = now.entry(key.task()).or_default();
            *missing = missing.saturating_sub_unsigned(sum.bytes);
        }
        let before = std::mem::take(&mut self.missing);
        for task in before.keys() {
            now.entry(*task).or_default();
        }
        for (task, new) in now {
            let was = before.get(&task).copied().unwrap_or(0);
            let mut missing = was.saturating_add(new);
            let lost = if last { missing } else { was.min(missing) };
            if lost > 0 {
                push(&mut rows, row(task, Origin::FileData, time_us), lost.unsigned_abs());
                missing -= lost;
            }
            // Negative and unchanged since the last reading: the table of tasks was full, so the
            // count by task will not arrive.
            let task_count_lost = missing < 0 && was == missing;
            if missing != 0 && !task_count_lost {
                self.missing.insert(task, missing);
            }
        }
        rows
    }
}

fn row(TaskId { array, pid }: TaskId, origin: Origin, time_us: i64) -> Dirtied {
    Dirtied { time_us, array, origin, bytes: 0, pid, file: None }
}

/// Rows of at most 4 GiB each.
fn push(rows: &mut Vec<Item>, row: Dirtied, mut bytes: u64) {
    while bytes > 0 {
        let part = u32::try_from(bytes).unwrap_or(u32::MAX);
        rows.push(Item::Dirtied(Dirtied { bytes: part, ..row }));
        bytes -= u64::from(part);
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Dirtied, DirtiedRows, Item, Origin, TaskId};
    use crate::analysis::counters::{DirtyKey, TaskCounters, TaskKey};
    use crate::analysis::files::FileId;
    use crate::origin::Op;

    fn counters(metadata: u64, data: u64, files: &[(u64, u64)]) -> Counters {
        let sum = |bytes| TaskCounters { bios: 1, bytes };
        let key = |origin| TaskKey { array: 0, pid: 7, origin, op: Op::Write };
        let mut counters = Counters::default();
        for (origin, bytes) in [(Origin::Unknown, metadata), (Origin::FileData, data)] {
            counters.dirtied.insert(key(origin), sum(bytes));
        }
        for &(inode, bytes) in files {
            let file = FileId { inode, ..FileId::default() };
            let key = DirtyKey { array: 0, pid: 7, file };
            counters.dirtied_files.insert(key, sum(bytes));
        }
        counters
    }

    /// Inode and bytes of each row. Inode 0 is a row without a file, inode 1 is metadata.
    fn step(rows: &mut DirtiedRows, counters: &Counters, last: bool) -> Vec<(u64, u32)> {
        let mut rows: Vec<_> = rows
            .step(counters, 5, last)
            .iter()
            .map(|item| match item {
                Item::Dirtied(d @ Dirtied { time_us: 5, pid: 7, .. }) => {
                    let inode = d.file.map_or(0, |f| f.inode);
                    (inode + u64::from(d.origin == Origin::Unknown), d.bytes)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn late_counts_are_reported_once() {
        let mut rows = DirtiedRows::default();
        let first = counters(4096, 300, &[(12, 100), (13, 200)]);
        assert_eq!(step(&mut rows, &first, false), [(1, 4096), (12, 100), (13, 200)]);
        // Counted by file first and by task later, and the other way round.
        assert_eq!(step(&mut rows, &counters(0, 0, &[(12, 50)]), false), [(12, 50)]);
        assert_eq!(step(&mut rows, &counters(0, 50, &[]), false), []);
        assert_eq!(step(&mut rows, &counters(0, 60, &[]), false), []);
        assert_eq!(step(&mut rows, &counters(0, 0, &[(12, 60)]), false), [(12, 60)]);
        assert!(rows.missing.is_empty());
    }

    #[test]
    fn bytes_lost_by_the_file_table_get_a_row_without_a_file() {
        let mut rows = DirtiedRows::default();
        assert_eq!(step(&mut rows, &counters(0, 300, &[(12, 100)]), false), [(12, 100)]);
        assert_eq!(step(&mut rows, &counters(0, 0, &[]), false), [(0, 200)]);
        assert_eq!(step(&mut rows, &counters(0, 80, &[]), true), [(0, 80)]);
        assert!(rows.missing.is_empty());
        // A count by file without a matching count by task is reported once and is not kept
        // forever.
        step(&mut rows, &counters(0, 0, &[(12, 100)]), false);
        step(&mut rows, &Counters::default(), false);
        assert!(rows.missing.is_empty());
    }

    #[test]
    fn rows_are_split_at_4_gib() {
        let mut rows = DirtiedRows::default();
        let many = counters(0, 1 << 33, &[(12, 1 << 33)]);
        let rows = step(&mut rows, &many, true);
        assert_eq!(rows.iter().map(|r| u64::from(r.1)).sum::<u64>(), 1 << 33);
        assert!(rows.iter().all(|r| r.0 == 12));
    }

    #[test]
    fn tasks_are_separate_per_array() {
        let mut rows = DirtiedRows::default();
        rows.missing.insert(TaskId { array: 1, pid: 7 }, 10);
        assert_eq!(step(&mut rows, &counters(0, 5, &[]), false), [(0, 10)]);
    }
}
