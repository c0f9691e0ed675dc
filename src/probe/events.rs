//! Drains the events of a recording.

use std::os::fd::{AsFd as _, AsRawFd as _};

use anyhow::{Context as _, Result};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use super::clock::monotonic_ns;
use super::entries::file_id;
use super::ring::Ring;
use super::skel::RaidtraceSkel;
use super::wire::{Wire, rt_event_request, rt_event_submission};
use crate::address::{ArraySector, DiskSector};
use crate::analysis::files::FileId;
use crate::contract::{self, RUN_SHIFT};
use crate::origin::{Op, Origin};

const REQUEST: u8 = contract::EVENT_REQUEST as u8;
const PART: u8 = contract::EVENT_PART as u8;
const SUBMISSION: u8 = contract::EVENT_SUBMISSION as u8;
const REFUSED: u8 = contract::EVENT_REFUSED as u8;
const RUNS: u16 = contract::RUNS as u16;
const RUNS_SENT: u16 = contract::RUNS_SENT as u16;
/// Number of events drained at once, shared by the ring buffers; each drains at least 256. Bounds
/// the memory between the ring buffers and the recording.
const MAX_DRAINED: usize = 8192;

/// An event. Times are in ns (CLOCK_MONOTONIC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Completion of a request, or of a part of one, on a member.
    Completed(Completed),
    /// A run of the preceding `Completed`. Runs are in the order of their sectors.
    Run(OriginRun),
    /// Submission of a bio to an array.
    Submitted(Submitted),
    /// The bio of a submission was refused.
    Refused(RefusedBio),
}

/// A completed request, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// True if the event covers only a part of a request, because the request has not completed
    /// yet or has too many runs.
    pub part: bool,
    /// Position of the member in the topology; `u32::MAX` if it has none.
    pub member: u32,
    /// Operation.
    pub op: Op,
    /// Origin of the first sector.
    pub origin: Origin,
    /// REQ_SYNC (bit 0) to REQ_BACKGROUND (bit 9), in the kernel's order.
    pub flags: u16,
    /// True if the request failed.
    pub error: bool,
    /// Sector of the member's disk; 0 if `length` is 0.
    pub sector: DiskSector,
    /// Length in bytes.
    pub length: u32,
    /// Number of `OriginRun`s that follow. 0: a single run of `origin`. `None`: earlier parts
    /// covered all bytes.
    pub runs: Option<u16>,
    /// Time of completion.
    pub now_ns: u64,
    /// Time of issue; 0 if unknown.
    pub issue_ns: u64,
    /// Time of allocation; unknown if 0 or later than `issue_ns`.
    pub start_ns: u64,
}

/// Consecutive bytes of a request with one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginRun {
    pub origin: Origin,
    /// Number of bytes.
    pub bytes: u32,
}

/// A submitted bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Position of the array in the topology.
    pub array: u32,
    /// Operation.
    pub op: Op,
    pub origin: Origin,
    /// Flags as in [`Completed::flags`].
    pub flags: u16,
    pub sector: ArraySector,
    /// Length in bytes.
    pub length: u32,
    /// Thread id in the initial PID namespace.
    pub pid: u32,
    /// File whose data the bio holds; `None` for metadata, and if the file is unknown.
    pub file: Option<FileId>,
    /// Time of submission, or the time at which the origin was found.
    pub now_ns: u64,
    /// True if the bio has REQ_NOWAIT: a `RefusedBio` may follow.
    pub nowait: bool,
}

/// A refused bio. The fields are those of its [`Submitted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedBio {
    /// Position of the array in the topology.
    pub array: u32,
    pub sector: ArraySector,
    /// Time of submission.
    pub now_ns: u64,
}

/// Ring buffers, and events drained from them.
pub(super) struct EventRings {
    /// Ring buffers of the CPUs. The events of each are almost ordered by time.
    rings: Vec<Ring<Event>>,
    _maps: Vec<MapHandle>,
    /// Events, with member ids, that are later than the time up to which every ring has been
    /// drained.
    pub(super) later: Vec<Event>,
    /// Events, with member ids, whose members are only in the next topology.
    pub(super) early: Vec<Event>,
}

/// Size in bytes of each of `rings` ring buffers with `wanted` bytes in total: a power of two, at
/// least a page.
fn size(wanted: Option<u32>, rings: usize) -> usize {
    let page = rustix::param::page_size();
    let each = (wanted.unwrap_or(0) as usize / rings.max(1)).clamp(page, 1 << 30);
    1 << each.ilog2()
}

/// Number of CPUs that this process can use.
fn online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Creates the ring buffer of a CPU. `buffer` is the total size of all ring buffers in bytes.
pub(super) fn ring(buffer: Option<u32>) -> Result<MapHandle> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let bytes = u32::try_from(size(buffer, online()))?;
    MapHandle::create(MapType::RingBuf, Some("rt_ring"), 0, 0, bytes, &options)
        .context("creating a ring buffer")
}

