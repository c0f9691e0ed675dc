//! Intervals of `raidtrace slow`: operations, the commits and flushes that they waited for, and
//! their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::overhead::Overhead;
use crate::analysis::slow::advice;
use crate::analysis::slow::commit::flushes;
use crate::analysis::slow::event::{Commit, MemberIo, Operation, OperationKind, SlowEvent};
use crate::analysis::slow::holders::Holders;
use crate::analysis::slow::names::SlowOperation;
use crate::analysis::slow::snapshot::{KindSum, SlowLost, SlowSnapshot};
use crate::analysis::slow::waterfall::Waterfall;
use crate::machine::topology::Topology;
use crate::probe::clock::monotonic_ns;
use crate::probe::slow::{MAX_DESCRIBED, SlowProbe, TracedDevice, Unended};
use crate::session::Session;

mod earlier;
mod host;
mod limits;

use earlier::Earlier;
use host::{Place, add_journals, devices, facts, io_limits, names, places};

/// Interval of draining the events' buffer.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// A task that waits for a commit can return before the commit's last tracepoint.
const SETTLE_TIME: Duration = Duration::from_millis(5);
/// Maximum number of waits for further operations at the end of an interval.
const MAX_ROUNDS: usize = 4;
/// Maximum numbers of commits and member IOs that are kept for operations that end later.
const MAX_COMMITS: usize = 4096;
const MAX_IOS: usize = 1 << 16;
/// Maximum numbers of operations kept per interval, and of files that get a path.
const MAX_OPERATIONS: usize = 10_000;
const MAX_NAMED: usize = 256;

/// Attached programs and the events of the current interval.
pub struct SlowSampler {
    probe: SlowProbe,
    threshold: Duration,
    events: Vec<SlowEvent>,
    operations: Vec<Operation>,
    commits: VecDeque<Commit>,
    /// Number of commits at the end of `commits` that no interval has listed yet.
    new_commits: usize,
    ios: VecDeque<MemberIo>,
    started: Instant,
    drained: Instant,
    before: PreviousSums,
    /// Operations of the last interval that may have held a lock.
    holders: Holders,
    earlier: Earlier,
}

/// Cumulative figures at the end of the previous interval.
#[derive(Default)]
struct PreviousSums {
    /// Sums of all intervals since the programs were attached.
    kinds: Cube<OperationKind, KindSum>,
    lost: SlowLost,
    overhead: Overhead,
    /// Operations that were dropped because an interval had too many.
    dropped: u64,
}

impl SlowSampler {
    /// Attaches the programs for the ext4 and XFS filesystems of a session for `targets`.
    ///
    /// # Errors
    /// There is no ext4 or XFS, or the kernel refuses the programs.
    pub fn start(targets: &[String], topology: &Topology, threshold: Duration) -> Result<Self> {
        let devices = devices(topology);
        if !devices.values().any(|d| d.is_filesystem()) {
            let on = match targets {
                [] => "here".to_owned(),
                targets => format!("on {}", targets.join(", ")),
            };
            bail!(
                "no mounted ext4 or XFS {on}: slow operations are traced on these only; name a \
                 mount point, or an array, disk or partition that holds one"
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
            started: Instant::now(),
            drained: Instant::now(),
            before: PreviousSums::default(),
            holders: Holders::default(),
            earlier: Earlier::default(),
        })
    }

    /// Drains the events, and starts looking up the paths of their files. Call this at least every
    /// [`DRAIN_INTERVAL`].
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn drain(&mut self, session: &mut Session) -> Result<()> {
        if self.drained.elapsed() < DRAIN_INTERVAL {
            return Ok(());
        }
        let known = self.operations.len();
        self.drain_now()?;
        let new = self.operations.iter().skip(known).take(MAX_NAMED);
        session.begin_to_locate(new.filter_map(|o| o.file));
        Ok(())
    }

    fn drain_now(&mut self) -> Result<()> {
        self.drained = Instant::now();
        self.probe.drain(&mut self.events)?;
        for event in self.events.drain(..) {
            match event {
                SlowEvent::Operation(_) if self.operations.len() >= MAX_OPERATIONS => {
                    self.before.dropped += 1;
                }
                SlowEvent::Operation(operation) => self.operations.push(*operation),
                SlowEvent::Commit(commit) => {
                    keep(&mut self.commits, *commit, MAX_COMMITS);
                    self.new_commits += 1;
                }
                SlowEvent::MemberIo(io) => keep(&mut self.ios, io, MAX_IOS),
            }
        }
        Ok(())
    }

    /// Limits of this kernel.
    pub fn notes(&self) -> &[String] {
        self.probe.notes()
    }

