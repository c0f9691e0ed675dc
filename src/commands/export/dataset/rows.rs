//! First pass: rows of requests and submissions, column by column, and rows of slow operations.

use std::collections::BTreeSet;
use std::iter::repeat_n;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use arrow_select::filter::{FilterBuilder, FilterPredicate};

use super::operations::OperationRows;
use crate::recording::dataset::columns::{DatasetTable, TableColumn};
use crate::recording::dataset::extent::Extent;
use crate::recording::dataset::files::DatasetFiles;
use crate::recording::dataset::source::{DAY_US, DatasetSource};
use crate::recording::names::is_possible_time;
use crate::recording::reader::{ColumnBatch, Reader};

/// The pass over a recording.
#[derive(Debug, Default)]
pub struct RowPass {
    pub extent: Extent,
    /// Invalid intervals of slow operations. The second pass counts other invalid rows.
    pub invalid: u64,
}

/// Writes every readable row.
///
/// # Errors
/// The dataset cannot be written.
pub fn write(
    reader: &mut Reader,
    identity: &DatasetSource,
    files: &mut DatasetFiles<'_>,
) -> Result<RowPass> {
    let mut pass = RowPass::default();
    let mut slow = OperationRows::default();
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    let mut newest = None;
    while let Some(batch) = reader.next_columns() {
        let rows = batch.rows();
        let times: Vec<Option<i64>> = (0..rows).map(|row| time(batch, row, &mut newest)).collect();
        for time in times.iter().flatten() {
            pass.extent.rows += 1;
            (first, last) = (first.min(*time), last.max(*time));
        }
        let table = |row: usize| match batch.kind.text(row) {
            Some("request" | "part") => Some(DatasetTable::Requests),
            Some("submission") => Some(DatasetTable::Submissions),
            _ => None,
        };
        let day = |row: usize| times.get(row).copied().flatten().map(|us| us.div_euclid(DAY_US));
        let parts = (0..rows).map(|row| table(row).zip(day(row)));
        let parts: Vec<Option<(DatasetTable, i64)>> = parts.collect();
        let distinct: BTreeSet<(DatasetTable, i64)> = parts.iter().flatten().copied().collect();
        for part in distinct {
            let mask: BooleanArray = parts.iter().map(|p| Some(*p == Some(part))).collect();
            let rows = FilterBuilder::new(&mask).optimize().build();
            files.write(part.0, part.1, &convert(batch, &rows, part.0, identity)?)?;
        }
        for (row, time) in times.iter().enumerate() {
            if let Some(time) = time.filter(|_| batch.kind.text(row) == Some("slow")) {
                let text = batch.text(row).unwrap_or_default();
                pass.invalid += u64::from(!slow.add(time, text, identity, files)?);
            }
        }
    }
    slow.finish(files)?;
    if pass.extent.rows > 0 {
        (pass.extent.from_us, pass.extent.to_us) = (first, last);
    }
    Ok(pass)
}

/// Time of a row; `None` if it is damaged. `newest`: time of the newest interval before.
fn time(batch: &ColumnBatch, row: usize, newest: &mut Option<i64>) -> Option<i64> {
    let sets_time = matches!(batch.kind.text(row), Some("state" | "alloc" | "slow"));
    let time = batch.time.get(row).filter(|us| is_possible_time(*us, sets_time, *newest))?;
    if sets_time {
        *newest = (*newest).max(Some(time));
    }
    Some(time)
}

/// The rows of a batch that `rows` selects, with the columns of `table`.
fn convert(
    batch: &ColumnBatch,
    rows: &FilterPredicate,
    table: DatasetTable,
    identity: &DatasetSource,
) -> Result<RecordBatch> {
    let constant = |text: Option<&str>| -> ArrayRef {
        Arc::new(StringArray::from_iter(repeat_n(text, rows.count())))
    };
    let geometry = |row: usize| identity.arrays.get(batch.array.text(row)?);
    let all = 0..batch.rows();
    let column = |column: &TableColumn| -> Result<ArrayRef> {
        Ok(match &*column.name {
            "host_name" => constant(Some(&identity.host_name)),
            "host_id" => constant(identity.host_id.as_deref()),
            "kernel" => constant(Some(&identity.kernel)),
            "recording" => constant(Some(&identity.id)),
            "level" => {
                let levels = all.clone().map(|row| Some(geometry(row)?.0.as_str()));
                rows.filter(&levels.collect::<StringArray>())?
            }
            "chunk_bytes" => {
                let chunks = all.clone().map(|row| Some(geometry(row)?.1));
                rows.filter(&chunks.collect::<PrimitiveArray<Int64Type>>())?
            }
            name => {
                let recorded = batch.record.column_by_name(name);
                let missing = || anyhow!("the recording has no column {name}");
                signed(rows.filter(recorded.ok_or_else(missing)?)?)
            }
        })
    };
    let columns: Result<Vec<ArrayRef>> = table.columns().iter().map(column).collect();
    Ok(RecordBatch::try_new(table.schema(), columns?)?)
}

/// A column of a recording as one of the dataset: integers have 64 bits and a sign.
fn signed(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::UInt8 => integers::<UInt8Type>(&array),
        DataType::UInt16 => integers::<UInt16Type>(&array),
        DataType::UInt32 => integers::<UInt32Type>(&array),
        DataType::UInt64 => integers::<UInt64Type>(&array),
        _ => array,
    }
}

/// Integers of 64 bits with a sign; null if they do not fit, which is damage.
fn integers<T: ArrowPrimitiveType>(array: &ArrayRef) -> ArrayRef
where
    i64: TryFrom<T::Native>,
{
    let numbers = array.as_primitive::<T>();
    Arc::new(numbers.unary_opt::<_, Int64Type>(|n| i64::try_from(n).ok()))
}
