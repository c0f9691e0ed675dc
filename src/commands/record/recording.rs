//! A session that is recorded to files, and the sum of its intervals.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::output::Files;
use super::summary::Summary;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::{hotspot, window};
use crate::machine::Sys;
use crate::session::Session;
use crate::session::engine::Source;
use crate::session::recorder::{Recorder, RecorderOptions};

/// Tasks and files of an array in the summary.
const LISTED: usize = 1024;

/// When a recording ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Duration after which it ends.
    pub duration: Option<Duration>,
    /// Size in bytes at which it ends.
    pub max_size: Option<u64>,
}

/// A recording that has ended.
pub struct Finished {
    /// Its files.
    pub files: Files,
    /// Its figures.
    pub summary: Summary,
    /// An error if the end of the recording is missing.
    pub result: Result<()>,
}

/// A recording in progress.
pub struct Recording {
    recorder: Recorder<Files>,
    limits: Limits,
    begun: Instant,
    total: Option<Snapshot>,
}

impl Recording {
    /// Starts a session and creates the file. Events are recorded from the moment this returns.
    ///
    /// # Errors
    /// The session cannot be started, or the file cannot be written.
    pub fn start(
        sys: Sys,
        files: Files,
        options: &RecorderOptions,
        limits: Limits,
    ) -> Result<Self> {
        Ok(Self {
            recorder: Recorder::start(sys, files, options)?,
            limits,
            begun: Instant::now(),
            total: None,
        })
    }

    fn add(total: &mut Option<Snapshot>, snapshot: Snapshot) {
        let total = match total {
            Some(total) => {
                window::merge(total, &snapshot);
                total
            }
            None => total.insert(snapshot),
        };
        for array in &mut total.arrays {
            array.tasks.truncate(LISTED);
            array.files.busiest.truncate(LISTED);
        }
    }
}

impl Source for Recording {
    type Interval = ();
    type Total = Finished;
    const ON_TIME: bool = true;

    fn session(&mut self) -> &mut Session {
        self.recorder.session()
    }

    fn notes(&self) -> Vec<String> {
        self.recorder.notes()
    }

    fn drain_every(&self) -> Option<Duration> {
        self.recorder.drain_every()
    }

    fn drain(&mut self) -> Result<bool> {
        self.recorder.drain()?;
        let Limits { duration, max_size } = self.limits;
        let long_enough = duration.is_some_and(|d| self.begun.elapsed() >= d);
        let bytes = self.recorder.written().bytes;
        Ok(long_enough || max_size.is_some_and(|most| bytes >= most))
    }

    fn update(&mut self) -> Result<()> {
        self.recorder.update()
    }

    fn interval(&mut self) -> Result<()> {
        let snapshot = self.recorder.interval()?;
        Self::add(&mut self.total, snapshot);
        Ok(())
    }

    fn finish(mut self) -> Finished {
        let span = self.begun.elapsed();
        let (files, recorded, last, result) = self.recorder.end();
        if let Some(last) = last {
            Self::add(&mut self.total, last);
        }
        let arrays = self
            .total
            .iter()
            .flat_map(|total| total.arrays.iter().map(|a| (total.interval, a)));
        let headlines = arrays
            .map(|(over, a)| format!("{}: {}", a.info.name, hotspot::find(a, over).headline))
            .collect();
        Finished {
            files,
            summary: Summary {
                span,
                recorded,
                headlines,
            },
            result,
        }
    }
}
