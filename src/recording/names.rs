//! Converts rows to items: dictionary entries to kinds, operations, origins and flags; names of
//! arrays and members to their numbers in the last state.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::UInt64Type;
use arrow_array::{Array as _, StringArray};

use super::columns::{ArrowColumn, ColumnBatch};
use super::header::Header;
use super::rows::{self, Devices, RecentMap, StateRow};
use super::schema::{COLUMNS, RowKind, path_parse, unescape};
use crate::analysis::counters::TaskId;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::TaskInfo;
use crate::analysis::item::{Dirtied, Item, Request, RequestFlags, RequestPart, State, Submission};
use crate::origin::{Op, Origin};

/// Longest name of an array or member. Names of the kernel are below 32 bytes.
const MAX_NAME: usize = 255;
/// Maximum number of arrays in a state; a damaged one may have any number.
const MAX_ARRAYS: usize = 4096;

/// Longest time between a state, or an interval of the allocator or of slow operations, and a row
/// after it. States are written once a second, and intervals of the allocator at least once an
/// hour; if sysfs hangs, a state can be late by minutes. A row later than this has a damaged time.
const MAX_GAP_US: i64 = 2 * 3_600_000_000;

/// Latest possible time, the end of the year 9999. With times from 1970 to then, differences cannot
/// overflow.
const MAX_TIME_US: i64 = 253_402_300_799_999_999;

/// True for a time that a row can have. `sets_time`: the row is a state, or an interval of the
/// allocator or of slow operations; `newest_us`: the newest of those before.
pub fn is_possible_time(time_us: i64, sets_time: bool, newest_us: Option<i64>) -> bool {
    let latest = newest_us.map_or(i64::MAX, |us| us.saturating_add(MAX_GAP_US));
    (0..=MAX_TIME_US).contains(&time_us) && (sets_time || time_us <= latest)
}

/// Cached number that was not looked up yet.
const NOT_LOOKED_UP: u32 = u32::MAX;
/// Cached number of a name that is not in the last state.
const NOT_FOUND: u32 = u32::MAX - 1;
/// Size of `seen_tasks` and of `seen_files`.
const SEEN: usize = 1024;

/// Arrays and members by name.
#[derive(Debug, Default)]
struct Numbers {
    arrays: HashMap<String, (u32, bool)>,
    members: HashMap<String, HashMap<String, u32>>,
}

impl Numbers {
    fn new(state: &State) -> Self {
        let mut numbers = Self::default();
        let mut member = 0;
        for (array, subject) in (0..).zip(&state.arrays) {
            let single = subject.info.level == "single";
            let name = &subject.info.name;
            numbers.arrays.entry(name.clone()).or_insert((array, single));
            let members = numbers.members.entry(name.clone()).or_default();
            for m in &subject.members {
                members.entry(m.name.clone()).or_insert(member);
                member += 1;
            }
        }
        numbers
    }
}

/// A task in a batch: pid, and keys of array, comm, cgroup and role.
type TaskKeys = (u32, u16, u32, u32, u16);

/// Names, and their numbers in the last state.
pub struct RecordedNames {
    tasks: RecentMap<TaskId, TaskInfo>,
    /// Ids of arrays in the keys of `tasks`. The numbers in states cannot be used, because they
    /// change.
    array_ids: HashMap<String, u32>,
    pub locations: RecentMap<FileId, FileLocation>,
    pub invalid_rows: u64,
    /// Time of the newest state or interval; `None` before the first.
    newest_us: Option<i64>,
    numbers: Arc<Numbers>,
    devices: Arc<Devices>,
    kinds: Vec<Option<RowKind>>,
    ops: Vec<Op>,
    origins: Vec<Origin>,
    flags: Vec<RequestFlags>,
    /// By dictionary key: number of the array, and true for a disk without md.
    arrays: Vec<(u32, bool)>,
    /// By dictionary key: key of the array, and number of the member.
    members: Vec<(u16, u32)>,
    /// By dictionary key: device number.
    filesystems: Vec<u32>,
    /// Tasks of this batch whose names were stored, by pid modulo [`SEEN`].
    seen_tasks: Vec<Option<TaskKeys>>,
    /// Files of this batch whose locations were stored, by inode modulo [`SEEN`]: the file, and
    /// the key of its path.
    seen_files: Vec<Option<(FileId, u32)>>,
}

/// State of [`RecordedNames`], for seeking back.
#[derive(Clone, Debug)]
pub struct NamesMark {
    newest_us: Option<i64>,
    numbers: Arc<Numbers>,
    devices: Arc<Devices>,
}

