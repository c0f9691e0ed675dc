//! Returns a recording as a series of snapshots.
//!
//! Intervals of one second or longer end at a state (the item with all counters and disk
//! statistics, written once a second), so that disk statistics match them exactly. Items may be out
//! of order: an interval is returned when items [`MAX_DISORDER_US`] after its end have been read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::analysis::cube::Cube;
use crate::analysis::events::{Events, IntervalCounters, MAX_DISORDER_US, NameLookup};
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::{Fold, Sample, TaskInfo};
use crate::analysis::item::Item;
use crate::analysis::slow::event::OperationKind;
use crate::analysis::slow::recent::RecentOperations;
use crate::analysis::slow::snapshot::KindSum;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;
use crate::analysis::window::Window;
use crate::recording::error::TraceError;
use crate::recording::reader::{BatchPosition, Reader};
use crate::recording::slow::SlowInterval;

/// Time without any state after which an interval is returned with disk figures from requests
/// alone.
const MAX_WAIT_US: i64 = 60_000_000;
/// Maximum delay of the state that ends an interval. If it comes later, the interval ends without
/// it.
const MAX_STATE_DELAY_US: i64 = 1_500_000;
/// Longest time without rows that is divided into intervals. A longer one is a single interval.
const MAX_GAP_US: i64 = 60_000_000;
/// Maximum number of seek positions. When there are more, every second one is dropped.
const MAX_MARKS: usize = 4096;
/// Maximum number of interval starts.
const MAX_BEGINS: usize = 1 << 20;

impl NameLookup for Reader {
    fn task(&self, pid: u32, array: &str) -> Option<Arc<TaskInfo>> {
        Reader::task(self, pid, array)
    }

    fn file_location(&self, id: &FileId) -> Option<Arc<FileLocation>> {
        Reader::file_location(self, id)
    }
}

/// An interval that is being summed.
struct OpenInterval {
    from: i64,
    /// `None` if not known yet.
    to: Option<i64>,
    sums: IntervalCounters,
}

impl OpenInterval {
    fn new(from: i64) -> Self {
        Self { from, to: None, sums: IntervalCounters::default() }
    }
}

fn us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Iterator over the intervals of a recording.
pub struct IntervalReader {
    reader: Reader,
    interval_us: i64,
    events: Events,
    spans: VecDeque<OpenInterval>,
    fold: Fold,
    window: Window,
    slow: RecentOperations,
    /// Operations by kind, with the end of the recorded interval: those read ahead.
    ahead: VecDeque<(i64, Cube<OperationKind, KindSum>)>,
    operations: Cube<OperationKind, KindSum>,
    /// Time of the newest item so far.
    newest: i64,
    /// Start of the first interval after a seek. Older items are in no interval.
    begin: i64,
    done: bool,
    marks: Vec<(i64, BatchPosition)>,
    /// Start times of the intervals returned so far.
    begins: Vec<i64>,
    /// Opens the recording again, to find its end.
    reopen: Reopener,
    /// End of the recording, once known.
    end: Option<i64>,
    /// Start and end of the period that is returned.
    period: (i64, i64),
    /// Times at which an interval ends, whatever its length.
    cuts: [i64; 2],
}

/// Opens a recording again; `None` if that fails.
pub type Reopener = Box<dyn Fn() -> Option<Reader> + Send>;

impl IntervalReader {
    /// Reads everything in `reader`; `reopen` opens the same recording.
    pub fn new(reader: Reader, interval: Duration, reopen: Reopener) -> Self {
        Self {
            reopen,
            end: None,
            period: (i64::MIN, i64::MAX),
            cuts: [i64::MIN, i64::MAX],
            reader,
            interval_us: us(interval).max(1),
            events: Events::default(),
            spans: VecDeque::new(),
            fold: Fold::new(Sample::default()),
            window: Window::new(window::SPAN),
            slow: RecentOperations::default(),
            ahead: VecDeque::new(),
            operations: Cube::default(),
            newest: i64::MIN,
            begin: i64::MIN,
            done: false,
            marks: Vec::new(),
            begins: Vec::new(),
        }
    }

