//! Reads what `--json` wrote. The file is untrusted: a line may be anything, and of any length.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::wire::{Interval, SCHEMA};
use crate::analysis::alloc::AllocSnapshot;

/// Bytes of a line: ten times what 1024 tasks and files of three filesystems with long paths take.
const LINE: usize = 32 << 20;
/// Bytes of what is read whole.
const WHOLE: u64 = 512 << 20;

/// The intervals of a file, one after the other; the first error is the last item.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    /// Of the line that was read last, from 1.
    number: u64,
    /// Bytes that were read.
    bytes: u64,
    failed: bool,
}

/// The file's intervals.
///
/// # Errors
/// It cannot be opened.
pub fn lines(path: &Path) -> Result<Lines<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Lines::new(BufReader::with_capacity(1 << 16, file)))
}

/// All of them, for a screen that goes back and forth.
///
/// # Errors
/// The file cannot be read, is larger than 512 MiB, has a line that is no interval of `raidtrace alloc --json`, or none at
/// all.
pub fn read(path: &Path) -> Result<Vec<AllocSnapshot>> {
    let shown = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
    // Of a pipe it is 0.
    let all = if size.len() > WHOLE {
        None
    } else {
        up_to(lines(path)?, WHOLE).with_context(|| format!("cannot read {shown}"))?
    };
    let Some(all) = all else {
        bail!(
            "{shown} has more than the {} MiB that are shown: cut it (head -n 1000), or use --batch",
            WHOLE >> 20
        );
    };
    if all.is_empty() {
        bail!("{shown} is empty; it should hold what `raidtrace alloc --json` writes");
    }
    Ok(all)
}

