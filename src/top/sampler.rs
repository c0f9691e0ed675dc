//! The live source of snapshots: counters, disk statistics and the arrays' state, once an interval.

use anyhow::Result;

use crate::host::Sys;
use crate::live::{How, Live, Reading};
use crate::model::fold::{Fold, Sample};
use crate::model::snapshot::Snapshot;
use crate::model::window::{self, Window};

/// Attached programs and everything needed to make snapshots of them.
pub struct Sampler {
    live: Live,
    fold: Fold,
    window: Window,
}

impl Sampler {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    pub fn start(sys: Sys, targets: &[String], account: bool) -> Result<Self> {
        let how = How {
            account,
            buffer: None,
        };
        let mut sampler = Self {
            live: Live::start(sys, targets, how)?,
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
        };
        let reading = sampler.live.read()?;
        sampler.begin(reading)?;
        Ok(sampler)
    }

    /// What was counted until `base` is not shown.
    fn begin(&mut self, base: Reading) -> Result<()> {
        let before = std::mem::replace(&mut self.fold, Fold::new(Sample::default()));
        let mut first = self.live.sample(base, self.fold.tasks())?;
        before.resume_disks(&mut first);
        self.fold = Fold::new(first);
        Ok(())
    }

    /// What is traced now.
    pub fn live(&mut self) -> &mut Live {
        &mut self.live
    }

    /// What this kernel and host cannot give, and what has changed while tracing.
    pub fn notes(&self) -> Vec<String> {
        self.live.notes()
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        // The programs for what has changed are loaded while the old ones count: this interval is still theirs.
        let next = self.live.follow_changes();
        let reading = self.live.read()?;
        // The new ones' counts begin where the old ones' end. What comes next may wait a long time, for paths say, and
        // what completed meanwhile would be in neither.
        let next = match next {
            Some(mut next) => Some((self.live.read_next(&mut next)?, next)),
            None => None,
        };
        let sample = self.live.sample(reading, self.fold.tasks())?;
        let mut snapshot = self.fold.step(sample);
        self.window.judge(&mut snapshot);
        self.live
            .forget_idle(&mut self.fold, Fold::tasks, Fold::take_idle);
        if let Some((base, next)) = next {
            self.live.replace(next);
            self.begin(base)?;
        }
        Ok(snapshot)
    }
}
