//! Member bytes caused by IO of each origin and operation, over the last 10 s
//! ([`SPAN`](crate::analysis::window::SPAN), in which hotspots are found) rather than the interval,
//! because bytes submitted now are written later.

use ratatui::text::Line;

use super::Scene;
use super::table::TableView;
use crate::analysis::amplification::{self, Amplification};
use crate::analysis::snapshot::ArrayInfo;
use crate::analysis::units;
use crate::origin::{Op, io_name};
use crate::ui::rows::{self, AmplificationRow, BarPart};
use crate::ui::table::{Column, Columns, op_cell, origin_cell};
use crate::ui::text::{self, clean, glue};

pub(super) struct AmplificationView;

impl TableView for AmplificationView {
    type Row<'a> = AmplificationRow;
    const EMPTY: &'static str = "no IO submitted, none on the members";
    const BAR: &'static str = "below";
    const SPACE: usize = 2;

    fn rows(scene: &Scene<'_>) -> Vec<AmplificationRow> {
        rows::amplification(scene.array, scene.filter())
    }

    fn columns(
        rows: &[AmplificationRow],
        scene: &Scene<'_>,
        _: usize,
    ) -> Columns<AmplificationRow> {
        let widest = |f: fn(&AmplificationRow) -> usize| rows.iter().map(f).max().unwrap_or(0);
        let any = |f: fn(&AmplificationRow) -> u64| rows.iter().any(|r| f(r) > 0);
        let parity = matches!(scene.array.info.level.as_str(), "raid4" | "raid5" | "raid6");
        let mib = |title: &'static str, priority, rate: fn(&AmplificationRow) -> Option<f64>| {
            Column::figure(title, 7, priority, rate, units::mib)
        };
        Columns(vec![
            Column::ranked(
                "origin",
                2 + widest(|r| r.sums.origin.name().len()).clamp(7, 17),
                12,
                |r: &AmplificationRow, width, palette| {
                    let name = io_name(r.sums.origin, r.sums.op);
                    origin_cell(r.sums.origin, name, width, palette)
                },
                |r| r.sums.origin as u32,
            ),
            Column::ranked(
                "op",
                widest(|r| r.sums.op.name().len()).clamp(5, 12),
                10,
                |r, width, _| op_cell(r.sums.op, width),
                |r| r.sums.op as u32,
            ),
            mib("in", 8, |r| Some(r.rate(r.sums.submitted))),
            mib("data", 3, |r| Some(r.rate(r.sums.data))),
            mib("parity", 5, |r| Some(r.rate(r.sums.parity)))
                .shown_if(parity || any(|r| r.sums.parity)),
            mib("pre-rd", 6, |r| Some(r.rate(r.sums.rmw_read)))
                .shown_if(parity || any(|r| r.sums.rmw_read)),
            mib("bitmap", 2, |r| Some(r.rate(r.sums.md_bitmap)))
                .shown_if(any(|r| r.sums.md_bitmap)),
            mib("journl", 4, |r| Some(r.rate(r.sums.md_journal)))
                .shown_if(any(|r| r.sums.md_journal)),
            mib("below", 9, |r| Some(r.rate(r.sums.below()))).default_if(true),
            Column::figure("factor", 8, 11, |r| r.sums.factor(), |f| units::factor(Some(f))),
        ])
    }

    fn reserved(screen: usize) -> usize {
        match screen {
            0..60 => 0,
            60..100 => 11,
            _ => 30,
        }
    }

    /// Rows that are not caused by IO of the array are not amplification.
    fn is_last(row: &AmplificationRow) -> bool {
        row.sums.is_md_background()
    }

    /// No bars for resync and discards, which would dwarf the others.
    fn parts(row: &AmplificationRow, scene: &Scene<'_>) -> Vec<BarPart> {
        let op = row.sums.op;
        let kept = op != Op::Discard || scene.filter().op == Some(op);
        match kept && !row.sums.is_md_background() {
            true => row.parts(),
            false => Vec::new(),
        }
    }

    /// Totals of the array, and the expected factor of its level.
    fn totals(scene: &Scene<'_>, width: usize, lines: usize) -> Vec<Line<'static>> {
        let amplification = scene.array.amplification.as_ref();
        let Some(amplification) = amplification.filter(|_| lines > 0) else {
            return Vec::new();
        };
        let mut text = text::wrap(&sum(amplification), width, lines);
        if lines > 1 {
            text.push(text::cut(&expected_factor(&scene.array.info), width).into_owned());
        }
        let style = scene.palette.title();
        text.into_iter().map(|l| Line::styled(l, style)).collect()
    }

    /// `file_data write: one byte costs 1.00 data + 1.00 parity + 2.00 pre-read`
    fn detail(row: &AmplificationRow, _: &Scene<'_>) -> String {
        let r = &row.sums;
        let text = match rows::price(r).as_deref() {
            Some("") => "nothing has reached the members yet".to_owned(),
            Some(price) => format!("one byte costs {price}"),
            None if !r.is_md_overhead() => "submitted before this time window".to_owned(),
            None if r.is_md_background() => {
                "md's own work, not caused by IO of the array".to_owned()
            }
            None => "there was no write to charge it to".to_owned(),
        };
        format!("{} {}: {text}", r.origin, r.op)
    }
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
    let background = amplification.md_background_bytes();
    if background > 0 {
        parts.push(glue(&format!("md by itself {}", mib(background))));
    }
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    format!("all: {}", parts.join("; "))
}

/// Expected factor of the level, for comparison.
fn expected_factor(info: &ArrayInfo) -> String {
    let level = clean(&info.level);
    match (info.level.as_str(), amplification::expected(info)) {
        ("single", _) => "a single disk: expected factor 1.0x".to_owned(),
        ("raid1", Some((copies, _))) => {
            format!("raid1 of {0}: a write costs {copies:.1}x", info.disks)
        }
        ("raid10", _) => "raid10: a write costs 1.0x per copy".to_owned(),
        (_, Some((1.0, _))) => format!("{level} keeps one copy: expected factor 1.0x"),
        (_, Some((full, alone))) => {
            let data = u64::from(info.disks) as f64 / full;
            let stripe = units::size(info.chunk_bytes.saturating_mul(data.round() as u64));
            format!(
                "{level} of {}: full stripes ({stripe}) cost {full:.2}x, single blocks up to \
                 {alone:.1}x",
                info.disks
            )
        }
        (_, None) => String::new(),
    }
}
