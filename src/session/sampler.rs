//! Snapshots of a session, one each interval.

use anyhow::Result;

use crate::analysis::fold::{Fold, Sample};
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;
use crate::analysis::window::Window;
use crate::machine::Sys;
use crate::probe::DirtiedCounting;
use crate::session::engine::EngineSource;
use crate::session::{Reading, Session, SessionOptions, Update};

/// A session and the state that turns its samples into snapshots.
pub struct Sampler {
    session: Session,
    fold: Fold,
    window: Window,
    /// First part of the interval, up to an update in the middle of it.
    part: Option<Snapshot>,
}

impl Sampler {
    /// Starts a session. IO is counted from the moment this returns.
    pub fn start(
        sys: Sys,
        targets: &[String],
        account: bool,
        dirtied: DirtiedCounting,
    ) -> Result<Self> {
        let options = SessionOptions { account, dirtied, ..SessionOptions::default() };
        Self::with(sys, targets, options)
    }

    /// Starts a session that counts nothing and only tracks the topology, its changes, and paths.
    ///
    /// # Errors
    /// See [`Sampler::start`].
    pub fn topology_only(sys: Sys, targets: &[String]) -> Result<Self> {
        let options = SessionOptions { topology_only: true, ..SessionOptions::default() };
        Self::with(sys, targets, options)
    }

    fn with(sys: Sys, targets: &[String], options: SessionOptions) -> Result<Self> {
        let mut sampler = Self {
            session: Session::start(sys, targets, options)?,
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            part: None,
        };
        let base = sampler.session.read()?;
        sampler.begin(base)?;
        Ok(sampler)
    }

    /// Window over the last seconds, up to the end of the last interval.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Starts an interval at `base`. Drops counts up to `base`.
    fn begin(&mut self, base: Reading) -> Result<()> {
        let mut first = self.session.sample(base)?;
        self.fold.resume_disks(&mut first);
        self.fold.rebase(first);
        Ok(())
    }

    /// Returns the snapshot since the last step, for the state before `update`, and applies
    /// `update` to later steps.
    fn step(&mut self, mut update: Option<Update>) -> Result<Snapshot> {
        // Read both counters before sampling: path lookup can take long, and IO that completes
        // meanwhile would be lost.
        let (reading, base) = self.session.read_with(update.as_mut())?;
        let sample = self.session.sample(reading)?;
        let snapshot = self.fold.step(sample);
        if let (Some(update), Some(base)) = (update, base) {
            self.session.apply(update);
            self.begin(base)?;
        }
        Ok(snapshot)
    }
}

impl EngineSource for Sampler {
    type Interval = Snapshot;
    type Total = ();

    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn notes(&self) -> Vec<String> {
        self.session.notes()
    }

    fn update(&mut self) -> Result<()> {
        if let Some(update) = self.session.check_for_update() {
            let part = self.step(Some(update))?;
            self.part = Some(window::joined(self.part.take(), part));
        }
        Ok(())
    }

    /// Snapshot of the interval since the last call, or since the start.
    fn interval(&mut self) -> Result<Snapshot> {
        let update = self.session.check_for_update();
        let last = self.step(update)?;
        let mut snapshot = window::joined(self.part.take(), last);
        self.window.evaluate(&mut snapshot);
        Ok(snapshot)
    }

    fn finish(self) {}
}
