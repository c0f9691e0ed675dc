//! Parquet.

use std::io::Write;

use anyhow::{Context as _, Result};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns;
use crate::trace::reader::Reader;

/// Rows of a row group: what is held in memory.
const GROUP: usize = 1 << 20;

/// Writes everything that can be read.
pub fn write(reader: &mut Reader, schema: &SchemaRef, out: impl Write + Send) -> Result<u64> {
    let level = ZstdLevel::try_new(1).context("zstd")?;
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_write_batch_size(8192);
    // Mostly different: a dictionary of them is given up after having been paid for.
    for name in ["time", "sector", "array_sector", "queue_us", "device_us"] {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::PLAIN);
    }
    properties = properties.set_column_statistics_enabled("time".into(), EnabledStatistics::Chunk);
    let properties = properties.build();
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties))?;
    let mut rows = 0;
    while let Some((batch, words)) = reader.next_columns() {
        let record = columns::record(batch, words, schema).context("the recording is damaged")?;
        rows += record.num_rows() as u64;
        writer.write(&record)?;
    }
    writer.close()?;
    Ok(rows)
}
