//! The source of `alloc`: figures of the allocator and of the members, and the recording.

use std::collections::HashSet;
use std::time::Duration;

use std::io;

use anyhow::{Context as _, Result};

use super::outputs::Out;
use crate::analysis::alloc::AllocSnapshot;
use crate::analysis::alloc::window::AllocWindow;
use crate::analysis::alloc::{fold, reason};
use crate::analysis::item::{Item, State};
use crate::analysis::profile::Profile;
use crate::machine::Sys;
use crate::machine::output::{Output, Pending};
use crate::machine::privileges::writing;
use crate::probe::DirtiedCounting;
use crate::recording::alloc::AllocInterval;
use crate::recording::header::Header;
use crate::recording::writer::{Writer, WriterOptions};
use crate::session::Session;
use crate::session::alloc::sampler::{self, AllocOptions, AllocSampler, joined};
use crate::session::engine::EngineSource;
use crate::session::header::{header, truncation_notes};
use crate::session::sampler::Sampler;
use crate::ui::lines::print_new;

/// Each interval is one row, written as a batch of its own.
const RECORDING: WriterOptions = WriterOptions { level: 1, rows: 64, waiting: 16 };

/// Figures of the whole run.
pub struct Total {
    /// Sum of all intervals; `None` without one.
    pub snapshot: Option<AllocSnapshot>,
    pub stacks: Profile,
}

/// A session, the hooks for its filesystems, and the consumers of their intervals.
pub struct AllocTracer {
    disks: Sampler,
    sampler: AllocSampler,
    record: Option<AllocRecording>,
    /// Window of the last intervals, only for the screen.
    window: Option<AllocWindow>,
    total: Option<AllocSnapshot>,
}

impl AllocTracer {
    /// Starts the session and the hooks, and creates the recording.
    ///
    /// # Errors
    /// There is no ext4 on the targets, the programs cannot be loaded, or the recording cannot be
    /// created.
    pub fn start(
        targets: &[String],
        options: AllocOptions,
        record: Option<Out>,
        on_screen: bool,
    ) -> Result<Self> {
        let mut disks = Sampler::start(Sys::live(), targets, true, DirtiedCounting::No)?;
        let sampler = AllocSampler::start(targets, disks.session().topology(), options)?;
        let mut allocator = Self {
            disks,
            sampler,
            record: None,
            window: on_screen.then(AllocWindow::default),
            total: None,
        };
        if let Some(out) = record {
            let mut header = header(allocator.session().topology(), targets, &[], 0);
            header.notes = allocator.notes();
            header.notes.extend(truncation_notes(&header));
            allocator.record = Some(AllocRecording::create(out, &header)?);
        }
        // Start the first interval of both sources.
        allocator.disks.interval()?;
        allocator.sampler.begin()?;
        Ok(allocator)
    }
}

impl EngineSource for AllocTracer {
    type Interval = AllocSnapshot;
    type Total = Result<Total>;

    fn session(&mut self) -> &mut Session {
        self.disks.session()
    }

    fn notes(&self) -> Vec<String> {
        joined([self.sampler.notes().collect(), self.disks.notes()])
    }

    fn drain_every(&self) -> Option<Duration> {
        Some(sampler::DRAIN_INTERVAL)
    }

    fn drain(&mut self) -> Result<bool> {
        self.sampler.drain()?;
        Ok(false)
    }

    fn update(&mut self) -> Result<()> {
        self.disks.update()
    }

    fn interval(&mut self) -> Result<AllocSnapshot> {
        let disks = self.disks.interval()?;
        let snapshot = self.sampler.interval(self.disks.session(), &disks)?;
        match &mut self.total {
            Some(total) => {
                fold::add(total, &snapshot);
                reason::evaluate(total);
            }
            None => self.total = Some(snapshot.clone()),
        }
        if let Some(record) = &mut self.record {
            record.write(&AllocInterval::item(&snapshot, self.sampler.last())?)?;
        }
        Ok(match &mut self.window {
            Some(window) => window.push(snapshot),
            None => snapshot,
        })
    }

    fn finish(self) -> Result<Total> {
        self.record.map_or(Ok(()), AllocRecording::finish)?;
        Ok(Total { snapshot: self.total, stacks: self.sampler.whole().clone() })
    }
}

struct AllocRecording {
    writer: Writer,
    name: String,
}

impl AllocRecording {
    /// Creates the file with `header` and an empty first state. The recording counts no requests.
    fn create(out: Out, header: &Header) -> Result<Self> {
        let Out { destination, name } = out;
        let begin = || {
            let Output { file, mut pending } = destination.open()?;
            let mut writer = Writer::create(file, header, RECORDING)?;
            let time_us = jiff::Timestamp::now().as_microsecond();
            writer.push(&Item::State(Box::new(State { time_us, ..State::default() })))?;
            writer.sync()?;
            pending.as_mut().map_or(Ok(()), Pending::commit)?;
            Ok::<_, io::Error>(writer)
        };
        let writer = writing(begin).with_context(|| format!("creating {name}"))?;
        Ok(Self { writer, name })
    }

    fn write(&mut self, interval: &Item) -> Result<()> {
        let written = self.writer.push(interval).and_then(|()| self.writer.flush());
        written.with_context(|| format!("writing {}: earlier intervals can be read", self.name))
    }

    fn finish(self) -> Result<()> {
        let written = self.writer.finish().with_context(|| format!("ending {}", self.name))?;
        if written.dropped > 0 {
            let (n, name) = (written.dropped, &self.name);
            let note = format!("{name}: {n} intervals are missing: the disk was too slow");
            print_new(&[note], &mut HashSet::new());
        }
        Ok(())
    }
}
