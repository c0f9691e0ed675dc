//! A heat map of origins and members. A cell is coloured by its ratio to the mean of its row, so
//! that a hot spot stands out and an even load does not.

use ratatui::text::{Line, Span};

use super::{Scene, View};
use crate::analysis::snapshot::MemberSnapshot;
use crate::analysis::units;
use crate::ui::palette::{Palette, letter};
use crate::ui::pen::Pen;
use crate::ui::rows::{self, Measure, OriginRow};
use crate::ui::table::{Column, Columns};
use crate::ui::text::{self, clean};

/// Width of a cell, including the space before it.
const CELL: usize = 5;
/// Width of a cell on a wide screen.
const WIDE: usize = 6;
/// Rows below this share of all IO are not coloured: a single superblock write is always on one
/// member.
const MIN_HEATED_SHARE: f64 = 0.01;

pub(super) const VIEW: View = View {
    title: "origins",
    is_measured: true,
    draw,
    rows: |scene| rows(scene).0.len(),
    sums: |scene| usize::from(rows(scene).0.len() > 1),
};

fn rows(scene: &Scene<'_>) -> (Vec<OriginRow>, OriginRow) {
    rows::heat(scene.array, scene.secs, scene.filter(), scene.state.measure)
}

/// Members on the screen.
struct Grid {
    /// Width of a cell, including the space before it.
    cell: usize,
    range: std::ops::Range<usize>,
}

fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (mut rows, sum) = rows(scene);
    let names = rows.iter().map(|r| r.name().len()).max().unwrap_or(6).max(9);
    let members = &scene.array.members;
    let wide = pen.width() >= 100;
    let fixed = 3 + names + 6 + if wide { 7 } else { 0 };
    let cell = match pen.width() >= fixed + members.len() * WIDE {
        true => WIDE,
        false => CELL,
    };
    let shown = (pen.width().saturating_sub(fixed) / cell).min(members.len());
    let first = scene.state.member.saturating_sub(shown / 2).min(members.len() - shown);
    let grid = Grid { cell, range: first..first + shown };

    let heads = heads(members, cell - 1);
    let columns = columns(scene, &heads.prefix, names, wide);
    let mut sort = scene.sort(&columns);
    // A panel may have room only for the largest rows.
    if scene.is_panel && (sort.column, sort.reversed) == (0, false) {
        sort.column = columns.sort_key("total");
    }
    columns.sort(&mut rows, sort);
    let selected = scene.row(rows.len());
    scene.state.selects_member.set(!scene.is_panel);
    let table = columns.fit(pen.width(), Some(sort));
    let head = grid.range.clone().flat_map(|i| {
        let style = match i == scene.state.member && !scene.is_panel {
            true => scene.palette.selected(),
            false => scene.palette.title(),
        };
        let name = text::right(&heads.names[i], cell - 1);
        [Span::raw(" "), Span::styled(name, style)]
    });
    table.heading(pen, head.collect(), scene.palette);

    let lines = match pen.lines() {
        _ if scene.is_panel => 0,
        0..8 => 1,
        _ => 3,
    };
    let row = rows.get(selected).filter(|_| lines > 0);
    let mut below = Vec::new();
    if pen.lines() >= 8 && !scene.is_panel {
        below.push(scale(scene, &grid.range, members.len()));
    }
    let detail = row.and_then(|row| detail(row, scene));
    below.extend(detail.into_iter().flat_map(|d| scene.wrapped(&d, pen.width(), lines)));
    let area = pen.take_bottom(below.len());

    let has_sum = rows.len() > 1;
    let room = pen.lines().saturating_sub(usize::from(has_sum)).min(rows.len());
    let least = MIN_HEATED_SHARE * sum.total;
    table.rows(
        &mut pen.take_top(room),
        &rows,
        (selected, !scene.is_panel),
        &|row, _| cells(row, scene, &grid, row.total >= least),
        scene.palette,
    );
    if has_sum {
        let cells = |row: &OriginRow, _| cells(row, scene, &grid, true);
        table.rows(&mut pen.take_top(1), &[sum], (0, false), &cells, scene.palette);
    } else if rows.is_empty() {
        pen.text("  nothing in this interval", scene.palette.dim());
    }
    let mut pen = Pen::new(pen.buffer, area);
    below.iter().for_each(|line| pen.line(line));
}

fn columns(scene: &Scene<'_>, prefix: &str, names: usize, wide: bool) -> Columns<OriginRow> {
    let figure = match scene.state.measure {
        Measure::Requests => units::count,
        Measure::Bytes => units::bytes_short,
    };
    let rank = |r: &OriginRow| {
        let discards = if r.discards { 100 } else { 0 };
        r.origin.map_or(0, |o| o as u32) + discards
    };
    Columns(vec![
        Column::ranked(format!(" {prefix}"), names + 1, 10, origin, rank),
        Column::figure("skew", 6, 9, |r| (r.skew > 0.0).then_some(r.skew), skew),
        Column::figure("total", 7, 8, |r: &OriginRow| Some(r.total), figure).shown_if(wide),
    ])
}

