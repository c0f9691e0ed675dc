//! The columns of a recording as Arrow arrays again, dictionaries and all.

use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, TimestampMicrosecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};

use crate::trace::reader::{Batch, Column, Texts};
use crate::trace::schema::COLUMNS;

/// A batch as Arrow has it.
pub fn record(
    batch: &Batch,
    words: &[Texts],
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let word = |name: &str| -> Result<ArrayRef, ArrowError> {
        let column = COLUMNS.iter().position(|c| c.0 == name);
        text(column.and_then(|c| words.get(c)), None)
    };
    let rows = batch.rows;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(numbers::<TimestampMicrosecondType>(&batch.time, rows)?.with_timezone("UTC")),
        dictionary::<UInt8Type>(&batch.kind, rows, word("kind")?)?,
        dictionary::<UInt16Type>(&batch.array, rows, word("array")?)?,
        dictionary::<UInt16Type>(&batch.member, rows, word("member")?)?,
        Arc::new(numbers::<UInt16Type>(&batch.slot, rows)?),
        dictionary::<UInt8Type>(&batch.op, rows, word("op")?)?,
        dictionary::<UInt8Type>(&batch.flags, rows, word("flags")?)?,
        dictionary::<UInt8Type>(&batch.origin, rows, word("origin")?)?,
        Arc::new(numbers::<UInt64Type>(&batch.sector, rows)?),
        Arc::new(numbers::<UInt64Type>(&batch.array_sector, rows)?),
        Arc::new(numbers::<UInt64Type>(&batch.length, rows)?),
        Arc::new(numbers::<UInt64Type>(&batch.bytes, rows)?),
        Arc::new(numbers::<UInt8Type>(&batch.count, rows)?),
        Arc::new(numbers::<UInt64Type>(&batch.queue_us, rows)?),
        Arc::new(numbers::<UInt64Type>(&batch.device_us, rows)?),
        Arc::new(bits(&batch.error, rows)),
        Arc::new(numbers::<UInt32Type>(&batch.pid, rows)?),
        dictionary::<UInt32Type>(&batch.comm, rows, word("comm")?)?,
        dictionary::<UInt32Type>(&batch.cgroup, rows, word("cgroup")?)?,
        dictionary::<UInt16Type>(&batch.role, rows, word("role")?)?,
        Arc::new(numbers::<UInt64Type>(&batch.inode, rows)?),
        Arc::new(numbers::<UInt32Type>(&batch.generation, rows)?),
        dictionary::<UInt16Type>(&batch.filesystem, rows, word("filesystem")?)?,
        dictionary::<UInt32Type>(&batch.path, rows, word("path")?)?,
        text(Some(&batch.text), Some(rows))?,
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

fn nulls<T: Copy>(column: &Column<T>, rows: usize) -> Option<NullBuffer> {
    if column.is_none() {
        return Some(NullBuffer::new_null(rows));
    }
    let there = column.there();
    let full = there.len() >= rows.div_ceil(8) && !there.is_empty();
    full.then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from(there), 0, rows)))
}

fn numbers<T: ArrowPrimitiveType>(
    column: &Column<T::Native>,
    rows: usize,
) -> Result<PrimitiveArray<T>, ArrowError> {
    let mut values: Vec<T::Native> = Vec::new();
    if !column.is_none() {
        values.extend_from_slice(column.values());
    }
    values.resize(rows, T::Native::default());
    PrimitiveArray::try_new(ScalarBuffer::from(values), nulls(column, rows))
}

/// Fails where a number has no word.
fn dictionary<K: ArrowDictionaryKeyType>(
    column: &Column<K::Native>,
    rows: usize,
    words: ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let keys = numbers::<K>(column, rows)?;
    Ok(Arc::new(DictionaryArray::try_new(keys, words)?))
}

fn bits(column: &Column<u8>, rows: usize) -> BooleanArray {
    let bit = |row| column.values().get(row) == Some(&1);
    let values = BooleanBuffer::collect_bool(rows, |row| !column.is_none() && bit(row));
    BooleanArray::new(values, nulls(column, rows))
}

/// Texts of a dictionary, or of a column with so many rows.
fn text(texts: Option<&Texts>, rows: Option<usize>) -> Result<ArrayRef, ArrowError> {
    let Some(texts) = texts else {
        return Ok(Arc::new(StringArray::from(Vec::<String>::new())));
    };
    let length = rows.unwrap_or(texts.len());
    if texts.is_none() {
        return Ok(Arc::new(StringArray::new_null(length)));
    }
    let there = texts.there();
    let nulls = (there.len() >= length.div_ceil(8) && !there.is_empty())
        .then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from(there), 0, length)));
    // Increasing: the reader has looked.
    let offsets = OffsetBuffer::new(ScalarBuffer::from(texts.offsets().to_vec()));
    Ok(Arc::new(StringArray::try_new(
        offsets,
        Buffer::from(texts.text()),
        nulls,
    )?))
}
