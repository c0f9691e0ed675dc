//! Keys, and what the figures are.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Pen, State};
use crate::alloc::state::Shown;
use crate::top::palette::Palette;
use crate::top::text::{clean, cut, left, wrap};
use crate::top::view::help::window;

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
const FIGURES: [&str; 7] = [
    "latency     ext4_mb_new_blocks(), waits included; at most 25 % too high",
    "groups      looked at: ext4_mb_good_group() was asked, once or twice each",
    "criteria    the ones that searches reached; later ones ask for less",
    "time        part of the filesystem's time in the allocator",
    "CPU         samples with the allocator on the stack, of all filesystems",
    "extents     as the buddy bitmaps have them: 3 blocks are 2 and 1",
    "-           not known here; `from` says what is from where, notes why not",
];

/// What this kernel cannot give, keys, figures: the first must not be what a low screen cuts off.
pub(super) fn draw(pen: &mut Pen<'_>, _: &State, shown: Option<&Shown>, palette: Palette) {
    const COLUMNS: u16 = 78;
    let room = usize::from(COLUMNS).min(pen.width()).saturating_sub(4);
    let notes = shown.map_or(&[][..], |(s, _)| &s.notes);
    let mut notes: Vec<String> = notes
        .iter()
        .flat_map(|note| wrap(&clean(note), room, 4))
        .collect();
    notes.truncate(pen.lines() / 3);
    let above = notes.len() + usize::from(!notes.is_empty());
    let lines = above + KEYS.len() + FIGURES.len() + 1;
    let mut pen = window(pen, " raidtrace alloc: help ", COLUMNS, lines);
    let columns = pen.width();
    for note in &notes {
        pen.text(&cut(note, columns), palette.alarm());
    }
    pen.skip(u16::from(above > 0));
    for (keys, what) in KEYS {
        pen.line(&Line::from(vec![
            Span::styled(left(keys, 16), palette.title()),
            Span::raw(cut(what, columns.saturating_sub(16)).into_owned()),
        ]));
    }
    pen.skip(u16::from(pen.lines() > FIGURES.len()));
    for line in FIGURES {
        pen.text(&cut(line, columns), Style::new());
    }
}
