//! Items of a recording -> the counters that the live kernel side would have had, an interval at a time.
//!
//! Everything behind it ([`super::fold`], [`super::window`]) is what live tracing uses. Arrays and members keep the
//! numbers that they got here however often the recorder's change; those that have gone are kept behind the others.

mod tally;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use self::tally::Tally;
use self::tally::{CELLS, Roster};
use super::counters::{CellKey, FileKey, TaskKey};
use super::files::{FileId, FilePlace};
use super::fold::{DiskCounters, MemberNow, Person, Sample, Subject};
use crate::origin::{Op, Origin};
use crate::trace::item::{Item, State};

/// Who is who, for [`Events::samples`].
pub trait Known {
    /// A task's name, by pid and kernel name of the array.
    fn person(&self, pid: u32, array: &str) -> Option<Arc<Person>>;
    /// Where a file is.
    fn place(&self, id: &FileId) -> Option<Arc<FilePlace>>;
}

/// Adds up items, into the tally of whatever interval they belong to.
#[derive(Debug, Default)]
pub struct Events {
    roster: Roster,
    /// The last state before this interval.
    before: Option<Arc<State>>,
    /// Share of the time that disks were busy between the last two states, by number of the member.
    busy: HashMap<u32, f64>,
}

impl Events {
    /// Adds an item, states too, to `tally`. Items must come in the order of the file.
    #[inline]
    pub fn push(&mut self, tally: &mut Tally, item: &Item) {
        match item {
            Item::State(state) => tally.state(&mut self.roster, &Arc::new((**state).clone())),
            other => tally.add(&self.roster, other),
        }
    }

    /// A state from before the first interval: for names, and for what is cumulative.
    pub fn skip(&mut self, item: &Item) {
        let mut nobody = Tally::default();
        self.push(&mut nobody, item);
        self.before = nobody.state.or_else(|| self.before.take());
    }

