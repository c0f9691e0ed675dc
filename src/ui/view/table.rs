//! Columns of a table: which of them fit, their heading, their cells.

use ratatui::style::Modifier;
use ratatui::text::Span;

use super::Scene;
use crate::ui::rows;
use crate::ui::rows::Column;
use crate::ui::text;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// What it shows.
    pub column: Column,
    /// Columns it takes, the space before it included.
    pub width: usize,
    /// Flush left, for names.
    pub left: bool,
    /// The lowest go first when the screen is narrow.
    pub keep: u8,
}

/// A column of figures.
pub const fn figure(column: Column, width: usize, keep: u8) -> Spec {
    Spec {
        column,
        width,
        left: false,
        keep,
    }
}

/// A column of names.
pub const fn name(column: Column, width: usize, keep: u8) -> Spec {
    Spec {
        column,
        width: width + 1,
        left: true,
        keep,
    }
}

/// The specs that fit into `width` columns.
pub fn fit(mut specs: Vec<Spec>, width: usize) -> Vec<Spec> {
    while specs.iter().map(|s| s.width).sum::<usize>() > width {
        let Some(least) = specs
            .iter()
            .enumerate()
            .min_by_key(|(_, s)| s.keep)
            .map(|(i, _)| i)
        else {
            break;
        };
        specs.remove(least);
    }
    specs
}

/// The heading; the column that sorts is marked with the direction.
pub fn heading(specs: &[Spec], scene: &Scene<'_>) -> Vec<Span<'static>> {
    let (sorted, reversed) = scene.sort();
    let mut spans = vec![Span::raw(" ")];
    for spec in specs {
        let mut title = match (spec.column, rows::span(scene.array, scene.secs)) {
            (Column::BusyOver, Some(span)) => rows::span_title(span),
            (column, _) => column.title().to_owned(),
        };
        let mut style = scene.palette.title();
        if spec.column == sorted {
            let upwards = sorted.is_name() != reversed;
            let mark = if upwards { '▲' } else { '▼' };
            title = if spec.left {
                format!("{title}{mark}")
            } else {
                format!("{mark}{title}")
            };
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        // The space between columns stays plain; a marked figure may use it.
        if spec.left {
            spans.push(Span::raw(" "));
            spans.push(Span::styled(text::left(&title, spec.width - 1), style));
        } else {
            let pad = spec.width.saturating_sub(text::width(&title));
            spans.push(Span::raw(" ".repeat(pad)));
            spans.push(Span::styled(title, style));
        }
    }
    spans
}

/// A cell, space before it included.
pub fn cell(spec: &Spec, value: &str) -> String {
    if spec.left {
        format!(" {}", text::left(value, spec.width - 1))
    } else {
        format!(" {}", text::right(value, spec.width - 1))
    }
}
