//! View 2: origin x member as a heat map. A cell glows by how far it is above the mean of its row, so that an even
//! load is plain and a hot spot is not.

use ratatui::text::{Line, Span};

use super::{Pen, Scene};
use crate::analysis::snapshot::MemberSnapshot;
use crate::analysis::units;
use crate::ui::palette::letter;
use crate::ui::rows;
use crate::ui::rows::{Column, Measure, OriginRow};
use crate::ui::text;
use crate::ui::text::clean;

/// Columns of a figure, the space before it included.
const CELL: usize = 5;
/// The same where bytes are shown or the screen is wide.
const WIDE: usize = 6;
/// Rows below this share of everything stay plain: one superblock write is always on one member.
const GLOWS: f64 = 0.01;

/// How the columns lie.
struct Grid {
    with_total: bool,
    /// Columns of a cell, the space before it included.
    cell: usize,
    /// The members that are on the screen.
    range: std::ops::Range<usize>,
}

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (mut rows, sum) = rows::heat(scene.array, scene.secs, scene.filter(), scene.state.measure);
    let (column, reversed) = scene.sort();
    rows::sort(&mut rows, column, reversed);
    let members = &scene.array.members;
    let selected = scene.row(rows.len());

    let names = rows
        .iter()
        .map(|r| r.name().len())
        .max()
        .unwrap_or(6)
        .max(9);
    let with_total = pen.width() >= 100;
    let fixed = 3 + names + 6 + if with_total { 7 } else { 0 };
    let cell = if pen.width() >= fixed + members.len() * WIDE {
        WIDE
    } else {
        CELL
    };
    let shown = (pen.width().saturating_sub(fixed) / cell).min(members.len());
    let first = scene
        .state
        .member
        .saturating_sub(shown / 2)
        .min(members.len() - shown);
    let range = first..first + shown;
    let grid = Grid {
        with_total,
        cell,
        range: range.clone(),
    };

    let heads = heads(members, cell - 1);
    let mut head = vec![
        Span::raw(" "),
        sort_title(
            scene,
            Column::Origin,
            &format!("  {}", heads.prefix),
            names + 2,
        ),
        sort_title(scene, Column::Skew, "skew", 6),
    ];
    if with_total {
        head.push(sort_title(scene, Column::Total, "total", 7));
    }
    for i in range.clone() {
        let style = if i == scene.state.member && !scene.is_panel {
            scene.palette.selected()
        } else {
            scene.palette.title()
        };
        head.push(Span::raw(" "));
        head.push(Span::styled(text::right(&heads.names[i], cell - 1), style));
    }
    pen.line(&Line::from(head));

    let details = detail(
        rows.get(selected),
        scene,
        pen.width(),
        match pen.lines() {
            _ if scene.is_panel => 0,
            0..8 => 1,
            _ => 3,
        },
    );
    let has_scale = pen.lines() >= 8 && !scene.is_panel;
    let below = pen.take_bottom(details.len() as u16 + u16::from(has_scale));
    let rows_below = usize::from(rows.len() > 1);
    let lines = pen.lines().saturating_sub(rows_below);
    let start = selected
        .saturating_sub(lines / 2)
        .min(rows.len().saturating_sub(lines));
    for (i, row) in rows.iter().enumerate().skip(start).take(lines) {
        let label = vec![
            scene.mark(i, selected),
            Span::styled(
                letter(row.origin).to_string(),
                scene.palette.origin(row.origin),
            ),
            Span::raw(format!(" {}", text::left(&row.name(), names))),
        ];
        let glows = row.total >= GLOWS * sum.total;
        line(pen, scene, &grid, label, row, glows);
    }
    if rows.len() > 1 {
        let label = vec![Span::styled(
            format!("   {}", text::left("all", names)),
            scene.palette.title(),
        )];
        line(pen, scene, &grid, label, &sum, true);
    } else if rows.is_empty() {
        pen.text("  nothing in this interval", scene.palette.dim());
    }
    let mut pen = Pen::new(pen.buffer, below);
    if pen.lines() > details.len() {
        pen.line(&scale(scene, range, members.len()));
    }
    for line in &details {
        pen.line(line);
    }
}

