//! Parquet, written by parquet-rs from the recording's Arrow columns.

use std::io::Write;

use anyhow::Result;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::recording::reader::Reader;
use crate::recording::schema::{COLUMNS, Type};

/// Encoded size of a row group, which is built in memory.
const BYTES: usize = 48 << 20;
/// zstd level. Higher levels take much longer and save little space.
const LEVEL: i32 = 1;

/// Writes every readable batch. Returns the number of rows.
pub fn write(reader: &mut Reader, schema: &SchemaRef, out: impl Write + Send) -> Result<u64> {
    groups(reader, schema, out, BYTES)
}

fn groups(
    reader: &mut Reader,
    schema: &SchemaRef,
    out: impl Write + Send,
    bytes: usize,
) -> Result<u64> {
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties(bytes)?))?;
    let mut rows = 0;
    while let Some(batch) = reader.next_columns() {
        writer.write(&batch.record)?;
        rows += batch.rows() as u64;
    }
    writer.close()?;
    Ok(rows)
}

/// Uses dictionaries only for columns whose values repeat. For other columns, hashing each value
/// costs time and saves no space.
fn properties(bytes: usize) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_max_row_group_bytes(Some(bytes))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("time"), EnabledStatistics::Chunk);
    for (name, column) in COLUMNS {
        let path = ColumnPath::from(name);
        if matches!(name, "time" | "sector" | "array_sector" | "device_us" | "text") {
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
        }
        // `array_sector` stays plain: a submission and its requests, a few rows apart, share the
        // value, and zstd compresses the repetition.
        let numbers = matches!(column, Type::Time | Type::U16 | Type::U32 | Type::U64);
        if numbers && name != "array_sector" {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

#[cfg(test)]
mod tests;
