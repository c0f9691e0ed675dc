//! Parquet, written by parquet-rs from the recording's Arrow columns.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, TimestampMicrosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::command::Written;
use crate::recording::reader::{Batch, Column, Reader, Texts};
use crate::recording::schema::{COLUMNS, Type};

/// Encoded bytes of a row group, which is built in memory.
const BYTES: usize = 48 << 20;
/// zstd level. Higher levels take longer than the space they save is worth.
const LEVEL: i32 = 1;

/// Writes every readable batch. Stops at the first invalid batch; the output up to there is a valid file.
pub fn write(reader: &mut Reader, schema: &SchemaRef, out: impl Write + Send) -> Result<Written> {
    groups(reader, schema, out, BYTES)
}

fn groups(
    reader: &mut Reader,
    schema: &SchemaRef,
    out: impl Write + Send,
    bytes: usize,
) -> Result<Written> {
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties(bytes)?))?;
    let mut written = Written::default();
    while let Some((batch, words)) = reader.next_columns() {
        match record(schema, batch, words) {
            Ok(record) => writer.write(&record)?,
            Err(error) => {
                written.damage = Some(format!("the recording is damaged ({error})"));
                break;
            }
        }
        written.rows += batch.rows as u64;
    }
    writer.close()?;
    Ok(written)
}

/// Dictionaries only for columns whose values repeat: hashing each value of the others costs time and saves no space.
fn properties(bytes: usize) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_max_row_group_bytes(Some(bytes))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("time"), EnabledStatistics::Chunk);
    for (name, column) in COLUMNS {
        let path = ColumnPath::from(name);
        if matches!(
            name,
            "time" | "sector" | "array_sector" | "device_us" | "text"
        ) {
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
        }
        // A submission and its requests have the same `array_sector` within a few rows: zstd finds it in plain values.
        let numbers = matches!(column, Type::Time | Type::U16 | Type::U32 | Type::U64);
        if numbers && name != "array_sector" {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

fn record(schema: &SchemaRef, batch: &Batch, words: &[Texts]) -> Result<RecordBatch, ArrowError> {
    let rows = batch.rows;
    let mut columns = Vec::with_capacity(COLUMNS.len());
    for ((name, _), words) in COLUMNS.iter().zip(words) {
        columns.push(match *name {
            "time" => {
                let times = primitive::<TimestampMicrosecondType>(&batch.time, rows);
                Arc::new(times.with_timezone("UTC"))
            }
            "kind" => dictionary::<UInt8Type>(&batch.kind, words, rows)?,
            "array" => dictionary::<UInt16Type>(&batch.array, words, rows)?,
            "member" => dictionary::<UInt16Type>(&batch.member, words, rows)?,
            "slot" => numbers::<UInt16Type>(&batch.slot, rows),
            "op" => dictionary::<UInt8Type>(&batch.op, words, rows)?,
            "flags" => dictionary::<UInt8Type>(&batch.flags, words, rows)?,
            "origin" => dictionary::<UInt8Type>(&batch.origin, words, rows)?,
            "sector" => numbers::<UInt64Type>(&batch.sector, rows),
            "array_sector" => numbers::<UInt64Type>(&batch.array_sector, rows),
            "length" => numbers::<UInt64Type>(&batch.length, rows),
            "bytes" => numbers::<UInt64Type>(&batch.bytes, rows),
            "count" => numbers::<UInt8Type>(&batch.count, rows),
            "queue_us" => numbers::<UInt64Type>(&batch.queue_us, rows),
            "device_us" => numbers::<UInt64Type>(&batch.device_us, rows),
            "error" => {
                let bits = (0..rows).map(|row| batch.error.get(row).map(|bit| bit == 1));
                Arc::new(bits.collect::<BooleanArray>())
            }
            "pid" => numbers::<UInt32Type>(&batch.pid, rows),
            "comm" => dictionary::<UInt32Type>(&batch.comm, words, rows)?,
            "cgroup" => dictionary::<UInt32Type>(&batch.cgroup, words, rows)?,
            "role" => dictionary::<UInt16Type>(&batch.role, words, rows)?,
            "inode" => numbers::<UInt64Type>(&batch.inode, rows),
            "generation" => numbers::<UInt32Type>(&batch.generation, rows),
            "filesystem" => dictionary::<UInt16Type>(&batch.filesystem, words, rows)?,
            "path" => dictionary::<UInt32Type>(&batch.path, words, rows)?,
            _ => Arc::new(texts(&batch.text, rows)),
        });
    }
    RecordBatch::try_new(schema.clone(), columns)
}

fn primitive<T: ArrowPrimitiveType>(from: &Column<T::Native>, rows: usize) -> PrimitiveArray<T> {
    let values = from.values().get(..rows).filter(|_| !from.is_none());
    let Some(values) = values else {
        return PrimitiveArray::new_null(rows);
    };
    let there = Some(from.there()).filter(|bits| !bits.is_empty());
    let nulls = there.map(|bits| NullBuffer::new(BooleanBuffer::new(Buffer::from(bits), 0, rows)));
    PrimitiveArray::new(values.to_vec().into(), nulls)
}

fn numbers<T: ArrowPrimitiveType>(from: &Column<T::Native>, rows: usize) -> ArrayRef {
    Arc::new(primitive::<T>(from, rows))
}

fn texts(from: &Texts, count: usize) -> StringArray {
    (0..count).map(|number| from.get(number)).collect()
}

fn dictionary<K: ArrowDictionaryKeyType>(
    from: &Column<K::Native>,
    words: &Texts,
    rows: usize,
) -> Result<ArrayRef, ArrowError> {
    let words = Arc::new(texts(words, words.len()));
    Ok(Arc::new(DictionaryArray::<K>::try_new(
        primitive(from, rows),
        words,
    )?))
}

#[cfg(test)]
mod tests;
