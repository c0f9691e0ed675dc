//! Tables: every column is defined once, with its title, width, cell and sort key.

use std::borrow::Cow;
use std::cmp::Ordering;

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::palette::{Palette, letter};
use super::pen::Pen;
use super::tabs::Tabs;
use super::text::{cut, end, left, right, width};
use crate::analysis::units;
use crate::origin::{Op, Origin};

/// A column of a table with rows of type `R`.
pub(crate) struct Column<R> {
    title: Cow<'static, str>,
    /// Width in screen columns, including the gap.
    width: usize,
    /// Spaces before a column that is flush left.
    gap: usize,
    /// On a narrow screen, columns with the lowest priority are left out.
    priority: u8,
    content: Content<R>,
    shown: bool,
    is_default: bool,
    /// Takes all remaining screen columns.
    fills: bool,
}

/// A cell, drawn in the full width of its column.
type CellPainter<R> = fn(&R, usize, Palette) -> Vec<Span<'static>>;

/// A value of a row.
type OfRow<R, V> = Box<dyn Fn(&R) -> V>;

enum Content<R> {
    /// Flush right, sorted with the largest first; `-` for `None`.
    Figure(fn(&R) -> Option<f64>, fn(f64) -> String),
    /// Like `Figure`: the sort key, and the cell.
    Written(OfRow<R, Option<f64>>, OfRow<R, String>),
    /// A time in µs; aligned and sorted like `Figure`.
    Latency(fn(&R) -> Option<u64>),
    /// Flush right, sorted with the smallest first; `None` is shown as `-` and sorted last.
    Number(fn(&R) -> Option<u64>),
    /// Flush left, sorted by [`natural`] order. The second function fits it into the column.
    Name(fn(&R) -> String, fn(&str, usize) -> Cow<'_, str>),
    /// Flush left, sorted by rank; not sorted without one.
    Drawn(CellPainter<R>, Option<fn(&R) -> u32>),
}

impl<R> Column<R> {
    fn new(
        title: impl Into<Cow<'static, str>>,
        width: usize,
        priority: u8,
        content: Content<R>,
    ) -> Self {
        Self {
            title: title.into(),
            width,
            gap: 1,
            priority,
            content,
            shown: true,
            is_default: false,
            fills: false,
        }
    }

    /// A figure and the function that formats it.
    pub fn figure(
        title: impl Into<Cow<'static, str>>,
        width: usize,
        priority: u8,
        value: fn(&R) -> Option<f64>,
        format: fn(f64) -> String,
    ) -> Self {
        Self::new(title, width, priority, Content::Figure(value, format))
    }

    /// A figure and its text.
    pub fn written(
        title: impl Into<Cow<'static, str>>,
        width: usize,
        priority: u8,
        value: impl Fn(&R) -> Option<f64> + 'static,
        text: impl Fn(&R) -> String + 'static,
    ) -> Self {
        Self::new(title, width, priority, Content::Written(Box::new(value), Box::new(text)))
    }

    /// A time in µs.
    pub fn latency(
        title: &'static str,
        width: usize,
        priority: u8,
        us: fn(&R) -> Option<u64>,
    ) -> Self {
        Self::new(title, width, priority, Content::Latency(us))
    }

    /// A number that identifies the row.
    pub fn number(
        title: &'static str,
        width: usize,
        priority: u8,
        value: fn(&R) -> Option<u64>,
    ) -> Self {
        Self::new(title, width, priority, Content::Number(value))
    }

    /// A name, cut at its end.
    pub fn name(title: &'static str, width: usize, priority: u8, text: fn(&R) -> String) -> Self {
        Self::new(title, width + 1, priority, Content::Name(text, cut))
    }

    /// A path, cut at its beginning, in `width` columns or in all remaining columns.
    pub fn path(title: &'static str, width: usize, priority: u8, text: fn(&R) -> String) -> Self {
        Self { fills: true, ..Self::new(title, width + 1, priority, Content::Name(text, end)) }
    }

