//! Journal commits, newest first: start time, requester, duration of each state, and holder of the
//! transaction.

use super::Scene;
use crate::analysis::slow::event::{Commit, Request, State};
use crate::analysis::slow::names::task;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units::{count, latency};
use crate::ui::pen::Pen;
use crate::ui::table::{Column, Columns};

/// Width of the column of flushes.
const FLUSH: usize = 24;
/// Minimum width of the screen for the column of flushes.
const WIDE: usize = 110;

struct Row {
    time: String,
    tid: u64,
    us: Option<u64>,
    locked: Option<u64>,
    ordered: Option<u64>,
    blocks: Option<u64>,
    record: Option<u64>,
    logged: f64,
    flush: String,
    why: String,
}

impl Row {
    fn new(c: &Commit, s: &SlowSnapshot) -> Self {
        let length = |from, to| {
            let (from, to) = (c.reached(from)?, c.reached(to)?);
            Some(to.saturating_sub(from) / 1000)
        };
        let why = match &c.request {
            Request::Timer => "timer".to_owned(),
            Request::Unknown => "a task".to_owned(),
            Request::By(by, None) => task(by),
            Request::By(by, Some(purpose)) => format!("{} ({})", task(by), purpose.name()),
        };
        let held = c.holders.last().map(|h| format!(", held by {} ({})", task(&h.task), h.handle));
        let waited = c.ordered.iter().max_by_key(|o| o.ns);
        let data = waited.map(|o| {
            let writer = o.writer.as_ref().map(|w| format!(" by {}", task(w)));
            let file = s.names.file(&o.file);
            format!(", data of {file}{}", writer.unwrap_or_default())
        });
        // The slowest member and its time, and the time of the second slowest.
        let flush = c.flushes.first().map(|(dev, ns)| {
            let others = c.flushes.get(1).map_or(0, |(_, ns)| ns / 1000);
            let rest = match others {
                0 => String::new(),
                us => format!(" ({})", latency(Some(us))),
            };
            format!("{} {}{rest}", s.names.device(*dev), latency(Some(ns / 1000)))
        });
        Self {
            flush: flush.unwrap_or_default(),
            time: c
                .start_ns()
                .map(|ns| s.wall(ns).strftime("%H:%M:%S%.3f").to_string())
                .unwrap_or_default(),
            tid: u64::from(c.tid),
            us: length(State::Started, State::Ended),
            locked: length(State::Locked, State::Flushing),
            ordered: length(State::Flushing, State::Blocks),
            blocks: length(State::Blocks, State::Record),
            record: length(State::Record, State::Tail),
            logged: f64::from(c.logged),
            why: format!("{why}{}{}", held.unwrap_or_default(), data.unwrap_or_default()),
        }
    }
}

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (s, palette, tabs) = (scene.snapshot, scene.palette, &scene.state.tabs);
    let rows: Vec<Row> = s.commits.iter().rev().map(|c| Row::new(c, s)).collect();
    let flush = if pen.width() >= WIDE { FLUSH } else { 0 };
    let columns = Columns(vec![
        Column::name("start", 12, 9, |r: &Row| r.time.clone()),
        Column::number("commit", 8, 3, |r: &Row| Some(r.tid)),
        Column::latency("took", 6, 9, |r: &Row| r.us),
        Column::latency("locked", 7, 8, |r: &Row| r.locked),
        Column::latency("data", 6, 8, |r: &Row| r.ordered),
        Column::latency("blocks", 7, 8, |r: &Row| r.blocks),
        Column::latency("record", 7, 8, |r: &Row| r.record),
        Column::figure("logged", 7, 5, |r: &Row| Some(r.logged), count),
        Column::name("slowest flush (next)", FLUSH, 2, |r: &Row| r.flush.clone()).gap(2),
        Column::name(
            "requested by",
            pen.width().saturating_sub(66 + flush).max(12),
            7,
            |r: &Row| r.why.clone(),
        )
        .gap(2),
    ]);
    let none = "  no journal has committed yet";
    columns.draw(pen, tabs, &rows, None, none, palette);
}
