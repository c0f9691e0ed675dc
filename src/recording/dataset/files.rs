//! Files of one source in the dataset: put there when all are complete.

use std::collections::BTreeMap;

use anyhow::Result;
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde_json::Value;

use super::columns::{ColumnType, DatasetTable, TABLES, VERSION};
use super::directory::Lock;
use super::extent::Extent;
use super::place::{DatasetPlace, NewFile};
use super::source::{DatasetSource, date, day};

/// Maximum number of rows of a row group.
const GROUP_ROWS: usize = 1 << 17;
/// zstd level. The files are written once and read many times.
const LEVEL: i32 = 3;
/// Rows from JSON that are kept until they are written.
const PENDING: usize = 4096;
/// Maximum number of days of a source: each has open files.
pub const MAX_DAYS: usize = 100;

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

/// A file that is being written.
struct TableFile {
    writer: ArrowWriter<NewFile>,
    pending: Vec<(i64, Value)>,
}

impl TableFile {
    fn new(file: NewFile, table: DatasetTable) -> Result<Self> {
        let options = ArrowWriterOptions::new()
            .with_properties(properties(table)?)
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(file, table.schema(), options)?;
        Ok(Self { writer, pending: Vec::new() })
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
    place: &'a DatasetPlace,
    identity: &'a DatasetSource,
    open: BTreeMap<(DatasetTable, i64), TableFile>,
    rows: [u64; TABLES.len()],
    /// Rows that were left out, because the source has rows of too many days.
    pub left_out: u64,
    _lock: Option<Lock>,
}

impl<'a> DatasetFiles<'a> {
    /// Waits for other processes that write the same source to the same directory.
    pub fn new(place: &'a DatasetPlace, identity: &'a DatasetSource) -> Result<Self> {
        let lock = place.lock(identity)?;
        let (open, rows) = (BTreeMap::new(), [0; TABLES.len()]);
        Ok(Self { place, identity, open, rows, left_out: 0, _lock: lock })
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
            let name = self.identity.file_name();
            let key = self.identity.key(table.name(), &date(day), &name);
            let file = self.place.new_file(key, self.identity)?;
            self.open.insert((table, day), TableFile::new(file, table)?);
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
        let Some(file) = self.file(table, day(time_us))? else {
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
        let days = self.open.keys().map(|key| key.1);
        // The clock may have been set back by less than a day.
        let first = days.min().unwrap_or(i64::MAX).min(self.identity.day - 1);
        let mut old = self.place.stored(self.identity, first)?;
        // A damaged file is replaced.
        for stored in old.iter().filter_map(|(_, extent)| *extent) {
            if !extent.includes(&stored) {
                let is_longer = stored.includes(&extent);
                return Ok(if is_longer { Outcome::Longer } else { Outcome::Other(stored) });
            }
        }
        let mut bytes = 0;
        for ((table, _), file) in &mut self.open {
            file.write_pending(*table)?;
            let version = KeyValue::new("raidtrace.dataset".to_owned(), VERSION.to_owned());
            for pair in std::iter::once(version).chain(extent.key_values()) {
                file.writer.append_key_value_metadata(pair);
            }
            file.writer.finish()?;
            bytes += file.writer.inner_mut().complete()?;
        }
        let mut changed = Vec::new();
        for mut file in std::mem::take(&mut self.open).into_values() {
            let file = file.writer.inner_mut();
            self.place.publish(file)?;
            old.retain(|(key, _)| *key != file.key);
            changed.push(std::mem::take(&mut file.key));
        }
        for (key, _) in old {
            self.place.remove(&key)?;
            changed.push(key);
        }
        self.place.sync(&changed);
        Ok(Outcome::Written(self.rows, bytes))
    }
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
