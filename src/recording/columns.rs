//! Typed columns of a record batch.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayAccessor, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::ArrowNativeType as _;

/// A column of numbers, or of keys into its dictionary.
#[derive(Clone, Debug)]
pub struct ArrowColumn<T: ArrowPrimitiveType> {
    numbers: PrimitiveArray<T>,
    dictionary: Option<StringArray>,
}

impl<T: ArrowPrimitiveType> Default for ArrowColumn<T> {
    fn default() -> Self {
        Self { numbers: PrimitiveArray::new_null(0), dictionary: None }
    }
}

impl<T: ArrowPrimitiveType> ArrowColumn<T> {
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

impl ArrowColumn<UInt64Type> {
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
pub struct ColumnBatch {
    /// Every decoded column, in the order of [`COLUMNS`](super::schema::COLUMNS).
    pub record: RecordBatch,
    pub time: ArrowColumn<TimestampMicrosecondType>,
    pub kind: ArrowColumn<UInt8Type>,
    pub array: ArrowColumn<UInt16Type>,
    pub member: ArrowColumn<UInt16Type>,
    pub slot: ArrowColumn<UInt16Type>,
    pub op: ArrowColumn<UInt8Type>,
    pub flags: ArrowColumn<UInt8Type>,
    pub origin: ArrowColumn<UInt8Type>,
    pub sector: ArrowColumn<UInt64Type>,
    pub array_sector: ArrowColumn<UInt64Type>,
    pub length: ArrowColumn<UInt64Type>,
    pub bytes: ArrowColumn<UInt64Type>,
    pub count: ArrowColumn<UInt8Type>,
    pub queue_us: ArrowColumn<UInt64Type>,
    pub device_us: ArrowColumn<UInt64Type>,
    error: Option<BooleanArray>,
    pub pid: ArrowColumn<UInt32Type>,
    pub comm: ArrowColumn<UInt32Type>,
    pub cgroup: ArrowColumn<UInt32Type>,
    pub role: ArrowColumn<UInt16Type>,
    pub inode: ArrowColumn<UInt64Type>,
    pub generation: ArrowColumn<UInt32Type>,
    pub filesystem: ArrowColumn<UInt16Type>,
    pub path: ArrowColumn<UInt32Type>,
    text: Option<StringArray>,
}

impl ColumnBatch {
    pub fn new(record: RecordBatch) -> Self {
        let r = &record;
        let text = r.column_by_name("text").and_then(|a| a.as_string_opt());
        let error = r.column_by_name("error").and_then(|a| a.as_boolean_opt());
        Self {
            time: ArrowColumn::new(r, "time"),
            kind: ArrowColumn::new(r, "kind"),
            array: ArrowColumn::new(r, "array"),
            member: ArrowColumn::new(r, "member"),
            slot: ArrowColumn::new(r, "slot"),
            op: ArrowColumn::new(r, "op"),
            flags: ArrowColumn::new(r, "flags"),
            origin: ArrowColumn::new(r, "origin"),
            sector: ArrowColumn::new(r, "sector"),
            array_sector: ArrowColumn::new(r, "array_sector"),
            length: ArrowColumn::new(r, "length"),
            bytes: ArrowColumn::new(r, "bytes"),
            count: ArrowColumn::new(r, "count"),
            queue_us: ArrowColumn::new(r, "queue_us"),
            device_us: ArrowColumn::new(r, "device_us"),
            error: error.cloned(),
            pid: ArrowColumn::new(r, "pid"),
            comm: ArrowColumn::new(r, "comm"),
            cgroup: ArrowColumn::new(r, "cgroup"),
            role: ArrowColumn::new(r, "role"),
            inode: ArrowColumn::new(r, "inode"),
            generation: ArrowColumn::new(r, "generation"),
            filesystem: ArrowColumn::new(r, "filesystem"),
            path: ArrowColumn::new(r, "path"),
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
