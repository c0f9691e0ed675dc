//! Commands that show the same figures, or more of them.

use std::path::Path;

use maud::{Markup, html};

use super::PageArray;
use crate::advice::quote::quote;
use crate::analysis::time;
use crate::recording::gather::Report;
use crate::ui::html::page::{command, remark};

pub(super) fn body(path: &Path, report: &Report, subjects: &[PageArray<'_>]) -> Markup {
    let file = quote(path.file_name().unwrap_or(path.as_os_str()));
    let whole = (report.from_us, report.to_us) == report.recorded_us;
    let period = match whole {
        true => String::new(),
        false => between(report.from_us, report.to_us),
    };
    let mut commands = vec![
        ("This page:", format!("raidtrace report {file}{period} --html report.html")),
        ("As text, or as JSON with --json:", format!("raidtrace report {file}{period}")),
    ];
    if let Some((from, to)) = busiest(report) {
        let zoom = between(from, to);
        commands.push((
            "A page of the busiest interval only:",
            format!("raidtrace report {file}{zoom} --html busiest.html"),
        ));
    }
    commands
        .push(("The recording on the screen of top:", format!("raidtrace top --replay {file}")));
    if report.allocator.is_some() {
        let line = format!("raidtrace alloc --replay {file}");
        commands.push(("The allocator, interval by interval:", line));
    }
    if report.slow.is_some() {
        let line = format!("raidtrace slow --replay {file}");
        commands.push(("Slow operations, one by one:", line));
    }
    commands.push((
        "Every request as a table, for other tools:",
        format!("raidtrace export {file} -f parquet -o requests.parquet"),
    ));
    let mounts = report.header.filesystems.iter().filter(|fs| {
        fs.kind.starts_with("ext") && subjects.iter().any(|s| s.array.info.name == fs.array)
    });
    let mounts = mounts.filter_map(|fs| fs.mounts.first()).take(4);
    let layouts: Vec<String> =
        mounts.map(|m| format!("raidtrace layout {}", quote(&m.path))).collect();
    html! {
        @for (what, line) in &commands {
            p { (what) }
            (command(line))
        }
        @if !layouts.is_empty() {
            p { "Where metadata falls on the members, on the recorded machine:" }
            @for line in &layouts { (command(line)) }
        }
        (remark("raidtrace never runs a command by itself. A recording holds names of files and \
                 processes: check before you pass it on."))
    }
}

fn between(from_us: i64, to_us: i64) -> String {
    format!(" --from {} --to {}", time::rfc3339(from_us), time::rfc3339(to_us))
}

/// The interval with the highest utilisation of any member, if there are several intervals.
fn busiest(report: &Report) -> Option<(i64, i64)> {
    let timeline = &report.timeline;
    let (_, interval) = timeline
        .intervals
        .iter()
        .filter(|_| timeline.intervals.len() > 1)
        .map(|i| {
            let each = (0..i.members.len()).map(|m| i.utilisation(m));
            (each.fold(0.0, f64::max), i)
        })
        .filter(|(most, _)| *most > 0.0)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.from_us.cmp(&a.1.from_us)))?;
    Some((interval.from_us, interval.to_us))
}
