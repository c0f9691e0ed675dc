//! Gathers all data of a report in one pass over a recording.

mod allocator;
mod sizes;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

pub use self::allocator::{AllocSummary, BusiestInterval};
pub use self::sizes::Sizes;
use crate::analysis::amplification::Amplification;
use crate::analysis::compare::series::Series;
use crate::analysis::events::{Events, IntervalCounters};
use crate::analysis::fold::{Fold, Sample};
use crate::analysis::hotspot;
use crate::analysis::item::Item;
use crate::analysis::profile::Profile;
use crate::analysis::recent::DiskInterval;
use crate::analysis::slow::history as slow_history;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::time;
use crate::analysis::time::RecordedSpan;
use crate::analysis::timeline::{Fine, Timeline, TimelineGatherer};
use crate::analysis::verdict::Worst;
use crate::origin::Op;
use crate::recording::alloc::AllocInterval;
use crate::recording::error::Ending;
use crate::recording::header::Header;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::slow::SlowInterval;
use crate::recording::source::IntervalReader;

/// Maximum number of losses listed one by one.
const MAX_LOSSES: usize = 100;

/// Data of a report.
pub struct Report {
    pub header: Header,
    /// Times of the first and last item of the whole recording, µs since 1970.
    pub recorded_us: (i64, i64),
    /// Start of the reported period, µs since 1970.
    pub from_us: i64,
    /// End of the reported period.
    pub to_us: i64,
    /// Requests in the period.
    pub requests: u64,
    /// Bios submitted to the arrays.
    pub submissions: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Sizes by array and operation.
    pub sizes: BTreeMap<(String, Op), Sizes>,
    /// The period as one interval.
    pub snapshot: Snapshot,
    /// The period as a series of intervals.
    pub timeline: Timeline,
    /// Time and message of each loss.
    pub losses: Vec<(i64, String)>,
    /// [`Reader::invalid_rows`], plus invalid intervals of the allocator or of slow operations.
    pub invalid_rows: u64,
    /// Intervals of the ext4 allocator; `None` if there are none.
    pub allocator: Option<AllocSummary>,
    /// Slow operations; `None` if they were not recorded.
    pub slow: Option<SlowSnapshot>,
    pub ending: Ending,
    /// Figures of the HTML page; only from [`gather_detailed`].
    pub detail: Option<PageDetail>,
}

/// Figures that only the HTML page shows.
#[derive(Debug, Default)]
pub struct PageDetail {
    /// Intervals and addresses.
    pub fine: Fine,
    /// Kernel stacks sampled with the allocator; empty without them.
    pub stacks: Profile,
}

/// A period of a recording, as typed by the user.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// Start; `None`: the start of the recording.
    pub from: Option<&'a str>,
    /// End; `None`: the end of the recording.
    pub to: Option<&'a str>,
    /// Options that set them, for messages.
    pub options: (&'static str, &'static str),
}

impl Period<'_> {
    /// Start and end in the recording `path`, µs since 1970; `i64::MIN` and `i64::MAX` without.
    ///
    /// # Errors
    /// The recording is empty or cannot be read, or the period is not in it.
    pub fn find(self, path: &Path) -> Result<(i64, i64)> {
        if self.from.is_none() && self.to.is_none() {
            return Ok((i64::MIN, i64::MAX));
        }
        let first = Reader::open(path, WantedColumns::Figures)?.next_item();
        let Some(first) = first else { bail!("{}: contains no events", path.display()) };
        let (from_us, to_us) = self.bounds(path, first.time_us())?;
        let last_us = Reader::open(path, WantedColumns::Figures)?.last_time();
        if from_us > last_us {
            bail!(nothing(path, first.time_us(), last_us));
        }
        Ok((from_us, to_us))
    }

    /// The same, if the start of the recording is known.
    fn bounds(self, path: &Path, start_us: i64) -> Result<(i64, i64)> {
        let Self { from, to, options } = self;
        let mut span = RecordedSpan::new(start_us);
        if [from, to].into_iter().flatten().any(time::needs_end) {
            span.end_us = Some(Reader::open(path, WantedColumns::Figures)?.last_time());
        }
        let zone = time::local();
        let from_us = match from {
            Some(text) => span.begin(text, &zone).map_err(anyhow::Error::msg)?,
            None => start_us,
        };
        let to_us = match to {
            Some(text) => span.parse(text, &zone).map_err(anyhow::Error::msg)?,
            None => i64::MAX,
        };
        if let Some(text) = to.filter(|_| to_us <= start_us) {
            let start = time::clock_both(start_us, &zone);
            let to = options.1;
            bail!("{to} {text} is before the recording, which starts at {start}");
        }
        if from_us >= to_us {
            bail!("{} must be before {}", options.0, options.1);
        }
        Ok((from_us, to_us))
    }
}

