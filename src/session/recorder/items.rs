//! Makes items of a recording from events of the programs: converts times to unix time, finds
//! sectors of members and arrays, and the submission that a request belongs to.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::join::PendingSubmissions;
use crate::address::{ArraySector, DiskSector, MemberSector};
use crate::analysis::fold::Sample;
use crate::analysis::item::{Item, Request, RequestFlags, RequestPart, State, Submission};
use crate::machine::topology::Topology;
use crate::machine::topology::geometry;
use crate::machine::{Array, MemberPiece};
use crate::origin::Origin;
pub use crate::probe::clock::monotonic_ns;
use crate::probe::events::{Completed, Event, OriginRun, RefusedBio, Submitted};
use crate::raid::{Geometry, Mapping};

/// Maximum depth of nested arrays.
const MAX_NESTING: usize = crate::contract::NESTING_MAX as usize;

/// Converts times of the kernel's monotonic clock to unix time. The clocks are compared once, so
/// that differences between the times of a recording are those of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockOffset {
    /// Added to a monotonic time, ns.
    offset: i64,
}

impl ClockOffset {
    /// Compares the clocks now.
    pub fn now() -> Self {
        let ns = |id| {
            let t = clock_gettime(id);
            t.tv_sec * 1_000_000_000 + t.tv_nsec
        };
        let before = ns(ClockId::Monotonic);
        let real = ns(ClockId::Realtime);
        let after = ns(ClockId::Monotonic);
        Self { offset: real - (before + (after - before) / 2) }
    }

    /// Compares the clocks again. Returns the result if the host's clock has been set by more than
    /// `by`, or the host was suspended, which stops the monotonic clock.
    pub fn stepped(self, by: Duration) -> Option<Self> {
        let now = Self::now();
        let step = now.offset.abs_diff(self.offset);
        (u128::from(step) > by.as_nanos()).then_some(now)
    }

    /// Converts a monotonic time in ns to µs since 1970.
    pub fn unix_us(self, ns: u64) -> i64 {
        (ns.cast_signed() + self.offset) / 1000
    }

    /// Current time in µs since 1970.
    pub fn unix_us_now(self) -> i64 {
        self.unix_us(monotonic_ns())
    }
}

/// Location of a member.
struct MemberLocation {
    /// Its places on the disk.
    pieces: Vec<MemberPiece>,
    data_offset: MemberSector,
    data_sectors: u64,
    slot: Option<u32>,
    array: usize,
}

struct ArrayLocation {
    /// `None` if unknown, and during a reshape.
    geometry: Option<Geometry>,
    /// For a nested array: index of the outer array's member, and that member's first sector on
    /// this array.
    outer: Option<(usize, DiskSector)>,
}

/// Makes items from the events of one topology. Keeps submissions to match them with later
/// requests.
pub struct Translator {
    clock: ClockOffset,
    members: Vec<MemberLocation>,
    arrays: Vec<ArrayLocation>,
    join: PendingSubmissions,
    /// Submissions that may still be refused, and their times in ns, which increase.
    held: VecDeque<(u64, Submission)>,
    /// Only events from then on are translated, ns.
    since: u64,
    /// Names of the arrays.
    names: Vec<String>,
}

impl Translator {
    /// Translates events from `since` on, in ns of the monotonic clock.
    pub fn new(topology: &Topology, clock: ClockOffset, since: u64) -> Self {
        let all = &topology.host.arrays;
        let members = all.iter().flat_map(|a| &a.members);
        let outer = |array: &Array| {
            let mut members = members.clone().enumerate();
            let (number, member) = members.find(|(_, m)| m.nested_array == Some(array.dev))?;
            Some((number, member.start))
        };
        Self {
            clock,
            members: (0..)
                .zip(all)
                .flat_map(|(array, a)| {
                    a.members.iter().map(move |m| MemberLocation {
                        pieces: m.pieces().collect(),
                        data_offset: m.data_offset,
                        data_sectors: m.data_sectors,
                        slot: m.slot,
                        array,
                    })
                })
                .collect(),
            arrays: all
                .iter()
                .map(|a| ArrayLocation {
                    geometry: geometry(a)
                        .ok()
                        .filter(|_| a.before_reshape.is_none() && a.reshape_position.is_none()),
                    outer: outer(a),
                })
                .collect(),
            join: PendingSubmissions::default(),
            held: VecDeque::new(),
            since,
            names: all.iter().map(|a| a.name.clone()).collect(),
        }
    }

