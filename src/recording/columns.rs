//! Typed columns of a record batch.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayAccessor, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::ArrowNativeType as _;

/// A column of numbers, or of keys into its dictionary.
#[derive(Clone, Debug)]
pub struct Column<T: ArrowPrimitiveType> {
    numbers: PrimitiveArray<T>,
    dictionary: Option<StringArray>,
}

impl<T: ArrowPrimitiveType> Default for Column<T> {
    fn default() -> Self {
        Self { numbers: PrimitiveArray::new_null(0), dictionary: None }
    }
}

impl<T: ArrowPrimitiveType> Column<T> {
    /// The column `name`; empty if `record` has none of that type.
    fn new(record: &RecordBatch, name: &str) -> Self {
        let array = record.column_by_name(name);
        let dictionary = array.and_then(|a| a.as_any_dictionary_opt());
        let numbers = match dictionary {
            Some(dictionary) => dictionary.keys().as_primitive_opt(),
            None => array.and_then(|a| a.as_primitive_opt()),
        };
        match numbers.cloned() {
            Some(numbers) => Self {
                numbers,
                dictionary: dictionary.and_then(|d| d.values().as_string_opt()).cloned(),
            },
            None => Self::default(),
        }
    }

    /// Value of a row; `None` if it is null, or if the column is not decoded.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T::Native> {
        get(&self.numbers, row)
    }

    /// Dictionary entry of `key`.
    pub fn entry(&self, key: T::Native) -> Option<&str> {
        get(self.dictionary.as_ref()?, key.as_usize())
    }

    /// Dictionary entry of a row.
    pub fn text(&self, row: usize) -> Option<&str> {
        self.entry(self.get(row)?)
    }
}

impl Column<UInt64Type> {
    /// True if every value fits into 32 bits.
    pub fn fits_32_bits(&self) -> bool {
        let all = self.numbers.values().iter().fold(0, |all, v| all | v);
        // Null rows may hold any value.
        let fits = |v: u64| u32::try_from(v).is_ok();
        fits(all) || self.numbers.iter().flatten().all(fits)
    }
}

#[inline]
fn get<A: ArrayAccessor>(array: A, row: usize) -> Option<A::Item> {
    (row < array.len() && array.is_valid(row)).then(|| array.value(row))
}

#[derive(Debug)]
pub struct Batch {
    /// Every decoded column, in the order of [`COLUMNS`](super::schema::COLUMNS).
    pub record: RecordBatch,
    pub time: Column<TimestampMicrosecondType>,
    pub kind: Column<UInt8Type>,
    pub array: Column<UInt16Type>,
    pub member: Column<UInt16Type>,
    pub slot: Column<UInt16Type>,
    pub op: Column<UInt8Type>,
    pub flags: Column<UInt8Type>,
    pub origin: Column<UInt8Type>,
    pub sector: Column<UInt64Type>,
    pub array_sector: Column<UInt64Type>,
    pub length: Column<UInt64Type>,
    pub bytes: Column<UInt64Type>,
    pub count: Column<UInt8Type>,
    pub queue_us: Column<UInt64Type>,
    pub device_us: Column<UInt64Type>,
    error: Option<BooleanArray>,
    pub pid: Column<UInt32Type>,
    pub comm: Column<UInt32Type>,
    pub cgroup: Column<UInt32Type>,
    pub role: Column<UInt16Type>,
    pub inode: Column<UInt64Type>,
    pub generation: Column<UInt32Type>,
    pub filesystem: Column<UInt16Type>,
    pub path: Column<UInt32Type>,
    text: Option<StringArray>,
}

impl Batch {
    pub fn new(record: RecordBatch) -> Self {
        let r = &record;
        let text = r.column_by_name("text").and_then(|a| a.as_string_opt());
        let error = r.column_by_name("error").and_then(|a| a.as_boolean_opt());
        Self {
            time: Column::new(r, "time"),
            kind: Column::new(r, "kind"),
            array: Column::new(r, "array"),
            member: Column::new(r, "member"),
            slot: Column::new(r, "slot"),
            op: Column::new(r, "op"),
            flags: Column::new(r, "flags"),
            origin: Column::new(r, "origin"),
            sector: Column::new(r, "sector"),
            array_sector: Column::new(r, "array_sector"),
            length: Column::new(r, "length"),
            bytes: Column::new(r, "bytes"),
            count: Column::new(r, "count"),
            queue_us: Column::new(r, "queue_us"),
            device_us: Column::new(r, "device_us"),
            error: error.cloned(),
            pid: Column::new(r, "pid"),
            comm: Column::new(r, "comm"),
            cgroup: Column::new(r, "cgroup"),
            role: Column::new(r, "role"),
            inode: Column::new(r, "inode"),
            generation: Column::new(r, "generation"),
            filesystem: Column::new(r, "filesystem"),
            path: Column::new(r, "path"),
            text: text.cloned(),
            record,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.record.num_rows()
    }

    pub fn error(&self, row: usize) -> Option<bool> {
        get(self.error.as_ref()?, row)
    }

    pub fn text(&self, row: usize) -> Option<&str> {
        get(self.text.as_ref()?, row)
    }

    /// The latest time, in µs since 1970.
    pub fn last_us(&self) -> Option<i64> {
        (0..self.rows()).filter_map(|row| self.time.get(row)).max()
    }
}
