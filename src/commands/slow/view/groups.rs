//! Sums by file, process, phase and lock.

use super::Scene;
use crate::analysis::slow::groups::{self, Group};
use crate::analysis::units::{count, percent_short};
use crate::ui::pen::Pen;
use crate::ui::table::{Column, Columns};

/// A group of operations, and its share of the time of all slow operations.
struct Row {
    group: Group,
    share: f64,
}

fn draw(
    pen: &mut Pen<'_>,
    scene: &Scene<'_>,
    groups: Vec<Group>,
    (name, width): (&'static str, usize),
    words: &'static str,
) {
    let (s, tabs, palette) = (scene.snapshot, &scene.state.tabs, scene.palette);
    let total: u64 = s.operations.iter().map(|o| o.operation.total_ns()).sum();
    let rows: Vec<Row> = groups
        .into_iter()
        .map(|group| Row {
            share: group.ns as f64 / total.max(1) as f64,
            group,
        })
        .collect();
    tabs.set_rows(rows.len());
    let selected = tabs.row().min(rows.len().saturating_sub(1));
    let rest = pen.width().saturating_sub(32 + width).max(10);
    let columns = Columns(vec![
        Column::latency("time", 6, 9, |r: &Row| Some(r.group.ns / 1000)),
        Column::figure("share", 6, 7, |r: &Row| Some(r.share), percent_short),
        Column::figure("number", 7, 8, |r: &Row| Some(r.group.count as f64), count),
        Column::latency("longest", 8, 6, |r: &Row| Some(r.group.longest_ns / 1000)),
        Column::name(name, width, 9, |r: &Row| r.group.name.clone()).gap(2),
        Column::name(words, rest, 5, |r: &Row| r.group.words.clone()).gap(2),
    ]);
    let table = columns.fit(pen.width() - 1, None);
    table.heading(pen, Vec::new(), palette);
    table.rows(pen, &rows, (selected, true), &|_, _| Vec::new(), palette);
    if rows.is_empty() {
        pen.text("  none yet", palette.dim());
    }
}

pub(super) fn files(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let width = (pen.width() / 3).max(12);
    draw(
        pen,
        scene,
        groups::files(scene.snapshot),
        ("file", width),
        "mostly",
    );
}

pub(super) fn tasks(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    draw(
        pen,
        scene,
        groups::tasks(scene.snapshot),
        ("process", 18),
        "mostly",
    );
}

pub(super) fn phases(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let width = (pen.width() / 3).clamp(12, 36);
    draw(
        pen,
        scene,
        groups::phases(scene.snapshot),
        ("phase", width),
        "the longest",
    );
}

pub(super) fn locks(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let width = (pen.width() / 3).max(12);
    draw(
        pen,
        scene,
        groups::locks(scene.snapshot),
        ("file", width),
        "holder at the longest",
    );
}
