//! View 5: which files the file data belongs to. Figures are bios, as in view 3.

use ratatui::text::{Line, Span};

use super::table::{self, Spec, cell, figure, heading, name};
use super::{Pen, Scene, bar};
use crate::analysis::files::FileSum;
use crate::analysis::units;
use crate::origin::{Op, Origin};
use crate::ui::rows;
use crate::ui::rows::{Column, FileRow};
use crate::ui::text;
use crate::ui::text::clean;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let mut rows = rows::files(scene.array, scene.secs, scene.filter(), scene.state.measure);
    let (column, reversed) = scene.sort();
    rows::sort(&mut rows, column, reversed);
    let specs = specs(&rows, pen.width());
    pen.line(&Line::from(heading(&specs, scene)));

    let (more, details) = bar::room_below(pen, scene, rows.len());
    let selected = scene.row(rows.len());
    let details = rows
        .get(selected)
        .map_or(Vec::new(), |row| detail(row, scene, pen.width(), details));
    let rest = (more > 0).then(|| rest(scene, pen.width())).flatten();
    let below = pen.take_bottom((details.len() + usize::from(rest.is_some())) as u16);

    let first = pen.first(rows.len(), selected);
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let mut spans = vec![scene.mark(i, selected)];
        for spec in &specs {
            let value = match spec.column {
                // The end of a path says more than its beginning.
                Column::Path => text::end(&row.path, spec.width - 1).into_owned(),
                column => value(row, column),
            };
            spans.push(Span::raw(cell(spec, &value)));
        }
        pen.line(&Line::from(spans));
    }
    if rows.is_empty() {
        pen.text(
            "  no file data was read or written in this interval",
            scene.palette.dim(),
        );
    }
    let mut pen = Pen::new(pen.buffer, below);
    for line in rest.iter().chain(&details) {
        pen.line(line);
    }
}

fn specs(rows: &[FileRow<'_>], width: usize) -> Vec<Spec> {
    let device = |r: &FileRow<'_>| r.file.location.device_name.clone();
    let mut devices: Vec<String> = rows.iter().map(device).collect();
    devices.sort_unstable();
    devices.dedup();
    let mut all = vec![
        figure(Column::Reads, 6, 5),
        figure(Column::Writes, 6, 6),
        figure(Column::Bytes, 7, 8),
        figure(Column::Share, 7, 4),
    ];
    if devices.len() > 1 {
        let widest = devices.iter().map(|d| text::width(&clean(d))).max();
        all.push(name(
            Column::Filesystem,
            widest.unwrap_or(0).clamp(4, 16),
            7,
        ));
    }
    let mut all = table::fit(all, width.saturating_sub(22));
    let used: usize = all.iter().map(|s| s.width).sum();
    all.push(name(Column::Path, width.saturating_sub(used + 2), 10));
    all
}

fn value(row: &FileRow<'_>, column: Column) -> String {
    match column {
        Column::Reads => units::count(row.reads),
        Column::Writes => units::count(row.writes),
        Column::Bytes => units::mib(row.bytes),
        Column::Share => units::percent_short(row.share),
        Column::Filesystem => clean(&row.file.location.device_name).into_owned(),
        _ => String::new(),
    }
}

/// What has no row of its own.
fn rest(scene: &Scene<'_>, columns: usize) -> Option<Line<'static>> {
    let files = &scene.array.files;
    let said = |sum: FileSum, what: &str| {
        format!(
            "{what} {}/s {}/s",
            units::count(sum.bios as f64 / scene.secs),
            units::bytes(sum.bytes as f64 / scene.secs)
        )
    };
    let mut parts = Vec::new();
    if files.rest.bios > 0 {
        parts.push(said(files.rest, "smaller ones:"));
    }
    if files.unattributed.bios > 0 {
        parts.push(said(files.unattributed, "unattributed:"));
    }
    if parts.is_empty() || !scene.filter().keeps(Origin::FileData, Op::Read) {
        return None;
    }
    let text = text::cut(&format!("  {}", parts.join(", ")), columns).into_owned();
    Some(Line::from(Span::styled(text, scene.palette.dim())))
}

/// The file that is selected: path whole, what else identifies it, every operation.
fn detail(
    row: &FileRow<'_>,
    scene: &Scene<'_>,
    columns: usize,
    lines: usize,
) -> Vec<Line<'static>> {
    if lines == 0 {
        return Vec::new();
    }
    let (id, location) = (row.file.id, &row.file.location);
    let mut text = format!(
        "{}: inode {} generation {} of {} {}",
        row.path,
        id.inode,
        id.generation,
        id.device(),
        clean(&location.device_name)
    );
    match &location.mount {
        Some(mount) => text.push_str(&format!(" on {}:", clean(mount))),
        None => text.push(':'),
    }
    let io = row.file.io.iter();
    let io = io.filter(|io| scene.filter().keeps(Origin::FileData, io.op));
    let each = io.map(|io| {
        format!(
            " {} {}/s {}/s",
            io.op,
            units::count(io.bios as f64 / scene.secs),
            text::glue(&units::bytes(io.bytes as f64 / scene.secs))
        )
    });
    text.push_str(&each.collect::<Vec<_>>().join(","));
    let whom = rows::dirtied_by(id, &scene.array.tasks);
    if !whom.is_empty() {
        text.push_str(&format!("; dirtied by {whom}"));
    }
    text::wrap(&text, columns, lines)
        .into_iter()
        .map(|l| Line::from(Span::styled(l, scene.palette.dim())))
        .collect()
}
