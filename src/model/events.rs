//! Items of a recording -> the counters that the live kernel side would have had, an interval at a time.
//!
//! Everything behind it ([`super::fold`], [`super::window`]) is what live tracing uses. Arrays and members keep the
//! numbers that they got here however often the recorder's change; those that have gone are kept behind the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::counters::{CellCounters, CellKey, CostCounters, FileKey, TaskCounters, TaskKey};
use super::files::{FileId, FilePlace};
use super::fold::{DiskCounters, MemberNow, Person, Sample, Subject};
use super::snapshot::{Lost, Overhead};
use crate::origin::{Op, Origin};
use crate::trace::item::{Item, Part, Request, State, Submission};
use crate::trace::writer::TOO_SLOW;

/// Tasks and files that are added up one by one in an interval; of more, the smaller half is given up: the bytes of
/// such files go to those whose file could not be told.
const MANY: usize = 65_536;
const CELLS: usize = Origin::ALL.len() * Op::ALL.len();

/// Arrays and members, as the states named them so far.
#[derive(Debug, Default)]
pub struct Roster {
    /// Names.
    arrays: Vec<String>,
    /// Number of the array, and name.
    members: Vec<(u32, String)>,
    /// By the recorder's number.
    array_now: Vec<u32>,
    member_now: Vec<u32>,
    last: Option<Arc<State>>,
}

impl Roster {
    /// Takes in a state: from now on numbers are its.
    fn take(&mut self, state: &Arc<State>) -> Option<Arc<State>> {
        let same = |last: &State| {
            last.arrays.len() == state.arrays.len()
                && last.arrays.iter().zip(&state.arrays).all(|(a, b)| {
                    a.info.name == b.info.name
                        && a.members.len() == b.members.len()
                        && a.members
                            .iter()
                            .zip(&b.members)
                            .all(|(a, b)| a.name == b.name)
                })
        };
        if !self.last.as_deref().is_some_and(same) {
            self.array_now.clear();
            self.member_now.clear();
            for subject in &state.arrays {
                let array = number(&mut self.arrays, &subject.info.name);
                self.array_now.push(array);
                for member in &subject.members {
                    let key = (array, member.name.clone());
                    self.member_now.push(number(&mut self.members, &key));
                }
            }
        }
        self.last.replace(Arc::clone(state))
    }
}

/// The place of `what` in `all`, at whose end it is put where it is new.
fn number<T: Clone + PartialEq>(all: &mut Vec<T>, what: &T) -> u32 {
    let place = all.iter().position(|known| known == what);
    place.unwrap_or_else(|| {
        all.push(what.clone());
        all.len() - 1
    }) as u32
}

/// What is added up of one interval.
#[derive(Debug, Default)]
pub struct Tally {
    /// By number of the member, origin and operation.
    cells: Vec<Option<Box<CellCounters>>>,
    tasks: HashMap<TaskKey, TaskCounters>,
    files: HashMap<FileKey, TaskCounters>,
    /// The last of these that was asked for: the next is mostly the same.
    task: Option<(TaskKey, TaskCounters)>,
    file: Option<(FileKey, TaskCounters)>,
    costs: HashMap<(u32, Origin), CostCounters>,
    lost: Lost,
    overhead: Overhead,
    /// By number of the member: requests and milliseconds.
    disks: HashMap<u32, (u64, u64)>,
    /// The time that these are of.
    covered_us: i64,
    /// The last one in it.
    state: Option<Arc<State>>,
    /// Notes and losses that were told in it.
    said: Vec<String>,
}

impl Tally {
    /// Adds an item that is no state.
    #[inline]
    pub fn add(&mut self, roster: &Roster, item: &Item) {
        match item {
            Item::Request(r) => self.request(roster, r),
            Item::Part(p) => self.part(roster, p),
            Item::Submission(s) => self.submission(roster, s),
            Item::Note { text, .. } => self.say(text.clone()),
            Item::Lost { reason, count, .. } => {
                // What the kernel side lost is in the states, too.
                if reason == TOO_SLOW {
                    self.lost.ring = self.lost.ring.saturating_add(*count);
                }
                self.say(format!("{count} lost: {reason}"));
            }
            Item::State(_) => {}
        }
    }

