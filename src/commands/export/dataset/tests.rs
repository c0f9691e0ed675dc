//! Files of a dataset, read back, and the tables of docs/dataset.md.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use tempfile::TempDir;

use super::run;
use crate::analysis::item::Item;
use crate::recording::dataset::columns::DatasetTable;
use crate::recording::dataset::files;
use crate::recording::dataset::source::DAY_US;
use crate::recording::dataset_name::DatasetName;
use crate::recording::fixture::{self, START};

/// Date of [`START`].
const DAY: &str = "date=2026-11-20";

/// A dataset, and a recording.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn dataset(&self) -> PathBuf {
        self.0.path().join("fleet")
    }

    /// Exports a recording of `items`.
    fn export(&self, items: &[Item]) -> anyhow::Result<()> {
        self.export_bytes(&fixture::file_of(items, 700))
    }

    fn export_bytes(&self, recording: &[u8]) -> anyhow::Result<()> {
        let file = self.0.path().join("a.rtrace");
        fs::write(&file, recording).unwrap();
        run(&[file], &DatasetName::Directory(self.dataset()))
    }

    /// Every file, hidden ones too, by its path in the dataset.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories = vec![self.dataset()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let name = path.strip_prefix(self.dataset()).unwrap().display().to_string();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    /// Number of rows by date.
    fn rows(&self, table: &str) -> BTreeMap<String, i64> {
        let files = self.files();
        let mine = files.keys().filter(|name| name.starts_with(&format!("{table}/")));
        let date = |name: &String| name.split('/').nth(1).unwrap().to_owned();
        mine.map(|name| (date(name), metadata(&self.dataset().join(name)).1)).collect()
    }
}

/// Metadata and number of rows, after reading all rows.
fn metadata(path: &Path) -> (ParquetMetaData, i64) {
    let file = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let metadata = file.metadata().as_ref().clone();
    let rows = file.build().unwrap().map(|batch| batch.unwrap().num_rows() as i64).sum();
    assert_eq!(metadata.file_metadata().num_rows(), rows);
    (metadata, rows)
}

fn requests(items: &[Item]) -> i64 {
    items.iter().filter(|i| matches!(i, Item::Request(_) | Item::Part(_))).count() as i64
}

/// Items from `before` µs before midnight on.
fn across_midnight(before: i64) -> Vec<Item> {
    let to = (START / DAY_US + 1) * DAY_US - before - START;
    let mut items = fixture::items(4000, 4);
    for item in &mut items {
        match item {
            Item::Request(r) => r.time_us += to,
            Item::Part(p) => p.time_us += to,
            Item::Submission(s) => s.time_us += to,
            Item::Dirtied(d) => d.time_us += to,
            Item::State(s) => s.time_us += to,
            Item::Alloc { time_us, .. } => *time_us += to,
            _ => {}
        }
    }
    items
}

#[test]
fn rows_are_in_the_partition_of_their_day() {
    let folder = Folder::new();
    let items = across_midnight(1_500_000);
    folder.export(&items).unwrap();
    let rows = folder.rows("requests");
    let days: Vec<&str> = rows.keys().map(String::as_str).collect();
    assert_eq!(days, ["date=2026-11-20", "date=2026-11-21"]);
    assert_eq!(rows.values().sum::<i64>(), requests(&items));
    let midnight = (START / DAY_US + 1) * DAY_US;
    let earlier: Vec<Item> = items.iter().filter(|i| i.time_us() < midnight).cloned().collect();
    assert_eq!(rows["date=2026-11-20"], requests(&earlier));
    assert!(folder.files().keys().all(|name| name.contains("/host=dbhost/")));
}

