//! A trace for Perfetto (<https://ui.perfetto.dev>): requests and counters of each member, bytes of
//! each origin, submissions of each task, slow operations, notes and losses.

pub(super) mod proto;
mod slow;
mod stream;
mod tracks;

use std::io::{self, Write};

use self::stream::{ArgumentValue, Stream, Track};
use self::tracks::{MAX_LANES, Tracks};
use super::period::ExportPeriod;
use super::written::{ExportSummary, INVALID_ROWS, Reasons};
use crate::analysis::files::FileId;
use crate::analysis::item::{Item, Request, RequestFlags, RequestPart, Submission};
use crate::analysis::rates::IntervalClock;
use crate::analysis::reorder::ReorderBuffer;
use crate::origin::{Op, Origin, io_name};
use crate::printable::sanitize;
use crate::recording::reader::Reader;
use crate::recording::schema::path_text;

/// Changes of counters that are held until they can be written in order of time.
const MAX_HELD: usize = 1 << 20;

#[derive(Clone, Copy)]
struct MemberEvent {
    member: usize,
    kind: MemberEventKind,
}

#[derive(Clone, Copy)]
enum MemberEventKind {
    Issue,
    Complete,
    Bytes { op: Op, origin: Origin, bytes: u32 },
}

/// Writes every readable item of the period.
pub fn write(
    reader: &mut Reader,
    period: ExportPeriod,
    out: impl Write,
) -> io::Result<ExportSummary> {
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
    Ok(ExportSummary { count: requests, unit: "requests", notes: reasons.notes(), hint: None })
}

struct Trace<W> {
    stream: Stream<W>,
    tracks: Tracks,
    /// Notes and losses.
    messages: Track,
    changes: ReorderBuffer<MemberEvent>,
    clock: IntervalClock,
    requests: u64,
    reasons: Reasons,
}

impl<W: Write> Trace<W> {
    fn new(mut stream: Stream<W>) -> io::Result<Self> {
        Ok(Self {
            messages: stream.track(None, "raidtrace: notes and losses")?,
            stream,
            tracks: Tracks::default(),
            changes: ReorderBuffer::new(MAX_HELD),
            clock: IntervalClock::default(),
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
            self.push(issue_us, member, MemberEventKind::Issue)?;
            self.push(r.time_us, member, MemberEventKind::Complete)?;
        }
        let kind = MemberEventKind::Bytes { op: r.op, origin: r.origin, bytes: r.bytes };
        self.push(r.time_us, member, kind)?;

        let Some(place) = self.tracks.members.get_mut(member) else {
            return Ok(());
        };
        let track = match issue_us {
            Some(issue_us) => place.requests.place(&mut self.stream, issue_us, r.time_us)?,
            None => None,
        };
        let mut arguments = Vec::with_capacity(12);
        arguments.push(("sector", ArgumentValue::Number(r.sector)));
        arguments.push(("length", ArgumentValue::Number(r.length.into())));
        if r.bytes != r.length {
            arguments.push(("bytes of this origin", ArgumentValue::Number(r.bytes.into())));
        }
        if let Some(us) = r.queue_us {
            arguments.push(("queue_us", ArgumentValue::Number(us.into())));
        }
        if let Some(us) = r.device_us {
            arguments.push(("device_us", ArgumentValue::Number(us.into())));
        }
        if let Some(sector) = r.array_sector {
            arguments.push(("array_sector", ArgumentValue::Number(sector)));
        }
        if r.error {
            arguments.push(("error", ArgumentValue::Flag(true)));
        }
        let array = self.tracks.arrays.get(place.array);
        let task = match (r.pid, array) {
            (Some(pid), Some(array)) => Some(task_name(reader, pid, &array.name)),
            _ => None,
        };
        if let Some(task) = &task {
            arguments.push(("task", ArgumentValue::Text(task)));
        }
        let flags = r.flags.letters();
        if r.flags != RequestFlags::empty() {
            arguments.push(("flags", ArgumentValue::Text(&flags)));
        }
        let path = r.file.and_then(|id| file_name(reader, &id));
        if let Some(path) = &path {
            arguments.push(("file", ArgumentValue::Text(path)));
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

    fn part(&mut self, p: &RequestPart) -> io::Result<()> {
        let Some(member) = self.tracks.member_index(p.member) else {
            return Ok(());
        };
        let kind = MemberEventKind::Bytes { op: p.op, origin: p.origin, bytes: p.bytes };
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
        arguments.push(("array_sector", ArgumentValue::Number(s.array_sector)));
        arguments.push(("length", ArgumentValue::Number(s.length.into())));
        arguments.push(("task", ArgumentValue::Text(&task)));
        let flags = s.flags.letters();
        if s.flags != RequestFlags::empty() {
            arguments.push(("flags", ArgumentValue::Text(&flags)));
        }
        if let Some(path) = &path {
            arguments.push(("file", ArgumentValue::Text(path)));
        }
        let name = event_name(s.origin, s.op);
        let name = (s.origin.name(), name.as_str());
        self.stream.instant(track, s.time_us, name, &arguments)
    }

    fn push(&mut self, time_us: i64, member: usize, kind: MemberEventKind) -> io::Result<()> {
        match self.changes.push(time_us, MemberEvent { member, kind }) {
            Some((time_us, change)) => self.change(time_us, change),
            None => Ok(()),
        }
    }

    /// Applies a change, in order of time.
    fn change(&mut self, time_us: i64, change: MemberEvent) -> io::Result<()> {
        for (start_us, length_us) in self.clock.ended(time_us) {
            self.interval(start_us, length_us)?;
        }
        let Some(member) = self.tracks.members.get_mut(change.member) else {
            return Ok(());
        };
        match change.kind {
            MemberEventKind::Issue => member.rates.issue(time_us),
            MemberEventKind::Complete => member.rates.complete(time_us),
            MemberEventKind::Bytes { op, origin, bytes } => {
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
const _: () = assert!(MAX_LANES == 128, "MORE_LANES has this number");

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
