//! Writes lines into an area of the screen, and draws the parts that all screens share: tabs, key
//! hints, windows.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

use super::palette::Palette;
use super::tabs::Tabs;
use super::text;

/// The smallest screen that is drawn: columns and lines.
pub(crate) const MIN_SCREEN: (u16, u16) = (40, 10);

/// Writes lines from top to bottom into an area, and never outside it.
pub(crate) struct Pen<'a> {
    /// The screen.
    pub buffer: &'a mut Buffer,
    /// The remaining lines.
    pub area: Rect,
}

impl<'a> Pen<'a> {
    /// Writes into the part of `area` that is on the screen.
    pub fn new(buffer: &'a mut Buffer, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Number of remaining lines.
    pub fn lines(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Writes a line if there is room.
    pub fn line(&mut self, line: &Line<'_>) {
        if self.area.height > 0 {
            let Rect { x, y, width, .. } = self.area;
            self.buffer.set_line(x, y, line, width);
            self.take_top(1);
        }
    }

    /// Writes plain text as a line.
    pub fn text(&mut self, text: &str, style: Style) {
        self.line(&Line::styled(text, style));
    }

    /// Takes lines off the top, and returns a pen for them.
    pub fn take_top(&mut self, lines: usize) -> Pen<'_> {
        let height = (lines as u16).min(self.area.height);
        let top = Rect { height, ..self.area };
        self.area.y += height;
        self.area.height -= height;
        Pen::new(self.buffer, top)
    }

    /// Takes lines off the bottom, and returns their area.
    pub fn take_bottom(&mut self, lines: usize) -> Rect {
        let height = (lines as u16).min(self.area.height);
        self.area.height -= height;
        Rect { y: self.area.y + self.area.height, height, ..self.area }
    }

    /// Index of the first of `rows` rows to show so that `selected` is on the screen, near its
    /// middle.
    pub fn first(&self, rows: usize, selected: usize) -> usize {
        selected.saturating_sub(self.lines() / 2).min(rows.saturating_sub(self.lines()))
    }

    /// Draws as many `lines` as fit, from the first line that `tabs` selects.
    pub fn scroll(&mut self, tabs: &Tabs, lines: &[Line<'_>]) {
        let room = self.lines();
        let most = lines.len().saturating_sub(room);
        tabs.set_rows(most + 1);
        let first = tabs.row().min(most);
        for line in lines.iter().skip(first).take(room) {
            self.line(line);
        }
    }

    /// Draws a centred frame for `lines` lines, or fewer if there is no room. The bottom line of
    /// the screen stays visible.
    pub fn window(&mut self, title: &str, columns: u16, lines: usize) -> Pen<'_> {
        let area = self.area;
        let room = area.height.saturating_sub(1);
        let width = columns.min(area.width);
        let height = (lines as u16).saturating_add(2).min(room);
        let rect = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + (room - height) / 2,
            width,
            height,
        };
        Clear.render(rect, self.buffer);
        let block = Block::bordered().title(title.to_owned());
        let inner = block.inner(rect);
        block.render(rect, self.buffer);
        let padded =
            Rect { x: inner.x + inner.width.min(1), width: inner.width.saturating_sub(2), ..inner };
        Pen::new(self.buffer, padded)
    }

    /// Columns for the text of a help window.
    pub fn help_room(&self) -> usize {
        usize::from(HELP_COLUMNS).min(self.width()).saturating_sub(4)
    }

    /// Draws `text` on at most `lines` lines, the first of them with a mark.
    pub fn marked(&mut self, mark: &str, text: &str, style: Style, lines: usize) {
        for (i, line) in text::wrap(text, self.width() - 2, lines).iter().enumerate() {
            self.text(&format!("{}{line}", if i == 0 { mark } else { "  " }), style);
        }
    }

    /// True if the area is at least [`MIN_SCREEN`]; writes `too small: 20x5, needs 40x10` if not.
    pub fn is_large_enough(&mut self) -> bool {
        let (Rect { width, height, .. }, (columns, lines)) = (self.area, MIN_SCREEN);
        let fits = width >= columns && height >= lines;
        if !fits {
            let text = format!("too small: {width}x{height}, needs {columns}x{lines}");
            for line in text::wrap(&text, self.width().max(1), self.lines().max(1)) {
                self.text(&line, Style::new());
            }
        }
        fits
    }
}

