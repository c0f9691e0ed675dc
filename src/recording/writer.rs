//! Writes a recording. Items are collected into batches; another thread compresses and writes them.
//! The caller never waits for that thread: when it is too far behind, a batch is dropped and
//! reported as lost.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use super::encode::Encoder;
use super::header::Header;
use super::output::{Opening, RecordingOutput};
use super::rows::{self, Device, Devices, NameCache, RecentMap, RowBatch, RowNames, StateRow};
use super::schema::RowKind;
use crate::analysis::counters::TaskId;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::TaskInfo;
use crate::analysis::item::{Item, State, TOO_SLOW};
use crate::machine::privileges;

#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// Compression level of zstd.
    pub level: i32,
    /// Maximum number of rows in a batch, up to 65536.
    pub rows: usize,
    /// Number of full batches, of up to 4 MiB each, that may wait for the disk.
    pub waiting: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { level: 1, rows: 65_536, waiting: 3 }
    }
}

/// Size of a recording, or of the data written so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingSize {
    pub bytes: u64,
    /// Rows of all kinds.
    pub rows: u64,
    /// Rows that were dropped because the disk was too slow.
    pub dropped: u64,
}

enum Job {
    Batch(Box<RowBatch>),
    /// Ends this file and starts the next one.
    Rotate(Opening),
    /// Syncs everything before, then replies.
    Sync(Sender<()>),
    Finish,
}

/// Counters of the writer's thread.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
    rows: AtomicU64,
}

