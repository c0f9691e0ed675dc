//! View 1: a row a member, with its origins as a stacked bar.

use ratatui::text::{Line, Span};

use super::table::{self, Spec, cell, figure, heading, mark, name};
use super::{Pen, Scene, bar};
use crate::model::units;
use crate::top::rows::{self, Column, MemberRow};
use crate::top::text::{self, clean};

/// A bar shorter than this says nothing.
const BAR: usize = 20;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let mut rows = rows::members(scene.array, scene.secs, scene.filter(), scene.state.measure);
    let (column, reversed) = scene.state.sort();
    rows::sort(&mut rows, column, reversed);
    let specs = specs(&rows, pen.width());
    let bar_columns = pen.width() - 1 - specs.iter().map(|s| s.width).sum::<usize>() - 1;
    let mut head = heading(&specs, scene);
    head.push(Span::styled(" origins", scene.palette.title()));
    pen.line(&Line::from(head));

    let all = rows::legend(rows.iter().flat_map(|r| &r.parts));
    let (legend, details) = bar::room_below(pen, rows.len());
    let legend = bar::legend(&all, pen.width(), legend, scene.palette);
    let selected = scene.state.row().min(rows.len().saturating_sub(1));
    let details = rows
        .get(selected)
        .map_or(Vec::new(), |row| detail(row, scene, pen.width(), details));
    let below = pen.take_bottom((legend.len() + details.len()) as u16);

    let most = rows.iter().map(|r| total(r)).fold(0.0, f64::max);
    let first = pen.first(rows.len(), selected);
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let mut spans = vec![mark(i == selected)];
        for spec in &specs {
            spans.push(Span::raw(cell(spec, &value(row, spec.column))));
        }
        spans.push(Span::raw(" "));
        if let Some(trouble) = &row.member.trouble {
            spans.push(Span::styled(
                format!("{} ", clean(trouble)),
                scene.palette.alarm(),
            ));
        }
        let used: usize = spans.iter().skip(specs.len() + 2).map(Span::width).sum();
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
        figure(Column::P50, 6, 3),
        figure(Column::P99, 6, 7),
    ];
    if rows.iter().any(|r| r.others > 0.0) {
        all.insert(4, figure(Column::Others, 6, 0));
    }
    let bar = if width < 100 { BAR } else { 40 };
    table::fit(all, width.saturating_sub(2 + bar))
}

fn value(row: &MemberRow<'_>, column: Column) -> String {
    let disk = row.member.disk;
    match column {
        Column::Slot => row.member.slot.map_or("-".to_owned(), |s| s.to_string()),
        Column::Name => clean(&row.member.name).into_owned(),
        Column::Reads => units::count(row.reads),
        Column::Writes => units::count(row.writes),
        Column::Others => units::count(row.others),
        Column::Bytes => units::mib(row.bytes),
        Column::InFlight => disk.map_or("-".to_owned(), |d| units::count(f64::from(d.in_flight))),
        Column::Busy => disk.map_or("-".to_owned(), |d| units::percent_short(d.utilisation)),
        Column::P50 => units::latency(row.device.quantile(0.5)),
        Column::P99 => units::latency(row.device.quantile(0.99)),
        _ => String::new(),
    }
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
        .filter(|c| scene.filter().keeps(c.origin, c.op))
        .collect();
    cells.sort_by_key(|c| std::cmp::Reverse(c.requests));
    let each = cells.iter().map(|c| {
        format!(
            "{} {} {}/s {}/s",
            c.origin,
            c.op,
            units::count(c.requests as f64 / scene.secs),
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
