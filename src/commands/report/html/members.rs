//! Members over time: utilisation of all of them, and requests, bytes, utilisation and latencies of
//! the busiest.

use maud::{Markup, html};

use super::work::{self, ArrayWork, MemberSeries, OCTAVES, octave_end, octaves};
use super::{PageArray, times};
use crate::analysis::snapshot::{ArraySnapshot, MemberSnapshot};
use crate::analysis::units;
use crate::commands::report::lines::length;
use crate::recording::gather::PageDetail;
use crate::ui::html::figure::{details, figure, legend};
use crate::ui::html::page::remark;
use crate::ui::html::plot::{Plot, strip};
use crate::ui::html::table::HtmlTable;
use crate::ui::html::{name as short, text};

/// Maximum number of rows of a latency heat map; shorter times are in the lowest row.
const MAX_ROWS: usize = 14;
/// Height of such a row, in pixels.
const ROW: usize = 6;

/// `slot 3: sdd`, `sdd` for a member without a slot.
pub(super) fn name(member: &MemberSnapshot) -> String {
    match member.slot {
        Some(slot) => format!("slot {slot}: {}", short(&member.name)),
        None => short(&member.name),
    }
}

/// Utilisation of the members over time, and the pictures of the busiest.
pub(super) fn over_time(detail: &PageDetail, subject: &PageArray<'_>) -> Markup {
    let array = subject.array;
    let work = ArrayWork::new(detail, array);
    if work.is_empty() {
        return remark("No intervals: the period is too short for pictures over time.");
    }
    let mut all = work.busiest_first();
    let left_out = all.len().saturating_sub(subject.members);
    all.truncate(subject.members);
    let mut shown: Vec<&MemberSeries<'_>> = all.iter().take(subject.multiples).collect();
    shown.sort_by_key(|s| s.index);
    let mut rows: Vec<&MemberSeries<'_>> = all.iter().collect();
    rows.sort_by_key(|s| s.index);
    let scales = Scales::new(&shown);
    let length = length(detail.fine.timeline.length_s);
    html! {
        h3 { "Utilisation over time" }
        (utilisation(&work, array, &rows))
        (utilisation_figures(&work, array, &shown))
        @if left_out > 0 { (remark(&format!("{left_out} members with less load are left out."))) }
        h3 { "Members over time" }
        (remark(&format!(
            "An interval is about {length}. All members of the array have the same scales; the \
             figure on the right is the top of a \
             scale. Bars are stacked by origin, the first of the legend at the bottom; discards \
             count as requests, not as bytes. \
             Device time: from issue to completion; its lines begin at 1 µs. In the picture below \
             them, a row is a power of two, and \
             the colour grows with the square root of the number of requests."
        )))
        (key(&work))
        @if shown.len() < array.members.len() {
            (remark(&format!(
                "The {} busiest of {} members; the others are in the tables.",
                shown.len(),
                array.members.len()
            )))
        }
        div.multiples {
            @for series in &shown { (multiple(&work, array, series, &scales)) }
        }
    }
}

/// Legend of stacked origins and of the lines.
fn key(work: &ArrayWork<'_>) -> Markup {
    let origins: Vec<_> = work.origins.iter().map(|&o| (o, String::new())).collect();
    html! {
        (legend(&origins))
        ul.legend {
            @if work.has_rest { li { span.key.rest aria-hidden="true" {} " other origins" } }
            li { span.key.line1 aria-hidden="true" {} " p50 (solid)" }
            li { span.key.line2 aria-hidden="true" {} " p99 (dashed)" }
        }
    }
}

/// A row of cells per member.
fn utilisation(work: &ArrayWork<'_>, array: &ArraySnapshot, rows: &[&MemberSeries<'_>]) -> Markup {
    let widths = work.widths();
    let (from, to) = work.axis();
    html! {
        div.strips {
            @for series in rows {
                @let member = array.members.get(series.index).map(name).unwrap_or_default();
                @let most = units::percent(series.most_busy());
                @let mean = units::percent(series.mean_busy());
                div.strip {
                    span.name { (text(&member)) }
                    (strip(&format!("{member}: busy {mean} of the time, at most {most} of an \
                                     interval"), &widths, &series.busy))
                    span.faint { (mean) ", most " (most) }
                }
            }
            div.strip { span {} p.axis { span { (from) } span { (to) } } span {} }
        }
        p.faint { "The stronger the colour, the busier. On the right: mean of the period, and of \
                   the busiest interval." }
    }
}

/// Largest values of all members that are shown, so that their pictures can be compared.
struct Scales {
    requests: f64,
    bytes: f64,
    /// Longest p99, µs.
    us: u64,
    /// First and last row of the latency heat maps.
    octaves: (usize, usize),
    /// Square root of the most requests in a cell of these maps.
    cell: f64,
}

