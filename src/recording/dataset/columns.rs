//! Definitions of the tables, and Arrow arrays of their columns from JSON.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, BooleanArray, ListArray, PrimitiveArray, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use serde::Deserialize;
use serde_json::Value;

use crate::analysis::figures::{COUNTED, CountedUnit};
use crate::origin::Op;
use crate::recording::schema::COLUMNS;

/// Version of the tables, in the metadata of each file. A file of a later version may have more
/// columns; existing columns keep their meaning.
pub const VERSION: &str = "1";

/// Names of the tables, in the order of [`DatasetTable`].
pub const TABLES: [&str; 8] = [
    "requests",
    "submissions",
    "intervals",
    "verdicts",
    "operations",
    "commits",
    "inventory",
    "cgroups",
];

/// Operations whose sums and times are columns of `intervals`; all are in its column `io`.
pub const INTERVAL_OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// A table of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatasetTable {
    Requests,
    Submissions,
    Intervals,
    Verdicts,
    Operations,
    Commits,
    Inventory,
    Cgroups,
}

/// Tables of which recordings have no rows.
pub const NOT_RECORDED: [DatasetTable; 2] = [DatasetTable::Inventory, DatasetTable::Cgroups];

impl DatasetTable {
    /// Directory of the table in the dataset.
    pub fn name(self) -> &'static str {
        TABLES[self as usize]
    }

    /// Columns of the table, those of all tables last.
    pub fn columns(self) -> &'static [TableColumn] {
        DEFINITIONS.get(self.name()).map_or(&[], |table| &table.0)
    }

    pub fn schema(self) -> SchemaRef {
        DEFINITIONS.get(self.name()).map_or_else(|| Arc::new(Schema::empty()), |t| t.1.clone())
    }
}

/// Type of a column. Integers have 64 bits and a sign: Spark has no other type for large numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    Text,
    Integer,
    Double,
    Boolean,
    /// Microseconds since 1970, UTC.
    Timestamp,
    /// A list of texts.
    Texts,
    /// A list of structs.
    Records,
}

/// A column of a table, or a field of its structs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// Unit of the values; empty for counts and texts.
    #[serde(default)]
    pub unit: String,
    /// JSON pointer of the value in a row; empty: the name.
    #[serde(default)]
    from: String,
    /// When the value is null; `None` if it never is.
    #[serde(default)]
    pub null: Option<String>,
    pub help: String,
    /// Fields of [`ColumnType::Records`].
    #[serde(default)]
    pub columns: Vec<TableColumn>,
}

static DEFINITIONS: LazyLock<BTreeMap<String, (Vec<TableColumn>, SchemaRef)>> =
    LazyLock::new(|| {
        // A test parses the same file.
        let read: BTreeMap<String, Vec<TableColumn>> =
            toml::from_str(include_str!("columns.toml")).unwrap_or_default();
        let common = read.get("common").cloned().unwrap_or_default();
        let tables = read.into_iter().map(|(name, mut columns)| {
            let is_recorded = ["requests", "submissions"].contains(&name.as_str());
            if name == DatasetTable::Intervals.name() {
                columns.extend(figures());
            }
            columns.extend(common.iter().cloned());
            let fields = columns.iter().map(|column| {
                // Texts stay in the dictionaries of the recording. Parquet has one type for both.
                let recorded = COLUMNS.iter().find(|recorded| recorded.0 == column.name);
                match recorded.filter(|_| is_recorded && column.kind == ColumnType::Text) {
                    Some((_, kind)) => {
                        Field::new(&column.name, kind.arrow(), column.null.is_some()).into()
                    }
                    None => column.field(),
                }
            });
            let fields: Vec<FieldRef> = fields.collect();
            (name, (columns, Arc::new(Schema::new(fields))))
        });
        tables.collect()
    });

