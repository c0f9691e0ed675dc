//! Rows of all views: filtered, sorted, and converted to rates per second. Pure.

mod amplification;
mod dirtied;
mod files;
#[cfg(test)]
mod tests;

pub use amplification::{AmplificationRow, amplification, price};
pub use dirtied::{dirtied_by, on_behalf_of};
pub use files::{FileRow, files, label, thin_volumes};

use std::time::Duration;

use crate::analysis::cube::Amount as _;
use crate::analysis::figures::Counted;
use crate::analysis::hist::Hist;
use crate::analysis::snapshot::{ArraySnapshot, Cell, MemberSnapshot, TaskIo, TaskSnapshot};
use crate::analysis::traffic::Traffic;
use crate::analysis::units;
use crate::origin::{Op, Origin, io_name};

/// Origins and operations that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
    /// Only this operation.
    pub op: Option<Op>,
    /// Only this origin.
    pub origin: Option<Origin>,
}

impl RowFilter {
    /// True if cells of this origin and operation are shown.
    pub fn keeps(self, origin: Origin, op: Op) -> bool {
        self.op.is_none_or(|o| o == op) && self.origin.is_none_or(|o| o == origin)
    }

    /// True if a cell counts in bars and heat. Discards move no data and would dwarf everything
    /// else, so they count only if the filter selects discards.
    fn is_measured(self, origin: Origin, op: Op) -> bool {
        self.keeps(origin, op) && (op != Op::Discard || self.op == Some(Op::Discard))
    }
}

/// Unit of bars and the heat map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Requests per second, the rate that limits a rotating disk.
    #[default]
    Requests,
    /// Bytes per second.
    Bytes,
}

/// An origin's part of a bar, per second.
pub type BarPart = (Origin, f64);

/// A member. Figures are per second, for the cells that the filter keeps.
#[derive(Debug)]
pub struct MemberRow<'a> {
    pub member: &'a MemberSnapshot,
    /// Reads per second.
    pub reads: f64,
    /// Writes with data per second.
    pub writes: f64,
    /// Flushes per second.
    pub flushes: f64,
    /// Discards per second.
    pub discards: f64,
    /// Other requests per second.
    pub others: f64,
    /// Bytes read and written per second.
    pub bytes: f64,
    /// Utilisation over the time window of the headline.
    pub busy_over: Option<f64>,
    /// Time in the device.
    pub device: Hist,
    /// Sums of the counted figures; 0 if the filter selects an origin.
    pub counted: Counted,
    /// Length of the interval in seconds.
    pub secs: f64,
    /// Parts by origin, in the order of [`Origin`].
    pub parts: Vec<BarPart>,
}

/// Seconds of an interval; never 0, so that a rate is always a number.
pub fn seconds(interval: std::time::Duration) -> f64 {
    interval.as_secs_f64().max(1e-3)
}

/// Time window of the headline, if longer than the interval of `secs`.
pub fn span(array: &ArraySnapshot, secs: f64) -> Option<Duration> {
    let over = array.hotspot.as_ref()?.over;
    (over.as_secs_f64() >= 1.5 * secs).then_some(over)
}

/// Heading of a figure over a time window, such as `10s`.
pub fn span_title(span: Duration) -> String {
    units::seconds_about(span).replace(' ', "")
}

/// The members, by slot.
pub fn members(
    array: &ArraySnapshot,
    secs: f64,
    filter: RowFilter,
    measure: Measure,
) -> Vec<MemberRow<'_>> {
    let span = span(array, secs);
    let row = |member| {
        let member: &MemberSnapshot = member;
        let traffic = member.traffic(|c| filter.keeps(c.origin, c.op));
        let rate = |n: u64| n as f64 / secs;
        let mut row = MemberRow {
            member,
            reads: rate(traffic.read.requests),
            writes: rate(traffic.write.requests),
            flushes: rate(traffic.flush.requests),
            discards: rate(traffic.discard.requests),
            others: rate(traffic.other.requests),
            bytes: rate(traffic.moved_bytes()),
            busy_over: span.and_then(|s| member.utilisation_over(s)),
            device: Hist::default(),
            counted: Counted::default(),
            secs,
            parts: Vec::new(),
        };
        let ops = member.counted.iter().filter(|_| filter.origin.is_none());
        for (_, counted) in ops.filter(|(op, _)| filter.op.is_none_or(|o| o == **op)) {
            row.counted.add(counted);
        }
        for c in member.io.iter().filter(|c| filter.keeps(c.origin, c.op)) {
            row.device.add(&c.device);
            if filter.is_measured(c.origin, c.op) {
                let requests = c.requests - c.empty_writes();
                add_part(&mut row.parts, c.origin, measured(measure, requests, c.bytes) / secs);
            }
        }
        row
    };
    array.members.iter().map(row).collect()
}

