//! An operation as phases that add up to its length.

use std::collections::BTreeMap;

use super::asynchronous::OwnIo;
use super::commit::{cut, ordered};
use super::event::{
    Commit, CommitReason, CommitState, Holder, MemberIo, Operation, OperationKind, Stack,
    StackSleeps, Task,
};
use super::phase::{Phase, classify};
use crate::analysis::files::FileId;

/// A phase of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseTime {
    /// Time in ns.
    pub ns: u64,
    /// Cause of the phase.
    pub culprit: Culprit,
    /// Stack with the most time, for waits without a phase of their own.
    pub stack: Option<Stack>,
}

/// The known causes of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    /// Device number of the member whose IO caused the phase, and the length of that IO in ns.
    pub member: Option<(u32, u64)>,
    /// Longest IO of any other member in the same time, in ns.
    pub other_members_ns: u64,
    /// Task that held the lock or the transaction, or whose request began the commit.
    pub task: Option<Task>,
    /// Kind of the task's handle, or the task's operation and the reason why it excludes others.
    pub what: Option<String>,
    /// File whose data was waited for.
    pub file: Option<FileId>,
    /// Upper bound of the bytes of that data: from the first to the last byte that had to be
    /// written.
    pub bytes: Option<u64>,
    /// Device number of the external journal that was waited for.
    pub journal: Option<u32>,
}

/// Phases of an operation, in ns; they add up to its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waterfall {
    pub parts: BTreeMap<Phase, PhaseTime>,
}

impl Waterfall {
    /// Computes the phases of an operation. `commits`: of all journals, in order of their starts.
    /// `ios`: of all members of the filesystem's array.
    pub fn new(op: &Operation, commits: &[&Commit], ios: &[MemberIo]) -> Self {
        let mut waterfall = Self::default();
        let total = op.total_ns();
        let mut left = total;
        // Take each piece from the remaining time, so that the phases never exceed the length.
        let mut take = |ns: u64| {
            let ns = ns.min(left);
            left -= ns;
            ns
        };
        waterfall.add(Phase::RunQueue, take(op.off.queued_ns));
        waterfall.add(Phase::Other, take(op.off.missed_ns));
        for sleep in &op.off.sleeps {
            let ns = take(sleep.ns);
            let stack = sleep.stack.as_deref().unwrap_or_default();
            match classify(stack) {
                Phase::Commit => waterfall.add_commit(op, sleep, ns, commits, ios),
                phase => waterfall.add_wait(phase, ns, op, sleep, commits, ios),
            }
        }
        for (phase, first_ns, last_ns) in op.asynchronous.spans(op.end_ns) {
            let ns = take(last_ns - first_ns);
            let wait = StackSleeps { stack: None, count: 1, ns, first_ns, last_ns };
            waterfall.add_wait(phase, ns, op, &wait, commits, ios);
        }
        let others = op
            .off
            .sleeps
            .iter()
            .filter(|s| s.stack.as_ref().is_some_and(|stack| classify(stack) == Phase::Other));
        if let Some(part) = waterfall.parts.get_mut(&Phase::Other) {
            part.stack = others.max_by_key(|s| s.ns).and_then(|s| s.stack.clone());
        }
        waterfall.add(Phase::Cpu, left);
        waterfall.parts.retain(|_, part| part.ns > 0);
        waterfall
    }

    /// XFS's log is on another device, whose IO is not traced: no member is the cause of waits for
    /// the log.
    pub fn log_is_on(&mut self, dev: u32) {
        for phase in [Phase::CilPush, Phase::LogIo] {
            if let Some(part) = self.parts.get_mut(&phase) {
                part.culprit = Culprit { journal: Some(dev), ..Culprit::default() };
            }
        }
    }

    /// RAID 5 waits for a reshape and, if the compiler has inlined the functions in between, for an
    /// earlier write in the same function. Here the array is not being reshaped.
    pub fn not_reshaped(&mut self) {
        if let Some(reshape) = self.parts.remove(&Phase::Reshape) {
            let part = self.parts.entry(Phase::Overlap).or_default();
            part.ns += reshape.ns;
            part.culprit = reshape.culprit;
        }
    }

    /// Phases, longest first.
    pub fn longest(&self) -> Vec<(Phase, &PhaseTime)> {
        let mut parts: Vec<_> = self.parts.iter().map(|(p, part)| (*p, part)).collect();
        parts.sort_by_key(|(phase, part)| (std::cmp::Reverse(part.ns), *phase));
        parts
    }

    fn add(&mut self, phase: Phase, ns: u64) {
        self.parts.entry(phase).or_default().ns += ns;
    }

