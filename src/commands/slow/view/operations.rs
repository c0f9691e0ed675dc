//! The slowest operations, and the waterfall of the selected operation.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::SlowScene;
use crate::analysis::slow::names::{SlowOperation, task};
use crate::analysis::slow::sentence::{part_words, subject};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units::{latency, percent};
use crate::printable::sanitize;
use crate::ui::pen::Pen;
use crate::ui::table::{Column, Columns};
use crate::ui::tabs::Tabs;
use crate::ui::text::{clean, wrap};

/// Height of the waterfall below the list.
const WATERFALL: usize = 8;
const BAR: usize = 16;

struct OperationRow {
    us: u64,
    time: String,
    op: String,
    task: String,
    phase: String,
    file: String,
}

impl OperationRow {
    fn new(slow: &SlowOperation, s: &SlowSnapshot) -> Self {
        let op = &slow.operation;
        let largest = slow.waterfall.longest();
        let how = if op.flags.direct { "direct " } else { "" };
        let so_far = if slow.unended { " so far" } else { "" };
        Self {
            us: op.total_ns() / 1000,
            time: s.wall(op.start_ns).strftime("%H:%M:%S").to_string(),
            op: format!("{how}{}{so_far}", op.kind),
            task: task(&op.task),
            phase: largest.first().map(|(phase, _)| phase.words().to_owned()).unwrap_or_default(),
            file: match &op.file {
                Some(file) => s.names.file(file),
                None if op.dev == 0 => "all filesystems".to_owned(),
                None => s.names.device(op.dev),
            },
        }
    }
}

pub(super) fn draw(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let (s, palette, tabs) = (scene.snapshot, scene.palette, &scene.state.tabs);
    let rows: Vec<OperationRow> = listed(s).map(|o| OperationRow::new(o, s)).collect();
    let columns = Columns(vec![
        Column::latency("took", 6, 9, |r: &OperationRow| Some(r.us)),
        Column::name("start", 8, 4, |r: &OperationRow| r.time.clone()).gap(2),
        Column::name("operation", 13, 8, |r: &OperationRow| r.op.clone()),
        Column::name("process", 16, 6, |r: &OperationRow| r.task.clone()),
        Column::name("mostly", 26, 7, |r: &OperationRow| r.phase.clone()),
        Column::path("file", 10, 9, |r: &OperationRow| r.file.clone()),
    ]);
    let room = pen.lines();
    let below = if room >= 2 * WATERFALL { WATERFALL } else { 0 };
    let mut top = pen.take_top(room - below);
    columns.draw(&mut top, tabs, &rows, None, "  none yet", palette);
    if let Some(slow) = selected(scene).filter(|_| below > 0) {
        for line in lines(slow, scene, pen.width()).iter().take(below) {
            pen.line(line);
        }
    }
}

/// Operations that have not ended, then the longest.
fn listed(s: &SlowSnapshot) -> impl Iterator<Item = &SlowOperation> {
    s.unended.iter().chain(&s.operations)
}

fn selected<'a>(scene: &SlowScene<'a>) -> Option<&'a SlowOperation> {
    let last = listed(scene.snapshot).count().checked_sub(1)?;
    listed(scene.snapshot).nth(scene.state.tabs.row().min(last))
}

/// Draws the waterfall of the selected operation on the whole screen.
pub(super) fn open(pen: &mut Pen<'_>, scene: &SlowScene<'_>, tabs: &Tabs) {
    let Some(slow) = selected(scene) else {
        pen.text("none yet", scene.palette.dim());
        return;
    };
    let lines = lines(slow, scene, pen.width());
    pen.scroll(tabs, &lines);
}

/// Lines of the waterfall: the operation, then one or more lines per phase, longest phase first,
/// then advice for long phases.
fn lines(slow: &SlowOperation, scene: &SlowScene<'_>, columns: usize) -> Vec<Line<'static>> {
    let (names, palette) = (&scene.snapshot.names, scene.palette);
    let total = slow.operation.total_ns();
    let title = format!("{}  {}", latency(Some(total / 1000)), clean(&subject(slow, names)));
    let mut lines: Vec<Line<'static>> = wrap(&title, columns, 3)
        .into_iter()
        .map(|line| Line::styled(line, palette.title()))
        .collect();
    let bar_width = if columns >= 70 { BAR } else { 0 };
    let indent = 16 + bar_width;
    for (phase, part) in slow.waterfall.longest() {
        let share = part.ns as f64 / total.max(1) as f64;
        let cells = (share * bar_width as f64).round() as usize;
        let bar = format!("{:<bar_width$}", "█".repeat(cells));
        let words = part_words(phase, part, slow, names);
        let room = columns.saturating_sub(indent).max(10);
        for (i, text) in wrap(&clean(&words), room, 4).into_iter().enumerate() {
            let head = if i == 0 {
                format!("{:>6} {:>6} ", latency(Some(part.ns / 1000)), percent(share))
            } else {
                " ".repeat(14)
            };
            let bar = if i == 0 { bar.clone() } else { " ".repeat(bar_width) };
            lines.push(Line::from(vec![
                Span::raw(head),
                Span::styled(bar, palette.bar()),
                Span::styled(format!("  {text}"), Style::new()),
            ]));
        }
        for function in part.stack.iter().flat_map(|s| s.iter()) {
            let text = format!("{}{}", " ".repeat(indent), sanitize(function.as_bytes()));
            lines.push(Line::styled(text, palette.dim()));
        }
    }
    for found in &scene.snapshot.advice {
        let part = slow.waterfall.parts.get(&found.phase);
        if part.is_none_or(|p| p.ns * 4 < total) {
            continue;
        }
        let advice = &found.advice;
        let help = format!("what would help: {}", advice.text);
        let limits = format!("risk: {}; not when {}", advice.risk, advice.not_when);
        lines.push(Line::default());
        for text in wrap(&clean(&help), columns, 4) {
            lines.push(Line::styled(text, palette.title()));
        }
        let commands = advice.commands.iter();
        lines.extend(commands.map(|c| Line::raw(format!("  {}", clean(c)))));
        for text in wrap(&clean(&limits), columns, 6) {
            lines.push(Line::styled(text, palette.dim()));
        }
    }
    lines
}
