//! Counters of one interval, added up from items.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::analysis::counters::{
    CellCounters, CostCounters, DirtyKey, FileKey, TaskCounters, TaskKey, count_run,
};
use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::figures::Counted;
use crate::analysis::item::TOO_SLOW;
use crate::analysis::item::{Dirtied, Item, Request, RequestPart, State, Submission};
use crate::analysis::lost::{Loss, Lost};
use crate::analysis::snapshot::Overhead;
use crate::origin::{Op, Origin};

/// Half of the maximum number of tasks, and of files, kept in an interval. When there are more, the
/// smaller half is dropped; the bytes of dropped files become unattributed.
pub(super) const HALF_CAPACITY: usize = 65_536;
/// Cells of one member.
pub(super) const CELLS: usize = Origin::ALL.len() * Op::ALL.len();

/// Directory of the arrays and members named by the states so far.
#[derive(Debug, Default)]
pub struct Directory {
    pub(super) arrays: Vec<String>,
    /// Array number and name of each member.
    pub(super) members: Vec<(u32, String)>,
    /// Array number for each current number of the recorder; likewise for members.
    pub(super) array_now: Vec<u32>,
    pub(super) member_now: Vec<u32>,
    pub(super) last: Option<Arc<State>>,
}

impl Directory {
    /// Sets the current state, whose numbers are valid from now on. Returns the previous state.
    pub(super) fn take(&mut self, state: &Arc<State>) -> Option<Arc<State>> {
        let same = |last: &State| {
            last.arrays.len() == state.arrays.len()
                && last.arrays.iter().zip(&state.arrays).all(|(a, b)| {
                    a.info.name == b.info.name
                        && a.members.len() == b.members.len()
                        && a.members.iter().zip(&b.members).all(|(a, b)| a.name == b.name)
                })
        };
        if !self.last.as_deref().is_some_and(same) {
            self.array_now.clear();
            self.member_now.clear();
            for subject in &state.arrays {
                let array = index_of(&mut self.arrays, &subject.info.name);
                self.array_now.push(array);
                for member in &subject.members {
                    let key = (array, member.name.clone());
                    self.member_now.push(index_of(&mut self.members, &key));
                }
            }
        }
        self.last.replace(Arc::clone(state))
    }
}

/// Returns the index of `what` in `all`; appends it if it is new.
fn index_of<T: Clone + PartialEq>(all: &mut Vec<T>, what: &T) -> u32 {
    let index = all.iter().position(|known| known == what);
    index.unwrap_or_else(|| {
        all.push(what.clone());
        all.len() - 1
    }) as u32
}

#[derive(Debug, Default)]
pub struct IntervalCounters {
    /// Cells by member number, origin and operation.
    pub(super) cells: Vec<Option<Box<CellCounters>>>,
    pub(super) tasks: HashMap<TaskKey, TaskCounters>,
    pub(super) files: HashMap<FileKey, TaskCounters>,
    /// Sums of the current task and file, not yet in the maps: the next item mostly has the same
    /// key.
    pub(super) task: Option<(TaskKey, TaskCounters)>,
    pub(super) file: Option<(FileKey, TaskCounters)>,
    pub(super) dirtied: HashMap<TaskKey, TaskCounters>,
    pub(super) dirtied_files: HashMap<DirtyKey, TaskCounters>,
    pub(super) costs: Cube<(u32, Origin), CostCounters>,
    /// By member number and operation.
    pub(super) counted: Cube<(u32, Op), Counted>,
    pub(super) lost: Lost,
    pub(super) overhead: Overhead,
    /// Last state in the interval.
    pub(super) state: Option<Arc<State>>,
    /// Notes and losses in the interval.
    pub(super) messages: Vec<String>,
}

impl IntervalCounters {
    /// Adds an item other than a state.
    #[inline]
    pub fn add(&mut self, directory: &Directory, item: &Item) {
        match item {
            Item::Request(r) => self.request(directory, r),
            Item::Part(p) => self.part(directory, p),
            Item::Submission(s) => self.submission(directory, s),
            Item::Dirtied(d) => self.dirtied(directory, d),
            Item::Note { text, .. } => self.add_message(text.clone()),
            Item::Lost { reason, count, .. } => {
                // Other losses are also in the states.
                if reason == TOO_SLOW {
                    self.lost.count(Loss::Ring, *count);
                }
                // The fold adds this note itself.
                if reason != Loss::Uncounted.label() {
                    self.add_message(format!("{count} lost: {reason}"));
                }
            }
            Item::State(_) | Item::Alloc { .. } | Item::Slow { .. } => {}
        }
    }

    pub(super) fn add_message(&mut self, text: String) {
        if self.messages.len() < 16 && !self.messages.contains(&text) {
            self.messages.push(text);
        }
    }

    #[inline]
    pub(super) fn cell(
        &mut self,
        directory: &Directory,
        member: u32,
        origin: Origin,
        op: Op,
    ) -> Option<&mut CellCounters> {
        let member = *directory.member_now.get(member as usize)? as usize;
        let at = member * CELLS + origin as usize * Op::ALL.len() + op as usize;
        if at >= self.cells.len() {
            self.cells.resize_with((member + 1) * CELLS, || None);
        }
        Some(self.cells.get_mut(at)?.get_or_insert_default())
    }

