//! Windows over a view: help and the list of origins.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::VIEWS;
use crate::analysis::snapshot::Snapshot;
use crate::ui::figures;
use crate::ui::palette::{Palette, letter};
use crate::ui::pen::{HELP_COLUMNS, Pen, help_keys, help_notes};
use crate::ui::state::ScreenState;
use crate::ui::text;

/// True if the line of [`KEYS`] is also shown in a replay.
fn is_everywhere(key: &str) -> bool {
    !["↑ ↓", "← →", "s  S", "p  S", "+  -"].iter().any(|k| key.starts_with(k))
}

/// Keys and their effects, listed after the keys of the views.
const KEYS: [(&str, &str); 10] = [
    ("↑ ↓  j k", "select a row; PgUp PgDn g G go further"),
    ("← →  h l", "sort column; in origins: select a member"),
    ("s  S", "sort by the next column; reverse"),
    ("o", "only reads, only writes, ... , all"),
    ("f  x", "only one origin, from a list; no filter"),
    ("m", "bars and heat by requests or by bytes"),
    ("p  Space", "keep this interval on the screen"),
    ("+  -", "longer, shorter interval"),
    ("a  [ ]", "next, previous array"),
    ("q  Esc  Ctrl-C", "quit"),
];
/// Keys of a replay, shown instead of those that [`is_everywhere`] excludes.
const REPLAY: [(&str, &str); 7] = [
    ("↑ ↓  j k", "select a row; g G: the first, the last"),
    ("Space  p", "pause or resume"),
    ("← →", "one interval back or forward; PgUp PgDn: ten"),
    ("n  N", "to the next, previous hot spot"),
    ("t", "go to a time: 12:00:30 (local), +30 (from the start)"),
    ("+  -", "faster, slower"),
    ("s  S", "sort by the next column; reverse"),
];
/// Figures of the other views, after those of members.
const FIGURES: [&str; 4] = [
    "skew        the busiest member over the mean of all",
    "processes   bios submitted to the array, before splitting; files: likewise",
    "in below    amplification: bytes submitted, bytes moved by members; MiB/s",
    "the bar     its length is relative to the busiest member",
];

/// Draws notes, keys and figures, in pages if the screen is not high enough.
pub(super) fn draw(
    pen: &mut Pen<'_>,
    state: &ScreenState,
    snapshot: Option<&Snapshot>,
    page: i32,
    palette: Palette,
) {
    let mut keys = KEYS.to_vec();
    if state.replay.is_some() {
        keys.retain(|k| is_everywhere(k.0));
        keys.splice(0..0, REPLAY);
    }
    let columns = pen.help_room();
    let mut lines = help_notes(snapshot.map_or(&[], |s| &s.notes), columns, palette);
    lines.extend(help_keys(&VIEWS.map(|v| v.title), &keys, columns, palette));
    let of_views = FIGURES.map(str::to_owned);
    let figures = figures::help(snapshot).into_iter().chain(of_views);
    lines.extend(figures.map(|l| Line::from(text::cut(&l, columns).into_owned())));
    // The frame takes two lines and the footer one.
    let room = pen.lines().saturating_sub(3).max(1);
    let pages = lines.len().div_ceil(room);
    let page = page.rem_euclid(i32::try_from(pages).unwrap_or(1)) as usize;
    let title = if pages > 1 {
        format!(" raidtrace top: help, page {} of {pages} ", page + 1)
    } else {
        " raidtrace top: help ".to_owned()
    };
    let shown = lines.iter().skip(page * room).take(room);
    let mut pen = pen.window(&title, HELP_COLUMNS, lines.len().min(room));
    shown.for_each(|line| pen.line(line));
}

/// The list of origins to filter by.
pub(super) fn origins(pen: &mut Pen<'_>, state: &ScreenState, at: usize, palette: Palette) {
    let choices = state.choices();
    let mut pen = pen.window(" only this origin ", 28, choices.len() + 1);
    let first = pen.first(choices.len() + 1, at);
    let lines = pen.lines();
    for i in (0..=choices.len()).skip(first).take(lines) {
        let chosen = if i == at { palette.selected() } else { Style::new() };
        let line = match i.checked_sub(1).and_then(|i| choices.get(i)) {
            None => Line::from(Span::styled("  all", chosen)),
            Some(&origin) => Line::from(vec![
                Span::styled(letter(origin).to_string(), palette.origin(origin)),
                Span::raw(" "),
                Span::styled(origin.name(), chosen),
            ]),
        };
        pen.line(&line);
    }
}
