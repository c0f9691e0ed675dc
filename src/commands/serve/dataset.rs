//! Intervals, verdicts and cgroups of `serve` in a dataset: collected on one thread, and written
//! every hour on another.
//!
//! The tracing thread only passes a reference to each second's snapshot. Rows stay in memory until
//! they are written; a batch that could not be written is kept and tried again. A write that hangs,
//! as on a network that stops for an hour, does not keep rows from being collected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::cgroup_rows::{CgroupRows, waits};
use super::cgroups::CgroupInterval;
use super::dump::{ended_within, log_line};
use crate::analysis::snapshot::Snapshot;
use crate::machine::host_id::HostIdentity;
use crate::recording::dataset::columns::DatasetTable;
use crate::recording::dataset::extent::Extent;
use crate::recording::dataset::files::DatasetFiles;
use crate::recording::dataset::place::DatasetPlace;
use crate::recording::dataset::source::DatasetSource;
use crate::recording::dataset::{is_of_files, refused};
use crate::recording::dataset_name::DatasetName;
use crate::ui::dataset::{FigureRows, bounds};

/// Length of the time of a batch in µs.
const HOUR_US: i64 = 3_600_000_000;
/// Bytes of JSON after which a batch is written before its hour ends: an hour of 25 members.
const MAX_BATCH_BYTES: usize = 16 << 20;
/// Bytes of JSON of all batches, after which the oldest is left out.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Seconds that may wait for the thread that collects rows. Each holds a snapshot in memory.
const MAX_SECONDS: usize = 16;
/// Time between two attempts to write a batch.
const RETRY: Duration = Duration::from_secs(60);
/// Time without a snapshot after which the thread checks if a write has ended.
const POLL: Duration = Duration::from_secs(10);

/// The snapshot of a second, and its figures by cgroup, if they were asked for.
type Second = (Arc<Snapshot>, Option<CgroupInterval>);

/// Passes snapshots to the thread that writes the dataset.
pub struct DatasetWriter {
    seconds: SyncSender<Second>,
    thread: JoinHandle<()>,
    /// Seconds that were left out since the last one that was not.
    left_out: u64,
}

impl DatasetWriter {
    /// Starts the thread. The rows have at most `max_cgroups` cgroups.
    ///
    /// # Errors
    /// It is a directory that cannot be written, or the thread cannot be started.
    pub fn start(place: DatasetPlace, host: HostIdentity, max_cgroups: usize) -> Result<Self> {
        if let DatasetName::Directory(directory) = &place.name {
            let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
            let access = rustix::fs::access(directory.join("."), wanted);
            access.with_context(|| {
                format!(
                    "--dataset {} cannot be written: it must be a directory that the owner of \
                     --dump-dir, or without that its own owner, may write (the thread that writes \
                     runs as this user)",
                    directory.display()
                )
            })?;
        }
        let (seconds, received) = mpsc::sync_channel(MAX_SECONDS);
        let batches = Batches::new(place, host, max_cgroups)?;
        let thread = spawn("raidtrace:rows", move || batches.run(&received))?;
        Ok(Self { seconds, thread, left_out: 0 })
    }

    /// Passes a second; never waits.
    pub fn add(&mut self, second: &Arc<Snapshot>, cgroups: Option<CgroupInterval>) {
        if self.seconds.try_send((Arc::clone(second), cgroups)).is_err() {
            self.left_out += 1;
        } else if self.left_out > 0 {
            let n = std::mem::take(&mut self.left_out);
            log_line(&format!("the dataset lacks {n} s: writing to it was too slow"));
        }
    }

    /// Ends the time that is collected: the last rows are written.
    pub fn close(self) -> LastRows {
        if self.left_out > 0 {
            log_line(&format!("the dataset lacks the last {} s", self.left_out));
        }
        LastRows(self.thread)
    }
}

/// The last rows, which are being written.
pub struct LastRows(JoinHandle<()>);