/// A recording being written. It has no end marker unless [`Writer::finish`] is called.
pub struct Writer {
    options: WriterOptions,
    batch: Box<RowBatch>,
    known: NameCache,
    /// Devices of filesystems: from the header, and from file locations.
    devices: Devices,
    /// Devices in the last state.
    stored_devices: Arc<Devices>,
    /// The last state. It is written again if its batch is dropped.
    state: Option<State>,
    /// True if a state since the last accepted batch came after a restart.
    restart: bool,
    /// Dropped rows that no accepted batch has reported yet.
    dropped: u64,
    /// Dropped rows that the current batch reports.
    reporting: u64,
    /// If true, batches wait for the disk and are never dropped.
    waits_for_disk: bool,
    dropped_total: u64,
    jobs: Option<SyncSender<Job>>,
    empty: Receiver<Box<RowBatch>>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Writer {
    /// Starts a recording on `output` by writing the header.
    pub fn create(
        output: impl RecordingOutput + 'static,
        header: &Header,
        options: WriterOptions,
    ) -> io::Result<Self> {
        let mut encoder = Encoder::new(header, options.level, Box::new(output))?;
        let progress = Arc::new(Progress::default());
        progress.bytes.store(encoder.bytes(), Ordering::Relaxed);
        let (jobs, received) = sync_channel(options.waiting.max(1));
        let (emptied, empty) = channel();
        let thread = std::thread::Builder::new().name("raidtrace:write".to_owned()).spawn({
            let progress = Arc::clone(&progress);
            move || {
                privileges::keep_for_writing();
                for job in received {
                    match job {
                        Job::Batch(mut batch) => {
                            encoder.write(&batch)?;
                            let rows = batch.rows.len() as u64;
                            progress.rows.fetch_add(rows, Ordering::Relaxed);
                            batch.clear();
                            let _ = emptied.send(batch);
                        }
                        Job::Rotate(open) => encoder.rotate(open()?)?,
                        Job::Sync(done) => {
                            encoder.sync()?;
                            let _ = done.send(());
                        }
                        Job::Finish => {
                            encoder.finish()?;
                            progress.bytes.store(encoder.bytes(), Ordering::Relaxed);
                            break;
                        }
                    }
                    progress.bytes.store(encoder.bytes(), Ordering::Relaxed);
                }
                Ok(())
            }
        })?;
        let devices = rows::devices(header);
        let stored = Arc::new(devices.clone());
        Ok(Self {
            batch: Box::new(RowBatch::new(options.rows, Arc::clone(&stored))),
            options,
            known: NameCache::default(),
            devices,
            stored_devices: stored,
            state: None,
            restart: false,
            dropped: 0,
            reporting: 0,
            waits_for_disk: false,
            dropped_total: 0,
            jobs: Some(jobs),
            empty,
            progress,
            thread: Some(thread),
        })
    }

    /// Adds an item. The first must be a state. Requests and submissions use the numbers of the
    /// last state.
    ///
    /// # Errors
    /// An earlier batch could not be written.
    pub fn push(&mut self, item: &Item) -> io::Result<()> {
        match item {
            Item::State(state) => self.state(state)?,
            other => self.batch.add(other, &self.known),
        }
        if self.batch.rows.len() >= self.options.rows {
            self.flush()?;
        }
        Ok(())
    }

    /// Names a task in the following items, and in earlier items of this batch that have no name
    /// yet.
    pub fn task(&mut self, task: TaskId, info: &TaskInfo) {
        let info = Arc::new(info.clone());
        if self.known.tasks.put(task, &info) {
            self.batch.set_task_info(task, &info);
        }
    }

    /// True if the name of the task is still in memory.
    pub fn knows(&self, task: TaskId) -> bool {
        self.known.tasks.get(&task).is_some()
    }

    /// Sets the location of a file, also in earlier items of this batch.
    pub fn file_location(&mut self, id: FileId, location: &FileLocation) {
        let device = Device { dev: id.device(), mount: location.mount.clone() };
        if !location.device_name.is_empty()
            && self.devices.get(&location.device_name) != Some(&device)
        {
            self.devices.insert(location.device_name.clone(), device);
        }
        let location = Arc::new(location.clone());
        if self.known.locations.put(id, &location) {
            self.batch.set_file_location(id, &location);
        }
    }

    /// Waits for the disk from now on instead of dropping batches.
    pub fn wait_for_disk(&mut self) {
        self.waits_for_disk = true;
    }

    /// Passes the batch to the writer's thread. Call this about once a second.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.batch.rows.is_empty() {
            return self.check();
        }
        let mut next = self.empty.try_recv().unwrap_or_default();
        next.names = Arc::clone(&self.batch.names);
        next.devices = Arc::clone(&self.stored_devices);
        let full = std::mem::replace(&mut self.batch, next);
        let Some(jobs) = &self.jobs else {
            return self.check();
        };
        let sent = if self.waits_for_disk {
            jobs.send(Job::Batch(full)).map_err(|e| TrySendError::Disconnected(e.0))
        } else {
            jobs.try_send(Job::Batch(full))
        };
        match sent {
            Ok(()) => {
                self.restart = false;
                self.dropped -= std::mem::take(&mut self.reporting);
                Ok(())
            }
            Err(TrySendError::Full(Job::Batch(batch))) => {
                self.dropped += batch.rows.len() as u64;
                self.dropped_total += batch.rows.len() as u64;
                self.report_dropped(&batch)
            }
            Err(_) => self.check(),
        }
    }

    /// Waits until all items are on the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        // The batch must not be dropped here: it may hold what the caller waits for.
        let waited = std::mem::replace(&mut self.waits_for_disk, true);
        let flushed = self.flush();
        self.waits_for_disk = waited;
        flushed?;
        let (done, synced) = channel();
        self.send(Job::Sync(done))?;
        match synced.recv() {
            Ok(()) => Ok(()),
            Err(_) => {
                self.join()?;
                Err(io::Error::other("the recording has already ended"))
            }
        }
    }

    /// Ends this file and continues in the one that `open` creates, with the same header. The next
    /// item must be a state. Returns false, and stays in this file, if the thread is too far
    /// behind.
    pub fn rotate(&mut self, open: Opening) -> io::Result<bool> {
        self.flush()?;
        let Some(jobs) = &self.jobs else {
            return self.check().map(|()| false);
        };
        match jobs.try_send(Job::Rotate(open)) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => self.check().map(|()| false),
        }
    }

    /// Size of the data written so far.
    pub fn written(&self) -> RecordingSize {
        RecordingSize {
            bytes: self.progress.bytes.load(Ordering::Relaxed),
            rows: self.progress.rows.load(Ordering::Relaxed),
            dropped: self.dropped_total,
        }
    }

    /// Ends the recording and waits until everything is on the disk.
    pub fn finish(mut self) -> io::Result<RecordingSize> {
        let batch = std::mem::take(&mut self.batch);
        if !batch.rows.is_empty() {
            self.send(Job::Batch(batch))?;
        }
        self.send(Job::Finish)?;
        self.jobs = None;
        self.join()?;
        Ok(self.written())
    }

    fn state(&mut self, state: &State) -> io::Result<()> {
        let names = RowNames::new(state);
        if names != *self.batch.names {
            // All rows of a batch use the same numbers of arrays and members.
            self.flush()?;
            let was = &self.batch.names.arrays;
            if !was.is_empty() && *was != names.arrays {
                // Tasks are stored by the number of their array.
                self.known.tasks = RecentMap::default();
            }
            self.batch.names = Arc::new(names);
        }
        self.restart |= state.restart;
        self.state = Some(state.clone());
        self.write_state(state)
    }

    fn write_state(&mut self, state: &State) -> io::Result<()> {
        let row = StateRow { state: Cow::Borrowed(state), devices: Cow::Borrowed(&self.devices) };
        let text = serde_json::to_string(&row)?;
        self.batch.add_text(state.time_us, RowKind::State, text);
        if *self.stored_devices != self.devices {
            self.stored_devices = Arc::new(self.devices.clone());
        }
        Ok(())
    }

    /// Reports a dropped batch at the beginning of the next one, with the time of its last row.
    fn report_dropped(&mut self, batch: &RowBatch) -> io::Result<()> {
        let with_state = batch.rows.iter().any(|r| r.kind == RowKind::State);
        if let Some(mut state) = self.state.take().filter(|_| with_state) {
            state.restart = self.restart;
            self.write_state(&state)?;
            self.state = Some(state);
        }
        let lost = Item::Lost {
            time_us: batch.rows.iter().map(|r| r.time).max().unwrap_or(0),
            reason: TOO_SLOW.to_owned(),
            count: self.dropped,
        };
        self.reporting = self.dropped;
        self.batch.add(&lost, &self.known);
        Ok(())
    }

    fn send(&mut self, job: Job) -> io::Result<()> {
        match &self.jobs {
            Some(jobs) if jobs.send(job).is_ok() => Ok(()),
            _ => self.check(),
        }
    }

    /// Returns the error of the thread, if it has ended.
    fn check(&mut self) -> io::Result<()> {
        if self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return Ok(());
        }
        self.join()?;
        Err(io::Error::other("the recording has already ended"))
    }

    fn join(&mut self) -> io::Result<()> {
        match self.thread.take() {
            Some(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the writer's thread panicked"))),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        let _ = self.join();
    }
}

#[cfg(test)]
mod tests;
