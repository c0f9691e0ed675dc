//! A column on its way: rows of as many batches as make a page, without what is null.

use anyhow::Result;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::chunk::Chunk;
use super::dictionary::{Few, Words, plain_text};
use super::encode;
use crate::recording::reader;
use crate::recording::reader::Texts;
use crate::recording::schema::Type;

/// Rows of a page, or a batch more; bytes of text of one.
const ROWS: usize = 1 << 15;
const TEXT: usize = 1 << 20;

/// Why a batch is no table.
pub type Wrong = String;

/// How numbers are told.
pub enum How {
    /// By their differences.
    Deltas,
    /// As they are: the same ones come again soon, and zstd finds them.
    Plain,
    /// By their number among the few that there are; by their differences where they are many.
    Few(Few),
}

/// The values that are not null.
enum Values {
    Numbers {
        values: Vec<u64>,
        /// Bytes of one.
        width: usize,
        how: How,
    },
    Words {
        keys: Vec<u32>,
        words: Words,
    },
    Bits(Vec<u8>),
    /// As PLAIN has them.
    Texts(Vec<u8>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Numbers { values, .. } => values.len(),
            Self::Words { keys, .. } => keys.len(),
            Self::Bits(bytes) | Self::Texts(bytes) => bytes.len(),
        }
    }

    fn truncate(&mut self, length: usize) {
        match self {
            Self::Numbers { values, .. } => values.truncate(length),
            Self::Words { keys, .. } => keys.truncate(length),
            Self::Bits(bytes) | Self::Texts(bytes) => bytes.truncate(length),
        }
    }
}

/// Which rows are not null.
#[derive(Clone, Copy)]
enum There<'a> {
    All,
    None,
    /// A bit each.
    Some(&'a [u8]),
}

/// A column of a row group.
pub struct Column {
    chunk: Chunk,
    nullable: bool,
    values: Values,
    there: Vec<u8>,
    rows: usize,
    /// Rows and values that are of whole batches.
    sure: (usize, usize),
    /// Least and most of the row group.
    range: Option<(i64, i64)>,
    keys: Vec<u32>,
    page: Vec<u8>,
}

impl Column {
    /// Of this type.
    pub fn new(column: ColumnDescPtr, of: Type, how: How) -> Self {
        let numbers = |width| Values::Numbers {
            values: Vec::new(),
            width,
            how,
        };
        let values = match of {
            Type::Time | Type::U64 => numbers(8),
            Type::U8 | Type::U16 | Type::U32 => numbers(4),
            Type::Dict8 | Type::Dict16 | Type::Dict32 => Values::Words {
                keys: Vec::new(),
                words: Words::default(),
            },
            Type::Bool => Values::Bits(Vec::new()),
            Type::Utf8 => Values::Texts(Vec::new()),
        };
        Self {
            nullable: column.max_def_level() > 0,
            chunk: Chunk::new(column),
            values,
            there: Vec::new(),
            rows: 0,
            sure: (0, 0),
            range: None,
            keys: Vec::new(),
            page: Vec::new(),
        }
    }

    /// Rows of a column of numbers or bits.
    pub fn numbers<T: Copy>(
        &mut self,
        from: &reader::Column<T>,
        rows: usize,
        wide: impl Fn(T) -> u64,
    ) -> Result<(), Wrong> {
        let there = there(from.is_none(), from.there());
        match &mut self.values {
            Values::Numbers { values, .. } => compact(from.values(), there, rows, wide, values),
            Values::Bits(bits) => compact(from.values(), there, rows, |v| wide(v) as u8, bits),
            _ => {}
        }
        self.rows(there, rows)
    }

