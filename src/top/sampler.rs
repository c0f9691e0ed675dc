//! The live source of snapshots: counters, disk statistics and the arrays' state, once an interval.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::host::{ArrayState, Cgroups, HostError, MemberState, StatFile, Sys, resolve, task};
use crate::model::counters::{Counters, TaskCounters, TaskKey};
use crate::model::fold::{DiskCounters, Fold, MemberNow, Person, Sample, Subject};
use crate::model::snapshot::{ArrayInfo, Snapshot};
use crate::model::window::{self, Window};
use crate::probe::{Facts, Probe, plan, tables::Tables};
use crate::survey::Survey;

/// The kernel's table has room for 16,384 (`rt_task_ios`); from here on idle tasks are forgotten.
const TASKS_MANY: usize = 8192;
/// ... those that did nothing for this long.
const TASKS_IDLE: Duration = Duration::from_secs(30);
/// An array that keeps changing is not followed more often than this.
const SETTLED: Duration = Duration::from_secs(5);

/// Attached programs and everything needed to make snapshots of them.
pub struct Sampler {
    sys: Sys,
    targets: Vec<String>,
    account: bool,
    traced: Traced,
    cgroups: Cgroups,
    fold: Fold,
    window: Window,
    start: Instant,
    /// When the members of an array were last found to have changed.
    changed: Option<Instant>,
    /// Since when a task may be idle, and what all had done by then.
    idle: (Instant, HashMap<TaskKey, TaskCounters>),
}

/// One survey and the programs that were loaded for it.
struct Traced {
    survey: Survey,
    probe: Probe,
    /// By array and member.
    stats: Vec<Vec<Option<StatFile>>>,
    /// Why RAID 4/5/6 reads can be told by the kernel side alone.
    sees_stripes: bool,
    notes: Vec<String>,
}

impl Traced {
    fn start(sys: &Sys, targets: &[String], account: bool) -> Result<Self> {
        let survey = Survey::new(resolve(targets, sys)?);
        let facts = Facts::gather();
        let tables = Tables::new(&survey).map_err(anyhow::Error::msg)?;
        let mut plan = plan(&facts, tables.need).map_err(anyhow::Error::msg)?;
        let probe = Probe::start(&mut plan, &facts, &tables, account)?;
        let mut notes = survey.notes.clone();
        notes.extend(tables.notes.clone());
        notes.extend(plan.notes);
        let stats = survey
            .topology
            .arrays
            .iter()
            .map(|array| {
                array
                    .members
                    .iter()
                    .map(|m| {
                        let part = (m.name != m.disk_name).then_some(m.name.as_str());
                        StatFile::open(sys, &m.disk_name, part).ok()
                    })
                    .collect()
            })
            .collect();
        Ok(Self {
            survey,
            probe,
            stats,
            sees_stripes: !tables.need.stripes || facts.md.knows_stripes(),
            notes,
        })
    }

    /// Whether md has members that were not there when we began, or has moved one: our tables are of
    /// another array then. One that went away is only shown as gone.
    fn outdated(&self, sys: &Sys) -> Option<&str> {
        let arrays = self.survey.topology.arrays.iter().filter(|a| a.is_md());
        for array in arrays {
            let Ok(now) = ArrayState::read(sys, array) else {
                continue;
            };
            let known = |m: &MemberState| {
                m.slot.is_none()
                    || array
                        .members
                        .iter()
                        .any(|was| was.name == m.name && was.slot == m.slot)
            };
            if !now.members.iter().all(known) {
                return Some(&array.name);
            }
        }
        None
    }
}

impl Sampler {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    pub fn start(sys: Sys, targets: &[String], account: bool) -> Result<Self> {
        let traced = Traced::start(&sys, targets, account)?;
        let mut sampler = Self {
            cgroups: Cgroups::new(&sys),
            sys,
            targets: targets.to_vec(),
            account,
            traced,
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            start: Instant::now(),
            changed: None,
            idle: (Instant::now(), HashMap::new()),
        };
        let first = sampler.sample()?;
        sampler.fold = Fold::new(first);
        Ok(sampler)
    }

    /// What this kernel and host cannot give.
    pub fn notes(&self) -> &[String] {
        &self.traced.notes
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let sample = self.sample()?;
        let mut snapshot = self.fold.step(sample);
        self.window.judge(&mut snapshot);
        self.forget_idle();
        self.follow_changes()?;
        Ok(snapshot)
    }

    /// Begins anew when md has changed the array, e.g. has taken a spare in. What completes while the
    /// programs are loaded (a second or so) is not counted; the notes say so.
    fn follow_changes(&mut self) -> Result<()> {
        let settled = self.changed.is_none_or(|t| t.elapsed() >= SETTLED);
        let Some(name) = self.traced.outdated(&self.sys).filter(|_| settled) else {
            return Ok(());
        };
        let note = format!(
            "{name}: its members changed at {}: tracing began anew",
            jiff::Timestamp::now()
                .round(jiff::Unit::Second)
                .unwrap_or_default()
        );
        self.changed = Some(Instant::now());
        // In the middle of a change sysfs may contradict itself: then the old tables stay, and the
        // next interval tries again.
        if let Ok(mut traced) = Traced::start(&self.sys, &self.targets, self.account) {
            traced.notes.push(note);
            self.traced = traced;
            self.fold = Fold::new(Sample::default());
            let first = self.sample()?;
            self.fold = Fold::new(first);
            self.idle = (Instant::now(), HashMap::new());
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<Sample> {
        let counters = self.traced.probe.read()?;
        let mut arrays: Vec<Subject> = (0..self.traced.survey.topology.arrays.len())
            .map(|number| self.subject(number))
            .collect();
        if !self.traced.sees_stripes {
            for (number, subject) in (0..).zip(&mut arrays) {
                let quiet = subject.info.trouble.is_none();
                self.traced.probe.quiet(number, quiet)?;
                subject.doubtful = !quiet;
            }
        }
        let tasks = self.people(&counters);
        Ok(Sample {
            time: jiff::Timestamp::now(),
            clock: self.start.elapsed(),
            counters,
            arrays,
            tasks,
            notes: self.traced.notes.clone(),
        })
    }

    fn subject(&self, number: usize) -> Subject {
        let array = &self.traced.survey.topology.arrays[number];
        let state = ArrayState::read(&self.sys, array);
        let trouble = match &state {
            Ok(state) => state.trouble(),
            Err(HostError::Stopped { .. }) => Some("stopped".to_owned()),
            Err(_) => Some("removed".to_owned()),
        };
        let members = array
            .members
            .iter()
            .zip(&self.traced.stats[number])
            .map(|(member, stat)| {
                let disk = stat.as_ref().and_then(|s| s.read().ok());
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
                name: array.name.clone(),
                level: array.level.clone(),
                chunk_bytes: u64::from(array.chunk_sectors) * 512,
                bytes: array.sectors * 512,
                disks: array.raid_disks,
                trouble,
                filesystems: array
                    .filesystems
                    .iter()
                    .map(|fs| self.traced.survey.describe(fs))
                    .collect(),
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
