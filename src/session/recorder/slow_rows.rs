//! The intervals of slow operations in a recording. An interval is written a second later, when the paths of its files have been
//! found: the recorder does not wait for them.

use std::time::Duration;

use anyhow::Result;

use crate::analysis::item::Item;
use crate::analysis::slow::recent::Recent;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::recording::slow::Interval;
use crate::session::Session;
use crate::session::slow::SlowSampler;

/// The programs, and the interval that is not written yet.
pub struct SlowRows {
    sampler: SlowSampler,
    waiting: Option<SlowSnapshot>,
    recent: Recent,
}

impl SlowRows {
    /// Attaches the programs.
    ///
    /// # Errors
    /// There is no ext4 on the targets, or the kernel refuses the programs.
    pub fn start(targets: &[String], session: &Session, threshold: Duration) -> Result<Self> {
        let sampler = SlowSampler::start(targets, session.topology(), threshold)?;
        Ok(Self {
            sampler,
            waiting: None,
            recent: Recent::default(),
        })
    }

    /// Limits of this kernel.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.sampler.notes().iter().cloned()
    }

    /// Drains the events' buffer.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn drain(&mut self, session: &mut Session) -> Result<()> {
        self.sampler.drain(session)
    }

    /// Ends the interval. Returns the one before.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn interval(&mut self, session: &mut Session) -> Result<Option<Item>> {
        let mut next = self.sampler.interval(session)?;
        // Asks for its paths.
        self.sampler.complete(&mut next, session, Duration::ZERO)?;
        let item = self.last(session)?;
        self.waiting = Some(next);
        Ok(item)
    }

    /// The last interval, after [`SlowRows::interval`] has ended it.
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn last(&mut self, session: &mut Session) -> Result<Option<Item>> {
        let Some(mut snapshot) = self.waiting.take() else {
            return Ok(None);
        };
        self.sampler
            .complete(&mut snapshot, session, Duration::ZERO)?;
        self.recent.add(&snapshot);
        Ok(Some(Interval::item(&snapshot)?))
    }

    /// The longest operation on an array in the ten seconds before `time_us`, in a sentence.
    pub fn longest(&self, array: &str, time_us: i64) -> Option<String> {
        self.recent.longest(array, time_us)
    }
}
