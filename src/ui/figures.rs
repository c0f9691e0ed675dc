//! The figures of a member, one entry each: columns of `top`, text and pages, and lines of the help
//! are made from this table and from [`COUNTED`].

use super::rows::MemberRow;
use super::table::Column;
use crate::analysis::cube::Amount as _;
use crate::analysis::figures::{COUNTED, Counted, CountedUnit};
use crate::analysis::snapshot::Snapshot;
use crate::analysis::units;

/// How a figure is taken from a row and written.
#[derive(Clone, Copy)]
enum Value {
    /// A figure and its format.
    Figure(fn(&MemberRow<'_>) -> Option<f64>, fn(f64) -> String),
    /// A time in µs.
    Latency(fn(&MemberRow<'_>) -> Option<u64>),
    /// An entry of [`COUNTED`].
    Counted(usize),
}

/// Where a figure is shown, by the width of its column.
#[derive(Clone, Copy, Default)]
struct Places {
    /// In `top`: width and priority, see [`Column`].
    screen: Option<(usize, u8)>,
    /// In lines of text, without the gap.
    text: Option<usize>,
    /// On a page: the heading.
    page: Option<&'static str>,
}

/// A figure of a member.
#[derive(Clone, Copy)]
pub(crate) struct MemberFigure {
    /// Heading on screens and in text.
    pub title: &'static str,
    value: Value,
    places: Places,
    /// On screens and in text, shown only if a member has one above 0.
    is_rare: bool,
    /// Line of the help; empty if the line of the figure before is about both.
    help: &'static str,
}

const fn figure(
    title: &'static str,
    value: Value,
    screen: Option<(usize, u8)>,
    text: Option<usize>,
    page: Option<&'static str>,
    help: &'static str,
) -> MemberFigure {
    let places = Places { screen, text, page };
    MemberFigure { title, value, places, is_rare: false, help }
}

const fn rate(value: fn(&MemberRow<'_>) -> Option<f64>) -> Value {
    Value::Figure(value, units::count)
}

impl MemberFigure {
    const fn rare(self) -> Self {
        Self { is_rare: true, ..self }
    }
}

const RATES: [MemberFigure; 5] = [
    figure(
        "r/s",
        rate(|r| Some(r.reads)),
        Some((6, 6)),
        Some(5),
        Some("reads/s"),
        "requests with data, after merging, under their first origin",
    ),
    figure("w/s", rate(|r| Some(r.writes)), Some((6, 9)), Some(5), Some("writes/s"), ""),
    figure(
        "f/s",
        rate(|r| Some(r.flushes)),
        Some((6, 2)),
        Some(5),
        Some("flushes/s"),
        "flushes; discards: they free space and move nothing",
    )
    .rare(),
    figure("d/s", rate(|r| Some(r.discards)), Some((6, 4)), Some(5), Some("discards/s"), "").rare(),
    figure(OTHERS, rate(|r| Some(r.others)), Some((6, 0)), None, None, "").rare(),
];

/// Requests that none of the other figures count.
const OTHERS: &str = "else";
/// The kernel's own figure, after which screens show it over the time of the headline.
pub(crate) const UTILISATION: &str = "util";

const REST: [MemberFigure; 6] = [
    figure(
        "MiB/s",
        Value::Figure(|r| Some(r.bytes), units::mib),
        Some((7, 5)),
        Some(6),
        Some("MiB/s"),
        "bytes read and written, exact per origin",
    ),
    figure(
        "infl",
        rate(|r| r.member.disk.map(|d| f64::from(d.in_flight))),
        Some((6, 2)),
        Some(4),
        None,
        "in flight now, time with any in flight: the kernel's figures",
    ),
    figure(
        UTILISATION,
        Value::Figure(|r| r.member.utilisation(), units::percent_short),
        Some((6, 8)),
        Some(4),
        Some("busy"),
        "",
    ),
    figure(
        "p50",
        Value::Latency(|r| r.device.quantile(0.5)),
        Some((6, 3)),
        None,
        Some("p50"),
        "issue to completion, for requests that pass the filter",
    ),
    figure(
        "p99",
        Value::Latency(|r| r.device.quantile(0.99)),
        Some((6, 7)),
        Some(5),
        Some("p99"),
        "",
    ),
    figure("max", Value::Latency(|r| r.device.quantile(1.0)), None, None, Some("max"), ""),
];

/// All figures, in the order of their columns.
pub(crate) fn all() -> impl Iterator<Item = MemberFigure> {
    let counted = COUNTED.iter().enumerate().map(|(at, f)| {
        let value = Value::Counted(at);
        figure(f.title, value, Some((7, 4)), Some(6), Some(f.title), f.help).rare()
    });
    // At the end, so that the others keep their places in the order of sort columns.
    RATES.into_iter().chain(REST).chain(counted)
}

impl MemberFigure {
    /// The figure as a number; `None` if it is unknown. Times are in µs.
    pub fn value(&self, row: &MemberRow<'_>) -> Option<f64> {
        match self.value {
            Value::Figure(value, _) => value(row),
            Value::Latency(us) => us(row).map(|us| us as f64),
            Value::Counted(at) => {
                let sum = |at: usize| row.counted.0[at] as f64;
                match COUNTED[at].unit {
                    CountedUnit::Events => Some(sum(at) / row.secs),
                    CountedUnit::TimeOf(of) => (sum(of) > 0.0).then(|| sum(at) / 1e3 / sum(of)),
                }
            }
        }
    }

    /// The figure as text, `-` if it is unknown.
    pub fn text(&self, row: &MemberRow<'_>) -> String {
        let value = self.value(row);
        let is_time = match self.value {
            Value::Figure(_, format) => return value.map_or("-".to_owned(), format),
            Value::Latency(_) => true,
            Value::Counted(at) => COUNTED[at].unit != CountedUnit::Events,
        };
        match is_time {
            true => units::latency(value.map(|us| us as u64)),
            false => value.map_or("-".to_owned(), units::count),
        }
    }

    /// True if the figure is shown for these rows.
    fn is_shown(&self, rows: &[MemberRow<'_>]) -> bool {
        !self.is_rare || rows.iter().any(|r| self.value(r).is_some_and(|v| v > 0.0))
    }

    /// The column of `top`, unless it has none.
    pub fn column<'a>(self, rows: &[MemberRow<'a>]) -> Option<Column<MemberRow<'a>>> {
        let (width, priority) = self.places.screen?;
        if matches!(self.value, Value::Counted(_)) && !self.is_shown(rows) {
            return None;
        }
        let (value, text) = (move |row: &_| self.value(row), move |row: &_| self.text(row));
        let column = Column::written(self.title, width, priority, value, text);
        Some(column.shown_if(self.is_shown(rows)))
    }

    /// Heading on a page, unless the figure is not shown there. A counted figure is left out if no
    /// member has one.
    pub fn page_heading(&self, rows: &[MemberRow<'_>]) -> Option<&'static str> {
        let is_shown = !matches!(self.value, Value::Counted(_)) || self.is_shown(rows);
        self.places.page.filter(|_| is_shown)
    }

    /// The remark on a page that explains a counted figure.
    pub fn remark(&self) -> Option<String> {
        matches!(self.value, Value::Counted(_)).then(|| format!(" {}: {}.", self.title, self.help))
    }
}

/// The figures that lines of text show for these rows, with the widths of their columns.
pub(crate) fn of_text(rows: &[MemberRow<'_>]) -> Vec<(MemberFigure, usize)> {
    let shown = all().filter(|f| f.is_shown(rows));
    shown.filter_map(|f| Some((f, f.places.text?))).collect()
}

/// Lines of the help: headings and what they mean. Counted figures have one if a member of the
/// snapshot has them.
pub(crate) fn help(snapshot: Option<&Snapshot>) -> Vec<String> {
    let mut counted = Counted::default();
    let members = snapshot.iter().flat_map(|s| &s.arrays).flat_map(|a| &a.members);
    members.for_each(|m| counted.add(&m.counted.total()));
    let is_helped = |figure: &MemberFigure| match figure.value {
        Value::Counted(at) => counted.0[at] > 0,
        _ => figure.places.screen.is_some() && figure.title != OTHERS,
    };
    let mut lines: Vec<(String, &'static str)> = Vec::new();
    for figure in all().filter(is_helped) {
        match lines.last_mut() {
            Some(last) if figure.help.is_empty() => last.0 = format!("{} {}", last.0, figure.title),
            _ => lines.push((figure.title.to_owned(), figure.help)),
        }
        if figure.title == UTILISATION {
            let trend = "util of the last intervals, the newest on the right";
            lines.push(("util trend".to_owned(), trend));
        }
    }
    lines.iter().map(|(titles, help)| format!("{titles:<11} {help}")).collect()
}
