//! A trace for Perfetto (<https://ui.perfetto.dev>): requests and counters of each member, bytes of
//! each origin, submissions of each task, slow operations, notes and losses.

pub(super) mod proto;
mod slow;
mod stream;
mod tracks;

use std::io::{self, Write};

use self::stream::{Stream, Track, Value};
use self::tracks::{LANES, Tracks};
use super::period::Period;
use super::written::{INVALID_ROWS, Reasons, Written};
use crate::analysis::files::FileId;
use crate::analysis::item::{Flags, Item, Part, Request, Submission};
use crate::analysis::rates::Clock;
use crate::analysis::reorder::Reorder;
use crate::origin::{Op, Origin, io_name};
use crate::printable::sanitize;
use crate::recording::reader::Reader;
use crate::recording::schema::path_text;

/// Changes of counters that are held until they can be written in order of time.
const HELD: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Change {
    member: usize,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Issue,
    Complete,
    Bytes { op: Op, origin: Origin, bytes: u32 },
}

/// Writes every readable item of the period.
pub fn write(reader: &mut Reader, period: Period, out: impl Write) -> io::Result<Written> {
    let first = period.next_item(reader);
    let start_us = first.as_ref().map_or(0, Item::time_us);
    let mut trace = Trace::new(Stream::new(out, start_us)?)?;
    let mut next = first;
    while let Some(item) = next {
        trace.item(reader, &item)?;
        next = period.next_item(reader);
    }
    while let Some((time_us, change)) = trace.changes.pop() {
        trace.change(time_us, change)?;
    }
    if let Some((start_us, length_us)) = trace.clock.current() {
        trace.interval(start_us, length_us)?;
    }
    let Trace { stream, changes, requests, mut reasons, .. } = trace;
    stream.finish()?;
    reasons.add(
        "counter changes that arrived too late, so that counters are inexact for a moment",
        changes.late(),
    );
    reasons.add(INVALID_ROWS, reader.invalid_rows());
    Ok(Written { count: requests, unit: "requests", notes: reasons.notes(), hint: None })
}

struct Trace<W> {
    stream: Stream<W>,
    tracks: Tracks,
    /// Notes and losses.
    messages: Track,
    changes: Reorder<Change>,
    clock: Clock,
    requests: u64,
    reasons: Reasons,
}

impl<W: Write> Trace<W> {
    fn new(mut stream: Stream<W>) -> io::Result<Self> {
        Ok(Self {
            messages: stream.track(None, "raidtrace: notes and losses")?,
            stream,
            tracks: Tracks::default(),
            changes: Reorder::new(HELD),
            clock: Clock::default(),
            requests: 0,
            reasons: Reasons::default(),
        })
    }

    fn item(&mut self, reader: &Reader, item: &Item) -> io::Result<()> {
        match item {
            Item::State(state) => self.tracks.set_state(&mut self.stream, state),
            Item::Request(request) => self.request(reader, request),
            Item::Part(part) => self.part(part),
            Item::Submission(submission) => self.submission(reader, submission),
            Item::Note { time_us, text } => self.message(*time_us, "note", text),
            Item::Lost { time_us, reason, count } => {
                self.reasons.add("events lost while recording", *count);
                self.message(*time_us, "lost", &format!("lost: {count} events, {reason}"))
            }
            Item::Slow { time_us, json } => {
                let Some(left_out) =
                    slow::write(&mut self.stream, &mut self.tracks, *time_us, json)?
                else {
                    self.reasons.add("damaged intervals of slow operations, left out", 1);
                    return Ok(());
                };
                let reason = "slow operations left out, because all lanes were in use";
                self.reasons.add(reason, left_out);
                Ok(())
            }
            Item::Dirtied(_) => {
                let reason =
                    "rows of dirtied bytes left out, because they have no time of their own";
                self.reasons.add(reason, 1);
                Ok(())
            }
            Item::Alloc { .. } => {
                let reason = "allocator intervals left out (raidtrace alloc --replay shows them)";
                self.reasons.add(reason, 1);
                Ok(())
            }
        }
    }

    fn message(&mut self, time_us: i64, category: &str, text: &str) -> io::Result<()> {
        self.stream.instant(self.messages, time_us, (category, text), &[])
    }

    fn request(&mut self, reader: &Reader, r: &Request) -> io::Result<()> {
        let Some(member) = self.tracks.member_index(r.member) else {
            return Ok(());
        };
        self.requests += 1;
        let issue_us = r.device_us.map(|us| r.time_us.saturating_sub(us.into()));
        if let Some(issue_us) = issue_us {
            self.push(issue_us, member, Kind::Issue)?;
            self.push(r.time_us, member, Kind::Complete)?;
        }
        let kind = Kind::Bytes { op: r.op, origin: r.origin, bytes: r.bytes };
        self.push(r.time_us, member, kind)?;

        let Some(place) = self.tracks.members.get_mut(member) else {
            return Ok(());
        };
        let track = match issue_us {
            Some(issue_us) => place.requests.place(&mut self.stream, issue_us, r.time_us)?,
            None => None,
        };
        let mut arguments = Vec::with_capacity(12);
        arguments.push(("sector", Value::Number(r.sector)));
        arguments.push(("length", Value::Number(r.length.into())));
        if r.bytes != r.length {
            arguments.push(("bytes of this origin", Value::Number(r.bytes.into())));
        }
        if let Some(us) = r.queue_us {
            arguments.push(("queue_us", Value::Number(us.into())));
        }
        if let Some(us) = r.device_us {
            arguments.push(("device_us", Value::Number(us.into())));
        }
        if let Some(sector) = r.array_sector {
            arguments.push(("array_sector", Value::Number(sector)));
        }
        if r.error {
            arguments.push(("error", Value::Flag(true)));
        }
        let array = self.tracks.arrays.get(place.array);
        let task = match (r.pid, array) {
            (Some(pid), Some(array)) => Some(task_name(reader, pid, &array.name)),
            _ => None,
        };
        if let Some(task) = &task {
            arguments.push(("task", Value::Text(task)));
        }
        let flags = r.flags.letters();
        if r.flags != Flags::empty() {
            arguments.push(("flags", Value::Text(&flags)));
        }
        let path = r.file.and_then(|id| file_name(reader, &id));
        if let Some(path) = &path {
            arguments.push(("file", Value::Text(path)));
        }
        let name = event_name(r.origin, r.op);
        let name = (r.origin.name(), name.as_str());
        if let (Some(track), Some(issue_us)) = (track, issue_us) {
            return self.stream.slice(track, (issue_us, r.time_us), name, &arguments);
        }
        let why = match issue_us {
            None => UNKNOWN_ISSUE,
            Some(_) => MORE_LANES,
        };
        self.reasons.add(why, 1);
        let track = place.others(&mut self.stream)?;
        self.stream.instant(track, r.time_us, name, &arguments)
    }

