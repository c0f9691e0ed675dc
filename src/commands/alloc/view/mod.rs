//! Draws a [`State`] and an interval: nothing else goes in, nothing comes out but the screen.
//!
//! ```text
//! md3 on /srv, 221,184 groups, ...  12:00:01Z   header: what, how long, what it cost
//! ! each allocation looks at ...                what stands out
//!  1 overview  2 groups  ...                    tabs
//! ...                                           the view
//! q quit  ? help ...                            footer
//! ```

mod groups;
mod help;
mod overview;
mod tables;
pub mod tree;

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::state::{Shown, State, View};
use super::text::{name, said, shape, unbroken};
use crate::analysis::alloc::figures::notes;
use crate::analysis::alloc::{AllocSnapshot, FsAlloc};
use crate::analysis::units;
use crate::ui::palette::Palette;
use crate::ui::text::{clean, cut, width, wrap};
use crate::ui::view::header::ends;
use crate::ui::view::help::too_small;
use crate::ui::view::{Pen, SMALLEST};

/// What every view is drawn from.
struct Scene<'a> {
    state: &'a State,
    snapshot: &'a AllocSnapshot,
    fs: &'a FsAlloc,
    palette: Palette,
}

/// Draws the whole screen. `shown` is `None` until the first interval has ended.
pub fn draw(frame: &mut Frame<'_>, state: &State, shown: Option<&Shown>, palette: Palette) {
    let area = frame.area();
    let mut pen = Pen::new(frame.buffer_mut(), area);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(&mut pen, SMALLEST);
        return;
    }
    let footer_area = pen.take_bottom(1);
    state.set_rows(1);
    match shown {
        None => pen.text("measuring the first interval ...", Style::new()),
        Some((snapshot, tree)) => match snapshot.filesystems.get(state.filesystem) {
            None => pen.text("no ext4 filesystem is left to look at", palette.alarm()),
            Some(fs) => {
                let scene = Scene {
                    state,
                    snapshot,
                    fs,
                    palette,
                };
                header(&mut pen, &scene);
                match state.view {
                    View::Overview => overview::draw(&mut pen, &scene),
                    View::Groups => groups::draw(&mut pen, &scene),
                    View::Tasks => tables::tasks(&mut pen, &scene),
                    View::Files => tables::files(&mut pen, &scene),
                    View::Cpu => tables::cpu(&mut pen, &scene),
                    View::Stacks => tree::draw(&mut pen, &scene, tree),
                }
            }
        },
    }
    let buffer = frame.buffer_mut();
    footer(&mut Pen::new(buffer, footer_area), state, shown, palette);
    if state.help.is_some() {
        help::draw(&mut Pen::new(buffer, area), state, shown, palette);
    }
}

/// The lines above the view: fewer where the screen is low.
fn header(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (state, s, palette) = (scene.state, scene.snapshot, scene.palette);
    let (columns, tall) = (pen.width(), pen.lines() >= 18);
    let left = vec![
        Span::styled(name(scene.fs), palette.title()),
        Span::raw(format!("  {}", shape(scene.fs))),
    ];
    let mut right = Vec::new();
    if s.filesystems.len() > 1 {
        right.push(Span::raw(format!(
            "{}/{}  ",
            state.filesystem + 1,
            s.filesystems.len()
        )));
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
        let text = format!(
            "{}: {}; {}",
            units::seconds(s.interval),
            if s.lost > 0 {
                format!("LOST {}", units::count(s.lost as f64))
            } else {
                "lost 0".to_owned()
            },
            s.overhead.describe(s.interval)
        );
        let style = if s.lost > 0 {
            palette.alarm()
        } else {
            palette.dim()
        };
        pen.text(&cut(&text, columns), style);
    }
    let (mark, style) = match scene.fs.reason {
        Some(_) => ("! ", palette.alarm()),
        None => ("  ", Style::new()),
    };
    let sentence = said(s, scene.fs);
    // The answer is whole before anything else is shown, where there is room for both.
    let lines = if tall { 5 } else { 3 };
    for (i, line) in wrap(&unbroken(&clean(&sentence)), columns - 2, lines)
        .iter()
        .enumerate()
    {
        let mark = if i == 0 { mark } else { "  " };
        pen.text(&format!("{mark}{line}"), style);
    }
    tabs(pen, scene);
}