    /// Adds a wait other than one for a commit.
    fn add_wait(
        &mut self,
        phase: Phase,
        ns: u64,
        op: &Operation,
        wait: &StackSleeps,
        commits: &[&Commit],
        ios: &[MemberIo],
    ) {
        let is_write =
            phase == Phase::OwnData || phase == Phase::DirectIo && op.kind == OperationKind::Write;
        let span = (wait.first_ns, wait.last_ns);
        let reads = if is_write { self.add_pre_reads(span, ns, ios) } else { 0 };
        self.add(phase, ns - reads);
        self.blame(phase, op, wait, commits, ios);
    }

    /// Adds the part of a wait for writes in which RAID 4/5/6 read blocks for parity, and returns
    /// its length. `ns` is the time asleep within `span`.
    fn add_pre_reads(&mut self, span: (u64, u64), ns: u64, ios: &[MemberIo]) -> u64 {
        let in_flight = in_flight(span, ios, |b| b.pre_read);
        let length = span.1.saturating_sub(span.0);
        // Several waits with other work between them cannot be divided.
        if in_flight == 0 || length > ns + ns / 4 + MAX_GAP_NS {
            return 0;
        }
        let share = (u128::from(in_flight) * u128::from(ns) / u128::from(length.max(1))) as u64;
        self.add(Phase::PreRead, share);
        let culprit = &mut self.parts.entry(Phase::PreRead).or_default().culprit;
        culprit.longest(span, ios, |b| b.pre_read);
        share
    }

    /// Cuts a wait for a commit. Scales the pieces to the time asleep.
    fn add_commit(
        &mut self,
        op: &Operation,
        sleep: &StackSleeps,
        ns: u64,
        commits: &[&Commit],
        ios: &[MemberIo],
    ) {
        let own: Vec<&Commit> =
            commits.iter().copied().filter(|c| op.dev == 0 || c.dev == op.dev).collect();
        let (from, to) = (sleep.first_ns, sleep.last_ns.max(sleep.first_ns));
        // With commits of several journals, or several waits with other work between them, it is
        // unknown which part belongs to which commit.
        let several = own.iter().any(|c| own.first().is_some_and(|o| o.dev != c.dev));
        if several || to - from > ns + ns / 4 + MAX_GAP_NS {
            self.add(Phase::Commit, ns);
            return;
        }
        let pieces = cut(from, to, &own, ios);
        let whole = (to - from).max(1);
        let mut left = ns;
        let mut at = from;
        for (phase, length, commit) in &pieces {
            let share = (u128::from(*length) * u128::from(ns) / u128::from(whole)) as u64;
            let share = share.min(left);
            left -= share;
            let is_here = commit.and_then(|i| own.get(i)).is_some_and(|c| c.journal.is_none());
            let reads = if *phase == Phase::JournalBlocks && is_here {
                self.add_pre_reads((at, at + length), share, ios)
            } else {
                0
            };
            at += length;
            self.add(*phase, share - reads);
            if let Some(commit) = commit.and_then(|i| own.get(i)) {
                self.blame_commit(*phase, commit, ios);
            }
        }
        // Add the remainder of rounding.
        let longest = pieces.iter().max_by_key(|p| p.1).map_or(Phase::Commit, |p| p.0);
        self.add(longest, left);
    }

    /// Finds the cause of a phase of a commit.
    fn blame_commit(&mut self, phase: Phase, commit: &Commit, ios: &[MemberIo]) {
        use Phase::*;
        let culprit = &mut self.parts.entry(phase).or_default().culprit;
        let is_data = |b: &MemberIo| b.write && !b.flush;
        match phase {
            TransactionLocked => {
                if let Some(Holder { task, handle, .. }) = commit.holders.last() {
                    culprit.task = Some(task.clone());
                    culprit.what = Some(format!("{handle} handle"));
                }
            }
            OrderedData | OrderedSubmit => {
                let longest = commit.ordered.iter().max_by_key(|o| o.ns);
                culprit.file = longest.map(|o| o.file);
                culprit.task = longest.and_then(|o| o.writer.clone());
                culprit.bytes = longest.and_then(|o| o.bytes);
                if let Some(span) = ordered(commit) {
                    culprit.waited((0, span.1), ios, is_data);
                    culprit.forget_unless_busy(span, ios, is_data);
                }
            }
            JournalBlocks | CommitFlush | CommitRecord if commit.journal.is_some() => {
                culprit.journal = commit.journal;
            }
            DataFlush => {
                let (from, to) =
                    (commit.reached(CommitState::Logging), commit.reached(CommitState::Tail));
                if let Some(span) = from.zip(to) {
                    culprit.flushed(span, ios, |b| b.flush);
                }
            }
            JournalBlocks => {
                if let Some(until) =
                    commit.record_ns.or_else(|| commit.reached(CommitState::Record))
                {
                    culprit.waited((0, until), ios, is_data);
                }
            }
            PreviousCommit | CommitStart | JournalBuffer => {
                if let CommitReason::By(task, _) = &commit.request {
                    culprit.task = Some(task.clone());
                }
            }
            CommitFlush | CommitRecord => {
                let flush = phase == CommitFlush;
                let from = commit.record_ns.or_else(|| commit.start_ns());
                let to = commit.reached(CommitState::Tail);
                if let (Some(from), Some(to)) = (from, to) {
                    culprit.flushed((from, to), ios, |b| {
                        if flush { b.flush } else { b.fua && !b.flush }
                    });
                }
            }
            _ => {}
        }
    }