    fn say(&mut self, text: String) {
        if self.said.len() < 16 && !self.said.contains(&text) {
            self.said.push(text);
        }
    }

    #[inline]
    fn cell(
        &mut self,
        roster: &Roster,
        member: u32,
        origin: Origin,
        op: Op,
    ) -> Option<&mut CellCounters> {
        let member = *roster.member_now.get(member as usize)? as usize;
        let at = member * CELLS + origin as usize * Op::ALL.len() + op as usize;
        if at >= self.cells.len() {
            self.cells.resize_with((member + 1) * CELLS, || None);
        }
        Some(self.cells.get_mut(at)?.get_or_insert_default())
    }

    #[inline]
    fn request(&mut self, roster: &Roster, r: &Request) {
        if let Some(cell) = self.cell(roster, r.member, r.origin, r.op) {
            cell.requests += 1;
            cell.bytes += u64::from(r.bytes);
            if let Some(us) = r.queue_us {
                cell.queue.record(u64::from(us));
            }
            if let Some(us) = r.device_us {
                cell.device.record(u64::from(us));
            }
        }
    }

    fn part(&mut self, roster: &Roster, p: &Part) {
        if let Some(cell) = self.cell(roster, p.member, p.origin, p.op) {
            cell.bytes += u64::from(p.bytes);
        }
    }

    #[inline]
    fn submission(&mut self, roster: &Roster, s: &Submission) {
        let Some(&array) = roster.array_now.get(s.array as usize) else {
            return;
        };
        let key = TaskKey {
            array,
            pid: s.pid,
            origin: s.origin,
            op: s.op,
        };
        match &mut self.task {
            Some((last, sum)) if *last == key => count(sum, s.length),
            _ => {
                self.put_task();
                let mut sum = TaskCounters::default();
                count(&mut sum, s.length);
                self.task = Some((key, sum));
            }
        }
        if s.origin != Origin::FileData || !matches!(s.op, Op::Read | Op::Write) {
            return;
        }
        let key = FileKey {
            array,
            file: s.file,
            op: s.op,
        };
        match &mut self.file {
            Some((last, sum)) if *last == key => count(sum, s.length),
            _ => {
                self.put_file();
                let mut sum = TaskCounters::default();
                count(&mut sum, s.length);
                self.file = Some((key, sum));
            }
        }
    }

    fn put_task(&mut self) {
        if let Some((key, sum)) = self.task.take() {
            add(self.tasks.entry(key).or_default(), sum);
            if self.tasks.len() > 2 * MANY {
                let least = median(self.tasks.values());
                let gone = self.tasks.extract_if(|_, sum| sum.bytes <= least);
                let gone = gone.fold(0u64, |n, (_, sum)| n.saturating_add(sum.bios));
                self.lost.tasks = self.lost.tasks.saturating_add(gone);
            }
        }
    }

    fn put_file(&mut self) {
        if let Some((key, sum)) = self.file.take() {
            add(self.files.entry(key).or_default(), sum);
            if self.files.len() > 2 * MANY {
                let least = median(self.files.values());
                let small = |key: &FileKey, sum: &mut TaskCounters| {
                    key.file.is_some() && sum.bytes <= least
                };
                let gone: Vec<_> = self.files.extract_if(small).collect();
                for (key, sum) in gone {
                    add(
                        self.files.entry(FileKey { file: None, ..key }).or_default(),
                        sum,
                    );
                }
            }
        }
    }

