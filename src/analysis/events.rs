//! Items of a recording -> the counters that the live kernel side would have had, an interval at a time.
//!
//! Everything behind it ([`super::fold`], [`super::window`]) is what live tracing uses. Arrays and members keep the
//! numbers that they got here however often the recorder's change; those that have gone are kept behind the others.

mod disks;
mod tally;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use self::disks::Disks;
pub use self::disks::{DiskSum, SLACK_US};
pub use self::tally::Tally;
use self::tally::{CELLS, Roster};
use super::counters::{CellKey, DirtyKey, FileKey, TaskKey};
use super::files::{FileId, FileLocation};
use super::fold::{DiskCounters, MemberNow, Sample, Subject, TaskInfo};
use super::recent::Stall;
use crate::analysis::item::{Item, State};
use crate::origin::{Op, Origin};

/// Who is who, for [`Events::samples`].
pub trait Known {
    /// A task's name, by pid and kernel name of the array.
    fn task(&self, pid: u32, array: &str) -> Option<Arc<TaskInfo>>;
    /// Where a file is.
    fn file_location(&self, id: &FileId) -> Option<Arc<FileLocation>>;
}

/// Adds up items, into the tally of whatever interval they belong to.
#[derive(Debug, Default)]
pub struct Events {
    roster: Roster,
    /// The last state before this interval.
    before: Option<Arc<State>>,
    disks: Disks,
}

impl Events {
    /// Adds an item, states too, to `tally`. Items must come in the order of the file.
    #[inline]
    pub fn push(&mut self, tally: &mut Tally, item: &Item) {
        match item {
            Item::State(state) => {
                let state = Arc::new((**state).clone());
                let was = tally.state(&mut self.roster, &state);
                self.disks.read_until(state.time_us);
                self.disks.state(&self.roster, was.as_deref(), &state);
            }
            other => {
                self.pass(other);
                tally.add(&self.roster, other);
            }
        }
    }

    /// An item that is in no interval: disks may have been busy with it in one.
    #[inline]
    pub fn pass(&mut self, item: &Item) {
        self.disks.read_until(item.time_us());
        match item {
            Item::Request(r) => {
                if let Some(number) = self.member(r.member) {
                    self.disks.request(number, r);
                }
            }
            Item::State(state) => {
                let was = self.roster.take(&Arc::new((**state).clone()));
                self.disks.state(&self.roster, was.as_deref(), state);
            }
            _ => {}
        }
    }

    /// An interval begins or ends at `time_us`. To be said before more than [`SLACK_US`] behind it has been read.
    pub fn cut(&mut self, time_us: i64) {
        self.disks.cut(time_us);
    }

    /// No interval begins or ends there after all.
    pub fn uncut(&mut self, time_us: i64) {
        self.disks.forget(time_us);
    }

    /// Whether [`Events::samples`] may be asked for an interval that ends there.
    pub fn is_settled(&self, time_us: i64) -> bool {
        self.disks.is_settled(time_us)
    }

    /// Nothing comes any more, or no state has come for long: what is known of disks until `time_us` has to do.
    pub fn end(&mut self, time_us: i64) {
        self.disks.end(time_us);
    }

    /// No interval that begins before `time_us` will be asked for any more.
    pub fn forget_before(&mut self, time_us: i64) {
        self.disks.forget_before(time_us);
    }

    /// What disks did from one cut to another, by number of the member: as [`Events::members`] has them.
    pub fn disks(&self, from_us: i64, to_us: i64) -> Vec<DiskSum> {
        let was = self.disks.sums(from_us);
        let now = self.disks.sums(to_us).iter().enumerate();
        let was = |i: usize| was.get(i).copied().unwrap_or_default();
        now.map(|(i, sum)| sum.since(was(i))).collect()
    }

    /// [`Events::stall`] is of what is between these times. To be said before anything is read.
    pub fn look_for_stalls(&mut self, from_us: i64, to_us: i64) {
        self.disks.look_for_stalls(from_us, to_us);
    }

    /// The longest time in which a member, by its number, had requests in flight and completed none.
    pub fn stall(&self, number: usize) -> Option<Stall> {
        self.disks.stall(number)
    }

    /// Names of array and member, by number of the member.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let array = |number: u32| self.roster.arrays.get(number as usize);
        let members = self.roster.members.iter();
        members
            .map(move |(number, name)| (array(*number).map_or("", String::as_str), name.as_str()))
    }

    /// Number of a member that the recorder numbers so now.
    #[inline]
    pub fn member(&self, recorded: u32) -> Option<u32> {
        self.roster.member_now.get(recorded as usize).copied()
    }

    /// A state from before the first interval: for names, and for what is cumulative.
    pub fn skip(&mut self, item: &Item) {
        let mut nobody = Tally::default();
        self.push(&mut nobody, item);
        self.before = nobody.state.or_else(|| self.before.take());
    }

    /// `tally` as the counters at the beginning and at the end of the interval from `from_us` to `to_us`, for the
    /// [`super::fold::Fold`]. Both must be cuts, see [`Events::cut`]. Intervals must come in their order.
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
        self.disk_counters(from_us, to_us, &mut end.arrays);
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
        for (key, sum) in tally.dirtied {
            if let Some(array) = array(key.array) {
                counters.dirtied.insert(TaskKey { array, ..key }, sum);
            }
        }
        for (key, sum) in tally.dirtied_files {
            if let Some(array) = array(key.array) {
                let key = DirtyKey { array, ..key };
                counters.dirtied_files.insert(key, sum);
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

    /// What the disks did in the interval, as counters that began with it.
    fn disk_counters(&self, from_us: i64, to_us: i64, arrays: &mut [Subject]) {
        let sums = self.disks(from_us, to_us);
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
    let counters = &sample.counters;
    let tasks = counters.tasks.keys().chain(counters.dirtied.keys());
    for id in tasks.map(TaskKey::id) {
        let array = sample.arrays.get(id.array as usize);
        let info = array.and_then(|a| known.task(id.pid, &a.info.name));
        if let Some(info) = info {
            sample.tasks.entry(id).or_insert_with(|| (*info).clone());
        }
    }
    let dirtied = counters.dirtied_files.keys().map(|key| key.file);
    let files = counters.files.keys().filter_map(|key| key.file);
    for id in files.chain(dirtied) {
        if let Some(location) = known.file_location(&id) {
            sample
                .files
                .entry(id)
                .or_insert_with(|| (*location).clone());
        }
    }
}

#[cfg(test)]
mod tests;