fn measured(measure: Measure, requests: u64, bytes: u64) -> f64 {
    match measure {
        Measure::Requests => requests as f64,
        Measure::Bytes => bytes as f64,
    }
}

fn add_part(parts: &mut Vec<BarPart>, origin: Origin, value: f64) {
    match parts.binary_search_by_key(&origin, |p| p.0) {
        Ok(i) => parts[i].1 += value,
        Err(i) => parts.insert(i, (origin, value)),
    }
}

/// Sums of parts by origin, largest first, for the legend.
pub fn legend<'a>(parts: impl Iterator<Item = &'a BarPart>) -> Vec<BarPart> {
    let mut all = Vec::new();
    for &(origin, value) in parts {
        add_part(&mut all, origin, value);
    }
    all.retain(|p| p.1 > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// An origin in the heat map.
#[derive(Debug)]
pub struct OriginRow {
    /// The origin; `None` for the sum of all.
    pub origin: Option<Origin>,
    /// True if the row counts only discards. False if it counts everything else, or if the filter
    /// selects discards.
    pub discards: bool,
    /// Requests or bytes per second on every member, in the order of the array.
    pub each: Vec<f64>,
    /// Sum of `each`.
    pub total: f64,
    /// Mean of `each` over the members that are present.
    pub mean: f64,
    /// Largest value of `each` divided by `mean`; 0 without IO.
    pub skew: f64,
}

impl OriginRow {
    /// Name of the origin, `free_space` for discards of file data, or `all` for the sum.
    pub fn name(&self) -> String {
        match (self.discards, self.origin) {
            (_, None) => "all".to_owned(),
            (false, Some(origin)) => origin.name().to_owned(),
            (true, Some(Origin::FileData)) => io_name(Origin::FileData, Op::Discard).to_owned(),
            (true, Some(origin)) => format!("{origin} discard"),
        }
    }

    /// True if a cell counts in this row.
    pub fn has(&self, cell: &Cell, filter: RowFilter) -> bool {
        Some(cell.origin) == self.origin
            && filter.keeps(cell.origin, cell.op)
            && (cell.op == Op::Discard) == (self.discards || filter.op == Some(Op::Discard))
    }
}

/// The rows of the heat map and their sum. Discards have separate rows at the end, which are not in
/// the sum.
pub fn heat(
    array: &ArraySnapshot,
    secs: f64,
    filter: RowFilter,
    measure: Measure,
) -> (Vec<OriginRow>, OriginRow) {
    let requests = |c: &Cell| c.requests - c.empty_writes();
    let measure = |c: &Cell| measured(measure, requests(c), c.bytes);
    let is_counted =
        |c: &Cell| filter.is_measured(c.origin, c.op) && (requests(c) > 0 || c.bytes > 0);
    let (mut rows, sum) = origin_rows(array, secs, measure, is_counted);
    if filter.op.is_none() {
        let discards = |c: &Cell| c.op == Op::Discard && filter.keeps(c.origin, c.op);
        let (discards, _) = origin_rows(array, secs, measure, discards);
        rows.extend(discards.into_iter().map(|row| OriginRow { discards: true, ..row }));
    }
    (rows, sum)
}

/// A row for each origin, in the order of [`Origin`], and their sum.
fn origin_rows(
    array: &ArraySnapshot,
    secs: f64,
    measure: impl Fn(&Cell) -> f64,
    keeps: impl Fn(&Cell) -> bool,
) -> (Vec<OriginRow>, OriginRow) {
    let row = |origin: Option<Origin>| {
        let each: Vec<f64> = array
            .members
            .iter()
            .map(|m| {
                let cells =
                    m.io.iter().filter(|c| keeps(c) && origin.is_none_or(|o| o == c.origin));
                cells.map(&measure).sum::<f64>() / secs
            })
            .collect();
        let total: f64 = each.iter().sum();
        let present = array.members.iter().filter(|m| m.is_present()).count().max(1);
        let mean = total / present as f64;
        let skew = if mean > 0.0 { each.iter().copied().fold(0.0, f64::max) / mean } else { 0.0 };
        OriginRow { origin, discards: false, each, total, mean, skew }
    };
    let shown = |origin: &Origin| {
        let mut cells = array.members.iter().flat_map(|m| &m.io);
        cells.any(|c| c.origin == *origin && keeps(c))
    };
    let rows = Origin::ALL.into_iter().filter(shown).map(|o| row(Some(o)));
    (rows.collect(), row(None))
}

/// A task. Figures are bios per second, for the submissions that the filter keeps.
#[derive(Debug)]
pub struct TaskRow<'a> {
    pub task: &'a TaskSnapshot,
    /// Comm of the task, printable.
    pub comm: String,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Discards per second.
    pub discards: f64,
    /// Bytes read and written per second.
    pub bytes: f64,
    /// Bytes per second that the task caused; `bytes` if dirtied bytes are unknown.
    pub causes: f64,
    /// Parts by origin.
    pub parts: Vec<BarPart>,
}

/// Bytes that the task caused: its reads, the metadata that it dirtied, and the file data that it
/// dirtied or submitted, whichever is larger: fsync(2) submits data that the same task has dirtied.
fn caused(task: &TaskSnapshot, filter: RowFilter) -> u64 {
    let sum = |io: &[TaskIo], which: &dyn Fn(&TaskIo) -> bool| {
        io.iter()
            .filter(|i| filter.keeps(i.origin, i.op) && which(i))
            .fold(0, |sum: u64, i| sum.saturating_add(i.bytes))
    };
    let data = |i: &TaskIo| i.origin == Origin::FileData;
    let written = if task.writes_for_others() {
        0
    } else {
        sum(&task.io, &|i| i.op == Op::Write && !i.origin.is_metadata())
    };
    [
        sum(&task.io, &|i| i.op == Op::Read),
        sum(&task.dirtied, &|i| !data(i)),
        sum(&task.dirtied, &data).max(written),
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

/// Sorts rows by caused bytes, largest first.
pub fn sort_by_causes(rows: &mut [TaskRow<'_>]) {
    rows.sort_by(|a, b| b.causes.total_cmp(&a.causes));
}

/// True if a task is known to have dirtied anything.
pub fn has_dirtied(rows: &[TaskRow<'_>]) -> bool {
    rows.iter().any(|r| !r.task.dirtied.is_empty())
}

/// The tasks, in the order of the snapshot.
pub fn tasks(
    array: &ArraySnapshot,
    secs: f64,
    filter: RowFilter,
    measure: Measure,
) -> Vec<TaskRow<'_>> {
    let has_dirtied = array.tasks.iter().any(|t| !t.dirtied.is_empty());
    let row = |task| {
        let task: &TaskSnapshot = task;
        let kept = || task.io.iter().filter(|i| filter.keeps(i.origin, i.op));
        let traffic: Traffic = kept().collect();
        let rate = |n: u64| n as f64 / secs;
        let mut parts = Vec::new();
        for i in kept().filter(|i| filter.is_measured(i.origin, i.op)) {
            add_part(&mut parts, i.origin, measured(measure, i.bios, i.bytes) / secs);
        }
        TaskRow {
            task,
            comm: super::text::sanitize(&task.comm),
            reads: rate(traffic.read.requests),
            writes: rate(traffic.write.requests),
            discards: rate(traffic.discard.requests),
            bytes: rate(traffic.moved_bytes()),
            causes: rate(if has_dirtied { caused(task, filter) } else { traffic.moved_bytes() }),
            parts,
        }
    };
    let has_io = |task: &&TaskSnapshot| {
        let mut io = task.io.iter().chain(&task.dirtied);
        io.any(|i| filter.keeps(i.origin, i.op))
    };
    array.tasks.iter().filter(has_io).map(row).collect()
}

/// A member, origin and operation in the latency view.
#[derive(Debug)]
pub struct LatencyRow<'a> {
    pub member: &'a MemberSnapshot,
    /// Origin of the requests.
    pub origin: Origin,
    /// Operation of the requests.
    pub op: Op,
    /// Requests per second.
    pub requests: f64,
    /// Time in the queue, before the driver.
    pub queue: &'a Hist,
    /// Time in the device.
    pub device: &'a Hist,
}

/// Rows of the latency view, by member.
pub fn latencies(array: &ArraySnapshot, secs: f64, filter: RowFilter) -> Vec<LatencyRow<'_>> {
    let cells = array.members.iter().flat_map(|m| m.io.iter().map(move |c| (m, c)));
    cells
        .filter(|(_, c)| filter.keeps(c.origin, c.op) && c.requests > c.empty_writes())
        .map(|(member, c)| LatencyRow {
            member,
            origin: c.origin,
            op: c.op,
            requests: (c.requests - c.empty_writes()) as f64 / secs,
            queue: &c.queue,
            device: &c.device,
        })
        .collect()
}
