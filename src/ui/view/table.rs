//! Draws a view that is a table: heading, rows, and below them the legend and the selected row in
//! full.

use ratatui::text::{Line, Span};

use super::{Scene, bar};
use crate::ui::pen::Pen;
use crate::ui::rows::{self, BarPart};
use crate::ui::table::{Columns, SortOrder};
use crate::ui::text;

/// Bars are drawn only if there are more screen columns than this right of the table, including
/// those of the text before a bar.
const MIN_ROOM: usize = 10;

/// A view with a row for each item and its columns.
pub(super) trait TableView {
    /// An item.
    type Row<'a>;

    /// Text that is shown if there are no rows.
    const EMPTY: &'static str;

    /// Heading of the bar; empty if the view has no bars.
    const BAR: &'static str = "";

    /// Number of empty lines below the rows if there is room.
    const SPACE: usize = 0;

    /// The rows, not sorted.
    fn rows<'a>(scene: &Scene<'a>) -> Vec<Self::Row<'a>>;

    /// All columns. `width` is the width of the screen.
    fn columns<'a>(
        rows: &[Self::Row<'a>],
        scene: &Scene<'a>,
        width: usize,
    ) -> Columns<Self::Row<'a>>;

    /// Screen columns that are reserved right of the columns.
    fn reserved(width: usize) -> usize;

    /// True for rows that are last in every sort order.
    fn is_last(_row: &Self::Row<'_>) -> bool {
        false
    }

    /// Parts of the row's bar, by origin.
    fn parts(_row: &Self::Row<'_>, _scene: &Scene<'_>) -> Vec<BarPart> {
        Vec::new()
    }

    /// Text before the row's bar.
    fn before_bar(_row: &Self::Row<'_>, _scene: &Scene<'_>) -> Vec<Span<'static>> {
        Vec::new()
    }

    /// Heading right of the columns, in `room` screen columns.
    fn rest_heading(room: usize) -> String {
        match Self::BAR {
            "" => String::new(),
            _ if room <= MIN_ROOM => String::new(),
            title => format!(" {title}"),
        }
    }

    /// The row's part right of the columns, in `room` screen columns. `most` is the largest sum of
    /// [`TableView::parts`].
    fn rest(row: &Self::Row<'_>, scene: &Scene<'_>, room: usize, most: f64) -> Vec<Span<'static>> {
        let mut spans = vec![Span::raw(" ")];
        spans.extend(Self::before_bar(row, scene));
        let used: usize = spans.iter().map(Span::width).sum();
        let room = room.saturating_sub(used);
        if room + used > MIN_ROOM {
            let parts = Self::parts(row, scene);
            spans.extend(bar::stacked(&parts, most, room, scene.palette));
        }
        spans
    }

    /// Lines above the legend, at most `lines`.
    fn totals(_scene: &Scene<'_>, _width: usize, _lines: usize) -> Vec<Line<'static>> {
        Vec::new()
    }

    /// The selected row in full.
    fn detail(_row: &Self::Row<'_>, _scene: &Scene<'_>) -> String {
        String::new()
    }

    /// Totals, legend and the selected row, in as many lines as there is room for.
    fn below(
        pen: &Pen<'_>,
        scene: &Scene<'_>,
        rows: &[Self::Row<'_>],
        selected: usize,
    ) -> Vec<Line<'static>> {
        let width = pen.width();
        let (legend, details) = scene.room_below(pen, rows.len() + Self::SPACE);
        let mut lines = Self::totals(scene, width, legend);
        if !Self::BAR.is_empty() {
            let parts: Vec<BarPart> = rows.iter().flat_map(|r| Self::parts(r, scene)).collect();
            let (parts, op) = (rows::legend(parts.iter()), scene.filter().op);
            lines.extend(bar::legend(&parts, width, legend, scene.palette, op));
        }
        if let Some(row) = rows.get(selected).filter(|_| details > 0) {
            lines.extend(scene.wrapped(&Self::detail(row, scene), width, details));
        }
        lines
    }
}

pub(super) fn draw<V: TableView>(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (palette, width) = (scene.palette, pen.width());
    let mut rows = V::rows(scene);
    let columns = V::columns(&rows, scene, width);
    let sort = scene.sort(&columns);
    columns.sort(&mut rows, sort);
    rows.sort_by_key(V::is_last);
    let table = columns.fit(width.saturating_sub(1 + V::reserved(width)), Some(sort));
    let room = width.saturating_sub(table.width);
    let rest = vec![Span::styled(V::rest_heading(room), palette.title())];
    table.heading(pen, rest, palette);

    let selected = scene.row(rows.len());
    let below = V::below(pen, scene, &rows, selected);
    let area = pen.take_bottom(below.len());
    let sum = |row: &V::Row<'_>| V::parts(row, scene).iter().map(|p| p.1).sum();
    let most = rows.iter().map(sum).fold(0.0, f64::max);
    table.rows(
        pen,
        &rows,
        (selected, !scene.is_panel),
        &|row, room| V::rest(row, scene, room, most),
        palette,
    );
    if rows.is_empty() {
        pen.text(&format!("  {}", V::EMPTY), palette.dim());
    }
    let mut pen = Pen::new(pen.buffer, area);
    below.iter().for_each(|line| pen.line(line));
}

impl Scene<'_> {
    /// Sort column and order. Stores them for the keys.
    pub(super) fn sort<R>(&self, columns: &Columns<R>) -> SortOrder {
        let (chosen, reversed) = self.state.tabs.sort(self.view);
        let column = chosen.unwrap_or_else(|| columns.default_sort());
        if !self.is_panel {
            let sorted = (column, columns.sort_keys());
            self.state.tabs.set_drawn_sort(Some(sorted));
        }
        SortOrder { column, reversed }
    }

    /// Index of the selected row of `rows` rows; 0 in a panel. Stores `rows` for the keys.
    pub(super) fn row(&self, rows: usize) -> usize {
        if self.is_panel {
            return 0;
        }
        self.state.tabs.set_rows(rows);
        self.state.tabs.row().min(rows.saturating_sub(1))
    }

    /// Wraps `text` into dimmed lines.
    pub(super) fn wrapped(&self, text: &str, width: usize, lines: usize) -> Vec<Line<'static>> {
        let lines = text::wrap(text, width, lines).into_iter();
        lines.map(|l| Line::styled(l, self.palette.dim())).collect()
    }

    /// Number of lines below a table of `rows` rows for the legend and for the selected row:
    /// `(legend, details)`. Each gets more than one line only if all rows still fit.
    fn room_below(&self, pen: &Pen<'_>, rows: usize) -> (usize, usize) {
        let lines = pen.lines();
        match lines {
            _ if self.is_panel => (0, 0),
            0..6 => (usize::from(lines > 2), 0),
            6..10 => (1, 1),
            _ if lines >= rows + 5 => (2, 3),
            _ if lines >= rows + 4 => (2, 2),
            _ if lines >= rows + 3 => (1, 2),
            _ => (1, 1),
        }
    }
}