    /// Returns only intervals that overlap `period`. Earlier ones are read, because verdicts
    /// compare with them.
    pub fn between(mut self, period: (i64, i64)) -> Self {
        self.period = period;
        self
    }

    /// Ends an interval at these times, so that no interval is partly in the period between them.
    pub fn cut_at(mut self, cuts: [i64; 2]) -> Self {
        self.cuts = cuts;
        self
    }

    /// Operations on files in the last interval returned, slow or not. Empty if they were not
    /// recorded.
    pub fn operations(&self) -> &Cube<OperationKind, KindSum> {
        &self.operations
    }

    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Start of the first interval, µs since 1970; `None` before [`IntervalReader::next`].
    pub fn start_us(&self) -> Option<i64> {
        self.begins.first().copied()
    }

    /// End of the recording, µs since 1970. Reads the recording to its end on the first call.
    pub fn end_us(&mut self) -> Option<i64> {
        self.end = self.end.or_else(|| Some((self.reopen)()?.last_time()));
        self.end
    }

    /// Start of the interval `n` before the one that contains `time_us`, for
    /// [`IntervalReader::rewind`].
    pub fn back(&self, time_us: i64, n: usize) -> i64 {
        let here = self.begins.partition_point(|&b| b <= time_us);
        let there = here.saturating_sub(1).saturating_sub(n);
        self.begins.get(there).copied().unwrap_or(time_us)
    }

    /// Makes [`IntervalReader::next`] return the interval that contains `time_us` if it was
    /// returned before, else the first new one.
    pub fn rewind(&mut self, time_us: i64) -> Result<(), TraceError> {
        let before = |times: &[i64], time: i64| times.partition_point(|&t| t <= time).max(1) - 1;
        // Start `window::SPAN` earlier: the headline covers that time.
        let warm = self
            .begins
            .get(before(&self.begins, time_us.saturating_sub(us(window::SPAN))))
            .copied();
        let until = self.begins.get(before(&self.begins, time_us)).copied();
        let (Some(warm), Some(until)) = (warm, until) else {
            return Ok(());
        };
        // Start early enough to read a state with names, and items that are out of order.
        let at = self.marks.partition_point(|m| m.0 <= warm.saturating_sub(2 * MAX_DISORDER_US));
        let Some((_, mark)) = self.marks.get(at.saturating_sub(1)).cloned() else {
            return Ok(());
        };
        self.reader.seek(&mark)?;
        self.events = Events::default();
        self.events.disks.add_boundary(warm);
        self.spans = VecDeque::from([OpenInterval::new(warm)]);
        self.fold = Fold::new(Sample::default());
        self.window.restart();
        self.slow = RecentOperations::default();
        self.ahead.clear();
        (self.newest, self.begin, self.done) = (i64::MIN, warm, false);
        while self.spans.front().is_some_and(|s| s.from < until) && self.next().is_some() {}
        Ok(())
    }

    fn add_mark(&mut self, time_us: i64, mark: BatchPosition) {
        if self.marks.last().is_none_or(|m| m.0 < time_us) {
            self.marks.push((time_us, mark));
        }
        if self.marks.len() > MAX_MARKS {
            let mut nth = 0;
            self.marks.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
        }
    }

    fn add(&mut self, item: &Item) {
        let time = item.time_us();
        self.newest = self.newest.max(time);
        if let Item::Slow { time_us, json } = item
            && let Ok(interval) = SlowInterval::parse(*time_us, json)
        {
            self.slow.add(&interval);
            self.ahead.push_back((*time_us, interval.kinds));
        }
        let state = matches!(item, Item::State(_));
        if self.spans.is_empty() {
            self.events.disks.add_boundary(time);
            self.spans.push_back(OpenInterval::new(time));
        }
        self.end_spans(time, state);
        if state && time <= self.begin {
            self.events.add_first_state(item);
            return;
        }
        if time < self.begin {
            self.events.add_outside(item);
            return;
        }
        let Self { spans, events, .. } = self;
        let inside = |s: &OpenInterval| {
            let to = s.to.unwrap_or(i64::MAX);
            if state { time > s.from && time <= to } else { time >= s.from && time < to }
        };
        let index = spans.iter().rposition(inside).unwrap_or(0);
        if let Some(span) = spans.get_mut(index) {
            events.push(&mut span.sums, item);
        }
    }