    /// Rows of a column of words.
    pub fn words<T: Copy>(
        &mut self,
        from: &reader::Column<T>,
        rows: usize,
        texts: &Texts,
        wide: impl Fn(T) -> u32,
    ) -> Result<(), Wrong> {
        let Values::Words { keys, words } = &mut self.values else {
            return Ok(());
        };
        let mut bits = Vec::new();
        let mut there = there(from.is_none(), from.there());
        if texts.has_nulls() {
            // Nobody of us writes that.
            let null = |v: T| texts.is_null(wide(v) as usize);
            let some = |row| from.get(row).is_some_and(|v| !null(v));
            set(&mut bits, rows, some);
            there = There::Some(&bits);
        }
        let begin = keys.len();
        compact(from.values(), there, rows, wide, keys);
        words.take(keys.get_mut(begin..).unwrap_or_default(), texts)?;
        self.rows(there, rows)
    }

    /// Rows of a column of text.
    pub fn texts(&mut self, from: &Texts, rows: usize) -> Result<(), Wrong> {
        if let Values::Texts(plain) = &mut self.values {
            for row in 0..rows {
                if !from.is_null(row) {
                    plain_text(plain, from.get(row).ok_or("a text is none")?);
                }
            }
        }
        let mut bits = Vec::new();
        set(&mut bits, rows, |row| !from.is_null(row));
        self.rows(There::Some(&bits), rows)
    }

    fn rows(&mut self, there: There<'_>, rows: usize) -> Result<(), Wrong> {
        if !self.nullable && !matches!(there, There::All) {
            return Err("a time or a kind is null".to_owned());
        }
        if self.nullable {
            append(&mut self.there, self.rows, there, rows);
        }
        self.rows += rows;
        Ok(())
    }

    /// The batch was a table, in all columns: what it had stays. Makes a page if there is enough for one.
    pub fn keep(&mut self, zstd: &mut Compressor<'_>) -> Result<()> {
        self.sure = (self.rows, self.values.len());
        let long = matches!(&self.values, Values::Texts(plain) if plain.len() >= TEXT);
        if self.rows >= ROWS || long {
            self.page(zstd)?;
        }
        Ok(())
    }

    /// It was not: what it had goes.
    pub fn forget(&mut self) {
        self.rows = self.sure.0;
        self.values.truncate(self.sure.1);
        if self.nullable {
            cut(&mut self.there, self.rows);
        }
    }

    /// In memory.
    pub fn bytes(&self) -> usize {
        let words = match &self.values {
            Values::Words { words, .. } => words.all().1.len(),
            _ => 0,
        };
        self.chunk.bytes() + words
    }

    fn page(&mut self, zstd: &mut Compressor<'_>) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let page = &mut self.page;
        page.clear();
        let count = match &self.values {
            Values::Texts(_) => self.there.iter().map(|b| b.count_ones() as usize).sum(),
            other => other.len(),
        };
        if self.nullable {
            encode::levels(page, &self.there, self.rows, self.rows - count);
        }
        let encoding = match &mut self.values {
            _ if count == 0 => Encoding::PLAIN,
            Values::Numbers { values, width, how } => {
                if let How::Few(few) = how
                    && few.take(values, &mut self.keys)
                {
                    encode::keys(page, &self.keys, few.all().len());
                    Encoding::RLE_DICTIONARY
                } else if matches!(how, How::Plain) {
                    encode::plain(page, values, *width);
                    Encoding::PLAIN
                } else {
                    encode::deltas(page, values, *width);
                    Encoding::DELTA_BINARY_PACKED
                }
            }
            Values::Words { keys, words } => {
                encode::keys(page, keys, words.all().0);
                Encoding::RLE_DICTIONARY
            }
            Values::Bits(bits) => {
                set(page, bits.len(), |bit| bits.get(bit) == Some(&1));
                Encoding::PLAIN
            }
            Values::Texts(plain) => {
                page.extend_from_slice(plain);
                Encoding::PLAIN
            }
        };
        if let (false, Values::Numbers { values, .. }) = (self.nullable, &self.values) {
            let signed = || values.iter().map(|&v| v as i64);
            let (least, most) = self.range.unwrap_or((i64::MAX, i64::MIN));
            let least = signed().fold(least, i64::min);
            self.range = Some((least, signed().fold(most, i64::max)));
        }
        self.chunk.page(zstd, page, self.rows, encoding)?;
        (self.rows, self.sure) = (0, (0, 0));
        self.values.truncate(0);
        self.there.clear();
        Ok(())
    }

