//! Summary, what was recorded, and what was lost.

use std::borrow::Cow;
use std::path::Path;

use maud::{Markup, html};

use super::{PageArray, times};
use crate::analysis::hotspot::HotspotSeverity;
use crate::analysis::slow::sentence::sentence;
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::{time, units};
use crate::commands::report::lines::file_name;
use crate::commands::report::text::notes;
use crate::origin::Origin;
use crate::recording::gather::Report;
use crate::ui::html::page::{Tone, command, facts, message, remark};
use crate::ui::html::text;
use crate::ui::view::header;

/// Maximum number of commands shown for one piece of advice: a recording may hold any number.
const MAX_COMMANDS: usize = 8;
/// Maximum length of a command in bytes. Longer ones are left out.
const MAX_COMMAND_BYTES: usize = 4096;
/// Maximum number of pieces of advice in the summary.
const MAX_ADVICE: usize = 6;
const MAX_LOSSES: usize = 50;
const MAX_NOTES: usize = 50;

/// A change that helps, with its commands.
struct PageAdvice<'a> {
    sentence: String,
    commands: Cow<'a, [String]>,
    risk: Option<&'a str>,
}

/// The headlines of all arrays, the state of arrays that are not healthy, and advice with commands.
pub(super) fn summary(report: &Report, subjects: &[PageArray<'_>]) -> Markup {
    let advice = advice(report, subjects);
    let named = subjects.len() > 1;
    html! {
        @if subjects.is_empty() && advice.is_empty() && report.allocator.is_none() {
            (message(Tone::Info, "The recording has no array and no disk in this period"))
        }
        @for subject in subjects {
            @if let Some(hotspot) = &subject.array.hotspot {
                @let sentence = match named {
                    true => format!("{}: {}", subject.array.info.name, hotspot.headline),
                    false => hotspot.headline.clone(),
                };
                @let tone = match hotspot.kind.is_finding() {
                    true if hotspot.severity == HotspotSeverity::Warning => Tone::Warning,
                    true => Tone::Info,
                    false => Tone::Good,
                };
                div.headline { (message(tone, &sentence)) }
            }
        }
        @for array in report.snapshot.arrays.iter().take(super::MEMBERS) {
            @if let Some(health) = &array.info.health {
                (message(Tone::Warning, &format!("{}: {health}", array.info.name)))
            }
        }
        @if report.snapshot.lost.events() > 0 || report.ending.is_cut() || report.invalid_rows > 0 {
            (message(Tone::Warning, "The recording is not complete: see What was lost"))
        }
        @if let Some(allocator) = &report.allocator {
            @for fs in &allocator.whole.filesystems {
                @if let Some(reason) = &fs.reason {
                    @let said = format!("ext4 allocator of {}: {}", fs.name, reason.sentence);
                    div.headline { (message(Tone::Warning, &said)) }
                }
            }
        }
        @if let Some(slowest) = report.slow.as_ref()
            .and_then(|s| Some(sentence(s.operations.first()?, &s.names)))
        {
            div.headline { (message(Tone::Warning, &format!("Longest slow operation: {slowest}"))) }
        }
        @if !advice.is_empty() {
            h3 { "What would help" }
            @for advice in advice.iter().take(MAX_ADVICE) {
                p { (text(&advice.sentence)) }
                @let lines = advice.commands.iter().take(MAX_COMMANDS);
                @for line in lines.filter(|l| l.len() <= MAX_COMMAND_BYTES) { (command(line)) }
                @if let Some(risk) = advice.risk.filter(|r| !r.is_empty()) {
                    (remark(&format!("Risk: {risk}")))
                }
            }
            @if advice.len() > MAX_ADVICE {
                (remark(&format!("{} more are in the sections below.", advice.len() - MAX_ADVICE)))
            }
        }
    }
}

fn advice<'a>(report: &'a Report, subjects: &[PageArray<'a>]) -> Vec<PageAdvice<'a>> {
    let allocator = report.allocator.iter().flat_map(|a| &a.whole.filesystems);
    let reasons = allocator.filter_map(|fs| {
        let reason = fs.reason.as_ref().filter(|r| !r.commands.is_empty())?;
        Some(PageAdvice {
            sentence: format!("ext4 allocator of {}:", fs.name),
            commands: Cow::Borrowed(&reason.commands),
            risk: reason.risk.as_deref(),
        })
    });
    let slow = report.slow.iter().flat_map(|s| &s.advice).map(|found| PageAdvice {
        sentence: format!("{} ({})", found.advice.text, found.evidence),
        commands: Cow::Borrowed(&found.advice.commands),
        risk: Some(&found.advice.risk),
    });
    let uneven = subjects.iter().filter_map(|s| even_options(s.array));
    reasons.chain(slow).chain(uneven).collect()
}

/// The search for options of mke2fs that spread metadata evenly, if the array's headline is about
/// metadata with a fixed location.
fn even_options(array: &ArraySnapshot) -> Option<PageAdvice<'_>> {
    let (info, hotspot) = (&array.info, array.hotspot.as_ref()?);
    let fixed =
        |o: &Origin| matches!(o, Origin::BlockBitmap | Origin::InodeBitmap | Origin::InodeTable);
    let striped = matches!(info.level.as_str(), "raid0" | "raid4" | "raid5" | "raid6" | "raid10");
    if !striped || info.chunk_bytes < 1024 || !hotspot.origins.iter().any(fixed) {
        return None;
    }
    let command = format!(
        "raidtrace layout --plan {}K --level {} --disks {} --chunk {}K --search",
        info.bytes >> 10,
        info.level,
        info.disks,
        info.chunk_bytes >> 10
    );
    Some(PageAdvice {
        sentence: format!(
            "{}: options of mke2fs that spread bitmaps and inode tables evenly on such an array:",
            info.name
        ),
        commands: Cow::Owned(vec![command]),
        risk: Some("none: it only computes. The options take effect in a new filesystem only"),
    })
}

/// Host, arrays, period and totals.
pub(super) fn recorded(path: &Path, report: &Report) -> Markup {
    let (h, s) = (&report.header, &report.snapshot);
    let mut all = vec![
        ("File".to_owned(), file_name(path)),
        ("Host".to_owned(), h.host.clone()),
        ("Kernel".to_owned(), format!("Linux {}, {}", h.kernel, h.machine)),
        ("Recorded by".to_owned(), format!("raidtrace {}", h.version)),
    ];
    if !h.command.is_empty() {
        all.push(("While running".to_owned(), h.command.join(" ")));
    }
    let period =
        format!("{} ({})", times::utc(report.from_us, report.to_us), units::seconds(s.interval));
    all.push(("Period, UTC".to_owned(), period));
    all.extend(times::local(report));
    if (report.from_us, report.to_us) != report.recorded_us {
        let (first, last) = report.recorded_us;
        all.push(("Whole recording, UTC".to_owned(), times::utc(first, last)));
    }
    let arrays = s.arrays.iter().take(super::MEMBERS).map(|array| {
        let mut lines = vec![header::subject(array)];
        lines.extend(array.info.filesystems.iter().take(8).cloned());
        ("Array".to_owned(), lines.join("; "))
    });
    all.extend(arrays);
    if s.arrays.len() > super::MEMBERS {
        let more = s.arrays.len() - super::MEMBERS;
        all.push(("Array".to_owned(), format!("and {more} more")));
    }
    all.push((
        "Requests".to_owned(),
        format!(
            "{} completed, {} failed; {} bios submitted",
            report.requests, report.errors, report.submissions
        ),
    ));
    all.push(("Lost".to_owned(), lost_line(report)));
    let notes = notes(report);
    html! {
        (facts(&all))
        @if !notes.is_empty() {
            h3 { "Notes" }
            ul {
                @for note in notes.iter().take(MAX_NOTES) { li { (text(note)) } }
            }
            @if notes.len() > MAX_NOTES {
                @let more = notes.len() - MAX_NOTES;
                (remark(&format!("{more} more notes are left out.")))
            }
        }
    }
}

/// `0 events`, or the number of lost events by reason.
fn lost_line(report: &Report) -> String {
    let lost = &report.snapshot.lost;
    if lost.events() == 0 {
        return "0 events".to_owned();
    }
    let named = lost.nonzero().map(|(loss, n)| format!("{} {n}", loss.label()));
    let named = named.collect::<Vec<_>>().join(", ");
    format!("{} events ({named})", lost.events())
}

/// What is missing in the figures.
pub(super) fn lost(report: &Report) -> Markup {
    let events = report.snapshot.lost.events();
    let mut warnings = Vec::new();
    if events > 0 {
        warnings.push(format!("Lost {}", lost_line(report)));
    }
    if report.ending.is_cut() {
        warnings.push(report.ending.to_string());
    }
    if report.invalid_rows > 0 {
        let n = report.invalid_rows;
        warnings
            .push(format!("{n} rows could not be read or assigned to an array, and are left out"));
    }
    let allocator = report.allocator.as_ref().map_or(0, |a| a.whole.lost);
    if allocator > 0 {
        warnings.push(format!("Lost {allocator} events of the allocator"));
    }
    let slow = report.slow.as_ref().map_or(0, |s| s.lost.total());
    if slow > 0 {
        warnings.push(format!("Lost {slow} events of slow operations"));
    }
    let losses = &report.losses;
    html! {
        @if warnings.is_empty() && losses.is_empty() {
            (message(Tone::Good, "Nothing was lost in this period"))
        }
        @for sentence in &warnings { (message(Tone::Warning, sentence)) }
        @if !losses.is_empty() {
            ul {
                @for (us, what) in losses.iter().take(MAX_LOSSES) {
                    li { (time::clock(*us)) " lost " (text(what)) }
                }
            }
            @if losses.len() > MAX_LOSSES {
                (remark(&format!("and {} more times", losses.len() - MAX_LOSSES)))
            }
        }
    }
}
