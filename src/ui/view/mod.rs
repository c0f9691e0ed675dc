//! Draws a [`State`] and a [`Snapshot`]: nothing else goes in, nothing comes out but the screen.
//!
//! ```text
//! md127 raid0, 12 disks, ...        12:00:01Z   header: what
//! ! loop1, loop5 and loop9 are busy ...         what hurts, and why
//! last 1 s: 630 r/s ...                         how much, of which filesystem
//!  1 members  2 origins  ...     sort: slot     tabs
//! slot member ...                               the view: one file each
//! f file_data 40%  B block_bitmap 20% ...       legend
//! loop1: ...                                    what is selected, in full
//! q quit  ? help ...                            footer
//! ```

mod amplification;
mod bar;
mod files;
pub mod header;
pub(crate) mod help;
mod latency;
mod matrix;
mod members;
mod overview;
mod table;
mod tasks;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::rows::{self, Column, Filter};
use super::state::{Overlay, State, View};
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};

/// The smallest screen that still says something.
pub(crate) const SMALLEST: (u16, u16) = (40, 10);

/// What every view is drawn from.
struct Scene<'a> {
    state: &'a State,
    array: &'a ArraySnapshot,
    /// Length of the interval in seconds.
    secs: f64,
    palette: Palette,
    /// What is drawn: the view that is selected, or another in a panel beside it.
    view: View,
    /// No row is selected here, and there is no room for legends.
    is_panel: bool,
}

impl Scene<'_> {
    fn filter(&self) -> Filter {
        self.state.filter
    }

    fn sort(&self) -> (Column, bool) {
        match (self.view, self.state.sort_of(self.view)) {
            // A panel may have room for the largest only.
            (View::Matrix, (Column::Origin, false)) if self.is_panel => (Column::Total, false),
            // Where it is not known what tasks dirty there is no such column.
            (View::Tasks, (Column::Causes, reversed))
                if self.array.tasks.iter().all(|t| t.dirtied.is_empty()) =>
            {
                (Column::Bytes, reversed)
            }
            (_, sort) => sort,
        }
    }

    /// The row that is selected, of `rows`; the first in a panel.
    fn row(&self, rows: usize) -> usize {
        let row = if self.is_panel { 0 } else { self.state.row() };
        row.min(rows.saturating_sub(1))
    }

    /// The mark before row `i`.
    fn mark(&self, i: usize, selected: usize) -> Span<'static> {
        let is_selected = i == selected && !self.is_panel;
        Span::raw(if is_selected { ">" } else { " " })
    }
}

/// Draws the whole screen. `snapshot` is `None` until the first interval has ended.
pub fn draw(frame: &mut Frame<'_>, state: &State, snapshot: Option<&Snapshot>, palette: Palette) {
    let area = frame.area();
    let mut pen = Pen::new(frame.buffer_mut(), area);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        help::too_small(&mut pen, SMALLEST);
        return;
    }
    let footer = pen.take_bottom(1);
    if let Some(snapshot) = snapshot {
        match snapshot.arrays.get(state.array) {
            Some(array) => {
                let secs = rows::seconds(snapshot.interval);
                let scene = Scene {
                    state,
                    array,
                    secs,
                    palette,
                    view: state.view,
                    is_panel: false,
                };
                header::draw(&mut pen, &scene, snapshot);
                match state.view {
                    View::Members => overview::draw(&mut pen, &scene),
                    View::Matrix => matrix::draw(&mut pen, &scene),
                    View::Tasks => tasks::draw(&mut pen, &scene),
                    View::Latency => latency::draw(&mut pen, &scene),
                    View::Files => files::draw(&mut pen, &scene),
                    View::Amplification => amplification::draw(&mut pen, &scene),
                }
            }
            None => pen.text(
                "no array is left to trace: it was stopped, or its last member removed",
                palette.alarm(),
            ),
        }
    } else {
        pen.text("measuring the first interval ...", Style::new());
    }
    let buffer = frame.buffer_mut();
    header::footer(&mut Pen::new(buffer, footer), state, snapshot, palette);
    match state.overlay {
        Overlay::None => {}
        Overlay::Help(page) => {
            help::draw(&mut Pen::new(buffer, area), state, snapshot, page, palette);
        }
        Overlay::Origins(at) => help::origins(&mut Pen::new(buffer, area), state, at, palette),
    }
}

/// Writes lines downwards into an area and never outside of it.
pub(crate) struct Pen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
}

impl<'a> Pen<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area }
    }

    /// Columns.
    pub(crate) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Lines that are left.
    pub(crate) fn lines(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Writes a line, if one is left.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        if self.area.height > 0 {
            self.buffer
                .set_line(self.area.x, self.area.y, line, self.area.width);
            self.skip(1);
        }
    }

    /// Writes plain text as a line.
    pub(crate) fn text(&mut self, text: &str, style: Style) {
        self.line(&Line::from(Span::styled(text, style)));
    }

    /// Leaves lines out.
    pub(crate) fn skip(&mut self, lines: u16) {
        let lines = lines.min(self.area.height);
        self.area.y += lines;
        self.area.height -= lines;
    }

    /// Cuts lines off the bottom.
    pub(crate) fn take_bottom(&mut self, lines: u16) -> Rect {
        let lines = lines.min(self.area.height);
        self.area.height -= lines;
        Rect {
            y: self.area.y + self.area.height,
            height: lines,
            ..self.area
        }
    }

    /// The first of `rows` rows to show so that `selected` is on the screen, near its middle.
    pub(crate) fn first(&self, rows: usize, selected: usize) -> usize {
        selected
            .saturating_sub(self.lines() / 2)
            .min(rows.saturating_sub(self.lines()))
    }
}

#[cfg(test)]
mod tests;