/// Columns of `intervals` for operations and for the figures of [`COUNTED`].
fn figures() -> Vec<TableColumn> {
    let column = |name: String, unit: &str, null: Option<&str>, help: String| TableColumn {
        name,
        kind: ColumnType::Integer,
        unit: unit.to_owned(),
        from: String::new(),
        null: null.map(str::to_owned),
        help,
        columns: Vec::new(),
    };
    let mut columns = Vec::new();
    for op in INTERVAL_OPS.map(Op::name) {
        let requests = format!("{op} requests");
        columns.push(column(format!("{op}_requests"), "", None, requests.clone()));
        columns.push(column(format!("{op}_bytes"), "bytes", None, format!("bytes of {requests}")));
        for (figure, what) in [("p50", "median"), ("p99", "99th percentile"), ("max", "maximum")] {
            let help = format!("from issue to completion of {requests}, {what}");
            let name = format!("{op}_{figure}_us");
            columns.push(column(name, "µs", Some("no request"), help));
        }
    }
    columns.extend(COUNTED.iter().map(|figure| {
        let unit = if figure.unit == CountedUnit::Events { "" } else { "µs" };
        column(figure.json_name(), unit, None, figure.help.to_owned())
    }));
    columns
}

impl TableColumn {
    fn field(&self) -> FieldRef {
        Arc::new(Field::new(&self.name, self.data_type(), self.null.is_some()))
    }

    fn fields(&self) -> Fields {
        self.columns.iter().map(TableColumn::field).collect()
    }

    /// Field of the elements of a list.
    fn element(&self) -> FieldRef {
        let kind = match self.kind {
            ColumnType::Records => DataType::Struct(self.fields()),
            _ => DataType::Utf8,
        };
        Arc::new(Field::new("element", kind, false))
    }

    fn data_type(&self) -> DataType {
        match self.kind {
            ColumnType::Text => DataType::Utf8,
            ColumnType::Integer => DataType::Int64,
            ColumnType::Double => DataType::Float64,
            ColumnType::Boolean => DataType::Boolean,
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ColumnType::Texts | ColumnType::Records => DataType::List(self.element()),
        }
    }

    fn value<'a>(&self, row: &'a Value) -> Option<&'a Value> {
        let found = match self.from.as_str() {
            "" => row.get(&self.name),
            pointer => row.pointer(pointer),
        };
        found.filter(|value| !value.is_null())
    }

    /// The column of `rows`, which are JSON objects. A value of another type is null.
    ///
    /// # Errors
    /// A value that is never null is missing.
    pub fn array(&self, rows: &[&Value]) -> Result<ArrayRef, ArrowError> {
        let values = || rows.iter().map(|row| self.value(row));
        Ok(match self.kind {
            ColumnType::Text => Arc::new(values().map(|v| v?.as_str()).collect::<StringArray>()),
            ColumnType::Integer => {
                Arc::new(values().map(|v| integer(v?)).collect::<PrimitiveArray<Int64Type>>())
            }
            ColumnType::Double => {
                Arc::new(values().map(|v| v?.as_f64()).collect::<PrimitiveArray<Float64Type>>())
            }
            ColumnType::Boolean => {
                Arc::new(values().map(|v| v?.as_bool()).collect::<BooleanArray>())
            }
            ColumnType::Timestamp => {
                let times = values().map(|v| time_us(v?));
                let times = times.collect::<PrimitiveArray<TimestampMicrosecondType>>();
                Arc::new(times.with_timezone("UTC"))
            }
            ColumnType::Texts | ColumnType::Records => {
                let lists = values().map(|v| v.and_then(Value::as_array));
                let lists: Vec<&[Value]> =
                    lists.map(|l| l.map_or(&[][..], Vec::as_slice)).collect();
                let elements: Vec<&Value> = lists.iter().copied().flatten().collect();
                let inner: ArrayRef = if self.kind == ColumnType::Texts {
                    let texts = elements.iter().map(|v| Some(v.as_str().unwrap_or_default()));
                    Arc::new(texts.collect::<StringArray>())
                } else {
                    let arrays: Result<Vec<_>, _> =
                        self.columns.iter().map(|column| column.array(&elements)).collect();
                    Arc::new(StructArray::try_new(self.fields(), arrays?, None)?)
                };
                let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.len()));
                Arc::new(ListArray::try_new(self.element(), offsets, inner, None)?)
            }
        })
    }
}

/// An integer; one that is too large only in a damaged recording is the largest.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.is_u64().then_some(i64::MAX))
}

/// Microseconds since 1970 of a number of them, or of a time as text.
pub fn time_us(value: &Value) -> Option<i64> {
    let parse = |text: &str| Some(text.parse::<jiff::Timestamp>().ok()?.as_microsecond());
    value.as_i64().or_else(|| parse(value.as_str()?))
}
