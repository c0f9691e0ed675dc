//! Work of each member over the course of a recording, in intervals that suit its length.
//!
//! Intervals end at states, which are about a second apart. While the recording is read, at most
//! [`MAX_PIECES`] pieces are kept; the length of a piece doubles when there are more. At the end,
//! pieces are joined into intervals of a round length.

use serde::Serialize;

use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::detail::{ADDRESSES, Addresses, CountedRequest, Detail, DetailCounts};
use crate::analysis::events::{DiskSum, Events};
use crate::analysis::fold::ArrayNow;
use crate::analysis::hist::Hist;
use crate::analysis::item::{Item, Request, State};
use crate::analysis::nested::is_part;
use crate::analysis::traffic::IoSum;
use crate::origin::{Op, Origin};

/// Maximum number of intervals: the width of a line of text.
pub const MAX_INTERVALS: usize = 48;
/// Maximum number of intervals of a page.
pub const MAX_FINE_INTERVALS: usize = 60;
/// Maximum number of pieces kept while reading.
const MAX_PIECES: usize = 512;
/// Round interval lengths, in seconds. Longer intervals are whole multiples of the last one.
const LENGTHS: [i64; 16] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400];

/// Cells of one member.
const CELLS: usize = Origin::ALL.len() * Op::ALL.len();

/// Requests and bytes by member number, origin and operation.
type IoCounts = Cube<(u32, u8, u8), IoSum>;

/// Gathers pieces while a recording is read.
#[derive(Debug)]
pub struct TimelineGatherer {
    done: Vec<TimelinePiece>,
    from: i64,
    /// Requests and bytes of the current piece, by member number, origin and operation.
    io: Vec<IoSum>,
    /// Number of states per piece, and in the current piece.
    states: (u32, u32),
    /// Latencies and addresses.
    detail: Option<Detail>,
}

#[derive(Clone, Debug)]
struct TimelinePiece {
    from: i64,
    to: i64,
    io: IoCounts,
    counts: DetailCounts,
}

/// A timeline with more and shorter intervals, and addresses: for a page.
#[derive(Debug, Default)]
pub struct Fine {
    /// The intervals.
    pub timeline: Timeline,
    /// Names of arrays.
    pub arrays: Vec<String>,
    /// Addresses of the requests, by array.
    pub addresses: Vec<Addresses>,
    /// Requests by interval, array and address.
    pub by_address: Vec<Vec<[u32; ADDRESSES]>>,
}

/// Adjoining intervals in order.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Approximate length of an interval in seconds.
    pub length_s: i64,
    /// Names of array and member, by member number.
    pub names: Vec<(String, String)>,
    pub intervals: Vec<TimelineInterval>,
    /// Times in the device, by interval and member number; empty without
    /// [`TimelineGatherer::with_detail`].
    pub latencies: Vec<Vec<Hist>>,
}

/// Work of the members in one interval.
#[derive(Debug)]
pub struct TimelineInterval {
    /// Start, µs since 1970.
    pub from_us: i64,
    /// End.
    pub to_us: i64,
    /// Work by member number.
    pub members: Vec<MemberWork>,
}

/// Work of a member.
#[derive(Clone, Debug, Default)]
pub struct MemberWork {
    /// Disk figures.
    pub disk: DiskSum,
    /// Requests and bytes by origin and operation.
    pub io: Vec<WorkIo>,
}

/// Requests and bytes of an origin and operation.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkIo {
    pub origin: Origin,
    pub op: Op,
    pub requests: u64,
    pub bytes: u64,
}

impl MemberWork {
    /// Requests completed.
    pub fn requests(&self) -> u64 {
        self.io.iter().fold(0, |sum, io| sum.saturating_add(io.requests))
    }

    /// Origin and operation with the most requests (then bytes), and its share of the requests.
    pub fn most(&self) -> Option<(Origin, Op, f64)> {
        let most = self.io.iter().max_by_key(|io| (io.requests, io.bytes))?;
        let all = self.requests();
        (all > 0).then(|| (most.origin, most.op, most.requests as f64 / all as f64))
    }
}

