//! Files whose data an array reads and writes.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

use super::counters::{DirtyKey, FileKey, TaskCounters};
use super::cube::Amount as _;
pub use super::file_id::FileId;
use crate::origin::Op;

/// Maximum number of files listed per array, largest first.
pub const MAX_FILES: usize = 256;
/// Maximum number of files listed per task, largest first.
pub const MAX_TASK_FILES: usize = 16;

/// Location of a file, as far as it is known. Names are untrusted and may contain any bytes except
/// NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLocation {
    /// Path in raidtrace's mount namespace: `/srv/db/a`; for a deleted file its last path.
    pub path: Option<Vec<u8>>,
    /// Name in its directory when the file was first seen. A file with several links has several
    /// names.
    pub name: Option<Vec<u8>>,
    /// True if no file has that path or name any more.
    pub deleted: bool,
    /// Kernel name of the filesystem's block device; empty if unknown.
    pub device_name: String,
    /// Mount point of the filesystem in this mount namespace.
    pub mount: Option<String>,
}

impl FileLocation {
    /// Keeps a path that was found in an earlier interval; `deleted` comes from the newer one.
    pub fn fill(&mut self, older: Self) {
        self.path = self.path.take().or(older.path);
        self.name = self.name.take().or(older.name);
    }
}

/// Adds each item of `more` to the one in `all` with the same key, or appends it.
pub(super) fn merge_by<T, K: Eq + Hash>(
    all: &mut Vec<T>,
    more: Vec<T>,
    key: impl Fn(&T) -> K,
    mut add: impl FnMut(&mut T, T),
) {
    let mut indices: HashMap<K, usize> = all.iter().map(&key).zip(0..).collect();
    for item in more {
        let index = *indices.entry(key(&item)).or_insert(all.len());
        match all.get_mut(index) {
            Some(same) => add(same, item),
            None => all.push(item),
        }
    }
}

/// A file in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSnapshot {
    /// Identity of the file.
    pub id: FileId,
    pub location: FileLocation,
    /// Bios submitted to the array, by operation.
    pub io: Vec<FileIo>,
}

impl FileSnapshot {
    /// Bytes of all operations.
    pub fn bytes(&self) -> u64 {
        self.io.iter().fold(0, |sum, io| sum.saturating_add(io.bytes))
    }

    fn add(&mut self, io: FileIo) {
        match self.io.iter_mut().find(|i| i.op == io.op) {
            Some(i) => {
                i.bios.add(&io.bios);
                i.bytes.add(&io.bytes);
            }
            None => self.io.push(io),
        }
    }
}

/// One operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileIo {
    /// `read` or `write`.
    pub op: Op,
    /// Bios submitted to the array.
    pub bios: u64,
    /// Bytes of these bios.
    pub bytes: u64,
}

/// File data by file. The total equals the file data that tasks submitted to the array, apart from
/// bios in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files<const MOST: usize = MAX_FILES> {
    /// The largest files, at most `MOST`, largest first.
    pub busiest: Vec<FileSnapshot>,
    /// Sum over all other files.
    pub rest: TaskCounters,
    /// File data whose file is unknown.
    pub unattributed: TaskCounters,
}

impl Files {
    /// Files of an array in one interval, without locations.
    pub fn new(counters: &HashMap<FileKey, TaskCounters>, array: u32) -> Self {
        let here = counters.iter().filter(|(key, _)| key.array == array);
        Self::sum(here.map(|(key, sum)| (key.file, key.op, *sum)))
    }

    /// Files of an array that tasks dirtied in one interval, without locations.
    pub fn dirtied(counters: &HashMap<DirtyKey, TaskCounters>, array: u32) -> Self {
        let here = counters.iter().filter(|(key, _)| key.array == array);
        Self::sum(here.map(|(key, sum)| (Some(key.file), Op::Write, *sum)))
    }
}

impl<const MOST: usize> Files<MOST> {
    /// Sums up by file and operation, without locations.
    pub fn sum(all: impl Iterator<Item = (Option<FileId>, Op, TaskCounters)>) -> Self {
        let mut files = Self::default();
        let mut by_id: HashMap<FileId, FileSnapshot> = HashMap::new();
        for (id, op, sum) in all {
            let Some(id) = id else {
                files.unattributed.add(&sum);
                continue;
            };
            let TaskCounters { bios, bytes } = sum;
            let file = by_id.entry(id).or_default();
            file.id = id;
            file.add(FileIo { op, bios, bytes });
        }
        files.busiest = by_id.into_values().collect();
        for file in &mut files.busiest {
            file.io.sort_by_key(|io| io.op);
        }
        files.bound();
        files
    }

