//! Gathers all data of a report in one pass over a recording.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::analysis::amplification::Amplification;
use crate::analysis::events::{Events, IntervalCounters};
use crate::analysis::fold::{Fold, Sample};
use crate::analysis::hotspot;
use crate::analysis::item::Item;
use crate::analysis::recent::Recent;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::time;
use crate::analysis::time::Span;
use crate::analysis::timeline::{Pieces, Timeline};
use crate::origin::Op;
use crate::recording::error::Ending;
use crate::recording::header::Header;
use crate::recording::reader::{Reader, Wanted};

/// Number of losses listed one by one.
const LOSSES: usize = 100;

/// Data of a report.
pub struct Report {
    /// Header of the recording.
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
    /// Rows of members or arrays that are in no state.
    pub unplaced: u64,
    /// End of the recording.
    pub ending: Ending,
}

/// Requests by size, in powers of two; the first bucket has requests without data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Requests, by [`Sizes::bucket`].
    pub requests: [u64; Sizes::BUCKETS],
    /// Their bytes.
    pub bytes: [u64; Sizes::BUCKETS],
}

impl Sizes {
    /// 0; 1 to 511; 512 to 1023; ... ; 2 GiB and more.
    pub const BUCKETS: usize = 25;

    /// Bucket of `length`.
    pub fn bucket(length: u32) -> usize {
        match length.checked_ilog2() {
            None => 0,
            Some(log) => (log as usize).saturating_sub(7).max(1),
        }
    }

    /// Smallest length in `bucket`.
    pub fn from(bucket: usize) -> u64 {
        match bucket {
            0 | 1 => bucket as u64,
            n => 1 << (n + 7),
        }
    }

    fn add(&mut self, length: u32) {
        let bucket = Self::bucket(length);
        if let (Some(n), Some(b)) = (self.requests.get_mut(bucket), self.bytes.get_mut(bucket)) {
            *n += 1;
            *b += u64::from(length);
        }
    }
}

/// Reads the recording from `from` to `to`, by default from its start to its end.
pub fn gather(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<Report> {
    let mut reader = Reader::open(path, Wanted::Figures)?;
    let first = reader.next_item();
    let Some(first) = first else {
        // Nothing after the header.
        bail!("{}: holds no event; {}", path.display(), reader.ending());
    };
    let start_us = first.time_us();
    let mut span = Span::new(start_us);
    if [from, to].into_iter().flatten().any(time::needs_end) {
        span.end_us = Some(Reader::open(path, Wanted::Figures)?.last_time());
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
        bail!("--to {text} is before the recording, which begins at {start}");
    }
    if from_us >= to_us {
        bail!("--from must be before --to");
    }
    let from_us = from_us.max(start_us);
    let mut pass = Pass::new(start_us, from_us, to_us);
    pass.item(&first);
    while let Some(item) = reader.next_item() {
        pass.item(&item);
    }
    let recorded_us = (start_us, pass.newest);
    // Report a period without events too: disks may have been busy all the time.
    if from_us > pass.newest || (pass.items == 0 && from_us == pass.newest) {
        bail!(
            "{}: nothing was recorded in that time; it has {} to {}{}",
            path.display(),
            time::rfc3339(recorded_us.0),
            time::rfc3339(recorded_us.1),
            if time::is_utc(start_us, &zone) {
                String::new()
            } else {
                let local = time::period_in(recorded_us.0, recorded_us.1, &zone);
                format!(" (local {local})")
            }
        );
    }
    let to_us = to_us.min(pass.newest);
    Ok(pass.report(&reader, recorded_us, from_us, to_us))
}

/// Sums of the pass.
struct Pass {
    from_us: i64,
    /// Like `from_us`, but at the start of the recording includes rows older than the first state, which is read shortly after
    /// counting begins.
    rows_from_us: i64,
    to_us: i64,
    events: Events,
    sums: IntervalCounters,
    pieces: Pieces,
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
}

impl Pass {
    fn new(start_us: i64, from_us: i64, to_us: i64) -> Self {
        let mut events = Events::default();
        events.cut(from_us);
        events.cut(to_us);
        events.look_for_stalls(from_us, to_us);
        Self {
            from_us,
            rows_from_us: if from_us > start_us {
                from_us
            } else {
                i64::MIN
            },
            to_us,
            events,
            pieces: Pieces::new(from_us),
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
        }
    }

    #[inline]
    fn item(&mut self, item: &Item) {
        let time = item.time_us();
        self.newest = self.newest.max(time);
        if let Item::State(state) = item {
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
            // A state includes everything before it.
            if time <= self.from_us {
                self.events.skip(item);
            } else if time <= self.to_us {
                self.items += 1;
                self.events.push(&mut self.sums, item);
                if time < self.to_us {
                    self.pieces.state(&mut self.events, time);
                }
            } else {
                self.events.pass(item);
            }
            return;
        }
        if time < self.rows_from_us || time >= self.to_us {
            // Its request may have been in flight in the period.
            if !self.events.is_settled(self.to_us) {
                self.events.pass(item);
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
            Item::Lost { reason, count, .. } if self.losses.len() < LOSSES => {
                self.losses.push((time, format!("{count}: {reason}")));
            }
            _ => {}
        }
        self.events.push(&mut self.sums, item);
    }

    fn report(
        mut self,
        reader: &Reader,
        recorded_us: (i64, i64),
        from_us: i64,
        to_us: i64,
    ) -> Report {
        self.pieces.finish(&mut self.events, to_us);
        self.events.end(self.newest);
        let (start, end) = self.events.samples(self.sums, from_us, to_us, reader);
        let timeline = self.pieces.timeline(&self.events);
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
            let by_op = Op::ALL.into_iter().zip(by_op);
            by_op.map(|(op, sizes)| ((name.clone(), op), sizes))
        });
        let some = |s: &Sizes| s.requests.iter().any(|&n| n > 0);
        Report {
            header: reader.header().clone(),
            recorded_us,
            from_us,
            to_us,
            requests: self.requests,
            submissions: self.submissions,
            errors: self.errors,
            sizes: sizes.filter(|(_, s)| some(s)).collect(),
            snapshot,
            timeline,
            losses: self.losses,
            unplaced: reader.unplaced(),
            ending: reader.ending().clone(),
        }
    }
}

