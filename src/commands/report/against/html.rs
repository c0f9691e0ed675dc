//! The comparison as one self-contained HTML page.

use maud::{Markup, html};

use super::compared::{Compared, Recording};
use super::rows::{Section, section, sections};
use super::text::{busy, description, idle, method_text};
use crate::analysis::compare::comparison::ArrayComparison;
use crate::analysis::compare::comparison::Verdict;
use crate::analysis::{time, units};
use crate::commands::report::lines::file_name;
use crate::ui::html::page::{self, Tone, anchor, contents, facts, message, remark};
use crate::ui::html::table::Table;
use crate::ui::html::text;

/// Maximum number of arrays with a section.
const ARRAYS: usize = 32;
const NOTES: usize = 50;

pub fn draw(compared: &Compared<'_>) -> String {
    let arrays: Vec<&ArrayComparison> = busy(compared).take(ARRAYS).collect();
    let left_out = busy(compared).count() - arrays.len();
    let mut list = vec![
        ("summary".to_owned(), "Did it help?".to_owned()),
        ("recordings".to_owned(), "Recordings".to_owned()),
    ];
    for (i, array) in arrays.iter().enumerate() {
        list.push((anchor("array", i), array.after.name.clone()));
    }
    let operations: Vec<_> = compared.comparison.operations.iter().collect();
    if !operations.is_empty() {
        list.push(("operations".to_owned(), "Operations on files".to_owned()));
    }
    list.push(("method".to_owned(), "Method".to_owned()));
    let (before, after) = (file_name(compared.before.path), file_name(compared.after.path));
    let title = format!("raidtrace: {after} against {before}");
    let body = html! {
        header {
            h1 { (text(&title)) }
            (contents(&list))
        }
        main {
            (page::section("summary", "Did it help?", &summary(compared)))
            (page::section("recordings", "Recordings", &recordings(compared)))
            @for (i, array) in arrays.iter().enumerate() {
                (page::section(&anchor("array", i), &description(array), &array_section(array)))
            }
            @if left_out > 0 {
                (page::section("others", "Other arrays", &remark(&format!("{left_out} more arrays have no section."))))
            }
            @if !operations.is_empty() {
                (page::section("operations", "Operations on files",
                    &table(&section("Operations on files", true, &operations), false)))
            }
            (page::section("method", "Method", &remark(&method_text(&compared.comparison.method))))
        }
    };
    page::page(&title, &body)
}

fn summary(compared: &Compared<'_>) -> Markup {
    let tone = |verdict: Verdict| match verdict {
        Verdict::Worse | Verdict::Mixed => Tone::Warning,
        Verdict::Better => Tone::Good,
        _ => Tone::Info,
    };
    html! {
        @for array in busy(compared) {
            div.headline { (message(tone(array.verdict), &array.headline)) }
        }
        @if let Some(idle) = idle(compared) { (remark(&idle)) }
        @if compared.comparison.arrays.is_empty() {
            (message(Tone::Warning, "No array is in both recordings"))
        }
    }
}

fn recordings(compared: &Compared<'_>) -> Markup {
    let column = |recording: &Recording<'_>| {
        let (report, header) = (&recording.report, &recording.report.header);
        [
            file_name(recording.path),
            header.host.clone(),
            format!("Linux {}, {}", header.kernel, header.machine),
            header.version.clone(),
            time::rfc3339(report.from_us),
            units::seconds(report.snapshot.interval),
            report.requests.to_string(),
            report.submissions.to_string(),
            report.snapshot.lost.events().to_string(),
        ]
    };
    let rows = [
        "file",
        "host",
        "kernel",
        "raidtrace",
        "from",
        "length",
        "requests",
        "bios submitted",
        "lost",
    ];
    let mut table = Table::new("Both recordings").text("").text("before").text("after");
    let both = column(&compared.before).into_iter().zip(column(&compared.after));
    for (name, (before, after)) in rows.into_iter().zip(both) {
        table.row([name.into(), before.into(), after.into()]);
    }
    html! {
        (table.draw())
        @for note in compared.notes.iter().take(NOTES) { (message(Tone::Info, note)) }
    }
}

fn array_section(array: &ArrayComparison) -> Markup {
    let info = |info: &crate::analysis::snapshot::ArrayInfo| {
        let chunk = match info.chunk_bytes {
            0 => String::new(),
            bytes => format!(", {} chunk", units::size(bytes)),
        };
        format!("{}: {}, {} disks{chunk}", info.name, info.level, info.disks)
    };
    html! {
        (facts(&[
            ("before".to_owned(), info(&array.before)),
            ("after".to_owned(), info(&array.after)),
        ]))
        @for note in array.notes.iter().take(NOTES) { (message(Tone::Info, note)) }
        @for section in sections(&array.changes) { (table(&section, true)) }
    }
}

fn table(section: &Section, titled: bool) -> Markup {
    let has_subjects = section.rows.iter().any(|r| !r.subject.is_empty());
    let caption = match (section.rest(), section.untested) {
        (None, _) => "all figures, the largest differences first",
        (_, true) => "the largest differences",
        _ => "differences beyond noise, and utilisation",
    };
    let mut table = Table::new(format!("{}: {caption}", section.title));
    if has_subjects {
        table = table.text("");
    }
    let mut table = table
        .text("figure")
        .figure("before")
        .figure("after")
        .text("difference (95 % interval)")
        .text("beyond noise");
    for row in &section.rows {
        let subject = has_subjects.then(|| row.subject.as_str().into());
        let cells = [
            row.figure.as_str().into(),
            row.before.as_str().into(),
            row.after.as_str().into(),
            row.difference.as_str().into(),
            if row.is_significant { "yes" } else { "" }.into(),
        ];
        table.row(subject.into_iter().chain(cells));
    }
    if let Some(rest) = section.rest() {
        table.leave_out(rest);
    }
    html! {
        @if titled { h3 { (section.title) } }
        (table.draw())
    }
}
