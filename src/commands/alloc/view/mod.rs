//! Draws an [`AllocScreenState`] and an interval. Pure: no terminal.
//!
//! ```text
//! md3 on /srv, 221,184 groups, ...  12:00:01Z   header: filesystem, losses, overhead
//! ! each allocation looks at ...                headline
//!  1 overview  2 groups  ...                    tabs
//! ...                                           the view: one file each, listed in [`VIEWS`]
//! q quit  ? help ...                            footer
//! ```

mod groups;
mod help;
mod overview;
mod tables;

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::state::AllocScreenState;
use super::text::{headline, name, shape, unbroken};
use crate::analysis::alloc::figures::notes;
use crate::analysis::alloc::{AllocSnapshot, FsAlloc};
use crate::analysis::units;
use crate::ui::palette::Palette;
use crate::ui::pen::{self, Pen, ends};
use crate::ui::text::{clean, cut, wrap};

/// Title, and what draws the view.
pub(super) type AllocView = (&'static str, fn(&mut Pen<'_>, &AllocScene<'_>));

/// All views, in the order of their digits.
pub(super) const VIEWS: [AllocView; 5] = [
    ("overview", overview::draw),
    ("groups", groups::draw),
    ("processes", tables::tasks),
    ("files", tables::files),
    ("CPU", tables::cpu),
];

/// Input of a view.
pub(super) struct AllocScene<'a> {
    state: &'a AllocScreenState,
    snapshot: &'a AllocSnapshot,
    fs: &'a FsAlloc,
    palette: Palette,
}

/// Draws the whole screen. `shown` is `None` until the first interval has ended.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    state: &AllocScreenState,
    shown: Option<&AllocSnapshot>,
    palette: Palette,
) {
    let area = frame.area();
    let mut pen = Pen::new(frame.buffer_mut(), area);
    if !pen.is_large_enough() {
        return;
    }
    let footer_area = pen.take_bottom(1);
    state.tabs.set_rows(1);
    match shown.map(|s| (s, s.filesystems.get(state.filesystem))) {
        None => pen.text("measuring the first interval ...", Style::new()),
        Some((_, None)) => pen.text("no ext4 filesystem is left", palette.alarm()),
        Some((snapshot, Some(fs))) => {
            let scene = AllocScene { state, snapshot, fs, palette };
            header(&mut pen, &scene);
            VIEWS[state.tabs.shown()].1(&mut pen, &scene);
        }
    }
    let buffer = frame.buffer_mut();
    footer(&mut Pen::new(buffer, footer_area), state, shown, palette);
    if let Some(tabs) = &state.help {
        help::draw(&mut Pen::new(buffer, area), tabs, shown, palette);
    }
}

/// The lines above the view; fewer on a low screen.
fn header(pen: &mut Pen<'_>, scene: &AllocScene<'_>) {
    let (state, s, palette) = (scene.state, scene.snapshot, scene.palette);
    let (columns, tall) = (pen.width(), pen.lines() >= 18);
    let left = vec![
        Span::styled(name(scene.fs), palette.title()),
        Span::raw(format!("  {}", shape(scene.fs))),
    ];
    let mut right = Vec::new();
    if s.filesystems.len() > 1 {
        right.push(Span::raw(format!("{}/{}  ", state.filesystem + 1, s.filesystems.len())));
    }
    if let Some((at, of)) = state.replay {
        right.push(Span::styled(format!("REPLAY {at}/{of} "), palette.title()));
    }
    if state.paused {
        right.push(Span::styled("PAUSED ", palette.alarm()));
    }
    right.push(Span::raw(s.time.strftime("%H:%M:%SZ").to_string()));
    pen.line(&ends(left, right, columns));
    if tall || s.lost > 0 {
        let (lost, style) = match s.lost {
            0 => ("lost 0".to_owned(), palette.dim()),
            n => (format!("LOST {}", units::count(n as f64)), palette.alarm()),
        };
        let (time, cost) = (units::seconds(s.interval), s.overhead.describe(s.interval));
        pen.text(&cut(&format!("{time}: {lost}; {cost}"), columns), style);
    }
    let (mark, style) = match scene.fs.reason {
        Some(_) => ("! ", palette.alarm()),
        None => ("  ", Style::new()),
    };
    let sentence = headline(s, scene.fs);
    // Show the whole sentence if there is room.
    pen.marked(mark, &unbroken(&clean(&sentence)), style, if tall { 5 } else { 3 });
    let titles = VIEWS.map(|v| v.0);
    let tabs = pen::tabs(&titles, state.tabs.shown(), columns, palette);
    pen.line(&Line::from(tabs));
}

/// The most important keys.
fn footer(
    pen: &mut Pen<'_>,
    state: &AllocScreenState,
    shown: Option<&AllocSnapshot>,
    palette: Palette,
) {
    let own = "↑↓ scroll";
    let mut hints = match state.replay {
        Some(_) => vec!["q quit", "? help", "Tab view", "← → step", "p pause", own],
        None => vec!["q quit", "? help", "Tab view", "p pause", "+ - interval", own],
    };
    if shown.is_some_and(|s| s.filesystems.len() > 1) {
        hints.insert(3, "a filesystem");
    }
    if state.help.is_some() {
        hints = vec!["↑↓ scroll", "any other key: back"];
    }
    let right = match state.replay {
        Some(_) => String::new(),
        None => format!("every {}", units::seconds(state.interval)),
    };
    let notes = shown.map_or(0, |s| notes(s).len());
    pen::footer(pen, &hints, notes, &right, palette);
}

/// Adds a figure with a label, wrapped to as many lines as needed.
fn labelled(
    out: &mut Vec<Line<'static>>,
    columns: usize,
    label: &str,
    text: &str,
    palette: Palette,
) {
    const LABEL: usize = 14;
    // On a narrow screen the label has its own line.
    let narrow = columns < 60;
    let indent = if narrow { 2 } else { LABEL };
    if narrow && !label.is_empty() {
        out.push(Line::from(Span::styled(label.to_owned(), palette.title())));
    }
    for (i, text) in
        wrap(&unbroken(text), columns.saturating_sub(indent).max(1), 8).into_iter().enumerate()
    {
        let label = if i == 0 && !narrow { label } else { "" };
        out.push(Line::from(vec![
            Span::styled(crate::ui::text::left(label, indent), palette.title()),
            Span::raw(text),
        ]));
    }
}

/// A bar for a share of 0 to 1; a share of 1 takes `columns`.
fn bar(share: f64, columns: usize) -> String {
    let share = share.clamp(0.0, 1.0);
    let cells = (share * columns as f64).round() as usize;
    // At least one cell for any nonzero share.
    "█".repeat(cells.max(usize::from(share > 0.0 && columns > 0)))
}

#[cfg(test)]
mod tests;