    /// Finds the cause of a phase other than a wait for a commit.
    fn blame(
        &mut self,
        phase: Phase,
        op: &Operation,
        sleep: &StackSleeps,
        commits: &[&Commit],
        ios: &[MemberIo],
    ) {
        use Phase::*;
        // A handle cannot start until the locked transaction has no more handles, and cannot change
        // a block until the block's commit is done.
        let until = match phase {
            TransactionLocked => Some(CommitState::Flushing),
            JournalBuffer => Some(CommitState::Ended),
            _ => None,
        };
        if let Some(until) = until {
            let in_the_way = commits.iter().rfind(|c| {
                c.dev == op.dev
                    && c.reached(CommitState::Locked).is_some_and(|t| t < sleep.last_ns)
                    && c.reached(until).is_some_and(|t| t > sleep.first_ns)
            });
            if let Some(commit) = in_the_way {
                self.blame_commit(phase, commit, ios);
            }
            return;
        }
        let part = self.parts.entry(phase).or_default();
        let culprit = &mut part.culprit;
        match phase {
            MdSuperblock | OwnFlush | DataFlush => {
                // md or the task submitted the flush before the task slept.
                let span = (op.start_ns, sleep.last_ns);
                culprit.flushed(span, ios, |b| b.flush && b.end_ns > sleep.first_ns);
            }
            OwnData | DirectIo | DataRead | MetadataRead => {
                let write = match phase {
                    OwnData => true,
                    DirectIo => op.kind == OperationKind::Write,
                    _ => false,
                };
                // The operation's own IO began after it. With many in flight, that of others ends
                // all the time.
                let from = if phase == DirectIo { op.start_ns } else { 0 };
                let own = |io: &OwnIo| phase == DirectIo && io.end_ns > sleep.first_ns;
                match op.asynchronous.io.filter(own) {
                    Some(io) => culprit.of_own(&io, ios, write),
                    None => culprit.waited((from, sleep.last_ns), ios, |b| b.write == write),
                }
                if phase == OwnData {
                    culprit.forget_unless_busy((sleep.first_ns, sleep.last_ns), ios, |b| b.write);
                }
            }
            MdBitmap | WriteBehind | Overlap | Reshape => {
                let is = |b: &MemberIo| b.write || b.flush;
                culprit.waited((0, sleep.last_ns), ios, is);
                culprit.forget_unless_busy((sleep.first_ns, sleep.last_ns), ios, is);
            }
            DeviceQueue | Device => {
                if let Some(io) = op.asynchronous.io {
                    culprit.of_own(&io, ios, op.kind == OperationKind::Write);
                }
            }
            InodeLock => {
                culprit.task.clone_from(&op.lock.holder);
                culprit.what = reason(op);
            }
            LogSpace => {
                culprit.task.clone_from(&op.pusher);
                if op.flags.xfs {
                    let span = (sleep.first_ns, sleep.last_ns);
                    culprit.longest(span, ios, |b| b.write);
                }
            }
            CilPush | LogIo => {
                let span = (sleep.first_ns, sleep.last_ns);
                culprit.longest(span, ios, |b| b.flush || b.fua);
                if culprit.member.is_none() {
                    culprit.waited((0, sleep.last_ns), ios, |b| b.write);
                }
            }
            _ => {}
        }
    }
}

/// Maximum time between several waits that count as one wait.
const MAX_GAP_NS: u64 = 1_000_000;
/// Maximum time between the end of an IO and the moment at which the waiting task runs again: the
/// task may be on a run queue.
const MAX_WAKE_UP_NS: u64 = 10_000_000;