/// A line of `columns` with text at both ends. Only the left text is cut.
pub(crate) fn ends<'a>(left: Vec<Span<'a>>, right: Vec<Span<'a>>, columns: usize) -> Line<'a> {
    let right_width: usize = right.iter().map(Span::width).sum();
    let mut room = columns.saturating_sub(right_width + usize::from(right_width > 0));
    let mut spans = Vec::new();
    for span in left {
        let cut = text::cut(&span.content, room).into_owned();
        room -= text::width(&cut);
        spans.push(Span::styled(cut, span.style));
    }
    spans.push(Span::raw(" ".repeat(room + usize::from(right_width > 0 && columns > right_width))));
    spans.extend(right);
    Line::from(spans)
}

/// Width of [`tabs`] if every tab has its title.
pub(crate) fn tabs_width(titles: &[&str]) -> usize {
    titles.iter().map(|title| title.len() + 5).sum()
}

/// The tab of each view. In fewer than [`tabs_width`] columns, only the shown tab has its title.
pub(crate) fn tabs(
    titles: &[&str],
    shown: usize,
    columns: usize,
    palette: Palette,
) -> Vec<Span<'static>> {
    let all = tabs_width(titles) <= columns;
    let mut spans = Vec::new();
    for (i, title) in titles.iter().enumerate() {
        let (label, style) = match i == shown {
            true => (format!(" {} {title} ", i + 1), palette.selected()),
            false if all => (format!(" {} {title} ", i + 1), palette.title()),
            false => (format!(" {} ", i + 1), palette.title()),
        };
        spans.extend([Span::styled(label, style), Span::raw(" ")]);
    }
    spans
}

/// Draws the bottom line: as many `hints` as fit, the number of `notes`, and `right`.
pub(crate) fn footer(
    pen: &mut Pen<'_>,
    hints: &[&str],
    notes: usize,
    right: &str,
    palette: Palette,
) {
    let right = match notes {
        0 => right.to_owned(),
        1 => format!("1 note: ?  {right}"),
        n => format!("{n} notes: ?  {right}"),
    };
    let room = pen.width().saturating_sub(text::width(&right) + 2);
    let mut left = String::new();
    for hint in hints {
        let next = match left.as_str() {
            "" => (*hint).to_owned(),
            left => format!("{left}  {hint}"),
        };
        if text::width(&next) > room {
            break;
        }
        left = next;
    }
    let [left, right] = [left, right].map(|text| vec![Span::styled(text, palette.dim())]);
    pen.line(&ends(left, right, pen.width()));
}

/// Columns of the largest help window.
pub(crate) const HELP_COLUMNS: u16 = 80;

/// Lines of a help window: notes with their title, if there are any.
pub(crate) fn help_notes(notes: &[String], columns: usize, palette: Palette) -> Vec<Line<'static>> {
    if notes.is_empty() {
        return Vec::new();
    }
    let wrapped = notes.iter().flat_map(|n| text::wrap(&text::clean(n), columns, 99));
    let mut lines = vec![Line::styled("notes", palette.title())];
    lines.extend(wrapped.map(|line| Line::styled(line, palette.alarm())));
    lines.push(Line::default());
    lines
}

/// Lines of a help window: the keys of the views, then `keys`, each with its effect.
pub(crate) fn help_keys(
    views: &[&str],
    keys: &[(&str, &str)],
    columns: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    const KEYS: usize = 16;
    let (digits, titles) = (format!("1 to {}  Tab", views.len()), views.join(", "));
    let mut lines = Vec::new();
    for (keys, effect) in [(digits.as_str(), titles.as_str())].iter().chain(keys) {
        let wrapped = text::wrap(effect, columns.saturating_sub(KEYS).max(1), 9);
        for (i, effect) in wrapped.into_iter().enumerate() {
            let keys = text::left(if i == 0 { keys } else { "" }, KEYS);
            lines.push(Line::from(vec![Span::styled(keys, palette.title()), Span::raw(effect)]));
        }
    }
    lines
}
