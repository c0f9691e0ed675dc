//! The files that an array's file data belongs to.

use std::collections::HashMap;

use super::counters::{DirtyKey, FileKey, TaskCounters};
use crate::origin::Op;

/// An array's files that are told one by one; of more, the largest.
pub const FILES: usize = 256;
/// The same of the files that one task dirtied.
pub const TASK_FILES: usize = 16;

/// A file for as long as it exists: a deleted file's inode number is given to the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Device number of its filesystem as the kernel has it: major << 20 | minor.
    pub dev: u32,
    /// Inode number.
    pub inode: u64,
    /// Generation of the inode (`lsattr -v`).
    pub generation: u32,
}

impl FileId {
    /// `9:127`, as sysfs writes it.
    pub fn device(&self) -> String {
        format!("{}:{}", self.dev >> 20, self.dev & 0xf_ffff)
    }
}

/// Where a file is, as far as it could be told. Bytes are untrusted and may be anything but NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLocation {
    /// As seen from here: `/srv/db/a`; of a deleted file, what it was.
    pub path: Option<Vec<u8>>,
    /// Its name in its directory when it was first seen; of several links, one.
    pub name: Option<Vec<u8>>,
    /// It is not there under that path or name any more.
    pub deleted: bool,
    /// Kernel name of the block device of its filesystem; empty when that is not known.
    pub device_name: String,
    /// Where that is mounted, if it is here.
    pub mount: Option<String>,
}

/// A file in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSnapshot {
    /// Which one.
    pub id: FileId,
    /// Where it is.
    pub location: FileLocation,
    /// By operation; bios submitted to the array.
    pub io: Vec<FileIo>,
}

impl FileSnapshot {
    /// Bytes of all operations.
    pub fn bytes(&self) -> u64 {
        self.io
            .iter()
            .fold(0, |sum, io| sum.saturating_add(io.bytes))
    }

    fn add(&mut self, io: FileIo) {
        match self.io.iter_mut().find(|i| i.op == io.op) {
            Some(i) => {
                i.bios = i.bios.saturating_add(io.bios);
                i.bytes = i.bytes.saturating_add(io.bytes);
            }
            None => self.io.push(io),
        }
    }
}

