//! The help window: notes, keys and figures.

use ratatui::text::Line;

use super::VIEWS;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::ui::palette::Palette;
use crate::ui::pen::{HELP_COLUMNS, Pen, help_keys, help_notes};
use crate::ui::tabs::Tabs;

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
    let room = pen.help_room();
    let mut lines = help_notes(snapshot.map_or(&[], |s| &s.notes), room, palette);
    lines.extend(help_keys(&VIEWS.map(|v| v.0), &KEYS, room, palette));
    lines.push(Line::default());
    lines.extend(FIGURES.into_iter().map(Line::raw));
    let mut window = pen.window(" help ", HELP_COLUMNS, lines.len());
    window.scroll(tabs, &lines);
}
