//! The rows of every view: filtered, sorted, as figures a second. Pure.

mod amplification;
mod column;
mod files;
#[cfg(test)]
mod tests;
mod whom;

pub use amplification::{AmplificationRow, amplification, price};
pub use column::{Column, Row, SortKey, sort};
pub use files::{FileRow, files, label};
pub use whom::{dirtied_by, for_whom};

use std::time::Duration;

use crate::analysis::hist::Hist;
use crate::analysis::snapshot::{ArraySnapshot, Cell, MemberSnapshot, TaskIo, TaskSnapshot};
use crate::analysis::traffic::Traffic;
use crate::analysis::units;
use crate::origin::{Op, Origin, io_name};

/// What is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this operation.
    pub op: Option<Op>,
    /// Only this origin.
    pub origin: Option<Origin>,
}

impl Filter {
    /// Whether a cell is shown.
    pub fn keeps(self, origin: Origin, op: Op) -> bool {
        self.op.is_none_or(|o| o == op) && self.origin.is_none_or(|o| o == origin)
    }

    /// Whether a cell is part of bars and heat: discards move no data and would dwarf what does, so only where they are
    /// all that is shown.
    fn weighs(self, origin: Origin, op: Op) -> bool {
        self.keeps(origin, op) && (op != Op::Discard || self.op == Some(Op::Discard))
    }
}

/// What bars and the heat map measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Requests a second: what saturates a disk that seeks.
    #[default]
    Requests,
    /// Bytes a second.
    Bytes,
}

/// An origin's part of a bar, in the measure's unit a second.
pub type Part = (Origin, f64);

/// A member in the first view. Figures are a second, of what the filter keeps.
#[derive(Debug)]
pub struct MemberRow<'a> {
    /// The member.
    pub member: &'a MemberSnapshot,
    /// Reads a second.
    pub reads: f64,
    /// Writes with data a second.
    pub writes: f64,
    /// Flushes a second.
    pub flushes: f64,
    /// Discards a second.
    pub discards: f64,
    /// All else a second.
    pub others: f64,
    /// Bytes read and written a second.
    pub bytes: f64,
    /// Utilisation over the time that the headline is about.
    pub busy_over: Option<f64>,
    /// Time in the device.
    pub device: Hist,
    /// By origin, in the vocabulary's order.
    pub parts: Vec<Part>,
}

impl Row for MemberRow<'_> {
    fn key(&self, column: Column) -> SortKey {
        let disk = self.member.disk;
        SortKey::Number(match column {
            Column::Name => return SortKey::name(&self.member.name),
            Column::Reads => self.reads,
            Column::Writes => self.writes,
            Column::Flushes => self.flushes,
            Column::Discards => self.discards,
            Column::Others => self.others,
            Column::Bytes => self.bytes,
            Column::InFlight => disk.map_or(-1.0, |d| f64::from(d.in_flight)),
            Column::Busy => self.member.utilisation().unwrap_or(-1.0),
            Column::BusyOver => self.busy_over.unwrap_or(-1.0),
            Column::P50 => return SortKey::measured(self.device.quantile(0.5)),
            Column::P99 => return SortKey::measured(self.device.quantile(0.99)),
            _ => self.member.slot.map_or(f64::MAX, f64::from),
        })
    }
}

/// Seconds of an interval; never 0, so that a rate is always a number.
pub fn seconds(interval: std::time::Duration) -> f64 {
    interval.as_secs_f64().max(1e-3)
}

/// The time that the headline is about, where that is more than the interval of `secs`.
pub fn span(array: &ArraySnapshot, secs: f64) -> Option<Duration> {
    let over = array.hotspot.as_ref()?.over;
    (over.as_secs_f64() >= 1.5 * secs).then_some(over)
}

/// `10s`: the heading of a figure of that time.
pub fn span_title(span: Duration) -> String {
    units::seconds_about(span).replace(' ', "")
}

