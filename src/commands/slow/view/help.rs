//! The help window: notes, keys and figures.

use ratatui::text::{Line, Span};

use super::{VIEWS, scroll};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::ui::palette::Palette;
use crate::ui::pen::Pen;
use crate::ui::tabs::Tabs;
use crate::ui::text::{clean, left, wrap};

/// Keys and their effect.
const KEYS: [(&str, &str); 5] = [
    ("↑ ↓  j k", "select a row; PgUp PgDn g G go further"),
    ("Enter", "show the waterfall of the selected operation"),
    ("p  Space", "pause the display, or resume"),
    ("+  -", "longer, shorter interval"),
    ("q  Esc  Ctrl-C", "quit"),
];
const FIGURES: [&str; 6] = [
    "took        from the call of the filesystem's function to its return",
    "mostly      the longest phase; all phases add up to the whole",
    "locked      handles that were open kept the commit waiting",
    "data        ordered data of files, and submission of metadata",
    "blocks      the journal's blocks",
    "record      the commit record, with the flush before it",
];

/// Draws the window, scrolled by `tabs`.
pub(super) fn draw(
    pen: &mut Pen<'_>,
    tabs: &Tabs,
    snapshot: Option<&SlowSnapshot>,
    palette: Palette,
) {
    const COLUMNS: u16 = 78;
    let room = usize::from(COLUMNS).min(pen.width()).saturating_sub(4);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let notes = snapshot.map(|s| s.notes.as_slice()).unwrap_or_default();
    if !notes.is_empty() {
        lines.push(Line::styled("notes", palette.title()));
        for note in notes {
            let wrapped = wrap(&clean(note), room, 99);
            lines.extend(
                wrapped
                    .into_iter()
                    .map(|n| Line::styled(n, palette.alarm())),
            );
        }
        lines.push(Line::default());
    }
    let digits = format!("1 to {}  Tab", VIEWS.len());
    let titles = VIEWS.map(|v| v.title).join(", ");
    let views = [(digits.as_str(), titles.as_str())];
    lines.push(Line::styled("keys", palette.title()));
    for (key, effect) in views.into_iter().chain(KEYS) {
        for (i, text) in wrap(effect, room.saturating_sub(16).max(10), 9)
            .into_iter()
            .enumerate()
        {
            let key = if i == 0 { key } else { "" };
            lines.push(Line::from(vec![
                Span::styled(left(key, 16), palette.title()),
                Span::raw(text),
            ]));
        }
    }
    lines.push(Line::default());
    lines.push(Line::styled("figures", palette.title()));
    lines.extend(FIGURES.into_iter().map(Line::raw));
    let mut window = pen.window(" help ", COLUMNS, lines.len());
    scroll(&mut window, tabs, &lines);
}
