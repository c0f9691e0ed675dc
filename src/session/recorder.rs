//! Writes a session to a recording: events as they are drained, and the state of the host at the
//! end of each interval.
//!
//! * [`storage`]: destination of a recording.
//! * [`items`]: makes items of a recording from events; [`join`]: finds the submission that a
//!   request belongs to. `events`: drains and writes events. `source`: the recorder as the source
//!   of an engine. [`dirtied`]: makes items from counters of dirtied data. [`slow_rows`]: items of
//!   slow operations.

pub mod dirtied;
mod events;
pub mod items;
pub mod join;
mod slow_rows;
mod source;
pub mod storage;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

use anyhow::{Context as _, Result};

use self::dirtied::DirtiedRows;
use self::items::{ClockOffset, Translator, monotonic_ns, state};
use self::slow_rows::SlowRows;
use self::storage::Storage;
use crate::analysis::counters::TaskId;
use crate::analysis::cube::Amount as _;
use crate::analysis::files::FileId;
use crate::analysis::fold::{Fold, Sample};
use crate::analysis::item::{Item, State};
use crate::analysis::lost::{Loss, Lost};
use crate::analysis::snapshot::Snapshot;
use crate::machine::{Sys, task};
use crate::probe::DirtiedCounting;
use crate::probe::events::Event;
use crate::recording::alloc::AllocInterval;
use crate::recording::writer::{RecordingSize, Writer, WriterOptions};
use crate::session::alloc::sampler::{AllocOptions, AllocSampler};
use crate::session::header::{header, truncation_notes};
use crate::session::{Reading, Session, SessionOptions, Update};

/// Interval of states.
pub const SECOND: Duration = Duration::from_secs(1);
/// Time limit of one drain, so that states are written on time.
const MAX_DRAIN: Duration = Duration::from_millis(200);
/// Time limit for draining the events of the previous members before an update in place.
const MAX_SWITCHOVER: Duration = Duration::from_secs(1);
/// Nice value of the threads that drain and write: a higher priority than the load.
const NICE: i32 = -10;
/// Maximum number of files that are remembered as stored.
const MAX_FILES: usize = 1 << 15;
/// Queues up to half a second of events of the fastest disks, in batches that are small enough for
/// memory.
const WRITER: WriterOptions = WriterOptions { level: 1, rows: 1 << 14, waiting: 10 };
/// Maximum number of notes that are remembered as stored.
const MAX_NOTES: usize = 1000;
/// A recording in memory adopts the host's clock after a step of more than this.
const MIN_CLOCK_STEP: Duration = Duration::from_secs(1);
/// Maximum number of files whose path is looked up again.
const MAX_PATHLESS: usize = 1024;

/// Options of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecorderOptions {
    /// Targets, as for [`Session::start`].
    pub targets: Vec<String>,
    /// The command that is recorded, for the header.
    pub command: Vec<OsString>,
    /// Size of the ring buffers in bytes.
    pub buffer: u32,
    /// Record the intervals of ext4's allocator.
    pub alloc: bool,
    /// Record operations that take at least this long.
    pub slow: Option<Duration>,
}

/// Figures of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordingFigures {
    /// Number of requests of members.
    pub requests: u64,
    /// Number of submissions to arrays.
    pub submissions: u64,
    /// Size of the part that has been written.
    pub written: RecordingSize,
    /// Lost events.
    pub lost: Lost,
}

/// A recording in progress.
pub struct Recorder<D> {
    session: Session,
    alloc: Option<AllocSampler>,
    slow: Option<SlowRows>,
    clock: ClockOffset,
    translator: Translator,
    events: Vec<Event>,
    storage: D,
    writer: Writer,
    dirtied: DirtiedRows,
    fold: Fold,
    /// First part of the interval, up to an update in the middle of it.
    part: Option<Snapshot>,
    /// Files whose location was passed to the writer.
    stored: HashSet<FileId>,
    /// Files whose path was unknown when they were stored, because a recording does not wait for
    /// paths.
    pathless: HashSet<FileId>,
    last_task: TaskId,
    /// Losses of the current programs since they were attached.
    lost: Lost,
    recorded: RecordingFigures,
    /// Notes already in the recording.
    noted: HashSet<String>,
    /// Notes on the storage.
    file_notes: Vec<String>,
}

