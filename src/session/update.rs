//! Updates of a running session after md, device mapper or mounts have changed. [`super::prepare`]
//! prepares them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::{Reading, Session, Stats, Traced, array_info};
use crate::machine::Array;
use crate::machine::topology::Topology;

/// A change that the programs already count, for [`Session::apply`].
pub enum Update {
    /// New programs, attached. The old ones count until [`Session::read_with`].
    Reload(Box<Traced>),
    /// The same programs with changed tables: members were added, removed or changed.
    InPlace(Box<InPlaceUpdate>),
}

/// A topology that the running programs already count for.
pub struct InPlaceUpdate {
    pub(super) topology: Topology,
    pub(super) digest: u64,
    pub(super) stats: Stats,
    pub(super) notes: Vec<String>,
}

impl Session {
    /// Records an event of [`crate::machine::Mdstat`], which makes a check for changes due.
    pub fn md_event(&mut self) {
        self.md_events = self.md_events.wrapping_add(1);
    }

    /// Time until [`Self::check_for_update`] is due between samples; `None` without a hint of a
    /// change.
    pub fn next_check(&self) -> Option<Duration> {
        match &self.preparation {
            Some(preparation) => Some(preparation.next_poll()),
            None => self.watch.next_check(self.start.elapsed(), self.hint()),
        }
    }

    pub(super) fn hint(&self) -> u64 {
        self.members_hash.wrapping_add(self.md_events)
    }

    /// Reads the counters, and the base of the counts under `update`, which has the same time. Each
    /// request counts before or after the update.
    pub fn read_with(&mut self, update: Option<&mut Update>) -> Result<(Reading, Option<Reading>)> {
        match update {
            None => Ok((self.read()?, None)),
            Some(Update::Reload(new)) => {
                let base = new.probe.read()?;
                // The kernel's count and the time before, because the old programs count nothing
                // later.
                let mut reading = self.reading(base, self.traced.completed());
                self.traced.probe.generation()?.hand_over()?;
                let old = self.traced.probe.read()?;
                let counters = std::mem::replace(&mut reading.counters, old);
                let base = Reading { counters, completed: Vec::new(), ..reading };
                Ok((reading, Some(base)))
            }
            Some(Update::InPlace(_)) => {
                let completed = self.traced.completed();
                let (counters, base) = self.traced.probe.read_switchover()?;
                let reading = self.reading(counters, completed);
                let base =
                    base.map(|counters| Reading { counters, completed: Vec::new(), ..reading });
                Ok((reading, base))
            }
        }
    }

    /// Applies `update`. Later samples use the new topology.
    pub fn apply(&mut self, update: Update) {
        let was = match update {
            Update::Reload(new) => {
                let was = std::mem::replace(&mut self.traced, *new);
                let topology = Arc::clone(&was.topology);
                // Detaching takes long, and the session has buffers to drain.
                std::thread::spawn(move || drop(was));
                topology
            }
            Update::InPlace(new) => {
                let new = *new;
                self.traced.probe.finish_switchover();
                self.traced.digest = new.digest;
                self.traced.set_topology(new.topology, new.stats, new.notes)
            }
        };
        let runs = |name: &str, arrays: &[Array]| arrays.iter().any(|a| a.name == name);
        let now = &self.traced.topology.host.arrays;
        self.stopped.retain(|info| !runs(&info.name, now));
        for array in &was.host.arrays {
            if array.is_md() && !runs(&array.name, now) {
                let mut info = array_info(&was, array);
                info.health = Some("stopped".to_owned());
                self.stopped.push(info);
            }
        }
    }
}