    /// Ends the interval. [`SlowSampler::complete`] adds paths and advice, which take longer.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn interval(&mut self, session: &Session) -> Result<SlowSnapshot> {
        // Before the events, which the programs send after they have added to the sums.
        let kinds = self.probe.sums()?;
        let mut unended = self.probe.unended(session.sys(), &mut self.events)?;
        let least = u64::try_from(self.threshold.as_nanos()).unwrap_or(u64::MAX);
        let devices = self.probe.devices();
        let is_traced = |dev: u32| devices.get(&dev).is_some_and(|d| d.is_filesystem());
        let others =
            self.earlier.look(session.sys(), &unended.threads, is_traced, (least, monotonic_ns()));
        unended.count += others.len() as u64;
        unended.operations.extend(others);
        unended.operations.sort_by_key(|o| o.start_ns);
        unended.operations.truncate(MAX_DESCRIBED);
        self.drain_now()?;
        // One that has ended since it was found may have the stack of what its task did then.
        let of = |o: &Operation| (o.task.pid, o.start_ns);
        let ended: BTreeSet<_> = self.operations.iter().map(of).collect();
        let before = unended.operations.len();
        unended.operations.retain(|o| !ended.contains(&of(o)));
        unended.count -= (before - unended.operations.len()) as u64;
        // Wait for the commits of the last operations. More operations can end meanwhile.
        let mut seen = 0;
        for _ in 0..MAX_ROUNDS {
            if self.operations.len() == seen {
                break;
            }
            seen = self.operations.len();
            thread::sleep(SETTLE_TIME);
            self.drain_now()?;
        }
        self.snapshot(session, &kinds, unended)
    }

    /// Adds the paths of files, and then advice, to an interval. Waits up to `patience` for paths,
    /// because each operation is listed only once. Continues to drain events during the wait.
    ///
    /// # Errors
    /// The events cannot be read.
    pub fn complete(
        &mut self,
        snapshot: &mut SlowSnapshot,
        session: &mut Session,
        patience: Duration,
    ) -> Result<()> {
        let files = snapshot.files(MAX_NAMED);
        let end = Instant::now() + patience;
        snapshot.names.files = session.locate(files.iter().copied());
        while files.iter().any(|id| session.is_looking_for(id)) && Instant::now() < end {
            thread::sleep(SETTLE_TIME);
            self.drain(session)?;
            snapshot.names.files = session.locate(files.iter().copied());
        }
        snapshot.names.files.extend(self.earlier.files.clone());
        if snapshot.operations.is_empty() {
            return Ok(());
        }
        let mut facts = facts(session);
        let limited = snapshot.operations.iter().filter(|o| advice::can_be_limited(o));
        let tasks = limited.map(|o| o.operation.task.pid).take(MAX_NAMED);
        facts.io_limits = io_limits(session, tasks);
        snapshot.advice = advice::find(&snapshot.operations, &snapshot.names, &facts);
        Ok(())
    }

    /// Traces other devices from now on. The first ext4, or the first XFS, that is mounted after
    /// the start needs other programs; those in use continue until they are attached.
    ///
    /// # Errors
    /// The kernel refuses the programs or the devices.
    fn follow(&mut self, devices: &BTreeMap<u32, TracedDevice>) -> Result<()> {
        if devices == self.probe.devices() {
            return Ok(());
        }
        if self.probe.covers(devices) {
            return self.probe.set_devices(devices);
        }
        let probe = SlowProbe::start(devices, self.threshold)?;
        self.drain_now()?;
        self.probe = probe;
        let dropped = self.before.dropped;
        self.before = PreviousSums { dropped, ..PreviousSums::default() };
        Ok(())
    }

    fn snapshot(
        &mut self,
        session: &Session,
        kinds: &Cube<OperationKind, KindSum>,
        unended: Unended,
    ) -> Result<SlowSnapshot> {
        let now = Instant::now();
        let interval = now - std::mem::replace(&mut self.started, now);
        let topology = session.topology();
        let mut names = names(topology);
        let journals = self.commits.iter().filter_map(|c| c.journal);
        let places = places(topology);
        let journals = journals.chain(places.values().filter_map(|p| p.log));
        add_journals(&mut names, journals, session.sys());
        let current = devices(topology);
        let mut commits: Vec<&Commit> = self.commits.iter().collect();
        commits.sort_by_key(|c| c.start_ns());
        let mut ios: Vec<MemberIo> = self.ios.iter().copied().collect();
        ios.sort_unstable_by_key(|io| io.end_ns);
        let slow = |mut operation: Operation, unended, commits: &[&Commit], ios: &[MemberIo]| {
            let place = places.get(&operation.dev);
            if place.is_some_and(|p| p.completes_in_thread(operation.kind)) {
                operation.asynchronous.io = None;
            }
            let (commits, ios) = overlapping(&operation, place, commits, ios);
            let mut waterfall = Waterfall::new(&operation, &commits, &ios);
            if let Some(log) = place.and_then(|p| p.log) {
                waterfall.log_is_on(log);
            }
            if place.is_some_and(|p| !p.reshaped) {
                waterfall.not_reshaped();
            }
            if let Some(place) = place.filter(|_| unended) {
                place.name_member(&mut waterfall, operation.kind, session.sys());
            }
            SlowOperation { waterfall, array: place.map(|p| p.array.clone()), unended, operation }
        };
        let mut operations: Vec<SlowOperation> =
            self.operations.drain(..).map(|o| slow(o, false, &commits, &ios)).collect();
        commits.extend(&unended.commits);
        let all = [&ios[..], &unended.ios].concat();
        let open = unended.operations.into_iter().map(|o| slow(o, true, &commits, &all)).collect();
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
        let mut listed: BTreeMap<OperationKind, u64> = BTreeMap::new();
        for slow in &operations {
            *listed.entry(slow.operation.kind).or_default() += 1;
        }
        let lost = self.probe.lost()?;
        let overhead = self.probe.overhead();
        let mut reported = std::mem::take(&mut self.before.kinds);
        let kinds = since(kinds, &mut reported, &listed);
        let new = PreviousSums { kinds: reported, lost, overhead, dropped: 0 };
        let before = std::mem::replace(&mut self.before, new);
        let snapshot = SlowSnapshot {
            time: jiff::Timestamp::now(),
            clock_ns: monotonic_ns(),
            interval,
            threshold: self.threshold,
            operations,
            unended: open,
            unended_count: unended.count,
            kinds,
            commits,
            advice: Vec::new(),
            names,
            lost: SlowLost {
                slots: lost.slots - before.lost.slots,
                tables: lost.tables - before.lost.tables + before.dropped,
                events: lost.events - before.lost.events,
                missed: lost.missed.saturating_sub(before.lost.missed),
                ios: lost.ios - before.lost.ios,
            },
            overhead: overhead.since(&before.overhead),
            notes: self.probe.notes().to_vec(),
        };
        self.follow(&current)?;
        Ok(snapshot)
    }
}

