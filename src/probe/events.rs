//! Drains the events of a recording.

use std::cell::RefCell;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType, RingBuffer, RingBufferBuilder};

use super::load::Probe;
use super::numbers::Numbers;
use super::skel::RaidtraceSkel;
use super::wire::{Wire, rt_event_request, rt_event_submission};
use crate::analysis::files::FileId;
use crate::contract::{self, RUN_SHIFT};
use crate::origin::{Op, Origin};

const REQUEST: u8 = contract::EVENT_REQUEST as u8;
const PART: u8 = contract::EVENT_PART as u8;
const SUBMISSION: u8 = contract::EVENT_SUBMISSION as u8;
const RUNS: u16 = contract::RUNS as u16;
const RUNS_SENT: u16 = contract::RUNS_SENT as u16;
/// Taken at once: bounds what is in memory between the kernel's buffer and the recording.
const MANY: usize = 8192;

/// One event, times in ns of the kernel's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request of a member has completed, or a part of one.
    Completed(Completed),
    /// Bytes of the last `Completed`, in their order.
    Run(Run),
    /// A bio was submitted to an array.
    Submitted(Submitted),
}

/// A request, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Not a request: only its bytes, of one that is not complete or has very many runs.
    pub part: bool,
    /// Position of the member in the survey; none has the greatest.
    pub member: u32,
    /// What it did.
    pub op: Op,
    /// Of its first bio.
    pub origin: Origin,
    /// REQ_SYNC (bit 0) to REQ_BACKGROUND (bit 9), in the kernel's order.
    pub flags: u16,
    /// It failed.
    pub error: bool,
    /// Of the member's disk; 0 where `length` is.
    pub sector: u64,
    /// Bytes.
    pub length: u32,
    /// How many `Run`s follow. `None`: its bytes came before, as parts; 0: it is one run, of `origin`.
    pub runs: Option<u16>,
    /// When it completed ...
    pub now_ns: u64,
    /// ... was issued (0: not known) ...
    pub issue_ns: u64,
    /// ... and allocated (0, or after it was issued: not known).
    pub start_ns: u64,
}

/// Some of a request's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What they are.
    pub origin: Origin,
    /// How many.
    pub bytes: u32,
}

/// A bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Number of the array.
    pub array: u32,
    /// What it does.
    pub op: Op,
    /// What it is.
    pub origin: Origin,
    /// As [`Completed::flags`].
    pub flags: u16,
    /// Of the array.
    pub sector: u64,
    /// Bytes.
    pub length: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
    /// Whose data; `None`: nobody's, or not told.
    pub file: Option<FileId>,
    /// When, or when its origin was told.
    pub now_ns: u64,
}

/// The kernel's buffer and what has been taken out of it.
pub(super) struct Events {
    rings: Vec<Ring>,
    /// Events that are later than the latest that some ring has been read up to, with the kernel side's numbers.
    later: Vec<Event>,
    /// With the kernel side's numbers: of members that only the next survey has.
    early: Vec<Event>,
}

/// A CPU's events, nearly in the order of their times.
struct Ring {
    ring: RingBuffer<'static>,
    taken: Rc<RefCell<Taken>>,
    _map: MapHandle,
}

#[derive(Default)]
struct Taken {
    events: Vec<Event>,
    /// Not understood.
    bad: u64,
}

/// Bytes of each of `rings` ring buffers that have `wanted` bytes together: a power of two of pages, at least one.
fn size(wanted: Option<u32>, rings: usize) -> usize {
    let page = rustix::param::page_size();
    let each = (wanted.unwrap_or(0) as usize / rings.max(1)).clamp(page, 1 << 30);
    1 << each.ilog2()
}

/// CPUs that run.
fn online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A ring buffer for a CPU, of `buffer` bytes for all.
pub(super) fn ring(buffer: Option<u32>) -> Result<MapHandle> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let bytes = u32::try_from(size(buffer, online()))?;
    MapHandle::create(MapType::RingBuf, Some("rt_ring"), 0, 0, bytes, &options)
        .context("making a ring buffer")
}

impl Ring {
    fn new(map: MapHandle) -> Result<Self> {
        let taken = Rc::new(RefCell::new(Taken::default()));
        let into = Rc::clone(&taken);
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |bytes| {
            into.borrow_mut().take(bytes);
            0
        })?;
        let ring = builder.build().context("mapping the ring buffer")?;
        Ok(Self {
            ring,
            taken,
            _map: map,
        })
    }
}

impl Events {
    pub(super) fn new(skel: &RaidtraceSkel<'_>, buffer: Option<u32>) -> Result<Self> {
        let maps = (0..online())
            .map(|_| ring(buffer))
            .collect::<Result<Vec<_>>>()?;
        // A CPU that does not run yet shares a ring with one that does.
        for (cpu, map) in (0..skel.maps.rt_events.max_entries()).zip(maps.iter().cycle()) {
            let fd = map.as_fd().as_raw_fd();
            let outer = &skel.maps.rt_events;
            outer
                .update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .context("giving a CPU its ring buffer")?;
        }
        Ok(Self {
            rings: maps.into_iter().map(Ring::new).collect::<Result<_>>()?,
            later: Vec::new(),
            early: Vec::new(),
        })
    }

