//! Reads intervals of the allocator from a recording.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Result, anyhow, bail};

use crate::analysis::item::Item;
use crate::analysis::time;
use crate::recording::alloc::{Interval, Recorded};
use crate::recording::error::TraceError;
use crate::recording::reader::{Reader, Wanted};

/// Maximum size of the JSON that a screen keeps in memory.
const MAX_BYTES: usize = 512 << 20;

/// The intervals of a recording, in order. An error is the last item.
pub struct Intervals {
    reader: Reader,
    name: String,
    /// Bytes of JSON read.
    bytes: usize,
    count: u64,
    failed: bool,
}

impl Intervals {
    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// The file cannot be read or is not a recording.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let reader = Reader::open(path, Wanted::Figures).map_err(|error| match error {
            TraceError::NotOurs(..) if is_json(path) => anyhow!(
                "{name}: output of raidtrace alloc --json, which cannot be replayed: record with \
                 raidtrace alloc --record FILE, and replay that file"
            ),
            other => other.into(),
        })?;
        Ok(Self {
            reader,
            name,
            bytes: 0,
            count: 0,
            failed: false,
        })
    }

    /// Reads all intervals into memory, for a screen that steps back and forth.
    ///
    /// # Errors
    /// An interval is invalid, or the intervals take more than 512 MiB.
    pub fn read_all(&mut self) -> Result<Vec<Recorded>> {
        let mut all = Vec::new();
        while let Some(interval) = self.next() {
            all.push(interval?);
            if self.bytes > MAX_BYTES {
                bail!(
                    "{}: more than {} MiB of intervals, too many for the screen: use --batch",
                    self.name,
                    MAX_BYTES >> 20
                );
            }
        }
        Ok(all)
    }

    /// Notes about the file, after the last interval.
    ///
    /// # Errors
    /// The recording has no interval of the allocator.
    pub fn finish(&self) -> Result<Vec<String>> {
        let ending = self.reader.ending();
        if self.count == 0 {
            bail!(
                "{}: contains no interval of the allocator: record with raidtrace alloc --record FILE; {ending}",
                self.name
            );
        }
        let cut = ending.is_cut().then(|| ending.to_string());
        Ok(self
            .reader
            .note()
            .map(str::to_owned)
            .into_iter()
            .chain(cut)
            .collect())
    }
}

impl Iterator for Intervals {
    type Item = Result<Recorded>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let Item::Alloc { time_us, json } = self.reader.next_item()? else {
                continue;
            };
            self.bytes += json.len();
            self.count += 1;
            return Some(Interval::parse(time_us, &json).map_err(|why| {
                self.failed = true;
                let time = time::rfc3339(time_us);
                anyhow!(
                    "{}: the interval that ends at {time} cannot be read: {why}",
                    self.name
                )
            }));
        }
        None
    }
}

/// True if the file starts like a JSON object.
fn is_json(path: &Path) -> bool {
    let mut start = [0; 64];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    let start = &start[..read.unwrap_or(0)];
    start.trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Intervals;
    use crate::analysis::alloc::{AllocSnapshot, fixture};
    use crate::analysis::item::Item;
    use crate::analysis::profile::Profile;
    use crate::analysis::profile::sums::tests::seed;
    use crate::commands::alloc::tree::Tree;
    use crate::commands::alloc::{json, text};
    use crate::recording;
    use crate::recording::alloc::Interval;

    fn batch(snapshot: &AllocSnapshot) -> String {
        let mut out = Vec::new();
        text::write(&mut out, snapshot).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn file(items: &[Item]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), recording::fixture::file_of(items, 2)).unwrap();
        file
    }

    /// A recording without intervals of the allocator.
    fn requests(n: u64) -> Vec<Item> {
        let mut items = recording::fixture::items(n, 2);
        items.retain(|item| !matches!(item, Item::Alloc { .. }));
        items
    }

    #[test]
    fn intervals_of_a_recording_are_replayed() {
        let all = [fixture::linear(), fixture::cold(), fixture::huge()];
        let mut items = requests(40);
        let item = |s| Interval::item(s, &Profile::default()).unwrap();
        items.extend(all.iter().map(item));
        let file = file(&items);
        let mut intervals = Intervals::open(file.path()).unwrap();
        let read = intervals.read_all().unwrap();
        assert_eq!(intervals.finish().unwrap(), [""; 0]);
        assert_eq!(read.len(), all.len());
        for (read, written) in read.iter().zip(&all) {
            assert_eq!(batch(&read.snapshot), batch(written));
        }
    }

    #[test]
    fn unusable_files_are_named() {
        let fails = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let error = Intervals::open(file.path()).err().unwrap();
            format!("{error:#}")
        };
        assert!(fails(b"\n{\"schema\":\"raidtrace.alloc/1\"}").contains("alloc --record FILE"));
        assert!(fails(b"PAR1").contains("not a raidtrace recording"));
        let none = file(&requests(4));
        let mut intervals = Intervals::open(none.path()).unwrap();
        assert!(intervals.read_all().unwrap().is_empty());
        let error = intervals.finish().unwrap_err().to_string();
        assert!(error.contains("no interval of the allocator"), "{error}");
        let json = "{}".to_owned();
        let bad = [requests(4), vec![Item::Alloc { time_us: 1, json }]];
        let bad = file(&bad.concat());
        let error = Intervals::open(bad.path()).unwrap().read_all().unwrap_err();
        assert!(error.to_string().contains("schema is \"\""), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_json_is_harmless(at in any::<prop::sample::Index>(), byte in any::<u8>(), which in 0usize..6) {
            let cases = [fixture::healthy, fixture::linear, fixture::livelock, fixture::cold, fixture::degraded, fixture::huge];
            let Item::Alloc { json, .. } = Interval::item(&cases[which](), &seed()).unwrap() else { unreachable!() };
            let mut bytes = json.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // The column of a recording is always UTF-8.
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(read) = Interval::parse(i64::MAX, &text)
            {
                batch(&read.snapshot);
                json::write(&mut Vec::new(), &read.snapshot).unwrap();
                Tree::new(&read.stacks);
            }
        }
    }
}