    /// What it is of the row group; the next begins.
    pub fn close(&mut self, zstd: &mut Compressor<'_>) -> Result<(Bytes, ColumnCloseResult)> {
        self.page(zstd)?;
        let range = self.range.take();
        let range = range
            .map(|(least, most)| Statistics::int64(Some(least), Some(most), None, Some(0), false));
        let mut plain = Vec::new();
        let dictionary = match &self.values {
            Values::Words { words, .. } => Some(words.all()),
            Values::Numbers {
                width,
                how: How::Few(few),
                ..
            } => {
                encode::plain(&mut plain, few.all(), *width);
                Some((few.all().len(), plain.as_slice()))
            }
            _ => None,
        };
        let dictionary = dictionary.filter(|_| self.chunk.has(Encoding::RLE_DICTIONARY));
        let closed = self.chunk.close(zstd, dictionary, range)?;
        match &mut self.values {
            Values::Words { words, .. } => words.clear(),
            Values::Numbers {
                how: How::Few(few), ..
            } => few.clear(),
            _ => {}
        }
        Ok(closed)
    }
}

fn there(none: bool, bits: &[u8]) -> There<'_> {
    match bits {
        _ if none => There::None,
        [] => There::All,
        some => There::Some(some),
    }
}

/// Puts what is not null behind `out`.
fn compact<T: Copy, U: Copy + Default>(
    values: &[T],
    there: There<'_>,
    rows: usize,
    map: impl Fn(T) -> U,
    out: &mut Vec<U>,
) {
    let values = values.get(..rows).unwrap_or_default();
    match there {
        There::None => {}
        There::All => out.extend(values.iter().map(|&v| map(v))),
        There::Some(bits) => {
            let mut some = [U::default(); 512];
            for (values, bits) in values.chunks(some.len()).zip(bits.chunks(some.len() / 8)) {
                let mut end = 0;
                for (eight, &bits) in values.chunks(8).zip(bits) {
                    // What is null is written too, and then written over.
                    for (bit, &value) in eight.iter().enumerate() {
                        if let Some(place) = some.get_mut(end) {
                            *place = map(value);
                        }
                        end += usize::from(bits >> bit & 1);
                    }
                }
                out.extend_from_slice(some.get(..end).unwrap_or_default());
            }
        }
    }
}

/// Bits behind `out`, from a whole byte on.
fn set(out: &mut Vec<u8>, count: usize, bit: impl Fn(usize) -> bool) {
    for byte in 0..count.div_ceil(8) {
        let bits = (byte * 8..count.min(byte * 8 + 8)).rev();
        out.push(bits.fold(0, |all, i| all << 1 | u8::from(bit(i))));
    }
}

/// Puts `rows` bits behind the first `length` of `out`.
fn append(out: &mut Vec<u8>, length: usize, there: There<'_>, rows: usize) {
    let shift = length % 8;
    let mut byte = |bits: u8| {
        if shift == 0 {
            out.push(bits);
        } else if let Some(last) = out.last_mut() {
            *last |= bits << shift;
            out.push(bits >> (8 - shift));
        }
    };
    let bytes = rows.div_ceil(8);
    match there {
        There::All => (0..bytes).for_each(|_| byte(0xff)),
        There::None => (0..bytes).for_each(|_| byte(0)),
        There::Some(bits) => bits.iter().take(bytes).for_each(|&bits| byte(bits)),
    }
    cut(out, length + rows);
}

/// To so many bits; those of the last byte that are none are 0.
fn cut(bits: &mut Vec<u8>, length: usize) {
    bits.truncate(length.div_ceil(8));
    if let Some(last) = bits.last_mut()
        && !length.is_multiple_of(8)
    {
        *last &= 0xff >> (8 - length % 8);
    }
}
