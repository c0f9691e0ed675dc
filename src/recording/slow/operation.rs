//! A slow operation as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FileLine, PARTS, SlowLineReader, nanoseconds};
use crate::analysis::slow::asynchronous::Asynchronous;
use crate::analysis::slow::event::{
    LockWait, OffCpu, Operation, OperationFlags, OperationKind, Task,
};
use crate::analysis::slow::names::SlowOperation;
use crate::analysis::slow::phase::Phase;
use crate::analysis::slow::sentence::sentence;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::slow::waterfall::{Culprit, PhaseTime, Waterfall};
use crate::printable::{escape, sanitize};
use crate::recording::limits::at_most;

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OperationLine {
    op: OperationKind,
    start: String,
    pid: u32,
    tgid: u32,
    comm: String,
    path: Option<String>,
    inode: Option<u64>,
    generation: Option<u32>,
    array: Option<String>,
    /// Kernel name of the filesystem's device; `None` for a sync of all filesystems.
    filesystem: Option<String>,
    position: u64,
    bytes: u64,
    direct: bool,
    synchronous: bool,
    /// Direct reads and writes of the file in flight when an asynchronous one began, itself
    /// included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    total_us: u64,
    /// Phases of the operation; their times add up to `total_us`.
    #[serde(deserialize_with = "at_most::<_, _, PARTS>")]
    phases: Vec<PhaseLine>,
    sentence: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PhaseLine {
    phase: Phase,
    us: u64,
    member: Option<String>,
    /// Length of the member's flush or IO; 0 for less than a millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    member_us: Option<u64>,
    /// Length of the longest flush or IO of another member; 0 for less than a millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other_members_us: Option<u64>,
    task: Option<Task>,
    /// Reason why the task is to blame: its handle or its operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    file: Option<FileLine>,
    /// Upper bound of the bytes of the file's data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Device of the external journal that the operation waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<String>,
    #[serde(
        default,
        deserialize_with = "at_most::<_, _, PARTS>",
        skip_serializing_if = "Vec::is_empty"
    )]
    stack: Vec<String>,
}

impl OperationLine {
    pub fn new(slow: &SlowOperation, snapshot: &SlowSnapshot) -> Self {
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
                    phase,
                    us: part.ns / 1000,
                    member: names.member(culprit),
                    member_us: culprit.member.map(|(_, ns)| ns / 1000),
                    other_members_us: culprit.member.map(|_| culprit.other_members_ns / 1000),
                    task: culprit.task.clone(),
                    reason: culprit.what.clone(),
                    file: culprit.file.as_ref().map(|f| FileLine::new(f, names)),
                    bytes: culprit.bytes,
                    journal: culprit.journal.map(|dev| names.device(dev)),
                    stack: stack.map(|f| sanitize(f.as_bytes())).collect(),
                }
            })
            .collect();
        // Add the time lost by rounding to microseconds to the longest phase.
        let sum: u64 = phases.iter().map(|p| p.us).sum();
        if let Some(longest) = phases.first_mut() {
            longest.us += total_us.saturating_sub(sum);
        }
        Self {
            op: op.kind,
            start: snapshot.wall(op.start_ns).to_string(),
            pid: op.task.pid,
            tgid: op.tgid,
            comm: sanitize(&op.task.comm),
            path: op.file.as_ref().and_then(|f| names.path(f)).map(escape),
            inode: op.file.map(|f| f.inode),
            generation: op.file.map(|f| f.generation),
            array: slow.array.clone(),
            filesystem: (op.dev != 0).then(|| names.device(op.dev)),
            position: op.position,
            bytes: op.bytes,
            direct: op.flags.direct,
            synchronous: op.flags.syncs,
            depth: Some(op.asynchronous.depth).filter(|depth| *depth > 0),
            total_us,
            phases,
            sentence: sentence(slow, names),
        }
    }

    pub fn read(
        self,
        unended: bool,
        reading: &mut SlowLineReader,
    ) -> Result<SlowOperation, String> {
        let dev = match &self.filesystem {
            Some(name) => reading.device(name)?,
            None => 0,
        };
        let file = self.inode.map(|inode| {
            let name =
                FileLine { path: self.path, inode, generation: self.generation.unwrap_or(0) };
            name.read(dev, reading)
        });
        let start_ns = nanoseconds(&self.start)?;
        let parts: Result<BTreeMap<Phase, PhaseTime>, String> = self
            .phases
            .into_iter()
            .map(|line| Ok((line.phase, line.read(dev, reading)?)))
            .collect();
        Ok(SlowOperation {
            operation: Operation {
                kind: self.op,
                task: Task { pid: self.pid, comm: self.comm.into_bytes() },
                tgid: self.tgid,
                file,
                dev,
                start_ns,
                end_ns: start_ns.saturating_add(self.total_us.saturating_mul(1000)),
                position: self.position,
                bytes: self.bytes,
                flags: OperationFlags {
                    direct: self.direct,
                    syncs: self.synchronous,
                    ..OperationFlags::default()
                },
                // Not recorded: the phases contain what is derived from these.
                lock: LockWait::default(),
                pusher: None,
                asynchronous: Asynchronous {
                    depth: self.depth.unwrap_or(0),
                    ..Asynchronous::default()
                },
                off: OffCpu::default(),
            },
            waterfall: Waterfall { parts: parts? },
            unended,
            array: self.array,
        })
    }
}

impl PhaseLine {
    fn read(self, dev: u32, reading: &mut SlowLineReader) -> Result<PhaseTime, String> {
        let us = |us: Option<u64>| us.unwrap_or(0).saturating_mul(1000);
        let stack: Vec<Arc<str>> = self.stack.into_iter().map(Arc::from).collect();
        let member = match &self.member {
            Some(name) => Some((reading.device(name)?, us(self.member_us))),
            None => None,
        };
        let journal = self.journal.as_deref().map(|name| reading.device(name)).transpose()?;
        Ok(PhaseTime {
            ns: self.us.saturating_mul(1000),
            culprit: Culprit {
                member,
                other_members_ns: us(self.other_members_us),
                task: self.task,
                what: self.reason,
                file: self.file.map(|file| file.read(dev, reading)),
                bytes: self.bytes,
                journal,
            },
            stack: (!stack.is_empty()).then(|| stack.into()),
        })
    }
}
