//! The help window: notes, keys, figures and their sources.

use ratatui::text::{Line, Span};

use super::{VIEWS, scroll};
use crate::analysis::alloc::figures;
use crate::commands::alloc::state::Shown;
use crate::ui::palette::Palette;
use crate::ui::pen::Pen;
use crate::ui::tabs::Tabs;
use crate::ui::text::{clean, left, wrap};

/// Keys and their effect, listed after the keys that select views.
const KEYS: [(&str, &str); 7] = [
    (
        "↑ ↓  j k",
        "scroll, or select a row; PgUp PgDn g G go further",
    ),
    (
        "Enter  Space",
        "in the stacks view: fold or unfold; ← folds, → unfolds",
    ),
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
pub(super) fn draw(pen: &mut Pen<'_>, tabs: &Tabs, shown: Option<&Shown>, palette: Palette) {
    const COLUMNS: u16 = 78;
    let room = usize::from(COLUMNS).min(pen.width()).saturating_sub(4);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let mut sources = Vec::new();
    if let Some((s, _)) = shown {
        let all = figures::notes(s);
        notes.extend(all.iter().flat_map(|note| wrap(&clean(note), room, 99)));
        sources.extend(wrap(&clean(&figures::sources(s)), room, 99));
    }
    if !notes.is_empty() {
        lines.push(Line::styled("notes", palette.title()));
        lines.extend(notes.into_iter().map(|n| Line::styled(n, palette.alarm())));
        lines.push(Line::default());
    }
    let digits = format!("1 to {}  Tab", VIEWS.len());
    let titles = VIEWS.map(|v| v.title).join(", ");
    let views = (digits.as_str(), titles.as_str());
    for (keys, effect) in [views].into_iter().chain(KEYS) {
        for (i, text) in wrap(effect, room.saturating_sub(16).max(1), 9)
            .into_iter()
            .enumerate()
        {
            let keys = if i == 0 { keys } else { "" };
            lines.push(Line::from(vec![
                Span::styled(left(keys, 16), palette.title()),
                Span::raw(text),
            ]));
        }
    }
    lines.push(Line::default());
    for figure in FIGURES {
        lines.extend(wrap(figure, room, 9).into_iter().map(Line::from));
    }
    if !sources.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled("sources of the figures", palette.title()));
        lines.extend(sources.into_iter().map(Line::from));
    }
    let mut pen = pen.window(" raidtrace alloc: help ", COLUMNS, lines.len());
    scroll(&mut pen, tabs, &lines);
}
