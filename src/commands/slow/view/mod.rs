//! Draws the screen of `slow`. The views are listed in [`VIEWS`].

mod groups;
mod help;
mod journal;
mod operations;

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::state::SlowScreenState;
use super::text::summary;
use crate::analysis::slow::sentence::sentence;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units;
use crate::ui::palette::Palette;
use crate::ui::pen::{self, Pen, ends};
use crate::ui::text::{clean, cut};

/// Title, and what draws the view.
pub(super) type SlowView = (&'static str, fn(&mut Pen<'_>, &SlowScene<'_>));

/// All views, in the order of their digits.
pub(super) const VIEWS: [SlowView; 6] = [
    ("operations", operations::draw),
    ("files", groups::files),
    ("processes", groups::tasks),
    ("phases", groups::phases),
    ("journal", journal::draw),
    ("locks", groups::locks),
];

/// Input of a view.
pub(super) struct SlowScene<'a> {
    state: &'a SlowScreenState,
    snapshot: &'a SlowSnapshot,
    palette: Palette,
}

/// Draws the whole screen. `snapshot` holds the longest operations since the start; `None` until
/// the first interval has ended.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    state: &SlowScreenState,
    snapshot: Option<&SlowSnapshot>,
    palette: Palette,
) {
    let area = frame.area();
    let mut pen = Pen::new(frame.buffer_mut(), area);
    if !pen.is_large_enough() {
        return;
    }
    let footer_area = pen.take_bottom(1);
    state.tabs.set_rows(1);
    match snapshot {
        None => pen.text("measuring the first interval ...", Style::new()),
        Some(snapshot) => {
            let scene = SlowScene { state, snapshot, palette };
            match &state.open {
                Some(tabs) => operations::open(&mut pen, &scene, tabs),
                None => {
                    header(&mut pen, &scene);
                    VIEWS[state.tabs.shown()].1(&mut pen, &scene);
                }
            }
        }
    }
    let buffer = frame.buffer_mut();
    footer(&mut Pen::new(buffer, footer_area), state, snapshot, palette);
    if let Some(tabs) = &state.help {
        help::draw(&mut Pen::new(buffer, area), tabs, snapshot, palette);
    }
}

/// The lines above the view: a summary of all operations, and a sentence about the longest
/// operation.
fn header(pen: &mut Pen<'_>, scene: &SlowScene<'_>) {
    let (state, s, palette) = (scene.state, scene.snapshot, scene.palette);
    let (columns, tall) = (pen.width(), pen.lines() >= 18);
    let mut right = Vec::new();
    if state.paused {
        right.push(Span::styled("PAUSED ", palette.alarm()));
    }
    right.push(Span::raw(s.time.strftime("%H:%M:%SZ").to_string()));
    let length = units::seconds_about(s.interval);
    let left = match state.is_recording {
        true => format!("slow  a recording of {length}"),
        false => format!("slow  since the start, {length}"),
    };
    pen.line(&ends(vec![Span::styled(left, palette.title())], right, columns));
    if tall || s.lost.total() > 0 {
        let style = if s.lost.total() == 0 { palette.dim() } else { palette.alarm() };
        pen.text(&cut(&summary(s), columns), style);
    }
    let (mark, style, text) = match s.first(|_| true) {
        Some(slow) => ("! ", palette.alarm(), sentence(slow, &s.names)),
        None => ("  ", Style::new(), format!("no operation took {} or more", threshold(s))),
    };
    pen.marked(mark, &clean(&text), style, if tall { 4 } else { 2 });
    let titles = VIEWS.map(|v| v.0);
    let tabs = pen::tabs(&titles, state.tabs.shown(), columns, palette);
    pen.line(&Line::from(tabs));
}

fn threshold(s: &SlowSnapshot) -> String {
    crate::analysis::slow::sentence::time(u64::try_from(s.threshold.as_nanos()).unwrap_or(u64::MAX))
}

/// The most important keys.
fn footer(
    pen: &mut Pen<'_>,
    state: &SlowScreenState,
    snapshot: Option<&SlowSnapshot>,
    palette: Palette,
) {
    let mut hints = vec!["q quit", "? help", "Tab view", "p pause", "↑↓ select"];
    if state.is_recording {
        hints.retain(|hint| *hint != "p pause");
    }
    if state.tabs.shown() == 0 {
        hints.insert(1, "Enter waterfall");
    }
    if state.help.is_some() || state.open.is_some() {
        hints = vec!["↑↓ scroll", "any other key: back"];
    }
    let right = match state.is_recording {
        true => "recording".to_owned(),
        false => format!("every {}", units::seconds(state.interval)),
    };
    let notes = snapshot.map_or(0, |s| s.notes.len());
    pen::footer(pen, &hints, notes, &right, palette);
}

#[cfg(test)]
mod tests;
