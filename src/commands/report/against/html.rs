//! The comparison as one self-contained HTML page: the sentences, then the text.

use maud::html;

use super::compared::Compared;
use super::text::{busy, write};
use crate::analysis::compare::comparison::ComparisonVerdict;
use crate::commands::report::lines::file_name;
use crate::ui::html::page::{self, Tone, message};
use crate::ui::html::text;

pub fn draw(compared: &Compared<'_>) -> String {
    let [before, after] = compared.recordings.each_ref().map(|r| file_name(r.path));
    let title = format!("raidtrace: {after} against {before}");
    let tone = |verdict| match verdict {
        ComparisonVerdict::Worse | ComparisonVerdict::Mixed => Tone::Warning,
        ComparisonVerdict::Better => Tone::Good,
        _ => Tone::Info,
    };
    let mut lines = Vec::new();
    // Memory takes every write.
    write(&mut lines, compared).unwrap_or_default();
    let body = html! {
        header { h1 { (text(&title)) } }
        main {
            @for array in busy(compared) {
                div.headline { (message(tone(array.verdict), &array.headline)) }
            }
            div.wide tabindex="0" role="region" aria-label="The comparison" {
                pre { (String::from_utf8_lossy(&lines)) }
            }
        }
    };
    page::page(&title, &body)
}