#[test]
fn row_groups_are_bounded_and_have_statistics() {
    let folder = Folder::new();
    let properties = files::properties(DatasetTable::Requests).unwrap();
    assert_eq!(properties.max_row_group_row_count(), Some(1 << 17));
    let items = fixture::items(2000, 3);
    folder.export(&items).unwrap();
    let files = folder.files();
    let name = files.keys().find(|name| name.starts_with("requests/")).unwrap();
    let (metadata, rows) = metadata(&folder.dataset().join(name));
    assert_eq!(rows, requests(&items));
    assert_eq!(metadata.row_groups().len(), 1);
    for group in metadata.row_groups() {
        for column in group.columns() {
            assert!(matches!(column.compression(), Compression::ZSTD(_)));
            assert!(column.statistics().is_some(), "{}", column.column_path());
        }
    }
    let stored = metadata.file_metadata().key_value_metadata().unwrap();
    let version = stored.iter().find(|pair| pair.key == "raidtrace.dataset").unwrap();
    assert_eq!(version.value.as_deref(), Some("1"));
}

/// A damaged time neither makes a partition nor keeps the undamaged copy out.
#[test]
fn damaged_rows() {
    let folder = Folder::new();
    let items = fixture::items(2000, 3);
    let mut damaged = items.clone();
    let request = damaged.iter_mut().rev().find_map(|item| match item {
        Item::Request(request) => Some(request),
        _ => None,
    });
    request.unwrap().time_us += 500 * 365 * DAY_US;
    folder.export(&damaged).unwrap();
    let rows = folder.rows("requests");
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), [(DAY.to_owned(), requests(&items) - 1)]);
    folder.export(&items).unwrap();
    assert_eq!(folder.rows("requests")[DAY], requests(&items));

    // A number that does not fit is the largest.
    let folder = Folder::new();
    for item in &mut damaged {
        if let Item::State(state) = item {
            state.arrays[0].info.chunk_bytes = u64::MAX;
        }
    }
    folder.export(&damaged).unwrap();
    assert!(folder.rows("intervals")[DAY] > 0);
}

#[test]
fn a_longer_copy_replaces_a_shorter_one() {
    let folder = Folder::new();
    let items = across_midnight(2_500_000);
    let cut = items.len() / 4;
    let last = |n: usize| Item::State(Box::new(fixture::state(items[n].time_us())));
    let short = [&items[..cut], &[last(cut)]].concat();
    folder.export(&items).unwrap();
    let whole = folder.files();
    folder.export(&short).unwrap();
    assert_eq!(folder.files(), whole, "a shorter copy changes nothing");
    let other = Folder::new();
    other.export(&short).unwrap();
    let before = other.files();
    assert!(before.len() < whole.len(), "fewer days");
    other.export(&items).unwrap();
    assert!(other.files() == whole, "a longer copy replaces it");
    other.export(&items).unwrap();
    assert!(other.files() == whole, "the same copy changes nothing");
}

#[test]
fn another_part_of_a_recording_is_refused() {
    let folder = Folder::new();
    let items = fixture::items(4000, 4);
    let (first, second) = items.split_at(items.len() / 2);
    let start = Item::State(Box::new(fixture::state(second[0].time_us())));
    folder.export(first).unwrap();
    let before = folder.files();
    let error = folder.export(&[&[start], second].concat()).unwrap_err().to_string();
    assert!(error.contains("of which the dataset has another"), "{error}");
    assert!(folder.files() == before);
}

#[test]
fn what_an_interrupted_export_left_is_removed() {
    let folder = Folder::new();
    let items = fixture::items(300, 2);
    folder.export(&items).unwrap();
    let whole = folder.files();
    let file = folder.dataset().join(whole.keys().next().unwrap());
    let name = file.file_name().unwrap().to_str().unwrap();
    let id = name.strip_suffix(".parquet").unwrap();
    fs::write(file.with_file_name(format!(".{id}.tmp")), "PAR1").unwrap();
    fs::write(folder.dataset().join(format!(".{id}.lock")), "").unwrap();
    // Damaged by another program.
    fs::write(&file, "PAR1").unwrap();
    let foreign = file.with_file_name(".20200101T000000.000000Z-00000000.tmp");
    fs::write(&foreign, "").unwrap();
    folder.export(&items).unwrap();
    fs::remove_file(&foreign).expect("the file of another recording");
    assert!(folder.files() == whole);
}

#[test]
fn recordings_without_rows_are_named() {
    let folder = Folder::new();
    let error = folder.export(&[]).unwrap_err().to_string();
    assert!(error.contains("a.rtrace: has no rows"), "{error}");
    assert_eq!(folder.files().len(), 0);
}