impl Culprit {
    /// Sets the member of `io`, and the longest of the `concurrent` IO of other members.
    fn set<'a>(&mut self, io: &MemberIo, concurrent: impl Iterator<Item = &'a MemberIo>) {
        self.member = Some((io.dev, io.total_ns()));
        let others = concurrent.filter(|b| b.dev != io.dev);
        self.other_members_ns = others.map(MemberIo::total_ns).max().unwrap_or(0);
    }

    /// Sets the member of the operation's own IO, and the longest concurrent IO of another member.
    fn of_own(&mut self, io: &OwnIo, ios: &[MemberIo], write: bool) {
        self.member = Some((io.dev, io.end_ns.saturating_sub(io.start_ns)));
        let span = (io.start_ns, io.end_ns);
        let is_other = |b: &&MemberIo| b.write == write && b.dev != io.dev && b.overlaps(span);
        let others = ios.iter().filter(is_other).map(MemberIo::total_ns);
        self.other_members_ns = others.max().unwrap_or(0);
    }

    /// True if `io` took longer than the member's IO that is known so far: with several sleeps, the
    /// longest IO is the cause.
    fn is_shorter_than(&self, io: &MemberIo) -> bool {
        self.member.is_none_or(|(_, ns)| ns < io.total_ns())
    }

    /// Sets the member whose IO ended last before the waiting task continued at `until`, and the
    /// longest concurrent IO of another member. If the IO is known to have begun at `from` or
    /// later, the longest since then counts: a worker may complete it much later.
    fn waited(
        &mut self,
        (from, until): (u64, u64),
        ios: &[MemberIo],
        is: impl Fn(&MemberIo) -> bool,
    ) {
        let since = if from > 0 { from } else { until.saturating_sub(MAX_WAKE_UP_NS) };
        let among = || ios.iter().filter(|b| is(b));
        let ended = among().filter(|b| (since..=until).contains(&b.end_ns) && b.start_ns >= from);
        let last = ended.max_by_key(|b| if from > 0 { b.total_ns() } else { b.end_ns });
        if let Some(last) = last.filter(|b| self.is_shorter_than(b)) {
            let span = (last.start_ns, last.end_ns);
            self.set(last, among().filter(|b| b.overlaps(span)));
        }
    }

    /// Forgets the member if its IO was in flight in less than a tenth of the time: the end of the
    /// last of many short IOs is no cause.
    fn forget_unless_busy(
        &mut self,
        span: (u64, u64),
        ios: &[MemberIo],
        is: impl Fn(&MemberIo) -> bool,
    ) {
        self.member.take_if(|(dev, _)| {
            let busy = in_flight(span, ios, |b| b.dev == *dev && is(b));
            busy < span.1.saturating_sub(span.0) / 10
        });
    }

    /// Sets the member with the longest IO between two times, and the longest IO of another member.
    fn longest(&mut self, span: (u64, u64), ios: &[MemberIo], is: impl Fn(&MemberIo) -> bool) {
        let among = || ios.iter().filter(|b| is(b) && b.overlaps(span));
        let longest = among().max_by_key(|b| b.total_ns());
        if let Some(longest) = longest.filter(|b| self.is_shorter_than(b)) {
            self.set(longest, among());
        }
    }

    /// Sets the member whose flush ended last between two times, and the longest flush of another
    /// member. Flushes that began earlier count only if there are no others: before 6.12, md lets
    /// requests wait for the flush of another request (md_flush_request()).
    fn flushed(&mut self, span: (u64, u64), ios: &[MemberIo], is: impl Fn(&MemberIo) -> bool) {
        let in_time = |b: &&MemberIo| is(b) && b.overlaps(span);
        let began = ios.iter().any(|b| in_time(&b) && b.start_ns >= span.0);
        let counts = |b: &&MemberIo| in_time(b) && (!began || b.start_ns >= span.0);
        let among = || ios.iter().filter(counts);
        if let Some(last) = among().max_by_key(|b| b.end_ns) {
            self.set(last, among());
        }
    }
}

/// Time in ns between `from` and `to` with at least one such IO in flight.
fn in_flight((from, to): (u64, u64), ios: &[MemberIo], is: impl Fn(&MemberIo) -> bool) -> u64 {
    let ios = ios.iter().filter(|b| is(b) && b.overlaps((from, to)));
    let mut spans: Vec<(u64, u64)> = ios.map(|b| (b.start_ns, b.end_ns.min(to))).collect();
    spans.sort_unstable();
    let (mut ns, mut until) = (0, from);
    for (start, end) in spans {
        ns += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    ns
}

/// Describes the operation that held the inode's lock, and why it excludes others. The conditions
/// are those of fs/ext4/file.c and fs/xfs/xfs_file.c.
fn reason(op: &Operation) -> Option<String> {
    let lock = &op.lock;
    let flags = lock.flags;
    let text = match lock.kind? {
        OperationKind::Read if flags.direct => "direct read".to_owned(),
        OperationKind::Write if flags.direct => {
            let why = if flags.extends && flags.xfs {
                " that begins after the end of the file"
            } else if flags.extends {
                " that extends the file"
            } else if flags.unaligned {
                " that is not aligned to blocks"
            } else if flags.security {
                " to a file that may have privileges to remove (no S_NOSEC)"
            } else if flags.xfs {
                ""
            } else {
                " into a hole, unwritten blocks or several extents"
            };
            format!("direct write{why}")
        }
        OperationKind::Write => "buffered write".to_owned(),
        kind => kind.to_string(),
    };
    Some(text)
}
