//! Keys, and what the figures are.

use ratatui::text::{Line, Span};

use super::{Pen, State};
use crate::analysis::alloc::figures;
use crate::commands::alloc::state::Shown;
use crate::ui::palette::Palette;
use crate::ui::text::{clean, left, wrap};
use crate::ui::view::help::window;

const KEYS: [(&str, &str); 8] = [
    (
        "1 to 6  Tab",
        "overview, groups, processes, files, CPU, stacks",
    ),
    (
        "↑ ↓  j k",
        "scroll, or select a row; PgUp PgDn g G go further",
    ),
    (
        "Enter  Space",
        "in the stacks: fold and unfold; ← → likewise",
    ),
    ("p  Space", "keep this interval on the screen"),
    ("+  -", "longer, shorter interval"),
    ("← →", "of a file that is shown: an interval back, on"),
    ("a  [ ]", "next, previous filesystem"),
    ("q  Esc  Ctrl-C", "quit"),
];
const FIGURES: [&str; 9] = [
    "latency     ext4_mb_new_blocks(), waits included; at most 25 % too high",
    "groups      considered, as groups_considered of mb_stats counts them",
    "criteria    the ones that searches reached; later ones ask for less",
    "time        part of the filesystem's time in the allocator",
    "CPU         samples with the allocator on the stack, of all filesystems;",
    "            those in hooks (tracing) are beside it",
    "extents     as the buddy bitmaps have them: 3 blocks are 2 and 1",
    "window      the screen adds up the last 10 s; --batch and --json do not",
    "-           not known here; see the notes and sources",
];

/// Keys, what this kernel cannot give, figures and their sources, from the line that `state` is scrolled to.
pub(super) fn draw(pen: &mut Pen<'_>, state: &State, shown: Option<&Shown>, palette: Palette) {
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
    for (keys, what) in KEYS {
        for (i, what) in wrap(what, room.saturating_sub(16).max(1), 9)
            .into_iter()
            .enumerate()
        {
            let keys = if i == 0 { keys } else { "" };
            lines.push(Line::from(vec![
                Span::styled(left(keys, 16), palette.title()),
                Span::raw(what),
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
    let mut pen = window(pen, " raidtrace alloc: help ", COLUMNS, lines.len());
    let most = lines.len().saturating_sub(pen.lines());
    state.set_help_lines(most);
    for line in lines.iter().skip(state.help.unwrap_or(0).min(most)) {
        pen.line(line);
    }
}
