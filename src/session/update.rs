//! Updates of a running session after md, device mapper or mounts have changed.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{CHANGES, Reading, Session, Traced, array_info, gather, stats};
use crate::machine::topology::Topology;
use crate::machine::{Array, Member, StatFile, modules, with_lost};
use crate::probe::{Facts, plan, tables::Tables};

/// A change that is already counted by the programs, for [`Session::apply`].
pub enum Update {
    /// New programs, attached. The old ones count until the update is applied.
    Reload(Box<Traced>),
    /// The same programs with changed tables: members were added, removed or changed.
    InPlace(Box<InPlaceUpdate>),
}

/// A topology that the running programs already count for.
pub struct InPlaceUpdate {
    topology: Topology,
    digest: u64,
    stats: Vec<Vec<Option<StatFile>>>,
    notes: Vec<String>,
}

impl Session {
    /// Records an event of [`crate::machine::Mdstat`], which makes a check for changes due.
    pub fn md_event(&mut self) {
        self.md_events = self.md_events.wrapping_add(1);
    }

    /// Time until [`Self::check_for_update`] is due between samples; `None` without a hint of a change.
    pub fn next_check(&self) -> Option<Duration> {
        self.watch.next_check(self.start.elapsed(), self.hint())
    }

    fn hint(&self) -> u64 {
        self.members_hash.wrapping_add(self.md_events)
    }

    /// The update for changes of the host, if there are any that the programs need.
    pub fn check_for_update(&mut self) -> Option<Update> {
        let clock = self.start.elapsed();
        let changes = self.watch.check(&self.sys, clock, self.hint());
        if changes.is_empty() {
            return None;
        }
        let begun = Instant::now();
        let time = jiff::Timestamp::now().strftime("%H:%M:%SZ").to_string();
        let changes = changes.join("; ");
        match self.prepare_update() {
            Ok(update) => {
                let took = begun.elapsed();
                let (clock, seconds) = (self.start.elapsed(), took.as_secs_f64());
                self.failed_update = None;
                self.watch.accept();
                let result = match &update {
                    None => String::new(),
                    Some(Update::InPlace(_)) => {
                        self.watch.updated_in_place(clock, took);
                        format!(", tracing updated in {seconds:.2} s")
                    }
                    Some(Update::Reload(_)) => {
                        self.watch.reloaded(clock);
                        format!(
                            ", tracing reloaded in {seconds:.1} s: new devices may be missing or wrong until then"
                        )
                    }
                };
                self.changes.push_front(format!("{time} {changes}{result}"));
                self.changes.truncate(CHANGES);
                update
            }
            Err(e) => {
                let pause = self.watch.reloaded(self.start.elapsed()).as_secs();
                self.failed_update = Some(format!(
                    "{time} {changes}, but tracing could not be reloaded: {e:#}; figures are for the previous state; \
                     next attempt in {pause} s"
                ));
                None
            }
        }
    }

    /// Reads the topology again and prepares the programs for it; `None` if only names and mounts changed.
    fn prepare_update(&mut self) -> Result<Option<Update>> {
        let now = self.watch.resolve(&self.sys)?;
        let disk_exists = |m: &Member| {
            self.sys
                .path(format!("/sys/block/{}", m.disk_name))
                .exists()
        };
        let topology = Topology::new(with_lost(&self.traced.topology.host, now, disk_exists));
        let mut tables = Tables::new(&topology).map_err(anyhow::Error::msg)?;
        self.options.add_to(&mut tables.need);
        if tables.digest() == self.traced.digest && self.traced.facts_hold() {
            self.traced.stats = stats(&self.sys, &topology);
            self.traced.notes[0] = [&topology.notes[..], &tables.notes[..]].concat();
            self.traced.topology = topology;
            return Ok(None);
        }
        // If the tables cannot be updated, the programs count on unchanged until new ones are loaded.
        if self.traced.update_in_place(&tables).unwrap_or(false) {
            return Ok(Some(Update::InPlace(Box::new(InPlaceUpdate {
                stats: stats(&self.sys, &topology),
                digest: tables.digest(),
                notes: [&topology.notes[..], &tables.notes[..]].concat(),
                topology,
            }))));
        }
        let new = Traced::start(&self.sys, topology, tables, self.options, gather())?;
        Ok(Some(Update::Reload(Box::new(new))))
    }

    /// The counters now, and the base of the counts under `update`. In place, the base is this very reading. After a reload
    /// it is read right afterwards: requests that complete in between are in neither.
    pub fn read_with(&mut self, update: Option<&mut Update>) -> Result<(Reading, Option<Reading>)> {
        match update {
            None => Ok((self.read()?, None)),
            Some(Update::Reload(new)) => {
                let reading = self.read()?;
                let base = new.probe.read()?;
                Ok((reading, Some(self.reading(base, Vec::new()))))
            }
            Some(Update::InPlace(_)) => {
                let completed = self.traced.completed();
                let (counters, base) = self.traced.probe.read_turn()?;
                let reading = self.reading(counters, completed);
                let base = base.map(|counters| Reading {
                    counters,
                    completed: Vec::new(),
                    ..reading
                });
                Ok((reading, base))
            }
        }
    }

    /// Applies `update`: later samples are of the new topology.
    pub fn apply(&mut self, update: Update) {
        let was = match update {
            Update::Reload(new) => std::mem::replace(&mut self.traced, *new).topology,
            Update::InPlace(new) => {
                let new = *new;
                self.traced.probe.turn();
                self.traced.digest = new.digest;
                self.traced.stats = new.stats;
                self.traced.notes[0] = new.notes;
                std::mem::replace(&mut self.traced.topology, new.topology)
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

impl Traced {
    /// True if the kernel facts that chose the programs still hold. Loading ext4 or an md module adds types and functions.
    fn facts_hold(&mut self) -> bool {
        let modules = modules::digest();
        if modules == self.modules {
            return true;
        }
        let hold = Facts::gather() == self.facts;
        if hold {
            self.modules = modules;
        }
        hold
    }

    /// Writes `tables` to the running programs. False if that is not possible.
    fn update_in_place(&mut self, tables: &Tables) -> Result<bool> {
        if !self.facts_hold() {
            return Ok(false);
        }
        let plan = plan(&self.facts, tables.need).map_err(anyhow::Error::msg)?;
        let fits = self.probe.refit(tables, &plan)?;
        if fits {
            let known = std::mem::take(&mut self.notes[1]);
            let new = plan.notes.into_iter().filter(|n| !known.contains(n));
            self.notes[1] = known.iter().cloned().chain(new).collect();
        }
        Ok(fits)
    }
}
