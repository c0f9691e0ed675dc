//! Turns items of a recording into the counters that live tracing would have read, one interval at
//! a time.
//!
//! [`super::fold`] and [`super::window`] use the result as in live tracing. Arrays and members keep
//! the numbers that this module assigns to them even if the recorder renumbers them. Removed arrays
//! and members come after the current ones.

mod disks;
mod interval;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use self::disks::{DiskSum, Disks, MAX_DISORDER_US};
pub use self::interval::IntervalCounters;
use self::interval::{CELLS, Directory};
use super::around::Around;
use super::counters::{CellKey, DirtyKey, FileKey, TaskKey};
use super::files::{FileId, FileLocation};
use super::fold::{ArrayNow, DiskCounters, MemberNow, Sample, TaskInfo};
use crate::analysis::item::{Item, State};
use crate::origin::{Op, Origin};

/// Names of tasks and files, for [`Events::samples`].
pub trait NameLookup {
    /// Name of a task, by pid and kernel name of the array.
    fn task(&self, pid: u32, array: &str) -> Option<Arc<TaskInfo>>;
    fn file_location(&self, id: &FileId) -> Option<Arc<FileLocation>>;
}

/// Adds items to the sums of their intervals.
#[derive(Debug, Default)]
pub struct Events {
    directory: Directory,
    /// The last state before this interval.
    before: Option<Arc<State>>,
    /// Busy times and requests of the disks, by member number.
    pub disks: Disks,
}

impl Events {
    /// Adds an item to `sums`. Items must come in the order of the file.
    #[inline]
    pub fn push(&mut self, sums: &mut IntervalCounters, item: &Item) {
        match item {
            Item::State(state) => {
                let state = Arc::new((**state).clone());
                let was = sums.state(&mut self.directory, &state);
                self.disks.read_until(state.time_us);
                self.disks.state(&self.directory, was.as_deref(), &state);
            }
            other => {
                self.add_outside(other);
                sums.add(&self.directory, other);
            }
        }
    }

    /// Adds an item from outside all intervals: its request may have kept a disk busy within one.
    #[inline]
    pub fn add_outside(&mut self, item: &Item) {
        self.disks.read_until(item.time_us());
        match item {
            Item::Request(r) => {
                if let Some(number) = self.member(r.member) {
                    self.disks.request(number, r);
                }
            }
            Item::State(state) => {
                let was = self.directory.take(&Arc::new((**state).clone()));
                self.disks.state(&self.directory, was.as_deref(), state);
            }
            _ => {}
        }
    }

