//! A recording as one snapshot after another.
//!
//! Intervals of a second and more end with a state, so that disk statistics are exactly theirs. An item may be older than
//! the ones before it: an interval is given out when what has been read is [`SLACK_US`] past its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::analysis::events::{Events, Known, SLACK_US, Tally};
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::{Fold, Sample, TaskInfo};
use crate::analysis::item::Item;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;
use crate::analysis::window::Window;
use crate::recording::error::TraceError;
use crate::recording::reader::{Mark, Reader};

/// Without a state for so long, an interval is given out with what the requests say of the disks.
const STATELESS_US: i64 = 60_000_000;
/// Without a state for so long, an interval ends by itself.
const PATIENCE_US: i64 = 1_500_000;
/// Places to come back to that are kept; of more, every second one.
const MARKS: usize = 4096;
/// The same of the ends of intervals.
const ENDS: usize = 1 << 20;

impl Known for Reader {
    fn task(&self, pid: u32, array: &str) -> Option<Arc<TaskInfo>> {
        Reader::task(self, pid, array)
    }

    fn file_location(&self, id: &FileId) -> Option<Arc<FileLocation>> {
        Reader::file_location(self, id)
    }
}

/// An interval that is being added up.
struct Span {
    from: i64,
    /// `None`: it is not known yet.
    to: Option<i64>,
    tally: Tally,
}

impl Span {
    fn new(from: i64) -> Self {
        Self {
            from,
            to: None,
            tally: Tally::default(),
        }
    }
}

/// A recording, an interval at a time.
pub struct Source {
    reader: Reader,
    interval_us: i64,
    events: Events,
    spans: VecDeque<Span>,
    fold: Fold,
    window: Window,
    /// Of all items so far.
    newest: i64,
    /// What is older is not looked at: it was given out before.
    begin: i64,
    done: bool,
    marks: Vec<(i64, Mark)>,
    /// Where intervals that were given out began.
    begins: Vec<i64>,
    /// Opens the recording once more; when it ends, once that was asked for.
    again: Again,
    end: Option<i64>,
}

/// Opens a recording; `None`: it cannot be opened any more.
pub type Again = Box<dyn Fn() -> Option<Reader>>;

impl Source {
    /// Of everything in `reader`; `again` opens the same.
    pub fn new(reader: Reader, interval: Duration, again: Again) -> Self {
        Self {
            again,
            end: None,
            reader,
            interval_us: i64::try_from(interval.as_micros())
                .unwrap_or(i64::MAX)
                .max(1),
            events: Events::default(),
            spans: VecDeque::new(),
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            newest: i64::MIN,
            begin: i64::MIN,
            done: false,
            marks: Vec::new(),
            begins: Vec::new(),
        }
    }

    /// What is read.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Where the first interval begins, µs since 1970; `None` before [`Source::next`].
    pub fn begins_us(&self) -> Option<i64> {
        self.begins.first().copied()
    }

    /// When the recording ends, µs since 1970. Reads it to its end the first time.
    pub fn end_us(&mut self) -> Option<i64> {
        self.end = self.end.or_else(|| Some((self.again)()?.last_time()));
        self.end
    }

    /// Where the interval begins that is `n` before the one in which `time_us` lies: for [`Source::rewind`].
    pub fn back(&self, time_us: i64, n: usize) -> i64 {
        let here = self.begins.partition_point(|&b| b <= time_us);
        let there = here.saturating_sub(1).saturating_sub(n);
        self.begins.get(there).copied().unwrap_or(time_us)
    }