    /// What has come since the state before this one.
    fn state(&mut self, roster: &mut Roster, state: &Arc<State>) {
        let was = roster.take(state);
        // The first one says where counting begins; so does one after a restart: what new programs counted while the
        // old ones still ran has been counted by these.
        if let Some(before) = was.as_deref().filter(|_| !state.restart) {
            self.since(roster, before, state);
        }
        if let Some(was) = &was {
            let since = state.time_us.saturating_sub(was.time_us).max(0);
            self.covered_us = self.covered_us.saturating_add(since);
        }
        let mut members = roster.member_now.iter();
        for subject in &state.arrays {
            for member in &subject.members {
                let number = members.next().copied().unwrap_or(u32::MAX);
                let old = was
                    .as_deref()
                    .and_then(|w| disk(w, &subject.info.name, &member.name));
                if let (Some(now), Some(old)) = (member.disk, old) {
                    let sum = self.disks.entry(number).or_default();
                    sum.0 += now.requests.saturating_sub(old.requests);
                    sum.1 += now.io_ticks_ms.saturating_sub(old.io_ticks_ms);
                }
            }
        }
        self.state = Some(Arc::clone(state));
    }

    /// Adds what is cumulative, of the same programs.
    fn since(&mut self, roster: &Roster, before: &State, state: &State) {
        for (array, origin, cost) in &state.costs {
            let same = |c: &&(u32, Origin, CostCounters)| (c.0, c.1) == (*array, *origin);
            let old = before.costs.iter().find(same).map(|c| c.2);
            if let Some(&array) = roster.array_now.get(*array as usize) {
                let sum = self.costs.entry((array, *origin)).or_default();
                sum.add(cost.since(old.unwrap_or_default()));
            }
        }
        add_lost(&mut self.lost, &state.lost, &before.lost);
        let (now, old) = (state.overhead, before.overhead);
        let ns = now.bpf_ns.saturating_sub(old.bpf_ns);
        self.overhead.bpf_ns = self.overhead.bpf_ns.saturating_add(ns);
        let runs = now.bpf_events.saturating_sub(old.bpf_events);
        self.overhead.bpf_events = self.overhead.bpf_events.saturating_add(runs);
    }
}

fn count(sum: &mut TaskCounters, bytes: u32) {
    sum.bios += 1;
    sum.bytes += u64::from(bytes);
}

fn add(sum: &mut TaskCounters, other: TaskCounters) {
    sum.bios = sum.bios.saturating_add(other.bios);
    sum.bytes = sum.bytes.saturating_add(other.bytes);
}

fn add_lost(sum: &mut Lost, now: &Lost, was: &Lost) {
    let add =
        |sum: &mut u64, now: u64, was: u64| *sum = sum.saturating_add(now.saturating_sub(was));
    add(&mut sum.rows, now.rows, was.rows);
    add(&mut sum.issue, now.issue, was.issue);
    add(&mut sum.pieces, now.pieces, was.pieces);
    add(&mut sum.tasks, now.tasks, was.tasks);
    add(&mut sum.files, now.files, was.files);
    add(&mut sum.missed, now.missed, was.missed);
    add(&mut sum.ring, now.ring, was.ring);
}

fn median<'a>(sums: impl Iterator<Item = &'a TaskCounters>) -> u64 {
    let mut bytes: Vec<u64> = sums.map(|s| s.bytes).collect();
    let middle = bytes.len() / 2;
    if bytes.is_empty() {
        return 0;
    }
    *bytes.select_nth_unstable(middle).1
}

/// Of a member, by name.
fn disk(state: &State, array: &str, member: &str) -> Option<DiskCounters> {
    let subject = state.arrays.iter().find(|a| a.info.name == array)?;
    subject.members.iter().find(|m| m.name == member)?.disk
}

/// Who is who, for [`Events::samples`].
pub trait Known {
    /// Who a pid is.
    fn person(&self, pid: u32) -> Option<Arc<Person>>;
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
    for key in sample.counters.tasks.keys() {
        if let Some(person) = known.person(key.pid) {
            sample
                .tasks
                .entry(key.pid)
                .or_insert_with(|| (*person).clone());
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
