//! Decodes messages into record batches and dictionaries with arrow-ipc, which validates them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::ColumnBatch;
use super::schema::{COLUMNS, NOT_NULL};

/// Maximum number of rows in a batch.
const MAX_ROWS: usize = 1 << 17;
/// Maximum number of entries in a dictionary.
const MAX_ENTRIES: usize = 1 << 20;
/// Maximum bytes of a decompressed batch: `MAX_COMPRESSION_RATIO` times its compressed size, but at
/// least `MIN_BYTE_LIMIT` and at most `MAX_BYTE_LIMIT`.
const MIN_BYTE_LIMIT: usize = 32 << 20;
const MAX_COMPRESSION_RATIO: usize = 256;
const MAX_BYTE_LIMIT: usize = 128 << 20;

/// Reason why a message cannot be decoded.
pub type DecodeError = &'static str;

/// Columns to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedColumns {
    /// Columns that figures are computed from: all but slot, flags, sector, array_sector and count.
    Figures,
    /// Like `Figures`, and sector and array_sector: a disk without md has only sector.
    Addresses,
    /// All columns.
    Everything,
}

impl WantedColumns {
    fn includes(self, column: &str) -> bool {
        match column {
            "slot" | "flags" | "count" => self == Self::Everything,
            "sector" | "array_sector" => self != Self::Figures,
            _ => true,
        }
    }
}

/// Dictionaries by id.
pub type Dictionaries = HashMap<i64, ArrayRef>;

/// Columns of a file: all [`COLUMNS`] in any order, and possibly others.
#[derive(Debug)]
pub struct ColumnLayout {
    /// All columns of the file.
    schema: SchemaRef,
    /// Index of each of [`COLUMNS`] in the file.
    indices: Vec<usize>,
    /// Schema of the [`COLUMNS`] alone: any other column may reuse one of their dictionary ids
    /// with another type.
    ours: Schema,
    /// Dictionary ids, each with the index in [`COLUMNS`] of the column that uses it.
    dictionaries: Vec<(i64, usize)>,
    /// Element size of each buffer of a batch, in bytes.
    elements: Vec<usize>,
}

impl ColumnLayout {
    /// Reads the layout from the schema of a file.
    pub fn new(schema: arrow_ipc::Schema<'_>) -> Result<Self, String> {
        let unknown =
            |name: &str| format!("column {name} has a type that this version cannot skip");
        for field in schema.fields().into_iter().flatten() {
            // `UnionFields::from_fields` panics on a union of more than 128 children.
            if field.children().is_some_and(|children| !children.is_empty()) {
                return Err(unknown(field.name().unwrap_or_default()));
            }
        }
        let file = try_fb_to_schema(schema).map_err(|_| "its schema is damaged")?;
        let mut elements = Vec::new();
        for field in file.fields() {
            let of_column = buffers(field.data_type()).ok_or_else(|| unknown(field.name()))?;
            elements.extend_from_slice(of_column);
        }
        let (mut indices, mut dictionaries) = (Vec::new(), Vec::new());
        for (column, (name, kind)) in COLUMNS.iter().enumerate() {
            let mut found = (0..).zip(file.fields()).filter(|(_, f)| f.name() == name);
            let (index, field) =
                found.next().ok_or_else(|| format!("there is no column {name}"))?;
            let nullable = field.is_nullable() && column < NOT_NULL;
            if found.next().is_some() || nullable || *field.data_type() != kind.arrow() {
                return Err(format!("column {name} has the wrong type"));
            }
            indices.push(index);
            let field = schema.fields().map(|fields| fields.get(index));
            if let Some(dictionary) = field.and_then(|f| f.dictionary()) {
                dictionaries.push((dictionary.id(), column));
            }
        }
        Ok(Self {
            ours: file.project(&indices).map_err(|error| error.to_string())?,
            schema: Arc::new(file),
            indices,
            dictionaries,
            elements,
        })
    }

    /// The columns that use a dictionary.
    pub fn users(&self, id: i64) -> impl Iterator<Item = usize> {
        self.dictionaries.iter().filter(move |d| d.0 == id).map(|d| d.1)
    }