impl<D: Storage> Recorder<D> {
    /// Starts a session and begins the recording. Events are recorded from the moment this returns.
    ///
    /// # Errors
    /// The session cannot be started, or the storage cannot be written.
    pub fn start(sys: Sys, mut storage: D, options: &RecorderOptions) -> Result<Self> {
        let session_options = SessionOptions {
            account: true,
            buffer: Some(options.buffer),
            dirtied: DirtiedCounting::Counted,
            ..SessionOptions::default()
        };
        let mut session = Session::start(sys, &options.targets, session_options)?;
        // A full ring buffer loses events: raise the priority of this thread and the writer's for
        // busy machines.
        task::set_nice(NICE);
        let clock = ClockOffset::now();
        let (targets, command) = (&options.targets, &options.command);
        // The defaults of `raidtrace alloc`.
        let figures = AllocOptions { hertz: 99, ..AllocOptions::default() };
        let start = || AllocSampler::start(targets, session.topology(), figures);
        let mut alloc = options.alloc.then(start).transpose()?;
        let start = |threshold| SlowRows::start(targets, &session, threshold);
        let slow = options.slow.map(start).transpose()?;
        let mut header = header(session.topology(), targets, command, options.buffer);
        let mut file_notes = truncation_notes(&header);
        file_notes.extend(records_itself(&session, &storage));
        header.notes = notes(&session, alloc.as_ref(), slow.as_ref(), &file_notes);
        // The programs of `slow` can take seconds to load: earlier events are in no interval.
        let since = monotonic_ns();
        let base = session.read()?;
        let time = time(&session, clock, &base)?;
        let mut first = session.sample(base)?;
        first.time = time;
        let state = state(&first, false);
        let lost = first.counters.lost;
        let fold = Fold::new(first);
        let writer = storage.begin(|output, is_file| {
            let mut writer = Writer::create(output, &header, WRITER)?;
            writer.push(&Item::State(Box::new(state)))?;
            if is_file {
                writer.sync()?;
            } else {
                writer.flush()?;
            }
            Ok(writer)
        })?;
        if let Some(alloc) = &mut alloc {
            alloc.begin()?;
        }
        Ok(Self {
            translator: Translator::new(session.topology(), clock, since),
            session,
            alloc,
            slow,
            clock,
            events: Vec::new(),
            storage,
            writer,
            dirtied: DirtiedRows::default(),
            fold,
            part: None,
            stored: HashSet::new(),
            pathless: HashSet::new(),
            last_task: TaskId::default(),
            lost,
            recorded: RecordingFigures::default(),
            noted: header.notes.iter().cloned().collect(),
            file_notes,
        })
    }

    /// Writes the state of the host, applies an update, and begins the next piece of a rotated
    /// recording. Returns the snapshot since the last state, for the topology before `update`.
    fn write_state(&mut self, mut update: Option<Update>) -> Result<Snapshot> {
        let (reading, base) = self.session.read_with(update.as_mut())?;
        match update {
            None => {}
            // The old programs emit no more events.
            Some(Update::Reload(_)) => {
                self.drain_events(Duration::MAX)?;
                self.write_events(u64::MAX)?;
            }
            // After the update, events of removed members can no longer be translated.
            Some(Update::InPlace(_)) => self.drain_events(MAX_SWITCHOVER)?,
        }
        let is_last = matches!(update, Some(Update::Reload(_)));
        let (mut state, snapshot) = self.sample(reading, is_last)?;
        if let (Some(update), Some(base)) = (update, base) {
            self.session.apply(update);
            self.translator.continue_with(self.session.topology());
            state = self.restart(base)?;
            state.restart = false;
            self.stored.clear();
        }
        self.writer.flush()?;
        if let Some((piece, open)) = self.storage.next_piece()
            && self.writer.rotate(open)?
        {
            self.storage.piece_begun(piece);
            self.adopt_clock(&mut state)?;
            self.writer.push(&Item::State(Box::new(state)))?;
        }
        Ok(snapshot)
    }

