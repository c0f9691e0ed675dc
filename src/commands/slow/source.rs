//! The source of `slow`: slow operations, those that the command line asks for.

use std::time::Duration;

use anyhow::Result;

use crate::analysis::slow::history;
use crate::analysis::slow::names::Slow;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::machine::Sys;
use crate::session::Session;
use crate::session::alloc::sampler::joined;
use crate::session::engine::Source;
use crate::session::sampler::Sampler;
use crate::session::slow::{self, SlowSampler};

/// Operations that are shown.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Name of a task, thread id or process id.
    pub task: Option<String>,
    /// Start of the path.
    pub path: Option<String>,
}

impl Filter {
    fn keeps(&self, slow: &Slow, snapshot: &SlowSnapshot) -> bool {
        let op = &slow.operation;
        let task = self.task.as_ref().is_none_or(|wanted| {
            op.task.comm == wanted.as_bytes()
                || *wanted == op.task.pid.to_string()
                || *wanted == op.tgid.to_string()
        });
        let path = self.path.as_ref().is_none_or(|wanted| {
            let path = op.file.as_ref().and_then(|f| snapshot.names.path(f));
            path.is_some_and(|p| p.starts_with(wanted.as_bytes()))
        });
        task && path
    }
}

/// A session and the programs of slow operations.
pub struct Tracer {
    disks: Sampler,
    slow: SlowSampler,
    filter: Filter,
    /// All intervals, for the screen.
    sum: Option<SlowSnapshot>,
}

impl Tracer {
    /// Starts the session and the programs.
    ///
    /// # Errors
    /// There is no ext4 on the targets, or something cannot be loaded.
    pub fn start(
        targets: &[String],
        threshold: Duration,
        filter: Filter,
        on_screen: bool,
    ) -> Result<Self> {
        let mut disks = Sampler::topology_only(Sys::live(), targets)?;
        let slow = SlowSampler::start(targets, disks.session().topology(), threshold)?;
        Ok(Self {
            disks,
            slow,
            filter,
            sum: on_screen.then(SlowSnapshot::default),
        })
    }
}

impl Source for Tracer {
    type Interval = SlowSnapshot;
    type Total = ();
    const DRAIN: Option<Duration> = Some(slow::DRAIN);

    fn session(&mut self) -> &mut Session {
        self.disks.session()
    }

    fn notes(&self) -> Vec<String> {
        joined([self.slow.notes().to_vec(), self.disks.notes()])
    }

    fn drain(&mut self) -> Result<bool> {
        self.slow.drain()?;
        Ok(false)
    }

    fn update(&mut self) -> Result<()> {
        self.disks.update()
    }

    fn interval(&mut self) -> Result<SlowSnapshot> {
        self.disks.interval()?;
        let mut snapshot = self.slow.interval(self.disks.session())?;
        snapshot.notes = self.notes();
        let mut operations = std::mem::take(&mut snapshot.operations);
        operations.retain(|slow| self.filter.keeps(slow, &snapshot));
        snapshot.operations = operations;
        let Some(sum) = &mut self.sum else {
            return Ok(snapshot);
        };
        history::add(sum, &snapshot);
        Ok(sum.clone())
    }

    fn finish(self) {}
}