    /// A cell with styles, sorted by rank.
    pub fn ranked(
        title: impl Into<Cow<'static, str>>,
        width: usize,
        priority: u8,
        draw: CellPainter<R>,
        rank: fn(&R) -> u32,
    ) -> Self {
        Self::new(title, width + 1, priority, Content::Drawn(draw, Some(rank)))
    }

    /// A cell with styles; rows cannot be sorted by it.
    pub fn graph(title: &'static str, width: usize, priority: u8, draw: CellPainter<R>) -> Self {
        Self::new(title, width + 1, priority, Content::Drawn(draw, None))
    }

    /// Changes the number of spaces before a column that is flush left.
    pub fn gap(mut self, gap: usize) -> Self {
        self.width = self.width - self.gap + gap;
        self.gap = gap;
        self
    }

    /// Shows the column only if `condition` holds.
    pub fn shown_if(mut self, condition: bool) -> Self {
        self.shown &= condition;
        self
    }

    /// Makes this the default sort column if `condition` holds.
    pub fn default_if(mut self, condition: bool) -> Self {
        self.is_default = condition;
        self
    }

    fn is_left(&self) -> bool {
        matches!(self.content, Content::Name(..) | Content::Drawn(..))
    }

    fn is_sortable(&self) -> bool {
        !matches!(self.content, Content::Drawn(_, None))
    }

    /// True if rows are sorted in ascending order unless reversed.
    fn is_ascending(&self) -> bool {
        !matches!(self.content, Content::Figure(..) | Content::Written(..) | Content::Latency(_))
    }

    /// Ascending order of two rows.
    fn compare(&self, a: &R, b: &R) -> Ordering {
        match &self.content {
            Content::Figure(value, _) => by_figure(value(a), value(b)),
            Content::Written(value, _) => by_figure(value(a), value(b)),
            // `None` is the smallest.
            Content::Latency(us) => us(a).cmp(&us(b)),
            Content::Number(value) => {
                let key = |row| value(row).unwrap_or(u64::MAX);
                key(a).cmp(&key(b))
            }
            Content::Name(text, _) => natural(&text(a)).cmp(&natural(&text(b))),
            Content::Drawn(_, rank) => rank.map(|r| r(a)).cmp(&rank.map(|r| r(b))),
        }
    }

    fn title(&self, reversed: Option<bool>, palette: Palette) -> [Span<'static>; 2] {
        let (mut title, mut style) = (self.title.to_string(), palette.title());
        if let Some(reversed) = reversed {
            let mark = if self.is_ascending() != reversed { '▲' } else { '▼' };
            title =
                if self.is_left() { format!("{title}{mark}") } else { format!("{mark}{title}") };
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        // The gap between columns is not underlined. The mark of a title that is flush right may
        // fill it.
        if self.is_left() {
            let title = left(&title, self.width - self.gap);
            [Span::raw(" ".repeat(self.gap)), Span::styled(title, style)]
        } else {
            let pad = self.width.saturating_sub(width(&title));
            [Span::raw(" ".repeat(pad)), Span::styled(title, style)]
        }
    }

    fn cell(&self, row: &R, palette: Palette) -> Vec<Span<'static>> {
        let figure = |text: Option<String>| {
            let text = text.unwrap_or_else(|| "-".to_owned());
            vec![Span::raw(right(&text, self.width))]
        };
        match &self.content {
            Content::Figure(value, format) => figure(value(row).map(format)),
            Content::Written(_, text) => figure(Some(text(row))),
            Content::Latency(us) => figure(Some(units::latency(us(row)))),
            Content::Number(value) => figure(value(row).map(|n| n.to_string())),
            Content::Name(text, fit) => {
                let columns = self.width - self.gap;
                let text = left(&fit(&text(row), columns), columns);
                vec![Span::raw(" ".repeat(self.gap) + &text)]
            }
            Content::Drawn(draw, _) => draw(row, self.width, palette),
        }
    }
}

/// Ascending order of two figures; unknown ones come first.
fn by_figure(a: Option<f64>, b: Option<f64>) -> Ordering {
    a.unwrap_or(-1.0).total_cmp(&b.unwrap_or(-1.0))
}

/// A sort key that puts `loop2` before `loop10`, and rows without a name last.
fn natural(name: &str) -> String {
    if matches!(name, "" | "-") {
        return "\u{ffff}".to_owned();
    }
    let mut out = String::new();
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            out.push_str(&format!("{digits:0>20}"));
            digits.clear();
        }
        out.push(c);
    }
    out
}

