//! Shapes over time, drawn as SVG: stacked bars, lines and heat maps in panels that share one time
//! axis.
//!
//! The picture is as wide as its container and has a fixed height. It has no text, which would be
//! distorted: labels are HTML beside it.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::{table, text};

/// Height of a panel, in pixels.
pub const PANEL: usize = 46;
/// Height of a [`strip`].
const STRIP: usize = 14;

/// Panels below each other, with the same columns.
#[derive(Debug)]
pub struct Plot {
    /// Start and width of each column, 0.0..=1000.0, rounded.
    columns: Vec<(f64, f64)>,
    panels: Vec<PlotPanel>,
    /// Text for each column, shown when the pointer is over it.
    titles: Vec<String>,
    axis: (String, String),
    name: String,
}

/// One panel: a label above it, and shapes.
#[derive(Debug)]
struct PlotPanel {
    label: String,
    /// Label of the top and of the bottom, at the right edge.
    scale: (String, String),
    height: usize,
    shapes: Vec<Shape>,
}

/// Shapes with one class, as the data of an SVG path.
#[derive(Debug)]
struct Shape {
    class: String,
    path: String,
}

impl Plot {
    /// Columns from `widths`, which need not be equal: intervals of a recording.
    pub fn new(name: impl Into<String>, widths: &[f64], axis: (String, String)) -> Self {
        let sum: f64 = widths.iter().sum();
        let scale = if sum > 0.0 { 1000.0 / sum } else { 0.0 };
        let mut at = 0.0;
        let columns = widths.iter().map(|width| {
            let column = (n(at), n(width * scale));
            at += width * scale;
            column
        });
        Self {
            columns: columns.collect(),
            panels: Vec::new(),
            titles: Vec::new(),
            axis,
            name: name.into(),
        }
    }

    /// Sets the text of each column, shown when the pointer is over it.
    pub fn set_titles(&mut self, titles: Vec<String>) {
        self.titles = titles;
    }

    /// Adds a panel of stacked bars: class of each layer, and its value in each column. A stack of
    /// `most` has the full height.
    pub fn stack(
        &mut self,
        label: impl Into<String>,
        scale: impl Into<String>,
        layers: &[(String, Vec<f64>)],
        most: f64,
    ) {
        let height = PANEL as f64;
        let factor = if most > 0.0 { height / most } else { 0.0 };
        let mut tops = vec![0.0; self.columns.len()];
        let mut shapes = Vec::new();
        for (class, values) in layers {
            let mut path = String::new();
            for ((&(x, width), top), value) in self.columns.iter().zip(&mut tops).zip(values) {
                let tall = (value.max(0.0) * factor).min(height - *top);
                if tall >= 0.05 {
                    let y = height - *top - tall;
                    let _ = write!(path, "M{x} {}h{width}v{}h-{width}z", n(y), n(tall));
                    *top += tall;
                }
            }
            push(&mut shapes, class, path);
        }
        self.panel(label, (scale.into(), String::new()), PANEL, shapes);
    }

    /// Adds a panel of lines: class of each line, and its value in each column, `None` where it is
    /// unknown. A value of `most` has the full height.
    pub fn lines(
        &mut self,
        label: impl Into<String>,
        scale: impl Into<String>,
        lines: &[(String, Vec<Option<f64>>)],
        most: f64,
    ) {
        let height = PANEL as f64;
        let factor = if most > 0.0 { height / most } else { 0.0 };
        let mut shapes = Vec::new();
        for (class, values) in lines {
            let mut path = String::new();
            let mut before = None;
            for (&(x, width), value) in self.columns.iter().zip(values) {
                let y = value.map(|v| height - (v.max(0.0) * factor).min(height));
                match (before, y) {
                    (Some(_), Some(y)) => {
                        let _ = write!(path, "V{}h{width}", n(y));
                    }
                    (None, Some(y)) => {
                        let _ = write!(path, "M{x} {}h{width}", n(y));
                    }
                    (_, None) => {}
                }
                before = y;
            }
            push(&mut shapes, &format!("line {class}"), path);
        }
        self.panel(label, (scale.into(), String::new()), PANEL, shapes);
    }

    /// Adds a heat map: rows from the bottom, each with a value per column. The strongest colour
    /// stands for `most`. `scale` labels the top and the bottom row.
    pub fn heat(
        &mut self,
        label: impl Into<String>,
        scale: (String, String),
        rows: &[Vec<f64>],
        most: f64,
        row_height: usize,
    ) {
        let height = row_height * rows.len();
        let mut paths: [String; 9] = Default::default();
        for (r, values) in rows.iter().enumerate() {
            let y = (height - (r + 1) * row_height) as f64;
            for (&(x, width), value) in self.columns.iter().zip(values) {
                let level = table::level(value / most.max(f64::MIN_POSITIVE));
                let path = level.and_then(|level| paths.get_mut(usize::from(level) - 1));
                if let Some(path) = path {
                    let _ = write!(path, "M{x} {y}h{width}v{row_height}h-{width}z");
                }
            }
        }
        let mut shapes = Vec::new();
        for (path, level) in paths.into_iter().zip(1..) {
            push(&mut shapes, &format!("f{level}"), path);
        }
        self.panel(label, scale, height, shapes);
    }