fn tabs(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let titles: usize = View::ALL.iter().map(|v| v.title().len() + 5).sum();
    let mut spans = Vec::new();
    for (i, view) in View::ALL.iter().enumerate() {
        let shown = *view == scene.state.view;
        // Where it is narrow only the tab that is shown has its name.
        let label = if shown || titles <= pen.width() {
            format!(" {} {} ", i + 1, view.title())
        } else {
            format!(" {} ", i + 1)
        };
        let style = if shown {
            scene.palette.selected()
        } else {
            scene.palette.title()
        };
        spans.push(Span::styled(label, style));
        spans.push(Span::raw(" "));
    }
    pen.line(&Line::from(spans));
}

/// The keys that matter most, as many as fit, and what was said at start.
fn footer(pen: &mut Pen<'_>, state: &State, shown: Option<&Shown>, palette: Palette) {
    let live = ["q quit", "? help", "Tab view", "p pause", "+ - interval"];
    let replay = ["q quit", "? help", "Tab view", "← → step", "p pause"];
    let mut hints: Vec<&str> = if state.help.is_some() {
        vec!["↑↓ scroll", "any other key: back"]
    } else if state.replay.is_some() {
        replay.to_vec()
    } else {
        live.to_vec()
    };
    if state.help.is_none() {
        hints.push(match state.view {
            View::Stacks => "Enter fold",
            _ => "↑↓ scroll",
        });
        if shown.is_some_and(|(s, _)| s.filesystems.len() > 1) {
            hints.insert(3, "a filesystem");
        }
    }
    let mut right = match state.replay {
        Some(_) => String::new(),
        None => format!("every {}", units::seconds(state.interval)),
    };
    if let Some(notes @ 1..) = shown.map(|(s, _)| notes(s).len()) {
        let plural = if notes == 1 { "" } else { "s" };
        right = format!("{notes} note{plural}: ?  {right}");
    }
    let room = pen.width().saturating_sub(width(&right) + 2);
    let mut left = String::new();
    for hint in hints {
        let next = if left.is_empty() {
            hint.to_owned()
        } else {
            format!("{left}  {hint}")
        };
        if width(&next) > room {
            break;
        }
        left = next;
    }
    let (left, right) = (
        Span::styled(left, palette.dim()),
        Span::styled(right, palette.dim()),
    );
    pen.line(&ends(vec![left], vec![right], pen.width()));
}

/// Draws as many `lines` as there is room for, from where the view is scrolled to.
fn scroll(pen: &mut Pen<'_>, scene: &Scene<'_>, lines: &[Line<'_>]) {
    let room = pen.lines();
    let most = lines.len().saturating_sub(room);
    scene.state.set_rows(most + 1);
    let first = scene.state.row().min(most);
    for line in lines.iter().skip(first).take(room) {
        pen.line(line);
    }
}

/// A figure with its name before it, in as many lines as it takes.
fn labelled(
    out: &mut Vec<Line<'static>>,
    columns: usize,
    label: &str,
    text: &str,
    palette: Palette,
) {
    const LABEL: usize = 14;
    // Where it is narrow the name has a line of its own.
    let narrow = columns < 60;
    let indent = if narrow { 2 } else { LABEL };
    if narrow && !label.is_empty() {
        out.push(Line::from(Span::styled(label.to_owned(), palette.title())));
    }
    for (i, text) in wrap(&unbroken(text), columns.saturating_sub(indent).max(1), 8)
        .into_iter()
        .enumerate()
    {
        let label = if i == 0 && !narrow { label } else { "" };
        out.push(Line::from(vec![
            Span::styled(crate::ui::text::left(label, indent), palette.title()),
            Span::raw(text),
        ]));
    }
}

/// A bar of at most `columns` for a share of 1.
fn bar(share: f64, columns: usize) -> String {
    let share = share.clamp(0.0, 1.0);
    let cells = (share * columns as f64).round() as usize;
    // Who did anything at all has at least one cell.
    "█".repeat(cells.max(usize::from(share > 0.0 && columns > 0)))
}

#[cfg(test)]
mod tests;