    /// From now on intervals are this long.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval_us = i64::try_from(interval.as_micros())
            .unwrap_or(i64::MAX)
            .max(1);
    }

    /// So that [`Source::next`] gives out the interval in which `time_us` lies, if it has been given out before; else
    /// the next one that was not.
    pub fn rewind(&mut self, time_us: i64) -> Result<(), TraceError> {
        let span = i64::try_from(window::SPAN.as_micros()).unwrap_or(i64::MAX);
        let before = |times: &[i64], time: i64| times.partition_point(|&t| t <= time).max(1) - 1;
        // What stands out is judged over some time before.
        let warm = self
            .begins
            .get(before(&self.begins, time_us.saturating_sub(span)))
            .copied();
        let until = self.begins.get(before(&self.begins, time_us)).copied();
        let (Some(warm), Some(until)) = (warm, until) else {
            return Ok(());
        };
        // A state before it, for names; and items may be late.
        let at = self
            .marks
            .partition_point(|m| m.0 <= warm.saturating_sub(2 * SLACK_US));
        let Some((_, mark)) = self.marks.get(at.saturating_sub(1)).cloned() else {
            return Ok(());
        };
        self.reader.seek(&mark)?;
        self.events = Events::default();
        self.events.cut(warm);
        self.spans = VecDeque::from([Span::new(warm)]);
        self.fold = Fold::new(Sample::default());
        self.window = Window::new(window::SPAN);
        (self.newest, self.begin, self.done) = (i64::MIN, warm, false);
        while self.spans.front().is_some_and(|s| s.from < until) && self.next().is_some() {}
        Ok(())
    }

    fn note(&mut self, time_us: i64, mark: Mark) {
        if self.marks.last().is_none_or(|m| m.0 < time_us) {
            self.marks.push((time_us, mark));
        }
        if self.marks.len() > MARKS {
            let mut nth = 0;
            self.marks.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
        }
    }

    fn place(&mut self, item: &Item) {
        let time = item.time_us();
        self.newest = self.newest.max(time);
        let state = matches!(item, Item::State(_));
        if self.spans.is_empty() {
            self.events.cut(time);
            self.spans.push_back(Span::new(time));
        }
        self.cut(time, state);
        if state && time <= self.begin {
            self.events.skip(item);
            return;
        }
        if time < self.begin {
            self.events.pass(item);
            return;
        }
        let Self { spans, events, .. } = self;
        let inside = |s: &Span| {
            let to = s.to.unwrap_or(i64::MAX);
            if state {
                time > s.from && time <= to
            } else {
                time >= s.from && time < to
            }
        };
        let place = spans.iter().rposition(inside).unwrap_or(0);
        if let Some(span) = spans.get_mut(place) {
            events.push(&mut span.tally, item);
        }
    }

    /// Ends the last span where its time has come.
    fn cut(&mut self, time: i64, state: bool) {
        while let Some(last) = self.spans.back_mut() {
            let due = last.from.saturating_add(self.interval_us);
            let to = if self.interval_us < 1_000_000 {
                (time >= due).then_some(due)
            } else if state && time > last.from {
                let tolerance = (self.interval_us / 4).min(250_000);
                (time >= due - tolerance).then_some(time)
            } else {
                (time >= due.saturating_add(PATIENCE_US)).then_some(due)
            };
            let Some(to) = to else { return };
            last.to = Some(to);
            self.events.cut(to);
            self.spans.push_back(Span::new(to));
        }
    }

    fn snapshot(&mut self, span: Span, to: i64) -> Snapshot {
        let (start, end) = self.events.samples(span.tally, span.from, to, &self.reader);
        self.events.forget_before(to);
        self.fold.rebase(start);
        let mut snapshot = self.fold.step(end);
        self.window.judge(&mut snapshot);
        let note = self.reader.note().map(str::to_owned);
        snapshot.notes.extend(note);
        if self.begins.last().is_none_or(|&b| b < span.from) && self.begins.len() < ENDS {
            self.begins.push(span.from);
        }
        snapshot
    }
}

impl Iterator for Source {
    type Item = Snapshot;

    /// The next interval; `None` at the end.
    fn next(&mut self) -> Option<Snapshot> {
        loop {
            let due = self.spans.front().and_then(|s| s.to);
            if let Some(to) = due.filter(|&to| self.newest >= to.saturating_add(STATELESS_US))
                && !self.events.is_settled(to)
            {
                self.events.end(to);
            }
            let ready =
                |to: i64| self.newest >= to.saturating_add(SLACK_US) && self.events.is_settled(to);
            if due.is_some_and(ready) || self.done {
                let span = self.spans.pop_front()?;
                let to = span.to.unwrap_or(self.newest);
                // The rest after the last state is mostly nothing.
                if to > span.from {
                    return Some(self.snapshot(span, to));
                }
                continue;
            }
            match self.reader.next_item() {
                Some(item) => {
                    if let Some(mark) = self.reader.mark() {
                        self.note(item.time_us(), mark);
                    }
                    self.place(&item);
                }
                None => {
                    self.done = true;
                    self.events.cut(self.newest);
                    self.events.end(self.newest);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
