//! Draws a [`ScreenState`] and a [`Snapshot`]. Pure: no terminal.
//!
//! ```text
//! md127 raid0, 12 disks, ...        12:00:01Z   header: the array
//! ! loop1, loop5 and loop9 are busy ...         headline
//! last 1 s: 630 r/s ...                         figures of the array, and its filesystems
//!  1 members  2 origins  ...     by requests    tabs
//! slot member ...                               one of VIEWS; each has its own file
//! f file_data 40%  B block_bitmap 20% ...       legend
//! loop1: ...                                    the selected row in full
//! q quit  ? help ...                            footer
//! ```

mod amplification;
mod bar;
mod files;
pub mod header;
mod help;
mod latency;
mod matrix;
mod members;
mod overview;
mod table;
mod tasks;

use ratatui::Frame;
use ratatui::style::Style;

use self::table::TableView;
use super::palette::Palette;
use super::pen::Pen;
use super::rows::{self, RowFilter};
use super::state::{Overlay, ScreenState};
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};

/// A view, which can also be a panel of the members view.
pub(crate) struct View {
    /// Title of the tab.
    pub title: &'static str,
    /// True if the key m switches the figures between requests and bytes.
    pub is_measured: bool,
    draw: fn(&mut Pen<'_>, &Scene<'_>),
    rows: fn(&Scene<'_>) -> usize,
    /// Number of lines below the rows of a panel.
    sums: fn(&Scene<'_>) -> usize,
}

impl View {
    const fn table<V: TableView>(title: &'static str, is_measured: bool) -> Self {
        Self {
            title,
            is_measured,
            draw: table::draw::<V>,
            rows: |scene| V::rows(scene).len(),
            sums: |_| 0,
        }
    }
}

/// All views, in the order of their digits.
pub(crate) const VIEWS: [View; 6] = [
    View { draw: overview::draw, ..View::table::<members::MembersView>("members", true) },
    matrix::VIEW,
    View::table::<tasks::TasksView>("processes", true),
    View::table::<latency::LatencyView>("latency", false),
    View::table::<files::FilesView>("files", true),
    View::table::<amplification::AmplificationView>(AMPLIFICATION, false),
];

/// Title of the view whose figures have their own time window.
const AMPLIFICATION: &str = "amplification";

fn view_index(title: &str) -> usize {
    VIEWS.iter().position(|v| v.title == title).unwrap_or(0)
}

/// Input of a view.
struct Scene<'a> {
    state: &'a ScreenState,
    array: &'a ArraySnapshot,
    /// Length of the interval in seconds.
    secs: f64,
    palette: Palette,
    /// Index of the view that is drawn: the shown view, or a view in a panel beside it.
    view: usize,
    /// A panel has no selected row and no legend.
    is_panel: bool,
}

impl Scene<'_> {
    fn filter(&self) -> RowFilter {
        self.state.filter
    }
}

/// Draws the whole screen. `snapshot` is `None` until the first interval has ended.
pub fn draw(
    frame: &mut Frame<'_>,
    state: &ScreenState,
    snapshot: Option<&Snapshot>,
    palette: Palette,
) {
    let area = frame.area();
    let mut pen = Pen::new(frame.buffer_mut(), area);
    if !pen.is_large_enough() {
        return;
    }
    let footer = pen.take_bottom(1);
    state.tabs.set_rows(0);
    state.selects_member.set(false);
    match snapshot.map(|s| (s, s.arrays.get(state.array))) {
        None => pen.text("measuring the first interval ...", Style::new()),
        Some((_, None)) => pen.text(
            "no array is left to trace: it was stopped, or its last member removed",
            palette.alarm(),
        ),
        Some((snapshot, Some(array))) => {
            let scene = Scene {
                state,
                array,
                secs: rows::seconds(snapshot.interval),
                palette,
                view: state.tabs.shown(),
                is_panel: false,
            };
            header::draw(&mut pen, &scene, snapshot);
            (VIEWS[scene.view].draw)(&mut pen, &scene);
        }
    }
    let buffer = frame.buffer_mut();
    header::footer(&mut Pen::new(buffer, footer), state, snapshot, palette);
    let mut pen = Pen::new(buffer, area);
    match state.overlay {
        Overlay::None => {}
        Overlay::Help(page) => help::draw(&mut pen, state, snapshot, page, palette),
        Overlay::Origins(at) => help::origins(&mut pen, state, at, palette),
    }
}

#[cfg(test)]
mod tests;
