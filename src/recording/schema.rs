//! The columns of a recording, and the text form of names in them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::header::{HEADER_KEY, VERSION, VERSION_KEY};

/// Kinds of rows, in the order of their dictionary keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// [`Item::Request`](crate::analysis::item::Item::Request)
    Request,
    /// [`Item::Part`](crate::analysis::item::Item::Part)
    Part,
    /// [`Item::Submission`](crate::analysis::item::Item::Submission)
    Submission,
    /// [`Item::State`](crate::analysis::item::Item::State)
    State,
    /// [`Item::Note`](crate::analysis::item::Item::Note)
    Note,
    /// [`Item::Lost`](crate::analysis::item::Item::Lost)
    Lost,
    /// [`Item::Dirtied`](crate::analysis::item::Item::Dirtied)
    Dirtied,
    /// [`Item::Alloc`](crate::analysis::item::Item::Alloc)
    Alloc,
    /// [`Item::Slow`](crate::analysis::item::Item::Slow)
    Slow,
}

impl RowKind {
    /// All kinds with their names in the column `kind`, in the order of their dictionary keys.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Request, "request"),
        (Self::Part, "part"),
        (Self::Submission, "submission"),
        (Self::State, "state"),
        (Self::Note, "note"),
        (Self::Lost, "lost"),
        (Self::Dirtied, "dirtied"),
        (Self::Alloc, "alloc"),
        (Self::Slow, "slow"),
    ];
}

/// A column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Microseconds since 1970, UTC.
    Time,
    /// Text in a dictionary with keys of 8 bits.
    Dict8,
    /// Text in a dictionary with keys of 16 bits.
    Dict16,
    /// Text in a dictionary with keys of 32 bits.
    Dict32,
    /// 8 bits.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// True or false.
    Bool,
    /// Text.
    Utf8,
}

impl Type {
    pub fn arrow(self) -> DataType {
        let dict = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
        match self {
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Dict8 => dict(DataType::UInt8),
            Self::Dict16 => dict(DataType::UInt16),
            Self::Dict32 => dict(DataType::UInt32),
            Self::U8 => DataType::UInt8,
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::Bool => DataType::Boolean,
            Self::Utf8 => DataType::Utf8,
        }
    }
}

/// Columns in the order of the file. All but the first two may be null. Columns that are summed
/// have 64 bits, because some tools give a sum the type of its column.
pub const COLUMNS: [(&str, Type); 25] = {
    use Type::*;
    [
        ("time", Time),
        ("kind", Dict8),
        ("array", Dict16),
        ("member", Dict16),
        ("slot", U16),
        ("op", Dict8),
        ("flags", Dict8),
        ("origin", Dict8),
        ("sector", U64),
        ("array_sector", U64),
        ("length", U64),
        ("bytes", U64),
        ("count", U8),
        ("queue_us", U64),
        ("device_us", U64),
        ("error", Bool),
        ("pid", U32),
        ("comm", Dict32),
        ("cgroup", Dict32),
        ("role", Dict16),
        ("inode", U64),
        ("generation", U32),
        ("filesystem", Dict16),
        ("path", Dict32),
        ("text", Utf8),
    ]
};

/// Number of columns, from the first, that are never null.
pub const NOT_NULL: usize = 2;

/// The Arrow schema of a recording with this header.
pub fn schema(header_json: String) -> Arc<Schema> {
    let fields: Vec<Field> = COLUMNS
        .iter()
        .enumerate()
        .map(|(i, (name, column))| Field::new(*name, column.arrow(), i >= NOT_NULL))
        .collect();
    let metadata = HashMap::from([
        (VERSION_KEY.to_owned(), VERSION.to_string()),
        (HEADER_KEY.to_owned(), header_json),
    ]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Text of a name: a byte that is not UTF-8 becomes `\xff`, a backslash `\\`. [`unescape`] restores
/// every name.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                out.push(c);
            }
            out.push(c);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Inverse of [`escape`]. Invalid escapes are kept as they are.
pub fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |i: usize| char::from(*bytes.get(at + i)?).to_digit(16);
        match (byte, bytes.get(at + 1)) {
            (b'\\', Some(b'\\')) => {
                out.push(b'\\');
                at += 2;
            }
            (b'\\', Some(b'x')) => match (hex(2), hex(3)) {
                (Some(high), Some(low)) => {
                    out.push((high << 4 | low) as u8);
                    at += 4;
                }
                _ => {
                    out.push(byte);
                    at += 1;
                }
            },
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Suffix of the path of a deleted file. If a path itself ends with this text, its space is
/// escaped.
const DELETED: &str = " (deleted)";

/// Value of the column `path`: the path of a file, or its bare name if the path is unknown. `None`
/// if both are unknown.
pub fn path_text(location: &crate::analysis::files::FileLocation) -> Option<String> {
    let name = location.path.as_deref().or(location.name.as_deref());
    let mut text = escape(name.unwrap_or_default());
    if let Some(rest) = text.strip_suffix(DELETED) {
        text = format!("{rest}\\x20(deleted)");
    }
    if location.deleted {
        text.push_str(DELETED);
    }
    (!text.is_empty()).then_some(text)
}

/// Inverse of [`path_text`]: path, name, and true if the file was deleted.
pub fn path_parse(text: &str) -> (Option<Vec<u8>>, Option<Vec<u8>>, bool) {
    let (name, deleted) = match text.strip_suffix(DELETED) {
        Some(name) => (name, true),
        None => (text, false),
    };
    let bytes = unescape(name);
    match bytes.first() {
        None => (None, None, deleted),
        Some(b'/') => (Some(bytes), None, deleted),
        Some(_) => (None, Some(bytes), deleted),
    }
}

#[cfg(test)]
mod tests {
    use super::{escape, path_parse, path_text, unescape};
    use crate::analysis::files::FileLocation;
    use proptest::prelude::*;

    #[test]
    fn names_are_readable() {
        assert_eq!(escape(b"/srv/a b"), "/srv/a b");
        assert_eq!(escape(b"a\\\xff"), "a\\\\\\xff");
        assert_eq!(unescape("\\q\\x4\\"), b"\\q\\x4\\");
    }

    proptest! {
        #[test]
        fn every_name_is_restored(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            tail in prop::sample::select(vec!["", "\\x20", " (deleted)"]),
        ) {
            let bytes = [&bytes[..], tail.as_bytes()].concat();
            prop_assert_eq!(unescape(&escape(&bytes)), bytes);
        }

        #[test]
        fn every_path_is_restored(
            bytes in prop::collection::vec(1u8..=255, 1..20),
            end in any::<bool>(),
            absolute in any::<bool>(),
            deleted in any::<bool>(),
        ) {
            let mut bytes: Vec<u8> = bytes.into_iter().filter(|&b| b != b'/').collect();
            bytes.insert(0, if absolute { b'/' } else { b'x' });
            if end {
                bytes.extend(b" (deleted)");
            }
            let mut location = FileLocation { deleted, ..FileLocation::default() };
            *(if absolute { &mut location.path } else { &mut location.name }) = Some(bytes);
            let text = path_text(&location).unwrap();
            prop_assert_eq!(path_parse(&text), (location.path, location.name, deleted));
        }
    }
}
