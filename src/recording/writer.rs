//! Writes a recording. What it is given it only gathers; compressing and writing happens in a thread of its own, which
//! is never waited for: a batch that finds it too far behind is dropped, and told as lost.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use super::encode::Encoder;
use super::header::Header;
use super::rows::{Batch, Device, Devices, Known, NONE, Names, Recent};
use super::schema::Kind;
use crate::analysis::counters::TaskId;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::TaskInfo;
use crate::analysis::item::{Item, State, TOO_SLOW};

/// Where a recording goes.
pub trait Output: Write + Send {
    /// Makes what was written survive a power cut.
    fn sync(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Output for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// zstd's.
    pub level: i32,
    /// Rows a batch has at most, up to 65536.
    pub rows: usize,
    /// Full batches that may wait for the disk, of 4 MiB each.
    pub waiting: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: 1,
            rows: 65_536,
            waiting: 3,
        }
    }
}

/// Of a whole recording, or what has been written of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// On the disk.
    pub bytes: u64,
    /// Of all kinds.
    pub rows: u64,
    /// Rows that were dropped because the disk was too slow.
    pub dropped: u64,
}

/// A state as its row has it.
#[derive(serde::Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    state: &'a State,
    devices: &'a Devices,
}

fn devices(header: &Header) -> Devices {
    let filesystems = header.filesystems.iter();
    filesystems
        .map(|fs| {
            let mount = fs.mounts.first().map(|m| m.path.clone());
            let dev = fs.dev.clone();
            (fs.name.clone(), Device { dev, mount })
        })
        .collect()
}

/// Makes an output, in the writer's thread.
pub type Opening = Box<dyn FnOnce() -> io::Result<Box<dyn Output>> + Send>;

enum Job {
    Batch(Box<Batch>),
    /// Ends this file; the next begins on the output that this makes.
    Turn(Opening),
    /// Everything before it to the disk, then an answer.
    Settle(Sender<()>),
    Finish,
}

/// Counted by the thread.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
    rows: AtomicU64,
}