/// Message for a period without intervals in a recording from `first_us` to `last_us`.
fn nothing(path: &Path, first_us: i64, last_us: i64) -> String {
    let zone = time::local();
    let local = if time::is_utc(first_us, &zone) {
        String::new()
    } else {
        format!(" (local {})", time::period_in(first_us, last_us, &zone))
    };
    format!(
        "{}: nothing was recorded in that period; the recording covers {} to {}{local}",
        path.display(),
        time::rfc3339(first_us),
        time::rfc3339(last_us),
    )
}

/// Reads the recording from `from` to `to`, by default from its start to its end.
pub fn gather(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<Report> {
    let options = ("--from", "--to");
    let period = Period { from, to, options };
    Ok(read(path, period, ExtraFigures::None)?.0)
}

/// [`gather`], with the figures of the HTML page.
pub fn gather_detailed(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<Report> {
    let options = ("--from", "--to");
    let period = Period { from, to, options };
    Ok(read(path, period, ExtraFigures::Detail)?.0)
}

/// [`gather`], with the sums of each interval.
pub fn gather_series(path: &Path, period: Period<'_>) -> Result<(Report, Series)> {
    read(path, period, ExtraFigures::Series)
}

/// Figures gathered in addition to those of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtraFigures {
    None,
    Detail,
    Series,
}

fn read(path: &Path, period: Period<'_>, extra: ExtraFigures) -> Result<(Report, Series)> {
    let Period { from, to, .. } = period;
    let wanted = match extra {
        ExtraFigures::Detail => WantedColumns::Addresses,
        ExtraFigures::None | ExtraFigures::Series => WantedColumns::Figures,
    };
    let mut reader = Reader::open(path, wanted)?;
    let first = reader.next_item();
    let Some(first) = first else {
        // Nothing after the header.
        bail!("{}: contains no events; {}", path.display(), reader.ending());
    };
    let start_us = first.time_us();
    let (from_us, to_us) = period.bounds(path, start_us)?;
    let from_us = from_us.max(start_us);
    let mut pass = ReportPass::new(start_us, from_us, to_us);
    if extra == ExtraFigures::Detail {
        pass.stacks = Some(Profile::default());
    }
    pass.item(&first);
    while let Some(item) = reader.next_item() {
        pass.item(&item);
    }
    let recorded_us = (start_us, pass.newest);
    // Report a period without events too: disks may have been busy all the time.
    if pass.items == 0 && [from, to] == [None, None] && reader.ending().is_cut() {
        bail!("{}: contains no complete second; {}", path.display(), reader.ending());
    }
    if from_us > pass.newest || (pass.items == 0 && from_us == pass.newest) {
        bail!(nothing(path, start_us, pass.newest));
    }
    let to_us = to_us.min(pass.newest);
    let (mut worst, mut series) = (Worst::default(), Series::default());
    let is_series = extra == ExtraFigures::Series;
    if pass.has_facts || is_series {
        let second = Duration::from_secs(1);
        let reader = Reader::open(path, WantedColumns::Figures)?;
        let mut again = IntervalReader::new(reader, second, Box::new(|| None));
        if is_series {
            again = again.cut_at([from_us, to_us]);
        }
        while let Some(snapshot) = again.next() {
            let end = snapshot.time.as_microsecond();
            if end > to_us {
                break;
            }
            if end > from_us && pass.has_facts {
                worst.add(&snapshot);
            }
            let length = i64::try_from(snapshot.interval.as_micros()).unwrap_or(i64::MAX);
            if is_series && end.saturating_sub(length) >= from_us {
                series.add(&snapshot, again.operations());
            }
        }
    }
    let mut report = pass.report(&reader, recorded_us, from_us, to_us);
    worst.lead(&mut report.snapshot.arrays);
    Ok((report, series))
}

/// Sums of the pass.
struct ReportPass {
    from_us: i64,
    /// Like `from_us`, but unlimited at the start of the recording: the first rows are older than
    /// the first state, which is read shortly after counting begins.
    rows_from_us: i64,
    to_us: i64,
    events: Events,
    sums: IntervalCounters,
    pieces: TimelineGatherer,
    /// Index into `names` for each current member number.
    arrays: Vec<usize>,
    names: Vec<String>,
    sizes: Vec<[Sizes; Op::ALL.len()]>,
    items: u64,
    requests: u64,
    submissions: u64,
    errors: u64,
    losses: Vec<(i64, String)>,
    newest: i64,
    /// True if states have the facts that verdicts need.
    has_facts: bool,
    allocator: Option<AllocSummary>,
    slow: Option<SlowSnapshot>,
    invalid: u64,
    /// Sampled stacks; only for [`gather_detailed`].
    stacks: Option<Profile>,
}

impl ReportPass {
    fn new(start_us: i64, from_us: i64, to_us: i64) -> Self {
        let mut events = Events::default();
        events.disks.add_boundary(from_us);
        events.disks.add_boundary(to_us);
        events.disks.set_stall_period(from_us, to_us);
        Self {
            from_us,
            rows_from_us: if from_us > start_us { from_us } else { i64::MIN },
            to_us,
            events,
            pieces: TimelineGatherer::new(from_us).with_detail(),
            sums: IntervalCounters::default(),
            arrays: Vec::new(),
            names: Vec::new(),
            sizes: Vec::new(),
            items: 0,
            requests: 0,
            submissions: 0,
            errors: 0,
            losses: Vec::new(),
            newest: i64::MIN,
            has_facts: false,
            allocator: None,
            slow: None,
            invalid: 0,
            stacks: None,
        }
    }

    #[inline]
    fn item(&mut self, item: &Item) {
        let time = item.time_us();
        self.newest = self.newest.max(time);
        if let Item::Alloc { .. } | Item::Slow { .. } = item {
            self.events.add_outside(item);
            // An interval ends at its time, like a state.
            if time > self.from_us && time <= self.to_us {
                self.items += 1;
                self.invalid += u64::from(self.interval(item).is_err());
            }
            return;
        }
        if let Item::State(state) = item {
            self.has_facts |= state.arrays.iter().any(|a| a.around.is_some());
            self.arrays.clear();
            for subject in &state.arrays {
                let name = &subject.info.name;
                let known = self.names.iter().position(|n| n == name);
                let number = known.unwrap_or_else(|| {
                    self.names.push(name.clone());
                    self.sizes.push(Default::default());
                    self.names.len() - 1
                });
                self.arrays.extend(subject.members.iter().map(|_| number));
            }
            // The counters of a state are cumulative: it replaces all earlier ones.
            if time <= self.from_us {
                self.events.add_first_state(item);
            } else if time <= self.to_us {
                self.items += 1;
                self.events.push(&mut self.sums, item);
                if time < self.to_us {
                    self.pieces.state(&mut self.events, time);
                }
            } else {
                self.events.add_outside(item);
            }
            self.pieces.sizes(&self.events, state);
            return;
        }
        if time < self.rows_from_us || time >= self.to_us {
            // The request may have been in flight during the period.
            if !self.events.disks.is_settled(self.to_us) {
                self.events.add_outside(item);
            }
            return;
        }
        self.pieces.add(&self.events, item);
        self.items += 1;
        match item {
            Item::Request(r) => {
                self.requests += 1;
                self.errors += u64::from(r.error);
                let array = self.arrays.get(r.member as usize).copied();
                let sizes = array.and_then(|a| self.sizes.get_mut(a));
                if let Some(sizes) = sizes.and_then(|s| s.get_mut(r.op as usize)) {
                    sizes.add(r.length);
                }
            }
            Item::Submission(_) => self.submissions += 1,
            Item::Lost { reason, count, .. } if self.losses.len() < MAX_LOSSES => {
                self.losses.push((time, format!("{count}: {reason}")));
            }
            _ => {}
        }
        self.events.push(&mut self.sums, item);
    }

    /// Adds an interval of the allocator or of slow operations.
    fn interval(&mut self, item: &Item) -> Result<(), String> {
        match item {
            Item::Alloc { time_us, json } => {
                let interval = AllocInterval::parse(*time_us, json)?;
                if let Some(stacks) = &mut self.stacks {
                    stacks.merge(&interval.stacks);
                }
                AllocSummary::add(&mut self.allocator, interval.snapshot);
            }
            Item::Slow { time_us, json } => {
                let interval = SlowInterval::parse(*time_us, json)?;
                slow_history::add(self.slow.get_or_insert_default(), &interval);
            }
            _ => {}
        }
        Ok(())
    }

    fn report(
        mut self,
        reader: &Reader,
        recorded_us: (i64, i64),
        from_us: i64,
        to_us: i64,
    ) -> Report {
        self.pieces.finish(&mut self.events, to_us);
        self.events.disks.end(self.newest);
        let (start, end) = self.events.samples(self.sums, from_us, to_us, reader);
        let timeline = self.pieces.timeline(&self.events);
        let detail =
            self.stacks.map(|stacks| PageDetail { fine: self.pieces.fine(&self.events), stacks });
        let mut fold = Fold::new(Sample::default());
        fold.rebase(start);
        let mut snapshot = fold.step(end);
        snapshot.notes.extend(reader.note().map(str::to_owned));
        history(&mut snapshot, &self.events, &timeline);
        for array in &mut snapshot.arrays {
            array.hotspot = Some(hotspot::find(array, snapshot.interval));
            array.amplification = Some(Amplification::new(array, snapshot.interval));
        }
        let sizes = self.names.iter().zip(self.sizes).flat_map(|(name, by_op)| {
            Op::ALL.into_iter().zip(by_op).map(|(op, sizes)| ((name.clone(), op), sizes))
        });
        let has_requests = |s: &Sizes| s.requests.iter().any(|&n| n > 0);
        Report {
            header: reader.header().clone(),
            recorded_us,
            from_us,
            to_us,
            requests: self.requests,
            submissions: self.submissions,
            errors: self.errors,
            sizes: sizes.filter(|(_, s)| has_requests(s)).collect(),
            snapshot,
            timeline,
            losses: self.losses,
            invalid_rows: reader.invalid_rows() + self.invalid,
            allocator: self.allocator.map(AllocSummary::finish),
            slow: self.slow,
            ending: reader.ending().clone(),
            detail,
        }
    }
}

/// Fills in utilisation over time and stalls of the members: a mean over the whole period hides
/// both.
fn history(snapshot: &mut Snapshot, events: &Events, timeline: &Timeline) {
    for (number, (array, name)) in events.members().enumerate() {
        let mut arrays = snapshot.arrays.iter_mut();
        let array = arrays.find(|a| a.info.name == array);
        let member = array.and_then(|a| a.members.iter_mut().find(|m| m.name == name));
        let Some(member) = member else { continue };
        member.stall = events.disks.stall(number);
        if member.disk.is_some() {
            let intervals = timeline.intervals.iter();
            member.recent = intervals
                .map(|i| DiskInterval {
                    interval: Duration::from_micros((i.to_us - i.from_us).max(0) as u64),
                    utilisation: Some(i.utilisation(number)),
                    ..DiskInterval::default()
                })
                .collect();
        }
    }
}

#[cfg(test)]
mod tests;
