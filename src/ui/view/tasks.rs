//! View 3: who submitted to the array, by origin. Figures are bios, before md splits and the queue merges them.

use ratatui::text::{Line, Span};

use super::table::{self, Spec, cell, figure, heading, name};
use super::{Pen, Scene, bar};
use crate::analysis::units;
use crate::origin::{Origin, io_name};
use crate::ui::rows;
use crate::ui::rows::{Column, TaskRow};
use crate::ui::text;
use crate::ui::text::clean;

/// A bar shorter than this says nothing.
const BAR: usize = 12;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let mut rows = rows::tasks(scene.array, scene.secs, scene.filter(), scene.state.measure);
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

    let most = rows
        .iter()
        .map(|r| r.parts.iter().map(|p| p.1).sum())
        .fold(0.0, f64::max);
    let first = pen.first(rows.len(), selected);
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let mut spans = vec![scene.mark(i, selected)];
        for spec in &specs {
            spans.push(Span::raw(cell(spec, &value(row, spec.column))));
        }
        spans.push(Span::raw(" "));
        spans.extend(bar::stacked(&row.parts, most, bar_columns, scene.palette));
        pen.line(&Line::from(spans));
    }
    if rows.is_empty() {
        pen.text(
            "  nobody submitted to the array in this interval",
            scene.palette.dim(),
        );
    }
    let mut pen = Pen::new(pen.buffer, below);
    for line in legend.iter().chain(&details) {
        pen.line(line);
    }
}

fn specs(rows: &[TaskRow<'_>], width: usize) -> Vec<Spec> {
    let widest = |f: &dyn Fn(&TaskRow<'_>) -> usize| rows.iter().map(f).max().unwrap_or(0);
    let role = widest(&|r| r.task.role.as_deref().map_or(0, |t| text::width(&clean(t))));
    let cgroup = widest(&|r| {
        r.task
            .cgroup
            .as_deref()
            .map_or(0, |t| text::width(&clean(t)))
    });
    let wide = width >= 120;
    let mut all = vec![
        figure(Column::Pid, 8, 6),
        name(
            Column::Comm,
            widest(&|r| text::width(&r.comm)).clamp(8, if wide { 24 } else { 15 }),
            10,
        ),
        name(Column::Role, role.clamp(6, if wide { 32 } else { 14 }), 4),
        figure(Column::Reads, 6, 5),
        figure(Column::Writes, 6, 7),
        figure(Column::Bytes, 7, 8),
    ];
    if rows::tell_dirtied(rows) {
        all.push(figure(Column::Causes, 7, 9));
    }
    if rows.iter().any(|r| r.discards > 0.0) {
        all.insert(5, figure(Column::Discards, 6, 1));
    }
    if wide {
        all.push(name(Column::Cgroup, cgroup.clamp(6, width / 4), 3));
    }
    let bar = if wide { 24 } else { BAR };
    table::fit(all, width.saturating_sub(2 + bar))
}

fn value(row: &TaskRow<'_>, column: Column) -> String {
    match column {
        Column::Pid => row.task.pid.to_string(),
        Column::Comm => row.comm.clone(),
        Column::Role => row
            .task
            .role
            .as_deref()
            .map_or(String::new(), |r| clean(r).into_owned()),
        // The end of a path says more than its beginning.
        Column::Cgroup => row
            .task
            .cgroup
            .as_deref()
            .map_or("-".to_owned(), |c| clean(c).into_owned()),
        Column::Reads => units::count(row.reads),
        Column::Writes => units::count(row.writes),
        Column::Discards => units::count(row.discards),
        Column::Bytes => units::mib(row.bytes),
        Column::Causes => units::mib(row.causes),
        _ => String::new(),
    }
}

/// The task that is selected: role and cgroup whole, every origin with its figures.
fn detail(
    row: &TaskRow<'_>,
    scene: &Scene<'_>,
    columns: usize,
    lines: usize,
) -> Vec<Line<'static>> {
    if lines == 0 {
        return Vec::new();
    }
    let mut text = format!("{} pid {}", row.comm, row.task.pid);
    if let Some(role) = &row.task.role {
        text.push_str(&format!(", {}", clean(role)));
    }
    let whom = rows::for_whom(row.task, &scene.array.tasks);
    if !whom.is_empty() {
        text.push_str(&format!(", for {whom}"));
    }
    text.push_str(&format!(
        ", cgroup {}:",
        row.task.cgroup.as_deref().map_or("unknown".into(), clean)
    ));
    let mut io: Vec<_> = row
        .task
        .io
        .iter()
        .filter(|i| scene.filter().keeps(i.origin, i.op))
        .collect();
    io.sort_by_key(|i| std::cmp::Reverse(i.bytes));
    let each = io.iter().map(|i| {
        format!(
            " {} {} {}/s {}/s",
            io_name(i.origin, i.op),
            i.op,
            units::count(i.bios as f64 / scene.secs),
            text::glue(&units::bytes(i.bytes as f64 / scene.secs))
        )
    });
    let submitted = each.collect::<Vec<_>>().join(",");
    let dirtied = dirtied(row, scene);
    let between = if submitted.is_empty() || dirtied.is_empty() {
        ""
    } else {
        ";"
    };
    text.push_str(&format!("{submitted}{between}{dirtied}"));
    text::wrap(&text, columns, lines)
        .into_iter()
        .map(|l| Line::from(Span::styled(l, scene.palette.dim())))
        .collect()
}

/// Files that are named of those that a task dirtied.
const FILES: usize = 4;

/// ` dirtied inode_table 1.2 MiB/s, file_data 3 MiB/s; files dirtied: /srv/a 2 MiB/s, /srv/b 1 MiB/s`: what others write for
/// it; empty where it dirtied nothing.
fn dirtied(row: &TaskRow<'_>, scene: &Scene<'_>) -> String {
    let kept = row.task.dirtied.iter();
    let mut kept: Vec<_> = kept
        .filter(|i| scene.filter().keeps(i.origin, i.op))
        .collect();
    kept.sort_by_key(|i| std::cmp::Reverse(i.bytes));
    let each = kept.iter().map(|i| {
        let what = match i.origin {
            Origin::Unknown => "metadata",
            origin => origin.name(),
        };
        format!(" {what} {}/s", rate(i.bytes, scene))
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() {
        return String::new();
    }
    let data = kept.iter().any(|i| i.origin == Origin::FileData);
    let files = if data {
        dirtied_files(row, scene)
    } else {
        String::new()
    };
    format!(" dirtied{}{files}", each.join(","))
}

fn dirtied_files(row: &TaskRow<'_>, scene: &Scene<'_>) -> String {
    let files = &row.task.dirtied_files;
    let named = files.busiest.iter().take(FILES);
    let each = named.map(|f| {
        let path = rows::label(f.id.inode, &f.location);
        format!("{path} {}/s", rate(f.bytes(), scene))
    });
    let mut each: Vec<_> = each.collect();
    if files.busiest.len() > FILES || files.rest.bytes > 0 {
        each.push("others".to_owned());
    }
    if each.is_empty() {
        return String::new();
    }
    format!("; files dirtied: {}", each.join(", "))
}

fn rate(bytes: u64, scene: &Scene<'_>) -> String {
    text::glue(&units::bytes(bytes as f64 / scene.secs)).to_string()
}
