//! Tables of figures.

use maud::{Markup, html};

use super::text;

/// A table: headings, rows, and a sentence about rows that are left out.
#[derive(Debug, Default)]
pub struct HtmlTable {
    caption: String,
    columns: Vec<HtmlColumn>,
    rows: Vec<Vec<HtmlCell>>,
    left_out: Option<String>,
    class: &'static str,
}

#[derive(Debug)]
struct HtmlColumn {
    title: String,
    is_text: bool,
}

#[derive(Clone, Debug, Default)]
pub struct HtmlCell {
    text: String,
    /// Strength of the cell's colour, 1 to 9; the figure itself is in `text`.
    heat: Option<u8>,
    /// Shown when the pointer is over the cell.
    title: Option<String>,
}

impl HtmlCell {
    /// A cell with untrusted text or a figure.
    pub fn new(value: impl Into<String>) -> Self {
        Self { text: value.into(), ..Self::default() }
    }

    /// Colours the cell by a share, 0.0..=1.0; a larger one has the strongest colour.
    pub fn with_heat(mut self, share: f64) -> Self {
        self.heat = level(share);
        self
    }

    /// Adds a text that is shown when the pointer is over the cell.
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

/// Step of a colour scale, 1 to 9; `None` for 0.
pub fn level(share: f64) -> Option<u8> {
    (share > 0.0).then(|| (share.min(1.0) * 9.0).ceil() as u8)
}

impl<T: Into<String>> From<T> for HtmlCell {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl HtmlTable {
    /// A table without columns. `caption` is shown above it, and read out by screen readers.
    pub fn new(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..Self::default() }
    }

    /// Adds a column of figures, flush right.
    pub fn figure(mut self, title: impl Into<String>) -> Self {
        self.columns.push(HtmlColumn { title: title.into(), is_text: false });
        self
    }

    /// Adds a column of text, flush left, whose long words break.
    pub fn text(mut self, title: impl Into<String>) -> Self {
        self.columns.push(HtmlColumn { title: title.into(), is_text: true });
        self
    }

    /// Adds a row. Its first cell is the heading of the row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = HtmlCell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds at most `most` of `rows`, and a sentence with the number of the others: `20 more tasks
    /// are left out.`
    pub fn rows<R: IntoIterator<Item = HtmlCell>>(
        &mut self,
        rows: impl IntoIterator<Item = R>,
        most: usize,
        plural: &str,
    ) {
        let mut rows = rows.into_iter();
        for row in rows.by_ref().take(most) {
            self.row(row);
        }
        let more = rows.count();
        if more > 0 {
            self.left_out = Some(format!("{more} more {plural} are left out."));
        }
    }

    /// Colours cells as a heat map.
    pub fn as_heat_map(mut self) -> Self {
        self.class = "heat";
        self
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table. If it is too wide, it scrolls within its own box, not with the page.
    pub fn draw(&self) -> Markup {
        let is_text = |i: usize| self.columns.get(i).is_some_and(|c| c.is_text);
        html! {
            // Focusable, so that the keyboard can scroll it.
            div.wide tabindex="0" role="region" aria-label=(text(&self.caption)) {
                table class=(self.class) {
                    caption { (text(&self.caption)) }
                    thead {
                        tr {
                            @for column in &self.columns {
                                th scope="col" class=[column.is_text.then_some("text")] {
                                    (text(&column.title))
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (i, cell) in row.iter().enumerate() {
                                    @let class = class(cell, is_text(i));
                                    @let title = cell.title.as_deref().map(text);
                                    @if i == 0 {
                                        th scope="row" class=[class] title=[title] {
                                            (text(&cell.text))
                                        }
                                    } @else {
                                        td class=[class] title=[title] { (text(&cell.text)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if let Some(sentence) = &self.left_out {
                p.faint { (text(sentence)) }
            }
        }
    }
}

fn class(cell: &HtmlCell, is_text: bool) -> Option<String> {
    match (cell.heat, is_text) {
        (Some(heat), _) => Some(format!("h{heat}")),
        (None, true) => Some("text".to_owned()),
        (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{HtmlCell, HtmlTable, level};

    #[test]
    fn rows_beyond_the_limit_are_counted() {
        let mut table = HtmlTable::new("tasks").text("task").figure("writes");
        let row = |i: u32| [HtmlCell::new(format!("<b>{i}")), i.to_string().into()];
        table.rows((0..30).map(row), 10, "tasks");
        let page = table.draw().into_string();
        assert_eq!(page.matches("<tr>").count(), 11);
        assert!(page.contains("20 more tasks are left out."), "{page}");
        assert!(page.contains("&lt;b&gt;9") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn levels() {
        assert_eq!(
            [0.0, 1e-9, 0.5, 1.0, 7.0, f64::NAN].map(level),
            [None, Some(1), Some(5), Some(9), Some(9), None]
        );
    }
}