/// A cell with the letter and the name of an origin.
pub(crate) fn origin_cell(
    origin: Origin,
    name: &str,
    width: usize,
    palette: Palette,
) -> Vec<Span<'static>> {
    vec![
        Span::raw(" "),
        Span::styled(letter(origin).to_string(), palette.origin(origin)),
        Span::raw(format!(" {}", left(name, width.saturating_sub(3)))),
    ]
}

/// A cell with the name of an operation.
pub(crate) fn op_cell(op: Op, width: usize) -> Vec<Span<'static>> {
    vec![Span::raw(format!(" {}", left(op.name(), width - 1)))]
}

/// Sort column and order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortOrder {
    /// Index among the sortable columns.
    pub column: usize,
    /// True to reverse the column's default order.
    pub reversed: bool,
}

/// A part of a row that is drawn right of the columns, in the given number of screen columns.
pub(crate) type Rest<'t, R> = &'t dyn Fn(&R, usize) -> Vec<Span<'static>>;

pub(crate) struct Columns<R>(pub Vec<Column<R>>);

impl<R> Columns<R> {
    fn sortable(&self) -> impl Iterator<Item = &Column<R>> {
        self.0.iter().filter(|c| c.is_sortable())
    }

    /// Number of sortable columns.
    pub fn sort_keys(&self) -> usize {
        self.sortable().count()
    }

    /// Index of the default sort column.
    pub fn default_sort(&self) -> usize {
        self.sortable().position(|c| c.is_default).unwrap_or(0)
    }

    /// Index of the sort column with this title.
    pub fn sort_key(&self, title: &str) -> usize {
        self.sortable().position(|c| c.title == title).unwrap_or(0)
    }

    /// Sorts `rows`; equal rows keep their order, also in reverse.
    pub fn sort(&self, rows: &mut [R], sort: SortOrder) {
        let Some(column) = self.sortable().nth(sort.column) else {
            return;
        };
        let upwards = column.is_ascending() != sort.reversed;
        rows.sort_by(|a, b| {
            let order = column.compare(a, b);
            if upwards { order } else { order.reverse() }
        });
    }

    /// Draws a table around the row that `tabs` selects. `rest`: the part right of the columns,
    /// with its title. `none`: the text for no rows.
    pub fn draw(
        self,
        pen: &mut Pen<'_>,
        tabs: &Tabs,
        rows: &[R],
        rest: Option<(&str, Rest<'_, R>)>,
        none: &str,
        palette: Palette,
    ) {
        let nothing = |_: &R, _| Vec::new();
        let (title, rest) = rest.unwrap_or(("", &nothing));
        let table = self.fit(pen.width() - 1, None);
        let title = cut(title, pen.width().saturating_sub(table.width)).into_owned();
        table.heading(pen, vec![Span::styled(title, palette.title())], palette);
        tabs.set_rows(rows.len());
        let selected = tabs.row().min(rows.len().saturating_sub(1));
        table.rows(pen, rows, (selected, true), rest, palette);
        if rows.is_empty() {
            pen.text(none, palette.dim());
        }
    }

    /// The columns that are shown and fit into `width`, with the sort order's mark for the heading.
    pub fn fit(self, width: usize, sort: Option<SortOrder>) -> Table<R> {
        let mut columns = Vec::new();
        let mut index = 0;
        for column in self.0 {
            let mark = sort.filter(|s| s.column == index && column.is_sortable());
            index += usize::from(column.is_sortable());
            if column.shown {
                columns.push((column, mark.map(|s| s.reversed)));
            }
        }
        let total = |columns: &[(Column<R>, _)]| columns.iter().map(|c| c.0.width).sum::<usize>();
        while total(&columns) > width {
            let all = columns.iter().enumerate();
            let Some((least, _)) = all.min_by_key(|(_, c)| c.0.priority) else {
                break;
            };
            columns.remove(least);
        }
        let left = width.saturating_sub(total(&columns));
        if let Some((column, _)) = columns.iter_mut().find(|(c, _)| c.fills) {
            column.width += left;
        }
        Table { width: 1 + total(&columns), columns }
    }
}

/// The columns of a table that are on the screen.
pub(crate) struct Table<R> {
    /// Width in screen columns, including the selection mark.
    pub width: usize,
    /// `Some(reversed)` for the sort column.
    columns: Vec<(Column<R>, Option<bool>)>,
}

impl<R> Table<R> {
    /// Draws the heading, with `rest` right of the columns.
    pub fn heading(&self, pen: &mut Pen<'_>, rest: Vec<Span<'static>>, palette: Palette) {
        let mut spans = vec![Span::raw(" ")];
        for (column, mark) in &self.columns {
            spans.extend(column.title(*mark, palette));
        }
        spans.extend(rest);
        pen.line(&Line::from(spans));
    }

