//! View 1: the members, and, where the screen is large, processes, origins and latency beside or below them.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{Pen, Scene, files, latency, matrix, members, tasks};
use crate::ui::rows;
use crate::ui::state::View;
use crate::ui::text;

/// From this width on panels are in two columns, ...
const TWO_COLUMNS: usize = 160;
/// ... if there are this many lines.
const TWO_ROWS: usize = 20;
/// Panels need this width ...
const NARROWEST: usize = 70;
/// ... and this many lines: a title, a heading and two rows.
const LOWEST: usize = 4;
/// Lines below the members for the legend and the selected one.
const BELOW: usize = 5;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let panel = |view| Panel::new(scene, view);
    let views = [View::Tasks, View::Matrix, View::Latency, View::Files];
    let [tasks, origins, latency, files] = views.map(panel);
    let members = scene.array.members.len().max(1) + 1 + BELOW;
    if pen.width() >= TWO_COLUMNS && pen.lines() >= TWO_ROWS {
        let lines = members.max(origins.lines).min(pen.lines() * 2 / 3);
        let (left, right) = columns(pen.take_top(lines).area);
        members::draw(&mut Pen::new(pen.buffer, left), scene);
        let lines = origins.lines;
        origins.fill(&mut Pen::new(pen.buffer, right), scene, lines);
        let (left, right) = columns(pen.area);
        stack(&mut Pen::new(pen.buffer, left), scene, &[tasks, files]);
        stack(&mut Pen::new(pen.buffer, right), scene, &[latency]);
    } else if pen.width() >= NARROWEST && pen.lines() >= members + LOWEST {
        members::draw(&mut pen.take_top(members), scene);
        stack(pen, scene, &[tasks, origins, latency]);
    } else {
        members::draw(pen, scene);
    }
}

/// Another view, without its legend and details.
struct Panel {
    view: View,
    rows: usize,
    /// Lines below the rows.
    sums: usize,
    /// Lines for all of it, its title and heading included.
    lines: usize,
}

impl Panel {
    fn new(scene: &Scene<'_>, view: View) -> Self {
        let (array, filter, measure) = (scene.array, scene.filter(), scene.state.measure);
        let rows = match view {
            View::Tasks => rows::tasks(array, scene.secs, filter, measure).len(),
            View::Matrix => rows::heat(array, scene.secs, filter, measure).0.len(),
            View::Files => rows::files(array, scene.secs, filter, measure).len(),
            _ => rows::latencies(array, scene.secs, filter).len(),
        };
        let sums = usize::from(view == View::Matrix && rows > 1);
        Self {
            view,
            rows,
            sums,
            lines: rows + sums + 2,
        }
    }

    fn fill(&self, pen: &mut Pen<'_>, scene: &Scene<'_>, lines: usize) {
        if self.rows == 0 || lines < LOWEST {
            return;
        }
        let mut pen = pen.take_top(lines);
        let number = View::ALL.iter().position(|v| *v == self.view).unwrap_or(0) + 1;
        let hidden = if self.lines > lines {
            format!("({} of {}) ", lines - 2 - self.sums, self.rows)
        } else {
            String::new()
        };
        let title = format!("── {number} {} {hidden}", self.view.title());
        let rule = "─".repeat(pen.width().saturating_sub(text::width(&title)));
        pen.line(&Line::from(Span::styled(
            format!("{title}{rule}"),
            scene.palette.dim(),
        )));
        let scene = Scene {
            view: self.view,
            is_panel: true,
            ..*scene
        };
        match self.view {
            View::Tasks => tasks::draw(&mut pen, &scene),
            View::Matrix => matrix::draw(&mut pen, &scene),
            View::Files => files::draw(&mut pen, &scene),
            _ => latency::draw(&mut pen, &scene),
        }
    }
}

/// Panels with something in them, one below the other: each as high as it needs, but none more than its part while others
/// need room.
fn stack(pen: &mut Pen<'_>, scene: &Scene<'_>, panels: &[Panel]) {
    let panels: Vec<&Panel> = panels.iter().filter(|p| p.rows > 0).collect();
    let fit = panels.len().min(pen.lines() / LOWEST);
    for (i, panel) in panels.iter().take(fit).enumerate() {
        let lines = panel.lines.max(LOWEST).min(pen.lines() / (fit - i));
        panel.fill(pen, scene, lines);
    }
}

impl Pen<'_> {
    /// Cuts lines off the top.
    fn take_top(&mut self, lines: usize) -> Pen<'_> {
        let height = (lines as u16).min(self.area.height);
        let top = Rect {
            height,
            ..self.area
        };
        self.skip(height);
        Pen::new(self.buffer, top)
    }
}

/// A left one and a right one, with a space between.
fn columns(area: Rect) -> (Rect, Rect) {
    let width = area.width * 13 / 25;
    let left = Rect { width, ..area };
    let right = Rect {
        x: area.x + width + 1,
        width: area.width.saturating_sub(width + 1),
        ..area
    };
    (left, right)
}
