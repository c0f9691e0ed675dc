//! A recorder as the source of an engine.

use std::time::Duration;

use anyhow::Result;

use super::storage::Storage;
use super::{MAX_DRAIN, Recorder, notes};
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;
use crate::session::Session;
use crate::session::engine::EngineSource;

impl<D: Storage> EngineSource for Recorder<D> {
    type Interval = Snapshot;
    type Total = ();
    const ON_TIME: bool = true;

    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn notes(&self) -> Vec<String> {
        let (alloc, slow) = (self.alloc.as_ref(), self.slow.as_ref());
        notes(&self.session, alloc, slow, &self.file_notes)
    }

    fn drain_every(&self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }

    fn drain(&mut self) -> Result<bool> {
        self.drain_events(MAX_DRAIN)?;
        if let Some(alloc) = &mut self.alloc {
            alloc.drain()?;
        }
        if let Some(slow) = &mut self.slow {
            slow.drain(&mut self.session)?;
        }
        Ok(false)
    }

    fn update(&mut self) -> Result<()> {
        if let Some(update) = self.session.check_for_update() {
            let part = self.write_state(Some(update))?;
            self.part = Some(window::joined(self.part.take(), part));
        }
        Ok(())
    }

    fn interval(&mut self) -> Result<Snapshot> {
        let update = self.session.check_for_update();
        let last = self.write_state(update)?;
        Ok(window::joined(self.part.take(), last))
    }

    fn finish(self) {}
}
