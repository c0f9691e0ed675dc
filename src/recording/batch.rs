//! Messages -> record batches and dictionaries, by arrow-ipc, which validates them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};

use super::columns::Batch;
use super::schema::{COLUMNS, NOT_NULL};

/// Rows of a batch.
const ROWS: usize = 1 << 17;
/// Words of a dictionary.
const WORDS: usize = 1 << 20;
/// Bytes of a decompressed batch: at least this, or this many times its compressed size.
const BYTES: usize = 32 << 20;
const RATIO: usize = 256;
const BYTES_MOST: usize = 128 << 20;

/// Why a message cannot be decoded.
pub type Wrong = &'static str;

/// Which columns are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Columns that figures are computed from: without slot, flags, sectors and count.
    Figures,
    /// All columns.
    Everything,
}

/// Dictionaries by id.
pub type Dictionaries = HashMap<i64, ArrayRef>;

/// The columns of a file: those of [`COLUMNS`] in any order, others among them.
#[derive(Debug)]
pub struct Layout {
    /// All columns of the file.
    schema: SchemaRef,
    /// Index of each of [`COLUMNS`] in the file.
    places: Vec<usize>,
    /// The same without the columns that [`Wanted::Figures`] excludes.
    figures: Vec<usize>,
    /// Only the columns of [`COLUMNS`]: another column may declare a type of its own for one of their dictionary ids.
    ours: Schema,
    /// Id of the dictionary, and which of [`COLUMNS`] uses it.
    dictionaries: Vec<(i64, usize)>,
    /// Bytes of an element of each buffer of a batch.
    elements: Vec<usize>,
}

impl Layout {
    /// The layout of a file with this schema.
    pub fn new(schema: arrow_ipc::Schema<'_>) -> Result<Self, String> {
        let unknown = |name: &str| {
            format!("the column {name} is of a type that this version cannot pass over")
        };
        for field in schema.fields().into_iter().flatten() {
            // A union of more than 128 children: `UnionFields::from_fields` panics.
            if field
                .children()
                .is_some_and(|children| !children.is_empty())
            {
                return Err(unknown(field.name().unwrap_or_default()));
            }
        }
        let file = try_fb_to_schema(schema).map_err(|_| "its schema is damaged")?;
        let mut elements = Vec::new();
        for field in file.fields() {
            let of_column = buffers(field.data_type()).ok_or_else(|| unknown(field.name()))?;
            elements.extend_from_slice(of_column);
        }
        let (mut places, mut figures, mut dictionaries) = <(Vec<_>, Vec<_>, Vec<_>)>::default();
        for (column, (name, kind)) in COLUMNS.iter().enumerate() {
            let mut found = (0..).zip(file.fields()).filter(|(_, f)| f.name() == name);
            let (place, field) = found
                .next()
                .ok_or_else(|| format!("there is no column {name}"))?;
            let nullable = field.is_nullable() && column < NOT_NULL;
            if found.next().is_some() || nullable || *field.data_type() != kind.arrow() {
                return Err(format!(
                    "the column {name} is not of the type that it should be"
                ));
            }
            places.push(place);
            if !matches!(
                *name,
                "slot" | "flags" | "sector" | "array_sector" | "count"
            ) {
                figures.push(place);
            }
            let field = schema.fields().map(|fields| fields.get(place));
            if let Some(dictionary) = field.and_then(|f| f.dictionary()) {
                dictionaries.push((dictionary.id(), column));
            }
        }
        Ok(Self {
            ours: file.project(&places).map_err(|error| error.to_string())?,
            schema: Arc::new(file),
            places,
            figures,
            dictionaries,
            elements,
        })
    }

    /// The columns that use a dictionary.
    pub fn users(&self, id: i64) -> impl Iterator<Item = usize> {
        let users = self.dictionaries.iter().filter(move |d| d.0 == id);
        users.map(|d| d.1)
    }

