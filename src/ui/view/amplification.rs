//! View 6: what IO of each origin cost below, a row an origin and operation. Over the window of the headline, not the
//! interval: bytes submitted now are written later.

use ratatui::text::{Line, Span};

use super::table::{self, Spec, cell, figure, heading, name};
use super::{Pen, Scene, bar};
use crate::analysis::amplification;
use crate::analysis::amplification::Amplification;
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot};
use crate::analysis::units;
use crate::origin::{Op, io_name};
use crate::ui::palette::letter;
use crate::ui::rows;
use crate::ui::rows::{AmplificationRow, Column};
use crate::ui::text;
use crate::ui::text::{clean, glue};

/// A bar shorter than this says nothing.
const BAR: usize = 10;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let mut rows = rows::amplification(scene.array, scene.filter());
    let (column, reversed) = scene.sort();
    rows::sort(&mut rows, column, reversed);
    // What nobody asked for is not amplification, and a resync must not dwarf the bars of what is.
    rows.sort_by_key(|r| r.sums.is_unasked());
    let specs = specs(&rows, scene.array, pen.width());
    let bar_columns =
        (pen.width() - 1).saturating_sub(specs.iter().map(|s| s.width).sum::<usize>() + 1);
    let mut head = heading(&specs, scene);
    if bar_columns >= BAR {
        head.push(Span::styled(" below", scene.palette.title()));
    }
    pen.line(&Line::from(head));

    // Discards move nothing, and would dwarf the bars of what does.
    let has_bar = |r: &&AmplificationRow| {
        let op = r.sums.op;
        !r.sums.is_unasked() && (op != Op::Discard || scene.filter().op == Some(op))
    };
    let asked = || rows.iter().filter(has_bar);
    let all: Vec<_> = asked().flat_map(AmplificationRow::parts).collect();
    let (legend, details) = bar::room_below(pen, scene, rows.len() + 2);
    let selected = scene.row(rows.len());
    let mut below = foot(scene, pen.width(), legend);
    below.extend(bar::legend(
        &rows::legend(all.iter()),
        pen.width(),
        legend,
        scene.palette,
        scene.filter().op,
    ));
    if let Some(row) = rows.get(selected).filter(|_| details > 0) {
        let lines = text::wrap(&detail(row), pen.width(), details);
        below.extend(
            lines
                .into_iter()
                .map(|l| Line::from(Span::styled(l, scene.palette.dim()))),
        );
    }
    let area = pen.take_bottom(below.len() as u16);

    let most = asked()
        .map(|r| r.sums.below() as f64 / r.secs)
        .fold(0.0, f64::max);
    let first = pen.first(rows.len(), selected);
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let mut spans = vec![scene.mark(i, selected)];
        for spec in &specs {
            if spec.column == Column::Origin {
                spans.push(Span::raw(" "));
                spans.push(Span::styled(
                    letter(row.sums.origin).to_string(),
                    scene.palette.origin(row.sums.origin),
                ));
                spans.push(Span::raw(format!(
                    " {}",
                    text::left(io_name(row.sums.origin, row.sums.op), spec.width - 3)
                )));
            } else {
                spans.push(Span::raw(cell(spec, &value(row, spec.column))));
            }
        }
        if bar_columns >= BAR && has_bar(&row) {
            spans.push(Span::raw(" "));
            spans.extend(bar::stacked(&row.parts(), most, bar_columns, scene.palette));
        }
        pen.line(&Line::from(spans));
    }
    if rows.is_empty() {
        pen.text("  nothing submitted and nothing moved", scene.palette.dim());
    }
    let mut pen = Pen::new(pen.buffer, area);
    for line in &below {
        pen.line(line);
    }
}

fn specs(rows: &[AmplificationRow], array: &ArraySnapshot, width: usize) -> Vec<Spec> {
    let widest = |f: &dyn Fn(&AmplificationRow) -> usize| rows.iter().map(f).max().unwrap_or(0);
    let any = |f: &dyn Fn(&AmplificationRow) -> u64| rows.iter().any(|r| f(r) > 0);
    let parity = matches!(array.info.level.as_str(), "raid4" | "raid5" | "raid6");
    let mut all = vec![
        name(
            Column::Origin,
            2 + widest(&|r| r.sums.origin.name().len()).clamp(7, 17),
            12,
        ),
        name(
            Column::Op,
            widest(&|r| r.sums.op.name().len()).clamp(5, 12),
            10,
        ),
        figure(Column::Submitted, 7, 8),
        figure(Column::Data, 7, 3),
    ];
    if parity || any(&|r| r.sums.parity) {
        all.push(figure(Column::Parity, 7, 5));
    }
    if parity || any(&|r| r.sums.rmw_read) {
        all.push(figure(Column::PreRead, 7, 6));
    }
    if any(&|r| r.sums.md_bitmap) {
        all.push(figure(Column::MdBitmap, 7, 2));
    }
    if any(&|r| r.sums.md_journal) {
        all.push(figure(Column::MdJournal, 7, 4));
    }
    all.push(figure(Column::Below, 7, 9));
    all.push(figure(Column::Factor, 8, 11));
    let bar = match width {
        0..60 => 0,
        60..100 => BAR + 1,
        _ => 30,
    };
    table::fit(all, width.saturating_sub(1 + bar))
}

