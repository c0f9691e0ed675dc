//! From the kernel's buffer to the file: drained some fifty times a second, and once a second what everything is like.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::dirtied::DirtiedRows;
use super::items::{Clock, Translator, monotonic_ns};
use super::output::{Files, Sink};
use crate::analysis::counters::TaskId;
use crate::analysis::files::FileId;
use crate::analysis::fold::{Fold, Sample};
use crate::analysis::item::{Item, State};
use crate::analysis::snapshot::{Lost, Snapshot, UNCOUNTED};
use crate::analysis::{hotspot, window};
use crate::machine::{Mdstat, Sys};
use crate::probe::Dirtied;
use crate::probe::events::Event;
use crate::recording::writer::{Options, Writer, Written};
use crate::session::header::{cuts, header};
use crate::session::{Reading, Session, SessionOptions, Update};

/// Between two states.
const SECOND: Duration = Duration::from_secs(1);
/// Events are drained for so long at most before something else is looked at.
const DRAIN: Duration = Duration::from_millis(200);
/// The same when members have changed, before what comes is of others.
const TURN: Duration = Duration::from_secs(1);
/// Files that are remembered as told.
const FILES: usize = 1 << 15;
/// Half a second of the fastest disks may wait for the file, in batches that are small enough for memory.
const OPTIONS: Options = Options {
    level: 1,
    rows: 1 << 14,
    waiting: 10,
};
/// Tasks and files of an array that the sentence at the end knows of.
const LISTED: usize = 1024;

/// What there is to say at the end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How long it was.
    pub span: Duration,
    /// Of the members.
    pub requests: u64,
    /// To the arrays.
    pub submissions: u64,
    /// What reached the file.
    pub written: Written,
    /// What did not.
    pub lost: Lost,
    /// Headlines, one per array.
    pub sentences: Vec<String>,
}

/// A recording that is being made.
pub struct Recorder {
    session: Session,
    mdstat: Option<Mdstat>,
    clock: Clock,
    translator: Translator,
    events: Vec<Event>,
    writer: Writer,
    dirtied: DirtiedRows,
    fold: Fold,
    whole: Option<Snapshot>,
    /// Files that the writer has been told of.
    told: HashSet<FileId>,
    /// ... but not yet of their paths: nobody waits for these while a recording runs.
    pathless: HashSet<FileId>,
    last_task: TaskId,
    /// Cumulative, of the programs that run now.
    lost: Lost,
    begun: Instant,
    state: Instant,
    summary: Summary,
    notes: HashSet<String>,
}

impl Recorder {
    /// Surveys, loads, attaches, and begins the file. After it returns, nothing is missed.
    pub fn start(
        sys: Sys,
        targets: &[String],
        command: &[OsString],
        buffer: u32,
        files: &mut Files,
    ) -> Result<Self> {
        let options = SessionOptions {
            account: true,
            buffer: Some(buffer),
            dirtied: Dirtied::Counted,
        };
        let mdstat = Mdstat::open(&sys);
        let mut session = Session::start(sys, targets, options)?;
        let clock = Clock::now();
        let since = monotonic_ns();
        let mut header = header(session.topology(), targets, command, buffer);
        header.notes = session.notes();
        header.notes.extend(cuts(&header));
        header.notes.extend(itself(&session, files));
        let base = session.read()?;
        let time = stamp(&session, clock, &base)?;
        let mut first = session.sample(base)?;
        first.time = time;
        let state = state(&first, false);
        let lost = first.counters.lost;
        let fold = Fold::new(first);
        let writer = files.begin(|output: Sink| {
            let is_file = output.is_file();
            let mut writer = Writer::create(output, &header, OPTIONS)?;
            writer.push(&Item::State(Box::new(state)))?;
            if is_file {
                writer.settle()?;
            } else {
                writer.flush()?;
            }
            Ok(writer)
        })?;
        Ok(Self {
            translator: Translator::new(session.topology(), clock, since),
            session,
            mdstat,
            clock,
            events: Vec::new(),
            writer,
            dirtied: DirtiedRows::default(),
            fold,
            whole: None,
            told: HashSet::new(),
            pathless: HashSet::new(),
            last_task: TaskId::default(),
            lost,
            begun: Instant::now(),
            state: Instant::now(),
            summary: Summary::default(),
            notes: header.notes.iter().cloned().collect(),
        })
    }