    #[inline]
    pub(super) fn request(&mut self, directory: &Directory, r: &Request) {
        if let Some(cell) = self.cell(directory, r.member, r.origin, r.op) {
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

    pub(super) fn part(&mut self, directory: &Directory, p: &RequestPart) {
        if let Some(cell) = self.cell(directory, p.member, p.origin, p.op) {
            cell.bytes += u64::from(p.bytes);
        }
    }

    #[inline]
    pub(super) fn submission(&mut self, directory: &Directory, s: &Submission) {
        let Some(&array) = directory.array_now.get(s.array as usize) else {
            return;
        };
        let key = TaskKey { array, pid: s.pid, origin: s.origin, op: s.op };
        let ended = count_run(&mut self.task, key, s.length);
        self.put_task(ended);
        if s.origin != Origin::FileData || !matches!(s.op, Op::Read | Op::Write) {
            return;
        }
        let key = FileKey { array, file: s.file, op: s.op };
        let ended = count_run(&mut self.file, key, s.length);
        self.put_file(ended);
    }

    fn dirtied(&mut self, directory: &Directory, d: &Dirtied) {
        let Some(&array) = directory.array_now.get(d.array as usize) else {
            return;
        };
        let sum = TaskCounters::one(d.bytes);
        let (pid, origin) = (d.pid, d.origin);
        let key = TaskKey { array, pid, origin, op: Op::Write };
        let lost = put(&mut self.dirtied, key, sum);
        self.lost.count(Loss::Tasks, lost);
        if let Some(file) = d.file {
            let key = DirtyKey { array, pid, file };
            let lost = put(&mut self.dirtied_files, key, sum);
            self.lost.count(Loss::Files, lost);
        }
    }

    /// Adds the current task and file to the maps.
    pub(super) fn finish(&mut self) {
        let (task, file) = (self.task.take(), self.file.take());
        self.put_task(task);
        self.put_file(file);
    }

    fn put_task(&mut self, ended: Option<(TaskKey, TaskCounters)>) {
        if let Some((key, sum)) = ended {
            let lost = put(&mut self.tasks, key, sum);
            self.lost.count(Loss::Tasks, lost);
        }
    }

    fn put_file(&mut self, ended: Option<(FileKey, TaskCounters)>) {
        let Some((key, sum)) = ended else { return };
        self.files.entry(key).or_default().add(&sum);
        if self.files.len() > 2 * HALF_CAPACITY {
            let least = median(self.files.values());
            let small =
                |key: &FileKey, sum: &mut TaskCounters| key.file.is_some() && sum.bytes <= least;
            let gone: Vec<_> = self.files.extract_if(small).collect();
            for (key, sum) in gone {
                let unknown = FileKey { file: None, ..key };
                self.files.entry(unknown).or_default().add(&sum);
            }
        }
    }

    /// Adds the increase since the previous state, which is returned.
    pub(super) fn state(
        &mut self,
        directory: &mut Directory,
        state: &Arc<State>,
    ) -> Option<Arc<State>> {
        let was = directory.take(state);
        // The first state is only a base for differences. So is the first state after a restart:
        // until that state, the old programs counted as well.
        if let Some(before) = was.as_deref().filter(|_| !state.restart) {
            self.since(directory, before, state);
        }
        self.state = Some(Arc::clone(state));
        was
    }

    /// Adds the increase of the cumulative counters of the same programs.
    pub(super) fn since(&mut self, directory: &Directory, before: &State, state: &State) {
        for (array, origin, cost) in state.costs_since(before) {
            if let Some(&array) = directory.array_now.get(array as usize) {
                self.costs.add((array, origin), &cost);
            }
        }
        for (member, op, counted) in state.counted_since(before) {
            if let Some(&member) = directory.member_now.get(member as usize) {
                self.counted.add((member, op), &counted);
            }
        }
        self.lost.add(&state.lost.since(&before.lost));
        self.overhead.add(&state.overhead.since(&before.overhead));
    }
}

/// Adds to one of at most 2 * [`HALF_CAPACITY`] sums. If there are more, drops the smaller half and
/// returns its number of bios.
fn put<K: Eq + Hash>(sums: &mut HashMap<K, TaskCounters>, key: K, sum: TaskCounters) -> u64 {
    sums.entry(key).or_default().add(&sum);
    if sums.len() <= 2 * HALF_CAPACITY {
        return 0;
    }
    let least = median(sums.values());
    let gone = sums.extract_if(|_, sum| sum.bytes <= least);
    gone.fold(0u64, |n, (_, sum)| n.saturating_add(sum.bios))
}

fn median<'a>(sums: impl Iterator<Item = &'a TaskCounters>) -> u64 {
    let mut bytes: Vec<u64> = sums.map(|s| s.bytes).collect();
    let middle = bytes.len() / 2;
    if bytes.is_empty() {
        return 0;
    }
    *bytes.select_nth_unstable(middle).1
}
