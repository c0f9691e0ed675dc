//! The pages of one column of a row group.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, EncodingMask, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// zstd's. More takes longer than it saves.
pub const LEVEL: i32 = 1;

/// Pages, compressed.
pub struct Chunk {
    column: ColumnDescPtr,
    pages: TrackedWrite<Vec<u8>>,
    rows: usize,
    uncompressed: usize,
    /// How many pages have which encoding.
    encodings: Vec<(Encoding, i32)>,
}

impl Chunk {
    /// Of a column, without rows.
    pub fn new(column: ColumnDescPtr) -> Self {
        Self {
            column,
            pages: TrackedWrite::new(Vec::new()),
            rows: 0,
            uncompressed: 0,
            encodings: Vec::new(),
        }
    }

    /// Whether a page has it.
    pub fn has(&self, encoding: Encoding) -> bool {
        self.encodings.iter().any(|e| e.0 == encoding)
    }

    /// Of the pages.
    pub fn bytes(&self) -> usize {
        self.pages.bytes_written()
    }

    /// A page: levels, and the values as `encoding` has them.
    pub fn page(
        &mut self,
        zstd: &mut Compressor<'_>,
        page: &[u8],
        rows: usize,
        encoding: Encoding,
    ) -> Result<()> {
        let data = Page::DataPage {
            buf: compressed(zstd, page)?,
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let data = CompressedPage::new(data, page.len());
        let written = SerializedPageWriter::new(&mut self.pages).write_page(data)?;
        self.uncompressed += written.uncompressed_size;
        self.rows += rows;
        match self.encodings.iter_mut().find(|e| e.0 == encoding) {
            Some(found) => found.1 += 1,
            None => self.encodings.push((encoding, 1)),
        }
        Ok(())
    }

    /// All of it, and what the footer says of it. `dictionary`: how many words, and these as PLAIN has them. It is empty
    /// then, for the next row group.
    pub fn close(
        &mut self,
        zstd: &mut Compressor<'_>,
        dictionary: Option<(usize, &[u8])>,
        statistics: Option<Statistics>,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let ended = std::mem::replace(self, Self::new(self.column.clone()));
        let pages = ended.pages.into_inner()?;
        let (mut uncompressed, mut encodings) = (ended.uncompressed, vec![Encoding::RLE]);
        let mut counts = Vec::new();
        let mut count = |page_type, encoding, count| {
            encodings.push(encoding);
            counts.push(PageEncodingStats {
                page_type,
                encoding,
                count,
            });
        };
        let mut first = 0;
        let mut all = pages;
        if let Some((words, plain)) = dictionary {
            let page = Page::DictionaryPage {
                buf: compressed(zstd, plain)?,
                num_values: words as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            let page = CompressedPage::new(page, plain.len());
            let mut before = TrackedWrite::new(Vec::with_capacity(all.len()));
            let written = SerializedPageWriter::new(&mut before).write_page(page)?;
            first = written.bytes_written as i64;
            let pages = std::mem::replace(&mut all, before.into_inner()?);
            all.extend_from_slice(&pages);
            uncompressed += written.uncompressed_size;
            count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1);
        }
        for (encoding, pages) in ended.encodings {
            count(PageType::DATA_PAGE, encoding, pages);
        }
        let mut metadata = ColumnChunkMetaData::builder(ended.column)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
            .set_page_encoding_stats(counts)
            .set_total_compressed_size(all.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_num_values(ended.rows as i64)
            .set_data_page_offset(first)
            .set_dictionary_page_offset(dictionary.map(|_| 0));
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: all.len() as u64,
            rows_written: ended.rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((Bytes::from(all), close))
    }
}

fn compressed(zstd: &mut Compressor<'_>, page: &[u8]) -> Result<Bytes> {
    let compressed = zstd.compress(page).context("zstd")?;
    Ok(Bytes::from(compressed))
}