    /// What is recorded, for a message.
    pub fn subjects(&self) -> String {
        let arrays = &self.session.topology().host.arrays;
        let one = |a: &crate::machine::Array| match a.members.len() {
            1 if !a.is_md() => a.name.clone(),
            1 => format!("{} (1 member)", a.name),
            n => format!("{} ({n} members)", a.name),
        };
        arrays.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// What this kernel and host cannot give, and what has changed while tracing.
    pub fn notes(&self) -> Vec<String> {
        self.session.notes()
    }

    /// As the header has them.
    pub fn first_notes(&self) -> impl Iterator<Item = &String> {
        self.notes.iter()
    }

    /// Since everything was attached.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// On the disk until now.
    pub fn bytes(&self) -> u64 {
        self.writer.written().bytes
    }

    /// To be called as often as possible; whether a second has gone by, or md has done something. Errors are of the file.
    pub fn step(&mut self, files: &mut Files) -> Result<bool> {
        self.drain(DRAIN)?;
        let now = Duration::ZERO;
        if self.mdstat.as_ref().is_some_and(|md| md.wait(Some(now))) {
            self.session.md_event();
        }
        let second = self.state.elapsed() >= SECOND || self.session.next_check() == Some(now);
        if second {
            self.state = Instant::now();
            self.second(files)?;
        }
        Ok(second)
    }

    fn drain(&mut self, at_most: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            let more = self.session.probe().drain(&mut self.events)?;
            self.take_events()?;
            if !more || begun.elapsed() >= at_most {
                return Ok(());
            }
        }
    }

    fn take_events(&mut self) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let mut failed = Ok(());
        let (requests, submissions) = (&mut self.summary.requests, &mut self.summary.submissions);
        let (session, writer) = (&mut self.session, &mut self.writer);
        let (told, last_task) = (&mut self.told, &mut self.last_task);
        let unknown = self.translator.translate(&events, |item| {
            match &item {
                Item::Request(_) => *requests += 1,
                Item::Submission(s) => {
                    *submissions += 1;
                    let task = TaskId {
                        array: s.array,
                        pid: s.pid,
                    };
                    if task != *last_task && !writer.knows(task) {
                        writer.task(task, &session.task_info(task));
                    }
                    *last_task = task;
                    if let Some(id) = s.file
                        && !told.contains(&id)
                    {
                        if told.len() >= FILES {
                            told.clear();
                        }
                        told.insert(id);
                        writer.file_location(id, &session.file_location(&id));
                    }
                }
                _ => {}
            }
            if failed.is_ok() {
                failed = writer.push(&item);
            }
        });
        events.clear();
        self.events = events;
        failed?;
        if unknown > 0 {
            let text = format!("{unknown} requests were of members that are not known");
            self.note(text)?;
        }
        Ok(())
    }

    fn note(&mut self, text: String) -> io::Result<()> {
        let time_us = self.clock.unix_us_now();
        self.writer.push(&Item::Note { time_us, text })
    }

    fn second(&mut self, files: &mut Files) -> Result<()> {
        let mut update = self.session.check_for_update();
        let mut since = monotonic_ns();
        if let Some(Update::Reload(_)) = update {
            // The new programs' events begin where the old ones' end: while both run, for taking off one program after
            // the other takes its time.
            self.translator.end(since);
            self.session.probe().detach();
        }
        let (reading, base) = self.session.read_with(update.as_mut())?;
        match update {
            None => {}
            // Nothing more comes.
            Some(Update::Reload(_)) => self.drain(Duration::MAX)?,
            // More does. What is left of members that are gone now is not known any more.
            Some(Update::InPlace(_)) => self.drain(TURN)?,
        }
        let mut state = self.sample(reading, false)?;
        if let (Some(update), Some(base)) = (update, base) {
            match update {
                Update::Reload(_) => self.lost = Lost::default(),
                Update::InPlace(_) => since = 0,
            }
            self.session.apply(update);
            self.translator.go_on(self.session.topology(), since);
            state = self.sample(base, true)?;
            state.restart = false;
            self.told.clear();
        }
        self.writer.flush()?;
        if let Some((turn, open)) = files.turn()
            && self.writer.turn(open)?
        {
            files.turned(turn);
            self.writer.push(&Item::State(Box::new(state)))?;
        }
        Ok(())
    }

    /// A state, and what has become known and was lost since the last one. `restart`: counting begins with it.
    fn sample(&mut self, reading: Reading, restart: bool) -> Result<State> {
        let time = stamp(&self.session, self.clock, &reading)?;
        let mut sample = self.session.sample(reading)?;
        sample.time = time;
        if restart {
            self.fold.resume_disks(&mut sample);
        }
        for (task, info) in &sample.tasks {
            self.writer.task(*task, info);
        }
        let again = std::mem::take(&mut self.pathless);
        let found = self.session.locate(again);
        for (id, location) in sample.files.iter().chain(&found) {
            if self.told.len() < FILES {
                self.told.insert(*id);
            }
            if location.path.is_none() && !location.deleted && self.pathless.len() < LISTED {
                self.pathless.insert(*id);
            }
            self.writer.file_location(*id, location);
        }
        let time_us = sample.time.as_microsecond();
        for note in &sample.notes {
            if self.notes.insert(note.clone()) {
                let text = note.clone();
                self.writer.push(&Item::Note { time_us, text })?;
            }
        }
        let now = sample.counters.lost;
        if !restart {
            // Of the interval that ends with this state. Nothing comes any more from programs that are detached.
            let last = !self.session.probe().is_attached();
            for row in self.dirtied.step(&sample.counters, time_us - 1, last) {
                self.writer.push(&row)?;
            }
            for ((count, reason), (was, _)) in now.reasons().into_iter().zip(self.lost.reasons()) {
                let count = count.saturating_sub(was);
                if count > 0 {
                    let reason = reason.to_owned();
                    self.writer.push(&Item::Lost {
                        time_us,
                        reason,
                        count,
                    })?;
                }
            }
            self.summary.lost.add(&now.since(&self.lost));
        }
        self.lost = now;
        let mut state = state(&sample, restart);
        if restart {
            // Numbers of arrays are others.
            self.dirtied = DirtiedRows::default();
            self.fold.rebase(sample);
            self.push_state(&mut state)?;
            return Ok(state);
        }
        let snapshot = self.fold.step(sample);
        let count = snapshot.lost.uncounted;
        if count > 0 {
            self.summary.lost.uncounted += count;
            let reason = UNCOUNTED.to_owned();
            self.writer.push(&Item::Lost {
                time_us,
                reason,
                count,
            })?;
        }
        self.push_state(&mut state)?;
        let whole = match &mut self.whole {
            Some(whole) => {
                window::merge(whole, &snapshot);
                whole
            }
            None => self.whole.insert(snapshot),
        };
        for array in &mut whole.arrays {
            array.tasks.truncate(LISTED);
            array.files.busiest.truncate(LISTED);
        }
        Ok(state)
    }

    /// Writes `state` with what the fold has found by then.
    fn push_state(&mut self, state: &mut State) -> io::Result<()> {
        for member in state.arrays.iter_mut().flat_map(|a| &mut a.members) {
            if let Some(disk) = &mut member.disk {
                disk.uncounted = self.fold.uncounted(&member.name);
            }
        }
        self.writer.push(&Item::State(Box::new(state.clone())))
    }

    /// Detaches, drains, and ends the file.
    pub fn finish(mut self, files: &mut Files) -> (Summary, Result<()>) {
        self.summary.span = self.begun.elapsed();
        self.session.probe().detach();
        self.session.wait_for_paths();
        self.writer.take_time();
        let last = self
            .drain(Duration::MAX)
            .and_then(|()| self.session.read())
            .and_then(|reading| self.sample(reading, false).map(drop));
        self.summary.sentences = self
            .whole
            .iter()
            .flat_map(|w| w.arrays.iter().map(|a| (w.interval, a)))
            .map(|(over, a)| format!("{}: {}", a.info.name, hotspot::find(a, over).headline))
            .collect();
        self.summary.written = self.writer.written();
        let ended = last.and_then(|()| {
            self.summary.written = self.writer.finish().context("ending the file")?;
            Ok(())
        });
        let ended = ended.and_then(|()| {
            if let Some(bytes) = files.finish()? {
                self.summary.written.bytes = bytes;
            }
            Ok(())
        });
        (self.summary, ended)
    }
}