impl Timeline {
    /// 99th percentile of a member's times in the device in an interval, µs; `None` if none is
    /// known.
    pub fn p99_us(&self, interval: usize, member: usize) -> Option<u64> {
        self.latencies.get(interval)?.get(member)?.quantile(0.99)
    }
}

impl TimelineInterval {
    /// Share of the interval in which the member had a request in flight, 0 to 1.
    pub fn utilisation(&self, member: usize) -> f64 {
        let length = self.to_us.saturating_sub(self.from_us);
        let busy = self.members.get(member).map_or(0, |w| w.disk.busy_us);
        if length > 0 { (busy as f64 / length as f64).min(1.0) } else { 0.0 }
    }
}

impl TimelineGatherer {
    /// Starts at `from_us`.
    pub fn new(from_us: i64) -> Self {
        Self { done: Vec::new(), from: from_us, io: Vec::new(), states: (1, 0), detail: None }
    }

    /// Also gathers the figures of [`TimelineGatherer::fine`].
    pub fn with_detail(mut self) -> Self {
        self.detail = Some(Detail::default());
        self
    }

    /// Sets the sizes of the arrays of a state that was added to `events`.
    pub fn sizes(&mut self, events: &Events, state: &State) {
        let Some(detail) = &mut self.detail else {
            return;
        };
        for (subject, recorded) in state.arrays.iter().zip(0..) {
            if let Some(array) = events.array(recorded) {
                detail.set_size(array, outermost(state, subject).info.bytes);
            }
        }
    }

    /// Adds a request or a part of one.
    #[inline]
    pub fn add(&mut self, events: &Events, item: &Item) {
        let (member, origin, op, requests, bytes) = match item {
            Item::Request(r) => (r.member, r.origin, r.op, 1, r.bytes),
            Item::Part(p) => (p.member, p.origin, p.op, 0, p.bytes),
            _ => return,
        };
        let Some(number) = events.member(member) else {
            return;
        };
        let key = (number, origin as u8, op as u8);
        let sum = IoSum { requests, bytes: bytes.into() };
        let time = item.time_us();
        let seen = match (&self.detail, item) {
            (Some(_), Item::Request(r)) => seen(events, number, r),
            _ => None,
        };
        if time < self.from {
            // A late item belongs to an earlier piece.
            let index = self.done.iter().rposition(|p| p.from <= time);
            if let Some(piece) = self.done.get_mut(index.unwrap_or(0)) {
                if let (Some(detail), Some(seen)) = (&mut self.detail, &seen) {
                    detail.add_late(&mut piece.counts, seen);
                }
                return piece.io.add(key, &sum);
            }
        }
        if let (Some(detail), Some(seen)) = (&mut self.detail, &seen) {
            detail.add(seen);
        }
        let at = number as usize * CELLS + origin as usize * Op::ALL.len() + op as usize;
        if at >= self.io.len() {
            self.io.resize((number as usize + 1) * CELLS, IoSum::default());
        }
        if let Some(all) = self.io.get_mut(at) {
            all.add(&sum);
        }
    }

    /// Takes the sums of the current piece and resets them.
    fn take(&mut self) -> IoCounts {
        let ops = Op::ALL.len();
        let cells =
            self.io.iter_mut().map(std::mem::take).enumerate().filter(|(_, sum)| !sum.is_zero());
        let key = |at: usize| ((at / CELLS) as u32, (at % CELLS / ops) as u8, (at % ops) as u8);
        cells.map(|(at, sum)| (key(at), sum)).collect()
    }

    /// Adds a state at `time_us`, at which a piece may end.
    pub fn state(&mut self, events: &mut Events, time_us: i64) {
        self.states.1 += 1;
        if self.states.1 < self.states.0 || time_us <= self.from {
            return;
        }
        self.end(events, time_us);
        if self.done.len() < MAX_PIECES {
            return;
        }
        self.states.0 = self.states.0.saturating_mul(2);
        let mut halves = std::mem::take(&mut self.done).into_iter();
        while let Some(mut piece) = halves.next() {
            if let Some(second) = halves.next() {
                events.disks.remove_boundary(piece.to);
                piece.join(&second);
            }
            self.done.push(piece);
        }
    }

