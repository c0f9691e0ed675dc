//! Files of one source in the dataset: written under temporary names, and renamed when all are
//! complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde_json::Value;

use super::columns::{ColumnType, DatasetTable, TABLES, VERSION};
use super::source::{DAY_US, DatasetSource, date_directory};
use crate::machine::output::{create, sync_folder};

/// Maximum number of rows of a row group.
const GROUP_ROWS: usize = 1 << 17;
/// zstd level. The files are written once and read many times.
const LEVEL: i32 = 3;
/// Rows from JSON that are kept until they are written.
const PENDING: usize = 4096;
/// Maximum number of days of a source: each has open files.
pub const MAX_DAYS: usize = 100;

/// The part of a source that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Times of the first and last row, µs since 1970.
    pub from_us: i64,
    pub to_us: i64,
    /// Rows of the source, of all kinds.
    pub rows: i64,
}

impl Extent {
    /// True if everything in `other` is in this part, too.
    fn includes(&self, other: &Self) -> bool {
        self.from_us <= other.from_us && self.to_us >= other.to_us && self.rows >= other.rows
    }

    fn key_values(&self) -> [(&'static str, i64); 3] {
        [("from_us", self.from_us), ("to_us", self.to_us), ("rows", self.rows)]
    }

    /// Reads the extent that [`Extent::key_values`] was stored for; `None` if the file is damaged.
    fn read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).ok()?;
        let stored = metadata.file_metadata().key_value_metadata()?;
        let [from_us, to_us, rows] = Self::default().key_values().map(|(name, _)| {
            let name = format!("raidtrace.{name}");
            let found = stored.iter().find(|pair| pair.key == name)?;
            found.value.as_ref()?.parse().ok()
        });
        Some(Self { from_us: from_us?, to_us: to_us?, rows: rows? })
    }
}

/// Result of writing the files of a source.
#[derive(Debug)]
pub enum Outcome {
    /// Rows by table, and bytes of all files.
    Written([u64; TABLES.len()], u64),
    /// The dataset has a longer copy of the source.
    Longer,
    /// The dataset has another part of the source.
    Other(Extent),
}

/// The right to write the files of one source, which other processes wait for. Its file is
/// removed on drop.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn new(path: PathBuf) -> io::Result<Self> {
        loop {
            // Others may write the directory: no link, and no FIFO, which would block.
            let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = File::from(open(&path, flags | OFlags::CLOEXEC, Mode::from(0o644))?);
            if !file.metadata()?.is_file() {
                let name = path.display();
                return Err(io::Error::other(format!("{name} is not a regular file")));
            }
            flock(&file, FlockOperation::LockExclusive)?;
            // The last owner may have removed the file meanwhile.
            let ours = file.metadata()?.ino();
            if path.metadata().is_ok_and(|found| found.ino() == ours) {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A file that is being written; removed on drop unless it was renamed.
struct TableFile {
    writer: ArrowWriter<File>,
    directory: PathBuf,
    temporary: PathBuf,
    pending: Vec<(i64, Value)>,
}

impl Drop for TableFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

impl TableFile {
    fn create(
        dataset: &Path,
        directory: PathBuf,
        table: DatasetTable,
        identity: &DatasetSource,
    ) -> Result<Self> {
        no_links(dataset, &directory)?;
        fs::create_dir_all(&directory)?;
        let temporary = directory.join(identity.temporary_name());
        let options = ArrowWriterOptions::new()
            .with_properties(properties(table)?)
            .with_skip_arrow_metadata(true);
        let file = create(&temporary)?;
        let writer = ArrowWriter::try_new_with_options(file, table.schema(), options)?;
        Ok(Self { writer, directory, temporary, pending: Vec::new() })
    }

    /// Writes the pending rows, sorted by time.
    fn write_pending(&mut self, table: DatasetTable) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.pending);
        rows.sort_by_key(|(time, _)| *time);
        let rows: Vec<&Value> = rows.iter().map(|(_, row)| row).collect();
        let arrays: Result<Vec<ArrayRef>, _> =
            table.columns().iter().map(|column| column.array(&rows)).collect();
        self.writer.write(&RecordBatch::try_new(table.schema(), arrays?)?)?;
        Ok(())
    }
}

/// Files of a source, by table and day since 1970.
pub struct DatasetFiles<'a> {
    dataset: &'a Path,
    identity: &'a DatasetSource,
    open: BTreeMap<(DatasetTable, i64), TableFile>,
    rows: [u64; TABLES.len()],
    /// Rows that were left out, because the source has rows of too many days.
    pub left_out: u64,
    _lock: Lock,
}

impl<'a> DatasetFiles<'a> {
    /// Waits for other processes that write the same source, and removes what one that was
    /// interrupted has left.
    pub fn new(dataset: &'a Path, identity: &'a DatasetSource) -> Result<Self> {
        let lock = Lock::new(dataset.join(format!(".{}.lock", identity.id)))?;
        for stale in existing(dataset, identity, &identity.temporary_name()) {
            fs::remove_file(stale)?;
        }
        let (open, rows) = (BTreeMap::new(), [0; TABLES.len()]);
        Ok(Self { dataset, identity, open, rows, left_out: 0, _lock: lock })
    }

