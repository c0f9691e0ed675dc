//! The source of `slow`: traces slow operations and applies the filter.

use std::time::Duration;

use anyhow::Result;

use super::filter::SlowFilter;
use crate::analysis::files::FileId;
use crate::analysis::slow::history;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::machine::{Sys, task};
use crate::session::Session;
use crate::session::alloc::sampler::joined;
use crate::session::engine::EngineSource;
use crate::session::sampler::Sampler;
use crate::session::slow::{self, SlowSampler};

/// Nice value of the thread that drains events, so that it runs before the load.
const NICE: i32 = -10;
/// Maximum wait for the paths of an interval. The disk with the directories may be the slow one.
const MAX_PATH_WAIT: Duration = Duration::from_secs(1);

/// A session, and the programs that trace slow operations.
pub struct SlowTracer {
    disks: Sampler,
    slow: SlowSampler,
    filter: SlowFilter,
    /// Sum of all intervals, only for the screen.
    sum: Option<SlowSnapshot>,
}

impl SlowTracer {
    /// Starts the session and the programs.
    ///
    /// # Errors
    /// There is no ext4 or XFS on the targets, or the programs cannot be loaded.
    pub fn start(
        targets: &[String],
        threshold: Duration,
        filter: SlowFilter,
        on_screen: bool,
    ) -> Result<Self> {
        // Let intervals end on time on a busy machine.
        task::set_nice(NICE);
        let mut disks = Sampler::topology_only(Sys::live(), targets)?;
        let slow = SlowSampler::start(targets, disks.session().topology(), threshold)?;
        Ok(Self { disks, slow, filter, sum: on_screen.then(SlowSnapshot::default) })
    }
}

impl EngineSource for SlowTracer {
    type Interval = SlowSnapshot;
    type Total = Option<SlowSnapshot>;

    fn session(&mut self) -> &mut Session {
        self.disks.session()
    }

    fn notes(&self) -> Vec<String> {
        joined([self.slow.notes().to_vec(), self.disks.notes()])
    }

    fn drain_every(&self) -> Option<Duration> {
        Some(slow::DRAIN_INTERVAL)
    }

    fn drain(&mut self) -> Result<bool> {
        self.slow.drain(self.disks.session())?;
        Ok(false)
    }

    fn update(&mut self) -> Result<()> {
        self.disks.update()
    }

    fn interval(&mut self) -> Result<SlowSnapshot> {
        self.disks.interval()?;
        let session = self.disks.session();
        let mut snapshot = self.slow.interval(session)?;
        self.slow.complete(&mut snapshot, session, MAX_PATH_WAIT)?;
        snapshot.notes = self.notes();
        self.filter.apply(&mut snapshot);
        let Some(sum) = &mut self.sum else {
            return Ok(snapshot);
        };
        history::add(sum, &snapshot);
        // Add paths that have been found since.
        let unknown: Vec<FileId> =
            sum.names.files.iter().filter(|(_, l)| l.path.is_none()).map(|(id, _)| *id).collect();
        let found =
            self.disks.session().locate(unknown).into_iter().filter(|(_, l)| l.path.is_some());
        sum.names.files.extend(found);
        Ok(sum.clone())
    }

    fn finish(self) -> Option<SlowSnapshot> {
        self.sum
    }
}