    fn part(&mut self, p: &Part) -> io::Result<()> {
        let Some(member) = self.tracks.member_index(p.member) else {
            return Ok(());
        };
        let kind = Kind::Bytes { op: p.op, origin: p.origin, bytes: p.bytes };
        self.push(p.time_us, member, kind)
    }

    fn submission(&mut self, reader: &Reader, s: &Submission) -> io::Result<()> {
        let array = self.tracks.array_index(s.array);
        let Some(array) = array.and_then(|index| self.tracks.arrays.get_mut(index)) else {
            return Ok(());
        };
        let task = task_name(reader, s.pid, &array.name);
        let track = array.task(&mut self.stream, s.pid, &task)?;
        let path = s.file.and_then(|id| file_name(reader, &id));
        let mut arguments = Vec::with_capacity(5);
        arguments.push(("array_sector", Value::Number(s.array_sector)));
        arguments.push(("length", Value::Number(s.length.into())));
        arguments.push(("task", Value::Text(&task)));
        let flags = s.flags.letters();
        if s.flags != Flags::empty() {
            arguments.push(("flags", Value::Text(&flags)));
        }
        if let Some(path) = &path {
            arguments.push(("file", Value::Text(path)));
        }
        let name = event_name(s.origin, s.op);
        let name = (s.origin.name(), name.as_str());
        self.stream.instant(track, s.time_us, name, &arguments)
    }

    fn push(&mut self, time_us: i64, member: usize, kind: Kind) -> io::Result<()> {
        match self.changes.push(time_us, Change { member, kind }) {
            Some((time_us, change)) => self.change(time_us, change),
            None => Ok(()),
        }
    }

    /// Applies a change, in order of time.
    fn change(&mut self, time_us: i64, change: Change) -> io::Result<()> {
        for (start_us, length_us) in self.clock.ended(time_us) {
            self.interval(start_us, length_us)?;
        }
        let Some(member) = self.tracks.members.get_mut(change.member) else {
            return Ok(());
        };
        match change.kind {
            Kind::Issue => member.rates.issue(time_us),
            Kind::Complete => member.rates.complete(time_us),
            Kind::Bytes { op, origin, bytes } => {
                let bytes = u64::from(bytes);
                match op {
                    Op::Read => member.rates.add(bytes, 0),
                    Op::Write => member.rates.add(0, bytes),
                    _ => return Ok(()),
                }
                let Some(array) = self.tracks.arrays.get_mut(member.array) else {
                    return Ok(());
                };
                return array.add(&mut self.stream, origin, bytes);
            }
        }
        let in_flight = member.rates.in_flight();
        let [counter, ..] = &mut member.counters;
        counter.set(&mut self.stream, time_us, in_flight)
    }

    /// Writes the figures of an interval that has ended.
    fn interval(&mut self, start_us: i64, length_us: i64) -> io::Result<()> {
        let stream = &mut self.stream;
        for member in &mut self.tracks.members {
            let figures = member.rates.end(start_us.saturating_add(length_us), length_us);
            let [_, busy, read, written] = &mut member.counters;
            busy.set(stream, start_us, figures.busy_percent)?;
            read.set(stream, start_us, figures.read)?;
            written.set(stream, start_us, figures.written)?;
        }
        let length = u128::try_from(length_us).unwrap_or(0).max(1);
        for array in &mut self.tracks.arrays {
            for (counter, bytes) in array.bytes.iter_mut().flatten() {
                let rate = u128::from(std::mem::take(bytes)) * 1_000_000 / length;
                counter.set(stream, start_us, u64::try_from(rate).unwrap_or(u64::MAX))?;
            }
        }
        Ok(())
    }
}

const UNKNOWN_ISSUE: &str =
    "requests shown as instants, because the time of their issue is unknown";
const MORE_LANES: &str =
    "requests shown as instants, because more than 128 were in flight on their member";
const _: () = assert!(LANES == 128, "MORE_LANES has this number");

/// `block_bitmap write`.
fn event_name(origin: Origin, op: Op) -> String {
    format!("{} {}", io_name(origin, op), op.name())
}

/// `mysqld (1234)`.
fn task_name(reader: &Reader, pid: u32, array: &str) -> String {
    match reader.task(pid, array) {
        Some(task) => format!("{} ({pid})", sanitize(&task.comm)),
        None => format!("pid {pid}"),
    }
}

fn file_name(reader: &Reader, id: &FileId) -> Option<String> {
    let location = reader.file_location(id)?;
    path_text(&location)
}
