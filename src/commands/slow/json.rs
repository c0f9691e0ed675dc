//! `--json`: one object an interval and line, schema `raidtrace.slow/1`. Names and meaning of the fields never change.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::advice::slow::Advice;
use crate::analysis::slow::event::{Commit, Request, State, Task};
use crate::analysis::slow::names::Slow;
use crate::analysis::slow::sentence::sentence;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::printable::sanitize;
use crate::ui::json::write_line;

/// Writes `snapshot` as one line and flushes it.
pub fn write(out: &mut impl Write, snapshot: &SlowSnapshot) -> io::Result<()> {
    write_line(out, &Interval::new(snapshot))
}

#[derive(Serialize)]
struct Interval<'a> {
    schema: &'static str,
    time: String,
    interval_s: f64,
    threshold_us: u64,
    operations: Vec<Operation>,
    /// All operations that ended, slow or not.
    kinds: BTreeMap<&'static str, Kind>,
    commits: Vec<CommitLine>,
    advice: Vec<AdviceLine<'a>>,
    lost: Lost,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

#[derive(Serialize)]
struct AdviceLine<'a> {
    phase: String,
    #[serde(flatten)]
    advice: &'a Advice,
    evidence: &'a str,
}

#[derive(Serialize)]
struct Operation {
    op: &'static str,
    /// Start of the operation.
    start: String,
    pid: u32,
    tgid: u32,
    comm: String,
    path: Option<String>,
    inode: Option<u64>,
    array: Option<String>,
    filesystem: String,
    position: u64,
    bytes: u64,
    direct: bool,
    synchronous: bool,
    total_us: u64,
    /// They add up to `total_us`.
    phases: Vec<PhaseLine>,
    sentence: String,
}

#[derive(Serialize)]
struct PhaseLine {
    phase: String,
    us: u64,
    member: Option<String>,
    /// Length of the member's flush or IO, and the longest one of another member; 0 for less than a millisecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    member_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_members_us: Option<u64>,
    task: Option<TaskName>,
    /// Why the task is to blame: its handle or its operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    file: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
}

#[derive(Serialize)]
struct TaskName {
    pid: u32,
    comm: String,
}

impl TaskName {
    fn new(task: &Task) -> Self {
        Self {
            pid: task.pid,
            comm: sanitize(&task.comm),
        }
    }
}

#[derive(Serialize)]
struct Kind {
    count: u64,
    slow: u64,
    total_us: u64,
}

#[derive(Serialize)]
struct CommitLine {
    filesystem: String,
    tid: u32,
    start: Option<String>,
    /// `timer`, `task` or `unknown`.
    request: &'static str,
    requester: Option<TaskName>,
    total_us: u64,
    handles: u32,
    blocks: u32,
    logged_blocks: u32,
    states: BTreeMap<&'static str, u64>,
    holders: Vec<HolderLine>,
    ordered: Vec<OrderedLine>,
}

#[derive(Serialize)]
struct HolderLine {
    pid: u32,
    comm: String,
    handle: &'static str,
}

#[derive(Serialize)]
struct OrderedLine {
    file: String,
    us: u64,
    pages: u32,
}

#[derive(Serialize)]
struct Lost {
    events: u64,
    reasons: BTreeMap<&'static str, u64>,
}

impl<'a> Interval<'a> {
    fn new(s: &'a SlowSnapshot) -> Self {
        let lost = [
            ("slots", s.lost.slots),
            ("tables", s.lost.tables),
            ("buffer", s.lost.events),
            ("member_io", s.lost.ios),
        ];
        Self {
            schema: "raidtrace.slow/1",
            time: s.time.to_string(),
            interval_s: s.interval.as_secs_f64(),
            threshold_us: u64::try_from(s.threshold.as_micros()).unwrap_or(u64::MAX),
            operations: s.operations.iter().map(|o| operation(o, s)).collect(),
            kinds: s
                .kinds
                .iter()
                .map(|(kind, sum)| {
                    let kind_line = Kind {
                        count: sum.count,
                        slow: sum.slow,
                        total_us: sum.ns / 1000,
                    };
                    (kind.name(), kind_line)
                })
                .collect(),
            commits: s.commits.iter().map(|c| commit(c, s)).collect(),
            advice: s
                .advice
                .iter()
                .map(|found| AdviceLine {
                    phase: found.phase.name(),
                    advice: &found.advice,
                    evidence: &found.evidence,
                })
                .collect(),
            lost: Lost {
                events: s.lost.total(),
                reasons: lost.into_iter().filter(|(_, n)| *n > 0).collect(),
            },
            notes: &s.notes,
        }
    }
}