/// All intervals; `None` where they take more than `most` bytes.
fn up_to<R: BufRead>(mut lines: Lines<R>, most: u64) -> Result<Option<Vec<AllocSnapshot>>> {
    let mut all = Vec::new();
    while let Some(interval) = lines.next() {
        all.push(interval?);
        if lines.bytes > most {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

impl<R: BufRead> Lines<R> {
    /// Of any source.
    pub fn new(from: R) -> Self {
        Self {
            from,
            number: 0,
            bytes: 0,
            failed: false,
        }
    }

    /// A line without its end, at most [`LINE`] bytes; `None` at the end of the file.
    fn line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            let part = self.from.fill_buf()?;
            if part.is_empty() {
                return Ok((!line.is_empty()).then_some(line));
            }
            let (end, taken) = match part.iter().position(|b| *b == b'\n') {
                Some(at) => (at, at + 1),
                None => (part.len(), part.len()),
            };
            if line.len() + end > LINE {
                bail!("it is longer than {} MiB", LINE >> 20);
            }
            line.extend_from_slice(&part[..end]);
            let whole = taken > end;
            self.from.consume(taken);
            self.bytes += taken as u64;
            if whole {
                return Ok(Some(line));
            }
        }
    }

    fn interval(&mut self) -> Result<Option<AllocSnapshot>> {
        loop {
            self.number += 1;
            let Some(line) = self.line()? else {
                return Ok(None);
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let interval: Interval =
                serde_json::from_slice(&line).context("it is no interval of `alloc --json`")?;
            if interval.schema != SCHEMA {
                let schema: String = interval.schema.chars().take(40).collect();
                bail!("its schema is {schema:?}, not {SCHEMA}");
            }
            return Ok(Some(interval.read().map_err(anyhow::Error::msg)?));
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<AllocSnapshot>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.interval();
        self.failed = read.is_err();
        read.with_context(|| format!("line {}", self.number))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE, Lines, read, up_to};
    use crate::analysis::alloc::{AllocSnapshot, Groups, Source};
    use crate::analysis::alloc::{figures, fixture};
    use crate::commands::alloc::{json, text};
    use proptest::prelude::*;
    use std::io::Read as _;

    fn written(snapshot: &AllocSnapshot) -> Vec<u8> {
        let mut out = Vec::new();
        json::write(&mut out, snapshot).unwrap();
        out
    }

    fn again(snapshot: &AllocSnapshot) -> AllocSnapshot {
        let bytes = written(snapshot);
        let mut lines = Lines::new(bytes.as_slice());
        let read = lines.next().unwrap().unwrap();
        assert!(lines.next().is_none());
        read
    }

    fn batch(snapshot: &AllocSnapshot) -> String {
        let mut out = Vec::new();
        text::write(&mut out, snapshot).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn all() -> [AllocSnapshot; 8] {
        [
            fixture::healthy(),
            fixture::linear(),
            fixture::livelock(),
            fixture::cold(),
            fixture::fragmented(),
            fixture::degraded(),
            fixture::empty(),
            fixture::huge(),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        for snapshot in all() {
            let read = again(&snapshot);
            assert_eq!(batch(&read), batch(&snapshot));
            assert_eq!(written(&read), written(&snapshot));
            let pairs = read.filesystems.iter().zip(&snapshot.filesystems);
            for (a, b) in pairs {
                assert_eq!(a.counts, b.counts);
                assert_eq!(a.tasks, b.tasks);
                assert_eq!((&a.reason, &a.fragmentation), (&b.reason, &b.fragmentation));
            }
            assert_eq!(read.on_cpu, snapshot.on_cpu);
            assert_eq!(read.sources, snapshot.sources);
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = String::from_utf8(written(&fixture::empty())).unwrap();
        for (bad, why) in [
            ("{", "it is no interval"),
            ("[]", "its schema is"),
            ("\u{1b}[2J", "it is no interval"),
            ("{}", "its schema is \"\""),
            (r#"{"schema":"raidtrace.top/1"}"#, "raidtrace.top/1"),
            (r#"{"schema":"raidtrace.alloc/1"}"#, "\"\" is no time"),
            (
                r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z","interval_s":-1}"#,
                "-1 is no interval",
            ),
            (
                r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z","interval_s":1e300}"#,
                "is no interval",
            ),
            (
                r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z","filesystems":[{"dev":"9"}]}"#,
                "\"9\" is no device number",
            ),
        ] {
            let text = format!("{good}\n{good}{bad}\n{good}");
            let mut lines = Lines::new(text.as_bytes());
            assert!(lines.next().unwrap().is_ok());
            assert!(lines.next().unwrap().is_ok());
            let error = format!("{:#}", lines.next().unwrap().unwrap_err());
            assert!(error.starts_with("line 4: "), "{error}");
            assert!(error.contains(why), "{error}");
            assert!(lines.next().is_none(), "{bad}");
        }
        let long = vec![b' '; LINE + 1];
        let error = Lines::new(long.as_slice()).next().unwrap().unwrap_err();
        assert_eq!(format!("{error:#}"), "line 1: it is longer than 32 MiB");
    }

    #[test]
    fn bytes_are_counted_where_there_is_no_size() {
        let line = written(&fixture::empty());
        let text = line.repeat(3);
        let all = |most| up_to(Lines::new(text.as_slice()), most).unwrap();
        assert_eq!(all(text.len() as u64).map(|a| a.len()), Some(3));
        assert!(all(text.len() as u64 - 1).is_none());
        // What comes after the end is not even read: a pipe has none.
        let endless = text.as_slice().chain(std::io::repeat(b'x'));
        let lines = Lines::new(std::io::BufReader::with_capacity(64, endless));
        assert!(up_to(lines, line.len() as u64 * 2).unwrap().is_none());
    }

    #[test]
    fn lists_have_an_end() {
        let at = r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z""#;
        let line = |rest: String| format!("{at},{rest}}}");
        let many = |one: &str, n: usize| vec![one; n].join(",");
        let fs = |key: &str, n| {
            line(format!(
                r#""filesystems":[{{"dev":"9:3","{key}":[{}]}}]"#,
                many(
                    if key == "files" {
                        r#"{"dev":"9:3"}"#
                    } else {
                        "{}"
                    },
                    n
                )
            ))
        };
        let reads = |text: String| {
            let read = Lines::new(text.as_bytes()).next().unwrap();
            read.map(|_| ()).map_err(|e| format!("{e:#}"))
        };
        let dev = r#"{"dev":"0:0"}"#;
        let filesystems = |n| line(format!(r#""filesystems":[{}]"#, many(dev, n)));
        let threads = |n| line(format!(r#""on_cpu":[{}]"#, many("{}", n)));
        for (least, of) in [
            (257, &filesystems as &dyn Fn(usize) -> String),
            (4097, &|n| fs("members", n)),
            (16_385, &|n| fs("tasks", n)),
            (16_385, &|n| fs("files", n)),
            (16_385, &threads),
        ] {
            assert_eq!(reads(of(least - 1)), Ok(()));
            let error = reads(of(least)).unwrap_err();
            let most = format!("more than {}", least - 1);
            assert!(error.contains(&most), "{error}");
        }
        // Of all filesystems of the line.
        let half = format!(r#"{{"dev":"9:3","members":[{}]}}"#, many("{}", 2049));
        let error = reads(line(format!(r#""filesystems":[{half},{half}]"#))).unwrap_err();
        assert!(error.contains("4098 members"), "{error}");
    }

    #[test]
    fn threads_of_a_line() {
        let mut s = fixture::huge();
        s.on_cpu = vec![s.on_cpu[0].clone(); 16_384];
        assert_eq!(again(&s).on_cpu.len(), 1024);
    }

    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let fails = || format!("{:#}", read(&path).unwrap_err());
        assert!(fails().contains("No such file"));
        std::fs::write(&path, "\n\n").unwrap();
        assert!(fails().contains("is empty"));
        let mut text = written(&fixture::linear());
        text.extend(written(&fixture::cold()));
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
        text.truncate(text.len() - 9);
        std::fs::write(&path, &text).unwrap();
        assert!(fails().contains("line 2: "));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn figures_come_back(n in prop::collection::vec(any::<u64>(), 80), us in prop::collection::vec((any::<u64>(), 1u32..1000), 0..9), comm in prop::collection::vec(any::<u8>(), 0..16), unknown in any::<u16>()) {
            let mut s = fixture::linear();
            for (i, figure) in figures::FIGURES.into_iter().enumerate() {
                if unknown >> i & 1 == 1 {
                    s.sources.insert(figure, Source::None);
                }
            }
            let fs = &mut s.filesystems[0];
            let c = &mut fs.counts;
            (c.requests, c.asked, c.given, c.got, c.nanoseconds) = (n[0], n[1], n[2], n[3], n[4]);
            (c.searches, c.goal, c.scanned, c.preallocated, c.discards) = (n[5], n[6], n[7], n[8], n[9]);
            (c.bitmaps, c.buddies, c.reads, c.prefetches) = (n[10], n[11], n[12], n[13]);
            c.criteria = std::array::from_fn(|i| n[14 + i]);
            c.looked = std::array::from_fn(|i| n[19 + i]);
            c.refused = std::array::from_fn(|i| n[24 + i]);
            c.reasons = std::array::from_fn(|i| n[29 + i]);
            c.groups = Groups(std::array::from_fn(|i| n[36 + i]));
            c.latency = fixture::hist(&us);
            c.waits = fixture::hist(&us);
            fs.tasks[0].comm = comm.clone();
            fs.files[0].location.path = Some(comm);
            let read = again(&s);
            prop_assert_eq!(written(&read), written(&s));
            let (a, b) = (&read.filesystems[0], &s.filesystems[0]);
            let mut tasks = b.tasks.clone();
            if s.sources[figures::GROUPS] == Source::None {
                tasks.iter_mut().for_each(|t| t.share.looked = 0);
            }
            prop_assert_eq!(&a.tasks, &tasks);
            prop_assert_eq!(&a.files[0].location.path, &b.files[0].location.path);
            if unknown == 0 {
                prop_assert_eq!(&a.counts, &b.counts);
            }
        }

        #[test]
        fn nothing_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), which in 0usize..8) {
            let mut line = written(&all()[which]);
            let at = at.index(line.len());
            line[at] = byte;
            for interval in Lines::new(line.as_slice()) {
                let Ok(s) = interval else { break };
                batch(&s);
                written(&s);
            }
        }
    }
}