    /// Decodes a record batch.
    pub fn batch(
        &self,
        message: Message<'_>,
        body: &Buffer,
        dictionaries: &Dictionaries,
        wanted: WantedColumns,
    ) -> Result<ColumnBatch, DecodeError> {
        let batch = message.header_as_record_batch().ok_or(DAMAGED)?;
        check(batch, body, MAX_ROWS, &self.elements)?;
        let (schema, version) = (Arc::clone(&self.schema), message.version());
        let columns =
            self.indices.iter().zip(COLUMNS).filter(|(_, (name, _))| wanted.includes(name));
        let indices: Vec<usize> = columns.map(|(index, _)| *index).collect();
        let record = read_record_batch(body, batch, schema, dictionaries, Some(&indices), &version);
        let batch = ColumnBatch::new(record.map_err(|_| DAMAGED)?);
        // These columns have 64 bits so that tools can sum them. The values of one request fit into
        // 32 bits.
        let limited = [&batch.length, &batch.bytes, &batch.queue_us, &batch.device_us];
        if !limited.iter().all(|column| column.fits_32_bits()) {
            return Err("a value does not fit into 32 bits");
        }
        Ok(batch)
    }

    /// Decodes a dictionary, which replaces an earlier one with the same id. Returns its id, or
    /// `None` if only skipped columns use it.
    pub fn dictionary(
        &self,
        message: Message<'_>,
        body: &Buffer,
        dictionaries: &mut Dictionaries,
    ) -> Result<Option<i64>, DecodeError> {
        let batch = message.header_as_dictionary_batch().ok_or(DAMAGED)?;
        if self.users(batch.id()).next().is_none() {
            return Ok(None);
        }
        // Many small deltas could make a dictionary of any size.
        if batch.isDelta() {
            return Err("a dictionary is sent as deltas");
        }
        check(batch.data().ok_or(DAMAGED)?, body, MAX_ENTRIES, TEXT)?;
        read_dictionary(body, batch, &self.ours, dictionaries, &message.version())
            .map_err(|_| DAMAGED)?;
        // Reject null entries: `kind` must not be null, but arrow-ipc checks only the dictionary
        // keys for nulls.
        match dictionaries.get(&batch.id()) {
            Some(entries) if entries.null_count() == 0 => Ok(Some(batch.id())),
            _ => Err(DAMAGED),
        }
    }
}

const DAMAGED: DecodeError = "a batch is damaged";

/// Element sizes of the buffers of a text column: null bits, offsets, text.
const TEXT: &[usize] = &[1, 4, 1];

/// Element sizes of the buffers of a column, in bytes; 1 if arrow-ipc accepts any length. `None` if
/// the number of buffers is unknown.
fn buffers(kind: &DataType) -> Option<&'static [usize]> {
    Some(match kind {
        DataType::Null => &[],
        DataType::Utf8 | DataType::Binary => TEXT,
        DataType::LargeUtf8 | DataType::LargeBinary => &[1, 8, 1],
        DataType::Dictionary(key, _) if **key == DataType::UInt16 => &[1, 2],
        DataType::Dictionary(key, _) if **key == DataType::UInt32 => &[1, 4],
        DataType::Dictionary(..) => &[1, 1],
        DataType::Utf8View | DataType::BinaryView => return None,
        nested if nested.is_nested() => return None,
        _ => &[1, 1],
    })
}

/// Rejects invalid buffers that arrow-ipc does not reject:
///
/// * a buffer outside the body: `Buffer::slice_with_length` panics;
/// * a compressed buffer that claims a huge length: `zstd::bulk::decompress` allocates that length
///   first;
/// * offsets or dictionary keys whose length is not a multiple of the element size:
///   `Buffer::typed_data` panics.
fn check(
    batch: RecordBatch<'_>,
    body: &[u8],
    rows: usize,
    elements: &[usize],
) -> Result<(), DecodeError> {
    if !usize::try_from(batch.length()).is_ok_and(|n| n <= rows) {
        return Err("a batch has too many rows");
    }
    let mut left =
        body.len().saturating_mul(MAX_COMPRESSION_RATIO).clamp(MIN_BYTE_LIMIT, MAX_BYTE_LIMIT);
    for (buffer, element) in batch.buffers().into_iter().flatten().zip(elements) {
        let from = usize::try_from(buffer.offset()).ok();
        let length = usize::try_from(buffer.length()).ok();
        let bytes = from
            .zip(length)
            .and_then(|(from, length)| body.get(from..from.checked_add(length)?))
            .ok_or("a column lies outside its batch")?;
        let mut length = bytes.len();
        if let (Some(_), Some((claimed, rest))) = (batch.compression(), bytes.split_first_chunk()) {
            // -1: the buffer is not compressed.
            length = usize::try_from(i64::from_le_bytes(*claimed)).unwrap_or(rest.len());
            left = left.checked_sub(length).ok_or("a column is too long")?;
        }
        if !length.is_multiple_of(*element) {
            return Err(DAMAGED);
        }
    }
    Ok(())
}
