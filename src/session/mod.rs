//! A tracing session: the traced topology, the programs loaded for it, and the state of the host.
//! All live commands use one.
//!
//! * [`engine`]: runs a session on its own thread and sends the results to the command.
//! * [`watch`]: detects changes of the host. [`prepare`], [`update`]: update the programs after a
//!   change.
//! * [`sampler`]: one snapshot each interval.
//! * [`tasks`], [`paths`]: names of tasks, paths of files. [`cpus`]: kernel stack samples of each
//!   CPU.
//! * [`recorder`]: writes a session to a recording. [`header`]: the header of a recording.
//! * [`alloc`], [`slow`]: intervals of `raidtrace alloc` and of `raidtrace slow`.

pub mod alloc;
mod around;
mod asleep;
pub mod cpus;
pub mod engine;
mod groups;
pub mod header;
mod md_settings;
mod paths;
pub mod period;
mod prepare;
pub mod recorder;
pub mod sampler;
pub mod slow;
mod tasks;
mod update;
pub mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use self::around::Surroundings;
use self::groups::uneven_groups;
use self::paths::Paths;
use self::prepare::{Preparation, tables};
pub use self::update::Update;
use crate::analysis::counters::{Counters, JournalCounters, TaskId, TaskKey};
use crate::analysis::cube::Cube;
use crate::analysis::fold::{ArrayNow, DiskCounters, MemberNow, Sample};
use crate::analysis::snapshot::{ArrayInfo, UnevenGroups};
use crate::machine::crowded;
use crate::machine::dm::raid_volume;
use crate::machine::mballoc;
use crate::machine::nvme;
use crate::machine::topology::Topology;
use crate::machine::{
    Array, ArrayState, Cgroups, HostError, Member, StatFile, Sys, modules, resolve, task,
};
use crate::probe::{DirtiedCounting, Generation, KernelFacts, Need, Probe, plan, tables::Tables};
use crate::session::watch::Watcher;

/// Number of changes kept as notes.
const MAX_CHANGES: usize = 8;

/// Attached programs, and the host state that their counters refer to.
pub struct Session {
    sys: Arc<Sys>,
    options: SessionOptions,
    traced: Traced,
    watch: Watcher,
    /// The update that is being prepared.
    preparation: Option<Preparation>,
    /// Changes since the start, newest first.
    changes: VecDeque<String>,
    /// Note on the last change for which the programs could not be updated, and the reason.
    failed_update: Option<String>,
    /// State of each array at the last sample; `None` if it could not be read.
    states: Vec<Option<ArrayState>>,
    /// Arrays stopped since the start.
    stopped: Vec<ArrayInfo>,
    /// Hash of all members' names and slots, and of running reshapes.
    members_hash: u64,
    /// Number of md events.
    md_events: u64,
    around: Surroundings,
    cgroups: Cgroups,
    paths: Paths,
    start: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SessionOptions {
    /// Measure the run time of the programs.
    pub account: bool,
    /// Ring buffer size in bytes, for recordings only.
    pub buffer: Option<u32>,
    /// Accounting of blocks that tasks dirty.
    pub dirtied: DirtiedCounting,
    /// Load no programs; only track the topology, its changes and paths.
    pub topology_only: bool,
}

impl SessionOptions {
    /// Adds the programs that the options need.
    fn add_to(&self, need: &mut Need) {
        need.dirtied = self.dirtied;
        // Recordings do not store journal counters.
        need.journals = self.buffer.is_none();
        need.nothing = self.topology_only;
    }
}

/// Counters of the programs and the time of the read.
pub struct Reading {
    time: jiff::Timestamp,
    clock: Duration,
    counters: Counters,
    /// Requests completed by each array's members according to the kernel, read just before the
    /// counters. `None` if the kernel's count includes other requests than the programs' counters.
    completed: Vec<Vec<Option<u64>>>,
}

/// Open stat files of each array's members; `None` for a member without one.
type Stats = Vec<Vec<Option<StatFile>>>;

/// A topology and the programs that count for it.
pub struct Traced {
    topology: Arc<Topology>,
    probe: Probe,
    /// Kernel facts that chose the programs, and the modules loaded at that time.
    facts: KernelFacts,
    modules: u64,
    /// Digest of the programs' tables.
    digest: u64,
    stats: Stats,
    /// Allocation groups of XFS that start on few members, by the name of the array.
    uneven_groups: BTreeMap<String, UnevenGroups>,
    /// True if the programs read the purpose of RAID 4/5/6 reads from `struct stripe_head`.
    reads_stripes: bool,
    /// Notes of the topology and the tables; notes on this kernel.
    notes: [Vec<String>; 2],
}

impl Traced {
    fn start(
        sys: &Sys,
        topology: Topology,
        tables: Tables,
        options: SessionOptions,
        (modules, facts): (u64, KernelFacts),
        after: Option<&Generation>,
    ) -> Result<Self> {
        let mut plan = plan(&facts, tables.need).map_err(anyhow::Error::msg)?;
        let (account, buffer) = (options.account, options.buffer);
        let probe = Probe::start(&mut plan, &facts, &tables, account, buffer, after)?;
        Ok(Self {
            stats: stats(sys, &topology),
            uneven_groups: uneven_groups(&topology),
            probe,
            facts,
            modules,
            reads_stripes: !tables.need.stripes || facts.md.has_stripes(),
            digest: tables.digest(),
            notes: [notes(sys, &topology, &tables, options), plan.notes],
            topology: Arc::new(topology),
        })
    }

