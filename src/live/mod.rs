//! What is traced now: the survey, the programs that were loaded for it, and what the machine says beside them. Follows
//! what changes. Both `top` and `record` are fed by it.

mod idle;
mod paths;
mod people;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use anyhow::Result;

use self::idle::Idle;
use self::paths::Paths;
use crate::follow::Follow;
use crate::host::{Array, ArrayState, Cgroups, HostError, Member, StatFile, Sys, resolve};
use crate::model::counters::{Counters, TaskCounters, TaskKey};
use crate::model::fold::{DiskCounters, MemberNow, Sample, Subject};
use crate::model::snapshot::ArrayInfo;
use crate::probe::{Facts, Probe, plan, tables::Tables};
use crate::survey::Survey;

/// Notes of changes that are kept.
const CHANGES: usize = 8;

/// Attached programs and everything needed to say what they have counted.
pub struct Live {
    sys: Sys,
    how: How,
    traced: Traced,
    follow: Follow,
    /// What changed while tracing, newest first, and why it could not be followed.
    changes: VecDeque<String>,
    behind: Option<String>,
    /// Arrays that were stopped before tracing began anew.
    gone: Vec<ArrayInfo>,
    /// Differs when md has done something to an array.
    hint: u64,
    cgroups: Cgroups,
    paths: Paths,
    start: Instant,
    idle: Idle,
}

/// How to trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Have the kernel measure what the programs cost.
    pub account: bool,
    /// Of a recording: bytes for events that have not been drained yet.
    pub buffer: Option<u32>,
}

/// The programs' counters, and when they were read.
pub struct Reading {
    time: jiff::Timestamp,
    clock: Duration,
    counters: Counters,
}

/// One survey and the programs that were loaded for it.
pub struct Traced {
    /// What it is of.
    pub survey: Survey,
    /// The programs.
    pub probe: Probe,
    /// Of the tables that the programs have.
    digest: u64,
    /// By array and member.
    stats: Vec<Vec<Option<StatFile>>>,
    /// Whether the kernel side can tell by itself why RAID 4/5/6 reads.
    sees_stripes: bool,
    /// What the survey and the tables could not say; what this kernel cannot give.
    notes: [Vec<String>; 2],
}

impl Traced {
    fn start(sys: &Sys, survey: Survey, tables: Tables, how: How) -> Result<Self> {
        let facts = Facts::gather();
        let mut plan = plan(&facts, tables.need).map_err(anyhow::Error::msg)?;
        let probe = Probe::start(&mut plan, &facts, &tables, how.account, how.buffer)?;
        Ok(Self {
            stats: stats(sys, &survey),
            probe,
            sees_stripes: !tables.need.stripes || facts.md.knows_stripes(),
            digest: tables.digest(),
            notes: [[&survey.notes[..], &tables.notes[..]].concat(), plan.notes],
            survey,
        })
    }
}

impl Traced {
    fn read(&mut self, start: Instant) -> Result<Reading> {
        let counters = self.probe.read()?;
        // Of the reading: what follows may take its time.
        let (time, clock) = (jiff::Timestamp::now(), start.elapsed());
        Ok(Reading {
            time,
            clock,
            counters,
        })
    }
}

/// The statistics of every member. A member that is a partition has its own; so has a device mapper device.
fn stats(sys: &Sys, survey: &Survey) -> Vec<Vec<Option<StatFile>>> {
    let arrays = survey.topology.arrays.iter();
    arrays
        .map(|a| a.members.iter().map(|m| stat(sys, m)).collect())
        .collect()
}

fn stat(sys: &Sys, member: &Member) -> Option<StatFile> {
    let part = (member.name != member.disk_name).then_some(member.name.as_str());
    StatFile::open(sys, &member.disk_name, part)
        .or_else(|_| StatFile::open(sys, &member.name, None))
        .ok()
}