    /// Adopts the host's clock at the start of a piece, if that clock has been set and the earlier
    /// pieces can be removed: all times of a recording come from one clock.
    fn adopt_clock(&mut self, state: &mut State) -> Result<()> {
        let Some(clock) = self.clock.stepped(MIN_CLOCK_STEP) else {
            return Ok(());
        };
        if !self.storage.forget() {
            return Ok(());
        }
        let now = monotonic_ns();
        let step = clock.unix_us(now) - self.clock.unix_us(now);
        state.time_us += step;
        self.clock = clock;
        self.translator.set_clock(clock);
        let step = step as f64 / 1e6;
        let text = format!("the host's clock was set by {step:+.1} s: earlier events are not kept");
        self.note(text)
    }

    /// Samples a reading, and passes its names and locations to the writer.
    fn named(&mut self, reading: Reading) -> Result<Sample> {
        let time = time(&self.session, self.clock, &reading)?;
        let mut sample = self.session.sample(reading)?;
        sample.time = time;
        for (task, info) in &sample.tasks {
            self.writer.task(*task, info);
        }
        let again = std::mem::take(&mut self.pathless);
        let found = self.session.locate(again);
        for (id, location) in sample.files.iter().chain(&found) {
            if self.stored.len() < MAX_FILES {
                self.stored.insert(*id);
            }
            if location.path.is_none() && !location.deleted && self.pathless.len() < MAX_PATHLESS {
                self.pathless.insert(*id);
            }
            self.writer.file_location(*id, location);
        }
        let alloc = self.alloc.iter().flat_map(AllocSampler::notes);
        let slow = self.slow.iter().flat_map(SlowRows::notes);
        for text in sample.notes.iter().cloned().chain(alloc).chain(slow) {
            if self.noted.len() >= MAX_NOTES {
                self.noted.clear();
            }
            if self.noted.insert(text.clone()) {
                let time_us = sample.time.as_microsecond();
                self.writer.push(&Item::Note { time_us, text })?;
            }
        }
        Ok(sample)
    }

    /// Writes the counts of an interval, and then the state at its end. `is_last` is true if these
    /// programs are not read again.
    fn sample(&mut self, reading: Reading, is_last: bool) -> Result<(State, Snapshot)> {
        let sample = self.named(reading)?;
        let time_us = sample.time.as_microsecond();
        let now = sample.counters.lost;
        for row in self.dirtied.step(&sample.counters, time_us - 1, is_last) {
            self.writer.push(&row)?;
        }
        let lost = now.since(&self.lost);
        for (loss, count) in lost.nonzero() {
            self.write_lost(time_us, loss, count)?;
        }
        self.recorded.lost.add(&lost);
        self.lost = now;
        let mut state = state(&sample, false);
        let mut snapshot = self.fold.step(sample);
        let uncounted = snapshot.lost[Loss::Uncounted];
        if uncounted > 0 {
            self.recorded.lost.count(Loss::Uncounted, uncounted);
            self.write_lost(time_us, Loss::Uncounted, uncounted)?;
        }
        if let Some(alloc) = &mut self.alloc {
            let interval = alloc.interval(&mut self.session, &snapshot)?;
            let item = AllocInterval::item(&interval, alloc.last())?;
            self.writer.push(&item)?;
        }
        if let Some(slow) = &mut self.slow {
            let clock = self.clock;
            if let Some(item) = slow.interval(&mut self.session, |ns| clock.unix_us(ns))? {
                self.writer.push(&item)?;
            }
            snapshot.overhead.add(&slow.overhead());
            for array in &mut snapshot.arrays {
                array.slow = slow.longest(&array.info.name, time_us);
            }
        }
        self.push_state(&mut state)?;
        Ok((state, snapshot))
    }

    /// Writes the state at which counting restarts after an update. The update may have changed
    /// array indices.
    fn restart(&mut self, base: Reading) -> Result<State> {
        let mut sample = self.named(base)?;
        self.fold.resume_disks(&mut sample);
        self.lost = sample.counters.lost;
        self.dirtied = DirtiedRows::default();
        let mut state = state(&sample, true);
        self.fold.rebase(sample);
        self.push_state(&mut state)?;
        Ok(state)
    }

    fn write_lost(&mut self, time_us: i64, loss: Loss, count: u64) -> io::Result<()> {
        self.writer.push(&Item::Lost { time_us, reason: loss.label().to_owned(), count })
    }

