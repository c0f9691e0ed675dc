//! Cuts a wait for a commit by the states of the commit.

use std::collections::BTreeMap;

use super::event::{Commit, CommitState, MemberIo, Stack};
use super::phase::{self, Phase, plain};

/// Cuts a wait from `from` to `to` into consecutive pieces: (phase, length in ns, index of the
/// commit in `commits`). `commits` are those of one journal, in order of their starts. The lengths
/// add up to `to - from`.
///
/// The awaited commit is the last one whose record was on disk before the wait ended:
/// jbd2_log_wait_commit() returns when `j_commit_sequence` is set, right after jbd2_run_stats
/// (fs/jbd2/commit.c).
pub fn cut(
    from: u64,
    to: u64,
    commits: &[&Commit],
    ios: &[MemberIo],
) -> Vec<(Phase, u64, Option<usize>)> {
    let overlaps = |c: &Commit| {
        c.start_ns().is_some_and(|start| start < to) && c.end_ns().is_some_and(|end| end > from)
    };
    let among: Vec<usize> = (0..commits.len()).filter(|&i| overlaps(commits[i])).collect();
    let is_done = |i: &usize| commits[*i].reached(CommitState::Tail).is_some_and(|t| t <= to);
    let awaited = among.iter().copied().rfind(is_done).or_else(|| among.last().copied());
    let Some(awaited) = awaited else {
        return vec![(Phase::Commit, to - from, None)];
    };
    let mut pieces = CommitPhases { at: from, to, found: Vec::new() };
    let start = commits[awaited].start_ns().unwrap_or(from);
    for &i in among.iter().filter(|&&i| i < awaited) {
        let (Some(begin), Some(end)) = (commits[i].start_ns(), commits[i].end_ns()) else {
            continue;
        };
        pieces.until(begin, Phase::CommitStart, Some(awaited));
        pieces.until(end.min(start), Phase::PreviousCommit, Some(i));
    }
    for (until, phase) in states(commits[awaited], ios) {
        pieces.until(until, phase, Some(awaited));
    }
    pieces.until(to, Phase::WakeUp, Some(awaited));
    pieces.found
}

/// Consecutive pieces from `at` on.
struct CommitPhases {
    at: u64,
    to: u64,
    found: Vec<(Phase, u64, Option<usize>)>,
}

impl CommitPhases {
    /// Adds a piece that ends at `until`, if `until` is later than the end of the last piece.
    fn until(&mut self, until: u64, phase: Phase, commit: Option<usize>) {
        let until = until.min(self.to);
        if until > self.at {
            self.found.push((phase, until - self.at, commit));
            self.at = until;
        }
    }
}

/// Maximum time, on a busy machine, from the submission of a commit record to the flushes that md
/// sends to members first.
const MAX_MD_FLUSH_NS: u64 = 50_000_000;

/// Ends of the phases of a commit, in order.
fn states(commit: &Commit, ios: &[MemberIo]) -> Vec<(u64, Phase)> {
    let reached = |state| commit.reached(state).unwrap_or(0);
    let end = commit.end_ns().unwrap_or(0);
    let tail = commit.reached(CommitState::Tail).unwrap_or(end);
    let logged = reached(CommitState::Logging);
    let record = commit.record_ns.unwrap_or_else(|| reached(CommitState::Record)).min(tail);
    let blocks = reached(CommitState::Blocks).min(record);
    let mut found = vec![
        // Includes the write of the journal's superblock before the first commit after a mount.
        (reached(CommitState::Locked), Phase::CommitStart),
        (reached(CommitState::Flushing), Phase::TransactionLocked),
        (logged, Phase::OrderedSubmit),
    ];
    // The thread waits for all ordered data in one loop, after the submission of metadata.
    if let Some((first, last)) = ordered(commit) {
        found.push((first.min(blocks), Phase::JournalSubmit));
        found.push((last.min(blocks), Phase::OrderedData));
    }
    found.push((blocks, Phase::JournalSubmit));
    if let Some((first, last)) = slept_in(commit, |stack| phase::classify(stack) == Phase::OwnFlush)
    {
        found.push((first.min(record), Phase::JournalBlocks));
        found.push((last.min(record), Phase::DataFlush));
    }
    found.push((record, Phase::JournalBlocks));
    // Since 6.12 md writes the record in parallel with the flush: while the flush lasts, the wait
    // is for the flush.
    let flushes = ios.iter().filter(|b| {
        b.flush && b.start_ns < tail.min(record + MAX_MD_FLUSH_NS) && b.end_ns > record
    });
    let flushed = flushes.map(|b| b.end_ns).max();
    let recorded = recorded(commit, record).unwrap_or(tail).min(tail);
    if let Some(flushed) = flushed {
        found.push((flushed.min(recorded), Phase::CommitFlush));
    }
    found.push((recorded, Phase::CommitRecord));
    found.push((end, Phase::CommitTail));
    found
}

/// Longest flush, or FUA write, of each member while the commit's flush and record were written:
/// device number and length in ns, longest first. `ios` are those of the members of the
/// filesystem's array.
pub fn flushes(commit: &Commit, ios: &[MemberIo]) -> Vec<(u32, u64)> {
    let end = commit.reached(CommitState::Tail).or_else(|| commit.end_ns());
    let from = commit.record_ns.or_else(|| commit.reached(CommitState::Record));
    let (Some(from), Some(end)) = (from, end) else {
        return Vec::new();
    };
    let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
    for io in ios {
        if (io.flush || io.fua) && io.overlaps((from, end)) {
            let ns = longest.entry(io.dev).or_default();
            *ns = (*ns).max(io.total_ns());
        }
    }
    let mut all: Vec<(u32, u64)> = longest.into_iter().collect();
    all.sort_by_key(|(dev, ns)| (std::cmp::Reverse(*ns), *dev));
    all
}

/// Time at which the journal's thread had finished waiting for the commit record, which was
/// submitted at `record`. jbd2_run_stats comes later, after the log's tail and the buffers to
/// forget. `None` if the thread did not sleep.
fn recorded(commit: &Commit, record: u64) -> Option<u64> {
    let of_record = |stack: &Stack| {
        let mut names = stack.iter().map(|f| plain(f));
        let waits = names.by_ref().any(|f| f == "__wait_on_buffer");
        let by = names.next().unwrap_or_default();
        waits && matches!(by, "jbd2_journal_commit_transaction" | "journal_wait_on_commit_record")
    };
    let sleeps = commit.off.sleeps.iter();
    sleeps
        .filter(|s| s.last_ns > record && s.stack.as_ref().is_some_and(of_record))
        .map(|s| s.last_ns)
        .max()
}

/// Start of the first and end of the last sleep of the journal's thread for ordered data.
pub(super) fn ordered(commit: &Commit) -> Option<(u64, u64)> {
    slept_in(commit, |stack| {
        stack.iter().any(|f| {
            matches!(
                plain(f),
                "ext4_journal_finish_inode_data_buffers"
                    | "jbd2_journal_finish_inode_data_buffers"
                    | "filemap_fdatawait_range_keep_errors"
                    | "journal_finish_inode_data_buffers"
                    | "folio_wait_writeback"
                    | "wait_on_page_writeback"
            )
        })
    })
}

fn slept_in(commit: &Commit, is: impl Fn(&Stack) -> bool) -> Option<(u64, u64)> {
    let sleeps = commit.off.sleeps.iter();
    sleeps
        .filter(|s| s.stack.as_ref().is_some_and(&is))
        .map(|s| (s.first_ns, s.last_ns))
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}