/// A recording being written. Dropped without [`Writer::finish`], it lacks its end.
pub struct Writer {
    options: Options,
    batch: Box<Batch>,
    known: Known,
    /// The filesystems' devices: of the header, and of files that were told.
    devices: Devices,
    /// As the last state had them.
    told: Arc<Devices>,
    /// A batch that is dropped must not take the last state along, nor that it came after a restart.
    state: Option<State>,
    restart: bool,
    /// Rows that were dropped, and are in no batch that was accepted; how many of them this batch tells.
    dropped: u64,
    telling: u64,
    /// Batches wait for the disk.
    patient: bool,
    dropped_in_all: u64,
    jobs: Option<SyncSender<Job>>,
    empty: Receiver<Box<Batch>>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Writer {
    /// Begins a recording on `output`: its header is written at once.
    pub fn create(
        output: impl Output + 'static,
        header: &Header,
        options: Options,
    ) -> io::Result<Self> {
        let mut encoder = Encoder::new(header, options.level, Box::new(output))?;
        let progress = Arc::new(Progress::default());
        progress.bytes.store(encoder.bytes(), Ordering::Relaxed);
        let (jobs, received) = sync_channel(options.waiting.max(1));
        let (emptied, empty) = channel();
        let thread = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn({
                let progress = Arc::clone(&progress);
                move || {
                    for job in received {
                        match job {
                            Job::Batch(mut batch) => {
                                encoder.write(&batch)?;
                                let rows = batch.rows.len() as u64;
                                progress.rows.fetch_add(rows, Ordering::Relaxed);
                                batch.clear();
                                let _ = emptied.send(batch);
                            }
                            Job::Turn(open) => encoder.turn(open()?)?,
                            Job::Settle(done) => {
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
        let devices = devices(header);
        let told = Arc::new(devices.clone());
        Ok(Self {
            batch: Box::new(Batch::new(options.rows, Arc::clone(&told))),
            options,
            known: Known::default(),
            devices,
            told,
            state: None,
            restart: false,
            dropped: 0,
            telling: 0,
            patient: false,
            dropped_in_all: 0,
            jobs: Some(jobs),
            empty,
            progress,
            thread: Some(thread),
        })
    }

    /// Takes an item. The first must be a state; requests and submissions have the numbers of the last one. Errors of
    /// the disk come out here, too, with the batch after the one that met them.
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

    /// Names a task, from the next item on (and of those before that have no name yet).
    pub fn task(&mut self, task: TaskId, info: &TaskInfo) {
        let info = Arc::new(info.clone());
        if self.known.tasks.put(task, &info) {
            self.batch.rename(task, &info);
        }
    }

    /// True if the task has been named, and its name is still known.
    pub fn knows(&self, task: TaskId) -> bool {
        self.known.tasks.get(&task).is_some()
    }

    /// Where a file is. Holds for the items of this batch, the earlier ones too.
    pub fn file_location(&mut self, id: FileId, location: &FileLocation) {
        let device = Device {
            dev: id.device(),
            mount: location.mount.clone(),
        };
        if !location.device_name.is_empty()
            && self.devices.get(&location.device_name) != Some(&device)
        {
            self.devices.insert(location.device_name.clone(), device);
        }
        let location = Arc::new(location.clone());
        if self.known.locations.put(id, &location) {
            self.batch.found(id, &location);
        }
    }

    /// From here on nothing is dropped: nothing is coming in any more that could not wait.
    pub fn take_time(&mut self) {
        self.patient = true;
    }

    /// Ends the batch: it is written as soon as the disk can take it. To be called about once a second.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.batch.rows.is_empty() {
            return self.check();
        }
        let mut next = self.empty.try_recv().unwrap_or_default();
        next.names = Arc::clone(&self.batch.names);
        next.devices = Arc::clone(&self.told);
        let full = std::mem::replace(&mut self.batch, next);
        let Some(jobs) = &self.jobs else {
            return self.check();
        };
        let sent = if self.patient {
            jobs.send(Job::Batch(full))
                .map_err(|e| TrySendError::Disconnected(e.0))
        } else {
            jobs.try_send(Job::Batch(full))
        };
        match sent {
            Ok(()) => {
                self.restart = false;
                self.dropped -= std::mem::take(&mut self.telling);
                Ok(())
            }
            Err(TrySendError::Full(Job::Batch(batch))) => {
                self.dropped += batch.rows.len() as u64;
                self.dropped_in_all += batch.rows.len() as u64;
                self.tell_dropped(&batch)
            }
            Err(_) => self.check(),
        }
    }

    /// Waits until everything that was pushed is on the disk.
    pub fn settle(&mut self) -> io::Result<()> {
        self.flush()?;
        let (done, settled) = channel();
        self.send(Job::Settle(done))?;
        match settled.recv() {
            Ok(()) => Ok(()),
            Err(_) => {
                self.join()?;
                Err(io::Error::other("the recording has been ended"))
            }
        }
    }

    /// Ends this file and goes on in the one that `open` makes, with the same header. The next item must be a state then.
    /// `false`: the thread is too far behind now; nothing has changed.
    pub fn turn(&mut self, open: Opening) -> io::Result<bool> {
        self.flush()?;
        let Some(jobs) = &self.jobs else {
            return self.check().map(|()| false);
        };
        match jobs.try_send(Job::Turn(open)) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => self.check().map(|()| false),
        }
    }

    /// What has been written; not what waits.
    pub fn written(&self) -> Written {
        Written {
            bytes: self.progress.bytes.load(Ordering::Relaxed),
            rows: self.progress.rows.load(Ordering::Relaxed),
            dropped: self.dropped_in_all,
        }
    }

    /// Ends the recording: waits until everything is on the disk.
    pub fn finish(mut self) -> io::Result<Written> {
        // Here there is time to wait for the disk.
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
        let names = Names::of(state);
        if names != *self.batch.names {
            // Rows have the numbers of their batch.
            self.flush()?;
            let was = &self.batch.names.arrays;
            if !was.is_empty() && *was != names.arrays {
                // Tasks are known by the number of the array.
                self.known.tasks = Recent::default();
            }
            self.batch.names = Arc::new(names);
        }
        self.restart |= state.restart;
        self.state = Some(state.clone());
        self.tell_state(state)
    }

    fn tell_state(&mut self, state: &State) -> io::Result<()> {
        let told = Told {
            state,
            devices: &self.devices,
        };
        let text = serde_json::to_string(&told)?;
        self.batch.tell(state.time_us, Kind::State, NONE, text);
        if *self.told != self.devices {
            self.told = Arc::new(self.devices.clone());
        }
        Ok(())
    }

    /// At the beginning of the next batch, with the time of the last row that was dropped.
    fn tell_dropped(&mut self, batch: &Batch) -> io::Result<()> {
        let with_state = batch.rows.iter().any(|r| r.kind == Kind::State);
        if let Some(mut state) = self.state.take().filter(|_| with_state) {
            state.restart = self.restart;
            self.tell_state(&state)?;
            self.state = Some(state);
        }
        let lost = Item::Lost {
            time_us: batch.rows.iter().map(|r| r.time).max().unwrap_or(0),
            reason: TOO_SLOW.to_owned(),
            count: self.dropped,
        };
        self.telling = self.dropped;
        self.batch.add(&lost, &self.known);
        Ok(())
    }

    fn send(&mut self, job: Job) -> io::Result<()> {
        match &self.jobs {
            Some(jobs) if jobs.send(job).is_ok() => Ok(()),
            _ => self.check(),
        }
    }

    /// The thread's error, if it has ended with one.
    fn check(&mut self) -> io::Result<()> {
        if self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            return Ok(());
        }
        self.join()?;
        Err(io::Error::other("the recording has been ended"))
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
