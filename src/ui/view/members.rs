//! View 1: a row a member, with its origins as a stacked bar.

use ratatui::text::{Line, Span};

use super::table::{self, Spec, cell, figure, heading, name};
use super::{Pen, Scene, bar};
use crate::analysis::snapshot::MemberSnapshot;
use crate::analysis::units;
use crate::origin::io_name;
use crate::ui::palette::Palette;
use crate::ui::rows;
use crate::ui::rows::{Column, MemberRow};
use crate::ui::text;
use crate::ui::text::clean;

/// A bar shorter than this says nothing.
const BAR: usize = 20;
/// A member that was this busy once is worth a second look.
const HOT: f64 = 0.9;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let mut rows = rows::members(scene.array, scene.secs, scene.filter(), scene.state.measure);
    let (column, reversed) = scene.sort();
    rows::sort(&mut rows, column, reversed);
    let specs = specs(&rows, pen.width());
    let bar_columns = pen.width() - 1 - specs.iter().map(|s| s.width).sum::<usize>() - 1;
    let mut head = heading(&specs, scene);
    head.push(Span::styled(" origins", scene.palette.title()));
    pen.line(&Line::from(head));

    let all = rows::legend(rows.iter().flat_map(|r| &r.parts));
    let (legend, details) = bar::room_below(pen, scene, rows.len());
    let legend = bar::legend(&all, pen.width(), legend, scene.palette, scene.filter().op);
    let selected = scene.row(rows.len());
    let details = rows
        .get(selected)
        .map_or(Vec::new(), |row| detail(row, scene, pen.width(), details));
    let below = pen.take_bottom((legend.len() + details.len()) as u16);

    let most = rows.iter().map(|r| total(r)).fold(0.0, f64::max);
    let first = pen.first(rows.len(), selected);
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let mut spans = vec![scene.mark(i, selected)];
        for spec in &specs {
            if spec.column == Column::Trend {
                spans.push(Span::raw(" "));
                spans.push(trend(row.member, spec.width - 1, scene.palette));
            } else {
                spans.push(Span::raw(cell(spec, &value(row, spec.column))));
            }
        }
        spans.push(Span::raw(" "));
        let columns = spans.len();
        if let Some(health) = &row.member.health {
            spans.push(Span::styled(
                format!("{} ", clean(health)),
                scene.palette.alarm(),
            ));
        }
        let used: usize = spans.iter().skip(columns).map(Span::width).sum();
        spans.extend(bar::stacked(
            &row.parts,
            most,
            bar_columns.saturating_sub(used),
            scene.palette,
        ));
        pen.line(&Line::from(spans));
    }
    if rows.is_empty() {
        pen.text("  no members", scene.palette.dim());
    }
    let mut pen = Pen::new(pen.buffer, below);
    for line in legend.iter().chain(&details) {
        pen.line(line);
    }
}

fn total(row: &MemberRow<'_>) -> f64 {
    row.parts.iter().map(|p| p.1).sum()
}

fn specs(rows: &[MemberRow<'_>], width: usize) -> Vec<Spec> {
    let names = rows
        .iter()
        .map(|r| text::width(&clean(&r.member.name)))
        .max()
        .unwrap_or(0);
    let trend = match width {
        0..120 => 10,
        120..160 => 20,
        _ => 30,
    };
    let mut all = vec![
        figure(Column::Slot, 5, 4),
        name(
            Column::Name,
            names.clamp(7, if width < 100 { 12 } else { 24 }),
            10,
        ),
        figure(Column::Reads, 6, 6),
        figure(Column::Writes, 6, 9),
        figure(Column::Bytes, 7, 5),
        figure(Column::InFlight, 6, 2),
        figure(Column::Busy, 6, 8),
        name(Column::Trend, trend, 1),
        figure(Column::P50, 6, 3),
        figure(Column::P99, 6, 7),
    ];
    let any = |f: fn(&MemberRow<'_>) -> f64| rows.iter().any(|r| f(r) > 0.0);
    if rows.iter().any(|r| r.busy_over.is_some()) {
        all.insert(7, figure(Column::BusyOver, 5, 6));
    }
    if any(|r| r.others) {
        all.insert(4, figure(Column::Others, 6, 0));
    }
    if any(|r| r.discards) {
        all.insert(4, figure(Column::Discards, 6, 4));
    }
    if any(|r| r.flushes) {
        all.insert(4, figure(Column::Flushes, 6, 2));
    }
    let bar = match width {
        0..100 => BAR,
        100..120 => 24,
        _ => 30,
    };
    table::fit(all, width.saturating_sub(2 + bar))
}

fn value(row: &MemberRow<'_>, column: Column) -> String {
    let disk = row.member.disk;
    match column {
        Column::Slot => row.member.slot.map_or("-".to_owned(), |s| s.to_string()),
        Column::Name => clean(&row.member.name).into_owned(),
        Column::Reads => units::count(row.reads),
        Column::Writes => units::count(row.writes),
        Column::Flushes => units::count(row.flushes),
        Column::Discards => units::count(row.discards),
        Column::Others => units::count(row.others),
        Column::Bytes => units::mib(row.bytes),
        Column::InFlight => disk.map_or("-".to_owned(), |d| units::count(f64::from(d.in_flight))),
        Column::Busy => {
            let busy = row.member.utilisation();
            busy.map_or("-".to_owned(), units::percent_short)
        }
        Column::BusyOver => row.busy_over.map_or("-".to_owned(), units::percent_short),
        Column::P50 => units::latency(row.device.quantile(0.5)),
        Column::P99 => units::latency(row.device.quantile(0.99)),
        _ => String::new(),
    }
}

/// Utilisation in the last intervals, a cell each, the newest on the right; `·` where it is not known.
fn trend(member: &MemberSnapshot, columns: usize, palette: Palette) -> Span<'static> {
    let first = member.recent.len().saturating_sub(columns);
    let cells = member.recent[first..].iter();
    let cells: String = cells
        .map(|r| r.utilisation.map_or('·', bar::height))
        .collect();
    let hot = member.recent[first..]
        .iter()
        .any(|r| r.utilisation.is_some_and(|u| u >= HOT));
    let style = if hot { palette.alarm() } else { palette.bar() };
    Span::styled(format!("{cells:>columns$}"), style)
}

/// The member that is selected, every origin with its figures, largest first.
fn detail(
    row: &MemberRow<'_>,
    scene: &Scene<'_>,
    columns: usize,
    lines: usize,
) -> Vec<Line<'static>> {
    if lines == 0 {
        return Vec::new();
    }
    let mut cells: Vec<_> = row
        .member
        .io
        .iter()
        .filter(|c| scene.filter().keeps(c.origin, c.op) && c.requests > c.empty_writes())
        .collect();
    cells.sort_by_key(|c| std::cmp::Reverse(c.requests - c.empty_writes()));
    let each = cells.iter().map(|c| {
        format!(
            "{} {} {}/s {}/s",
            io_name(c.origin, c.op),
            c.op,
            units::count((c.requests - c.empty_writes()) as f64 / scene.secs),
            text::glue(&units::bytes(c.bytes as f64 / scene.secs)),
        )
    });
    let each: Vec<String> = each.collect();
    let what = if each.is_empty() {
        "nothing in this interval".to_owned()
    } else {
        each.join(", ")
    };
    let text = format!("{}: {what}", clean(&row.member.name));
    text::wrap(&text, columns, lines)
        .into_iter()
        .map(|l| Line::from(Span::styled(l, scene.palette.dim())))
        .collect()
}