    /// Ends the last span if `time` is past its end, and begins the next one.
    fn end_spans(&mut self, time: i64, state: bool) {
        while let Some(last) = self.spans.back_mut() {
            let due = last.from.saturating_add(self.interval_us);
            let to = if self.interval_us < 1_000_000 {
                (time >= due).then_some(due)
            } else if state && time > last.from {
                let tolerance = (self.interval_us / 4).min(250_000);
                // After a cut, the first interval may be short.
                (time >= due - tolerance || self.cuts.contains(&last.from)).then_some(time)
            } else {
                // Not at `due`: the items since then are in this span.
                let late = due.saturating_add(MAX_STATE_DELAY_US);
                (time >= late).then_some(late)
            };
            let is_past = |cut: &i64| (last.from.saturating_add(1)..=time).contains(cut);
            let cut = self.cuts.into_iter().find(is_past);
            let Some(to) = [to, cut].into_iter().flatten().min() else { return };
            last.to = Some(to);
            self.events.disks.add_boundary(to);
            let mut next = OpenInterval::new(to);
            // Later rows are at most MAX_DISORDER_US older than this one.
            let gap = time.saturating_sub(MAX_DISORDER_US).saturating_sub(to);
            if gap > MAX_GAP_US {
                let end = to + gap / self.interval_us * self.interval_us;
                next.to = Some(end);
                self.spans.push_back(next);
                self.events.disks.add_boundary(end);
                next = OpenInterval::new(end);
            }
            self.spans.push_back(next);
        }
    }

    fn snapshot(&mut self, span: OpenInterval, to: i64) -> Snapshot {
        let (start, end) = self.events.samples(span.sums, span.from, to, &self.reader);
        self.events.disks.forget_before(to);
        self.fold.rebase(start);
        let mut snapshot = self.fold.step(end);
        self.window.evaluate(&mut snapshot);
        for array in &mut snapshot.arrays {
            array.slow = self.slow.longest(&array.info.name, to);
        }
        self.operations.clear();
        while self.ahead.front().is_some_and(|(end, _)| *end <= to)
            && let Some((_, kinds)) = self.ahead.pop_front()
        {
            self.operations.merge(&kinds);
        }
        let note = self.reader.note().map(str::to_owned);
        snapshot.notes.extend(note);
        let is_new = self.begins.last().is_none_or(|&b| b < span.from);
        if is_new && to > self.period.0 && self.begins.len() < MAX_BEGINS {
            self.begins.push(span.from);
        }
        snapshot
    }
}

impl Iterator for IntervalReader {
    type Item = Snapshot;

    /// The next interval; `None` at the end.
    fn next(&mut self) -> Option<Snapshot> {
        loop {
            let due = self.spans.front().and_then(|s| s.to);
            if let Some(to) = due.filter(|&to| self.newest >= to.saturating_add(MAX_WAIT_US))
                && !self.events.disks.is_settled(to)
            {
                self.events.disks.end(to);
            }
            let ready = |to: i64| {
                self.newest >= to.saturating_add(MAX_DISORDER_US)
                    && self.events.disks.is_settled(to)
            };
            if due.is_some_and(ready) || self.done {
                let span = self.spans.pop_front()?;
                let to = span.to.unwrap_or(self.newest);
                if span.from >= self.period.1 {
                    self.done = true;
                    self.spans.clear();
                    return None;
                }
                // The remainder after the last state is usually empty.
                if to > span.from {
                    let snapshot = self.snapshot(span, to);
                    if to > self.period.0 {
                        return Some(snapshot);
                    }
                }
                continue;
            }
            match self.reader.next_item() {
                Some(item) => {
                    if let Some(mark) = self.reader.mark() {
                        self.add_mark(item.time_us(), mark);
                    }
                    self.add(&item);
                }
                None => {
                    self.done = true;
                    self.events.disks.add_boundary(self.newest);
                    self.events.disks.end(self.newest);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
