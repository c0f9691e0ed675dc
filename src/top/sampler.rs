//! The live source of snapshots: counters, disk statistics and the arrays' state, once an interval.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::paths::Paths;
use crate::follow::Follow;
use crate::host::handle::{Found, Wanted};
use crate::host::{
    Array, ArrayState, Cgroups, Dev, Filesystem, HostError, Member, StatFile, Sys, resolve, task,
};
use crate::model::counters::{Counters, TaskCounters, TaskKey};
use crate::model::files::{FileId, FilePlace, Files};
use crate::model::fold::{DiskCounters, Fold, MemberNow, Person, Sample, Subject};
use crate::model::snapshot::{ArrayInfo, Snapshot};
use crate::model::window::{self, Window};
use crate::probe::{Facts, Probe, plan, tables::Tables};
use crate::survey::Survey;

/// The kernel's table has room for 16,384 (`rt_task_ios`); from here on idle tasks are forgotten.
const TASKS_MANY: usize = 8192;
/// ... those that did nothing for this long.
const TASKS_IDLE: Duration = Duration::from_secs(30);
/// Notes of changes that are kept.
const CHANGES: usize = 8;

/// Attached programs and everything needed to make snapshots of them.
pub struct Sampler {
    sys: Sys,
    account: bool,
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
    fold: Fold,
    window: Window,
    start: Instant,
    /// Since when a task may be idle, and what all had done by then.
    idle: (Instant, HashMap<TaskKey, TaskCounters>),
}

/// The programs' counters, and when they were read.
struct Reading {
    time: jiff::Timestamp,
    clock: Duration,
    counters: Counters,
}

/// One survey and the programs that were loaded for it.
struct Traced {
    survey: Survey,
    probe: Probe,
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
    fn start(sys: &Sys, survey: Survey, tables: Tables, account: bool) -> Result<Self> {
        let facts = Facts::gather();
        let mut plan = plan(&facts, tables.need).map_err(anyhow::Error::msg)?;
        let probe = Probe::start(&mut plan, &facts, &tables, account)?;
        Ok(Self {
            stats: stats(sys, &survey),
            probe,
            sees_stripes: !tables.need.stripes || facts.md.knows_stripes(),
            digest: tables.digest(),
            notes: [[&survey.notes[..], &tables.notes[..]].concat(), plan.notes],
            survey,
        })
    }

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

impl Sampler {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    pub fn start(sys: Sys, targets: &[String], account: bool) -> Result<Self> {
        let topology = resolve(targets, &sys)?;
        let follow = Follow::start(&sys, targets, &topology);
        let survey = Survey::new(topology);
        let tables = Tables::new(&survey).map_err(anyhow::Error::msg)?;
        let traced = Traced::start(&sys, survey, tables, account)?;
        let mut sampler = Self {
            cgroups: Cgroups::new(&sys),
            paths: Paths::default(),
            sys,
            account,
            traced,
            follow,
            changes: VecDeque::new(),
            behind: None,
            gone: Vec::new(),
            hint: 0,
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            start: Instant::now(),
            idle: (Instant::now(), HashMap::new()),
        };
        let reading = sampler.traced.read(sampler.start)?;
        let first = sampler.sample(reading)?;
        sampler.fold = Fold::new(first);
        Ok(sampler)
    }

    /// What this kernel and host cannot give, and what has changed while tracing.
    pub fn notes(&self) -> Vec<String> {
        let changes = self.behind.iter().chain(&self.changes);
        changes
            .chain(self.traced.notes.iter().flatten())
            .cloned()
            .collect()
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        // The programs for what has changed are loaded while the old ones count: this interval is still theirs.
        let next = self.follow_changes();
        let reading = self.traced.read(self.start)?;
        // The new ones' counts begin where the old ones' end. What comes next may wait a long time, for paths say, and
        // what completed meanwhile would be in neither.
        let next = match next {
            Some(mut next) => Some((next.read(self.start)?, next)),
            None => None,
        };
        let sample = self.sample(reading)?;
        let mut snapshot = self.fold.step(sample);
        self.window.judge(&mut snapshot);
        self.forget_idle();
        if let Some((base, next)) = next {
            self.replace(next, base)?;
        }
        Ok(snapshot)
    }

    /// New programs, when md or somebody else has changed what the tables of the old ones describe.
    fn follow_changes(&mut self) -> Option<Traced> {
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
        Traced::start(&self.sys, survey, tables, self.account).map(Some)
    }