fn value(row: &AmplificationRow, column: Column) -> String {
    let mib = |bytes: u64| units::mib(bytes as f64 / row.secs);
    let r = &row.sums;
    match column {
        Column::Op => r.op.name().to_owned(),
        Column::Submitted => mib(r.submitted),
        Column::Data => mib(r.data),
        Column::Parity => mib(r.parity),
        Column::PreRead => mib(r.rmw_read),
        Column::MdBitmap => mib(r.md_bitmap),
        Column::MdJournal => mib(r.md_journal),
        Column::Below => mib(r.below()),
        Column::Factor => units::factor(r.factor()),
        _ => String::new(),
    }
}

/// The array as a whole, and what its level would have it cost.
fn foot(scene: &Scene<'_>, columns: usize, lines: usize) -> Vec<Line<'static>> {
    let Some(amplification) = scene.array.amplification.as_ref().filter(|_| lines > 0) else {
        return Vec::new();
    };
    let mut text = text::wrap(&sum(amplification), columns, lines);
    if lines > 1 {
        text.push(text::cut(&level(&scene.array.info), columns).into_owned());
    }
    text.into_iter()
        .map(|text| Line::from(Span::styled(text, scene.palette.title())))
        .collect()
}

/// `all: write 12.0 in, 48.0 below, 4.0x; read 5.7 in, 5.7 below, 1.0x; md by itself 8.2`
fn sum(amplification: &Amplification) -> String {
    let secs = rows::seconds(amplification.over);
    let mib = |bytes: u64| units::mib(bytes as f64 / secs);
    let mut parts = Vec::new();
    for op in [Op::Write, Op::Read, Op::Discard, Op::WriteZeroes, Op::Other] {
        let total = amplification.total(op);
        if total.submitted > 0 || total.below() > 0 {
            parts.push(glue(&format!(
                "{op} {} in, {} below, {}",
                mib(total.submitted),
                mib(total.below()),
                units::factor(total.factor())
            )));
        }
    }
    let unasked = amplification.unasked();
    if unasked > 0 {
        parts.push(glue(&format!("md by itself {}", mib(unasked))));
    }
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    format!("all: {}", parts.join("; "))
}

/// What the level costs, so that a factor can be judged.
fn level(info: &ArrayInfo) -> String {
    let level = clean(&info.level);
    match (info.level.as_str(), amplification::expected(info)) {
        ("single", _) => "a single disk: 1.0x is what it costs".to_owned(),
        ("raid1", Some((copies, _))) => {
            format!("raid1 of {0}: a write costs {copies:.1}x", info.disks)
        }
        ("raid10", _) => "raid10: a write costs as many as there are copies".to_owned(),
        (_, Some((1.0, _))) => format!("{level} keeps one copy: 1.0x is what it costs"),
        (_, Some((full, alone))) => {
            let data = u64::from(info.disks) as f64 / full;
            let stripe = units::size(info.chunk_bytes.saturating_mul(data.round() as u64));
            format!(
                "{level} of {}: full stripes ({stripe}) cost {full:.2}x, blocks by themselves up to {alone:.1}x",
                info.disks
            )
        }
        (_, None) => String::new(),
    }
}

/// `file_data write: for each byte in 1.00 data + 1.00 parity + 2.00 pre-read`
fn detail(row: &AmplificationRow) -> String {
    let r = &row.sums;
    let what = format!("{} {}", r.origin, r.op);
    match rows::price(r).as_deref() {
        Some("") => format!("{what}: nothing has reached the members yet"),
        Some(price) => format!("{what}: for each byte in {price}"),
        None if !r.is_mds_own() => format!("{what}: submitted before"),
        None if r.is_unasked() => format!("{what}: md's own work, no IO asked for it"),
        None => format!("{what}: nothing was written that it could be charged to"),
    }
}
