//! Parquet. A recording has words already where Parquet wants a dictionary, and the bits of what is null: parquet-rs's
//! own writer for Arrow would look every word up again, row by row, so that only its pages and its footer are used here.

mod chunk;
mod column;
mod dictionary;
mod encode;

use std::io::Write;

use anyhow::{Context as _, Result};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::file::writer::SerializedFileWriter;
use zstd::bulk::Compressor;

use self::column::{Column, How, Wrong};
use self::dictionary::Few;
use super::command::Written;
use crate::recording::reader::{Batch, Reader, Texts};
use crate::recording::schema::COLUMNS;

/// Of a row group: rows, and bytes, which are held in memory.
const ROWS: usize = 1 << 20;
const BYTES: usize = 48 << 20;
/// Writes everything that can be read. A batch that is no table ends it: what was before it is a whole file.
pub fn write(reader: &mut Reader, schema: &SchemaRef, out: impl Write + Send) -> Result<Written> {
    groups(reader, schema, out, BYTES)
}

fn groups(
    reader: &mut Reader,
    schema: &SchemaRef,
    out: impl Write + Send,
    bytes: usize,
) -> Result<Written> {
    let writer = ArrowWriter::try_new(out, schema.clone(), None)?;
    let (mut writer, _) = writer.into_serialized_writer()?;
    let mut zstd = Compressor::new(chunk::LEVEL).context("zstd")?;
    let mut columns: Vec<Column> = COLUMNS
        .iter()
        .zip(writer.schema_descr().columns())
        .map(|((name, of), column)| Column::new(column.clone(), *of, how(name)))
        .collect();
    let mut written = Written::default();
    let mut rows = 0;
    while let Some((batch, words)) = reader.next_columns() {
        if let Err(wrong) = take(&mut columns, batch, words) {
            columns.iter_mut().for_each(Column::forget);
            written.damage = Some(format!("the recording is damaged ({wrong})"));
            break;
        }
        for column in &mut columns {
            column.keep(&mut zstd)?;
        }
        written.rows += batch.rows as u64;
        rows += batch.rows;
        if rows >= ROWS || columns.iter().map(Column::bytes).sum::<usize>() >= bytes {
            group(&mut writer, &mut columns, &mut zstd)?;
            rows = 0;
        }
    }
    if rows > 0 {
        group(&mut writer, &mut columns, &mut zstd)?;
    }
    writer.close()?;
    Ok(written)
}

/// How the numbers of a column are told.
fn how(name: &str) -> How {
    match name {
        "slot" | "length" | "bytes" | "count" | "queue_us" | "pid" | "inode" | "generation" => {
            How::Few(Few::new())
        }
        // That of a submission, and then of its requests.
        "array_sector" => How::Plain,
        _ => How::Deltas,
    }
}

/// Ends a row group.
fn group(
    writer: &mut SerializedFileWriter<impl Write + Send>,
    columns: &mut [Column],
    zstd: &mut Compressor<'_>,
) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let (pages, closed) = column.close(zstd)?;
        group.append_column(&pages, closed)?;
    }
    group.close()?;
    Ok(())
}

/// Takes a batch in, of which some columns may have all when one fails.
fn take(columns: &mut [Column], batch: &Batch, words: &[Texts]) -> Result<(), Wrong> {
    let rows = batch.rows;
    for ((column, (name, _)), words) in columns.iter_mut().zip(COLUMNS).zip(words) {
        match name {
            "time" => column.numbers(&batch.time, rows, |v| v as u64),
            "kind" => column.words(&batch.kind, rows, words, u32::from),
            "array" => column.words(&batch.array, rows, words, u32::from),
            "member" => column.words(&batch.member, rows, words, u32::from),
            "slot" => column.numbers(&batch.slot, rows, u64::from),
            "op" => column.words(&batch.op, rows, words, u32::from),
            "flags" => column.words(&batch.flags, rows, words, u32::from),
            "origin" => column.words(&batch.origin, rows, words, u32::from),
            "sector" => column.numbers(&batch.sector, rows, u64::from),
            "array_sector" => column.numbers(&batch.array_sector, rows, u64::from),
            "length" => column.numbers(&batch.length, rows, u64::from),
            "bytes" => column.numbers(&batch.bytes, rows, u64::from),
            "count" => column.numbers(&batch.count, rows, u64::from),
            "queue_us" => column.numbers(&batch.queue_us, rows, u64::from),
            "device_us" => column.numbers(&batch.device_us, rows, u64::from),
            "error" => column.numbers(&batch.error, rows, u64::from),
            "pid" => column.numbers(&batch.pid, rows, u64::from),
            "comm" => column.words(&batch.comm, rows, words, u32::from),
            "cgroup" => column.words(&batch.cgroup, rows, words, u32::from),
            "role" => column.words(&batch.role, rows, words, u32::from),
            "inode" => column.numbers(&batch.inode, rows, u64::from),
            "generation" => column.numbers(&batch.generation, rows, u64::from),
            "filesystem" => column.words(&batch.filesystem, rows, words, u32::from),
            "path" => column.words(&batch.path, rows, words, u32::from),
            _ => column.texts(&batch.text, rows),
        }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
