//! Time in the queue and in the device, with a row per member, origin and operation.

use ratatui::text::{Line, Span};

use super::table::TableView;
use super::{Scene, bar};
use crate::analysis::hist::{self, Hist};
use crate::analysis::units;
use crate::origin::io_name;
use crate::ui::pen::Pen;
use crate::ui::rows::{self, LatencyRow};
use crate::ui::table::{Column, Columns, op_cell, origin_cell};
use crate::ui::text::{self, clean};

/// The first cell of a strip counts times below 2^(`FIRST_OCTAVE` + 1) µs.
const FIRST_OCTAVE: usize = 3;
/// The last cell of a strip counts times from 2^`LAST_OCTAVE` µs (16 s).
const LAST_OCTAVE: usize = 24;
/// Number of cells of a strip.
const STRIP: usize = LAST_OCTAVE - FIRST_OCTAVE + 1;

pub(super) struct LatencyView;

impl TableView for LatencyView {
    type Row<'a> = LatencyRow<'a>;
    const EMPTY: &'static str = "nothing completed in this interval";

    fn rows<'a>(scene: &Scene<'a>) -> Vec<LatencyRow<'a>> {
        rows::latencies(scene.array, scene.secs, scene.filter())
    }

    fn columns<'a>(
        rows: &[LatencyRow<'a>],
        _: &Scene<'a>,
        screen: usize,
    ) -> Columns<LatencyRow<'a>> {
        let widest = |f: fn(&LatencyRow<'_>) -> usize| rows.iter().map(f).max().unwrap_or(0);
        let member = widest(|r| text::width(&clean(&r.member.name)));
        let longest = if screen < 100 { 10 } else { 24 };
        let origin = widest(|r| r.origin.name().len()).clamp(7, 17);
        let op = widest(|r| r.op.name().len()).clamp(5, 12);
        Columns(vec![
            Column::name("member", member.clamp(7, longest), 10, |r: &LatencyRow<'a>| {
                clean(&r.member.name).into_owned()
            }),
            Column::ranked(
                "origin",
                2 + origin,
                9,
                |r, width, palette| origin_cell(r.origin, io_name(r.origin, r.op), width, palette),
                |r| r.origin as u32,
            ),
            Column::ranked("op", op, 5, |r, width, _| op_cell(r.op, width), |r| r.op as u32),
            Column::figure("req/s", 7, 6, |r| Some(r.requests), units::count),
            Column::latency("q p50", 6, 1, |r| r.queue.quantile(0.5)),
            Column::latency("q p99", 7, 4, |r| r.queue.quantile(0.99)),
            Column::latency("q max", 7, 0, |r| r.queue.max()),
            Column::latency("d p50", 7, 3, |r| r.device.quantile(0.5)),
            Column::latency("d p99", 7, 8, |r: &LatencyRow<'a>| r.device.quantile(0.99))
                .default_if(true),
            Column::latency("d max", 7, 2, |r| r.device.max()),
        ])
    }

    fn reserved(_: usize) -> usize {
        0
    }

    /// Headings of the strips that fit: device first, then queue.
    fn rest_heading(room: usize) -> String {
        let strips = ["device", "queue"].iter().take(strips(room));
        strips.map(|s| format!("  {}", text::left(&axis(s), STRIP))).collect()
    }

    fn rest(row: &LatencyRow<'_>, _: &Scene<'_>, room: usize, _: f64) -> Vec<Span<'static>> {
        let strips = [row.device, row.queue].into_iter().take(strips(room));
        strips.map(|h| Span::raw(format!("  {}", strip(h)))).collect()
    }

    fn below(
        pen: &Pen<'_>,
        scene: &Scene<'_>,
        _: &[LatencyRow<'_>],
        _: usize,
    ) -> Vec<Line<'static>> {
        let text = "q: in the queue, d: in the device (issue to completion); at most 25 % too high";
        let shown = pen.lines() > 6 && !scene.is_panel;
        let line = shown.then(|| text::cut(text, pen.width()).into_owned());
        line.map(|l| Line::styled(l, scene.palette.dim())).into_iter().collect()
    }
}

/// Number of strips that fit into `room` columns.
fn strips(room: usize) -> usize {
    room / (STRIP + 2)
}

/// `device 1ms    131ms`: the title, and labels above the octaves that begin at about 1 ms and 131
/// ms.
fn axis(title: &str) -> String {
    let mut cells: Vec<char> = text::left(title, STRIP).chars().collect();
    for (octave, label) in [(10, "1ms"), (17, "131ms")] {
        for (i, c) in label.chars().enumerate() {
            if let Some(cell) = cells.get_mut(octave - FIRST_OCTAVE + i) {
                *cell = c;
            }
        }
    }
    cells.into_iter().collect()
}

/// A histogram as a strip of one cell per octave; the fullest cell is the highest.
fn strip(hist: &Hist) -> String {
    let mut cells = [0u64; STRIP];
    for (i, &count) in hist.counts().iter().enumerate() {
        let octave = (hist::upper_edge(i) - 1).checked_ilog2().unwrap_or(0) as usize;
        cells[octave.clamp(FIRST_OCTAVE, LAST_OCTAVE) - FIRST_OCTAVE] += u64::from(count);
    }
    let most = cells.iter().copied().max().unwrap_or(0).max(1);
    let height = |&n: &u64| {
        if n == 0 { '·' } else { bar::height((n * 7 / most) as f64 / 8.0) }
    };
    cells.iter().map(height).collect()
}
