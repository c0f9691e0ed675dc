//! The members and, on a large screen, panels of processes, origins, latency and files beside or
//! below them.

use ratatui::layout::Rect;

use super::members::MembersView;
use super::{Scene, VIEWS, View, table, view_index};
use crate::ui::pen::Pen;
use crate::ui::text;

/// Minimum width for two columns of panels.
const MIN_TWO_COLUMNS_WIDTH: usize = 160;
/// Minimum number of lines for two columns of panels.
const MIN_TWO_COLUMNS_LINES: usize = 20;
/// Minimum width of a panel.
const MIN_PANEL_WIDTH: usize = 70;
/// Minimum number of lines of a panel: a title, a heading and two rows.
const MIN_PANEL_LINES: usize = 4;
/// Lines below the members: the legend and the details of the selected member.
const BELOW: usize = 5;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let panel = |title| Panel::new(scene, view_index(title));
    let titles = ["processes", "origins", "latency", "files"];
    let [tasks, origins, latency, files] = titles.map(panel);
    let members = scene.array.members.len().max(1) + 1 + BELOW;
    if pen.width() >= MIN_TWO_COLUMNS_WIDTH && pen.lines() >= MIN_TWO_COLUMNS_LINES {
        let lines = members.max(origins.lines).min(pen.lines() * 2 / 3);
        let (left, right) = columns(pen.take_top(lines).area);
        table::draw::<MembersView>(&mut Pen::new(pen.buffer, left), scene);
        let lines = origins.lines;
        origins.draw(&mut Pen::new(pen.buffer, right), scene, lines);
        let (left, right) = columns(pen.area);
        stack(&mut Pen::new(pen.buffer, left), scene, &[tasks, files]);
        stack(&mut Pen::new(pen.buffer, right), scene, &[latency]);
    } else if pen.width() >= MIN_PANEL_WIDTH && pen.lines() >= members + MIN_PANEL_LINES {
        table::draw::<MembersView>(&mut pen.take_top(members), scene);
        stack(pen, scene, &[tasks, origins, latency]);
    } else {
        table::draw::<MembersView>(pen, scene);
    }
}

/// Another view, without its legend and the selected row.
struct Panel {
    /// Index of the view.
    view: usize,
    rows: usize,
    /// Number of lines below the rows.
    sums: usize,
    /// Number of lines of the whole panel, including its title and heading.
    lines: usize,
}

impl Panel {
    fn new(scene: &Scene<'_>, view: usize) -> Self {
        let View { rows, sums, .. } = VIEWS[view];
        let (rows, sums) = (rows(scene), sums(scene));
        Self { view, rows, sums, lines: rows + sums + 2 }
    }

    fn draw(&self, pen: &mut Pen<'_>, scene: &Scene<'_>, lines: usize) {
        if self.rows == 0 || lines < MIN_PANEL_LINES {
            return;
        }
        let mut pen = pen.take_top(lines);
        let hidden = match self.lines > lines {
            true => format!("({} of {}) ", lines - 2 - self.sums, self.rows),
            false => String::new(),
        };
        let view = &VIEWS[self.view];
        let title = format!("── {} {} {hidden}", self.view + 1, view.title);
        let rule = "─".repeat(pen.width().saturating_sub(text::width(&title)));
        pen.text(&format!("{title}{rule}"), scene.palette.dim());
        let scene = Scene { view: self.view, is_panel: true, ..*scene };
        (view.draw)(&mut pen, &scene);
    }
}

/// Draws the panels that have rows, one below the other. Each panel gets the lines that it needs,
/// but at most an equal share of the lines that are left for it and the following panels.
fn stack(pen: &mut Pen<'_>, scene: &Scene<'_>, panels: &[Panel]) {
    let panels: Vec<&Panel> = panels.iter().filter(|p| p.rows > 0).collect();
    let fit = panels.len().min(pen.lines() / MIN_PANEL_LINES);
    for (i, panel) in panels.iter().take(fit).enumerate() {
        let lines = panel.lines.max(MIN_PANEL_LINES).min(pen.lines() / (fit - i));
        panel.draw(pen, scene, lines);
    }
}

/// The left and the right part of `area`, with a space between.
fn columns(area: Rect) -> (Rect, Rect) {
    let width = area.width * 13 / 25;
    let left = Rect { width, ..area };
    let right = Rect { x: area.x + width + 1, width: area.width.saturating_sub(width + 1), ..area };
    (left, right)
}
