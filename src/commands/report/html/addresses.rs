//! Where on the array the requests were: 64 pieces of its addresses, by origin and over time.

use maud::{Markup, html};

use super::PageArray;
use super::times;
use super::work::ArrayWork;
use crate::analysis::detail::{ADDRESSES, Addresses};
use crate::analysis::nested::is_part;
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::units;
use crate::commands::report::lines::shares;
use crate::origin::Origin;
use crate::recording::gather::{PageDetail, Report};
use crate::ui::html::colour;
use crate::ui::html::figure::{figure, legend};
use crate::ui::html::page::remark;
use crate::ui::html::plot::Plot;
use crate::ui::html::table::{HtmlCell, HtmlTable};

/// Height of a row of the heat map, in pixels.
const ROW: usize = 5;
/// Pieces of addresses in a row of the heat map.
const TOGETHER: usize = 2;

/// Addresses of the requests, for the section of an array.
pub(super) fn body(report: &Report, detail: &PageDetail, subject: &PageArray<'_>) -> Markup {
    let fine = &detail.fine;
    let name = &subject.array.info.name;
    let Some(number) = fine.arrays.iter().position(|a| a == name) else {
        return Markup::default();
    };
    let Some(addresses) = fine.addresses.get(number) else {
        return Markup::default();
    };
    let all: u64 = (0..ADDRESSES).map(|p| addresses.requests(p)).fold(0, u64::saturating_add);
    html! {
        h3 { "Addresses on the array" }
        @if all == 0 && addresses.outside == 0 {
            (remark("No request has a known address on the array: md's own IO, parity, and \
                     requests during a reshape have none."))
        }
        @if all > 0 {
            (by_origin(addresses, detail, subject))
            @if subject.over_time { (over_time(addresses, detail, subject, number)) }
        }
        @if let Some(outer) = outer(report, name) {
            (remark(&format!(
                "{name} is a member of {}: these are addresses of the outermost array.",
                outer.info.name
            )))
        }
        @if addresses.outside > 0 {
            (remark(&format!(
                "{} requests are left out: their addresses are beyond the size that the array had \
                 at first, or its size is unknown.",
                addresses.outside
            )))
        }
    }
}

/// The array that the array `name` is a member of.
fn outer<'a>(report: &'a Report, name: &str) -> Option<&'a ArraySnapshot> {
    let mut others = report.snapshot.arrays.iter().filter(|a| a.info.name != name);
    others.find(|a| a.members.iter().any(|m| is_part(&m.name, name)))
}

/// Start of a piece: `1.2 TiB`
fn start(addresses: &Addresses, piece: usize) -> String {
    units::size(addresses.start(piece).saturating_mul(512))
}

/// Origin with the most requests in a piece, and its share.
fn most(addresses: &Addresses, piece: usize) -> Option<(Origin, f64)> {
    let most = addresses.pieces.get(piece)?.iter().max_by_key(|o| o.1)?;
    Some((most.0, most.1 as f64 / addresses.requests(piece).max(1) as f64))
}