fn keep<T>(all: &mut VecDeque<T>, new: T, limit: usize) {
    if all.len() >= limit {
        all.pop_front();
    }
    all.push_back(new);
}

/// Sums of an interval, which are added to `reported`. `now`: the programs' sums, read before the
/// events in `listed`. An operation that ended in between is counted with its event, and not again
/// when it is in the sums.
fn since(
    now: &Cube<OperationKind, KindSum>,
    reported: &mut Cube<OperationKind, KindSum>,
    listed: &BTreeMap<OperationKind, u64>,
) -> Cube<OperationKind, KindSum> {
    // The first operation of a kind may have ended in between.
    let kinds: BTreeSet<_> = now.keys().chain(listed.keys()).copied().collect();
    let one = |kind: OperationKind| {
        let (now, before) = (now.sum(&kind), reported.sum_mut(kind));
        let slow = listed.get(&kind).copied().unwrap_or(0);
        let count = now.count.saturating_sub(before.count).max(slow);
        let sum = KindSum { count, ns: now.ns.saturating_sub(before.ns), slow };
        (before.count, before.ns) = (before.count + count, now.ns);
        (count > 0).then_some((kind, sum))
    };
    kinds.into_iter().filter_map(one).collect()
}

/// Commits and IO of members that overlap an operation, in the order given.
fn overlapping<'a>(
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

/// IO of an array's members that overlaps a time range. `ios` must be sorted by end.
fn ios_between(ios: &[MemberIo], from: u64, to: u64, place: Option<&Place>) -> Vec<MemberIo> {
    let later = ios.partition_point(|io| io.end_ns <= from);
    let on = |io: &&MemberIo| io.start_ns < to && place.is_none_or(|p| p.members.contains(&io.dev));
    ios[later..].iter().filter(on).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of operations of three intervals with 100 each, all slow.
    fn counts(sums: [u64; 3], listed: [u64; 3]) -> [u64; 3] {
        let mut reported = Cube::default();
        let mut sums = sums.into_iter().zip(listed).map(|(count, slow)| {
            let now = KindSum { count, ns: 1000 * count, slow: 0 };
            let now = Cube::from([(OperationKind::Fsync, now)]);
            let sums = since(&now, &mut reported, &BTreeMap::from([(OperationKind::Fsync, slow)]));
            let sum = sums.sum(&OperationKind::Fsync);
            assert_eq!(sum.slow, slow);
            sum.count
        });
        std::array::from_fn(|_| sums.next().unwrap())
    }

    #[test]
    fn an_operation_that_ends_between_sums_and_events_counts_once() {
        assert_eq!(counts([100, 200, 300], [100, 100, 100]), [100, 100, 100]);
        assert_eq!(counts([92, 200, 298], [100, 100, 100]), [100, 100, 100]);
        assert_eq!(counts([100, 200, 300], [108, 92, 100]), [108, 92, 100]);
        assert_eq!(counts([100, 200, 300], [8, 9, 0]), [100, 100, 100]);
        // The first of its kind.
        assert_eq!(counts([0, 1, 2], [1, 0, 1]), [1, 0, 1]);
    }
}