    /// `base`: where the counts of `next` begin.
    fn replace(&mut self, next: Traced, base: Reading) -> Result<()> {
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
        let before = std::mem::replace(&mut self.fold, Fold::new(Sample::default()));
        let mut first = self.sample(base)?;
        before.resume_disks(&mut first);
        self.fold = Fold::new(first);
        self.idle = (Instant::now(), HashMap::new());
        Ok(())
    }

    fn sample(&mut self, reading: Reading) -> Result<Sample> {
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
        let tasks = self.people(&counters);
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

    /// Names the tasks that did something since the last sample.
    fn people(&mut self, counters: &Counters) -> HashMap<u32, Person> {
        let before = self.fold.tasks();
        let active: Vec<u32> = counters
            .tasks
            .iter()
            .filter(|(key, io)| before.get(key) != Some(io))
            .map(|(key, _)| key.pid)
            .collect();
        let mut people = HashMap::new();
        for pid in active {
            if people.contains_key(&pid) {
                continue;
            }
            let name = counters.names.get(&pid).cloned().unwrap_or_default();
            let comm = if name.work.is_empty() {
                // The name of now is right after an exec.
                task::comm(&self.sys, pid).unwrap_or_else(|| name.comm.clone())
            } else {
                // As /proc/PID/comm has it while the kworker is at it; by now it may be at another's.
                [&name.comm[..], b"+", &name.work[..]].concat()
            };
            let kernel = task::is_kernel_thread(&self.sys, pid).unwrap_or(false);
            let arrays = &self.traced.survey.topology.arrays;
            let device = |dev: &str| {
                arrays
                    .iter()
                    .flat_map(|a| {
                        let fs = a.filesystems.iter().map(|f| (f.dev, &f.name));
                        fs.chain([(a.dev, &a.name)])
                    })
                    .find(|(d, _)| d.to_string() == dev)
                    .map(|(_, name)| name.clone())
            };
            let role = kernel.then(|| task::role(&comm, device)).flatten();
            people.insert(
                pid,
                Person {
                    comm,
                    cgroup: self.cgroups.path(name.cgroup).map(str::to_owned),
                    role,
                },
            );
        }
        people
    }

    /// Says where the busiest files are.
    fn places(&mut self, counters: &Counters) -> HashMap<FileId, FilePlace> {
        let arrays = &self.traced.survey.topology.arrays;
        let mut places = HashMap::new();
        let mut wanted = Vec::new();
        for number in 0..arrays.len() as u32 {
            for file in Files::new(&counters.files, number).busiest {
                let name = self.traced.probe.file_name(&file.id).unwrap_or_default();
                let device = |fs: &&Filesystem| fs.dev.kernel() == file.id.dev;
                let filesystem = arrays.iter().flat_map(|a| &a.filesystems).find(device);
                let mount = filesystem.and_then(|fs| fs.mounts.first());
                places.insert(
                    file.id,
                    FilePlace {
                        path: None,
                        name: (!name.name.is_empty()).then(|| name.name.clone()),
                        deleted: name.deleted,
                        device_name: filesystem.map_or(String::new(), |fs| fs.name.clone()),
                        mount: mount.map(|m| m.path.display().to_string()),
                    },
                );
                if self.paths.wants(&file.id) {
                    wanted.push((
                        file.id,
                        Wanted {
                            dev: Dev::of_kernel(file.id.dev),
                            inode: (file.id.inode, file.id.generation),
                            parent: name.parent,
                            name: name.name,
                        },
                    ));
                }
            }
        }
        self.paths.ask(wanted);
        for (id, place) in &mut places {
            match self.paths.get(id) {
                Some(Found::At { path, deleted }) => {
                    place.path = Some(path.clone());
                    place.deleted = *deleted;
                }
                Some(Found::Gone) => place.deleted = true,
                Some(Found::Unknown) | None => {}
            }
        }
        places
    }

    /// Makes room in the kernel's table of tasks before it is full.
    fn forget_idle(&mut self) {
        if self.idle.0.elapsed() < TASKS_IDLE {
            return;
        }
        if self.fold.tasks().len() > TASKS_MANY {
            self.traced.probe.forget(&self.fold.take_idle(&self.idle.1));
        }
        self.idle = (Instant::now(), self.fold.tasks().clone());
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