    /// Decodes a record batch.
    pub fn batch(
        &self,
        message: Message<'_>,
        body: &Buffer,
        dictionaries: &Dictionaries,
        wanted: Wanted,
    ) -> Result<Batch, Wrong> {
        let batch = message.header_as_record_batch().ok_or(DAMAGED)?;
        check(batch, body, ROWS, &self.elements)?;
        let (schema, version) = (Arc::clone(&self.schema), message.version());
        let places = match wanted {
            Wanted::Figures => &self.figures,
            Wanted::Everything => &self.places,
        };
        let record = read_record_batch(body, batch, schema, dictionaries, Some(places), &version);
        let batch = Batch::new(record.map_err(|_| DAMAGED)?);
        // These columns have 64 bits so that they can be added up; a request's values have at most 32.
        let short = [
            &batch.length,
            &batch.bytes,
            &batch.queue_us,
            &batch.device_us,
        ];
        if !short.iter().all(|column| column.is_short()) {
            return Err("a number is larger than that of any request");
        }
        Ok(batch)
    }

    /// Decodes a dictionary, which replaces the one before. Returns its id; `None` if only columns that are passed over use it.
    pub fn dictionary(
        &self,
        message: Message<'_>,
        body: &Buffer,
        dictionaries: &mut Dictionaries,
    ) -> Result<Option<i64>, Wrong> {
        let batch = message.header_as_dictionary_batch().ok_or(DAMAGED)?;
        if self.users(batch.id()).next().is_none() {
            return Ok(None);
        }
        // Many small deltas could make a dictionary of any size.
        if batch.isDelta() {
            return Err("a dictionary is told in pieces");
        }
        check(batch.data().ok_or(DAMAGED)?, body, WORDS, TEXT)?;
        read_dictionary(body, batch, &self.ours, dictionaries, &message.version())
            .map_err(|_| DAMAGED)?;
        // A row of `kind` must not be null, which arrow-ipc checks only for the numbers of the words.
        match dictionaries.get(&batch.id()) {
            Some(words) if words.null_count() == 0 => Ok(Some(batch.id())),
            _ => Err(DAMAGED),
        }
    }
}

const DAMAGED: Wrong = "a batch is damaged";

/// Bytes of an element of each buffer of a text column: null bits, offsets, text.
const TEXT: &[usize] = &[1, 4, 1];

/// Bytes of an element of each buffer of a column; 1 where arrow-ipc accepts any length. `None`: the number of buffers is not
/// known.
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

/// Rejects what arrow-ipc does not:
///
/// * a buffer outside of the body: `Buffer::slice_with_length` panics;
/// * a compressed buffer that claims any length: `zstd::bulk::decompress` allocates it first;
/// * offsets or words' numbers whose bytes are no multiple of an element: `Buffer::typed_data` panics.
fn check(
    batch: RecordBatch<'_>,
    body: &[u8],
    rows: usize,
    elements: &[usize],
) -> Result<(), Wrong> {
    if !usize::try_from(batch.length()).is_ok_and(|n| n <= rows) {
        return Err("a batch has too many rows");
    }
    let mut left = body.len().saturating_mul(RATIO).clamp(BYTES, BYTES_MOST);
    for (buffer, element) in batch.buffers().into_iter().flatten().zip(elements) {
        let from = usize::try_from(buffer.offset()).ok();
        let length = usize::try_from(buffer.length()).ok();
        let bytes = from
            .zip(length)
            .and_then(|(from, length)| body.get(from..from.checked_add(length)?))
            .ok_or("a column lies outside of its batch")?;
        let mut length = bytes.len();
        if let (Some(_), Some((claimed, rest))) = (batch.compression(), bytes.split_first_chunk()) {
            // -1: not worth compressing.
            length = usize::try_from(i64::from_le_bytes(*claimed)).unwrap_or(rest.len());
            left = left.checked_sub(length).ok_or("a column is too long")?;
        }
        if !length.is_multiple_of(*element) {
            return Err(DAMAGED);
        }
    }
    Ok(())
}
