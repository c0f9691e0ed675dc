//! The live source of snapshots: counters, disk statistics and the arrays' state, once an interval.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::host::{ArrayState, Cgroups, HostError, StatFile, Sys, task};
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

/// Attached programs and everything needed to make snapshots of them.
pub struct Sampler {
    sys: Sys,
    survey: Survey,
    probe: Probe,
    stats: Vec<Vec<Option<StatFile>>>,
    cgroups: Cgroups,
    fold: Fold,
    window: Window,
    start: Instant,
    notes: Vec<String>,
    /// Since when a task may be idle, and what all had done by then.
    idle: (Instant, HashMap<TaskKey, TaskCounters>),
}

impl Sampler {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    pub fn start(sys: Sys, survey: Survey, account: bool) -> Result<Self> {
        let mut plan = plan(&Facts::gather()).map_err(anyhow::Error::msg)?;
        let tables = Tables::new(&survey).map_err(anyhow::Error::msg)?;
        let probe = Probe::start(&mut plan, &tables, account)?;
        let mut notes = survey.notes.clone();
        notes.extend(tables.notes);
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
                        StatFile::open(&sys, &m.disk_name, part).ok()
                    })
                    .collect()
            })
            .collect();
        let mut sampler = Self {
            cgroups: Cgroups::new(&sys),
            sys,
            survey,
            probe,
            stats,
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            start: Instant::now(),
            notes,
            idle: (Instant::now(), HashMap::new()),
        };
        let first = sampler.sample()?;
        sampler.fold = Fold::new(first);
        Ok(sampler)
    }

    /// What this kernel and host cannot give.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let sample = self.sample()?;
        let mut snapshot = self.fold.step(sample);
        self.window.judge(&mut snapshot);
        self.forget_idle();
        Ok(snapshot)
    }

    fn sample(&mut self) -> Result<Sample> {
        let counters = self.probe.read()?;
        let arrays = (0..self.survey.topology.arrays.len())
            .map(|number| self.subject(number))
            .collect();
        let tasks = self.people(&counters);
        Ok(Sample {
            time: jiff::Timestamp::now(),
            clock: self.start.elapsed(),
            counters,
            arrays,
            tasks,
            notes: self.notes.clone(),
        })
    }

    fn subject(&self, number: usize) -> Subject {
        let array = &self.survey.topology.arrays[number];
        let state = ArrayState::read(&self.sys, array);
        let trouble = match &state {
            Ok(state) => state.trouble(),
            Err(HostError::Stopped { .. }) => Some("stopped".to_owned()),
            Err(_) => Some("removed".to_owned()),
        };
        let members = array
            .members
            .iter()
            .zip(&self.stats[number])
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
                    .map(|fs| self.survey.describe(fs))
                    .collect(),
            },
            members,
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
            let Some(name) = counters.names.get(&pid) else {
                continue;
            };
            // The name of now says more (a kworker's work) and is right after an exec.
            let comm = task::comm(&self.sys, pid).unwrap_or_else(|| name.comm.clone());
            let kernel = task::is_kernel_thread(&self.sys, pid).unwrap_or(false);
            let arrays = &self.survey.topology.arrays;
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
            self.probe.forget(&self.fold.take_idle(&self.idle.1));
        }
        self.idle = (Instant::now(), self.fold.tasks().clone());
    }
}
