//! Intervals of `raidtrace slow`: operations, the commits and flushes that they waited for, and their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::advice::kernel::Kernel;
use crate::analysis::files::FileId;
use crate::analysis::overhead::Overhead;
use crate::analysis::slow::advice::{self, Facts};
use crate::analysis::slow::event::{Commit, Event, Kind, MemberIo, Operation};
use crate::analysis::slow::names::{Names, Slow};
use crate::analysis::slow::snapshot::{KindSum, SlowLost, SlowSnapshot};
use crate::analysis::slow::waterfall::Waterfall;
use crate::machine::Array;
use crate::machine::topology::Topology;
use crate::probe::clock::monotonic_ns;
use crate::probe::slow::{Device, SlowProbe};
use crate::session::Session;

/// Interval of draining the events' buffer.
pub const DRAIN: Duration = Duration::from_millis(100);
/// A task that waits for a commit can return before the commit's last tracepoint.
const SETTLE: Duration = Duration::from_millis(5);
/// Most waits for further operations at the end of an interval.
const ROUNDS: usize = 4;
/// Commits and IO of members that are kept for operations which end later.
const COMMITS: usize = 4096;
const IOS: usize = 1 << 16;
/// Operations of an interval that are kept, and files that get a path.
const OPERATIONS: usize = 10_000;
const NAMED: usize = 256;

/// Attached programs and the events of the current interval.
pub struct SlowSampler {
    probe: SlowProbe,
    threshold: Duration,
    events: Vec<Event>,
    operations: Vec<Operation>,
    commits: VecDeque<Commit>,
    ios: VecDeque<MemberIo>,
    /// End of the interval before, ns of CLOCK_MONOTONIC.
    begun_ns: u64,
    begun: Instant,
    drained: Instant,
    before: Before,
}

/// Cumulative figures at the end of the interval before.
#[derive(Default)]
struct Before {
    kinds: BTreeMap<Kind, KindSum>,
    lost: SlowLost,
    overhead: Overhead,
    /// Operations that were dropped because an interval had too many.
    dropped: u64,
}

impl SlowSampler {
    /// Attaches the programs for the ext4 filesystems of a session for `targets`.
    ///
    /// # Errors
    /// There is no ext4, or the kernel refuses the programs.
    pub fn start(targets: &[String], topology: &Topology, threshold: Duration) -> Result<Self> {
        let devices = devices(topology);
        if !devices.values().any(|d| d.filesystem) {
            let on = match targets {
                [] => "here".to_owned(),
                targets => format!("on {}", targets.join(", ")),
            };
            bail!(
                "no mounted ext4 {on}: raidtrace traces its operations; name a mount point, or an array, disk or partition that holds \
                 one"
            );
        }
        Ok(Self {
            probe: SlowProbe::start(&devices, threshold)?,
            threshold,
            events: Vec::new(),
            operations: Vec::new(),
            commits: VecDeque::new(),
            ios: VecDeque::new(),
            begun_ns: monotonic_ns(),
            begun: Instant::now(),
            drained: Instant::now(),
            before: Before::default(),
        })
    }

    /// Drains the events. Call this at least every [`DRAIN`].
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn drain(&mut self) -> Result<()> {
        if self.drained.elapsed() < DRAIN {
            return Ok(());
        }
        self.drain_now()
    }

    fn drain_now(&mut self) -> Result<()> {
        self.drained = Instant::now();
        self.probe.drain(&mut self.events)?;
        for event in self.events.drain(..) {
            match event {
                Event::Operation(_) if self.operations.len() >= OPERATIONS => {
                    self.before.dropped += 1;
                }
                Event::Operation(operation) => self.operations.push(*operation),
                Event::Commit(commit) => keep(&mut self.commits, *commit, COMMITS),
                Event::MemberIo(io) => keep(&mut self.ios, io, IOS),
            }
        }
        Ok(())
    }

