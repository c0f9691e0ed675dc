//! What is traced now: the topology, the programs that were loaded for it, and what the machine says beside them. Follows
//! what changes. Every live command is fed by it.
//!
//! * [`follow`]: whether all is still as it was surveyed. [`next`]: from one topology and its programs to the next.
//! * [`sampler`]: an interval at a time. [`notice`]: has what md does followed between two of them.
//! * [`people`], [`paths`]: names of tasks and files. [`cpus`]: samples of what each CPU does.
//! * [`alloc`]: what `raidtrace alloc` samples.

pub mod alloc;
pub mod cpus;
pub mod follow;
mod next;
pub mod notice;
mod paths;
mod people;
pub mod sampler;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

pub use self::next::Next;
use self::paths::Paths;
use crate::analysis::counters::{Counters, JournalCounters};
use crate::analysis::fold::{DiskCounters, MemberNow, Sample, Subject};
use crate::analysis::snapshot::ArrayInfo;
use crate::machine::topology::Topology;
use crate::machine::{Array, ArrayState, Cgroups, HostError, Member, StatFile, Sys, resolve, task};
use crate::probe::{Dirtied, Facts, Need, Probe, modules, plan, tables::Tables};
use crate::session::follow::Follow;

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
    /// How often md has said that it has.
    noticed: u64,
    cgroups: Cgroups,
    paths: Paths,
    start: Instant,
}

/// How to trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Have the kernel measure what the programs cost.
    pub account: bool,
    /// Of a recording: bytes for events that have not been drained yet.
    pub buffer: Option<u32>,
    /// What to count of that which tasks dirty.
    pub dirtied: Dirtied,
}

impl How {
    /// What is asked for beyond what the arrays themselves ask for.
    fn ask(&self, need: &mut Need) {
        need.dirtied = self.dirtied;
        // A recording has no place for them.
        need.journals = self.buffer.is_none();
    }
}

/// The programs' counters, and when they were read.
pub struct Reading {
    time: jiff::Timestamp,
    clock: Duration,
    counters: Counters,
    /// By array and member: requests that the kernel had completed just before the counters were read; `None` where its
    /// count and ours are not of the same requests.
    completed: Vec<Vec<Option<u64>>>,
}

/// A topology and the programs that count for it.
pub struct Traced {
    /// What it is of.
    topology: Topology,
    /// The programs.
    probe: Probe,
    /// What they were chosen by, and the modules that the kernel had then.
    facts: Facts,
    modules: u64,
    /// Of the tables that the programs have.
    digest: u64,
    /// By array and member.
    stats: Vec<Vec<Option<StatFile>>>,
    /// Whether the kernel side can tell by itself why RAID 4/5/6 reads.
    sees_stripes: bool,
    /// What the topology and the tables could not say; what this kernel cannot give.
    notes: [Vec<String>; 2],
}

impl Traced {
    fn start(
        sys: &Sys,
        topology: Topology,
        tables: Tables,
        how: How,
        (modules, facts): (u64, Facts),
    ) -> Result<Self> {
        let mut plan = plan(&facts, tables.need).map_err(anyhow::Error::msg)?;
        let probe = Probe::start(&mut plan, &facts, &tables, how.account, how.buffer)?;
        Ok(Self {
            stats: stats(sys, &topology),
            probe,
            facts,
            modules,
            sees_stripes: !tables.need.stripes || facts.md.knows_stripes(),
            digest: tables.digest(),
            notes: [
                [&topology.notes[..], &tables.notes, &task::notes(sys)].concat(),
                plan.notes,
            ],
            topology,
        })
    }
}

impl Traced {
    /// As [`Reading::completed`].
    fn completed(&self) -> Vec<Vec<Option<u64>>> {
        if !self.probe.is_attached() {
            return Vec::new(); // the kernel counts on alone
        }
        let arrays = &self.topology.host.arrays;
        // Up to 5.10 a flush does not say which partition of its disk it is of: there the first member has them all.
        let alone = |member: &Member| {
            let all = arrays.iter().flat_map(|a| &a.members);
            all.filter(|m| m.disk == member.disk).count() == 1
        };
        let one = |(member, file): (&Member, &Option<StatFile>)| {
            let queue = &member.queue;
            let same = queue.iostats && !queue.bio_based && member.inner.is_none() && alone(member);
            let file = file.as_ref().filter(|_| same)?;
            file.read().ok().map(|d| d.requests())
        };
        let arrays = arrays.iter().zip(&self.stats);
        arrays
            .map(|(a, files)| a.members.iter().zip(files).map(one).collect())
            .collect()
    }
}

