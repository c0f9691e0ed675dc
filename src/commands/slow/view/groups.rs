//! Sums by file, process, phase and lock.

use super::SlowScene;
use crate::analysis::slow::groups::{self, OperationGroup};
use crate::analysis::units::{count, percent_short};
use crate::ui::pen::Pen;
use crate::ui::table::{Column, Columns};

/// A group of operations, and its share of the time of all slow operations.
struct GroupRow {
    group: OperationGroup,
    share: f64,
}

fn draw(
    pen: &mut Pen<'_>,
    scene: &SlowScene<'_>,
    groups: Vec<OperationGroup>,
    (name, width): (&'static str, usize),
    words: &'static str,
) {
    let (s, tabs, palette) = (scene.snapshot, &scene.state.tabs, scene.palette);
    let total: u64 = s.operations.iter().map(|o| o.operation.total_ns()).sum();
    let rows: Vec<GroupRow> = groups
        .into_iter()
        .map(|group| GroupRow { share: group.ns as f64 / total.max(1) as f64, group })
        .collect();
    let rest = pen.width().saturating_sub(32 + width).max(10);
    let columns = Columns(vec![
        Column::latency("time", 6, 9, |r: &GroupRow| Some(r.group.ns / 1000)),
        Column::figure("share", 6, 7, |r: &GroupRow| Some(r.share), percent_short),
        Column::figure("number", 7, 8, |r: &GroupRow| Some(r.group.count as f64), count),
        Column::latency("longest", 8, 6, |r: &GroupRow| Some(r.group.longest_ns / 1000)),
        Column::name(name, width, 9, |r: &GroupRow| r.group.name.clone()).gap(2),
        Column::name(words, rest, 5, |r: &GroupRow| r.group.words.clone()).gap(2),
    ]);
    columns.draw(pen, tabs, &rows, None, "  none yet", palette);
}

pub(super) fn files(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let (groups, width) = (groups::files(scene.snapshot), (pen.width() / 3).max(12));
    draw(pen, scene, groups, ("file", width), "mostly");
}

pub(super) fn tasks(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let groups = groups::tasks(scene.snapshot);
    draw(pen, scene, groups, ("process", 18), "mostly");
}

pub(super) fn phases(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let (groups, width) = (groups::phases(scene.snapshot), pen.width() / 3);
    draw(pen, scene, groups, ("phase", width.clamp(12, 36)), "the longest");
}

pub(super) fn locks(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let (groups, width) = (groups::locks(scene.snapshot), (pen.width() / 3).max(12));
    draw(pen, scene, groups, ("file", width), "holder at the longest");
}