/// One operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIo {
    /// `read` or `write`.
    pub op: Op,
    /// Bios submitted to the array.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Bios that no file is named for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSum {
    /// Bios submitted to the array.
    pub bios: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl FileSum {
    fn add(&mut self, bios: u64, bytes: u64) {
        self.bios = self.bios.saturating_add(bios);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// File data by file; an array's is together as much as its tasks submitted, but for what was on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files<const MOST: usize = FILES> {
    /// Largest first, at most `MOST`.
    pub busiest: Vec<FileSnapshot>,
    /// Of files that are not among these.
    pub rest: FileSum,
    /// Of file data whose file could not be told.
    pub untold: FileSum,
}

impl Files {
    /// One interval of an array; places are still to be found.
    pub fn new(counters: &HashMap<FileKey, TaskCounters>, array: u32) -> Self {
        let here = counters.iter().filter(|(key, _)| key.array == array);
        Self::sum(here.map(|(key, sum)| (key.file, key.op, *sum)))
    }

    /// File data of an array that tasks dirtied in one interval; places are still to be found.
    pub fn dirtied(counters: &HashMap<DirtyKey, TaskCounters>, array: u32) -> Self {
        let here = counters.iter().filter(|(key, _)| key.array == array);
        Self::sum(here.map(|(key, sum)| (Some(key.file), Op::Write, *sum)))
    }
}

impl<const MOST: usize> Files<MOST> {
    /// Adds these up by file and operation; places are still to be found.
    pub fn sum(all: impl Iterator<Item = (Option<FileId>, Op, TaskCounters)>) -> Self {
        let mut files = Self::default();
        let mut by_id: HashMap<FileId, FileSnapshot> = HashMap::new();
        for (id, op, TaskCounters { bios, bytes }) in all {
            let Some(id) = id else {
                files.untold.add(bios, bytes);
                continue;
            };
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

    /// Makes these the files of two intervals, of which `older` came first.
    pub fn merge(&mut self, older: Self) {
        let mut places: HashMap<FileId, usize> = self
            .busiest
            .iter()
            .enumerate()
            .map(|(place, file)| (file.id, place))
            .collect();
        for old in older.busiest {
            let Some(file) = places
                .get(&old.id)
                .and_then(|&place| self.busiest.get_mut(place))
            else {
                places.insert(old.id, self.busiest.len());
                self.busiest.push(old);
                continue;
            };
            for io in old.io {
                file.add(io);
            }
            file.io.sort_by_key(|io| io.op);
            // What was found once is better than nothing; that it was deleted is newer.
            file.location.path = file.location.path.take().or(old.location.path);
            file.location.name = file.location.name.take().or(old.location.name);
        }
        self.rest.add(older.rest.bios, older.rest.bytes);
        self.untold.add(older.untold.bios, older.untold.bytes);
        self.bound();
    }

    /// Sorts, and keeps the largest.
    fn bound(&mut self) {
        self.busiest
            .sort_by_cached_key(|file| (std::cmp::Reverse(file.bytes()), file.id));
        for file in self.busiest.drain(MOST.min(self.busiest.len())..) {
            for io in file.io {
                self.rest.add(io.bios, io.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FILES, FileId, FileKey, FileSum, Files, TaskCounters};
    use crate::origin::Op;
    use std::collections::HashMap;

    fn key(inode: u64, op: Op) -> FileKey {
        FileKey {
            array: 0,
            file: (inode > 0).then_some(FileId {
                dev: 9 << 20 | 127,
                inode,
                generation: 7,
            }),
            op,
        }
    }

    fn sum(bios: u64) -> TaskCounters {
        TaskCounters {
            bios,
            bytes: bios * 4096,
        }
    }

    #[test]
    fn operations_of_a_file_are_one_row_and_the_largest_comes_first() {
        let mut counters = HashMap::from([
            (key(12, Op::Write), sum(3)),
            (key(12, Op::Read), sum(2)),
            (key(13, Op::Read), sum(9)),
            (key(0, Op::Read), sum(1)),
        ]);
        let other = FileKey {
            array: 1,
            ..key(14, Op::Read)
        };
        counters.insert(other, sum(100));
        let files = Files::new(&counters, 0);
        let inodes: Vec<_> = files.busiest.iter().map(|f| f.id.inode).collect();
        assert_eq!(inodes, [13, 12]);
        let ops: Vec<_> = files.busiest[1].io.iter().map(|i| (i.op, i.bios)).collect();
        assert_eq!(ops, [(Op::Read, 2), (Op::Write, 3)]);
        assert_eq!((files.untold.bios, files.untold.bytes), (1, 4096));
        assert_eq!(files.busiest[0].id.device(), "9:127");
    }

    #[test]
    fn of_many_files_the_largest_are_kept_and_all_are_counted() {
        let many = |from: u64| -> HashMap<_, _> {
            let files = from..from + FILES as u64 + 10;
            files.map(|i| (key(i, Op::Write), sum(i))).collect()
        };
        let all: u64 = many(1).values().map(|s| s.bios).sum();
        let mut files = Files::new(&many(1), 0);
        assert_eq!(files.busiest.len(), FILES);
        assert_eq!(files.rest.bios, (1..=10).sum::<u64>());
        let older = files.clone();
        files.merge(older);
        assert_eq!(files.busiest.len(), FILES);
        let kept: u64 = files.busiest.iter().map(|f| f.io[0].bios).sum();
        assert_eq!(kept + files.rest.bios, 2 * all);
    }

    #[test]
    fn merged_files_keep_what_was_known_of_them() {
        let mut now = Files::new(&HashMap::from([(key(12, Op::Write), sum(3))]), 0);
        let mut was = Files::new(
            &HashMap::from([(key(12, Op::Read), sum(2)), (key(0, Op::Read), sum(5))]),
            0,
        );
        was.busiest[0].location.path = Some(b"/srv/a".to_vec());
        now.busiest[0].location.deleted = true;
        now.merge(was);
        assert_eq!(now.busiest[0].io.len(), 2);
        assert_eq!(
            now.busiest[0].location.path.as_deref(),
            Some(&b"/srv/a"[..])
        );
        assert!(now.busiest[0].location.deleted);
        let five = FileSum {
            bios: 5,
            bytes: 5 * 4096,
        };
        assert_eq!(now.untold, five);
    }
}