    /// Continues with another topology. Keeps the submissions, which refer to arrays by number,
    /// unless a number now means another array.
    pub fn continue_with(&mut self, topology: &Topology) {
        let was = std::mem::replace(self, Self::new(topology, self.clock, self.since));
        if self.names.iter().zip(&was.names).all(|(now, was)| now == was) {
            (self.join, self.held) = (was.join, was.held);
        }
    }

    /// Sets the clock for later events.
    pub fn set_clock(&mut self, clock: ClockOffset) {
        self.clock = clock;
    }

    /// Translates events in their order, each followed by its parts. Holds submissions that may be
    /// refused. Drops requests of members that are not in the topology, and returns their number.
    pub fn translate(&mut self, events: &[Event], mut emit: impl FnMut(Item)) -> u64 {
        let mut unknown = 0;
        let mut rest = events.iter();
        while let Some(event) = rest.next() {
            match event {
                Event::Completed(c) => {
                    let count = usize::from(c.runs.unwrap_or(0));
                    let (runs, after) = rest.as_slice().split_at(count.min(rest.len()));
                    rest = after.iter();
                    if c.now_ns >= self.since && self.completed(c, runs, &mut emit).is_none() {
                        unknown += 1;
                    }
                }
                Event::Submitted(s) => {
                    let item = self.submission(s);
                    self.join.submitted(&item);
                    if s.now_ns >= self.since {
                        if s.nowait {
                            self.held.push_back((s.now_ns, item));
                        } else {
                            emit(Item::Submission(item));
                        }
                    }
                }
                Event::Refused(refused) => self.drop_refused(refused),
                Event::Run(_) => {}
            }
        }
        unknown
    }

    /// Emits the held submissions before `until`, in ns of the monotonic clock.
    pub fn release(&mut self, until: u64, mut emit: impl FnMut(Item)) {
        let ready = self.held.partition_point(|(time, _)| *time < until);
        for (_, item) in self.held.drain(..ready) {
            emit(Item::Submission(item));
        }
    }

    fn drop_refused(&mut self, r: &RefusedBio) {
        let first = self.held.partition_point(|(time, _)| *time < r.now_ns);
        let mut same = self.held.range(first..).take_while(|(time, _)| *time == r.now_ns);
        let bio = |s: &Submission| (s.array, s.array_sector) == (r.array, r.sector.0);
        if let Some(at) = same.position(|(_, s)| bio(s)) {
            self.held.remove(first + at);
        }
    }

    fn submission(&self, s: &Submitted) -> Submission {
        Submission {
            time_us: self.clock.unix_us(s.now_ns),
            array: s.array,
            op: s.op,
            flags: flags(s.flags),
            origin: s.origin,
            array_sector: s.sector.0,
            length: s.length,
            pid: s.pid,
            file: s.file,
        }
    }