/// The rows of the first view, by slot.
pub fn members(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
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
            parts: Vec::new(),
        };
        for c in member.io.iter().filter(|c| filter.keeps(c.origin, c.op)) {
            row.device.add(&c.device);
            if filter.weighs(c.origin, c.op) {
                let requests = c.requests - c.empty_writes();
                add_part(
                    &mut row.parts,
                    c.origin,
                    measured(measure, requests, c.bytes) / secs,
                );
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

fn add_part(parts: &mut Vec<Part>, origin: Origin, value: f64) {
    match parts.binary_search_by_key(&origin, |p| p.0) {
        Ok(i) => parts[i].1 += value,
        Err(i) => parts.insert(i, (origin, value)),
    }
}

/// All parts of some rows together, largest first: the legend.
pub fn legend<'a>(parts: impl Iterator<Item = &'a Part>) -> Vec<Part> {
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
    /// The origin.
    pub origin: Origin,
    /// Its discards only; else everything but discards, unless these are all that is shown.
    pub discards: bool,
    /// The measure a second on every member, in the array's order.
    pub each: Vec<f64>,
    /// Their sum.
    pub total: f64,
    /// Their mean over the members that are present.
    pub mean: f64,
    /// The busiest member over that mean; 0 when there is nothing.
    pub skew: f64,
}

impl Row for OriginRow {
    fn key(&self, column: Column) -> SortKey {
        SortKey::Number(match column {
            Column::Skew => self.skew,
            Column::Total => self.total,
            _ => f64::from(self.origin as u8) + if self.discards { 100.0 } else { 0.0 },
        })
    }
}

impl OriginRow {
    /// The origin's name; `free_space` for discards of file data.
    pub fn name(&self) -> String {
        match (self.discards, self.origin) {
            (false, origin) => origin.name().to_owned(),
            (true, Origin::FileData) => io_name(Origin::FileData, Op::Discard).to_owned(),
            (true, origin) => format!("{origin} discard"),
        }
    }

    /// Whether a cell counts in this row.
    pub fn has(&self, cell: &Cell, filter: Filter) -> bool {
        cell.origin == self.origin
            && filter.keeps(cell.origin, cell.op)
            && (cell.op == Op::Discard) == (self.discards || filter.op == Some(Op::Discard))
    }
}

/// The rows of the heat map: [`origins`] without discards, which have rows of their own behind the others.
pub fn heat(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
    measure: Measure,
) -> (Vec<OriginRow>, OriginRow) {
    let requests = |c: &Cell| c.requests - c.empty_writes();
    let measure = |c: &Cell| measured(measure, requests(c), c.bytes);
    let weighs = |c: &Cell| filter.weighs(c.origin, c.op) && (requests(c) > 0 || c.bytes > 0);
    let (mut rows, sum) = origin_rows(array, secs, measure, weighs);
    if filter.op.is_none() {
        let discards = |c: &Cell| c.op == Op::Discard && filter.keeps(c.origin, c.op);
        let (discards, _) = origin_rows(array, secs, measure, discards);
        rows.extend(discards.into_iter().map(|row| OriginRow {
            discards: true,
            ..row
        }));
    }
    (rows, sum)
}

/// A row for each origin, in the vocabulary's order, and their sum.
pub fn origins(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
    measure: Measure,
) -> (Vec<OriginRow>, OriginRow) {
    let measure = |c: &Cell| measured(measure, c.requests, c.bytes);
    origin_rows(array, secs, measure, |c| filter.keeps(c.origin, c.op))
}

fn origin_rows(
    array: &ArraySnapshot,
    secs: f64,
    measure: impl Fn(&Cell) -> f64,
    keeps: impl Fn(&Cell) -> bool,
) -> (Vec<OriginRow>, OriginRow) {
    let row = |origin: Origin, keep: &dyn Fn(Origin) -> bool| {
        let each: Vec<f64> = array
            .members
            .iter()
            .map(|m| {
                let cells = m.io.iter().filter(|c| keeps(c) && keep(c.origin));
                cells.map(&measure).sum::<f64>() / secs
            })
            .collect();
        let total: f64 = each.iter().sum();
        let present = array
            .members
            .iter()
            .filter(|m| m.is_present())
            .count()
            .max(1);
        let mean = total / present as f64;
        let skew = if mean > 0.0 {
            each.iter().copied().fold(0.0, f64::max) / mean
        } else {
            0.0
        };
        OriginRow {
            origin,
            discards: false,
            each,
            total,
            mean,
            skew,
        }
    };
    let shown = |origin: &Origin| {
        let mut cells = array.members.iter().flat_map(|m| &m.io);
        cells.any(|c| c.origin == *origin && keeps(c))
    };
    let rows = Origin::ALL
        .into_iter()
        .filter(shown)
        .map(|o| row(o, &|origin| origin == o));
    (rows.collect(), row(Origin::Unknown, &|_| true))
}

/// A task in the third view. Figures are bios a second, of what the filter keeps.
#[derive(Debug)]
pub struct TaskRow<'a> {
    /// The task.
    pub task: &'a TaskSnapshot,
    /// Its comm, printable.
    pub comm: String,
    /// Reads a second.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
    /// Discards a second.
    pub discards: f64,
    /// Bytes read and written a second.
    pub bytes: f64,
    /// Bytes a second of [`caused`]. Where it is not known what tasks dirtied, `bytes`.
    pub causes: f64,
    /// By origin.
    pub parts: Vec<Part>,
}