fn origin(row: &OriginRow, width: usize, palette: Palette) -> Vec<Span<'static>> {
    let name = format!(" {}", text::left(&row.name(), width - 2));
    match row.origin {
        Some(origin) => {
            vec![Span::styled(letter(origin).to_string(), palette.origin(origin)), Span::raw(name)]
        }
        None => vec![Span::styled(format!(" {name}"), palette.title())],
    }
}

fn skew(skew: f64) -> String {
    match skew {
        s if s < 99.95 => format!("{s:.1}x"),
        s => format!("{:.0}x", s.min(9999.0)),
    }
}

/// The row's figure on each member. If `heated`, cells are coloured by their ratio to the mean of
/// the row.
fn cells(row: &OriginRow, scene: &Scene<'_>, grid: &Grid, heated: bool) -> Vec<Span<'static>> {
    let (room, palette) = (grid.cell - 1, scene.palette);
    let cell = |value: f64| {
        let mut text = match scene.state.measure {
            Measure::Requests => units::count(value),
            Measure::Bytes => units::bytes_short(value),
        };
        // A cell is one column too narrow for the widest figures: 12.3k, 1.23M.
        if text.len() > room
            && let Some((whole, tail)) = text.split_once('.')
        {
            let unit = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            text = format!("{whole}{unit}");
        }
        let ratio = match heated && row.mean > 0.0 {
            true => value / row.mean,
            false => 0.0,
        };
        let (text, style) = match value <= 0.0 {
            true => ("·", palette.dim()),
            false => (text.as_str(), palette.heat(ratio)),
        };
        [Span::raw(" "), Span::styled(text::right(text, room), style)]
    };
    row.each[grid.range.clone()].iter().flat_map(|value| cell(*value)).collect()
}

/// Short names of the members: their names without the common prefix, or their slots.
struct Heads {
    /// Text above the origins: `loop…`, `origin` or `by slot`.
    prefix: String,
    names: Vec<String>,
}

fn heads(members: &[MemberSnapshot], columns: usize) -> Heads {
    let names: Vec<_> = members.iter().map(|m| clean(&m.name).into_owned()).collect();
    let fits = |names: &[String]| names.iter().all(|n| text::width(n) <= columns);
    if fits(&names) {
        return Heads { prefix: "origin".to_owned(), names };
    }
    let mut prefix = names.first().cloned().unwrap_or_default();
    while !names.iter().all(|n| n.starts_with(&prefix)) {
        prefix.pop();
    }
    // Do not split numbers: the prefix of `loop1` and `loop10` is `loop`.
    let prefix = prefix.trim_end_matches(|c: char| c.is_ascii_digit());
    let rest: Vec<String> = names.iter().map(|n| n[prefix.len()..].to_owned()).collect();
    if fits(&rest) && rest.iter().all(|n| !n.is_empty()) {
        return Heads { prefix: format!("{prefix}…"), names: rest };
    }
    let slots = members.iter().map(|m| m.slot.map_or("-".to_owned(), |s| s.to_string())).collect();
    Heads { prefix: "by slot".to_owned(), names: slots }
}

/// The unit, the meaning of the colours, and the range of members on the screen if not all fit.
fn scale(scene: &Scene<'_>, range: &std::ops::Range<usize>, members: usize) -> Line<'static> {
    let unit = match scene.state.measure {
        Measure::Requests => "requests/s",
        Measure::Bytes => "bytes/s",
    };
    let mut spans = vec![Span::styled(format!("   {unit}; times the mean: "), scene.palette.dim())];
    for ratio in [1.25, 1.5, 2.0, 3.0, 4.0] {
        spans.push(Span::styled(format!(" {ratio} "), scene.palette.heat(ratio)));
    }
    if range.len() < members {
        spans.push(Span::styled(
            format!("  {}-{} of {members}: h l", range.start + 1, range.end),
            scene.palette.dim(),
        ));
    }
    Line::from(spans)
}

/// Details of the selected cell.
fn detail(row: &OriginRow, scene: &Scene<'_>) -> Option<String> {
    let member = scene.array.members.get(scene.state.member)?;
    let slot = member.slot.map_or("no slot".to_owned(), |s| format!("slot {s}"));
    let value = row.each.get(scene.state.member).copied().unwrap_or(0.0);
    let share = if row.total > 0.0 { value / row.total } else { 0.0 };
    let mut parts = vec![format!(
        "{} on {} ({slot}): {} of all",
        row.name(),
        clean(&member.name),
        units::percent(share),
    )];
    for c in member.io.iter().filter(|c| row.has(c, scene.filter())) {
        if c.requests == c.empty_writes() {
            continue;
        }
        parts.push(format!(
            "{} {}/s {}/s, device p50 {} p99 {}",
            c.op,
            units::count((c.requests - c.empty_writes()) as f64 / scene.secs),
            text::glue(&units::bytes(c.bytes as f64 / scene.secs)),
            units::latency(c.device.quantile(0.5)),
            units::latency(c.device.quantile(0.99)),
        ));
    }
    Some(parts.join("; "))
}
