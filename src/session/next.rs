//! From what is traced to what is traced next, when md or somebody else has changed it.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{CHANGES, Live, Reading, Traced, gather, info, stats};
use crate::machine::topology::Topology;
use crate::machine::{Array, Member, StatFile, with_lost};
use crate::probe::{Facts, modules, plan, tables::Tables};
use crate::session::follow::Taken;

/// What is going to be traced, until the caller has it replace what is traced. Its requests are counted already.
pub enum Next {
    /// By programs that have been loaded for it. They run beside the old ones, which count on.
    Anew(Box<Traced>),
    /// By the programs that run: members have come, gone or changed, and the programs know.
    InPlace(Box<Resurveyed>),
}

/// A topology for which the programs that run do.
pub struct Resurveyed {
    topology: Topology,
    digest: u64,
    stats: Vec<Vec<Option<StatFile>>>,
    notes: Vec<String>,
}

/// What a new topology asks for.
enum Outcome {
    /// Nothing: other names.
    Names,
    Next(Next),
}

impl Live {
    /// md says that it has done something (see [`crate::machine::Mdstat`]): not to be waited with.
    pub fn notice(&mut self) {
        self.noticed = self.noticed.wrapping_add(1);
    }

    /// How long until [`Self::follow_changes`] is worth calling between samples; `None`: nothing was noticed.
    pub fn follow_in(&self) -> Option<Duration> {
        self.follow.wanted(self.start.elapsed(), self.hints())
    }

    fn hints(&self) -> u64 {
        self.hint.wrapping_add(self.noticed)
    }

    /// What to trace next, when md or somebody else has changed what the programs know.
    pub fn follow_changes(&mut self) -> Option<Next> {
        let clock = self.start.elapsed();
        let changes = self.follow.look(&self.sys, clock, self.hints());
        if changes.is_empty() {
            return None;
        }
        let begun = Instant::now();
        let time = jiff::Timestamp::now().strftime("%H:%M:%SZ").to_string();
        let what = changes.join("; ");
        match self.anew() {
            Ok(outcome) => {
                let took = begun.elapsed();
                self.behind = None;
                let (said, taken, next) = match outcome {
                    Outcome::Names => (String::new(), Taken::Names, None),
                    Outcome::Next(next @ Next::InPlace(_)) => (
                        format!(
                            ", tracing went on with it after {:.2} s",
                            took.as_secs_f64()
                        ),
                        Taken::InPlace(took),
                        Some(next),
                    ),
                    Outcome::Next(next @ Next::Anew(_)) => (
                        format!(
                            ", tracing restarted in {:.1} s: what was new in it may be missing or wrong until then",
                            took.as_secs_f64()
                        ),
                        Taken::Anew,
                        Some(next),
                    ),
                };
                self.follow.taken(self.start.elapsed(), taken);
                self.changes.push_front(format!("{time} {what}{said}"));
                self.changes.truncate(CHANGES);
                next
            }
            Err(e) => {
                let pause = self.follow.failed(self.start.elapsed()).as_secs();
                self.behind = Some(format!(
                    "{time} {what}, but tracing could not be restarted: {e:#}; the figures are for what was before; \
                     next attempt in {pause} s"
                ));
                None
            }
        }
    }

    /// Surveys again.
    fn anew(&mut self) -> Result<Outcome> {
        let now = self.follow.resolve(&self.sys)?;
        let here = |m: &Member| {
            self.sys
                .path(format!("/sys/block/{}", m.disk_name))
                .exists()
        };
        let topology = Topology::new(with_lost(&self.traced.topology.host, now, here));
        let mut tables = Tables::new(&topology).map_err(anyhow::Error::msg)?;
        self.how.ask(&mut tables.need);
        if tables.digest() == self.traced.digest && self.traced.facts_hold() {
            // Mounted, unmounted.
            self.traced.stats = stats(&self.sys, &topology);
            self.traced.notes[0] = [&topology.notes[..], &tables.notes[..]].concat();
            self.traced.topology = topology;
            return Ok(Outcome::Names);
        }
        // Programs that could not be told all of it count on as they are, until others are there.
        if self.traced.refit(&tables).unwrap_or(false) {
            return Ok(Outcome::Next(Next::InPlace(Box::new(Resurveyed {
                stats: stats(&self.sys, &topology),
                digest: tables.digest(),
                notes: [&topology.notes[..], &tables.notes[..]].concat(),
                topology,
            }))));
        }
        let next = Traced::start(&self.sys, topology, tables, self.how, gather())?;
        Ok(Outcome::Next(Next::Anew(Box::new(next))))
    }

    /// The counters now, and where the counts of `next` begin. In place they begin where these end. Of other programs, at
    /// once behind: what completes in between is in neither.
    pub fn read_with(&mut self, next: Option<&mut Next>) -> Result<(Reading, Option<Reading>)> {
        match next {
            None => Ok((self.read()?, None)),
            Some(Next::Anew(next)) => {
                let reading = self.read()?;
                let base = next.probe.read()?;
                Ok((reading, Some(self.reading(base, Vec::new()))))
            }
            Some(Next::InPlace(_)) => {
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

    /// From here on samples are of `next`.
    pub fn replace(&mut self, next: Next) {
        let was = match next {
            Next::Anew(next) => std::mem::replace(&mut self.traced, *next).topology,
            Next::InPlace(next) => {
                let next = *next;
                self.traced.probe.turn();
                self.traced.digest = next.digest;
                self.traced.stats = next.stats;
                self.traced.notes[0] = next.notes;
                std::mem::replace(&mut self.traced.topology, next.topology)
            }
        };
        let runs = |name: &str, arrays: &[Array]| arrays.iter().any(|a| a.name == name);
        let now = &self.traced.topology.host.arrays;
        self.gone.retain(|info| !runs(&info.name, now));
        for array in &was.host.arrays {
            if array.is_md() && !runs(&array.name, now) {
                let mut info = info(&was, array);
                info.trouble = Some("stopped".to_owned());
                self.gone.push(info);
            }
        }
    }
}

impl Traced {
    /// True if the kernel still says what the programs were chosen by: ext4 or a module of md's may have been loaded since,
    /// with its types and functions.
    fn facts_hold(&mut self) -> bool {
        let modules = modules();
        if modules == self.modules {
            return true;
        }
        let hold = Facts::gather() == self.facts;
        if hold {
            self.modules = modules;
        }
        hold
    }

    /// Whether the programs do for `tables`, which they have been told then.
    fn refit(&mut self, tables: &Tables) -> Result<bool> {
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