impl Row for TaskRow<'_> {
    fn key(&self, column: Column) -> SortKey {
        SortKey::Number(match column {
            Column::Comm => return SortKey::name(&self.comm),
            Column::Role => return SortKey::name(self.task.role.as_deref().unwrap_or("\u{ffff}")),
            Column::Cgroup => {
                return SortKey::name(self.task.cgroup.as_deref().unwrap_or("\u{ffff}"));
            }
            Column::Reads => self.reads,
            Column::Writes => self.writes,
            Column::Discards => self.discards,
            Column::Bytes => self.bytes,
            Column::Causes => self.causes,
            _ => f64::from(self.task.pid),
        })
    }
}

/// Bytes that would not have been moved without the task: what it read, metadata that it dirtied, whoever writes that, and file
/// data that it dirtied or submitted, whichever is more, for fsync(2) submits what the same task has dirtied.
fn caused(task: &TaskSnapshot, filter: Filter) -> u64 {
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

/// True if it is known what tasks dirtied, and one did.
pub fn tell_dirtied(rows: &[TaskRow<'_>]) -> bool {
    rows.iter().any(|r| !r.task.dirtied.is_empty())
}

/// The rows of the third view, as the snapshot has them.
pub fn tasks(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
    measure: Measure,
) -> Vec<TaskRow<'_>> {
    let told = array.tasks.iter().any(|t| !t.dirtied.is_empty());
    let row = |task| {
        let task: &TaskSnapshot = task;
        let kept = || task.io.iter().filter(|i| filter.keeps(i.origin, i.op));
        let traffic: Traffic = kept().collect();
        let rate = |n: u64| n as f64 / secs;
        let mut parts = Vec::new();
        for i in kept().filter(|i| filter.weighs(i.origin, i.op)) {
            add_part(
                &mut parts,
                i.origin,
                measured(measure, i.bios, i.bytes) / secs,
            );
        }
        TaskRow {
            task,
            comm: super::text::sanitize(&task.comm),
            reads: rate(traffic.read.requests),
            writes: rate(traffic.write.requests),
            discards: rate(traffic.discard.requests),
            bytes: rate(traffic.moved_bytes()),
            causes: rate(if told {
                caused(task, filter)
            } else {
                traffic.moved_bytes()
            }),
            parts,
        }
    };
    let submitted = |task: &&TaskSnapshot| {
        let mut io = task.io.iter().chain(&task.dirtied);
        io.any(|i| filter.keeps(i.origin, i.op))
    };
    array.tasks.iter().filter(submitted).map(row).collect()
}

/// A member, origin and operation in the latency view.
#[derive(Debug)]
pub struct LatencyRow<'a> {
    /// The member.
    pub member: &'a MemberSnapshot,
    /// What it belongs to.
    pub origin: Origin,
    /// What it did.
    pub op: Op,
    /// Requests a second.
    pub requests: f64,
    /// Time before the driver.
    pub queue: &'a Hist,
    /// Time in the device.
    pub device: &'a Hist,
}

impl Row for LatencyRow<'_> {
    fn key(&self, column: Column) -> SortKey {
        let quantile = |h: &Hist, q| SortKey::measured(h.quantile(q));
        match column {
            Column::Origin => SortKey::Number(f64::from(self.origin as u8)),
            Column::Op => SortKey::Number(f64::from(self.op as u8)),
            Column::Requests => SortKey::Number(self.requests),
            Column::QueueP50 => quantile(self.queue, 0.5),
            Column::QueueP99 => quantile(self.queue, 0.99),
            Column::QueueMax => SortKey::measured(self.queue.max()),
            Column::DeviceP50 => quantile(self.device, 0.5),
            Column::DeviceP99 => quantile(self.device, 0.99),
            Column::DeviceMax => SortKey::measured(self.device.max()),
            _ => SortKey::name(&self.member.name),
        }
    }
}

/// The rows of the latency view: what was measured, by member.
pub fn latencies(array: &ArraySnapshot, secs: f64, filter: Filter) -> Vec<LatencyRow<'_>> {
    let cells = array
        .members
        .iter()
        .flat_map(|m| m.io.iter().map(move |c| (m, c)));
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
