//! Complete recordings, and recordings to slow and full disks.

use std::io::{self, Write};
use std::sync::mpsc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_ipc::reader::StreamReader;

use super::{RecordingOutput, Writer, WriterOptions};
use crate::analysis::item::Item;
use crate::recording::fixture;
use crate::recording::reader::{Reader, WantedColumns};

#[test]
fn arrow_ipc_reads_a_recording() {
    let items = fixture::items(3000, 3);
    let bytes = fixture::file_of(&items, 1000);
    let (mut rows, mut sum) = (0, 0);
    for batch in StreamReader::try_new(&bytes[..], None).unwrap() {
        let batch = batch.unwrap();
        assert!(batch.num_rows() <= 1000);
        rows += batch.num_rows();
        let column = batch.column_by_name("bytes").unwrap().as_primitive::<UInt64Type>();
        sum += column.iter().flatten().sum::<u64>();
    }
    assert_eq!(rows, items.len());
    let bytes = |item: &Item| match item {
        Item::Request(r) => r.bytes,
        Item::Part(p) => p.bytes,
        Item::Submission(s) => s.length,
        Item::Dirtied(d) => d.bytes,
        _ => 0,
    };
    assert_eq!(sum, items.iter().map(|i| u64::from(bytes(i))).sum::<u64>());
}

/// A disk that takes the first bytes at once, and blocks later writes until its channel has a
/// message or is closed.
struct Slow(bool, mpsc::Receiver<()>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 {
            let _ = self.1.recv_timeout(Duration::from_secs(60));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0 = true;
        Ok(())
    }
}

impl RecordingOutput for Slow {}

#[test]
fn writer_does_not_wait_for_a_slow_disk() {
    let (go, wait) = mpsc::channel();
    let options = WriterOptions { rows: 100, waiting: 2, ..WriterOptions::default() };
    let mut writer = Writer::create(Slow(false, wait), &fixture::header(), options).unwrap();
    for item in fixture::items(1000, 1) {
        writer.push(&item).unwrap();
    }
    assert!(writer.written().dropped >= 1000, "{:?}", writer.written());
    drop(go);
    let written = writer.finish().unwrap();
    assert!(written.rows + written.dropped >= 2000, "{written:?}");
}

/// A disk that is full after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RecordingOutput for Full {}

/// Like [`Slow`], and keeps the bytes.
struct SlowShared(Slow, fixture::Shared);

impl Write for SlowShared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.0.write(bytes)?;
        self.1.write(&bytes[..taken])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl RecordingOutput for SlowShared {}

#[test]
fn every_dropped_row_is_reported() {
    let (go, wait) = mpsc::channel();
    let out = fixture::Shared::default();
    let options = WriterOptions { rows: 100, waiting: 1, ..WriterOptions::default() };
    let held = SlowShared(Slow(false, wait), out.clone());
    let mut writer = Writer::create(held, &fixture::header(), options).unwrap();
    let items = fixture::items(2000, 1);
    for item in &items {
        writer.push(item).unwrap();
    }
    drop(go);
    let dropped = writer.finish().unwrap().dropped;
    // Several batches in a row.
    assert!(dropped > 300, "{dropped}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), out.bytes()).unwrap();
    let mut reader = Reader::open(file.path(), WantedColumns::Everything).unwrap();
    let mut reported = 0;
    while let Some(item) = reader.next_item() {
        if let Item::Lost { count, .. } = item {
            reported += count;
        }
    }
    assert_eq!(reported, dropped);
}

#[test]
fn no_batch_is_dropped_after_wait_for_disk() {
    let (go, wait) = mpsc::sync_channel(0);
    let options = WriterOptions { rows: 100, waiting: 1, ..WriterOptions::default() };
    let slow = Slow(false, wait);
    let mut writer = Writer::create(slow, &fixture::header(), options).unwrap();
    writer.wait_for_disk();
    let items = fixture::items(2000, 1);
    let giver = std::thread::spawn(move || while go.send(()).is_ok() {});
    for item in &items {
        writer.push(item).unwrap();
    }
    let written = writer.finish().unwrap();
    giver.join().unwrap();
    assert_eq!((written.rows, written.dropped), (items.len() as u64, 0));
}

#[test]
fn sync_waits_for_the_disk() {
    let out = fixture::Shared::default();
    let mut writer =
        Writer::create(out.clone(), &fixture::header(), WriterOptions::default()).unwrap();
    let header = out.bytes().len();
    for item in fixture::items(10, 1) {
        writer.push(&item).unwrap();
    }
    writer.sync().unwrap();
    assert!(out.bytes().len() > header);
    // Space for the header only.
    let header = writer.finish().unwrap().bytes as usize - (out.bytes().len() - header);
    let room = Full(header);
    let mut writer = Writer::create(room, &fixture::header(), WriterOptions::default()).unwrap();
    for item in fixture::items(10, 1) {
        writer.push(&item).unwrap();
    }
    let error = writer.sync().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_full_disk_is_an_error() {
    let create = |room| Writer::create(Full(room), &fixture::header(), WriterOptions::default());
    assert!(create(100).is_err());
    let mut writer = create(20_000).unwrap();
    fixture::items(3000, 3).iter().for_each(|item| writer.push(item).unwrap());
    let error = writer.finish().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
