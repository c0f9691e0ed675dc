//! The part of a source that a file of a dataset was made of.

use parquet::file::metadata::{KeyValue, ParquetMetaData};

/// The part of a source that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Times of the first and last row, µs since 1970.
    pub from_us: i64,
    pub to_us: i64,
    /// Rows of the source, of all kinds.
    pub rows: i64,
}

impl Extent {
    /// True if everything in `other` is in this part, too.
    pub fn includes(&self, other: &Self) -> bool {
        self.from_us <= other.from_us && self.to_us >= other.to_us && self.rows >= other.rows
    }

    fn named(&self) -> [(String, i64); 3] {
        [("from_us", self.from_us), ("to_us", self.to_us), ("rows", self.rows)]
            .map(|(name, n)| (format!("raidtrace.{name}"), n))
    }

    /// The extent as metadata of a file.
    pub fn key_values(&self) -> impl Iterator<Item = KeyValue> + use<> {
        self.named().into_iter().map(|(name, n)| KeyValue::new(name, n.to_string()))
    }

    /// The extent in the metadata of a file; `None` if it has none.
    pub fn from_metadata(metadata: &ParquetMetaData) -> Option<Self> {
        let stored = metadata.file_metadata().key_value_metadata()?;
        let [from_us, to_us, rows] = Self::default().named().map(|(name, _)| {
            let found = stored.iter().find(|pair| pair.key == name)?;
            found.value.as_ref()?.parse().ok()
        });
        Some(Self { from_us: from_us?, to_us: to_us?, rows: rows? })
    }
}
