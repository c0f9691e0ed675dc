//! The help window: notes, keys, figures and their sources.

use ratatui::text::Line;

use super::VIEWS;
use crate::analysis::alloc::{AllocSnapshot, figures};
use crate::ui::palette::Palette;
use crate::ui::pen::{HELP_COLUMNS, Pen, help_keys, help_notes};
use crate::ui::tabs::Tabs;
use crate::ui::text::{clean, wrap};

/// Keys and their effect, listed after the keys that select views.
const KEYS: [(&str, &str); 6] = [
    ("↑ ↓  j k", "scroll, or select a row; PgUp PgDn g G go further"),
    ("p  Space", "pause the display, or resume"),
    ("+  -", "longer, shorter interval"),
    ("← →", "in a recording: previous, next interval"),
    ("a  [ ]", "next, previous filesystem"),
    ("q  Esc  Ctrl-C", "quit"),
];
const FIGURES: [&str; 9] = [
    "latency     ext4_mb_new_blocks(), waits included; at most 25 % too high",
    "groups      considered, as groups_considered of mb_stats counts them",
    "criteria    those that searches tried; each is less strict than the one before",
    "time        share of all time in this filesystem's allocator",
    "CPU         samples with the allocator on the stack, of all filesystems;",
    "            those in tracing hooks are shown separately",
    "extents     as in buddy bitmaps: 3 free blocks are one of 2 and one of 1",
    "window      the screen adds up the last 10 s; --batch and --json do not",
    "-           not known here; see the notes and sources",
];

/// Draws the window, scrolled by `tabs`.
pub(super) fn draw(
    pen: &mut Pen<'_>,
    tabs: &Tabs,
    shown: Option<&AllocSnapshot>,
    palette: Palette,
) {
    let room = pen.help_room();
    let texts = shown.map(|s| (figures::notes(s), figures::sources(s)));
    let (notes, sources) = texts.unwrap_or_default();
    let mut lines = help_notes(&notes, room, palette);
    lines.extend(help_keys(&VIEWS.map(|v| v.0), &KEYS, room, palette));
    lines.push(Line::default());
    for figure in FIGURES {
        lines.extend(wrap(figure, room, 9).into_iter().map(Line::from));
    }
    if !sources.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("sources of the figures", palette.title()));
        let sources = wrap(&clean(&sources), room, 99);
        lines.extend(sources.into_iter().map(Line::from));
    }
    let mut pen = pen.window(" raidtrace alloc: help ", HELP_COLUMNS, lines.len());
    pen.scroll(tabs, &lines);
}