impl EventRings {
    pub(super) fn new(skel: &RaidtraceSkel<'_>, buffer: Option<u32>) -> Result<Self> {
        let maps = (0..online()).map(|_| ring(buffer)).collect::<Result<Vec<_>>>()?;
        // A CPU that is now offline shares the ring of another CPU.
        for (cpu, map) in (0..skel.maps.rt_events.max_entries()).zip(maps.iter().cycle()) {
            let fd = map.as_fd().as_raw_fd();
            let outer = &skel.maps.rt_events;
            outer
                .update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .context("assigning a ring buffer to a CPU")?;
        }
        let rings = maps.iter().map(|map| Ring::new(map, decode));
        Ok(Self {
            rings: rings.collect::<Result<_>>()?,
            _maps: maps,
            later: Vec::new(),
            early: Vec::new(),
        })
    }

    /// Drains some events of each ring. Returns the time up to which all events are drained, and
    /// true if more are ready.
    pub(super) fn drain(&mut self) -> Result<(u64, bool)> {
        let mut until = monotonic_ns();
        let mut more = false;
        let some = (MAX_DRAINED / self.rings.len()).max(256);
        for ring in &self.rings {
            let known = self.later.len();
            if ring.drain(some, &mut self.later)? >= some {
                more = true;
                // Events that remain in the ring are later, unless completions interrupted each
                // other.
                let last = self.later[known..].iter().rev().find_map(Event::time);
                until = until.min(last.unwrap_or(until));
            }
        }
        Ok((until, more))
    }
}

/// Removes the events up to a time and returns them ordered by time. Runs stay directly after their
/// event.
pub(super) fn in_order(events: &mut Vec<Event>, until: u64) -> Vec<Event> {
    // Indices of the events that have a time.
    let mut starts: Vec<(u64, usize)> =
        (0..).zip(&*events).filter_map(|(at, event)| Some((event.time()?, at))).collect();
    if let [.., last] = starts[..]
        && starts.is_sorted()
        && last.0 <= until
    {
        return std::mem::take(events);
    }
    starts.sort_by_key(|(time, _)| *time);
    let mut ordered = Vec::with_capacity(events.len());
    let mut later = Vec::new();
    for (time, at) in starts {
        let into = if time <= until { &mut ordered } else { &mut later };
        into.push(events[at]);
        let runs = events[at + 1..].iter();
        into.extend(runs.take_while(|e| e.time().is_none()));
    }
    *events = later;
    ordered
}

impl Event {
    /// Time in ns; `None` for a run, which belongs to the event before it.
    pub fn time(&self) -> Option<u64> {
        match self {
            Self::Completed(c) => Some(c.now_ns),
            Self::Submitted(s) => Some(s.now_ns),
            Self::Refused(r) => Some(r.now_ns),
            Self::Run(_) => None,
        }
    }
}

/// Appends the events of a record of the programs; `None` if it is malformed.
fn decode(bytes: &[u8], events: &mut Vec<Event>) -> Option<()> {
    match *bytes.first()? {
        kind @ (REQUEST | PART) => {
            let wire = rt_event_request::read(bytes)?;
            let sent = wire.runs == RUNS_SENT;
            let runs = if sent { 0 } else { wire.runs };
            if runs > RUNS {
                return None;
            }
            let rest = bytes
                .get(size_of::<rt_event_request>()..)?
                .get(..usize::from(runs) * size_of::<u32>())?;
            events.push(Event::Completed(Completed {
                part: kind == PART,
                member: wire.member,
                op: Op::from_u8(wire.op)?,
                origin: Origin::from_u8(wire.origin)?,
                flags: wire.flags,
                error: wire.error != 0,
                sector: DiskSector(wire.sector),
                length: wire.length,
                runs: (!sent).then_some(runs),
                now_ns: wire.now_ns,
                issue_ns: wire.issue_ns,
                start_ns: wire.start_ns,
            }));
            for run in rest.chunks_exact(size_of::<u32>()) {
                let run = u32::read(run)?;
                events.push(Event::Run(OriginRun {
                    origin: Origin::from_u8((run >> RUN_SHIFT) as u8)?,
                    bytes: (run << (32 - RUN_SHIFT)) >> (32 - RUN_SHIFT) << 9,
                }));
            }
        }
        kind @ (SUBMISSION | REFUSED) => {
            let wire = rt_event_submission::read(bytes)?;
            let (array, sector) = (u32::from(wire.array), ArraySector(wire.sector));
            let now_ns = wire.now_ns;
            if kind == REFUSED {
                events.push(Event::Refused(RefusedBio { array, sector, now_ns }));
                return Some(());
            }
            let file = file_id(&wire.file);
            events.push(Event::Submitted(Submitted {
                array,
                op: Op::from_u8(wire.op)?,
                origin: Origin::from_u8(wire.origin)?,
                flags: wire.flags,
                sector,
                length: wire.length,
                pid: wire.pid,
                file: (file.inode > 0).then_some(file),
                now_ns,
                nowait: wire.nowait != 0,
            }));
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
