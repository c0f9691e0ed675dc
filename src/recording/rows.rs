//! A batch in the writer: a small struct for each item, and the names of tasks, files and arrays.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::header::Header;
use super::schema::RowKind;
use crate::analysis::counters::TaskId;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::TaskInfo;
use crate::analysis::item::{Item, State};
use crate::origin::{Op, Origin};

/// Stands for a missing number.
pub const NONE: u32 = u32::MAX;
/// Stands for a missing sector.
pub const NO_SECTOR: u64 = u64::MAX;

/// An item as a row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub time: i64,
    pub sector: u64,
    pub array_sector: u64,
    pub length: u32,
    pub bytes: u32,
    pub queue: u32,
    pub device: u32,
    pub pid: u32,
    /// Index in [`RowBatch::tasks`].
    pub task: u32,
    /// Index in [`RowBatch::files`]; for rows with text, in [`RowBatch::texts`].
    pub file: u32,
    /// Number of the array for submissions and dirtied bytes; otherwise of the member.
    pub subject: u32,
    pub kind: RowKind,
    pub op: u8,
    pub flags: u8,
    pub origin: u8,
    pub error: bool,
}

impl Row {
    /// A row with only the columns that every kind has.
    pub fn new(time: i64, kind: RowKind, op: Op, origin: Origin) -> Self {
        Self {
            time,
            sector: NO_SECTOR,
            array_sector: NO_SECTOR,
            length: NONE,
            bytes: NONE,
            queue: NONE,
            device: NONE,
            pid: NONE,
            task: NONE,
            file: NONE,
            subject: NONE,
            kind,
            op: op as u8,
            flags: 0,
            origin: origin as u8,
            error: false,
        }
    }
}

/// Names by number, shared by consecutive [`State`]s with the same names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RowNames {
    /// Name, and true for a disk without md.
    pub arrays: Vec<(String, bool)>,
    /// Number of the array, name, slot.
    pub members: Vec<(u32, String, Option<u32>)>,
}

impl RowNames {
    pub fn new(state: &State) -> Self {
        let arrays = state.arrays.iter();
        let members = (0..).zip(&state.arrays).flat_map(|(array, subject)| {
            subject.members.iter().map(move |m| (array, m.name.clone(), m.slot))
        });
        Self {
            arrays: arrays.map(|a| (a.info.name.clone(), a.info.level == "single")).collect(),
            members: members.collect(),
        }
    }
}

/// Block device of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// `9:127`.
    pub dev: String,
    /// Mount point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
}

/// Devices by kernel name.
pub type Devices = BTreeMap<String, Device>;

pub fn devices(header: &Header) -> Devices {
    let filesystems = header.filesystems.iter();
    filesystems
        .map(|fs| {
            let mount = fs.mounts.first().map(|m| m.path.clone());
            let dev = fs.dev.clone();
            (fs.name.clone(), Device { dev, mount })
        })
        .collect()
}

/// JSON of a `state` row. `tests` compares it with a stored file. When a field is renamed in
/// memory, keep its name in the file with `#[serde(rename)]`.
#[derive(Serialize, Deserialize)]
pub struct StateRow<'a> {
    #[serde(flatten)]
    pub state: Cow<'a, State>,
    #[serde(default)]
    pub devices: Cow<'a, Devices>,
}

#[derive(Debug, Default)]
pub struct RowBatch {
    pub rows: Vec<Row>,
    pub names: Arc<RowNames>,
    /// Filesystems in the states before this batch.
    pub devices: Arc<Devices>,
    pub tasks: Vec<Option<Arc<TaskInfo>>>,
    pub files: Vec<(FileId, Option<Arc<FileLocation>>)>,
    pub texts: Vec<String>,
    by_task: HashMap<TaskId, u32>,
    by_file: HashMap<FileId, u32>,
    /// The last task and file, cached because the next row usually has the same.
    last_task: Option<(TaskId, u32)>,
    last_file: Option<(FileId, u32)>,
}

impl RowBatch {
    /// An empty batch with capacity for `rows`.
    pub fn new(rows: usize, devices: Arc<Devices>) -> Self {
        Self { rows: Vec::with_capacity(rows), devices, ..Self::default() }
    }