/// The kernel's facts, and the modules that it had before they were gathered.
fn gather() -> (u64, Facts) {
    (modules(), Facts::gather())
}

/// The statistics of every member. A member that is a partition has its own; so has a device mapper device.
fn stats(sys: &Sys, topology: &Topology) -> Vec<Vec<Option<StatFile>>> {
    let arrays = topology.host.arrays.iter();
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
        // Reading the kernel's symbols takes longer than all until the programs are loaded.
        let facts = thread::spawn(gather);
        let host = resolve(targets, &sys)?;
        let follow = Follow::start(&sys, targets, &host);
        let topology = Topology::new(host);
        let mut tables = Tables::new(&topology).map_err(anyhow::Error::msg)?;
        how.ask(&mut tables.need);
        let facts = facts.join().unwrap_or_else(|_| gather());
        let traced = Traced::start(&sys, topology, tables, how, facts)?;
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
            noticed: 0,
            start: Instant::now(),
        })
    }

    /// What is traced.
    pub fn topology(&self) -> &Topology {
        &self.traced.topology
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

    /// The counters now.
    pub fn read(&mut self) -> Result<Reading> {
        let completed = self.traced.completed();
        let counters = self.traced.probe.read()?;
        Ok(self.reading(counters, completed))
    }

    /// Of counters that have just been read: what follows may take its time.
    fn reading(&self, counters: Counters, completed: Vec<Vec<Option<u64>>>) -> Reading {
        Reading {
            time: jiff::Timestamp::now(),
            clock: self.start.elapsed(),
            counters,
            completed,
        }
    }

    /// How long ago it was.
    pub fn age(&self, reading: &Reading) -> Duration {
        self.start.elapsed().saturating_sub(reading.clock)
    }

    /// Everything at a reading. May take its time.
    pub fn sample(&mut self, reading: Reading) -> Result<Sample> {
        let Reading {
            time,
            clock,
            counters,
            completed,
        } = reading;
        let mut hint = DefaultHasher::new();
        let mut arrays: Vec<Subject> = (0..self.traced.topology.host.arrays.len())
            .map(|number| self.subject(number, &mut hint))
            .collect();
        for (subject, completed) in arrays.iter_mut().zip(completed) {
            for (member, completed) in subject.members.iter_mut().zip(completed) {
                if let Some(disk) = &mut member.disk {
                    disk.requests_before = completed;
                }
            }
        }
        let first = self.hint == 0;
        self.hint = hint.finish();
        if first {
            self.follow.quiet(self.hint);
        }
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
        let journals = self.journals(&counters);
        let tasks = self.people(&counters);
        let files = self.places(&counters);
        Ok(Sample {
            time,
            clock,
            counters,
            arrays,
            tasks,
            files,
            journals,
            notes: self.notes(),
        })
    }

    /// By number of the array and name of the filesystem's device.
    fn journals(&self, counters: &Counters) -> BTreeMap<(u32, String), JournalCounters> {
        let arrays = (0u32..).zip(&self.traced.topology.host.arrays);
        let filesystems = arrays.flat_map(|(n, a)| a.filesystems.iter().map(move |fs| (n, fs)));
        filesystems
            .filter_map(|(number, fs)| {
                let counted = counters.journals.get(&fs.dev.kernel())?;
                Some(((number, fs.name.clone()), *counted))
            })
            .collect()
    }

    fn subject(&mut self, number: usize, hint: &mut DefaultHasher) -> Subject {
        let topology = &self.traced.topology;
        let array = &topology.host.arrays[number];
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
                        ..DiskCounters::default()
                    }),
                }
            })
            .collect();
        Subject {
            info: ArrayInfo {
                trouble,
                ..info(topology, array)
            },
            members,
            doubtful: false,
        }
    }
}

fn info(topology: &Topology, array: &Array) -> ArrayInfo {
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
            .map(|fs| topology.describe(fs))
            .collect(),
    }
}
