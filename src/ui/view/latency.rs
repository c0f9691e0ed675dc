//! View 4: time in the queue and in the device, a row a member, origin and operation.

use ratatui::text::{Line, Span};

use super::table::{self, Spec, cell, figure, heading, name};
use super::{Pen, Scene, bar};
use crate::analysis::hist;
use crate::analysis::hist::Hist;
use crate::analysis::units;
use crate::origin::io_name;
use crate::ui::palette::letter;
use crate::ui::rows;
use crate::ui::rows::{Column, LatencyRow};
use crate::ui::text;
use crate::ui::text::clean;

/// The strip begins with what is below this power of two µs ...
const FIRST_OCTAVE: usize = 3;
/// ... and ends with what is above this one: 16 s.
const LAST_OCTAVE: usize = 24;
/// Its cells.
const STRIP: usize = LAST_OCTAVE - FIRST_OCTAVE + 1;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let mut rows = rows::latencies(scene.array, scene.secs, scene.filter());
    let (column, reversed) = scene.sort();
    rows::sort(&mut rows, column, reversed);
    let specs = specs(&rows, pen.width());
    let used: usize = 1 + specs.iter().map(|s| s.width).sum::<usize>();
    let strips = pen.width().saturating_sub(used) / (STRIP + 2);
    let mut head = heading(&specs, scene);
    for title in ["device", "queue"].iter().take(strips) {
        head.push(Span::styled(
            format!("  {}", text::left(&axis(title), STRIP)),
            scene.palette.title(),
        ));
    }
    pen.line(&Line::from(head));
    let selected = scene.row(rows.len());
    let note = (pen.lines() > 6 && !scene.is_panel).then(|| pen.take_bottom(1));
    let first = pen.first(rows.len(), selected);
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let mut spans = vec![scene.mark(i, selected)];
        for spec in &specs {
            if spec.column == Column::Origin {
                spans.push(Span::raw(" "));
                spans.push(Span::styled(
                    letter(row.origin).to_string(),
                    scene.palette.origin(row.origin),
                ));
                spans.push(Span::raw(format!(
                    " {}",
                    text::left(io_name(row.origin, row.op), spec.width - 3)
                )));
            } else {
                spans.push(Span::raw(cell(spec, &value(row, spec.column))));
            }
        }
        for hist in [row.device, row.queue].iter().take(strips) {
            spans.push(Span::raw(format!("  {}", strip(hist))));
        }
        pen.line(&Line::from(spans));
    }
    if rows.is_empty() {
        pen.text("  nothing completed in this interval", scene.palette.dim());
    }
    if let Some(area) = note {
        let text = "q: in the queue, d: in the device (issue to completion); at most 25 % too high";
        Pen::new(pen.buffer, area).text(
            &text::cut(text, usize::from(area.width)),
            scene.palette.dim(),
        );
    }
}

fn specs(rows: &[LatencyRow<'_>], width: usize) -> Vec<Spec> {
    let widest = |f: &dyn Fn(&LatencyRow<'_>) -> usize| rows.iter().map(f).max().unwrap_or(0);
    let members = widest(&|r| text::width(&clean(&r.member.name)));
    let origins = widest(&|r| r.origin.name().len());
    let ops = widest(&|r| r.op.name().len());
    let all = vec![
        name(
            Column::Name,
            members.clamp(7, if width < 100 { 10 } else { 24 }),
            10,
        ),
        name(Column::Origin, 2 + origins.clamp(7, 17), 9),
        name(Column::Op, ops.clamp(5, 12), 5),
        figure(Column::Requests, 7, 6),
        figure(Column::QueueP50, 6, 1),
        figure(Column::QueueP99, 7, 4),
        figure(Column::QueueMax, 7, 0),
        figure(Column::DeviceP50, 7, 3),
        figure(Column::DeviceP99, 7, 8),
        figure(Column::DeviceMax, 7, 2),
    ];
    table::fit(all, width - 1)
}

fn value(row: &LatencyRow<'_>, column: Column) -> String {
    let quantile = |h: &Hist, q| units::latency(h.quantile(q));
    match column {
        Column::Name => clean(&row.member.name).into_owned(),
        Column::Op => row.op.name().to_owned(),
        Column::Requests => units::count(row.requests),
        Column::QueueP50 => quantile(row.queue, 0.5),
        Column::QueueP99 => quantile(row.queue, 0.99),
        Column::QueueMax => units::latency(row.queue.max()),
        Column::DeviceP50 => quantile(row.device, 0.5),
        Column::DeviceP99 => quantile(row.device, 0.99),
        Column::DeviceMax => units::latency(row.device.max()),
        _ => String::new(),
    }
}

/// `device 8µs  1ms   1s`: marks above the octaves that begin at about these times.
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

/// A histogram as a strip, one cell an octave, as high as its part of the fullest one.
fn strip(hist: &Hist) -> String {
    let mut cells = [0u64; STRIP];
    for (i, &count) in hist.counts().iter().enumerate() {
        let octave = (hist::upper_edge(i) - 1).checked_ilog2().unwrap_or(0) as usize;
        cells[octave.clamp(FIRST_OCTAVE, LAST_OCTAVE) - FIRST_OCTAVE] += u64::from(count);
    }
    let most = cells.iter().copied().max().unwrap_or(0).max(1);
    let height = |&n: &u64| {
        if n == 0 {
            '·'
        } else {
            bar::height((n * 7 / most) as f64 / 8.0)
        }
    };
    cells.iter().map(height).collect()
}