fn sort_title(scene: &Scene<'_>, column: Column, title: &str, width: usize) -> Span<'static> {
    let (sorted, reversed) = scene.sort();
    let mark = if column != sorted {
        ""
    } else if column.is_name() != reversed {
        "▲"
    } else {
        "▼"
    };
    let title = if column == Column::Origin {
        text::left(&format!("{title}{mark}"), width)
    } else {
        text::right(&format!("{mark}{title}"), width)
    };
    Span::styled(title, scene.palette.title())
}

/// Short names of the members: without what all of them begin with, or their slots.
struct Heads {
    /// What the corner says: `loop…`, or `slot`.
    prefix: String,
    names: Vec<String>,
}

fn heads(members: &[MemberSnapshot], columns: usize) -> Heads {
    let names: Vec<_> = members
        .iter()
        .map(|m| clean(&m.name).into_owned())
        .collect();
    let fits = |names: &[String]| names.iter().all(|n| text::width(n) <= columns);
    if fits(&names) {
        return Heads {
            prefix: "origin".to_owned(),
            names,
        };
    }
    let first = names.first().cloned().unwrap_or_default();
    let mut common = first.len();
    for name in &names {
        common = common.min(
            first
                .bytes()
                .zip(name.bytes())
                .take_while(|(a, b)| a == b)
                .count(),
        );
    }
    while !first.is_char_boundary(common) {
        common -= 1;
    }
    // Whole numbers, or `loop1` and `loop10` would become `` and `0`.
    let prefix = first[..common]
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_owned();
    let rest: Vec<String> = names.iter().map(|n| n[prefix.len()..].to_owned()).collect();
    if fits(&rest) && rest.iter().all(|n| !n.is_empty()) {
        return Heads {
            prefix: format!("{prefix}…"),
            names: rest,
        };
    }
    let slots = members
        .iter()
        .map(|m| m.slot.map_or("-".to_owned(), |s| s.to_string()))
        .collect();
    Heads {
        prefix: "by slot".to_owned(),
        names: slots,
    }
}

fn figure(scene: &Scene<'_>, value: f64) -> String {
    match scene.state.measure {
        Measure::Requests => units::count(value),
        Measure::Bytes => units::bytes_short(value),
    }
}

fn line(
    pen: &mut Pen<'_>,
    scene: &Scene<'_>,
    grid: &Grid,
    label: Vec<Span<'static>>,
    row: &OriginRow,
    glows: bool,
) {
    let mut spans = label;
    let skew = match row.skew {
        s if s <= 0.0 => "-".to_owned(),
        s if s < 99.95 => format!("{s:.1}x"),
        s => format!("{:.0}x", s.min(9999.0)),
    };
    spans.push(Span::raw(text::right(&skew, 6)));
    if grid.with_total {
        spans.push(Span::raw(text::right(&figure(scene, row.total), 7)));
    }
    for &value in &row.each[grid.range.clone()] {
        spans.push(Span::raw(" "));
        // A cell is one column too narrow for the widest figures: 12.3k, 1.23M.
        let mut shown = figure(scene, value);
        if shown.len() > grid.cell - 1
            && let Some((whole, tail)) = shown.split_once('.')
        {
            shown = format!(
                "{whole}{}",
                tail.trim_start_matches(|c: char| c.is_ascii_digit())
            );
        }
        let ratio = if glows && row.mean > 0.0 {
            value / row.mean
        } else {
            0.0
        };
        if value <= 0.0 {
            spans.push(Span::styled(
                text::right("·", grid.cell - 1),
                scene.palette.dim(),
            ));
        } else {
            spans.push(Span::styled(
                text::right(&shown, grid.cell - 1),
                scene.palette.heat(ratio),
            ));
        }
    }
    pen.line(&Line::from(spans));
}

/// What a colour means, and which members are not on the screen.
fn scale(scene: &Scene<'_>, range: std::ops::Range<usize>, members: usize) -> Line<'static> {
    let unit = match scene.state.measure {
        Measure::Requests => "requests/s",
        Measure::Bytes => "bytes/s",
    };
    let mut spans = vec![Span::styled(
        format!("   {unit}; times the mean: "),
        scene.palette.dim(),
    )];
    for ratio in [1.25, 1.5, 2.0, 3.0, 4.0] {
        spans.push(Span::styled(
            format!(" {ratio} "),
            scene.palette.heat(ratio),
        ));
    }
    if range.len() < members {
        spans.push(Span::styled(
            format!("  {}-{} of {members}: h l", range.start + 1, range.end),
            scene.palette.dim(),
        ));
    }
    Line::from(spans)
}

/// The selected cell in full.
fn detail(
    row: Option<&OriginRow>,
    scene: &Scene<'_>,
    columns: usize,
    lines: usize,
) -> Vec<Line<'static>> {
    let (Some(row), Some(member)) = (row, scene.array.members.get(scene.state.member)) else {
        return Vec::new();
    };
    if lines == 0 {
        return Vec::new();
    }
    let slot = member
        .slot
        .map_or("no slot".to_owned(), |s| format!("slot {s}"));
    let share = row
        .each
        .get(scene.state.member)
        .map_or(0.0, |v| if row.total > 0.0 { v / row.total } else { 0.0 });
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
    let text = parts.join("; ");
    text::wrap(&text, columns, lines)
        .into_iter()
        .map(|l| Line::from(Span::styled(l, scene.palette.dim())))
        .collect()
}