impl Scales {
    fn new(shown: &[&MemberSeries<'_>]) -> Self {
        let most = |measure| shown.iter().flat_map(|s| s.rate(measure)).fold(0.0, f64::max);
        let hists = || shown.iter().flat_map(|s| s.latencies.iter().flatten());
        let us = hists().filter_map(|h| h.quantile(0.99)).max();
        let mut sums = [0; OCTAVES];
        let mut cell = 0;
        for hist in hists() {
            for (sum, n) in sums.iter_mut().zip(octaves(hist)) {
                *sum += n;
                cell = cell.max(n);
            }
        }
        let last = sums.iter().rposition(|&n| n > 0).unwrap_or(0);
        let first = sums.iter().position(|&n| n > 0).unwrap_or(0);
        Self {
            requests: most(work::requests),
            bytes: most(work::bytes),
            us: us.unwrap_or(0),
            octaves: (first.max((last + 1).saturating_sub(MAX_ROWS)), last),
            cell: (cell as f64).sqrt(),
        }
    }
}

/// All pictures of one member, and their figures.
fn multiple(
    work: &ArrayWork<'_>,
    array: &ArraySnapshot,
    series: &MemberSeries<'_>,
    scales: &Scales,
) -> Markup {
    let Some(member) = array.members.get(series.index) else {
        return Markup::default();
    };
    let name = name(member);
    let mut plot = Plot::new(
        format!("{name} over time: requests, bytes, utilisation, latencies"),
        &work.widths(),
        work.axis(),
    );
    plot.stack(
        "Requests per second",
        units::count(scales.requests),
        &work.layers(series, work::requests),
        scales.requests,
    );
    plot.stack(
        "MiB per second",
        units::mib(scales.bytes),
        &work.layers(series, work::bytes),
        scales.bytes,
    );
    let busy = [("b1".to_owned(), series.busy.clone())];
    plot.stack("Utilisation", "100 %", &busy, 1.0);
    let log = |us: Option<u64>| us.map(|us| (us as f64).log2());
    let lines = [(0.5, "l1"), (0.99, "l2")].map(|(q, class)| {
        let each = series.quantile(q).into_iter().map(log);
        (class.to_owned(), each.collect())
    });
    plot.lines(
        "Device time p50, p99, logarithmic",
        units::latency(Some(scales.us)),
        &lines,
        (scales.us.max(2) as f64).log2(),
    );
    let (first, last) = scales.octaves;
    let rows: Vec<Vec<f64>> = (first..=last)
        .map(|octave| {
            let cell = |hist: &Option<&crate::analysis::hist::Hist>| {
                let counts = hist.map(octaves).unwrap_or([0; OCTAVES]);
                let lowest = if octave == first { 0 } else { octave };
                let sum: u64 = counts.iter().skip(lowest).take(octave + 1 - lowest).sum();
                (sum as f64).sqrt()
            };
            series.latencies.iter().map(cell).collect()
        })
        .collect();
    plot.heat(
        "Requests by device time",
        (
            format!("< {}", units::latency(Some(octave_end(last)))),
            format!("< {}", units::latency(Some(octave_end(first)))),
        ),
        &rows,
        scales.cell,
        ROW,
    );
    plot.set_titles(titles(work, series, &name));
    let health = member.health.as_deref();
    html! {
        div {
            h4 { (text(&name)) @if let Some(health) = health { " (" (text(health)) ")" } }
            (figure(&plot.draw(), "", &figures(work, series, &name), true))
        }
    }
}

/// Text of each interval.
fn titles(work: &ArrayWork<'_>, series: &MemberSeries<'_>, name: &str) -> Vec<String> {
    let (requests, bytes) = (series.rate(work::requests), series.rate(work::bytes));
    let (p50, p99) = (series.quantile(0.5), series.quantile(0.99));
    let at = |all: &[f64], i: usize| all.get(i).copied().unwrap_or(0.0);
    let us = |all: &[Option<u64>], i: usize| units::latency(all.get(i).copied().flatten());
    let title = |(i, (from, to))| {
        format!(
            "{name}, {} to {}: {} requests/s, {} MiB/s, busy {}, p50 {}, p99 {}; {}",
            times::clock(from),
            times::clock(to),
            units::count(at(&requests, i)),
            units::mib(at(&bytes, i)),
            units::percent_short(at(&series.busy, i)),
            us(&p50, i),
            us(&p99, i),
            series.origins(i),
        )
    };
    work.times().enumerate().map(title).collect()
}

/// The figures of one member, one row per interval.
fn figures(work: &ArrayWork<'_>, series: &MemberSeries<'_>, name: &str) -> Markup {
    let mut table = HtmlTable::new(format!("{name}, by interval"))
        .text("from")
        .figure("requests/s")
        .figure("MiB/s")
        .figure("busy")
        .figure("p50")
        .figure("p99")
        .figure("max")
        .text("origins by requests")
        .text("requests by time in the device");
    let (requests, bytes) = (series.rate(work::requests), series.rate(work::bytes));
    for (i, (from, _)) in work.times().enumerate() {
        let at = |all: &[f64]| all.get(i).copied().unwrap_or(0.0);
        let hist = series.latencies.get(i).copied().flatten();
        let us = |q| units::latency(hist.and_then(|h| h.quantile(q)));
        let counts = hist.map(octaves).unwrap_or([0; OCTAVES]);
        let times = counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(octave, n)| {
            let end = units::latency(Some(octave_end(octave)));
            format!("<{end} {n}")
        });
        table.row([
            times::clock(from).into(),
            units::count(at(&requests)).into(),
            units::mib(at(&bytes)).into(),
            units::percent_short(at(&series.busy)).into(),
            us(0.5).into(),
            us(0.99).into(),
            us(1.0).into(),
            series.origins(i).into(),
            times.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    table.draw()
}

/// Utilisation of the busiest members, one row per interval.
fn utilisation_figures(
    work: &ArrayWork<'_>,
    array: &ArraySnapshot,
    shown: &[&MemberSeries<'_>],
) -> Markup {
    let mut table = HtmlTable::new("Utilisation by interval, in percent").text("from");
    for series in shown {
        table = table.figure(array.members.get(series.index).map_or("", |m| m.name.as_str()));
    }
    for (i, (from, _)) in work.times().enumerate() {
        let each = shown.iter().map(|s| {
            let busy = s.busy.get(i).copied().unwrap_or(0.0);
            units::percent_short(busy).into()
        });
        table.row(std::iter::once(times::clock(from).into()).chain(each));
    }
    details("Figures", &table.draw(), true)
}