/// When it was read, by the clock of the events: that of the host may be set.
fn stamp(session: &Session, clock: Clock, reading: &Reading) -> Result<jiff::Timestamp> {
    let age = u64::try_from(session.age(reading).as_nanos())?;
    let time_us = clock.unix_us(monotonic_ns().saturating_sub(age));
    Ok(jiff::Timestamp::from_microsecond(time_us)?)
}

fn state(sample: &Sample, restart: bool) -> State {
    let counters = &sample.counters;
    State {
        time_us: sample.time.as_microsecond(),
        restart,
        arrays: sample.arrays.clone(),
        costs: counters
            .costs
            .iter()
            .map(|(&(array, origin), &cost)| (array, origin, cost))
            .collect(),
        lost: counters.lost,
        overhead: counters.overhead,
        notes: sample.notes.clone(),
    }
}

/// A recording that lies on what it records has its own writes in it.
fn itself(session: &Session, files: &Files) -> Option<String> {
    let device = files.device()?;
    let arrays = &session.topology().host.arrays;
    let on = arrays.iter().find(|a| {
        let filesystems = a.filesystems.iter().map(|fs| fs.dev);
        filesystems.chain([a.dev]).any(|d| d.kernel() == device)
    })?;
    Some(format!(
        "{} is on {}, which is recorded: its own writes are in it (the thread `writer` of raidtrace)",
        files.name(),
        on.name
    ))
}