impl LastRows {
    /// Waits until they are written, at most for `patience`.
    pub fn finish(self, patience: Duration) {
        if !ended_within(&self.0, patience) {
            log_line("the last rows are not in the dataset: writing to it is too slow");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.context("starting a thread for the dataset")
}

/// Rows of an hour, or less.
#[derive(Debug)]
struct Batch {
    start_us: i64,
    end_us: i64,
    /// Table, time in µs since 1970, and the row as JSON.
    rows: Vec<(DatasetTable, i64, Box<str>)>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, table: DatasetTable, time_us: i64, row: &Value) {
        let row = row.to_string().into_boxed_str();
        self.bytes += row.len();
        self.rows.push((table, time_us, row));
    }

    /// Writes the files. The same batch again has the same files.
    fn write(&self, dataset: &DatasetPlace, host: &HostIdentity) -> Result<()> {
        let start = Timestamp::from_microsecond(self.start_us).unwrap_or_default();
        let source = DatasetSource::of_host(start, host, "serve");
        let mut files = DatasetFiles::new(dataset, &source)?;
        for (table, time_us, row) in &self.rows {
            files.push(*table, *time_us, serde_json::from_str(row)?)?;
        }
        let rows = i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        files.commit(Extent { from_us: self.start_us, to_us: self.end_us, rows })?;
        Ok(())
    }
}

/// Rows that are collected, that wait, and that are being written.
struct Batches {
    dataset: DatasetName,
    rows: FigureRows,
    cgroups: CgroupRows,
    open: Option<Batch>,
    waiting: VecDeque<Batch>,
    /// Size of the batch that is being written.
    writing: Option<usize>,
    /// Time of the next attempt after one has failed.
    retry: Option<Instant>,
    jobs: SyncSender<Batch>,
    written: Receiver<(Batch, Result<()>)>,
}

impl Batches {
    /// Starts the thread that writes.
    fn new(place: DatasetPlace, host: HostIdentity, max_cgroups: usize) -> Result<Self> {
        let (jobs, batches) = mpsc::sync_channel::<Batch>(1);
        let (results, written) = mpsc::channel();
        let dataset = place.name.clone();
        spawn("raidtrace:dataset", move || {
            // The first rows are written in up to an hour, which is late for wrong keys.
            if matches!(place.name, DatasetName::Bucket { .. })
                && let Err(why) = place.create()
            {
                log_line(&format!("note: {why:#}; serve tries again every hour"));
            }
            for batch in batches {
                let result = batch.write(&place, &host);
                if results.send((batch, result)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self {
            dataset,
            rows: FigureRows::default(),
            cgroups: CgroupRows::new(max_cgroups),
            open: None,
            waiting: VecDeque::new(),
            writing: None,
            retry: None,
            jobs,
            written,
        })
    }

    fn run(mut self, received: &Receiver<Second>) {
        loop {
            match received.recv_timeout(POLL) {
                Ok((second, cgroups)) => self.add(&second, cgroups),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Ok((batch, result)) = self.written.try_recv() {
                self.ended(batch, result);
            }
            if self.retry.is_none_or(|at| at <= Instant::now()) {
                self.write();
            }
        }
        self.close();
        self.write_all();
        let rows: usize = self.waiting.iter().map(|batch| batch.rows.len()).sum();
        if rows > 0 {
            log_line(&format!("the dataset lacks the last {rows} rows"));
        }
    }

    fn add(&mut self, second: &Snapshot, cgroups: Option<CgroupInterval>) {
        let (from, to) = bounds(second);
        // The clock may be set back.
        let is_other_hour =
            |batch: &Batch| batch.start_us.div_euclid(HOUR_US) != from.div_euclid(HOUR_US);
        let is_full = |batch: &Batch| batch.bytes >= MAX_BATCH_BYTES;
        if self.open.as_ref().is_some_and(|batch| is_other_hour(batch) || is_full(batch)) {
            self.close();
        }
        let new = || Batch { start_us: from, end_us: to, rows: Vec::new(), bytes: 0 };
        let batch = self.open.get_or_insert_with(new);
        batch.end_us = to;
        let mut put = |table: DatasetTable, time_us: i64, row: Value| {
            batch.push(table, time_us, &row);
            Ok(())
        };
        let waits = cgroups.as_ref().map(waits).unwrap_or_default();
        let added = self.rows.add(second.clone(), &waits, &mut put);
        let added = added.and_then(|()| match cgroups {
            Some(cgroups) => self.cgroups.add(cgroups, (from, to), &mut put),
            None => Ok(()),
        });
        if let Err(error) = added {
            log_line(&format!("rows for the dataset: {error:#}"));
        }
    }

    /// Ends the batch, with the rows of this moment.
    fn close(&mut self) {
        let Some(mut batch) = self.open.take() else { return };
        let mut put = |table: DatasetTable, time_us: i64, row: Value| {
            batch.push(table, time_us, &row);
            Ok(())
        };
        let finished = self.rows.finish(&mut put);
        if let Err(error) = finished.and_then(|()| self.cgroups.finish(&mut put)) {
            log_line(&format!("rows for the dataset: {error:#}"));
        }
        self.waiting.push_back(batch);
        while self.bytes() > MAX_WAITING_BYTES
            && let Some(oldest) = self.waiting.pop_front()
        {
            let rows = oldest.rows.len();
            log_line(&format!("the dataset lacks {rows} rows: it could not be written for long"));
        }
    }

    /// Bytes that wait or are being written.
    fn bytes(&self) -> usize {
        let waiting = self.waiting.iter().chain(&self.open).map(|batch| batch.bytes).sum::<usize>();
        waiting + self.writing.unwrap_or(0)
    }

    /// Passes the oldest batch to the thread that writes, unless it has one.
    fn write(&mut self) {
        if self.writing.is_none()
            && let Some(batch) = self.waiting.pop_front()
        {
            self.writing = Some(batch.bytes);
            if let Err(error) = self.jobs.send(batch) {
                // The thread has ended, which is a bug.
                self.waiting.push_front(error.0);
            }
        }
    }

    /// The thread has written `batch`, or could not.
    fn ended(&mut self, batch: Batch, result: Result<()>) {
        self.writing = None;
        match result {
            Ok(()) => {
                if self.retry.take().is_some() {
                    log_line(&format!("{} can be written again", self.dataset));
                }
            }
            // No other attempt would succeed, and later batches wait.
            Err(error) if !is_of_files(&error) => {
                log_line(&format!("the dataset lacks {} rows: {error:#}", batch.rows.len()));
            }
            Err(error) => {
                if self.retry.is_none() {
                    let why = refused(&self.dataset, error);
                    log_line(&format!("{why}; rows are kept until serve ends, and tried again"));
                }
                self.retry = Some(Instant::now() + RETRY);
                self.waiting.push_front(batch);
            }
        }
    }

    /// Writes all batches, and waits for it, until one fails.
    fn write_all(&mut self) {
        self.write();
        while self.writing.is_some()
            && let Ok((batch, result)) = self.written.recv()
        {
            self.ended(batch, result);
            if self.retry.is_some() {
                break;
            }
            self.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use jiff::Timestamp;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use serde_json::{Value, json};

    use super::{Batches, HOUR_US, MAX_WAITING_BYTES};
    use crate::analysis::fixture::{array, member, snapshot};
    use crate::analysis::verdict::{CauseKind, Verdict};
    use crate::commands::serve::cgroups::CgroupFigures;
    use crate::machine::host_id::HostIdentity;
    use crate::recording::dataset::columns::DatasetTable;
    use crate::recording::dataset::place::DatasetPlace;
    use crate::recording::dataset_name::DatasetName;

    /// A quarter to midnight.
    const START: i64 = 1_795_736_700_000_000;

    fn batches(dataset: &Path) -> Batches {
        let host =
            HostIdentity { host_name: "db1".to_owned(), host_id: None, kernel: "6.12".to_owned() };
        let place = DatasetPlace::open(&DatasetName::Directory(dataset.to_owned())).unwrap();
        Batches::new(place, host, 50).unwrap()
    }

    /// Adds the seconds from `from` to `to` after [`START`].
    fn add(batches: &mut Batches, from: i64, to: i64) {
        for second in from..to {
            let mut snapshot = snapshot(array(vec![member(0, Vec::new())]));
            let end = START + (second + 1) * 1_000_000;
            snapshot.time = Timestamp::from_microsecond(end).unwrap();
            snapshot.interval = std::time::Duration::from_secs(1);
            batches.add(&snapshot, None);
        }
    }

    /// Files of intervals and their rows, by path.
    fn files(dataset: &Path) -> Vec<(String, i64)> {
        let mut found = Vec::new();
        for date in fs::read_dir(dataset.join("intervals")).into_iter().flatten() {
            for file in fs::read_dir(date.unwrap().path().join("host=db1")).unwrap() {
                let path = file.unwrap().path();
                let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
                let rows = reader.metadata().file_metadata().num_rows();
                let name = path.strip_prefix(dataset).unwrap().display().to_string();
                found.push((name, rows));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn each_hour_has_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut batches = batches(folder.path());
        add(&mut batches, 0, HOUR_US / 1_000_000);
        batches.write_all();
        let written = files(folder.path());
        assert_eq!(written.len(), 1, "{written:?}");
        // A row for ten seconds.
        assert_eq!(written[0].1, 90);
        batches.close();
        batches.write_all();
        assert_eq!(files(folder.path()).iter().map(|file| file.1).sum::<i64>(), 360);
        assert_eq!(files(folder.path())[0], written[0]);
    }

    #[test]
    fn a_batch_that_cannot_be_written_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = folder.path().join("fleet");
        fs::write(&dataset, "").unwrap();
        let mut batches = batches(&dataset);
        add(&mut batches, 0, 20);
        batches.close();
        batches.write_all();
        assert!(batches.retry.is_some());
        add(&mut batches, 20, 40);
        batches.close();
        assert_eq!(batches.waiting.len(), 2);
        fs::remove_file(&dataset).unwrap();
        fs::create_dir(&dataset).unwrap();
        batches.write_all();
        assert!(batches.retry.is_none() && batches.waiting.is_empty());
        assert_eq!(files(&dataset).iter().map(|file| file.1).collect::<Vec<_>>(), [2, 2]);
    }

    /// The clocks for dates and lengths differ by microseconds; one is set back by half an hour.
    #[test]
    fn a_verdict_is_one_row_until_the_clock_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let mut batches = batches(folder.path());
        for second in 0..1800_i64 {
            let mut snapshot = snapshot(array(vec![member(0, Vec::new())]));
            snapshot.arrays[0].verdict = Some(Verdict::default());
            let back = if second < 600 { 0 } else { 500 };
            let end = START + (second + 1 - back) * 1_000_000 + second % 3;
            snapshot.time = Timestamp::from_microsecond(end).unwrap();
            snapshot.interval = std::time::Duration::from_secs(1);
            batches.add(&snapshot, None);
        }
        batches.close();
        let rows = batches.waiting.iter().flat_map(|batch| &batch.rows);
        let verdicts = rows.filter(|row| row.0 == DatasetTable::Verdicts);
        let lengths: Vec<i64> = verdicts
            .map(|row| serde_json::from_str::<Value>(&row.2).unwrap()["duration_us"].as_i64())
            .map(|us| us.unwrap() / 1_000_000)
            .collect();
        assert_eq!(lengths.iter().sum::<i64>(), 1800, "{lengths:?}");
        // One until the clock is set, and one more for the next hour.
        assert_eq!(lengths.len(), 3, "{lengths:?}");
    }

    /// The row of a verdict has the cgroups that waited longest, and those that made them wait.
    #[test]
    fn a_verdict_has_the_cgroups_that_waited() {
        let folder = tempfile::tempdir().unwrap();
        let mut batches = batches(folder.path());
        for second in 0..20_i64 {
            let mut snapshot = snapshot(array(vec![member(0, Vec::new())]));
            snapshot.arrays[0].verdict = Some(Verdict::default());
            snapshot.time = Timestamp::from_microsecond(START + (second + 1) * 1_000_000).unwrap();
            snapshot.interval = std::time::Duration::from_secs(1);
            let name = &snapshot.arrays[0].info.name;
            let waited = |us, by: &[(&str, u64)]| CgroupFigures {
                waiting_us: [(CauseKind::Load, us)].into(),
                made_wait_us: by.iter().map(|(by, us)| ((*by).to_owned(), *us)).collect(),
                ..CgroupFigures::default()
            };
            let small = (0..20).map(|n| ((name.clone(), format!("/small{n}")), waited(5, &[])));
            let cgroups = small.chain([
                ((name.clone(), "/db".to_owned()), waited(1000, &[("/backup", 900)])),
                (("other".to_owned(), "/db".to_owned()), waited(9000, &[])),
            ]);
            batches.add(&snapshot, Some(cgroups.collect()));
        }
        batches.close();
        let mut rows = batches.waiting.iter().flat_map(|batch| &batch.rows);
        let row = rows.find(|row| row.0 == DatasetTable::Verdicts).unwrap();
        let row = serde_json::from_str::<Value>(&row.2).unwrap();
        let cgroups = row["cgroups"].as_array().unwrap();
        assert_eq!(cgroups.len(), 8);
        assert_eq!(cgroups[0], json!({"cgroup": "/db", "by": "/backup", "us": 18_000}));
        assert_eq!(cgroups[1], json!({"cgroup": "/db", "by": null, "us": 2_000}));
        assert_eq!(cgroups[2]["us"], 100);
    }

    /// While a write hangs, rows are collected, and the oldest are left out.
    #[test]
    fn memory_is_bounded_while_a_write_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let mut batches = batches(folder.path());
        batches.writing = Some(MAX_WAITING_BYTES - 100_000);
        for hour in 0..60 {
            add(&mut batches, hour * 60, hour * 60 + 60);
            batches.close();
            batches.write();
            assert!(batches.bytes() <= MAX_WAITING_BYTES);
        }
        let kept = batches.waiting.len();
        assert!((2..60).contains(&kept), "{kept}");
        assert_eq!(batches.waiting.back().unwrap().start_us, START + 59 * 60_000_000);
    }
}
