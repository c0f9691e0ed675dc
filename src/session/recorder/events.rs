//! Drains the programs' events and writes them.

use std::io;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::storage::Storage;
use super::{MAX_FILES, Recorder};
use crate::analysis::counters::TaskId;
use crate::analysis::item::Item;
use crate::probe::clock::monotonic_ns;

/// Time in ns for which a submission is held that may be refused. A bio is refused while it is
/// submitted, or, on RAID 0, when another part of it completes.
const HOLD_TIME_NS: u64 = 100_000_000;

impl<D: Storage> Recorder<D> {
    /// Drains events until there are no more, or for `at_most`.
    pub(super) fn drain_events(&mut self, at_most: Duration) -> Result<()> {
        let start = Instant::now();
        while self.drain_some()? && start.elapsed() < at_most {}
        Ok(())
    }

    /// Drains some events. True if there can be more.
    fn drain_some(&mut self) -> Result<bool> {
        let more = self.session.probe().drain(&mut self.events)?;
        self.write_events(monotonic_ns().saturating_sub(HOLD_TIME_NS))?;
        Ok(more)
    }

    /// Writes the drained events, and the held submissions before `until`.
    pub(super) fn write_events(&mut self, until: u64) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let mut result = Ok(());
        let (requests, submissions) = (&mut self.recorded.requests, &mut self.recorded.submissions);
        let (session, writer) = (&mut self.session, &mut self.writer);
        let (stored, last_task) = (&mut self.stored, &mut self.last_task);
        let mut write = |item: Item| {
            match &item {
                Item::Request(_) => *requests += 1,
                Item::Submission(s) => {
                    *submissions += 1;
                    let task = TaskId { array: s.array, pid: s.pid };
                    if task != *last_task {
                        session.submitted(task);
                        if !writer.knows(task) {
                            writer.task(task, &session.task_info(task));
                        }
                    }
                    *last_task = task;
                    if let Some(id) = s.file
                        && !stored.contains(&id)
                    {
                        if stored.len() >= MAX_FILES {
                            stored.clear();
                        }
                        stored.insert(id);
                        writer.file_location(id, &session.file_location(&id));
                    }
                }
                _ => {}
            }
            if result.is_ok() {
                result = writer.push(&item);
            }
        };
        let unknown = self.translator.translate(&events, &mut write);
        self.translator.release(until, &mut write);
        events.clear();
        self.events = events;
        result?;
        if unknown > 0 {
            let time_us = self.clock.unix_us_now();
            let text = format!("{unknown} requests of unknown members were dropped");
            self.writer.push(&Item::Note { time_us, text })?;
        }
        Ok(())
    }
}
