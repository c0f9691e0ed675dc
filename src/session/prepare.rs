//! Prepares updates on other threads. Reading superblocks and loading programs takes seconds;
//! meanwhile the session continues to drain events and count intervals.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::update::{InPlaceUpdate, Update};
use super::{MAX_CHANGES, Session, SessionOptions, Traced, gather, stats};
use crate::machine::topology::Topology;
use crate::machine::{Member, modules, task, with_lost};
use crate::probe::{KernelFacts, plan, tables::Tables};

/// Time for which new programs run before they count. A request that was issued before they were
/// attached and completes after the switchover has no device time.
const OVERLAP: Duration = Duration::from_millis(100);
/// Polling interval while another thread works.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// An update that is being prepared.
pub(super) struct Preparation {
    started: Instant,
    /// The change, with its time of day, for the note about it.
    change: String,
    step: Step,
}

enum Step {
    Reading(JoinHandle<Result<ChangedHost>>),
    Loading(JoinHandle<Result<Traced>>),
}

/// The host after a change.
struct ChangedHost {
    topology: Topology,
    tables: Tables,
    stats: super::Stats,
    /// Digest of the loaded modules and the kernel's facts; `None` if the modules are the same as
    /// when the programs were chosen.
    facts: Option<(u64, KernelFacts)>,
}

/// The update that a change needs.
enum NeededUpdate {
    /// No update: the programs count the same IO, and only names or mounts have changed.
    Names,
    InPlace(Box<InPlaceUpdate>),
    Reload(Box<(Topology, Tables)>),
}

impl Preparation {
    /// Time until [`Session::check_for_update`] is due.
    pub(super) fn next_poll(&self) -> Duration {
        let finished = match &self.step {
            Step::Reading(thread) => thread.is_finished(),
            Step::Loading(thread) => thread.is_finished(),
        };
        if finished { Duration::ZERO } else { POLL_INTERVAL }
    }
}

impl Session {
    /// Checks the host for changes, and continues the preparation of an update. Returns the update
    /// once it is prepared. Does not wait for the preparation.
    pub fn check_for_update(&mut self) -> Option<Update> {
        let Some(preparation) = self.preparation.take() else {
            let clock = self.start.elapsed();
            let changes = self.watch.check(&self.sys, clock, self.hint());
            if !changes.is_empty() {
                let time = jiff::Timestamp::now().strftime("%H:%M:%SZ");
                self.preparation = Some(Preparation {
                    started: Instant::now(),
                    change: format!("{time} {}", changes.join("; ")),
                    step: Step::Reading(self.read_host()),
                });
            }
            return None;
        };
        if !preparation.next_poll().is_zero() {
            self.preparation = Some(preparation);
            return None;
        }
        let Preparation { started, change, step } = preparation;
        let update = match step {
            Step::Loading(thread) => joined(thread).map(|new| Some(Update::Reload(Box::new(new)))),
            Step::Reading(thread) => match joined(thread).and_then(|read| self.compare(read)) {
                Ok(NeededUpdate::Names) => Ok(None),
                Ok(NeededUpdate::InPlace(update)) => Ok(Some(Update::InPlace(update))),
                Ok(NeededUpdate::Reload(new)) => {
                    self.preparation =
                        Some(Preparation { started, change, step: Step::Loading(self.load(*new)) });
                    return None;
                }
                Err(e) => Err(e),
            },
        };
        self.note_update(&change, started.elapsed(), update)
    }

    /// Reads the topology on another thread.
    fn read_host(&self) -> JoinHandle<Result<ChangedHost>> {
        let sys = Arc::clone(&self.sys);
        let resolve = self.watch.resolver();
        let was = Arc::clone(&self.traced.topology);
        let (options, loaded) = (self.options, self.traced.modules);
        thread::spawn(move || {
            task::set_nice(0);
            let now = resolve(&sys)?;
            let disk_exists = |m: &Member| sys.path(format!("/sys/block/{}", m.disk_name)).exists();
            let topology = Topology::after(with_lost(&was.host, now, disk_exists), &was);
            let tables = tables(&topology, options)?;
            let facts = (modules::digest() != loaded).then(gather);
            Ok(ChangedHost { stats: stats(&sys, &topology), topology, tables, facts })
        })
    }