    /// Takes some of each ring. All events until the time that it gives have been taken; and whether there may be more.
    fn take(&mut self) -> Result<(u64, bool)> {
        let mut until = monotonic_ns();
        let mut more = false;
        let some = (MANY / self.rings.len()).max(256);
        for ring in &self.rings {
            let taken = ring.ring.consume_raw_n(some);
            if taken < 0 {
                let why = std::io::Error::from_raw_os_error(-taken);
                bail!("reading a ring buffer: {why}");
            }
            let mut new = ring.taken.borrow_mut();
            if taken as usize >= some {
                more = true;
                // Later events remain in the ring, except where completions interrupted each other.
                let last = new.events.iter().rev().find_map(Event::time);
                until = until.min(last.unwrap_or(until));
            }
            self.later.append(&mut new.events);
            let bad = std::mem::take(&mut new.bad);
            if bad > 0 {
                bail!(
                    "{bad} events of the kernel side are not as they should be: this is a bug of raidtrace"
                );
            }
        }
        Ok((until, more))
    }
}

/// Takes out of `events` those until that time, in the order of their times. Runs stay behind the event that they are of.
fn in_order(events: &mut Vec<Event>, until: u64) -> Vec<Event> {
    // Where each event begins that has a time.
    let mut begins: Vec<(u64, usize)> = (0..)
        .zip(&*events)
        .filter_map(|(at, event)| Some((event.time()?, at)))
        .collect();
    if let [.., last] = begins[..]
        && begins.is_sorted()
        && last.0 <= until
    {
        return std::mem::take(events);
    }
    begins.sort_by_key(|(time, _)| *time);
    let mut ordered = Vec::with_capacity(events.len());
    let mut later = Vec::new();
    for (time, at) in begins {
        let into = if time <= until {
            &mut ordered
        } else {
            &mut later
        };
        into.push(events[at]);
        let runs = events[at + 1..].iter();
        into.extend(runs.take_while(|e| e.time().is_none()));
    }
    *events = later;
    ordered
}

/// CLOCK_MONOTONIC, which is that of bpf_ktime_get_ns() and of the events; ns.
pub(super) fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

impl Probe {
    /// Moves events of a recording into `events`, in the order of their times; whether there may be more.
    pub fn drain(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        let Some(from) = &mut self.events else {
            return Ok(false);
        };
        let turn = self.turn.as_ref();
        if turn.is_none() {
            let early = std::mem::take(&mut from.early);
            by_position(early, &self.numbers, None, events);
        }
        let (until, more) = from.take()?;
        let new = in_order(&mut from.later, until);
        let numbers = turn.map_or(&self.numbers, |turn| &turn.was);
        let next = turn.map(|turn| (&turn.next, &mut from.early));
        by_position(new, numbers, next, events);
        Ok(more)
    }
}

/// Gives events their members' positions; puts those that only the next survey knows aside.
fn by_position(
    from: impl IntoIterator<Item = Event>,
    numbers: &Numbers,
    mut next: Option<(&Numbers, &mut Vec<Event>)>,
    into: &mut Vec<Event>,
) {
    let mut early = false;
    for mut event in from {
        match &mut event {
            Event::Completed(c) => match numbers.position(c.member) {
                Some(position) => (c.member, early) = (position, false),
                None => {
                    let knows = |(next, _): &mut (&Numbers, _)| next.position(c.member).is_some();
                    early = next.as_mut().is_some_and(knows);
                    if !early {
                        c.member = u32::MAX;
                    }
                }
            },
            // Of the last one completed.
            Event::Run(_) => {}
            Event::Submitted(_) => early = false,
        }
        match &mut next {
            Some((_, aside)) if early => aside.push(event),
            _ => into.push(event),
        }
    }
}

impl Event {
    /// When it happened, ns of the monotonic clock; `None` for what belongs to the event before it.
    fn time(&self) -> Option<u64> {
        match self {
            Self::Completed(c) => Some(c.now_ns),
            Self::Submitted(s) => Some(s.now_ns),
            Self::Run(_) => None,
        }
    }
}

impl Taken {
    fn take(&mut self, bytes: &[u8]) {
        if self.understand(bytes).is_none() {
            self.bad += 1;
        }
    }

    fn understand(&mut self, bytes: &[u8]) -> Option<()> {
        match *bytes.first()? {
            kind @ (REQUEST | PART) => {
                let wire = rt_event_request::read(bytes)?;
                let told = wire.runs == RUNS_SENT;
                let runs = if told { 0 } else { wire.runs };
                if runs > RUNS {
                    return None;
                }
                let rest = bytes.get(size_of::<rt_event_request>()..)?;
                let rest = rest.get(..usize::from(runs) * size_of::<u32>())?;
                self.events.push(Event::Completed(Completed {
                    part: kind == PART,
                    member: wire.member,
                    op: Op::from_u8(wire.op)?,
                    origin: Origin::from_u8(wire.origin)?,
                    flags: wire.flags,
                    error: wire.error != 0,
                    sector: wire.sector,
                    length: wire.length,
                    runs: (!told).then_some(runs),
                    now_ns: wire.now_ns,
                    issue_ns: wire.issue_ns,
                    start_ns: wire.start_ns,
                }));
                for run in rest.chunks_exact(size_of::<u32>()) {
                    let run = u32::read(run)?;
                    self.events.push(Event::Run(Run {
                        origin: Origin::from_u8((run >> RUN_SHIFT) as u8)?,
                        bytes: (run << (32 - RUN_SHIFT)) >> (32 - RUN_SHIFT) << 9,
                    }));
                }
            }
            SUBMISSION => {
                let wire = rt_event_submission::read(bytes)?;
                let file = FileId {
                    dev: wire.file.dev,
                    inode: wire.file.inode,
                    generation: wire.file.generation,
                };
                self.events.push(Event::Submitted(Submitted {
                    array: u32::from(wire.array),
                    op: Op::from_u8(wire.op)?,
                    origin: Origin::from_u8(wire.origin)?,
                    flags: wire.flags,
                    sector: wire.sector,
                    length: wire.length,
                    pid: wire.pid,
                    file: (file.inode > 0).then_some(file),
                    now_ns: wire.now_ns,
                }));
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