    /// Limits of this kernel.
    pub fn notes(&self) -> &[String] {
        self.probe.notes()
    }

    /// Ends the interval.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn interval(&mut self, session: &mut Session) -> Result<SlowSnapshot> {
        self.drain_now()?;
        // Wait for the commits of the last operations; others end meanwhile.
        let mut seen = 0;
        for _ in 0..ROUNDS {
            if self.operations.len() == seen {
                break;
            }
            seen = self.operations.len();
            thread::sleep(SETTLE);
            self.drain_now()?;
        }
        self.snapshot(session)
    }

    fn snapshot(&mut self, session: &mut Session) -> Result<SlowSnapshot> {
        let now = Instant::now();
        let interval = now - std::mem::replace(&mut self.begun, now);
        let begun_ns = std::mem::replace(&mut self.begun_ns, monotonic_ns());
        let topology = session.topology();
        let mut names = names(topology);
        let places = places(topology);
        let current = devices(topology);
        let mut commits: Vec<&Commit> = self.commits.iter().collect();
        commits.sort_by_key(|c| c.start_ns());
        let facts = facts(session);
        let mut operations: Vec<Slow> = self
            .operations
            .drain(..)
            .map(|operation| {
                let place = places.get(&operation.dev);
                let on = |b: &&MemberIo| place.is_none_or(|p| p.members.contains(&b.dev));
                let ios: Vec<MemberIo> = self
                    .ios
                    .iter()
                    .filter(|b| b.end_ns > operation.start_ns && b.start_ns < operation.end_ns)
                    .filter(on)
                    .copied()
                    .collect();
                Slow {
                    waterfall: Waterfall::new(&operation, &commits, &ios),
                    array: place.map(|p| p.array.clone()),
                    operation,
                }
            })
            .collect();
        operations.sort_by_key(|s| std::cmp::Reverse(s.operation.total_ns()));
        let commits: Vec<Commit> = commits
            .into_iter()
            .filter(|c| c.end_ns().is_some_and(|end| end >= begun_ns))
            .cloned()
            .collect();
        names.files = session.locate(files(&operations, &commits));
        if &current != self.probe.devices() {
            self.probe.set_devices(&current)?;
        }
        let advice = advice::find(&operations, &names, &facts);
        let kinds = self.probe.sums()?;
        let lost = self.probe.lost()?;
        let overhead = self.probe.overhead();
        let before = std::mem::replace(
            &mut self.before,
            Before {
                kinds: kinds.clone(),
                lost,
                overhead,
                dropped: 0,
            },
        );
        Ok(SlowSnapshot {
            time: jiff::Timestamp::now(),
            clock_ns: monotonic_ns(),
            interval,
            threshold: self.threshold,
            operations,
            kinds: since(&kinds, &before.kinds),
            commits,
            advice,
            names,
            lost: SlowLost {
                slots: lost.slots - before.lost.slots,
                tables: lost.tables - before.lost.tables + before.dropped,
                events: lost.events - before.lost.events,
                ios: lost.ios - before.lost.ios,
            },
            overhead: overhead.since(before.overhead),
            notes: self.probe.notes().to_vec(),
        })
    }
}

/// Facts that advice depends on.
fn facts(session: &Session) -> Facts {
    let sys = session.sys();
    let kernel = Kernel {
        release: sys.kernel_release(),
        ..Kernel::default()
    };
    let mut facts = Facts {
        version: kernel.version(),
        ..Facts::default()
    };
    for array in &session.topology().host.arrays {
        let value = |file: &str| {
            let text = sys.text(&format!("/sys/block/{}/md/{file}", array.name))?;
            Some(text.trim().to_owned())
        };
        let md = (value("safe_mode_delay"), value("stripe_cache_size"));
        facts.arrays.insert(array.name.clone(), md);
        for fs in &array.filesystems {
            if let Some(mount) = fs.mounts.first() {
                let path = mount.path.display().to_string();
                let mount = (path, mount.options.clone());
                facts.mounts.insert(fs.dev.kernel(), mount);
            }
        }
    }
    facts
}