    /// Writes `state`, with the number of each member's requests that were not counted so far.
    fn push_state(&mut self, state: &mut State) -> io::Result<()> {
        // The volumes of a container share a disk.
        let mut disks = HashSet::new();
        for member in state.arrays.iter_mut().flat_map(|a| &mut a.members) {
            if let Some(disk) = &mut member.disk
                && disks.insert(&member.name)
            {
                disk.uncounted = self.fold.uncounted(&member.name);
            }
        }
        self.writer.push(&Item::State(Box::new(state.clone())))
    }

    fn write_last_slow(&mut self) -> Result<()> {
        if let Some(slow) = &mut self.slow
            && let Some(item) = slow.last(&mut self.session)?
        {
            self.writer.push(&item)?;
        }
        Ok(())
    }

    /// Drains the remaining events and ends the recording. Returns the storage, the figures, the
    /// last snapshot, and an error if the end of the recording could not be written.
    pub fn end(mut self) -> (D, RecordingFigures, Option<Snapshot>, Result<()>) {
        self.session.probe().detach();
        self.session.wait_for_paths();
        self.writer.wait_for_disk();
        let last = self
            .drain_events(Duration::MAX)
            .and_then(|()| Ok(self.write_events(u64::MAX)?))
            .and_then(|()| self.session.read())
            .and_then(|reading| self.sample(reading, true));
        let (snapshot, result) = match last {
            Ok((_, snapshot)) => (Some(snapshot), self.write_last_slow()),
            Err(error) => (None, Err(error)),
        };
        self.recorded.written = self.writer.written();
        let result = result.and_then(|()| {
            self.recorded.written = self.writer.finish().context("finishing the recording")?;
            if let Some(bytes) = self.storage.finish()? {
                self.recorded.written.bytes = bytes;
            }
            Ok(())
        });
        (self.storage, self.recorded, snapshot, result)
    }

    /// Size of the part that has been written.
    pub fn written(&self) -> RecordingSize {
        self.writer.written()
    }

    /// Number of slow operations, commits and their events that are missing.
    pub fn slow_lost(&self) -> u64 {
        self.slow.as_ref().map_or(0, SlowRows::lost)
    }

    /// Destination of the recording.
    pub fn storage(&self) -> &D {
        &self.storage
    }

    /// Destination of the recording, after everything so far has been written.
    ///
    /// # Errors
    /// An earlier part could not be written.
    pub fn settled(&mut self) -> Result<&D> {
        self.writer.sync()?;
        Ok(&self.storage)
    }

    /// Writes a note to the recording.
    ///
    /// # Errors
    /// An earlier part could not be written.
    pub fn note(&mut self, text: String) -> Result<()> {
        let time_us = self.clock.unix_us_now();
        Ok(self.writer.push(&Item::Note { time_us, text })?)
    }
}

fn notes(
    session: &Session,
    alloc: Option<&AllocSampler>,
    slow: Option<&SlowRows>,
    file_notes: &[String],
) -> Vec<String> {
    let alloc = alloc.into_iter().flat_map(AllocSampler::notes);
    let slow = slow.into_iter().flat_map(SlowRows::notes);
    let all = session.notes().into_iter().chain(alloc).chain(slow);
    all.chain(file_notes.iter().cloned()).collect()
}

/// Time of a reading on the clock of the events. The host's clock may be set during the recording.
fn time(session: &Session, clock: ClockOffset, reading: &Reading) -> Result<jiff::Timestamp> {
    let age = u64::try_from(session.age(reading).as_nanos())?;
    let time_us = clock.unix_us(monotonic_ns().saturating_sub(age));
    Ok(jiff::Timestamp::from_microsecond(time_us)?)
}

/// A note if the file is on an array that is recorded.
fn records_itself(session: &Session, storage: &impl Storage) -> Option<String> {
    let device = storage.device()?;
    let arrays = &session.topology().host.arrays;
    let on = arrays.iter().find(|a| {
        a.filesystems.iter().map(|fs| fs.dev).chain([a.dev]).any(|d| d.kernel() == device)
    })?;
    Some(format!(
        "{} is on {}, which is recorded: the recording includes its own writes (the thread \
         `raidtrace:write`)",
        storage.name(),
        on.name
    ))
}
