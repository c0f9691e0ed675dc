//! Reads intervals of the allocator from a recording.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Result, anyhow, bail};

use crate::analysis::item::Item;
use crate::recording::alloc::{AllocInterval, RecordedAlloc};
use crate::recording::error::TraceError;
use crate::recording::reader::{Reader, WantedColumns};
use crate::ui::intervals::{IntervalFormat, Intervals};

/// Maximum size of the JSON that a screen keeps in memory.
const MAX_BYTES: usize = 512 << 20;

/// Opens the recording at `path`.
///
/// # Errors
/// The file cannot be read or is not a recording.
pub(super) fn open(path: &Path) -> Result<Intervals<RecordedAlloc>> {
    let reader = Reader::open(path, WantedColumns::Figures).map_err(|error| match error {
        TraceError::NotOurs(..) if is_json(path) => anyhow!(
            "{}: output of raidtrace alloc --json, which cannot be replayed: record with \
             raidtrace alloc --record FILE, and replay that file",
            path.display()
        ),
        other => other.into(),
    })?;
    let kind = IntervalFormat {
        json: |item| match item {
            Item::Alloc { time_us, json } => Some((time_us, json)),
            _ => None,
        },
        parse: AllocInterval::parse,
        missing: "no interval of the allocator: record with raidtrace alloc --record FILE",
    };
    Ok(Intervals::new(reader, path, kind))
}

/// Reads all intervals into memory, for a screen that steps back and forth.
///
/// # Errors
/// An interval is invalid, or the intervals take more than 512 MiB.
pub(super) fn read_all(intervals: &mut Intervals<RecordedAlloc>) -> Result<Vec<RecordedAlloc>> {
    let mut all = Vec::new();
    while let Some(interval) = intervals.next() {
        all.push(interval?);
        if intervals.bytes > MAX_BYTES {
            bail!(
                "{}: more than {} MiB of intervals, too many for the screen: use --batch",
                intervals.name,
                MAX_BYTES >> 20
            );
        }
    }
    Ok(all)
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

    use super::{open, read_all};
    use crate::analysis::alloc::{AllocSnapshot, fixture};
    use crate::analysis::item::Item;
    use crate::analysis::profile::Profile;
    use crate::analysis::profile::sums::tests::seed;
    use crate::commands::alloc::text;
    use crate::recording;
    use crate::recording::alloc::AllocInterval;
    use crate::ui::json::write_line;

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
        let item = |s| AllocInterval::item(s, &Profile::default()).unwrap();
        items.extend(all.iter().map(item));
        let file = file(&items);
        let mut intervals = open(file.path()).unwrap();
        let read = read_all(&mut intervals).unwrap();
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
            let error = open(file.path()).err().unwrap();
            format!("{error:#}")
        };
        assert!(fails(b"\n{\"schema\":\"raidtrace.alloc/1\"}").contains("alloc --record FILE"));
        assert!(fails(b"PAR1").contains("not a raidtrace recording"));
        let none = file(&requests(4));
        let mut intervals = open(none.path()).unwrap();
        assert!(read_all(&mut intervals).unwrap().is_empty());
        let error = intervals.finish().unwrap_err().to_string();
        assert!(error.contains("no interval of the allocator"), "{error}");
        let json = "{}".to_owned();
        let bad = [requests(4), vec![Item::Alloc { time_us: 1, json }]];
        let bad = file(&bad.concat());
        let error = read_all(&mut open(bad.path()).unwrap()).err().unwrap();
        assert!(error.to_string().contains("schema is \"\""), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_json_is_harmless(
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            which in 0usize..6,
        ) {
            let cases = [
                fixture::healthy,
                fixture::linear,
                fixture::livelock,
                fixture::cold,
                fixture::degraded,
                fixture::huge,
            ];
            let Item::Alloc { json, .. } =
                AllocInterval::item(&cases[which](), &seed()).unwrap() else { unreachable!() };
            let mut bytes = json.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // The column of a recording is always UTF-8.
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(read) = AllocInterval::parse(i64::MAX, &text)
            {
                batch(&read.snapshot);
                write_line(&mut Vec::new(), &AllocInterval::new(&read.snapshot)).unwrap();
                read.stacks.stacks().count();
            }
        }
    }
}
