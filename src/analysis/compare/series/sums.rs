//! Sums of one interval.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::compare::fine::{Sparse, merge};
use crate::analysis::counters::{CostCounters, TaskCounters};
use crate::analysis::events::{DiskSum, NameLookup};
use crate::analysis::files::FileId;
use crate::analysis::fold::TaskInfo;
use crate::analysis::slow::event::Kind;
use crate::analysis::slow::snapshot::KindSum;
use crate::origin::{Op, Origin};
use crate::printable::sanitize;

/// Requests of one member, origin and operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Requests completed.
    pub requests: u64,
    /// Bytes completed.
    pub bytes: u64,
    /// Times from issue to completion.
    pub device: Sparse,
}

/// A task or file, by a name that is the same in different recordings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// Name of a task, without its pid; untrusted, printable.
    Task(String),
    /// Path of a file; untrusted, printable.
    File(String),
}

#[derive(Debug, Default)]
pub struct Interval {
    /// Start, µs since 1970.
    pub from_us: i64,
    /// End.
    pub to_us: i64,
    /// Disk figures by member number.
    pub disks: Vec<DiskSum>,
    /// Requests by member number, origin and operation.
    pub cells: BTreeMap<(u32, Origin, Op), Cell>,
    /// Bios submitted, by array number, origin and operation.
    pub submitted: BTreeMap<(u32, Origin, Op), TaskCounters>,
    /// Bios submitted, by array number and name. The bytes are those of reads and writes.
    pub names: BTreeMap<(u32, Name), TaskCounters>,
    /// Parity written, and blocks read to compute it, by array number and the origin of the writes
    /// that caused it.
    pub costs: BTreeMap<(u32, Origin), CostCounters>,
    /// Operations on files by kind, slow or not.
    pub slow: BTreeMap<Kind, KindSum>,
    pub(super) tasks: Vec<((u32, Option<u32>), TaskCounters)>,
    pub(super) files: Vec<((u32, Option<FileId>), TaskCounters)>,
    pub(super) lost: bool,
    /// True if `state` rows are missing, over 10 s between two.
    pub(super) gap: bool,
}

impl Interval {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_us.saturating_sub(self.from_us).max(0) as f64 / 1e6
    }

    /// Approximate number of table entries of 40 bytes: a cell takes two, and one for four buckets.
    pub(super) fn entries(&self) -> usize {
        let buckets = self.cells.values().map(|c| c.device.len() / 4 + 2);
        let slow = self.slow.len();
        buckets.sum::<usize>() + self.submitted.len() + self.tasks.len() + self.files.len() + slow
    }

    pub(super) fn join(&mut self, next: Self) {
        self.to_us = next.to_us;
        self.lost |= next.lost;
        self.gap |= next.gap;
        for (key, more) in next.cells {
            let cell = self.cells.entry(key).or_default();
            cell.requests = cell.requests.saturating_add(more.requests);
            cell.bytes = cell.bytes.saturating_add(more.bytes);
            merge(&mut cell.device, &more.device);
        }
        for (key, more) in next.submitted {
            self.submitted.entry(key).or_default().add(more);
        }
        for (key, more) in next.costs {
            self.costs.entry(key).or_default().add(more);
        }
        for (kind, more) in next.slow {
            self.slow.entry(kind).or_default().add(more);
        }
        join(&mut self.tasks, next.tasks);
        join(&mut self.files, next.files);
    }
}

fn join<K: Copy + Eq + std::hash::Hash>(
    sums: &mut Vec<(K, TaskCounters)>,
    more: Vec<(K, TaskCounters)>,
) {
    let mut all: HashMap<K, TaskCounters> = sums.drain(..).collect();
    for (key, sum) in more {
        all.entry(key).or_default().add(sum);
    }
    sums.extend(all);
}

/// Names of tasks and files, looked up once.
pub(super) struct Labels<'a> {
    names: &'a dyn NameLookup,
    arrays: &'a [String],
    tasks: HashMap<(u32, u32), String>,
    files: HashMap<FileId, Option<String>>,
}

impl<'a> Labels<'a> {
    pub(super) fn new(names: &'a dyn NameLookup, arrays: &'a [String]) -> Self {
        Self { names, arrays, tasks: HashMap::new(), files: HashMap::new() }
    }

    /// Fills in `names` of `interval`. Files without a path are left out.
    pub(super) fn name(&mut self, interval: &mut Interval) {
        for ((array, pid), sum) in std::mem::take(&mut interval.tasks) {
            let name = match pid {
                Some(pid) => {
                    let looked_up = self.tasks.entry((array, pid)).or_insert_with(|| {
                        let array = self.arrays.get(array as usize).map_or("", String::as_str);
                        let info = self.names.task(pid, array);
                        info.map_or_else(|| UNKNOWN.to_owned(), |info| task_name(&info))
                    });
                    looked_up.clone()
                }
                None => UNKNOWN.to_owned(),
            };
            let key = (array, Name::Task(name));
            interval.names.entry(key).or_default().add(sum);
        }
        for ((array, file), sum) in std::mem::take(&mut interval.files) {
            let Some(id) = file else { continue };
            let path = self.files.entry(id).or_insert_with(|| {
                let location = self.names.file_location(&id)?;
                let path = location.path.as_deref()?;
                Some(crate::printable::escape(path.get(..PATH).unwrap_or(path)))
            });
            if let Some(path) = path {
                let key = (array, Name::File(path.clone()));
                interval.names.entry(key).or_default().add(sum);
            }
        }
    }
}

const UNKNOWN: &str = "(unknown task)";
/// Bytes of a path that are kept (PATH_MAX): each interval has its own copy.
const PATH: usize = 4096;
/// Bytes of a task's name that are kept; TASK_COMM_LEN allows 15, /proc shows up to 63 for
/// kworkers.
const COMM: usize = 64;

/// Name of a task that is the same on another host: kernel threads by their role, without the
/// array's name and their number.
fn task_name(info: &TaskInfo) -> String {
    let comm = sanitize(info.comm.get(..COMM).unwrap_or(&info.comm));
    match info.role.as_deref() {
        Some(role) if role.starts_with("jbd2 journal") => "jbd2 journal".to_owned(),
        Some(role) if role.starts_with("writeback") => "writeback".to_owned(),
        Some(role) if comm.is_empty() => role.to_owned(),
        _ if comm.starts_with("kworker/") => "kworker".to_owned(),
        _ => comm,
    }
}

#[cfg(test)]
mod tests {
    use super::task_name;
    use crate::analysis::fold::TaskInfo;

    #[test]
    fn names_are_the_same_on_another_host() {
        let name = |comm: &str, role: Option<&str>| {
            task_name(&TaskInfo {
                comm: comm.as_bytes().to_vec(),
                cgroup: None,
                role: role.map(str::to_owned),
            })
        };
        assert_eq!(name("jbd2/md0-8", Some("jbd2 journal of md0")), "jbd2 journal");
        assert_eq!(name("kworker/u8:3", Some("writeback of md0")), "writeback");
        assert_eq!(name("kworker/1:2H", None), "kworker");
        assert_eq!(name("a\x1b[31m", None), "a\\x1b[31m");
    }
}