fn by_origin(addresses: &Addresses, detail: &PageDetail, subject: &PageArray<'_>) -> Markup {
    let work = ArrayWork::new(detail, subject.array);
    let requests = |piece: usize, keep: &dyn Fn(Origin) -> bool| {
        let origins = addresses.pieces.get(piece).into_iter().flatten();
        origins.filter(|o| keep(o.0)).map(|o| o.1 as f64).sum::<f64>()
    };
    let layer = |keep: &dyn Fn(Origin) -> bool| -> Vec<f64> {
        (0..ADDRESSES).map(|piece| requests(piece, keep)).collect()
    };
    let mut layers: Vec<(String, Vec<f64>)> = work
        .origins
        .iter()
        .map(|&origin| (colour::class(origin), layer(&|o| o == origin)))
        .collect();
    if work.has_rest {
        layers.push(("rest".to_owned(), layer(&|o| !work.origins.contains(&o))));
    }
    let highest = (0..ADDRESSES).map(|p| addresses.requests(p)).max().unwrap_or(0);
    let axis = ("0".to_owned(), units::size(addresses.sectors.saturating_mul(512)));
    let mut plot = Plot::new("Requests by address on the array", &[1.0; ADDRESSES], axis);
    plot.stack("Requests", units::count(highest as f64), &layers, highest as f64);
    let mut table = HtmlTable::new("Requests by address on the array, busiest first")
        .text("from")
        .figure("requests")
        .figure("bytes")
        .text("origins by requests");
    let words = |piece: usize| {
        let all = addresses.requests(piece).max(1) as f64;
        let origins = addresses.pieces.get(piece).into_iter().flatten();
        shares(origins.map(|o| (o.0, o.1 as f64)), all, 3)
    };
    let titles = (0..ADDRESSES).map(|piece| {
        let n = addresses.requests(piece);
        format!("from {}: {n} requests; {}", start(addresses, piece), words(piece))
    });
    plot.set_titles(titles.collect());
    let mut busiest: Vec<usize> = (0..ADDRESSES).filter(|p| addresses.requests(*p) > 0).collect();
    busiest.sort_by_key(|p| std::cmp::Reverse(addresses.requests(*p)));
    let rows = busiest.iter().map(|&piece| {
        let bytes: f64 =
            addresses.pieces.get(piece).into_iter().flatten().map(|o| o.2 as f64).sum();
        let n = addresses.requests(piece);
        [
            HtmlCell::new(start(addresses, piece)),
            HtmlCell::new(n.to_string()).with_heat(n as f64 / highest.max(1) as f64),
            units::bytes(bytes).into(),
            words(piece).into(),
        ]
    });
    table.rows(rows, ADDRESSES, "pieces");
    let origins: Vec<_> = work.origins.iter().map(|&o| (o, String::new())).collect();
    let hottest = busiest.first().and_then(|&piece| {
        let (origin, share) = most(addresses, piece)?;
        let all: u64 = busiest.iter().map(|p| addresses.requests(*p)).sum();
        Some(format!(
            "Busiest: the 1/{ADDRESSES} of the array from {} on has {} of the requests, {} of \
             them {origin}.",
            start(addresses, piece),
            units::percent(addresses.requests(piece) as f64 / all.max(1) as f64),
            units::percent(share),
        ))
    });
    html! {
        (legend(&origins))
        (figure(
            &plot.draw(),
            &format!(
                "Requests of members by their address on the array, from its start to its end. {}",
                hottest.unwrap_or_default()
            ),
            &table.draw(),
            false,
        ))
    }
}

fn over_time(
    addresses: &Addresses,
    detail: &PageDetail,
    subject: &PageArray<'_>,
    number: usize,
) -> Markup {
    let work = ArrayWork::new(detail, subject.array);
    let intervals = &detail.fine.by_address;
    let row = |row: usize| -> Vec<f64> {
        let counts = intervals.iter().map(|arrays| {
            let counts = arrays.get(number).into_iter().flatten();
            let sum: u64 = counts.skip(row * TOGETHER).take(TOGETHER).map(|&n| u64::from(n)).sum();
            (sum as f64).sqrt()
        });
        counts.collect()
    };
    let rows: Vec<Vec<f64>> = (0..ADDRESSES / TOGETHER).map(row).collect();
    let highest = rows.iter().flatten().copied().fold(0.0, f64::max);
    let mut plot = Plot::new("Requests by address over time", &work.widths(), work.axis());
    let end = format!("end, {}", units::size(addresses.sectors.saturating_mul(512)));
    plot.heat("Requests by address over time", (end, "start".to_owned()), &rows, highest, ROW);
    let mut table = HtmlTable::new("Busiest addresses by interval")
        .text("from")
        .figure("requests")
        .text("busiest addresses");
    let mut titles = Vec::new();
    for ((from, to), arrays) in work.times().zip(intervals) {
        let counts = arrays.get(number).copied().unwrap_or([0; ADDRESSES]);
        let all: u64 = counts.iter().map(|&n| u64::from(n)).sum();
        let parts = counts
            .iter()
            .enumerate()
            .map(|(p, n)| (format!("from {}", start(addresses, p)), f64::from(*n)));
        let named = shares(parts, all.max(1) as f64, 3);
        titles.push(format!(
            "{} to {}: {all} requests; {named}",
            times::clock(from),
            times::clock(to)
        ));
        table.row([times::clock(from).into(), all.to_string().into(), named.into()]);
    }
    plot.set_titles(titles);
    let caption = "From the start of the array at the bottom to its end at the top; the colour \
                   grows with the square root of the number of requests.";
    figure(&plot.draw(), caption, &table.draw(), true)
}