impl RecordedNames {
    pub fn new(header: &Header) -> Self {
        Self {
            tasks: RecentMap::default(),
            array_ids: HashMap::new(),
            locations: RecentMap::default(),
            invalid_rows: 0,
            newest_us: None,
            numbers: Arc::default(),
            devices: Arc::new(rows::devices(header)),
            kinds: Vec::new(),
            ops: Vec::new(),
            origins: Vec::new(),
            flags: Vec::new(),
            arrays: Vec::new(),
            members: Vec::new(),
            filesystems: Vec::new(),
            seen_tasks: vec![None; SEEN],
            seen_files: vec![None; SEEN],
        }
    }

    pub fn mark(&self) -> NamesMark {
        NamesMark {
            newest_us: self.newest_us,
            numbers: Arc::clone(&self.numbers),
            devices: Arc::clone(&self.devices),
        }
    }

    pub fn restore(&mut self, mark: &NamesMark) {
        self.newest_us = mark.newest_us;
        self.numbers = Arc::clone(&mark.numbers);
        self.devices = Arc::clone(&mark.devices);
        self.forget_cached_indices();
    }

    /// Drops cached numbers after a change of dictionaries or states.
    pub fn forget_cached_indices(&mut self) {
        self.arrays.fill((NOT_LOOKED_UP, false));
        self.members.fill((0, NOT_LOOKED_UP));
        self.filesystems.fill(NOT_LOOKED_UP);
        self.seen_tasks.fill(None);
        self.seen_files.fill(None);
    }

    /// Sets a new dictionary of a column.
    pub fn new_dictionary(&mut self, column: usize, entries: &StringArray) {
        let entry = |i| entries.value(i);
        let all = 0..entries.len();
        match COLUMNS.get(column).map_or("", |c| c.0) {
            "kind" => {
                let known = |i| RowKind::ALL.into_iter().find(|known| known.1 == entry(i));
                self.kinds = all.map(|i| Some(known(i)?.0)).collect();
            }
            "op" => self.ops = all.map(|i| entry(i).parse().unwrap_or(Op::Other)).collect(),
            "origin" => {
                let origin = |i| entry(i).parse().unwrap_or(Origin::Unknown);
                self.origins = all.map(origin).collect();
            }
            "flags" => self.flags = all.map(|i| RequestFlags::parse(entry(i))).collect(),
            "array" => {
                self.arrays = vec![(NOT_LOOKED_UP, false); entries.len()];
                self.members.fill((0, NOT_LOOKED_UP));
            }
            "member" => self.members = vec![(0, NOT_LOOKED_UP); entries.len()],
            "filesystem" => {
                self.filesystems = vec![NOT_LOOKED_UP; entries.len()];
                self.seen_files.fill(None);
            }
            "path" => self.seen_files.fill(None),
            "comm" | "cgroup" | "role" => self.seen_tasks.fill(None),
            _ => {}
        }
    }

    /// The item of a row; `None` if its kind is unknown, its member or array is not in the last
    /// state, or its time is damaged.
    #[inline]
    pub fn item(&mut self, batch: &ColumnBatch, row: usize) -> Option<Item> {
        let kind = *self.kinds.get(usize::from(batch.kind.get(row)?))?;
        let time_us = batch.time.get(row)?;
        let kind = kind?;
        let sets_time = matches!(kind, RowKind::State | RowKind::Alloc | RowKind::Slow);
        let is_possible = is_possible_time(time_us, sets_time, self.newest_us);
        let item = is_possible.then(|| self.item_of_kind(kind, time_us, batch, row)).flatten();
        if sets_time && item.is_some() {
            self.newest_us = self.newest_us.max(Some(time_us));
        }
        self.invalid_rows += u64::from(item.is_none());
        item
    }

