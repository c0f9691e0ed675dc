//! A session recorded to files, and the sum of its intervals.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::output::OutputFiles;
use super::summary::Summary;
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::analysis::verdict::Worst;
use crate::analysis::window::Window;
use crate::analysis::{hotspot, window};
use crate::machine::Sys;
use crate::session::Session;
use crate::session::engine::EngineSource;
use crate::session::recorder::{Recorder, RecorderOptions};

/// Maximum number of tasks and files of an array in the sum.
const MAX_LISTED: usize = 1024;

/// Limits at which a recording ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Maximum duration.
    pub duration: Option<Duration>,
    /// Maximum size in bytes.
    pub max_size: Option<u64>,
}

/// A recording that has ended.
pub struct Finished {
    pub files: OutputFiles,
    /// Figures for the final message.
    pub summary: Summary,
    /// Error if the end of the recording could not be written.
    pub result: Result<()>,
}

/// A recording in progress.
pub struct RunningRecording {
    recorder: Recorder<OutputFiles>,
    limits: Limits,
    started: Instant,
    total: Option<Snapshot>,
    /// For the verdicts.
    window: Window,
    worst: Worst,
}

impl RunningRecording {
    /// Starts a session and creates the file. When this returns, events are being recorded.
    ///
    /// # Errors
    /// The session cannot be started, or the file cannot be written.
    pub fn start(
        sys: Sys,
        files: OutputFiles,
        options: &RecorderOptions,
        limits: Limits,
    ) -> Result<Self> {
        Ok(Self {
            recorder: Recorder::start(sys, files, options)?,
            limits,
            started: Instant::now(),
            total: None,
            window: Window::new(window::SPAN),
            worst: Worst::default(),
        })
    }
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
        array.tasks.truncate(MAX_LISTED);
        array.files.busiest.truncate(MAX_LISTED);
    }
}

impl EngineSource for RunningRecording {
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
        let long_enough = duration.is_some_and(|d| self.started.elapsed() >= d);
        let bytes = self.recorder.written().bytes;
        Ok(long_enough || max_size.is_some_and(|most| bytes >= most))
    }

    fn update(&mut self) -> Result<()> {
        self.recorder.update()
    }

    fn interval(&mut self) -> Result<()> {
        let mut snapshot = self.recorder.interval()?;
        self.window.evaluate(&mut snapshot);
        self.worst.add(&snapshot);
        add(&mut self.total, snapshot);
        Ok(())
    }

    fn finish(self) -> Finished {
        let span = self.started.elapsed();
        let (files, recorded, last, result) = self.recorder.end();
        let (mut window, mut worst, mut total) = (self.window, self.worst, self.total);
        if let Some(mut last) = last {
            window.evaluate(&mut last);
            worst.add(&last);
            add(&mut total, last);
        }
        let Some(mut total) = total else {
            let headlines = Vec::new();
            return Finished { files, summary: Summary { span, recorded, headlines }, result };
        };
        for array in &mut total.arrays {
            array.hotspot = Some(hotspot::find(array, total.interval));
        }
        worst.lead(&mut total.arrays);
        let headline = |array: &ArraySnapshot| {
            let headline = array.hotspot.as_ref().map(|h| h.headline.as_str());
            format!("{}: {}", array.info.name, headline.unwrap_or_default())
        };
        let headlines = total.arrays.iter().map(headline).collect();
        Finished { files, summary: Summary { span, recorded, headlines }, result }
    }
}
