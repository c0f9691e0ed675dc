//! The live source of snapshots: counters, disk statistics and the arrays' state, once an interval.

use anyhow::Result;

use crate::analysis::fold::{Fold, Sample};
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;
use crate::analysis::window::Window;
use crate::machine::Sys;
use crate::probe::Dirtied;
use crate::session::{How, Live, Next, Reading};

/// Attached programs and everything needed to make snapshots of them.
pub struct Sampler {
    live: Live,
    fold: Fold,
    window: Window,
    /// The interval so far, when something has changed in the middle of it.
    part: Option<Snapshot>,
}

impl Sampler {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    pub fn start(sys: Sys, targets: &[String], account: bool, dirtied: Dirtied) -> Result<Self> {
        let how = How {
            account,
            buffer: None,
            dirtied,
        };
        let mut sampler = Self {
            live: Live::start(sys, targets, how)?,
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            part: None,
        };
        let reading = sampler.live.read()?;
        sampler.begin(reading)?;
        Ok(sampler)
    }

    /// What was counted until `base` is not shown.
    fn begin(&mut self, base: Reading) -> Result<()> {
        let mut first = self.live.sample(base)?;
        self.fold.resume_disks(&mut first);
        self.fold.rebase(first);
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

    /// Follows what md says that it has done, at once. The interval goes on.
    pub fn follow(&mut self) -> Result<()> {
        if let Some(next) = self.live.follow_changes() {
            let part = self.step(Some(next))?;
            self.part = Some(self.joined(part));
        }
        Ok(())
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let next = self.live.follow_changes();
        let last = self.step(next)?;
        let mut snapshot = self.joined(last);
        self.window.judge(&mut snapshot);
        Ok(snapshot)
    }

    /// With what there was of this interval before.
    fn joined(&mut self, part: Snapshot) -> Snapshot {
        match self.part.take() {
            Some(mut whole) => {
                window::join(&mut whole, &part, window::always);
                whole
            }
            None => part,
        }
    }

    /// What came since the last step. It is still of what was traced until now, from here on `next` is.
    fn step(&mut self, mut next: Option<Next>) -> Result<Snapshot> {
        // What comes next may wait a long time, for paths say, and what completed meanwhile would be in neither.
        let (reading, base) = self.live.read_with(next.as_mut())?;
        let sample = self.live.sample(reading)?;
        let snapshot = self.fold.step(sample);
        if let (Some(next), Some(base)) = (next, base) {
            self.live.replace(next);
            self.begin(base)?;
        }
        Ok(snapshot)
    }
}