    /// Replaces the topology, for which the programs count already, and returns the old one.
    fn set_topology(
        &mut self,
        topology: Topology,
        stats: Stats,
        notes: Vec<String>,
    ) -> Arc<Topology> {
        self.stats = stats;
        self.notes[0] = notes;
        self.uneven_groups = uneven_groups(&topology);
        std::mem::replace(&mut self.topology, Arc::new(topology))
    }

    /// [`Reading::completed`].
    fn completed(&self) -> Vec<Vec<Option<u64>>> {
        if !self.probe.is_attached() {
            return Vec::new(); // detached: only the kernel still counts
        }
        let arrays = &self.topology.host.arrays;
        // Up to 5.11, a flush carries no partition: all flushes of a disk are counted for the first
        // member on the disk. The volumes of a container share a disk's count: it is compared with
        // the sum of their members, at the first one.
        let has_all_requests = |member: &Member| {
            let mut on_disk =
                arrays.iter().flat_map(|a| &a.members).filter(|m| m.disk == member.disk);
            let first = on_disk.next().is_some_and(|m| std::ptr::eq(m, member));
            first
                && on_disk.clone().all(|m| m.dev == member.dev)
                && on_disk.count() == member.other_volumes
        };
        let one = |(member, file): (&Member, &Option<StatFile>)| {
            let queue = &member.queue;
            let same = queue.iostats
                && !queue.bio_based
                && !member.mapped
                // The kernel has no counters of a partition there.
                && (member.paths.is_empty() || member.dev == member.disk)
                && member.nested_array.is_none()
                && has_all_requests(member);
            file.as_ref().filter(|_| same)?.read().ok().map(|d| d.requests())
        };
        let arrays = arrays.iter().zip(&self.stats);
        arrays.map(|(a, files)| a.members.iter().zip(files).map(one).collect()).collect()
    }
}

/// Notes on the topology, the tables and task names; only on the topology if nothing is counted.
fn notes(sys: &Sys, topology: &Topology, tables: &Tables, options: SessionOptions) -> Vec<String> {
    let mut notes = topology.notes.clone();
    if !options.topology_only {
        notes.extend_from_slice(&tables.notes);
        notes.extend(task::notes(sys));
    }
    notes
}

/// Digest of the loaded modules, and the kernel's facts. The digest is read first: a module that is
/// loaded in between changes it.
fn gather() -> (u64, KernelFacts) {
    (modules::digest(), KernelFacts::gather())
}

/// Stat files of all members. Partitions and device mapper devices have their own.
fn stats(sys: &Sys, topology: &Topology) -> Stats {
    let arrays = topology.host.arrays.iter();
    arrays.map(|a| a.members.iter().map(|m| stat(sys, m)).collect()).collect()
}

fn stat(sys: &Sys, member: &Member) -> Option<StatFile> {
    let part = (member.name != member.disk_name).then_some(member.name.as_str());
    StatFile::open(sys, &member.disk_name, part)
        .or_else(|_| StatFile::open(sys, &member.name, None))
        .ok()
}

impl Session {
    /// Reads the topology, loads the programs and attaches them. IO is counted from the moment this
    /// returns.
    pub fn start(sys: Sys, targets: &[String], options: SessionOptions) -> Result<Self> {
        // Reading the kernel's symbols takes longer than everything up to loading the programs.
        let facts = thread::spawn(gather);
        let host = crowded::leave_out(&sys, &[], resolve(targets, &sys)?);
        let restored = mballoc::restore(&sys);
        let watch = Watcher::start(&sys, targets, &host);
        let topology = Topology::new(host);
        let tables = tables(&topology, options)?;
        let facts = facts.join().unwrap_or_else(|_| gather());
        let traced = Traced::start(&sys, topology, tables, options, facts, None)?;
        // A recording must not wait for paths: its ring buffer would fill.
        let paths =
            if options.buffer.is_some() { Paths::without_waiting() } else { Paths::default() };
        Ok(Self {
            cgroups: Cgroups::new(&sys),
            paths,
            sys: Arc::new(sys),
            options,
            traced,
            watch,
            preparation: None,
            changes: restored.into(),
            failed_update: None,
            states: Vec::new(),
            stopped: Vec::new(),
            members_hash: 0,
            md_events: 0,
            around: Surroundings::default(),
            start: Instant::now(),
        })
    }

