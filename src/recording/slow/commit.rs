//! A commit of a journal as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{FileLine, PARTS, SlowLineReader, nanoseconds};
use crate::analysis::slow::event::{
    Commit, CommitReason, CommitState, Holder, OffCpu, OrderedFile, Purpose, STATES, Task,
};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::recording::limits::at_most;

/// Names of the times between consecutive states.
const LENGTHS: [(&str, CommitState, CommitState); STATES - 1] = {
    use CommitState::*;
    [
        ("start", Started, Locked),
        ("locked", Locked, Flushing),
        ("ordered_submit", Flushing, Logging),
        ("logging", Logging, Blocks),
        ("journal_blocks", Blocks, Record),
        ("commit_record", Record, Tail),
        ("tail", Tail, Ended),
    ]
};

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CommitLine {
    filesystem: String,
    tid: u32,
    start: Option<String>,
    /// `timer`, `task` or `unknown`.
    request: String,
    requester: Option<Task>,
    /// Why the task requested it.
    #[serde(default)]
    request_reason: Option<Purpose>,
    total_us: u64,
    handles: u32,
    blocks: u32,
    logged_blocks: u32,
    /// µs in each state.
    states: BTreeMap<String, u64>,
    #[serde(deserialize_with = "at_most::<_, _, PARTS>")]
    holders: Vec<Holder>,
    #[serde(deserialize_with = "at_most::<_, _, PARTS>")]
    ordered: Vec<OrderedLine>,
    /// µs spent waiting for the ordered data of files that are not in `ordered`.
    #[serde(default)]
    other_files_us: u64,
    /// Device of an external journal.
    #[serde(default)]
    journal: Option<String>,
    /// Flushes of members for the commit record, longest first.
    #[serde(default, deserialize_with = "at_most::<_, _, PARTS>")]
    flushes: Vec<FlushLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlushLine {
    member: String,
    us: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OrderedLine {
    file: FileLine,
    us: u64,
    pages: u32,
    #[serde(default)]
    bytes: Option<u64>,
    writer: Option<Task>,
}

impl CommitLine {
    pub fn new(commit: &Commit, snapshot: &SlowSnapshot) -> Self {
        let names = &snapshot.names;
        let length = |from, to| {
            let (from, to) = (commit.reached(from)?, commit.reached(to)?);
            Some(to.saturating_sub(from) / 1000)
        };
        let (request, requester, purpose) = match &commit.request {
            CommitReason::Timer => ("timer", None, None),
            CommitReason::Unknown => ("unknown", None, None),
            CommitReason::By(task, purpose) => ("task", Some(task.clone()), *purpose),
        };
        let total = commit.start_ns().zip(commit.end_ns());
        Self {
            filesystem: names.device(commit.dev),
            tid: commit.tid,
            start: commit.start_ns().map(|ns| snapshot.wall(ns).to_string()),
            request: request.to_owned(),
            requester,
            request_reason: purpose,
            total_us: total.map_or(0, |(from, to)| to.saturating_sub(from) / 1000),
            handles: commit.handles,
            blocks: commit.blocks,
            logged_blocks: commit.logged,
            states: LENGTHS
                .into_iter()
                .filter_map(|(name, from, to)| Some((name.to_owned(), length(from, to)?)))
                .collect(),
            holders: commit.holders.clone(),
            ordered: commit
                .ordered
                .iter()
                .map(|o| OrderedLine {
                    file: FileLine::new(&o.file, names),
                    us: o.ns / 1000,
                    pages: o.pages,
                    bytes: o.bytes,
                    writer: o.writer.clone(),
                })
                .collect(),
            other_files_us: commit.others_ns / 1000,
            journal: commit.journal.map(|dev| names.device(dev)),
            flushes: commit
                .flushes
                .iter()
                .map(|(dev, ns)| FlushLine { member: names.device(*dev), us: ns / 1000 })
                .take(PARTS)
                .collect(),
        }
    }

    pub fn read(self, reading: &mut SlowLineReader) -> Result<Commit, String> {
        let dev = reading.device(&self.filesystem)?;
        let journal = self.journal.as_deref().map(|name| reading.device(name)).transpose()?;
        let flush = |f: FlushLine| Ok((reading.device(&f.member)?, f.us.saturating_mul(1000)));
        let flushes: Result<Vec<_>, String> = self.flushes.into_iter().map(flush).collect();
        let flushes = flushes?;
        let mut state_ns = [None; STATES];
        if let Some(start) = self.start {
            let mut at = nanoseconds(&start)?;
            state_ns[CommitState::Started as usize] = Some(at);
            for (name, _, to) in LENGTHS {
                let Some(us) = self.states.get(name) else {
                    break;
                };
                at = at.saturating_add(us.saturating_mul(1000));
                state_ns[to as usize] = Some(at);
            }
        }
        let request = match (self.request.as_str(), self.requester) {
            ("timer", _) => CommitReason::Timer,
            (_, Some(task)) => CommitReason::By(task, self.request_reason),
            _ => CommitReason::Unknown,
        };
        Ok(Commit {
            dev,
            tid: self.tid,
            request,
            requested_ns: None,
            state_ns,
            record_ns: None,
            handles: self.handles,
            blocks: self.blocks,
            logged: self.logged_blocks,
            holders: self.holders,
            ordered: self
                .ordered
                .into_iter()
                .map(|o| OrderedFile {
                    file: o.file.read(dev, reading),
                    ns: o.us.saturating_mul(1000),
                    pages: o.pages,
                    bytes: o.bytes,
                    writer: o.writer,
                })
                .collect(),
            others_ns: self.other_files_us.saturating_mul(1000),
            flushes,
            journal,
            off: OffCpu::default(),
        })
    }
}