    #[inline]
    fn item_of_kind(
        &mut self,
        kind: RowKind,
        time_us: i64,
        batch: &ColumnBatch,
        row: usize,
    ) -> Option<Item> {
        match kind {
            RowKind::Request => {
                let (member, single) = self.member(batch, row)?;
                let (op, origin) = self.op_and_origin(batch, row)?;
                let sector = batch.sector.get(row).unwrap_or(0);
                let length = get_u32(&batch.length, row).unwrap_or(0);
                let array_sector = batch.array_sector.get(row);
                Some(Item::Request(Request {
                    time_us,
                    member,
                    op,
                    flags: self.flags(batch, row),
                    origin,
                    sector,
                    array_sector: array_sector.or((single && length > 0).then_some(sector)),
                    length,
                    bytes: get_u32(&batch.bytes, row).unwrap_or(0),
                    queue_us: get_u32(&batch.queue_us, row),
                    device_us: get_u32(&batch.device_us, row),
                    error: batch.error(row) == Some(true),
                    pid: batch.pid.get(row),
                    file: self.file(batch, row),
                }))
            }
            RowKind::Part => {
                let (member, _) = self.member(batch, row)?;
                let (op, origin) = self.op_and_origin(batch, row)?;
                Some(Item::Part(RequestPart {
                    time_us,
                    member,
                    op,
                    origin,
                    sector: batch.sector.get(row).unwrap_or(0),
                    bytes: get_u32(&batch.bytes, row).unwrap_or(0),
                }))
            }
            RowKind::Submission => {
                let (array, _) = self.array(batch, row)?;
                let (op, origin) = self.op_and_origin(batch, row)?;
                let pid = batch.pid.get(row).unwrap_or(0);
                self.store_task_info(batch, row, pid);
                Some(Item::Submission(Submission {
                    time_us,
                    array,
                    op,
                    flags: self.flags(batch, row),
                    origin,
                    array_sector: batch.array_sector.get(row).unwrap_or(0),
                    length: get_u32(&batch.length, row).unwrap_or(0),
                    pid,
                    file: self.file(batch, row),
                }))
            }
            RowKind::Dirtied => {
                let (array, _) = self.array(batch, row)?;
                let (_, origin) = self.op_and_origin(batch, row)?;
                let pid = batch.pid.get(row).unwrap_or(0);
                self.store_task_info(batch, row, pid);
                Some(Item::Dirtied(Dirtied {
                    time_us,
                    array,
                    origin,
                    bytes: get_u32(&batch.bytes, row).unwrap_or(0),
                    pid,
                    file: self.file(batch, row),
                }))
            }
            RowKind::State => self.state(time_us, batch.text(row)?),
            RowKind::Alloc => Some(Item::Alloc { time_us, json: batch.text(row)?.to_owned() }),
            RowKind::Slow => Some(Item::Slow { time_us, json: batch.text(row)?.to_owned() }),
            RowKind::Note => Some(Item::Note { time_us, text: batch.text(row)?.to_owned() }),
            RowKind::Lost => {
                let text = batch.text(row)?;
                let (count, reason) = text.split_once(" lost: ").unwrap_or(("1", text));
                Some(Item::Lost {
                    time_us,
                    reason: reason.to_owned(),
                    count: count.parse().unwrap_or(1),
                })
            }
        }
    }

    fn op_and_origin(&self, batch: &ColumnBatch, row: usize) -> Option<(Op, Origin)> {
        let op = self.ops.get(usize::from(batch.op.get(row)?))?;
        let origin = self.origins.get(usize::from(batch.origin.get(row)?))?;
        Some((*op, *origin))
    }

    fn flags(&self, batch: &ColumnBatch, row: usize) -> RequestFlags {
        let flags = batch.flags.get(row).map(usize::from);
        flags.and_then(|f| self.flags.get(f).copied()).unwrap_or_default()
    }

    fn array(&mut self, batch: &ColumnBatch, row: usize) -> Option<(u32, bool)> {
        let key = batch.array.get(row)?;
        let cached = self.arrays.get_mut(usize::from(key))?;
        if cached.0 == NOT_LOOKED_UP {
            let found = batch.array.entry(key).and_then(|n| self.numbers.arrays.get(n));
            *cached = found.copied().unwrap_or((NOT_FOUND, false));
        }
        (cached.0 != NOT_FOUND).then_some(*cached)
    }

    fn member(&mut self, batch: &ColumnBatch, row: usize) -> Option<(u32, bool)> {
        let (_, single) = self.array(batch, row)?;
        let array = batch.array.get(row)?;
        let key = batch.member.get(row)?;
        let cached = self.members.get_mut(usize::from(key))?;
        if cached.1 == NOT_LOOKED_UP || cached.0 != array {
            let members = batch.array.entry(array);
            let members = members.and_then(|name| self.numbers.members.get(name));
            let found = batch.member.entry(key).and_then(|name| members?.get(name));
            *cached = (array, found.copied().unwrap_or(NOT_FOUND));
        }
        (cached.1 != NOT_FOUND).then_some((cached.1, single))
    }

