//! Writes the intervals of slow operations to a recording. Each interval is written one second
//! late, because the recorder does not wait for the paths of its files.

use std::time::Duration;

use anyhow::Result;

use crate::analysis::item::Item;
use crate::analysis::overhead::Overhead;
use crate::analysis::slow::recent::RecentOperations;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::recording::slow::SlowInterval;
use crate::session::Session;
use crate::session::slow::SlowSampler;

/// The programs, and the interval that is not written yet.
pub struct SlowRows {
    sampler: SlowSampler,
    waiting: Option<SlowSnapshot>,
    recent: RecentOperations,
    lost: u64,
    overhead: Overhead,
}

impl SlowRows {
    /// Attaches the programs.
    ///
    /// # Errors
    /// There is no ext4 or XFS on the targets, or the kernel refuses the programs.
    pub fn start(targets: &[String], session: &Session, threshold: Duration) -> Result<Self> {
        let sampler = SlowSampler::start(targets, session.topology(), threshold)?;
        Ok(Self {
            sampler,
            waiting: None,
            recent: RecentOperations::default(),
            lost: 0,
            overhead: Overhead::default(),
        })
    }

    /// Limits of this kernel.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.sampler.notes().iter().cloned()
    }

    /// Drains the events' buffer.
    ///
    /// # Errors
    /// The buffer cannot be read.
    pub fn drain(&mut self, session: &mut Session) -> Result<()> {
        self.sampler.drain(session)
    }

    /// Number of operations, commits and their events that are missing.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Time spent in the programs during the last interval.
    pub fn overhead(&self) -> Overhead {
        self.overhead
    }

    /// Ends the interval. Returns the previous one.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn interval(
        &mut self,
        session: &mut Session,
        unix_us: impl Fn(u64) -> i64,
    ) -> Result<Option<Item>> {
        let mut next = self.sampler.interval(session)?;
        next.time = jiff::Timestamp::from_microsecond(unix_us(next.clock_ns))?;
        self.lost = self.lost.saturating_add(next.lost.total());
        self.overhead = next.overhead;
        // Request the paths of its files.
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
        self.sampler.complete(&mut snapshot, session, Duration::ZERO)?;
        self.recent.add(&snapshot);
        Ok(Some(SlowInterval::item(&snapshot)?))
    }

    /// The longest operation on an array in the ten seconds before `time_us`, as a sentence.
    pub fn longest(&self, array: &str, time_us: i64) -> Option<String> {
        self.recent.longest(array, time_us)
    }
}