    /// The traced topology.
    pub fn topology(&self) -> &Topology {
        &self.traced.topology
    }

    /// The host.
    pub fn sys(&self) -> &Sys {
        &self.sys
    }

    /// Names of the traced arrays and disks with their numbers of members, for a message.
    pub fn subjects(&self) -> String {
        let one = |a: &Array| match a.members.len() {
            1 if !a.is_md() => a.name.clone(),
            1 => format!("{} (1 member)", a.name),
            n => format!("{} ({n} members)", a.name),
        };
        self.traced.topology.host.arrays.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The programs.
    pub fn probe(&mut self) -> &mut Probe {
        &mut self.traced.probe
    }

    /// Records that a task has submitted something: its sleeps are sampled.
    pub fn submitted(&mut self, task: TaskId) {
        self.around.sleepers.add([task], Instant::now());
    }

    /// Samples sleeping tasks, if it is time. Returns the time until the next look.
    fn look_at_tasks(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.around.sleepers.look(&self.sys, now);
        self.around.sleepers.next(now)
    }

    /// Makes later samples wait for paths. Call this after the last event was recorded.
    pub fn wait_for_paths(&mut self) {
        self.paths.wait_for_answers();
    }

    /// Limits of this kernel and host, and changes during the session.
    pub fn notes(&self) -> Vec<String> {
        let changes = self.failed_update.iter().chain(&self.changes);
        changes.chain(self.traced.notes.iter().flatten()).cloned().collect()
    }

    /// Reads the counters.
    pub fn read(&mut self) -> Result<Reading> {
        let completed = self.traced.completed();
        let counters = self.traced.probe.read()?;
        Ok(self.reading(counters, completed))
    }

    /// Adds the time to counters that have just been read.
    fn reading(&self, counters: Counters, completed: Vec<Vec<Option<u64>>>) -> Reading {
        Reading { time: jiff::Timestamp::now(), clock: self.start.elapsed(), counters, completed }
    }

    /// Time since a reading.
    pub fn age(&self, reading: &Reading) -> Duration {
        self.start.elapsed().saturating_sub(reading.clock)
    }

    /// True if the programs could not be updated for the last change of the host.
    pub fn update_failed(&self) -> bool {
        self.failed_update.is_some()
    }

    /// Traced arrays with their state at the last sample; `None` for an array that was stopped or
    /// removed.
    pub fn states(&self) -> impl Iterator<Item = (&Array, Option<&ArrayState>)> {
        let arrays = &self.traced.topology.host.arrays;
        arrays.iter().zip(self.states.iter().map(Option::as_ref))
    }

    /// Adds the state of arrays and disks, and the names of tasks and files, to a reading. Can
    /// block on a path lookup.
    pub fn sample(&mut self, reading: Reading) -> Result<Sample> {
        let Reading { time, clock, counters, completed } = reading;
        let mut hash = DefaultHasher::new();
        self.states.clear();
        let mut arrays: Vec<ArrayNow> = (0..self.traced.topology.host.arrays.len())
            .map(|number| self.subject(number, &mut hash))
            .collect();
        // The kernel reports no event of a path of NVMe multipath.
        nvme::paths(&self.sys).hash(&mut hash);
        for (subject, completed) in arrays.iter_mut().zip(completed) {
            for (member, completed) in subject.members.iter_mut().zip(completed) {
                if let Some(disk) = &mut member.disk {
                    disk.requests_before = completed;
                }
            }
        }
        self.traced.probe.maintain_filter();
        let first = self.members_hash == 0;
        self.members_hash = hash.finish();
        if first {
            self.watch.set_idle_hint(self.members_hash);
        }
        for (number, subject) in (0..).zip(&mut arrays) {
            let in_sync = subject.info.health.is_none();
            self.traced.probe.set_in_sync(number, in_sync)?;
            subject.read_reason_uncertain = !in_sync && !self.traced.reads_stripes;
        }
        let tasks = counters.tasks.keys().chain(counters.dirtied.keys());
        self.around.sleepers.add(tasks.map(TaskKey::id), Instant::now());
        self.look_around(&mut arrays);
        // Append: existing arrays must keep their index.
        arrays.extend(
            self.stopped.iter().map(|info| ArrayNow { info: info.clone(), ..ArrayNow::default() }),
        );
        let journals = self.journals(&counters);
        let tasks = self.task_infos(&counters);
        let files = self.file_locations(&counters);
        Ok(Sample { time, clock, counters, arrays, tasks, files, journals, notes: self.notes() })
    }

    /// Journal counters by array index and name of the filesystem's device.
    fn journals(&self, counters: &Counters) -> Cube<(u32, String), JournalCounters> {
        let arrays = (0u32..).zip(&self.traced.topology.host.arrays);
        let filesystems = arrays.flat_map(|(n, a)| a.filesystems.iter().map(move |fs| (n, fs)));
        filesystems
            .filter_map(|(number, fs)| {
                let counted = counters.journals.get(&fs.dev.kernel())?;
                Some(((number, fs.name.clone()), *counted))
            })
            .collect()
    }

    fn subject(&mut self, number: usize, hash: &mut DefaultHasher) -> ArrayNow {
        let topology = &self.traced.topology;
        let array = &topology.host.arrays[number];
        let state = ArrayState::read(&self.sys, array);
        if let Ok(now) = &state {
            for member in &now.members {
                (&member.name, member.slot).hash(hash);
            }
            (now.reshape_position.is_some(), &now.target).hash(hash);
            // md reports no event when a write-intent bitmap is added or removed, and device mapper
            // none when LVM has enlarged a volume.
            for file in ["md/bitmap/location", "size"] {
                self.sys.text(&format!("/sys/block/{}/{file}", array.name)).hash(hash);
            }
        }
        let health = match &state {
            Ok(state) => state.health(),
            Err(HostError::Stopped { .. }) => Some("stopped".to_owned()),
            Err(_) => Some("removed".to_owned()),
        };
        let members = array
            .members
            .iter()
            .zip(&mut self.traced.stats[number])
            .map(|(member, file)| {
                let read = |file: &Option<StatFile>| file.as_ref().and_then(|f| f.read().ok());
                // An open stat file stays invalid after its device was removed and added again.
                let disk = read(file).or_else(|| {
                    *file = stat(&self.sys, member);
                    read(file)
                });
                let now =
                    state.as_ref().ok().map(|s| s.members.iter().find(|m| m.name == member.name));
                let (slot, health) = match now {
                    Some(Some(now)) => (now.slot, now.health()),
                    Some(None) => (member.slot, Some("removed".to_owned())),
                    None => (member.slot, None),
                };
                MemberNow {
                    name: member.name.clone(),
                    slot,
                    health: if disk.is_none() { Some("removed".to_owned()) } else { health },
                    disk: disk.map(|d| DiskCounters {
                        requests: d.requests(),
                        io_ticks_ms: d.io_ticks_ms,
                        in_flight: u32::try_from(d.in_flight).unwrap_or(u32::MAX),
                        ..DiskCounters::default()
                    }),
                }
            })
            .collect();
        let info = ArrayInfo {
            health,
            uneven_groups: self.traced.uneven_groups.get(&array.name).cloned(),
            ..array_info(topology, array)
        };
        self.states.push(state.ok());
        ArrayNow { info, members, ..ArrayNow::default() }
    }
}

fn array_info(topology: &Topology, array: &Array) -> ArrayInfo {
    ArrayInfo {
        name: array.name.clone(),
        volume: raid_volume(array),
        level: array.level.clone(),
        chunk_bytes: u64::from(array.chunk_sectors) * 512,
        bytes: array.sectors * 512,
        disks: array.raid_disks,
        health: None,
        filesystems: array.filesystems.iter().map(|fs| topology.describe(fs)).collect(),
        uneven_groups: None,
    }
}
