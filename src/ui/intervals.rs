//! Intervals that a command has recorded as JSON, for its `--replay`.

use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use super::lines::is_last;
use crate::analysis::item::Item;
use crate::analysis::time;
use crate::recording::reader::Reader;

/// The intervals of one command.
pub(crate) struct IntervalFormat<T> {
    /// Time in µs since 1970 and JSON of an item, if it is such an interval.
    pub json: fn(Item) -> Option<(i64, String)>,
    /// Parses the JSON.
    pub parse: fn(i64, &str) -> Result<T, String>,
    /// For a recording without any: their name, and how to record them.
    pub missing: &'static str,
}

/// The intervals of a recording, in order. An error is the last item.
pub(crate) struct Intervals<T> {
    reader: Reader,
    /// Path of the recording.
    pub name: String,
    kind: IntervalFormat<T>,
    /// Bytes of JSON read.
    pub bytes: usize,
    count: u64,
    failed: bool,
}

impl<T> Intervals<T> {
    /// Intervals of the recording at `path`, which `reader` reads.
    pub fn new(reader: Reader, path: &Path, kind: IntervalFormat<T>) -> Self {
        Self { reader, name: path.display().to_string(), kind, bytes: 0, count: 0, failed: false }
    }

    /// Prints each interval, at most `left`. False if the reader of a pipe has closed it.
    ///
    /// # Errors
    /// An interval is invalid, or the output cannot be written.
    pub fn print(
        &mut self,
        mut left: Option<u64>,
        mut print: impl FnMut(T) -> io::Result<()>,
    ) -> Result<bool> {
        for interval in self.by_ref() {
            match print(interval?) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                written => written.context("writing the figures")?,
            }
            if is_last(&mut left) {
                break;
            }
        }
        Ok(true)
    }

    /// Notes about the file, after the last interval.
    ///
    /// # Errors
    /// The recording has no such interval.
    pub fn finish(&self) -> Result<Vec<String>> {
        let ending = self.reader.ending();
        if self.count == 0 {
            bail!("{}: contains {}; {ending}", self.name, self.kind.missing);
        }
        let cut = ending.is_cut().then(|| ending.to_string());
        let note = self.reader.note().map(str::to_owned);
        Ok(note.into_iter().chain(cut).collect())
    }
}

impl<T> Iterator for Intervals<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let Some((time_us, json)) = (self.kind.json)(self.reader.next_item()?) else {
                continue;
            };
            self.bytes += json.len();
            self.count += 1;
            return Some((self.kind.parse)(time_us, &json).map_err(|why| {
                self.failed = true;
                let time = time::rfc3339(time_us);
                anyhow!("{}: the interval that ends at {time} cannot be read: {why}", self.name)
            }));
        }
        None
    }
}