    /// Names of array and member, in the order of member numbers.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let array = |number: u32| self.directory.arrays.get(number as usize);
        let members = self.directory.members.iter();
        members
            .map(move |(number, name)| (array(*number).map_or("", String::as_str), name.as_str()))
    }

    /// Number of the member with the recorder's current number `recorded`.
    #[inline]
    pub fn member(&self, recorded: u32) -> Option<u32> {
        self.directory.member_now.get(recorded as usize).copied()
    }

    /// Array number of a member number.
    #[inline]
    pub fn array_of(&self, number: u32) -> Option<u32> {
        let member = self.directory.members.get(number as usize)?;
        Some(member.0)
    }

    /// Names of arrays, in the order of array numbers.
    pub fn arrays(&self) -> &[String] {
        &self.directory.arrays
    }

    /// Number of the array with the recorder's current number `recorded`.
    pub fn array(&self, recorded: u32) -> Option<u32> {
        self.directory.array_now.get(recorded as usize).copied()
    }

    /// Adds a state from before the first interval, for names and as the base of cumulative
    /// counters.
    pub fn add_first_state(&mut self, item: &Item) {
        let mut unused = IntervalCounters::default();
        self.push(&mut unused, item);
        self.before = unused.state.or_else(|| self.before.take());
    }

    /// Returns the samples at the start and the end of an interval, for [`super::fold::Fold`]. Both
    /// times must have been given to [`Disks::add_boundary`]; intervals must come in order.
    pub fn samples(
        &mut self,
        mut sums: IntervalCounters,
        from_us: i64,
        to_us: i64,
        names: &dyn NameLookup,
    ) -> (Sample, Sample) {
        sums.finish();
        let interval = Duration::from_micros(to_us.saturating_sub(from_us).max(0) as u64);
        let has_facts = sums.state.is_some();
        let state = sums.state.clone().or_else(|| self.before.clone());
        let earlier = std::mem::replace(&mut self.before, state.clone());
        let state = state.unwrap_or_default();
        let arrays = Arrays::new(&self.directory, &state, &sums);
        let mut end = Sample {
            time: jiff::Timestamp::from_microsecond(to_us).unwrap_or_default(),
            clock: interval,
            arrays: arrays.subjects,
            notes: [sums.messages.clone(), state.notes.clone()].concat(),
            ..Sample::default()
        };
        if !has_facts {
            // On a busy host a state can be late: the next interval has its counters.
            let around = end.arrays.iter_mut().filter_map(|subject| subject.around.as_mut());
            around.for_each(Around::forget_the_interval);
        }
        self.disk_counters(from_us, to_us, &mut end.arrays);
        let mut start = Sample {
            time: jiff::Timestamp::from_microsecond(from_us).unwrap_or_default(),
            arrays: end.arrays.clone(),
            ..Sample::default()
        };
        for subject in &mut start.arrays {
            let mut all = earlier.iter().flat_map(|state| &state.arrays);
            let same = all.find(|a| a.info.name == subject.info.name);
            subject.around = same.and_then(|a| a.around.clone());
        }
        for member in start.arrays.iter_mut().flat_map(|a| &mut a.members) {
            member.disk = member.disk.map(|_| DiskCounters::default());
        }
        for (at, cell) in sums.cells.into_iter().enumerate() {
            let member = arrays.members.get(at / CELLS).copied().flatten();
            let origin = Origin::from_u8((at % CELLS / Op::ALL.len()) as u8);
            let op = Op::from_u8((at % Op::ALL.len()) as u8);
            if let (Some(cell), Some(member), Some(origin), Some(op)) = (cell, member, origin, op) {
                let key = CellKey { member, origin, op };
                end.counters.cells.insert(key, *cell);
            }
        }
        let counters = &mut end.counters;
        let array = |number: u32| arrays.arrays.get(number as usize).copied().flatten();
        let task_key = |key: TaskKey| Some(TaskKey { array: array(key.array)?, ..key });
        counters.tasks = renumbered(sums.tasks, task_key);
        counters.dirtied = renumbered(sums.dirtied, task_key);
        counters.files = renumbered(sums.files, |key: FileKey| {
            Some(FileKey { array: array(key.array)?, ..key })
        });
        counters.dirtied_files = renumbered(sums.dirtied_files, |key: DirtyKey| {
            Some(DirtyKey { array: array(key.array)?, ..key })
        });
        let member = |number: u32| arrays.members.get(number as usize).copied().flatten();
        let counted = sums.counted.into_iter();
        counters.counted =
            counted.filter_map(|((number, op), c)| Some(((member(number)?, op), c))).collect();
        counters.costs = renumbered(sums.costs, |(number, origin)| Some((array(number)?, origin)));
        (counters.lost, counters.overhead) = (sums.lost, sums.overhead);
        fill_names(&mut end, names);
        (start, end)
    }

    /// Sets the disk counters of `arrays` to the figures of the interval.
    fn disk_counters(&self, from_us: i64, to_us: i64, arrays: &mut [ArrayNow]) {
        let sums = self.disks.between(from_us, to_us);
        let by_name: HashMap<(&str, &str), DiskSum> = self.members().zip(sums).collect();
        for subject in arrays {
            for member in &mut subject.members {
                let Some(disk) = &mut member.disk else {
                    continue;
                };
                let key = (subject.info.name.as_str(), member.name.as_str());
                let sum = by_name.get(&key).copied().unwrap_or_default();
                *disk = DiskCounters {
                    requests: sum.requests,
                    busy_us: Some(sum.busy_us),
                    uncounted: sum.uncounted,
                    in_flight: disk.in_flight,
                    ..DiskCounters::default()
                };
            }
        }
    }
}