    /// Empties the batch and keeps its allocations.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.tasks.clear();
        self.files.clear();
        self.texts.clear();
        self.by_task.clear();
        self.by_file.clear();
        (self.last_task, self.last_file) = (None, None);
    }

    pub fn add_text(&mut self, time: i64, kind: RowKind, text: String) {
        let mut row = Row::new(time, kind, Op::Other, Origin::Unknown);
        row.file = self.texts.len() as u32;
        self.texts.push(text);
        self.rows.push(row);
    }

    /// Adds a row for any item but a state.
    pub fn add(&mut self, item: &Item, known: &NameCache) {
        let row = match item {
            Item::Request(r) => {
                let mut row = Row::new(r.time_us, RowKind::Request, r.op, r.origin);
                row.subject = r.member;
                row.flags = r.flags.bits();
                row.sector = r.sector;
                row.array_sector = r.array_sector.unwrap_or(NO_SECTOR);
                (row.length, row.bytes) = (r.length, r.bytes);
                (row.queue, row.device) = (r.queue_us.unwrap_or(NONE), r.device_us.unwrap_or(NONE));
                row.error = r.error;
                if let Some(pid) = r.pid {
                    let member = self.names.members.get(r.member as usize);
                    let array = member.map_or(NONE, |(array, ..)| *array);
                    (row.pid, row.task) = (pid, self.task_number(array, pid, known));
                }
                row.file = r.file.map_or(NONE, |id| self.file(id, known));
                row
            }
            Item::Part(p) => {
                let mut row = Row::new(p.time_us, RowKind::Part, p.op, p.origin);
                (row.subject, row.sector, row.bytes) = (p.member, p.sector, p.bytes);
                row
            }
            Item::Submission(s) => {
                let mut row = Row::new(s.time_us, RowKind::Submission, s.op, s.origin);
                (row.subject, row.flags) = (s.array, s.flags.bits());
                row.array_sector = s.array_sector;
                (row.length, row.bytes) = (s.length, s.length);
                (row.pid, row.task) = (s.pid, self.task_number(s.array, s.pid, known));
                row.file = s.file.map_or(NONE, |id| self.file(id, known));
                row
            }
            Item::Dirtied(d) => {
                let mut row = Row::new(d.time_us, RowKind::Dirtied, Op::Write, d.origin);
                (row.subject, row.bytes, row.pid) = (d.array, d.bytes, d.pid);
                row.task = self.task_number(d.array, d.pid, known);
                row.file = d.file.map_or(NONE, |id| self.file(id, known));
                row
            }
            Item::Alloc { time_us, json } => {
                return self.add_text(*time_us, RowKind::Alloc, json.clone());
            }
            Item::Slow { time_us, json } => {
                return self.add_text(*time_us, RowKind::Slow, json.clone());
            }
            Item::Note { time_us, text } => {
                return self.add_text(*time_us, RowKind::Note, text.clone());
            }
            Item::Lost { time_us, reason, count } => {
                let text = format!("{count} lost: {reason}");
                return self.add_text(*time_us, RowKind::Lost, text);
            }
            Item::State(_) => return,
        };
        self.rows.push(row);
    }

    fn task_number(&mut self, array: u32, pid: u32, known: &NameCache) -> u32 {
        let task = TaskId { array, pid };
        if let Some((last, number)) = self.last_task
            && last == task
        {
            return number;
        }
        let number = *self.by_task.entry(task).or_insert_with(|| {
            self.tasks.push(known.tasks.get(&task));
            self.tasks.len() as u32 - 1
        });
        self.last_task = Some((task, number));
        number
    }

    fn file(&mut self, id: FileId, known: &NameCache) -> u32 {
        if let Some((last, number)) = self.last_file
            && last == id
        {
            return number;
        }
        let number = *self.by_file.entry(id).or_insert_with(|| {
            self.files.push((id, known.locations.get(&id)));
            self.files.len() as u32 - 1
        });
        self.last_file = Some((id, number));
        number
    }

    /// Names a task in the following rows, and in earlier rows without a name.
    pub fn set_task_info(&mut self, task: TaskId, info: &Arc<TaskInfo>) {
        let Some(number) = self.by_task.get_mut(&task) else {
            return;
        };
        match self.tasks.get_mut(*number as usize) {
            Some(task @ None) => *task = Some(Arc::clone(info)),
            Some(Some(task)) if *task == *info => {}
            _ => {
                *number = self.tasks.len() as u32;
                self.tasks.push(Some(Arc::clone(info)));
                self.last_task = None;
            }
        }
    }

    /// Sets the location of a file, also in earlier rows.
    pub fn set_file_location(&mut self, id: FileId, location: &Arc<FileLocation>) {
        let number = self.by_file.get(&id);
        if let Some(file) = number.and_then(|&n| self.files.get_mut(n as usize)) {
            file.1 = Some(Arc::clone(location));
        }
    }
}

/// Names of tasks and locations of files. When there are too many, the least recently set are
/// dropped.
#[derive(Debug, Default)]
pub struct NameCache {
    pub tasks: RecentMap<TaskId, TaskInfo>,
    pub locations: RecentMap<FileId, FileLocation>,
}

/// A map of at most twice [`HALF_CAPACITY`] entries, whose older half is dropped when it is full.
#[derive(Debug)]
pub struct RecentMap<K, V> {
    young: HashMap<K, Arc<V>>,
    old: HashMap<K, Arc<V>>,
}

/// Half the capacity of a [`RecentMap`].
const HALF_CAPACITY: usize = 32_768;

impl<K, V> Default for RecentMap<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash, V: PartialEq> RecentMap<K, V> {
    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.young.get(key).or_else(|| self.old.get(key)).cloned()
    }

    /// Sets a value. False if the key had it already.
    pub fn put(&mut self, key: K, value: &Arc<V>) -> bool {
        let new = self.get(&key).is_none_or(|known| known != *value);
        if self.young.len() >= HALF_CAPACITY {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, Arc::clone(value));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::{HALF_CAPACITY, RecentMap};
    use std::sync::Arc;

    #[test]
    fn recent_values_are_kept() {
        let mut recent = RecentMap::default();
        for key in 0..3 * HALF_CAPACITY as u32 {
            assert!(recent.put(key, &Arc::new(key)));
        }
        assert!(!recent.put(3 * HALF_CAPACITY as u32 - 1, &Arc::new(3 * HALF_CAPACITY as u32 - 1)));
        assert_eq!(recent.get(&0), None);
        assert!(recent.get(&(2 * HALF_CAPACITY as u32)).is_some());
        assert!(recent.young.len() + recent.old.len() <= 2 * HALF_CAPACITY);
    }
}