    fn panel(
        &mut self,
        label: impl Into<String>,
        scale: (String, String),
        height: usize,
        shapes: Vec<Shape>,
    ) {
        self.panels.push(PlotPanel { label: label.into(), scale, height, shapes });
    }

    /// The picture.
    pub fn draw(&self) -> Markup {
        html! {
            div.plot role="img" aria-label=(text(&self.name)) {
                @for panel in &self.panels {
                    div.panel {
                        p.label {
                            span { (text(&panel.label)) } span.scale { (text(&panel.scale.0)) }
                        }
                        svg viewBox=(format!("0 0 1000 {}", panel.height))
                            preserveAspectRatio="none"
                            style=(format!("height:{}px", panel.height))
                            xmlns="http://www.w3.org/2000/svg" {
                            @for shape in &panel.shapes {
                                path class=(shape.class) d=(shape.path) {}
                            }
                        }
                        @if !panel.scale.1.is_empty() {
                            p.label { span {} span.scale { (text(&panel.scale.1)) } }
                        }
                    }
                }
                @if !self.titles.is_empty() { (self.hover()) }
                p.axis { span { (text(&self.axis.0)) } span { (text(&self.axis.1)) } }
            }
        }
    }

    /// Transparent columns above all panels, each with its text.
    fn hover(&self) -> Markup {
        html! {
            svg.hover viewBox="0 0 1000 10" preserveAspectRatio="none"
                xmlns="http://www.w3.org/2000/svg" {
                @for (&(x, width), title) in self.columns.iter().zip(&self.titles) {
                    rect x=(x) width=(width) height="10" { title { (text(title)) } }
                }
            }
        }
    }
}

/// A row of cells, one per column of these widths, stronger for larger values (0.0..=1.0). `name`
/// says what they show.
pub fn strip(name: &str, widths: &[f64], values: &[f64]) -> Markup {
    let mut plot = Plot::new(name, widths, Default::default());
    plot.heat("", Default::default(), &[values.to_vec()], 1.0, STRIP);
    let shapes = plot.panels.iter().flat_map(|p| &p.shapes);
    html! {
        svg.cells viewBox=(format!("0 0 1000 {STRIP}")) preserveAspectRatio="none" role="img"
            xmlns="http://www.w3.org/2000/svg" {
            title { (text(name)) }
            @for shape in shapes { path class=(shape.class) d=(shape.path) {} }
        }
    }
}

fn push(shapes: &mut Vec<Shape>, class: &str, path: String) {
    if !path.is_empty() {
        shapes.push(Shape { class: class.to_owned(), path });
    }
}

/// A coordinate, rounded to a tenth to keep the page short; 0 if it is not finite.
fn n(value: f64) -> f64 {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.is_finite() { rounded } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::Plot;
    use proptest::prelude::*;

    #[test]
    fn bars_are_stacked_from_the_bottom() {
        let mut plot = Plot::new("loop1", &[1.0, 1.0], ("0:00".into(), "0:02".into()));
        let layers = [("o1".to_owned(), vec![1.0, 0.0]), ("o2".to_owned(), vec![1.0, 4.0])];
        plot.stack("requests", "4", &layers, 4.0);
        let page = plot.draw().into_string();
        assert!(page.contains(r#"<path class="o1" d="M0 34.5h500v11.5h-500z">"#), "{page}");
        assert!(
            page.contains(r#"<path class="o2" d="M0 23h500v11.5h-500zM500 0h500v46h-500z">"#),
            "{page}"
        );
    }

    #[test]
    fn a_line_ends_where_its_value_is_unknown() {
        let mut plot = Plot::new("", &[1.0; 4], Default::default());
        let values = vec![Some(1.0), Some(2.0), None, Some(0.0)];
        plot.lines("p99", "2", &[("a".to_owned(), values)], 2.0);
        let page = plot.draw().into_string();
        assert!(page.contains(r#"d="M0 23h250V0h250M750 46h250""#), "{page}");
    }

    proptest! {
        #[test]
        fn every_coordinate_is_finite(
            values in prop::collection::vec(any::<f64>(), 1..20), most in any::<f64>()
        ) {
            let mut plot = Plot::new("", &values, Default::default());
            let two = ["a", "b"].map(|name| (name.to_owned(), values.clone()));
            plot.stack("", "", &two, most);
            let known = values.iter().copied().map(Some).collect();
            plot.lines("", "", &[("a".to_owned(), known)], most);
            plot.heat("", Default::default(), std::slice::from_ref(&values), most, 4);
            let page = plot.draw().into_string();
            prop_assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        }
    }
}
