//! The report as one self-contained HTML page: no script, no outside resource, every picture with
//! its figures in a table.
//!
//! The size of a page is bounded: intervals, members with pictures, origins in a picture and rows
//! of tables are limited, and the page says what is left out.

mod addresses;
mod allocator;
mod array;
mod head;
mod members;
mod reproduce;
mod slow;
#[cfg(test)]
mod tests;
mod times;
mod work;

use std::path::Path;

use maud::{Markup, html};

use crate::analysis::hotspot::HotspotSeverity;
use crate::analysis::snapshot::ArraySnapshot;
use crate::commands::report::lines::file_name;
use crate::recording::gather::{PageDetail, Report};
use crate::ui::html::{page, table::HtmlTable};

/// Maximum number of arrays with sections of their own: those with a warning, then those with the
/// most requests.
const ARRAYS: usize = 8;
/// Maximum number of arrays whose addresses are shown over time.
const ARRAYS_OVER_TIME: usize = 4;
/// Maximum number of members with pictures over time, of all arrays together.
const MULTIPLES: usize = 16;
/// Maximum number of rows of a table.
const ROWS: usize = 20;
/// Maximum number of members in the tables of one array, and of arrays in the table of the others.
const MEMBERS: usize = 64;
/// Maximum number of members in the tables of all arrays.
const ALL_MEMBERS: usize = 128;

/// An array with its place in the page.
struct PageArray<'a> {
    array: &'a ArraySnapshot,
    /// Position in the snapshot, which makes ids unique.
    number: usize,
    /// Number of members with pictures over time.
    multiples: usize,
    /// Number of members in tables.
    members: usize,
    /// True if its addresses are shown over time.
    over_time: bool,
}

/// Draws the page of a report from [`gather_detailed`](crate::recording::gather::gather_detailed).
pub fn draw(path: &Path, report: &Report) -> String {
    let none = PageDetail::default();
    let detail = report.detail.as_ref().unwrap_or(&none);
    let (subjects, others) = subjects(report);
    let mut sections = vec![
        ("summary".to_owned(), "Summary".to_owned()),
        ("recorded".to_owned(), "What was recorded".to_owned()),
    ];
    for s in &subjects {
        sections.push((page::anchor("array", s.number), s.array.info.name.clone()));
    }
    if !others.is_empty() {
        sections.push(("others".to_owned(), "Other arrays".to_owned()));
    }
    if report.allocator.is_some() {
        sections.push(("allocator".to_owned(), allocator::TITLE.to_owned()));
    }
    if report.slow.is_some() {
        sections.push(("slow".to_owned(), slow::TITLE.to_owned()));
    }
    sections.push(("lost".to_owned(), "What was lost".to_owned()));
    sections.push(("reproduce".to_owned(), "How to reproduce".to_owned()));
    let file = file_name(path);
    let body = html! {
        header {
            h1 { "raidtrace report: " (crate::ui::html::text(&file)) }
            (page::contents(&sections))
        }
        main {
            (page::section("summary", "Summary", &head::summary(report, &subjects)))
            (page::section("recorded", "What was recorded", &head::recorded(path, report)))
            @for subject in &subjects {
                (array::section(report, detail, subject))
            }
            @if !others.is_empty() {
                (page::section("others", "Other arrays", &other_arrays(&others)))
            }
            @if let Some(a) = &report.allocator {
                (page::section("allocator", allocator::TITLE, &allocator::body(a, &detail.stacks)))
            }
            @if let Some(s) = &report.slow {
                (page::section("slow", slow::TITLE, &slow::body(s)))
            }
            (page::section("lost", "What was lost", &head::lost(report)))
            @let how = reproduce::body(path, report, &subjects);
            (page::section("reproduce", "How to reproduce", &how))
        }
        footer {
            p {
                "Written by raidtrace " (env!("CARGO_PKG_VERSION"))
                ". Times are UTC unless they say otherwise. Figures are those of the period above."
            }
        }
    };
    page::page(&format!("raidtrace report: {file}"), &body)
}

fn requests(array: &ArraySnapshot) -> u64 {
    array.members.iter().map(|m| m.sum(|_| true).0).fold(0, u64::saturating_add)
}

/// The arrays with sections, in the order of the snapshot, and the others.
fn subjects(report: &Report) -> (Vec<PageArray<'_>>, Vec<&ArraySnapshot>) {
    let arrays = &report.snapshot.arrays;
    let mut order: Vec<usize> = (0..arrays.len()).collect();
    // A hung array has few requests, and comes first.
    let load = |i: &usize| {
        let array = arrays.get(*i);
        let warns = array
            .and_then(|a| a.hotspot.as_ref())
            .is_some_and(|h| h.severity == HotspotSeverity::Warning);
        std::cmp::Reverse((warns, array.map_or(0, requests)))
    };
    order.sort_by_key(load);
    let over_time: Vec<usize> = order.iter().copied().take(ARRAYS_OVER_TIME).collect();
    let mut others = order.split_off(order.len().min(ARRAYS));
    others.sort_unstable();
    // Divide pictures and rows: small arrays get all they need, the rest is for the large ones.
    order.sort_by_key(|i| arrays.get(*i).map_or(0, |a| a.members.len()));
    let (mut pictures, mut rows, mut subjects) = (MULTIPLES, ALL_MEMBERS, Vec::new());
    let count = order.len();
    for (done, number) in order.into_iter().enumerate() {
        let Some(array) = arrays.get(number) else {
            continue;
        };
        let multiples = array.members.len().min(pictures / (count - done));
        let members = array.members.len().min(rows / (count - done)).min(MEMBERS);
        pictures -= multiples;
        rows -= members;
        subjects.push(PageArray {
            array,
            number,
            multiples,
            members,
            over_time: over_time.contains(&number),
        });
    }
    subjects.sort_by_key(|s| s.number);
    let others = others.into_iter().filter_map(|i| arrays.get(i)).collect();
    (subjects, others)
}

fn other_arrays(others: &[&ArraySnapshot]) -> Markup {
    let mut table = HtmlTable::new("Arrays without a section of their own")
        .text("array")
        .text("level")
        .figure("members")
        .figure("requests")
        .text("headline");
    let rows = others.iter().map(|array| {
        let headline = array.hotspot.as_ref().map(|h| h.headline.clone());
        [
            array.info.name.clone().into(),
            array.info.level.clone().into(),
            array.members.len().to_string().into(),
            requests(array).to_string().into(),
            headline.unwrap_or_default().into(),
        ]
    });
    table.rows(rows, MEMBERS, "arrays");
    table.draw()
}