    /// Loads and attaches programs on another thread.
    fn load(&self, (topology, tables): (Topology, Tables)) -> JoinHandle<Result<Traced>> {
        let (sys, options) = (Arc::clone(&self.sys), self.options);
        let running = self.traced.probe.generation();
        thread::spawn(move || {
            task::set_nice(0);
            let new = Traced::start(&sys, topology, tables, options, gather(), Some(&running?))?;
            thread::sleep(OVERLAP);
            Ok(new)
        })
    }

    /// Compares the host with the topology of the running programs, and updates the tables of these
    /// programs if possible.
    fn compare(&mut self, read: ChangedHost) -> Result<NeededUpdate> {
        let ChangedHost { topology, tables, stats, facts } = read;
        let notes = [&topology.notes[..], &tables.notes].concat();
        let traced = &mut self.traced;
        // Loading ext4 or an md module adds types and functions.
        let same_facts = match facts {
            None => true,
            Some((modules, facts)) if facts == traced.facts => {
                traced.modules = modules;
                true
            }
            Some(_) => false,
        };
        if same_facts && tables.digest() == traced.digest {
            traced.set_topology(topology, stats, notes);
            return Ok(NeededUpdate::Names);
        }
        // If the tables cannot be updated, the programs continue unchanged until new ones are
        // loaded.
        if same_facts && traced.update_in_place(&tables).unwrap_or(false) {
            return Ok(NeededUpdate::InPlace(Box::new(InPlaceUpdate {
                digest: tables.digest(),
                topology,
                stats,
                notes,
            })));
        }
        Ok(NeededUpdate::Reload(Box::new((topology, tables))))
    }

    /// Adds a note on the result of an update, and schedules the next check.
    fn note_update(
        &mut self,
        change: &str,
        took: Duration,
        update: Result<Option<Update>>,
    ) -> Option<Update> {
        let (clock, seconds) = (self.start.elapsed(), took.as_secs_f64());
        let update = match update {
            Ok(update) => update,
            Err(e) => {
                let pause = self.watch.reloaded(clock).as_secs();
                self.failed_update = Some(format!(
                    "{change}, but tracing could not be reloaded: {e:#}; figures are for the \
                     previous state; next attempt in {pause} s"
                ));
                return None;
            }
        };
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
                    ", tracing reloaded in {seconds:.1} s: new devices may be missing or wrong \
                     until then"
                )
            }
        };
        self.changes.push_front(format!("{change}{result}"));
        self.changes.truncate(MAX_CHANGES);
        update
    }
}

/// Tables of the programs for a topology.
pub(super) fn tables(topology: &Topology, options: SessionOptions) -> Result<Tables> {
    let mut tables = Tables::new(topology).map_err(anyhow::Error::msg)?;
    options.add_to(&mut tables.need);
    Ok(tables)
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    let panicked = |_| Err(anyhow!("the thread that prepares the update panicked"));
    thread.join().unwrap_or_else(panicked)
}

impl Traced {
    /// Writes `tables` to the running programs. False if that is not possible.
    fn update_in_place(&mut self, tables: &Tables) -> Result<bool> {
        let plan = plan(&self.facts, tables.need).map_err(anyhow::Error::msg)?;
        let fits = self.probe.update_in_place(tables, &plan)?;
        if fits {
            let known = std::mem::take(&mut self.notes[1]);
            let new = plan.notes.into_iter().filter(|n| !known.contains(n));
            self.notes[1] = known.iter().cloned().chain(new).collect();
        }
        Ok(fits)
    }
}
