//! Parquet.

use std::io::Write;

use anyhow::{Context as _, Result};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns;
use super::command::Written;
use crate::trace::reader::Reader;

/// Rows of a row group: what is held in memory.
const GROUP: usize = 1 << 20;

/// Writes everything that can be read. A batch that is no table ends it: what was before it is a whole file.
pub fn write(reader: &mut Reader, schema: &SchemaRef, out: impl Write + Send) -> Result<Written> {
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
    let mut written = Written::default();
    while let Some((batch, words)) = reader.next_columns() {
        match columns::record(batch, words, schema) {
            Ok(record) => {
                writer.write(&record)?;
                written.rows += record.num_rows() as u64;
            }
            Err(error) => {
                written.damage = Some(format!("the recording is damaged ({error})"));
                break;
            }
        }
    }
    writer.close()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;

    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::{columns, write};
    use crate::trace::fixture;
    use crate::trace::reader::{Reader, Wanted};
    use crate::trace::schema::schema;

    fn reader(bytes: &[u8]) -> Option<Reader> {
        let input = Box::new(Cursor::new(bytes.to_vec()));
        Reader::new(input, Path::new("x.rtrace"), Wanted::Everything).ok()
    }

    #[test]
    fn a_batch_that_is_no_table_ends_a_table_that_is_whole() {
        let mut bytes = fixture::file_of(&fixture::items(60, 1), 20);
        let schema = schema(String::new());
        // A byte that the reader takes as it is, and Arrow does not: the number of a word that there is not.
        let refused = |bytes: &[u8]| {
            let mut reader = reader(bytes)?;
            let mut before = 0;
            while let Some((batch, words)) = reader.next_columns() {
                if columns::record(batch, words, &schema).is_err() {
                    return Some(before);
                }
                before += batch.rows as u64;
            }
            None
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
        assert_eq!(written.rows, before);
        assert!(written.damage.unwrap().contains("damaged"));
        let back = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let rows = back.metadata().file_metadata().num_rows();
        assert_eq!(u64::try_from(rows), Ok(before));
    }
}