    fn end(&mut self, events: &mut Events, time_us: i64) {
        events.disks.add_boundary(time_us);
        let io = self.take();
        let counts = self.detail.as_mut().map(Detail::take);
        self.done.push(TimelinePiece {
            from: self.from,
            to: time_us,
            io,
            counts: counts.unwrap_or_default(),
        });
        (self.from, self.states.1) = (time_us, 0);
    }

    /// Ends the last piece at `to_us`. Call it before `Disks::end`.
    pub fn finish(&mut self, events: &mut Events, to_us: i64) {
        if to_us > self.from {
            return self.end(events, to_us);
        }
        // Add requests that completed at the moment of the last state.
        let rest = self.take();
        let counts = self.detail.as_mut().map(Detail::take);
        if let Some(last) = self.done.last_mut() {
            last.counts.join(&counts.unwrap_or_default());
            last.io.merge(&rest);
        }
    }

    /// Returns the intervals. Call it after `Disks::end`.
    pub fn timeline(&self, events: &Events) -> Timeline {
        let (length_s, joined) = self.joined(MAX_INTERVALS);
        self.intervals(events, length_s, joined)
    }

    /// Returns finer intervals and addresses. Call it after `Disks::end`; empty without
    /// [`TimelineGatherer::with_detail`].
    pub fn fine(&self, events: &Events) -> Fine {
        let Some(detail) = &self.detail else {
            return Fine::default();
        };
        let (length_s, joined) = self.joined(MAX_FINE_INTERVALS);
        let arrays = events.arrays().len();
        let counts = || joined.iter().map(|piece| &piece.counts);
        let by_address =
            |counts: &DetailCounts| (0..arrays).map(|a| counts.by_address(a)).collect();
        Fine {
            by_address: counts().map(by_address).collect(),
            arrays: events.arrays().to_vec(),
            addresses: detail.addresses(),
            timeline: self.intervals(events, length_s, joined),
        }
    }

    /// Adds the disk figures to the pieces.
    fn intervals(&self, events: &Events, length_s: i64, joined: Vec<TimelinePiece>) -> Timeline {
        let names: Vec<_> = events.members().map(|(a, m)| (a.to_owned(), m.to_owned())).collect();
        let counted = joined.iter().filter(|_| self.detail.is_some());
        let latencies = counted.map(|piece| piece.counts.latencies(names.len())).collect();
        let intervals = joined.into_iter().map(|piece| interval(events, names.len(), piece));
        Timeline { length_s, intervals: intervals.collect(), names, latencies }
    }

    /// Joins pieces into at most `most` intervals. Also returns their length in seconds.
    fn joined(&self, most: usize) -> (i64, Vec<TimelinePiece>) {
        let (Some(first), Some(last)) = (self.done.first(), self.done.last()) else {
            return (0, Vec::new());
        };
        let start = first.from;
        let length_s = length_s(last.to.saturating_sub(start), most);
        let number = |piece: &TimelinePiece| (piece.from - start) / (length_s * 1_000_000);
        let mut joined: Vec<TimelinePiece> = Vec::new();
        for piece in &self.done {
            match joined.last_mut() {
                Some(last) if number(last) == number(piece) => last.join(piece),
                _ => joined.push(piece.clone()),
            }
        }
        (length_s, joined)
    }
}

/// The array that the addresses of an array's requests belong to: itself, or the outermost array
/// that it is a member of.
fn outermost<'a>(state: &'a State, array: &'a ArrayNow) -> &'a ArrayNow {
    let outer = |array: &ArrayNow| {
        let name = &array.info.name;
        let mut all = state.arrays.iter().filter(|a| a.info.name != *name);
        all.find(|outer| outer.members.iter().any(|m| is_part(&m.name, name)))
    };
    // Nested up to three levels; a recording may claim a cycle.
    let mut found = array;
    for _ in 0..3 {
        found = outer(found).unwrap_or(found);
    }
    found
}

