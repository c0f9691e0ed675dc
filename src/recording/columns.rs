//! Arrow buffers -> columns, by our own hands: the bytes are anybody's, and a recording is read over and over into the
//! same memory. Flatbuffers are verified before they come here.

use arrow_ipc::{BodyCompressionMethod, CompressionType, RecordBatch};
use bytemuck::Pod;
use zstd::bulk::Decompressor;

/// Rows of a batch.
pub const ROWS: usize = 1 << 17;
/// Words of a dictionary.
const WORDS: usize = 1 << 20;
/// Text of a column or a dictionary: this, or this many times its compressed size.
const TEXT: usize = 4 << 20;
const TEXT_RATIO: usize = 256;
const TEXT_MOST: usize = 64 << 20;

/// Why a batch cannot be read.
pub type Wrong = &'static str;

/// A column: a value a row, and which of them are null.
#[derive(Debug, Default)]
pub struct Column<T> {
    values: Vec<T>,
    /// A bit a row; empty: none is null.
    there: Vec<u8>,
    /// All are null.
    none: bool,
}

impl<T: Copy> Column<T> {
    /// Of a row; `None`: null.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T> {
        if self.none {
            return None;
        }
        if let Some(byte) = self.there.get(row / 8)
            && byte >> (row % 8) & 1 == 0
        {
            return None;
        }
        self.values.get(row).copied()
    }
}

impl Column<u64> {
    /// Whether each of the first `rows` is of 32 bits.
    pub fn is_short(&self, rows: usize) -> bool {
        if self.none {
            return true;
        }
        let all = self.values.iter().take(rows).fold(0, |all, v| all | v);
        // What is null may be anything.
        let long = |row: usize| self.get(row).is_some_and(|v| u32::try_from(v).is_err());
        u32::try_from(all).is_ok() || !(0..rows).any(long)
    }
}

#[cfg(feature = "export")]
impl<T> Column<T> {
    /// A value a row, whether it is null or not; nothing where all are.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// A bit a row; empty: none is null.
    pub fn there(&self) -> &[u8] {
        &self.there
    }

    /// Whether all are null.
    pub fn is_none(&self) -> bool {
        self.none
    }
}

/// Texts by number: a dictionary, or a column of text.
#[derive(Debug, Default)]
pub struct Texts {
    /// One more than texts.
    offsets: Vec<i32>,
    text: Vec<u8>,
    there: Vec<u8>,
    none: bool,
}

impl Texts {
    /// The bytes of a text; `None`: null, or there is no such.
    pub fn get(&self, number: usize) -> Option<&str> {
        if self.none {
            return None;
        }
        if let Some(byte) = self.there.get(number / 8)
            && byte >> (number % 8) & 1 == 0
        {
            return None;
        }
        let from = usize::try_from(*self.offsets.get(number)?).ok()?;
        let to = usize::try_from(*self.offsets.get(number + 1)?).ok()?;
        std::str::from_utf8(self.text.get(from..to)?).ok()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// The buffers of one record batch or dictionary, taken one after another.
pub struct Buffers<'a> {
    batch: RecordBatch<'a>,
    body: &'a [u8],
    compressed: bool,
    pub rows: usize,
    node: usize,
    buffer: usize,
    zstd: &'a mut Decompressor<'static>,
}

impl<'a> Buffers<'a> {
    /// Of `batch`, whose bytes are `body`.
    pub fn new(
        batch: RecordBatch<'a>,
        body: &'a [u8],
        zstd: &'a mut Decompressor<'static>,
    ) -> Result<Self, Wrong> {
        let compressed = match batch.compression() {
            None => false,
            Some(c)
                if c.codec() == CompressionType::ZSTD
                    && c.method() == BodyCompressionMethod::BUFFER =>
            {
                true
            }
            Some(_) => return Err("a batch is not compressed with zstd"),
        };
        let rows = usize::try_from(batch.length()).map_err(|_| "a batch has no length")?;
        Ok(Self {
            batch,
            body,
            compressed,
            rows,
            node: 0,
            buffer: 0,
            zstd,
        })
    }

    /// A column of numbers.
    pub fn numbers<T: Pod>(&mut self, into: &mut Column<T>) -> Result<(), Wrong> {
        into.none = self.nulls(&mut into.there)?;
        let buffer = self.next()?;
        if into.none {
            return Ok(());
        }
        into.values.resize(self.rows, T::zeroed());
        self.fill(buffer, bytemuck::cast_slice_mut(&mut into.values))
    }