/// Arrays of a sample, and the number in the sample for each number in the [`Directory`].
struct Arrays {
    subjects: Vec<ArrayNow>,
    arrays: Vec<Option<u32>>,
    members: Vec<Option<u32>>,
}

impl Arrays {
    fn new(directory: &Directory, state: &State, sums: &IntervalCounters) -> Self {
        let mut subjects = state.arrays.clone();
        let active = |number: usize| {
            sums.cells.iter().skip(number * CELLS).take(CELLS).flatten().next().is_some()
        };
        // Add removed members that did IO in the interval.
        for (number, (array, name)) in directory.members.iter().enumerate() {
            let Some(array) = directory.arrays.get(*array as usize) else {
                continue;
            };
            let existing = subjects.iter().position(|s| s.info.name == *array);
            let missing = existing
                .and_then(|i| subjects.get(i))
                .is_none_or(|s| s.members.iter().all(|m| m.name != *name));
            if !missing || !active(number) {
                continue;
            }
            let at = existing.unwrap_or_else(|| {
                let mut gone = ArrayNow::default();
                gone.info.name.clone_from(array);
                gone.info.health = Some("stopped".to_owned());
                subjects.push(gone);
                subjects.len() - 1
            });
            if let Some(subject) = subjects.get_mut(at) {
                subject.members.push(MemberNow {
                    name: name.clone(),
                    health: Some("removed".to_owned()),
                    ..MemberNow::default()
                });
            }
        }
        let mut numbers = HashMap::new();
        let mut next = 0u32;
        let mut arrays = vec![None; directory.arrays.len()];
        for (number, subject) in (0..).zip(&subjects) {
            let array = directory.arrays.iter().position(|a| *a == subject.info.name);
            if let Some(slot) = array.and_then(|a| arrays.get_mut(a)) {
                // Two arrays with the same name cannot be told apart: the first one gets the
                // figures.
                slot.get_or_insert(number);
            }
            for member in &subject.members {
                numbers.entry((array.map(|a| a as u32), member.name.as_str())).or_insert(next);
                next += 1;
            }
        }
        let members = directory
            .members
            .iter()
            .map(|(array, name)| numbers.get(&(Some(*array), name.as_str())).copied());
        Self { members: members.collect(), arrays, subjects }
    }
}

/// Sums by the numbers of a sample; drops sums of arrays that are not in it.
fn renumbered<K, V, C: FromIterator<(K, V)>>(
    sums: impl IntoIterator<Item = (K, V)>,
    key: impl Fn(K) -> Option<K>,
) -> C {
    sums.into_iter().filter_map(|(old, sum)| Some((key(old)?, sum))).collect()
}

/// Fills in names for the tasks and files in the counters.
fn fill_names(sample: &mut Sample, names: &dyn NameLookup) {
    let counters = &sample.counters;
    let tasks = counters.tasks.keys().chain(counters.dirtied.keys());
    for id in tasks.map(TaskKey::id) {
        let array = sample.arrays.get(id.array as usize);
        let info = array.and_then(|a| names.task(id.pid, &a.info.name));
        if let Some(info) = info {
            sample.tasks.entry(id).or_insert_with(|| (*info).clone());
        }
    }
    let dirtied = counters.dirtied_files.keys().map(|key| key.file);
    let files = counters.files.keys().filter_map(|key| key.file);
    for id in files.chain(dirtied) {
        if let Some(found) = names.file_location(&id) {
            sample.files.entry(id).or_insert_with(|| (*found).clone());
        }
    }
}

#[cfg(test)]
mod tests;