impl Live {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    pub fn start(sys: Sys, targets: &[String], how: How) -> Result<Self> {
        let topology = resolve(targets, &sys)?;
        let follow = Follow::start(&sys, targets, &topology);
        let survey = Survey::new(topology);
        let tables = Tables::new(&survey).map_err(anyhow::Error::msg)?;
        let traced = Traced::start(&sys, survey, tables, how)?;
        // A recording cannot wait: its buffer fills.
        let paths = if how.buffer.is_some() {
            Paths::without_patience()
        } else {
            Paths::default()
        };
        Ok(Self {
            cgroups: Cgroups::new(&sys),
            paths,
            sys,
            how,
            traced,
            follow,
            changes: VecDeque::new(),
            behind: None,
            gone: Vec::new(),
            hint: 0,
            start: Instant::now(),
            idle: Idle::default(),
        })
    }

    /// What is traced.
    pub fn survey(&self) -> &Survey {
        &self.traced.survey
    }

    /// The programs.
    pub fn probe(&mut self) -> &mut Probe {
        &mut self.traced.probe
    }

    /// The next sample may take its time: nothing is coming in any more.
    pub fn take_time(&mut self) {
        self.paths.be_patient();
    }

    /// What this kernel and host cannot give, and what has changed while tracing.
    pub fn notes(&self) -> Vec<String> {
        let changes = self.behind.iter().chain(&self.changes);
        changes
            .chain(self.traced.notes.iter().flatten())
            .cloned()
            .collect()
    }

