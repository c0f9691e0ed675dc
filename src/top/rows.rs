//! The rows of every view: filtered, sorted, as figures a second. Pure.

mod column;
mod files;
mod ledger;
#[cfg(test)]
mod tests;

pub use column::{Column, Row, SortKey, sort};
pub use files::{FileRow, files, label};
pub use ledger::{LedgerRow, amplification, price};

use crate::model::hist::Hist;
use crate::model::snapshot::{ArraySnapshot, MemberSnapshot, TaskSnapshot};
use crate::origin::{Op, Origin};

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
    /// Writes a second.
    pub writes: f64,
    /// Flushes, discards, ... a second.
    pub others: f64,
    /// Bytes a second.
    pub bytes: f64,
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
            Column::Others => self.others,
            Column::Bytes => self.bytes,
            Column::InFlight => disk.map_or(-1.0, |d| f64::from(d.in_flight)),
            Column::Busy => disk.map_or(-1.0, |d| d.utilisation),
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

/// The rows of the first view, by slot.
pub fn members(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
    measure: Measure,
) -> Vec<MemberRow<'_>> {
    let row = |member| {
        let member: &MemberSnapshot = member;
        let mut row = MemberRow {
            member,
            reads: 0.0,
            writes: 0.0,
            others: 0.0,
            bytes: 0.0,
            device: Hist::default(),
            parts: Vec::new(),
        };
        for c in member.io.iter().filter(|c| filter.keeps(c.origin, c.op)) {
            let requests = c.requests as f64 / secs;
            *match c.op {
                Op::Read => &mut row.reads,
                Op::Write => &mut row.writes,
                _ => &mut row.others,
            } += requests;
            row.bytes += c.bytes as f64 / secs;
            row.device.add(&c.device);
            add_part(
                &mut row.parts,
                c.origin,
                measured(measure, c.requests, c.bytes) / secs,
            );
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
            _ => f64::from(self.origin as u8),
        })
    }
}

/// The rows of the heat map, in the vocabulary's order, and their sum.
pub fn origins(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
    measure: Measure,
) -> (Vec<OriginRow>, OriginRow) {
    let row = |origin: Origin, keep: &dyn Fn(Origin) -> bool| {
        let each: Vec<f64> = array
            .members
            .iter()
            .map(|m| {
                let (requests, bytes) = m.sum(|c| filter.keeps(c.origin, c.op) && keep(c.origin));
                measured(measure, requests, bytes) / secs
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
            each,
            total,
            mean,
            skew,
        }
    };
    let shown = |origin: &Origin| {
        let mut cells = array.members.iter().flat_map(|m| &m.io);
        cells.any(|c| c.origin == *origin && filter.keeps(c.origin, c.op))
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
    /// Bytes a second.
    pub bytes: f64,
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
            Column::Bytes => self.bytes,
            _ => f64::from(self.task.pid),
        })
    }
}

/// The rows of the third view, as the snapshot has them.
pub fn tasks(
    array: &ArraySnapshot,
    secs: f64,
    filter: Filter,
    measure: Measure,
) -> Vec<TaskRow<'_>> {
    let row = |task| {
        let task: &TaskSnapshot = task;
        let (mut reads, mut writes, mut bytes, mut parts) = (0.0, 0.0, 0.0, Vec::new());
        for i in task.io.iter().filter(|i| filter.keeps(i.origin, i.op)) {
            match i.op {
                Op::Read => reads += i.bios as f64 / secs,
                Op::Write => writes += i.bios as f64 / secs,
                _ => {}
            }
            bytes += i.bytes as f64 / secs;
            add_part(
                &mut parts,
                i.origin,
                measured(measure, i.bios, i.bytes) / secs,
            );
        }
        TaskRow {
            task,
            comm: super::text::sanitize(&task.comm),
            reads,
            writes,
            bytes,
            parts,
        }
    };
    array
        .tasks
        .iter()
        .map(row)
        .filter(|r| !r.parts.is_empty())
        .collect()
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
        .filter(|(_, c)| filter.keeps(c.origin, c.op) && c.requests > 0)
        .map(|(member, c)| LatencyRow {
            member,
            origin: c.origin,
            op: c.op,
            requests: c.requests as f64 / secs,
            queue: &c.queue,
            device: &c.device,
        })
        .collect()
}