    /// The file of a table and day; `None` if there are too many days.
    fn file(&mut self, table: DatasetTable, day: i64) -> Result<Option<&mut TableFile>> {
        if !self.open.contains_key(&(table, day)) {
            let days = self.open.keys().filter(|key| key.0 == table).count();
            if days >= MAX_DAYS {
                return Ok(None);
            }
            // Rows are at most some seconds out of order: free the memory of earlier days.
            for (_, file) in self.open.iter_mut().filter(|(key, _)| key.1 < day - 1) {
                file.writer.flush()?;
            }
            let date = date_directory(self.dataset, table, day);
            let directory = self.identity.host_directory(&date);
            let file = TableFile::create(self.dataset, directory, table, self.identity)?;
            self.open.insert((table, day), file);
        }
        Ok(self.open.get_mut(&(table, day)))
    }

    /// Writes rows of one day.
    pub fn write(&mut self, table: DatasetTable, day: i64, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        match self.file(table, day)? {
            Some(file) => {
                file.writer.write(batch)?;
                self.rows[table as usize] += rows;
            }
            None => self.left_out += rows,
        }
        Ok(())
    }

    /// Adds a row, a JSON object, whose time is set to `time_us`.
    pub fn push(&mut self, table: DatasetTable, time_us: i64, mut row: Value) -> Result<()> {
        if let Some(fields) = row.as_object_mut() {
            let identity = self.identity;
            fields.insert("time".to_owned(), time_us.into());
            fields.insert("host_name".to_owned(), identity.host_name.as_str().into());
            fields.insert("host_id".to_owned(), identity.host_id.as_deref().into());
            fields.insert("kernel".to_owned(), identity.kernel.as_str().into());
            fields.insert("recording".to_owned(), identity.id.as_str().into());
        }
        let Some(file) = self.file(table, time_us.div_euclid(DAY_US))? else {
            self.left_out += 1;
            return Ok(());
        };
        file.pending.push((time_us, row));
        if file.pending.len() >= PENDING {
            file.write_pending(table)?;
        }
        self.rows[table as usize] += 1;
        Ok(())
    }

    /// Completes the files and gives them their names, unless the dataset has more of the
    /// source. A file of a shorter copy is replaced, or removed if it has no rows any more.
    pub fn commit(mut self, extent: Extent) -> Result<Outcome> {
        let mut old = existing(self.dataset, self.identity, &self.identity.file_name());
        // A damaged file is replaced.
        for stored in old.iter().filter_map(|path| Extent::read(path)) {
            if !extent.includes(&stored) {
                let is_longer = stored.includes(&extent);
                return Ok(if is_longer { Outcome::Longer } else { Outcome::Other(stored) });
            }
        }
        let mut bytes = 0;
        for ((table, _), file) in &mut self.open {
            file.write_pending(*table)?;
            let texts = extent.key_values().map(|(name, n)| (name, n.to_string()));
            let version = [("dataset", VERSION.to_owned())];
            for (name, value) in version.into_iter().chain(texts) {
                let pair = KeyValue::new(format!("raidtrace.{name}"), value);
                file.writer.append_key_value_metadata(pair);
            }
            file.writer.finish()?;
            file.writer.inner().sync_all()?;
            bytes += file.writer.inner().metadata()?.len();
        }
        let mut directories = Vec::new();
        for file in std::mem::take(&mut self.open).into_values() {
            let path = file.directory.join(self.identity.file_name());
            fs::rename(&file.temporary, &path)?;
            old.retain(|other| *other != path);
            directories.push(path);
        }
        for path in old {
            fs::remove_file(&path)?;
            directories.push(path);
        }
        for path in &directories {
            // Each directory above may be new.
            let inside = |path: &&Path| path.starts_with(self.dataset);
            path.ancestors().take_while(inside).for_each(sync_folder);
        }
        Ok(Outcome::Written(self.rows, bytes))
    }
}

/// Refuses links between the dataset and one of its directories: others may write the dataset, and
/// root must not write where their links lead.
fn no_links(dataset: &Path, directory: &Path) -> io::Result<()> {
    let mut below = directory.ancestors().take_while(|path| *path != dataset);
    let is_other = |path: &&Path| path.symlink_metadata().is_ok_and(|found| !found.is_dir());
    match below.find(is_other) {
        Some(path) => Err(io::Error::other(format!("{} is not a directory", path.display()))),
        None => Ok(()),
    }
}

/// Files of this name and host, of all tables and dates.
fn existing(dataset: &Path, identity: &DatasetSource, name: &str) -> Vec<PathBuf> {
    let tables = TABLES.map(|table| fs::read_dir(dataset.join(table)));
    let dates = tables.into_iter().flatten().flatten().flatten();
    let files = dates.map(|date| identity.host_directory(&date.path()).join(name));
    files.filter(|file| file.symlink_metadata().is_ok()).collect()
}

/// Properties of the files of a table.
pub fn properties(table: DatasetTable) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in table.columns() {
        // Dictionaries cost time and save no space where values hardly repeat.
        let numbers = matches!(column.kind, ColumnType::Integer | ColumnType::Timestamp);
        let path = ColumnPath::from(column.name.as_str());
        if numbers {
            properties =
                properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        if matches!(&*column.name, "time" | "sector" | "array_sector" | "device_us" | "sentence") {
            properties = properties.set_column_dictionary_enabled(path, false);
        }
    }
    Ok(properties.build())
}
