//! Journal commits, newest first: start time, requester, duration of each state, and holder of the
//! transaction.

use super::SlowScene;
use crate::analysis::slow::event::{Commit, CommitReason, CommitState};
use crate::analysis::slow::names::task;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units::{count, latency};
use crate::ui::pen::Pen;
use crate::ui::table::{Column, Columns};

/// Width of the column of flushes.
const FLUSH: usize = 24;
/// Minimum width of the screen for the column of flushes.
const MIN_WIDE: usize = 110;

struct CommitRow {
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

impl CommitRow {
    fn new(c: &Commit, s: &SlowSnapshot) -> Self {
        let length = |from, to| {
            let (from, to) = (c.reached(from)?, c.reached(to)?);
            Some(to.saturating_sub(from) / 1000)
        };
        let why = match &c.request {
            CommitReason::Timer => "timer".to_owned(),
            CommitReason::Unknown => "a task".to_owned(),
            CommitReason::By(by, None) => task(by),
            CommitReason::By(by, Some(purpose)) => format!("{} ({})", task(by), purpose),
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
            us: length(CommitState::Started, CommitState::Ended),
            locked: length(CommitState::Locked, CommitState::Flushing),
            ordered: length(CommitState::Flushing, CommitState::Blocks),
            blocks: length(CommitState::Blocks, CommitState::Record),
            record: length(CommitState::Record, CommitState::Tail),
            logged: f64::from(c.logged),
            why: format!("{why}{}{}", held.unwrap_or_default(), data.unwrap_or_default()),
        }
    }
}

pub(super) fn draw(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let (s, palette, tabs) = (scene.snapshot, scene.palette, &scene.state.tabs);
    let rows: Vec<CommitRow> = s.commits.iter().rev().map(|c| CommitRow::new(c, s)).collect();
    let flush = if pen.width() >= MIN_WIDE { FLUSH } else { 0 };
    let columns = Columns(vec![
        Column::name("start", 12, 9, |r: &CommitRow| r.time.clone()),
        Column::number("commit", 8, 3, |r: &CommitRow| Some(r.tid)),
        Column::latency("took", 6, 9, |r: &CommitRow| r.us),
        Column::latency("locked", 7, 8, |r: &CommitRow| r.locked),
        Column::latency("data", 6, 8, |r: &CommitRow| r.ordered),
        Column::latency("blocks", 7, 8, |r: &CommitRow| r.blocks),
        Column::latency("record", 7, 8, |r: &CommitRow| r.record),
        Column::figure("logged", 7, 5, |r: &CommitRow| Some(r.logged), count),
        Column::name("slowest flush (next)", FLUSH, 2, |r: &CommitRow| r.flush.clone()).gap(2),
        Column::name(
            "requested by",
            pen.width().saturating_sub(66 + flush).max(12),
            7,
            |r: &CommitRow| r.why.clone(),
        )
        .gap(2),
    ]);
    let none = "  no journal has committed yet";
    columns.draw(pen, tabs, &rows, None, none, palette);
}