/// Fills in utilisation over time and stalls of the members: a mean over the whole period hides both.
fn history(snapshot: &mut Snapshot, events: &Events, timeline: &Timeline) {
    for (number, (array, name)) in events.members().enumerate() {
        let mut arrays = snapshot.arrays.iter_mut();
        let array = arrays.find(|a| a.info.name == array);
        let member = array.and_then(|a| a.members.iter_mut().find(|m| m.name == name));
        let Some(member) = member else { continue };
        member.stall = events.stall(number);
        if member.disk.is_some() {
            let intervals = timeline.intervals.iter();
            member.recent = intervals
                .map(|i| Recent {
                    interval: Duration::from_micros((i.to_us - i.from_us).max(0) as u64),
                    utilisation: Some(i.utilisation(number)),
                    ..Recent::default()
                })
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::{Report, Sizes, gather};
    use crate::analysis::item::Item;
    use crate::recording::fixture;

    type Sums = BTreeMap<String, [u64; 4]>;

    /// By member: requests, bytes, requests by the kernel's count, busy microseconds.
    fn sums(report: &Report, into: &mut Sums) {
        let us = report.snapshot.interval.as_secs_f64() * 1e6;
        for member in report.snapshot.arrays.iter().flat_map(|a| &a.members) {
            let (io, disk) = (member.sum(|_| true), member.disk.unwrap());
            let sum = into.entry(member.name.clone()).or_default();
            let busy = (disk.utilisation * us).round() as u64;
            for (sum, n) in sum.iter_mut().zip([io.0, io.1, disk.requests, busy]) {
                *sum += n;
            }
        }
    }

    fn file(items: &[Item]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&fixture::file_of(items, 500)).unwrap();
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn adjoining_periods_add_up_to_the_whole(mut cuts in prop::collection::vec(1u32..7999, 1..8), idle in any::<bool>()) {
            let mut items = fixture::items(4000, 8);
            for item in &mut items {
                if let (Item::State(state), true) = (item, idle) {
                    let members = state.arrays.iter_mut().flat_map(|a| &mut a.members);
                    members.flat_map(|m| &mut m.disk).for_each(|d| d.in_flight = 0);
                }
            }
            let file = file(&items);
            let report = |from: Option<&str>, to: Option<&str>| gather(file.path(), from, to).unwrap();
            let mut whole = Sums::new();
            sums(&report(None, None), &mut whole);
            prop_assert!(whole.values().all(|sum| sum[2] == 800 && sum[3] > 1_000_000));
            cuts.sort_unstable();
            cuts.dedup();
            let times: Vec<String> = cuts.iter().map(|ms| format!("+{}.{:03}", ms / 1000, ms % 1000)).collect();
            let mut parts = Sums::new();
            sums(&report(None, Some(&times[0])), &mut parts);
            for pair in times.windows(2) {
                sums(&report(Some(&pair[0]), Some(&pair[1])), &mut parts);
            }
            sums(&report(times.last().map(String::as_str), None), &mut parts);
            prop_assert_eq!(parts, whole);
        }
    }

    #[test]
    fn requests_completed_before_the_first_state_are_counted() {
        let mut items = fixture::items(4000, 8);
        for item in items.iter_mut().take(40) {
            if let Item::Request(r) = item {
                r.time_us = fixture::START - 500;
            }
        }
        let file = file(&items);
        let requests = |from, to| {
            let report = gather(file.path(), from, to).unwrap();
            let members = report.snapshot.arrays.iter().flat_map(|a| &a.members);
            let sums: u64 = members.map(|m| m.sum(|_| true).0).sum();
            let parts = report.timeline.intervals.iter().flat_map(|i| &i.members);
            let parts: u64 = parts.map(|w| w.requests()).sum();
            assert_eq!((report.requests, parts), (sums, sums));
            sums
        };
        assert_eq!(requests(None, None), 4000);
        assert_eq!(
            requests(None, Some("+3")) + requests(Some("+3"), None),
            4000
        );
        assert_eq!(requests(Some("+0"), None), 4000);
    }

    #[test]
    fn a_part_of_a_second_has_its_own_utilisation() {
        let mut items = fixture::items(4000, 8);
        // Nothing happens from 2.2 to 2.8 s.
        let quiet = fixture::START + 2_200_000..fixture::START + 2_800_000;
        items.retain(|i| matches!(i, Item::State(_)) || !quiet.contains(&i.time_us()));
        for item in &mut items {
            if let Item::State(state) = item {
                let members = state.arrays.iter_mut().flat_map(|a| &mut a.members);
                members
                    .flat_map(|m| &mut m.disk)
                    .for_each(|d| d.in_flight = 0);
            }
        }
        let file = file(&items);
        let part = |from, to| {
            let report = gather(file.path(), Some(from), Some(to)).unwrap();
            report.snapshot.arrays[0].members[0].disk.unwrap()
        };
        let (quiet, busy) = (part("+2.3", "+2.81"), part("+2.0", "+2.2"));
        assert!(quiet.utilisation < 0.05, "{quiet:?}");
        assert!(busy.utilisation > 0.5 && busy.requests > 5, "{busy:?}");
    }

    /// A mean over the whole recording hides it.
    #[test]
    fn a_stall_leads_the_headline() {
        for ticks in [true, false] {
            let file = file(&fixture::stalled_items(ticks));
            for (from, to, expected) in [
                (
                    None,
                    None,
                    "loop3 completed nothing for 12 s, with 12 requests in flight",
                ),
                (Some("+8"), None, "loop3 completed nothing for 9 s, with"),
                (
                    Some("+4.5"),
                    Some("+12"),
                    "loop3 completes nothing: 12 requests in flight, none completed in 7 s",
                ),
                (Some("+13"), None, ""),
                (None, Some("+9"), ""),
                (Some("+17"), None, ""),
            ] {
                let report = gather(file.path(), from, to).unwrap();
                let hotspot = report.snapshot.arrays[0].hotspot.clone().unwrap();
                let stalled = hotspot.kind == crate::analysis::hotspot::Kind::Stalled;
                assert_eq!(stalled, !expected.is_empty(), "{from:?} {to:?} {hotspot:?}");
                assert!(
                    hotspot.headline.starts_with(expected),
                    "{from:?} {to:?} {hotspot:?}"
                );
            }
        }
    }

    #[test]
    fn seconds_of_saturation_are_said() {
        let mut items = fixture::items(8000, 20);
        for item in &mut items {
            if let Item::State(state) = item {
                // loop1 is busy in the first five seconds.
                let disk = state.arrays[0].members[0].disk.as_mut().unwrap();
                disk.io_ticks_ms = (((state.time_us - fixture::START) / 1000) as u64).min(5000);
                let others = state.arrays.iter_mut().flat_map(|a| &mut a.members).skip(1);
                others
                    .flat_map(|m| &mut m.disk)
                    .for_each(|d| d.in_flight = 0);
            }
        }
        items.retain(|i| match i {
            Item::Request(r) => r.device_us.is_some_and(|us| us < 500) && r.member != 0,
            Item::Part(_) => false,
            _ => true,
        });
        let file = file(&items);
        let report = gather(file.path(), None, None).unwrap();
        let headline = &report.snapshot.arrays[0].hotspot.as_ref().unwrap().headline;
        let expected = "no member is saturated: the busiest, loop1, is busy 25 % of the time (100 % in 5 of 20 s)";
        assert!(headline.starts_with(expected), "{headline}");
    }

    #[test]
    fn sizes_are_powers_of_two() {
        let buckets = [
            (0, 0),
            (1, 1),
            (511, 1),
            (512, 2),
            (4096, 5),
            (4097, 5),
            (u32::MAX, 24),
        ];
        for (length, bucket) in buckets {
            assert_eq!(Sizes::bucket(length), bucket, "{length}");
            assert!(Sizes::from(bucket) <= u64::from(length));
            assert!(bucket + 1 == Sizes::BUCKETS || Sizes::from(bucket + 1) > u64::from(length));
        }
    }
}