    /// Draws as many rows as there is room for, around the selected one. If `marked`, the selected
    /// row has a mark.
    pub fn rows(
        &self,
        pen: &mut Pen<'_>,
        rows: &[R],
        (selected, marked): (usize, bool),
        rest: Rest<'_, R>,
        palette: Palette,
    ) {
        let room = pen.width().saturating_sub(self.width);
        let first = pen.first(rows.len(), selected);
        for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
            let mark = if marked && i == selected { ">" } else { " " };
            let mut spans = vec![Span::raw(mark)];
            for (column, _) in &self.columns {
                spans.extend(column.cell(row, palette));
            }
            spans.extend(rest(row, room));
            pen.line(&Line::from(spans));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Columns, SortOrder, natural};

    type Row = (&'static str, Option<u64>, f64);

    fn columns() -> Columns<Row> {
        Columns(vec![
            Column::name("name", 8, 9, |r: &Row| r.0.to_owned()),
            Column::graph("graph", 8, 1, |_, _, _| Vec::new()),
            Column::number("slot", 5, 5, |r| r.1),
            Column::figure("r/s", 6, 7, |r: &Row| Some(r.2), |v| v.to_string()).default_if(true),
        ])
    }

    fn sorted(column: usize, reversed: bool) -> Vec<&'static str> {
        let mut rows = [("loop10", Some(3), 1.0), ("", None, 5.0), ("loop2", Some(4), 1.0)];
        columns().sort(&mut rows, SortOrder { column, reversed });
        rows.map(|r| r.0).to_vec()
    }

    #[test]
    fn names_and_numbers_are_sorted_upwards_and_figures_downwards() {
        assert_eq!(sorted(0, false), ["loop2", "loop10", ""]);
        assert_eq!(sorted(0, true), ["", "loop10", "loop2"]);
        assert_eq!(sorted(1, false), ["loop10", "loop2", ""]);
        assert_eq!(sorted(2, false), ["", "loop10", "loop2"]);
        assert_eq!(sorted(2, true), ["loop10", "loop2", ""]);
        assert!(natural("md2p10") > natural("md2p9"));
    }

    #[test]
    fn rows_cannot_be_sorted_by_a_graph() {
        let columns = columns();
        assert_eq!((columns.sort_keys(), columns.default_sort()), (3, 2));
        assert_eq!(columns.sort_key("slot"), 1);
    }

    #[test]
    fn columns_of_the_lowest_priority_are_dropped_first() {
        let titles = |width| {
            let table = columns().fit(width, None);
            let titles = table.columns.iter().map(|c| c.0.title.to_string());
            (table.width, titles.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(titles(80), (30, "name graph slot r/s".to_owned()));
        assert_eq!(titles(28), (21, "name slot r/s".to_owned()));
        assert_eq!(titles(15), (16, "name r/s".to_owned()));
        assert_eq!(titles(14), (10, "name".to_owned()));
        assert_eq!(titles(0), (1, String::new()));
    }
}
