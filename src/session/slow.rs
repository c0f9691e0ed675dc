//! Intervals of `raidtrace slow`: operations, the commits and flushes that they waited for, and their names.

use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::analysis::overhead::Overhead;
use crate::analysis::slow::advice;
use crate::analysis::slow::commit::flushes;
use crate::analysis::slow::event::{Commit, Event, Kind, MemberIo, Operation};
use crate::analysis::slow::holders::Holders;
use crate::analysis::slow::names::Slow;
use crate::analysis::slow::snapshot::{KindSum, SlowLost, SlowSnapshot};
use crate::analysis::slow::waterfall::Waterfall;
use crate::machine::topology::Topology;
use crate::probe::clock::monotonic_ns;
use crate::probe::slow::SlowProbe;
use crate::session::Session;

mod host;

use host::{Place, add_journals, devices, facts, names, places};

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
    /// Number of the last ones that no interval has listed.
    new_commits: usize,
    ios: VecDeque<MemberIo>,
    begun: Instant,
    drained: Instant,
    before: Before,
    /// Operations of the last interval that may have held a lock.
    holders: Holders,
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
            new_commits: 0,
            ios: VecDeque::new(),
            begun: Instant::now(),
            drained: Instant::now(),
            before: Before::default(),
            holders: Holders::default(),
        })
    }

    /// Drains the events, and begins to look for the paths of their files. Call this at least every [`DRAIN`].
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn drain(&mut self, session: &mut Session) -> Result<()> {
        if self.drained.elapsed() < DRAIN {
            return Ok(());
        }
        let known = self.operations.len();
        self.drain_now()?;
        let new = self.operations.iter().skip(known).take(NAMED);
        session.begin_to_locate(new.filter_map(|o| o.file));
        Ok(())
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
                Event::Commit(commit) => {
                    keep(&mut self.commits, *commit, COMMITS);
                    self.new_commits += 1;
                }
                Event::MemberIo(io) => keep(&mut self.ios, io, IOS),
            }
        }
        Ok(())
    }

    /// Limits of this kernel.
    pub fn notes(&self) -> &[String] {
        self.probe.notes()
    }

    /// Ends the interval. [`SlowSampler::complete`] adds what takes time.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn interval(&mut self, session: &Session) -> Result<SlowSnapshot> {
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

    /// Adds the paths of files, and then advice, to an interval. Waits for paths up to `patience`, and goes on draining meanwhile:
    /// an operation is listed once, unlike a figure that comes again in the next interval.
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn complete(
        &mut self,
        snapshot: &mut SlowSnapshot,
        session: &mut Session,
        patience: Duration,
    ) -> Result<()> {
        let files = snapshot.files(NAMED);
        let end = Instant::now() + patience;
        snapshot.names.files = session.locate(files.iter().copied());
        while files.iter().any(|id| session.is_looking_for(id)) && Instant::now() < end {
            thread::sleep(SETTLE);
            self.drain(session)?;
            snapshot.names.files = session.locate(files.iter().copied());
        }
        snapshot.advice = advice::find(&snapshot.operations, &snapshot.names, &facts(session));
        Ok(())
    }

    fn snapshot(&mut self, session: &Session) -> Result<SlowSnapshot> {
        let now = Instant::now();
        let interval = now - std::mem::replace(&mut self.begun, now);
        let topology = session.topology();
        let mut names = names(topology);
        let journals = self.commits.iter().filter_map(|c| c.journal);
        add_journals(&mut names, journals, session.sys());
        let places = places(topology);
        let current = devices(topology);
        let mut commits: Vec<&Commit> = self.commits.iter().collect();
        commits.sort_by_key(|c| c.start_ns());
        let mut ios: Vec<MemberIo> = self.ios.iter().copied().collect();
        ios.sort_unstable_by_key(|io| io.end_ns);
        let mut operations: Vec<Slow> = self
            .operations
            .drain(..)
            .map(|operation| {
                let place = places.get(&operation.dev);
                let (commits, ios) = beside(&operation, place, &commits, &ios);
                Slow {
                    waterfall: Waterfall::new(&operation, &commits, &ios),
                    array: place.map(|p| p.array.clone()),
                    operation,
                }
            })
            .collect();
        operations.sort_by_key(|s| std::cmp::Reverse(s.operation.total_ns()));
        self.holders.explain(&mut operations);
        let new = std::mem::take(&mut self.new_commits);
        let listed = self.commits.iter().rev().take(new);
        let mut commits: Vec<Commit> = listed.cloned().collect();
        for commit in &mut commits {
            let (from, to) = (commit.start_ns().unwrap_or(0), commit.end_ns());
            let place = places.get(&commit.dev);
            let ios = ios_between(&ios, from, to.unwrap_or(u64::MAX), place);
            commit.flushes = flushes(commit, &ios);
        }
        commits.sort_by_key(Commit::start_ns);
        if &current != self.probe.devices() {
            self.probe.set_devices(&current)?;
        }
        let kinds = self.probe.sums()?;
        let mut listed: BTreeMap<Kind, u64> = BTreeMap::new();
        for slow in &operations {
            *listed.entry(slow.operation.kind).or_default() += 1;
        }
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
            kinds: since(&kinds, &before.kinds, &listed),
            commits,
            advice: Vec::new(),
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

fn keep<T>(all: &mut VecDeque<T>, new: T, most: usize) {
    if all.len() >= most {
        all.pop_front();
    }
    all.push_back(new);
}

/// Sums of an interval. Those of slow operations are the ones that are `listed`: an operation that ends while the interval does can
/// be in the sums of the next one.
fn since(
    now: &BTreeMap<Kind, KindSum>,
    was: &BTreeMap<Kind, KindSum>,
    listed: &BTreeMap<Kind, u64>,
) -> BTreeMap<Kind, KindSum> {
    let one = |(kind, now): (&Kind, &KindSum)| {
        let was = was.get(kind).copied().unwrap_or_default();
        let slow = listed.get(kind).copied().unwrap_or(0);
        let sum = KindSum {
            count: now.count.saturating_sub(was.count).max(slow),
            ns: now.ns.saturating_sub(was.ns),
            slow,
        };
        (sum.count > 0).then_some((*kind, sum))
    };
    now.iter().filter_map(one).collect()
}

/// Commits and IO of members that overlap an operation, in the order given.
fn beside<'a>(
    op: &Operation,
    place: Option<&Place>,
    commits: &[&'a Commit],
    ios: &[MemberIo],
) -> (Vec<&'a Commit>, Vec<MemberIo>) {
    let of_op = |c: &&&Commit| {
        (op.dev == 0 || c.dev == op.dev)
            && c.start_ns().is_some_and(|start| start < op.end_ns)
            && c.end_ns().is_some_and(|end| end > op.start_ns)
    };
    (
        commits.iter().filter(of_op).copied().collect(),
        ios_between(ios, op.start_ns, op.end_ns, place),
    )
}

/// IO of the members of an array that overlaps a time. `ios`: in the order of their ends.
fn ios_between(ios: &[MemberIo], from: u64, to: u64, place: Option<&Place>) -> Vec<MemberIo> {
    let later = ios.partition_point(|io| io.end_ns <= from);
    let on = |io: &&MemberIo| io.start_ns < to && place.is_none_or(|p| p.members.contains(&io.dev));
    ios[later..].iter().filter(on).copied().collect()
}
