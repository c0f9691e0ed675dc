//! A row per member, with its origins as a stacked bar.

use ratatui::text::Span;

use super::table::TableView;
use super::{Scene, bar};
use crate::analysis::units;
use crate::origin::io_name;
use crate::ui::figures::{self, UTILISATION};
use crate::ui::palette::Palette;
use crate::ui::rows::{self, BarPart, MemberRow};
use crate::ui::table::{Column, Columns};
use crate::ui::text::{clean, glue, width};

/// A trend that reached this utilisation is highlighted.
const MIN_HOT: f64 = 0.9;

pub(super) struct MembersView;

impl TableView for MembersView {
    type Row<'a> = MemberRow<'a>;
    const EMPTY: &'static str = "no members";
    const BAR: &'static str = "origins";

    fn rows<'a>(scene: &Scene<'a>) -> Vec<MemberRow<'a>> {
        rows::members(scene.array, scene.secs, scene.filter(), scene.state.measure)
    }

    fn columns<'a>(
        rows: &[MemberRow<'a>],
        scene: &Scene<'a>,
        screen: usize,
    ) -> Columns<MemberRow<'a>> {
        let names = rows.iter().map(|r| width(&clean(&r.member.name))).max();
        let longest = if screen < 100 { 12 } else { 24 };
        let trend_width = match screen {
            0..120 => 10,
            120..160 => 20,
            _ => 30,
        };
        // Utilisation over the time window of the headline, if that is longer than the interval.
        let span = rows::span(scene.array, scene.secs).map(rows::span_title);
        let has_span = rows.iter().any(|r| r.busy_over.is_some());
        let mut columns = vec![
            Column::number("slot", 5, 4, |r: &MemberRow<'a>| r.member.slot.map(u64::from)),
            Column::name("member", names.unwrap_or(0).clamp(7, longest), 10, |r| {
                clean(&r.member.name).into_owned()
            }),
        ];
        for figure in figures::all() {
            columns.extend(figure.column(rows));
            if figure.title == UTILISATION {
                let title = span.clone().unwrap_or_default();
                let over = |r: &MemberRow<'a>| r.busy_over;
                let over = Column::figure(title, 5, 6, over, units::percent_short);
                columns.push(over.shown_if(has_span));
                columns.push(Column::graph("util trend", trend_width, 1, trend));
            }
        }
        Columns(columns)
    }

    fn reserved(screen: usize) -> usize {
        match screen {
            0..100 => 21,
            100..120 => 25,
            _ => 31,
        }
    }

    fn parts(row: &MemberRow<'_>, _: &Scene<'_>) -> Vec<BarPart> {
        row.parts.clone()
    }

    fn before_bar(row: &MemberRow<'_>, scene: &Scene<'_>) -> Vec<Span<'static>> {
        let text = row.member.health.iter().map(|h| format!("{} ", clean(h)));
        text.map(|t| Span::styled(t, scene.palette.alarm())).collect()
    }

    /// The paths of the member, if there are several, and every origin with its figures, largest
    /// first.
    fn detail(row: &MemberRow<'_>, scene: &Scene<'_>) -> String {
        let mut cells: Vec<_> = row
            .member
            .io
            .iter()
            .filter(|c| scene.filter().keeps(c.origin, c.op) && c.requests > c.empty_writes())
            .collect();
        cells.sort_by_key(|c| std::cmp::Reverse(c.requests - c.empty_writes()));
        let each: Vec<String> = cells
            .iter()
            .map(|c| {
                format!(
                    "{} {} {}/s {}/s",
                    io_name(c.origin, c.op),
                    c.op,
                    units::count((c.requests - c.empty_writes()) as f64 / scene.secs),
                    glue(&units::bytes(c.bytes as f64 / scene.secs)),
                )
            })
            .collect();
        let io = match each.is_empty() {
            true => "nothing in this interval".to_owned(),
            false => each.join(", "),
        };
        format!("{}: {}{io}", clean(&row.member.name), paths(row, scene))
    }
}

/// `paths nvme0c0n1 12/s in 300µs, nvme0c1n1 11/s in 120ms; `: the statistics of each path of an
/// NVMe drive.
fn paths(row: &MemberRow<'_>, scene: &Scene<'_>) -> String {
    let around = scene.array.around.as_ref();
    let Some(paths) = around.and_then(|a| a.paths.get(&row.member.name)) else {
        return String::new();
    };
    let each = paths.iter().map(|(name, io)| {
        let (requests, us) = io.mean();
        let rate = units::count(requests as f64 / scene.secs);
        format!("{} {rate}/s in {}", clean(name), units::latency(us))
    });
    format!("paths {}; ", each.collect::<Vec<_>>().join(", "))
}

/// Utilisation in the last intervals, one cell each, the newest on the right; `·` if it was not
/// measured.
fn trend(row: &MemberRow<'_>, width: usize, palette: Palette) -> Vec<Span<'static>> {
    let recent = &row.member.recent;
    let columns = width - 1;
    let recent = &recent[recent.len().saturating_sub(columns)..];
    let utilisation = || recent.iter().map(|r| r.utilisation);
    let cells: String = utilisation().map(|u| u.map_or('·', bar::height)).collect();
    let style = match utilisation().flatten().any(|u| u >= MIN_HOT) {
        true => palette.alarm(),
        false => palette.bar(),
    };
    vec![Span::raw(" "), Span::styled(format!("{cells:>columns$}"), style)]
}