    /// `tally` as the counters at the beginning and at the end of the interval from `from_us` to `to_us`, for the
    /// [`super::fold::Fold`]. Intervals must come in their order.
    pub fn samples(
        &mut self,
        mut tally: Tally,
        from_us: i64,
        to_us: i64,
        known: &dyn Known,
    ) -> (Sample, Sample) {
        tally.put_task();
        tally.put_file();
        let interval = Duration::from_micros(to_us.saturating_sub(from_us).max(0) as u64);
        let state = tally.state.clone().or_else(|| self.before.clone());
        self.before.clone_from(&state);
        let state = state.unwrap_or_default();
        let arrays = Arrays::of(&self.roster, &state, &tally);
        let mut end = Sample {
            time: jiff::Timestamp::from_microsecond(to_us).unwrap_or_default(),
            clock: interval,
            arrays: arrays.subjects,
            notes: [tally.said.clone(), state.notes.clone()].concat(),
            ..Sample::default()
        };
        self.disks(&tally, interval, &mut end.arrays);
        let mut start = Sample {
            time: jiff::Timestamp::from_microsecond(from_us).unwrap_or_default(),
            arrays: end.arrays.clone(),
            ..Sample::default()
        };
        for member in start.arrays.iter_mut().flat_map(|a| &mut a.members) {
            member.disk = member.disk.map(|_| DiskCounters::default());
        }
        for (at, cell) in tally.cells.into_iter().enumerate() {
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
        for (key, sum) in tally.tasks {
            if let Some(array) = array(key.array) {
                counters.tasks.insert(TaskKey { array, ..key }, sum);
            }
        }
        for (key, sum) in tally.files {
            if let Some(array) = array(key.array) {
                counters.files.insert(FileKey { array, ..key }, sum);
            }
        }
        for ((number, origin), cost) in tally.costs {
            if let Some(array) = array(number) {
                counters.costs.insert((array, origin), cost);
            }
        }
        (counters.lost, counters.overhead) = (tally.lost, tally.overhead);
        name(&mut end, known);
        (start, end)
    }

    /// The kernel's statistics over the interval; where no state fell into it, those of the last two.
    fn disks(&mut self, tally: &Tally, interval: Duration, arrays: &mut [Subject]) {
        let mut numbers: HashMap<(&str, &str), u32> = HashMap::new();
        for (number, (array, name)) in (0..).zip(&self.roster.members) {
            if let Some(array) = self.roster.arrays.get(*array as usize) {
                numbers.insert((array, name), number);
            }
        }
        for subject in arrays {
            for member in &mut subject.members {
                let Some(disk) = &mut member.disk else {
                    continue;
                };
                let key = (subject.info.name.as_str(), member.name.as_str());
                let Some(number) = numbers.get(&key) else {
                    continue;
                };
                let sum = tally.disks.get(number).copied();
                if let Some((_, ticks)) = sum
                    && tally.covered_us > 0
                {
                    let share = ticks as f64 * 1000.0 / tally.covered_us as f64;
                    self.busy.insert(*number, share);
                }
                // Over what the states are apart, brought to the interval's length.
                let share = self.busy.get(number).copied().unwrap_or(0.0);
                disk.io_ticks_ms = (share * interval.as_secs_f64() * 1000.0) as u64;
                disk.requests = sum.map_or(0, |s| s.0);
            }
        }
    }
}

/// The arrays as a sample has them, and the numbers there of those of the [`Roster`].
struct Arrays {
    subjects: Vec<Subject>,
    arrays: Vec<Option<u32>>,
    members: Vec<Option<u32>>,
}

impl Arrays {
    fn of(roster: &Roster, state: &State, tally: &Tally) -> Self {
        let mut subjects = state.arrays.clone();
        let active = |number: usize| {
            let cells = tally.cells.iter().skip(number * CELLS).take(CELLS);
            cells.flatten().next().is_some()
        };
        // What has gone, if it did something in the interval.
        for (number, (array, name)) in roster.members.iter().enumerate() {
            let Some(array) = roster.arrays.get(*array as usize) else {
                continue;
            };
            let there = subjects.iter().position(|s| s.info.name == *array);
            let missing = there
                .and_then(|i| subjects.get(i))
                .is_none_or(|s| s.members.iter().all(|m| m.name != *name));
            if !missing || !active(number) {
                continue;
            }
            let at = there.unwrap_or_else(|| {
                let mut gone = Subject::default();
                gone.info.name.clone_from(array);
                gone.info.trouble = Some("stopped".to_owned());
                subjects.push(gone);
                subjects.len() - 1
            });
            if let Some(subject) = subjects.get_mut(at) {
                subject.members.push(MemberNow {
                    name: name.clone(),
                    trouble: Some("removed".to_owned()),
                    ..MemberNow::default()
                });
            }
        }
        let mut places = HashMap::new();
        let mut next = 0u32;
        let mut arrays = vec![None; roster.arrays.len()];
        for (number, subject) in (0..).zip(&subjects) {
            let array = roster.arrays.iter().position(|a| *a == subject.info.name);
            if let Some(slot) = array.and_then(|a| arrays.get_mut(a)) {
                // Of two by the same name the first has the figures.
                slot.get_or_insert(number);
            }
            for member in &subject.members {
                places
                    .entry((array.map(|a| a as u32), member.name.as_str()))
                    .or_insert(next);
                next += 1;
            }
        }
        let members = roster.members.iter();
        let members =
            members.map(|(array, name)| places.get(&(Some(*array), name.as_str())).copied());
        Self {
            members: members.collect(),
            arrays,
            subjects,
        }
    }
}

/// Names for what is in the counters.
fn name(sample: &mut Sample, known: &dyn Known) {
    for id in sample.counters.tasks.keys().map(TaskKey::id) {
        let array = sample.arrays.get(id.array as usize);
        let person = array.and_then(|a| known.person(id.pid, &a.info.name));
        if let Some(person) = person {
            sample.tasks.entry(id).or_insert_with(|| (*person).clone());
        }
    }
    for id in sample.counters.files.keys().filter_map(|key| key.file) {
        if let Some(place) = known.place(&id) {
            sample.files.entry(id).or_insert_with(|| (*place).clone());
        }
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
