//! The longest slow operation of each array, for `top --slow`.

use std::time::Duration;

use anyhow::Result;

use crate::analysis::slow::recent::RecentOperations;
use crate::analysis::snapshot::Snapshot;
use crate::session::Session;
use crate::session::slow::SlowSampler;

/// Maximum wait for the paths of an interval.
const MAX_PATH_WAIT: Duration = Duration::from_millis(100);

/// Traces slow operations and keeps those of the last seconds.
pub struct Sentences {
    sampler: SlowSampler,
    recent: RecentOperations,
}

impl Sentences {
    /// Attaches the programs.
    ///
    /// # Errors
    /// There is no ext4 or XFS on the targets, or the kernel refuses the programs.
    pub fn start(targets: &[String], session: &Session, threshold: Duration) -> Result<Self> {
        Ok(Self {
            sampler: SlowSampler::start(targets, session.topology(), threshold)?,
            recent: RecentOperations::default(),
        })
    }

    /// Notes about limits of this kernel.
    pub fn notes(&self) -> &[String] {
        self.sampler.notes()
    }

    /// Drains the event buffer.
    ///
    /// # Errors
    /// The buffer cannot be read.
    pub fn drain(&mut self, session: &mut Session) -> Result<()> {
        self.sampler.drain(session)
    }

    /// Adds the longest operation of each array to `snapshot`.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn add_to(&mut self, snapshot: &mut Snapshot, session: &mut Session) -> Result<()> {
        let mut interval = self.sampler.interval(session)?;
        self.sampler.complete(&mut interval, session, MAX_PATH_WAIT)?;
        interval.time = snapshot.time;
        self.recent.add(&interval);
        let time_us = snapshot.time.as_microsecond();
        for array in &mut snapshot.arrays {
            array.slow = self.recent.longest(&array.info.name, time_us);
        }
        Ok(())
    }
}