    /// New programs, when md or somebody else has changed what the tables of the old ones describe. They run already, but
    /// so do the old ones, until the caller has them replaced.
    pub fn follow_changes(&mut self) -> Option<Traced> {
        let clock = self.start.elapsed();
        let changes = self.follow.look(&self.sys, clock, self.hint);
        if changes.is_empty() {
            return None;
        }
        let begun = Instant::now();
        let time = jiff::Timestamp::now().strftime("%H:%M:%SZ").to_string();
        let what = changes.join("; ");
        match self.anew() {
            Ok(next) => {
                self.follow.taken(self.start.elapsed(), next.is_some());
                self.behind = None;
                self.changes.push_front(match &next {
                    Some(_) => format!(
                        "{time} {what}, tracing restarted in {:.1} s: what was new in it may be missing or wrong until then",
                        begun.elapsed().as_secs_f64()
                    ),
                    None => format!("{time} {what}"),
                });
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

    /// Surveys again. `None`: the programs that run do for it.
    fn anew(&mut self) -> Result<Option<Traced>> {
        let survey = Survey::new(self.follow.resolve(&self.sys)?);
        let tables = Tables::new(&survey).map_err(anyhow::Error::msg)?;
        if tables.digest() == self.traced.digest {
            // Other names only: mounted, unmounted.
            self.traced.stats = stats(&self.sys, &survey);
            self.traced.notes[0] = [&survey.notes[..], &tables.notes[..]].concat();
            self.traced.survey = survey;
            return Ok(None);
        }
        Traced::start(&self.sys, survey, tables, self.how).map(Some)
    }

    /// From here on samples are of `next`, whose counters began when it was loaded.
    pub fn replace(&mut self, next: Traced) {
        let was = std::mem::replace(&mut self.traced, next);
        let runs = |name: &str, arrays: &[Array]| arrays.iter().any(|a| a.name == name);
        let now = &self.traced.survey.topology.arrays;
        self.gone.retain(|info| !runs(&info.name, now));
        for array in &was.survey.topology.arrays {
            if array.is_md() && !runs(&array.name, now) {
                let mut info = info(&was.survey, array);
                info.trouble = Some("stopped".to_owned());
                self.gone.push(info);
            }
        }
        self.idle = Idle::default();
    }

    /// The counters now.
    pub fn read(&mut self) -> Result<Reading> {
        self.traced.read(self.start)
    }

    /// How long ago it was.
    pub fn age(&self, reading: &Reading) -> Duration {
        self.start.elapsed().saturating_sub(reading.clock)
    }

    /// The same of programs that are going to replace these: where their counts begin. To be read at once behind the last
    /// reading of the old ones: what completes in between is in neither.
    pub fn read_next(&self, next: &mut Traced) -> Result<Reading> {
        next.read(self.start)
    }

    /// Everything at a reading. `before`: the tasks' counters of the last sample; only those that did something since are
    /// named. May take its time.
    pub fn sample(
        &mut self,
        reading: Reading,
        before: &HashMap<TaskKey, TaskCounters>,
    ) -> Result<Sample> {
        let Reading {
            time,
            clock,
            counters,
        } = reading;
        let mut hint = DefaultHasher::new();
        let mut arrays: Vec<Subject> = (0..self.traced.survey.topology.arrays.len())
            .map(|number| self.subject(number, &mut hint))
            .collect();
        self.hint = hint.finish();
        for (number, subject) in (0..).zip(&mut arrays) {
            let quiet = subject.info.trouble.is_none();
            self.traced.probe.quiet(number, quiet)?;
            subject.doubtful = !quiet && !self.traced.sees_stripes;
        }
        // Behind the others, so that these keep their numbers.
        arrays.extend(self.gone.iter().map(|info| Subject {
            info: info.clone(),
            ..Subject::default()
        }));
        let tasks = self.people(&counters, before);
        let files = self.places(&counters);
        Ok(Sample {
            time,
            clock,
            counters,
            arrays,
            tasks,
            files,
            notes: self.notes(),
        })
    }

    fn subject(&mut self, number: usize, hint: &mut DefaultHasher) -> Subject {
        let survey = &self.traced.survey;
        let array = &survey.topology.arrays[number];
        let state = ArrayState::read(&self.sys, array);
        if let Ok(now) = &state {
            for member in &now.members {
                (&member.name, member.slot).hash(hint);
            }
            now.reshape_position.is_some().hash(hint);
        }
        let trouble = match &state {
            Ok(state) => state.trouble(),
            Err(HostError::Stopped { .. }) => Some("stopped".to_owned()),
            Err(_) => Some("removed".to_owned()),
        };
        let members = array
            .members
            .iter()
            .zip(&mut self.traced.stats[number])
            .map(|(member, file)| {
                let read = |file: &Option<StatFile>| file.as_ref().and_then(|f| f.read().ok());
                // The file of a device that went away stays dead when the device comes back.
                let disk = read(file).or_else(|| {
                    *file = stat(&self.sys, member);
                    read(file)
                });
                let now = state
                    .as_ref()
                    .ok()
                    .map(|s| s.members.iter().find(|m| m.name == member.name));
                let (slot, trouble) = match now {
                    Some(Some(now)) => (now.slot, now.trouble()),
                    Some(None) => (member.slot, Some("removed".to_owned())),
                    None => (member.slot, None),
                };
                MemberNow {
                    name: member.name.clone(),
                    slot,
                    trouble: if disk.is_none() {
                        Some("removed".to_owned())
                    } else {
                        trouble
                    },
                    disk: disk.map(|d| DiskCounters {
                        requests: d.requests(),
                        io_ticks_ms: d.io_ticks_ms,
                        in_flight: u32::try_from(d.in_flight).unwrap_or(u32::MAX),
                    }),
                }
            })
            .collect();
        Subject {
            info: ArrayInfo {
                trouble,
                ..info(survey, array)
            },
            members,
            doubtful: false,
        }
    }
}

fn info(survey: &Survey, array: &Array) -> ArrayInfo {
    ArrayInfo {
        name: array.name.clone(),
        level: array.level.clone(),
        chunk_bytes: u64::from(array.chunk_sectors) * 512,
        bytes: array.sectors * 512,
        disks: array.raid_disks,
        trouble: None,
        filesystems: array
            .filesystems
            .iter()
            .map(|fs| survey.describe(fs))
            .collect(),
    }
}