fn keep<T>(all: &mut VecDeque<T>, new: T, most: usize) {
    if all.len() >= most {
        all.pop_front();
    }
    all.push_back(new);
}

fn since(now: &BTreeMap<Kind, KindSum>, was: &BTreeMap<Kind, KindSum>) -> BTreeMap<Kind, KindSum> {
    let one = |(kind, now): (&Kind, &KindSum)| {
        let was = was.get(kind).copied().unwrap_or_default();
        let sum = KindSum {
            count: now.count.saturating_sub(was.count),
            ns: now.ns.saturating_sub(was.ns),
            slow: now.slow.saturating_sub(was.slow),
        };
        (sum.count > 0).then_some((*kind, sum))
    };
    now.iter().filter_map(one).collect()
}

/// Files that appear in the interval, those of the longest operations first.
fn files(operations: &[Slow], commits: &[Commit]) -> BTreeSet<FileId> {
    let own = operations.iter().filter_map(|s| s.operation.file);
    let ordered = commits
        .iter()
        .flat_map(|c| c.ordered.iter().map(|o| o.file));
    own.chain(ordered).take(NAMED).collect()
}

/// The array of a filesystem, and the members below it that are not arrays themselves.
struct Place {
    array: String,
    members: BTreeSet<u32>,
}

fn places(topology: &Topology) -> BTreeMap<u32, Place> {
    let arrays = &topology.host.arrays;
    let is_array = |dev| arrays.iter().any(|a| a.is_md() && a.dev == dev);
    let is_nested = |array: &Array| {
        let members = arrays.iter().flat_map(|a| &a.members);
        members.filter(|m| m.dev == array.dev).count() > 0 && array.is_md()
    };
    let mut places: BTreeMap<u32, Place> = BTreeMap::new();
    for array in arrays {
        for fs in &array.filesystems {
            let place = places.entry(fs.dev.kernel()).or_insert_with(|| Place {
                array: array.name.clone(),
                members: BTreeSet::new(),
            });
            if !is_nested(array) {
                place.array.clone_from(&array.name);
            }
            let leaves = array.members.iter().filter(|m| !is_array(m.dev));
            place
                .members
                .extend(leaves.flat_map(|m| [m.dev.kernel(), m.disk.kernel()]));
        }
    }
    places
}

/// Traced devices: ext filesystems, and all members.
fn devices(topology: &Topology) -> BTreeMap<u32, Device> {
    let mut devices: BTreeMap<u32, Device> = BTreeMap::new();
    for array in &topology.host.arrays {
        for fs in &array.filesystems {
            let is_ext = fs.mounts.iter().any(|m| m.fstype.starts_with("ext"));
            if is_ext || topology.layouts.contains_key(&fs.dev) {
                devices.entry(fs.dev.kernel()).or_default().filesystem = true;
            }
        }
        for member in &array.members {
            let device = devices.entry(member.dev.kernel()).or_default();
            device.member = true;
            device.bio_based |= member.queue.bio_based;
            if !member.queue.bio_based {
                devices.entry(member.disk.kernel()).or_default().disk = true;
            }
        }
    }
    devices
}

fn names(topology: &Topology) -> Names {
    let mut names = Names::default();
    for array in &topology.host.arrays {
        names
            .members
            .insert(array.name.clone(), array.members.len());
        let filesystems = array.filesystems.iter().map(|fs| (fs.dev, &fs.name));
        let members = array.members.iter().map(|m| (m.dev, &m.name));
        let disks = array.members.iter().map(|m| (m.disk, &m.disk_name));
        for (dev, name) in disks.chain(filesystems).chain(members) {
            names.devices.insert(dev.kernel(), name.clone());
        }
    }
    names
}