    /// Adds the files of an earlier interval.
    pub fn merge(&mut self, older: Self) {
        merge_by(
            &mut self.busiest,
            older.busiest,
            |f| f.id,
            |file, old| {
                for io in old.io {
                    file.add(io);
                }
                file.io.sort_by_key(|io| io.op);
                file.location.fill(old.location);
            },
        );
        self.rest.add(&older.rest);
        self.unattributed.add(&older.unattributed);
        self.bound();
    }

    /// Sorts, and moves all but the largest files into `rest`.
    fn bound(&mut self) {
        self.busiest.sort_by_cached_key(|file| (std::cmp::Reverse(file.bytes()), file.id));
        for file in self.busiest.drain(MOST.min(self.busiest.len())..) {
            for FileIo { bios, bytes, .. } in file.io {
                self.rest.add(&TaskCounters { bios, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FileId, FileKey, Files, MAX_FILES, TaskCounters};
    use crate::origin::Op;
    use std::collections::HashMap;

    fn key(inode: u64, op: Op) -> FileKey {
        FileKey {
            array: 0,
            file: (inode > 0).then_some(FileId { dev: 9 << 20 | 127, inode, generation: 7 }),
            op,
        }
    }

    fn sum(bios: u64) -> TaskCounters {
        TaskCounters { bios, bytes: bios * 4096 }
    }

    #[test]
    fn operations_of_a_file_are_one_row_and_the_largest_comes_first() {
        let mut counters = HashMap::from([
            (key(12, Op::Write), sum(3)),
            (key(12, Op::Read), sum(2)),
            (key(13, Op::Read), sum(9)),
            (key(0, Op::Read), sum(1)),
        ]);
        let other = FileKey { array: 1, ..key(14, Op::Read) };
        counters.insert(other, sum(100));
        let files = Files::new(&counters, 0);
        let inodes: Vec<_> = files.busiest.iter().map(|f| f.id.inode).collect();
        assert_eq!(inodes, [13, 12]);
        let ops: Vec<_> = files.busiest[1].io.iter().map(|i| (i.op, i.bios)).collect();
        assert_eq!(ops, [(Op::Read, 2), (Op::Write, 3)]);
        assert_eq!((files.unattributed.bios, files.unattributed.bytes), (1, 4096));
        assert_eq!(files.busiest[0].id.device(), "9:127");
    }

    #[test]
    fn the_largest_files_are_kept_and_all_are_counted() {
        let many = |from: u64| -> HashMap<_, _> {
            let files = from..from + MAX_FILES as u64 + 10;
            files.map(|i| (key(i, Op::Write), sum(i))).collect()
        };
        let all: u64 = many(1).values().map(|s| s.bios).sum();
        let mut files = Files::new(&many(1), 0);
        assert_eq!(files.busiest.len(), MAX_FILES);
        assert_eq!(files.rest.bios, (1..=10).sum::<u64>());
        let older = files.clone();
        files.merge(older);
        assert_eq!(files.busiest.len(), MAX_FILES);
        let kept: u64 = files.busiest.iter().map(|f| f.io[0].bios).sum();
        assert_eq!(kept + files.rest.bios, 2 * all);
    }

    #[test]
    fn merged_files_keep_their_path() {
        let mut now = Files::new(&HashMap::from([(key(12, Op::Write), sum(3))]), 0);
        let mut was = Files::new(
            &HashMap::from([(key(12, Op::Read), sum(2)), (key(0, Op::Read), sum(5))]),
            0,
        );
        was.busiest[0].location.path = Some(b"/srv/a".to_vec());
        now.busiest[0].location.deleted = true;
        now.merge(was);
        assert_eq!(now.busiest[0].io.len(), 2);
        assert_eq!(now.busiest[0].location.path.as_deref(), Some(&b"/srv/a"[..]));
        assert!(now.busiest[0].location.deleted);
        let five = TaskCounters { bios: 5, bytes: 5 * 4096 };
        assert_eq!(now.unattributed, five);
    }
}