fn operation(slow: &Slow, snapshot: &SlowSnapshot) -> Operation {
    let names = &snapshot.names;
    let op = &slow.operation;
    let total_us = op.total_ns() / 1000;
    let mut phases: Vec<PhaseLine> = slow
        .waterfall
        .longest()
        .into_iter()
        .map(|(phase, part)| {
            let culprit = &part.culprit;
            let stack = part.stack.iter().flat_map(|s| s.iter());
            PhaseLine {
                phase: phase.name(),
                us: part.ns / 1000,
                member: names.member(culprit),
                member_us: culprit.member.map(|(_, ns)| ns / 1000),
                other_members_us: culprit.member.map(|_| culprit.other_members_ns / 1000),
                task: culprit.task.as_ref().map(TaskName::new),
                reason: culprit.what.clone(),
                file: culprit.file.as_ref().map(|f| names.file(f)),
                stack: stack.map(|f| sanitize(f.as_bytes())).collect(),
            }
        })
        .collect();
    // What rounding to microseconds has cut off goes to the longest phase.
    let sum: u64 = phases.iter().map(|p| p.us).sum();
    if let Some(longest) = phases.first_mut() {
        longest.us += total_us.saturating_sub(sum);
    }
    Operation {
        op: op.kind.name(),
        start: snapshot.wall(op.start_ns).to_string(),
        pid: op.task.pid,
        tgid: op.tgid,
        comm: sanitize(&op.task.comm),
        path: op
            .file
            .as_ref()
            .and_then(|f| names.path(f))
            .map(crate::printable::escape),
        inode: op.file.map(|f| f.inode),
        array: slow.array.clone(),
        filesystem: names.device(op.dev),
        position: op.position,
        bytes: op.bytes,
        direct: op.flags.direct,
        synchronous: op.flags.syncs,
        total_us,
        phases,
        sentence: sentence(slow, names),
    }
}

fn commit(commit: &Commit, snapshot: &SlowSnapshot) -> CommitLine {
    let names = &snapshot.names;
    let states = [
        ("start", State::Started, State::Locked),
        ("locked", State::Locked, State::Flushed),
        ("ordered_submit", State::Flushed, State::Logged),
        ("logging", State::Logged, State::Blocks),
        ("journal_blocks", State::Blocks, State::Record),
        ("commit_record", State::Record, State::Tail),
        ("tail", State::Tail, State::Ended),
    ];
    let length = |from, to| {
        let (from, to) = (commit.reached(from)?, commit.reached(to)?);
        Some(to.saturating_sub(from) / 1000)
    };
    let (request, requester) = match &commit.request {
        Request::Timer => ("timer", None),
        Request::Unknown => ("unknown", None),
        Request::By(task, _) => ("task", Some(TaskName::new(task))),
    };
    let total = commit.start_ns().zip(commit.end_ns());
    CommitLine {
        filesystem: names.device(commit.dev),
        tid: commit.tid,
        start: commit.start_ns().map(|ns| snapshot.wall(ns).to_string()),
        request,
        requester,
        total_us: total.map_or(0, |(from, to)| to.saturating_sub(from) / 1000),
        handles: commit.handles,
        blocks: commit.blocks,
        logged_blocks: commit.logged,
        states: states
            .into_iter()
            .filter_map(|(name, from, to)| Some((name, length(from, to)?)))
            .collect(),
        holders: commit
            .holders
            .iter()
            .map(|h| HolderLine {
                pid: h.task.pid,
                comm: sanitize(&h.task.comm),
                handle: h.handle,
            })
            .collect(),
        ordered: commit
            .ordered
            .iter()
            .map(|o| OrderedLine {
                file: names.file(&o.file),
                us: o.ns / 1000,
                pages: o.pages,
            })
            .collect(),
    }
}