    /// A column of bits.
    pub fn bits(&mut self, into: &mut Column<u8>) -> Result<(), Wrong> {
        into.none = self.nulls(&mut into.there)?;
        let buffer = self.next()?;
        if into.none {
            return Ok(());
        }
        let mut bits = vec![0; self.rows.div_ceil(8)];
        self.fill(buffer, &mut bits)?;
        into.values.clear();
        let bit = |row: usize| bits.get(row / 8).map_or(0, |b| b >> (row % 8) & 1);
        into.values.extend((0..self.rows).map(bit));
        Ok(())
    }

    /// A column of text, or the words of a dictionary.
    pub fn texts(&mut self, into: &mut Texts) -> Result<(), Wrong> {
        if self.rows > WORDS {
            return Err("a dictionary has too many words");
        }
        into.none = self.nulls(&mut into.there)?;
        let (offsets, text) = (self.next()?, self.next()?);
        into.text.clear();
        if into.none || self.rows == 0 {
            into.none = true;
            into.offsets.clear();
            into.offsets.resize(self.rows + 1, 0);
            // An empty dictionary is not one of nulls.
            into.none = self.rows > 0;
            return Ok(());
        }
        into.offsets.resize(self.rows + 1, 0);
        self.fill(offsets, bytemuck::cast_slice_mut(&mut into.offsets))?;
        let ordered = into.offsets.is_sorted() && into.offsets.first().is_some_and(|&o| o >= 0);
        let end = into.offsets.last().and_then(|&o| usize::try_from(o).ok());
        let Some(end) = end.filter(|_| ordered) else {
            return Err("texts overlap");
        };
        if end
            > TEXT
                .max(text.len().saturating_mul(TEXT_RATIO))
                .min(TEXT_MOST)
        {
            return Err("a text is too long");
        }
        into.text.resize(end, 0);
        self.fill(text, &mut into.text)
    }

    /// Passes a column over: so many buffers.
    pub fn skip(&mut self, buffers: usize) {
        self.node += 1;
        self.buffer += buffers;
    }

    /// Which are not null, into `there`; whether all are.
    fn nulls(&mut self, there: &mut Vec<u8>) -> Result<bool, Wrong> {
        let nodes = self.batch.nodes().ok_or("a batch has no columns")?;
        if self.node >= nodes.len() {
            return Err("a batch lacks columns");
        }
        let node = *nodes.get(self.node);
        self.node += 1;
        if usize::try_from(node.length()) != Ok(self.rows) {
            return Err("columns differ in length");
        }
        let buffer = self.next()?;
        there.clear();
        if node.null_count() <= 0 {
            return Ok(false);
        }
        if usize::try_from(node.null_count()) == Ok(self.rows) {
            return Ok(true);
        }
        there.resize(self.rows.div_ceil(8), 0);
        self.fill(buffer, there)?;
        Ok(false)
    }

    /// The bytes of the next buffer as they are in the file.
    fn next(&mut self) -> Result<&'a [u8], Wrong> {
        let buffers = self.batch.buffers().ok_or("a batch has no columns")?;
        if self.buffer >= buffers.len() {
            return Err("a batch lacks columns");
        }
        let buffer = *buffers.get(self.buffer);
        self.buffer += 1;
        let from = usize::try_from(buffer.offset()).ok();
        let length = usize::try_from(buffer.length()).ok();
        from.zip(length)
            .and_then(|(from, length)| self.body.get(from..from.checked_add(length)?))
            .ok_or("a column lies outside of its batch")
    }

    /// Fills `into`, whose length is what the column must have at least.
    fn fill(&mut self, buffer: &[u8], into: &mut [u8]) -> Result<(), Wrong> {
        const SHORT: Wrong = "a column is too short";
        if into.is_empty() {
            return Ok(());
        }
        if !self.compressed {
            into.copy_from_slice(buffer.get(..into.len()).ok_or(SHORT)?);
            return Ok(());
        }
        let (length, bytes) = buffer.split_first_chunk::<8>().ok_or(SHORT)?;
        match usize::try_from(i64::from_le_bytes(*length)) {
            // Not worth compressing.
            Err(_) if i64::from_le_bytes(*length) == -1 => {
                into.copy_from_slice(bytes.get(..into.len()).ok_or(SHORT)?);
                Ok(())
            }
            Ok(length) if length == into.len() => {
                let filled = self.zstd.decompress_to_buffer(bytes, into);
                if filled.is_ok_and(|n| n == length) {
                    Ok(())
                } else {
                    Err("a column is damaged")
                }
            }
            // Padded by whoever wrote it.
            Ok(length) if length > into.len() && length <= into.len() + 64 => {
                let mut whole = vec![0; length];
                let filled = self.zstd.decompress_to_buffer(bytes, &mut whole[..]);
                if filled.is_err() {
                    return Err("a column is damaged");
                }
                into.copy_from_slice(whole.get(..into.len()).ok_or(SHORT)?);
                Ok(())
            }
            _ => Err("a column has the wrong length"),
        }
    }
}
