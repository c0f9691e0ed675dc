//! Work of the members of one array over time.

use super::times;
use crate::analysis::cube::Cube;
use crate::analysis::hist::{BUCKETS, Hist, upper_edge};
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::timeline::{MemberWork, TimelineInterval};
use crate::commands::report::lines::shares;
use crate::origin::{Op, Origin};
use crate::recording::gather::PageDetail;
use crate::ui::html::colour;

/// Maximum number of origins with a colour of their own in a picture; the others are one layer.
const MAX_LAYERS: usize = 6;
/// Buckets of a histogram in one row of a heat map: a power of two.
const OCTAVE: usize = 4;
/// Number of these rows.
pub(super) const OCTAVES: usize = BUCKETS.div_ceil(OCTAVE);

pub(super) struct ArrayWork<'a> {
    array: &'a ArraySnapshot,
    intervals: &'a [TimelineInterval],
    latencies: &'a [Vec<Hist>],
    names: &'a [(String, String)],
    /// Origins with a layer of their own, the largest first.
    pub origins: Vec<Origin>,
    /// True if there are more origins.
    pub has_rest: bool,
}

/// One member over time. All vectors have one value per interval.
pub(super) struct MemberSeries<'a> {
    /// Position in the array.
    pub index: usize,
    /// Work, in the intervals in which the member is known.
    pub work: Vec<Option<&'a MemberWork>>,
    /// Share of the time with a request in flight, 0.0..=1.0.
    pub busy: Vec<f64>,
    pub latencies: Vec<Option<&'a Hist>>,
    pub seconds: Vec<f64>,
}

/// Requests or bytes of an origin and operation in an interval.
pub(super) type IoMeasure = fn((Op, u64, u64)) -> f64;

/// Requests, all operations.
pub(super) fn requests((_, requests, _): (Op, u64, u64)) -> f64 {
    requests as f64
}

/// Bytes read and written: discards and zeroing move no data.
pub(super) fn bytes((op, _, bytes): (Op, u64, u64)) -> f64 {
    match op {
        Op::Read | Op::Write => bytes as f64,
        _ => 0.0,
    }
}

impl<'a> ArrayWork<'a> {
    pub(super) fn new(detail: &'a PageDetail, array: &'a ArraySnapshot) -> Self {
        let fine = &detail.fine;
        let mut sums: Vec<(Origin, f64)> = Vec::new();
        let cells = || array.members.iter().flat_map(|m| &m.io);
        let all: f64 = cells().map(|c| c.requests as f64).sum();
        let all_bytes: f64 = cells().map(|c| bytes((c.op, 0, c.bytes))).sum();
        for origin in Origin::ALL {
            let own = || cells().filter(|c| c.origin == origin);
            let share = own().map(|c| c.requests as f64).sum::<f64>() / all.max(1.0);
            let moved: f64 = own().map(|c| bytes((c.op, 0, c.bytes))).sum();
            if own().next().is_some() {
                sums.push((origin, share.max(moved / all_bytes.max(1.0))));
            }
        }
        sums.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut origins: Vec<Origin> = sums.into_iter().map(|s| s.0).collect();
        let has_rest = origins.len() > MAX_LAYERS;
        origins.truncate(MAX_LAYERS);
        Self {
            array,
            intervals: &fine.timeline.intervals,
            latencies: &fine.timeline.latencies,
            names: &fine.timeline.names,
            origins,
            has_rest,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub(super) fn widths(&self) -> Vec<f64> {
        self.intervals.iter().map(|i| (i.to_us - i.from_us).max(0) as f64).collect()
    }

    /// Start and end of each interval.
    pub(super) fn times(&self) -> impl Iterator<Item = (i64, i64)> {
        self.intervals.iter().map(|i| (i.from_us, i.to_us))
    }

    /// Clock times of the start and the end of the period.
    pub(super) fn axis(&self) -> (String, String) {
        let first = self.intervals.first().map_or(0, |i| i.from_us);
        let last = self.intervals.last().map_or(0, |i| i.to_us);
        (times::clock(first), times::clock(last))
    }

    /// A member of the array over time; `None` if the timeline does not have it.
    pub(super) fn series(&self, index: usize) -> Option<MemberSeries<'a>> {
        let member = self.array.members.get(index)?;
        let own = |(a, m): &(String, String)| *a == self.array.info.name && *m == member.name;
        let number = self.names.iter().position(own)?;
        let intervals = self.intervals.iter();
        let latencies = self.latencies.iter();
        Some(MemberSeries {
            index,
            work: intervals.clone().map(|i| i.members.get(number)).collect(),
            busy: intervals.clone().map(|i| i.utilisation(number)).collect(),
            latencies: latencies.map(|all| all.get(number)).collect(),
            seconds: intervals.map(|i| ((i.to_us - i.from_us) as f64 / 1e6).max(1e-3)).collect(),
        })
    }

    /// The members, those that are not healthy first, then the busiest.
    pub(super) fn busiest_first(&self) -> Vec<MemberSeries<'a>> {
        let mut all: Vec<MemberSeries<'a>> =
            (0..self.array.members.len()).filter_map(|index| self.series(index)).collect();
        let load = |s: &MemberSeries<'a>| {
            let member = self.array.members.get(s.index);
            let healthy = member.is_none_or(|m| m.health.is_none());
            let requests = member.map_or(0, |m| m.sum(|_| true).0);
            (healthy, s.mean_busy(), requests)
        };
        all.sort_by(|a, b| {
            let (a, b) = (load(a), load(b));
            a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2))
        });
        all
    }

    /// Layers of a stacked picture: class, and a value per second for each interval.
    pub(super) fn layers(
        &self,
        series: &MemberSeries<'_>,
        measure: IoMeasure,
    ) -> Vec<(String, Vec<f64>)> {
        let layer = |keep: &dyn Fn(Origin) -> bool| -> Vec<f64> {
            let each = series.work.iter().zip(&series.seconds);
            each.map(|(work, seconds)| {
                let io = work.iter().flat_map(|w| &w.io).filter(|io| keep(io.origin));
                io.map(|io| measure((io.op, io.requests, io.bytes))).sum::<f64>() / seconds
            })
            .collect()
        };
        let own = self.origins.iter().map(|&origin| {
            let values = layer(&|o| o == origin);
            (colour::class(origin), values)
        });
        let mut layers: Vec<_> = own.collect();
        if self.has_rest {
            let values = layer(&|o| !self.origins.contains(&o));
            layers.push(("rest".to_owned(), values));
        }
        layers
    }
}

