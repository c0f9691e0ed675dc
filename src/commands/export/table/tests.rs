//! The table must hold the same values as the recording.

use std::io::Cursor;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{groups, write};
use crate::analysis::item::Item;
use crate::recording::fixture;
use crate::recording::fixture::Numbers;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::schema::{COLUMNS, schema};

fn reader(bytes: &[u8]) -> Option<Reader> {
    let input = Box::new(Cursor::new(bytes.to_vec()));
    Reader::new(input, Path::new("x.rtrace"), WantedColumns::Everything).ok()
}

/// Values of a column as text; null is `None`.
fn texts(column: &dyn Array) -> Vec<Option<String>> {
    macro_rules! numbers {
        ($of:ty) => {{
            let values = column.as_primitive::<$of>().iter();
            values.map(|v| v.map(|v| v.to_string())).collect()
        }};
    }
    let own = |text: Option<&str>| text.map(str::to_owned);
    match column.data_type() {
        DataType::Timestamp(..) => numbers!(TimestampMicrosecondType),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Boolean => column.as_boolean().iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::Utf8 => column.as_string::<i32>().iter().map(own).collect(),
        DataType::Dictionary(..) => {
            let column = column.as_any_dictionary();
            if column.values().is_empty() {
                return vec![None; column.len()];
            }
            let (keys, words) = (column.normalized_keys(), column.values().as_string::<i32>());
            let key = |row: usize| (!column.is_null(row)).then(|| words.value(keys[row]));
            (0..column.len()).map(|row| own(key(row))).collect()
        }
        other => panic!("{other}"),
    }
}

fn columns(batches: impl Iterator<Item = RecordBatch>) -> Vec<Vec<Option<String>>> {
    let mut columns = vec![Vec::new(); COLUMNS.len()];
    for batch in batches {
        for (all, column) in columns.iter_mut().zip(batch.columns()) {
            all.extend(texts(column));
        }
    }
    columns
}

/// Exports in row groups of `group` bytes, and compares the type and every value of every column.
/// Returns the number of groups.
fn same(bytes: &[u8], group: usize) -> usize {
    let recorded = StreamReader::try_new(bytes, None).unwrap();
    let schema = recorded.schema();
    let file = tempfile::tempfile().unwrap();
    let written = groups(&mut reader(bytes).unwrap(), &schema, &file, group).unwrap();
    let table = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(table.schema(), &schema);
    let groups = table.metadata().num_row_groups();
    let table = columns(table.build().unwrap().map(Result::unwrap));
    let recorded = columns(recorded.map(Result::unwrap));
    assert_eq!(table[0].len() as u64, written);
    for (column, (name, _)) in COLUMNS.iter().enumerate() {
        let (table, recorded) = (&table[column], &recorded[column]);
        let other = (0..recorded.len()).find(|&row| table.get(row) != recorded.get(row));
        assert_eq!(other, None, "{name}");
        assert_eq!(table.len(), recorded.len(), "{name}");
    }
    groups
}

#[test]
fn batches_of_any_length_are_one_table() {
    let items = fixture::items(300, 3);
    for rows in [1, 7, 64, 1000] {
        assert_eq!(same(&fixture::file_of(&items, rows), 1 << 20), 1);
    }
    // No rows at all.
    assert_eq!(same(&fixture::file_of(&[], 20), 1 << 20), 0);
}

#[test]
fn numbers_of_any_size_round_trip() {
    let mut items = fixture::items(40_000, 2);
    let mut numbers = Numbers(1);
    let mut any =
        |bits: u64| numbers.next(u64::MAX) >> numbers.next(bits) & u64::MAX >> (64 - bits);
    for item in &mut items {
        if let Item::Request(request) = item {
            request.sector = any(64);
            request.array_sector = (any(1) == 1).then(|| any(64));
            request.length = any(32) as u32;
            request.queue_us = (any(1) == 1).then(|| any(32) as u32);
            request.device_us = Some(any(32) as u32);
            request.pid = Some(any(32) as u32);
            let file = request.file.as_mut();
            if let Some(file) = file.filter(|_| any(2) == 0) {
                (file.inode, file.generation) = (any(64), any(32) as u32);
            }
        }
    }
    let file = fixture::file_of(&items, 10_000);
    assert_eq!(same(&file, 1 << 30), 1);
    // Several row groups, each with its own dictionaries.
    assert!(same(&file, 1 << 18) > 1);
}

#[test]
fn a_damaged_batch_ends_a_valid_table() {
    let mut bytes = fixture::file_of(&fixture::items(60, 1), 20);
    let schema = schema(String::new());
    // Damage one byte of a batch, for example so that a key is missing from its dictionary.
    let refused = |bytes: &[u8]| {
        let mut reader = reader(bytes)?;
        let rows = write(&mut reader, &schema, std::io::sink()).unwrap();
        reader.ending().to_string().contains("a batch is damaged").then_some(rows)
    };
    let found = (bytes.len() / 2..bytes.len()).find_map(|at| {
        let was = std::mem::replace(&mut bytes[at], 0xff);
        let before = refused(&bytes);
        if before.is_none() {
            bytes[at] = was;
        }
        before
    });
    let before = found.unwrap();
    assert!(before > 0);
    let file = tempfile::tempfile().unwrap();
    let written = write(&mut reader(&bytes).unwrap(), &schema, &file).unwrap();
    assert_eq!(written, before);
    let back = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let rows = back.metadata().file_metadata().num_rows();
    assert_eq!(u64::try_from(rows), Ok(before));
}