    fn completed(&self, c: &Completed, runs: &[Event], emit: &mut impl FnMut(Item)) -> Option<()> {
        let member = self.members.get(c.member as usize)?;
        let time_us = self.clock.unix_us(c.now_ns);
        let sector = member.pieces.iter().find_map(|piece| piece.member_sector(c.sector));
        let sector = sector.unwrap_or_default();
        let mut part = RequestPart {
            time_us,
            member: c.member,
            op: c.op,
            origin: c.origin,
            sector: sector.0,
            bytes: match (c.runs, runs.first()) {
                (None, _) => 0,
                (_, Some(Event::Run(first))) => first.bytes,
                _ => c.length,
            },
        };
        if c.part {
            if let Some(Event::Run(first)) = runs.first() {
                part.origin = first.origin;
            }
            emit(Item::Part(part));
        } else {
            let array_sector = self.array_sector(c, sector);
            let submission = array_sector
                .filter(|_| was_submitted(c.origin))
                .and_then(|(array, at)| self.join.find(array as u32, at.0, c.op, time_us));
            emit(Item::Request(Request {
                time_us,
                member: c.member,
                op: c.op,
                flags: flags(c.flags),
                origin: c.origin,
                sector: sector.0,
                array_sector: array_sector.map(|(_, at)| at.0),
                length: c.length,
                bytes: part.bytes,
                queue_us: (c.start_ns > 0 && c.start_ns <= c.issue_ns)
                    .then(|| us(c.issue_ns - c.start_ns)),
                device_us: (c.issue_ns > 0).then(|| us(c.now_ns.saturating_sub(c.issue_ns))),
                error: c.error,
                pid: submission.map(|s| s.pid),
                file: submission.and_then(|s| s.file),
            }));
        }
        for run in runs.iter().skip(1) {
            let Event::Run(OriginRun { origin, bytes }) = *run else {
                continue;
            };
            part.sector += u64::from(part.bytes / 512);
            (part.origin, part.bytes) = (origin, bytes);
            emit(Item::Part(part));
        }
        Some(())
    }

    /// Index of the outermost array, and the sector on it.
    fn array_sector(&self, c: &Completed, sector: MemberSector) -> Option<(usize, ArraySector)> {
        if c.length == 0 {
            return None;
        }
        let (mut member, mut sector) = (self.members.get(c.member as usize)?, sector);
        for _ in 0..MAX_NESTING {
            let at = sector.in_data(member.data_offset)?;
            if at.0 >= member.data_sectors {
                return None;
            }
            let array = self.arrays.get(member.array)?;
            let found = match array.geometry.as_ref()?.locate(member.slot?, at) {
                Mapping::Data { sector, .. } => sector,
                Mapping::Parity { .. } | Mapping::Unused { .. } => return None,
            };
            let Some((outer, start)) = array.outer else {
                return Some((member.array, found));
            };
            sector = found.on_nested().in_member(start)?;
            member = self.members.get(outer)?;
        }
        None
    }
}

/// False for IO of md itself, which no task has submitted.
fn was_submitted(origin: Origin) -> bool {
    !matches!(
        origin,
        Origin::Parity
            | Origin::RmwRead
            | Origin::Resync
            | Origin::MdSuperblock
            | Origin::MdBitmap
            | Origin::MdJournal
    )
}

/// Converts ns to µs with the rounding of `rt_count_us()` in `bpf/counters.bpf.h`, so that a replay
/// fills the same histogram buckets.
fn us(ns: u64) -> u32 {
    let us = if ns < 1 << 33 { ns.wrapping_mul(1_099_511_628) >> 40 } else { ns / 1000 };
    u32::try_from(us).unwrap_or(u32::MAX)
}

/// Flags from the kernel's bits (include/linux/blk_types.h, from __REQ_SYNC on).
fn flags(kernel: u16) -> RequestFlags {
    let bits = [
        (0, RequestFlags::SYNC),
        (1, RequestFlags::META),
        (6, RequestFlags::FUA),
        (7, RequestFlags::PREFLUSH),
        (8, RequestFlags::AHEAD),
        (9, RequestFlags::BACKGROUND),
    ];
    bits.into_iter().filter(|(bit, _)| kernel >> bit & 1 == 1).map(|(_, flag)| flag).collect()
}

/// The state at the time of a sample. `restart` is true if counting begins with this state.
pub fn state(sample: &Sample, restart: bool) -> State {
    let counters = &sample.counters;
    State {
        time_us: sample.time.as_microsecond(),
        restart,
        arrays: sample.arrays.clone(),
        costs: counters
            .costs
            .iter()
            .map(|(&(array, origin), &cost)| (array, origin, cost))
            .collect(),
        counted: counters.counted.iter().map(|(&(member, op), &c)| (member, op, c)).collect(),
        lost: counters.lost,
        overhead: counters.overhead,
        notes: sample.notes.clone(),
    }
}

#[cfg(test)]
mod tests;