/// The properties of a request that [`Detail`] counts.
#[inline]
fn seen(events: &Events, number: u32, r: &Request) -> Option<CountedRequest> {
    Some(CountedRequest {
        member: number,
        array: events.array_of(number)?,
        origin: r.origin,
        bytes: if matches!(r.op, Op::Read | Op::Write) { r.bytes } else { 0 },
        sector: r.array_sector,
        device_us: r.device_us,
    })
}

fn interval(events: &Events, members: usize, piece: TimelinePiece) -> TimelineInterval {
    let mut members = vec![MemberWork::default(); members];
    let disks = events.disks.between(piece.from, piece.to);
    for (work, disk) in members.iter_mut().zip(disks) {
        work.disk = disk;
    }
    for ((number, origin, op), IoSum { requests, bytes }) in piece.io {
        if let (Some(work), Some(origin), Some(op)) =
            (members.get_mut(number as usize), Origin::from_u8(origin), Op::from_u8(op))
        {
            work.io.push(WorkIo { origin, op, requests, bytes });
        }
    }
    TimelineInterval { from_us: piece.from, to_us: piece.to, members }
}

impl TimelinePiece {
    fn join(&mut self, next: &Self) {
        self.to = next.to;
        self.io.merge(&next.io);
        self.counts.join(&next.counts);
    }
}

/// Shortest round length, in seconds, with which at most `most` intervals cover `whole_us`.
pub fn length_s(whole_us: i64, most: usize) -> i64 {
    let most = i64::try_from(most.max(1)).unwrap_or(i64::MAX);
    let fits = |s: i64| whole_us <= s.saturating_mul(1_000_000).saturating_mul(most);
    let round = LENGTHS.into_iter().find(|&s| fits(s));
    round.unwrap_or_else(|| {
        let day = most.saturating_mul(86_400_000_000);
        86_400 * (whole_us / day + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::{MAX_INTERVALS, Timeline, TimelineGatherer, length_s};
    use crate::analysis::events::{Events, IntervalCounters};
    use crate::analysis::item::Item;
    use crate::recording::fixture;
    use crate::recording::fixture::START;

    fn timeline(items: &[Item], seconds: i64) -> Timeline {
        let (mut events, mut sums) = (Events::default(), IntervalCounters::default());
        let mut pieces = TimelineGatherer::new(START);
        events.disks.add_boundary(START);
        for item in items {
            events.push(&mut sums, item);
            match item {
                Item::State(s) => pieces.state(&mut events, s.time_us),
                _ => pieces.add(&events, item),
            }
        }
        let end = START + seconds * 1_000_000;
        pieces.finish(&mut events, end);
        events.disks.end(end);
        pieces.timeline(&events)
    }

    #[test]
    fn lengths_are_round_and_intervals_are_limited() {
        for (seconds, length) in [(0, 1), (39, 1), (48, 1), (49, 2), (600, 15), (43_200, 900)] {
            assert_eq!(length_s(seconds * 1_000_000, MAX_INTERVALS), length, "{seconds}");
        }
        for seconds in [10_000_000i64, 1 << 40] {
            let length = length_s(seconds * 1_000_000, MAX_INTERVALS);
            assert!(seconds / length <= MAX_INTERVALS as i64);
        }
    }

    #[test]
    fn intervals_adjoin_and_add_up() {
        for seconds in [3, 40, 700, 3000] {
            let items = fixture::items(6000, seconds);
            let timeline = timeline(&items, seconds);
            let intervals = &timeline.intervals;
            assert!((2..=MAX_INTERVALS + 1).contains(&intervals.len()), "{}", intervals.len());
            assert_eq!(intervals[0].from_us, START);
            assert_eq!(intervals.last().unwrap().to_us, START + seconds * 1_000_000);
            assert!(intervals.windows(2).all(|w| w[0].to_us == w[1].from_us));
            let each = intervals.iter().flat_map(|i| &i.members);
            let requests: u64 = each.clone().map(super::MemberWork::requests).sum();
            assert_eq!(requests, 6000, "{seconds} s");
            let counted: u64 = each.map(|w| w.disk.requests).sum();
            assert_eq!(counted, 5 * 100 * seconds as u64);
            let length = intervals[0].to_us - intervals[0].from_us;
            assert!((length - timeline.length_s * 1_000_000).abs() <= length / 4);
        }
    }
}