    /// Name of a task, by pid and kernel name of the array.
    pub fn task(&self, pid: u32, array: &str) -> Option<Arc<TaskInfo>> {
        let array = *self.array_ids.get(array)?;
        self.tasks.get(&TaskId { array, pid })
    }

    /// Stores the name of a task, once per batch.
    fn store_task_info(&mut self, batch: &ColumnBatch, row: usize, pid: u32) {
        let (Some(comm), Some(array)) = (batch.comm.get(row), batch.array.get(row)) else {
            return;
        };
        let none = (u32::MAX, u16::MAX);
        let cgroup = batch.cgroup.get(row).unwrap_or(none.0);
        let role = batch.role.get(row).unwrap_or(none.1);
        let key = Some((pid, array, comm, cgroup, role));
        let Some(seen) = self.seen_tasks.get_mut(pid as usize % SEEN) else {
            return;
        };
        if *seen == key {
            return;
        }
        *seen = key;
        let info = TaskInfo {
            comm: unescape(batch.comm.entry(comm).unwrap_or_default()),
            cgroup: batch.cgroup.entry(cgroup).map(str::to_owned),
            role: batch.role.entry(role).map(str::to_owned),
        };
        let name = batch.array.entry(array).unwrap_or_default();
        let array = match self.array_ids.get(name) {
            Some(id) => *id,
            None => {
                let id = self.array_ids.len() as u32;
                self.array_ids.insert(name.to_owned(), id);
                id
            }
        };
        self.tasks.put(TaskId { array, pid }, &Arc::new(info));
    }

    fn file(&mut self, batch: &ColumnBatch, row: usize) -> Option<FileId> {
        let inode = batch.inode.get(row)?;
        let filesystem = batch.filesystem.get(row)?;
        let device = self.filesystems.get_mut(usize::from(filesystem))?;
        if *device == NOT_LOOKED_UP {
            let name = batch.filesystem.entry(filesystem)?;
            *device = number(self.devices.get(name).map_or(name, |d| &d.dev));
        }
        let id = FileId { dev: *device, inode, generation: batch.generation.get(row).unwrap_or(0) };
        if let Some(path) = batch.path.get(row) {
            self.add_location(batch, id, filesystem, path);
        }
        Some(id)
    }

    fn add_location(&mut self, batch: &ColumnBatch, id: FileId, filesystem: u16, path: u32) {
        let Some(seen) = self.seen_files.get_mut(id.inode as usize % SEEN) else {
            return;
        };
        if *seen == Some((id, path)) {
            return;
        }
        *seen = Some((id, path));
        let device_name = batch.filesystem.entry(filesystem).unwrap_or_default();
        let device = self.devices.get(device_name);
        let (path, name, deleted) = path_parse(batch.path.entry(path).unwrap_or_default());
        let location = FileLocation {
            path,
            name,
            deleted,
            device_name: device.map_or(String::new(), |_| device_name.to_owned()),
            mount: device.and_then(|d| d.mount.clone()),
        };
        self.locations.put(id, &Arc::new(location));
    }

    fn state(&mut self, time_us: i64, text: &str) -> Option<Item> {
        let StateRow { state, devices } = serde_json::from_str(text).ok()?;
        let (mut state, devices) = (state.into_owned(), devices.into_owned());
        let is_long = |name: &String| name.len() > MAX_NAME;
        let arrays = &state.arrays;
        if arrays.len() > MAX_ARRAYS
            || arrays
                .iter()
                .any(|a| is_long(&a.info.name) || a.members.iter().any(|m| is_long(&m.name)))
        {
            return None;
        }
        state.time_us = time_us;
        let numbers = Numbers::new(&state);
        let same = numbers.arrays == self.numbers.arrays && numbers.members == self.numbers.members;
        if !same || devices != *self.devices {
            if !same {
                self.numbers = Arc::new(numbers);
            }
            self.devices = Arc::new(devices);
            self.forget_cached_indices();
        }
        Some(Item::State(Box::new(state)))
    }
}

/// Device number of `9:127`; 0 if it is invalid.
fn number(dev: &str) -> u32 {
    crate::machine::Dev::parse(dev).map_or(0, crate::machine::Dev::kernel)
}

/// Value of a row. `ColumnLayout::batch` has rejected values of more than 32 bits.
#[inline]
fn get_u32(column: &ArrowColumn<UInt64Type>, row: usize) -> Option<u32> {
    column.get(row).and_then(|v| u32::try_from(v).ok())
}
