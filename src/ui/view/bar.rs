//! Stacked bars of origins, and their legend.

use ratatui::text::{Line, Span};

use crate::analysis::units;
use crate::origin::{Op, io_name};
use crate::ui::palette::{Palette, letter};
use crate::ui::rows::BarPart;
use crate::ui::text;

/// A bar of `parts` in which `most` would fill all `columns`. Each origin has its letter and
/// colour.
pub fn stacked(
    parts: &[BarPart],
    most: f64,
    columns: usize,
    palette: Palette,
) -> Vec<Span<'static>> {
    let total: f64 = parts.iter().map(|p| p.1).sum();
    if total <= 0.0 || most <= 0.0 || !(total / most).is_finite() {
        return Vec::new();
    }
    // At least one cell for any IO.
    let length = ((total / most * columns as f64).round() as usize).clamp(1, columns.max(1));
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    // Rounding the running sum makes the cells add up to the length.
    for &(origin, value) in parts {
        sum += value;
        let end = ((sum / total * length as f64).round() as usize).min(length);
        if end > drawn {
            let cells = letter(origin).to_string().repeat(end - drawn);
            spans.push(Span::styled(cells, palette.origin(origin)));
            drawn = end;
        }
    }
    spans
}

/// `f file_data 40%  B block_bitmap 25% ...`, in at most `lines` lines of `columns`. `op` is the
/// only operation in `parts`, if set.
pub fn legend(
    parts: &[BarPart],
    columns: usize,
    lines: usize,
    palette: Palette,
    op: Option<Op>,
) -> Vec<Line<'static>> {
    if lines == 0 {
        return Vec::new();
    }
    let total: f64 = parts.iter().map(|p| p.1).sum();
    let mut out: Vec<Line<'static>> = vec![Line::default()];
    for &(origin, value) in parts {
        let mark = format!("{}", letter(origin));
        let name = io_name(origin, op.unwrap_or(Op::Other));
        let label = format!(" {name} {}  ", units::percent_short(value / total));
        let used = out.last().map_or(0, Line::width);
        if used + 1 + text::width(label.trim_end()) > columns {
            if out.len() == lines {
                break;
            }
            out.push(Line::default());
        }
        if let Some(line) = out.last_mut() {
            line.push_span(Span::styled(mark, palette.origin(origin)));
            line.push_span(Span::raw(label));
        }
    }
    out
}

/// The block character for a `share` from 0.0 to 1.0.
pub fn height(share: f64) -> char {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // `as` saturates, and converts NaN to 0.
    HEIGHTS[((share * 8.0) as usize).min(HEIGHTS.len() - 1)]
}