impl MemberSeries<'_> {
    /// Mean utilisation, weighted by the lengths of the intervals.
    pub(super) fn mean_busy(&self) -> f64 {
        let all: f64 = self.seconds.iter().sum();
        let busy: f64 = self.busy.iter().zip(&self.seconds).map(|(b, s)| b * s).sum();
        busy / all.max(1e-3)
    }

    /// Highest utilisation of an interval.
    pub(super) fn most_busy(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    /// A value per second for each interval.
    pub(super) fn rate(&self, measure: IoMeasure) -> Vec<f64> {
        let each = self.work.iter().zip(&self.seconds);
        each.map(|(work, seconds)| {
            let io = work.iter().flat_map(|w| &w.io);
            io.map(|io| measure((io.op, io.requests, io.bytes))).sum::<f64>() / seconds
        })
        .collect()
    }

    /// A quantile of the times in the device, for each interval.
    pub(super) fn quantile(&self, q: f64) -> Vec<Option<u64>> {
        self.latencies.iter().map(|h| h.and_then(|h| h.quantile(q))).collect()
    }

    /// The origins of an interval with the most requests: `file_data 90%, journal 10%`.
    pub(super) fn origins(&self, interval: usize) -> String {
        let Some(Some(work)) = self.work.get(interval) else {
            return String::new();
        };
        let sums: Cube<Origin, u64> = work.io.iter().map(|io| (io.origin, io.requests)).collect();
        let sums = sums.into_iter().map(|(origin, n)| (origin, n as f64));
        shares(sums, work.requests().max(1) as f64, 3)
    }
}

/// Requests by power of two of their time, the shortest first.
pub(super) fn octaves(hist: &Hist) -> [u64; OCTAVES] {
    let mut sums = [0; OCTAVES];
    for (bucket, &n) in hist.counts().iter().enumerate() {
        if let Some(sum) = sums.get_mut(bucket / OCTAVE) {
            *sum += u64::from(n);
        }
    }
    sums
}

/// Exclusive upper edge of an octave, µs.
pub(super) fn octave_end(octave: usize) -> u64 {
    upper_edge((octave * OCTAVE + OCTAVE - 1).min(BUCKETS - 1))
}
