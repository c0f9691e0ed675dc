//! The comparison as text, 80 columns.

use std::io::{self, Write};

use super::compared::Compared;
use crate::analysis::compare::bootstrap::RESAMPLES;
use crate::analysis::compare::change::{self as figure, Change, Subject};
use crate::analysis::compare::comparison::{ArrayComparison, ComparisonVerdict, Method};
use crate::analysis::compare::words::{difference_short, values};
use crate::analysis::{time, units};
use crate::commands::report::lines::{COLUMNS, file_name, sentence, wrapped};
use crate::origin::io_name;
use crate::ui::text::{clean, cut, end, left, right, wrap};

/// Width of the subject and the name of its figure in a table.
const SUBJECT_WIDTH: usize = 31;
const VALUE_WIDTH: usize = 8;
/// Maximum number of rows of a section that is not shown whole, without those of utilisation.
const MAX_ROWS: usize = 12;

/// Sections of an array: title, whether all figures are shown, and the subjects.
type Section = (&'static str, bool, fn(&Subject) -> bool);
const SECTIONS: [Section; 6] = [
    ("Load, submitted to the array", true, |s| *s == Subject::Load),
    ("Array", true, |s| *s == Subject::Array),
    ("Members", false, |s| matches!(s, Subject::Member { .. })),
    ("Origins, on all members", false, |s| matches!(s, Subject::Origin { .. })),
    ("Tasks, submitted", false, |s| matches!(s, Subject::Task { .. })),
    ("Files, submitted", false, |s| matches!(s, Subject::File { .. })),
];

/// Writes the comparison and flushes.
pub fn write(out: &mut impl Write, compared: &Compared<'_>) -> io::Result<()> {
    let mut text = Vec::new();
    let comparison = &compared.comparison;
    for array in busy(compared) {
        let is_worse = matches!(array.verdict, ComparisonVerdict::Worse | ComparisonVerdict::Mixed);
        let mark = if is_worse { "!" } else { " " };
        for (i, line) in wrap(&clean(&array.headline), COLUMNS - 2, 12).iter().enumerate() {
            writeln!(text, "{} {line}", if i == 0 { mark } else { " " })?;
        }
    }
    let idle = comparison.arrays.iter().filter(|a| a.verdict == ComparisonVerdict::NoRequests);
    let idle: Vec<&str> = idle.map(|a| a.after.name.as_str()).collect();
    if comparison.arrays.is_empty() {
        sentence(&mut text, "!", "No array is in both recordings")?;
    } else if !idle.is_empty() {
        sentence(&mut text, " ", &format!("idle before and after: {}", units::list(&idle)))?;
    }
    writeln!(text)?;
    for (which, recording) in ["BEFORE", "AFTER "].into_iter().zip(&compared.recordings) {
        let (report, header) = (&recording.report, &recording.report.header);
        let (from, path) = (time::rfc3339(report.from_us), file_name(recording.path));
        let (from, length) =
            (from.get(..19).unwrap_or(&from), units::seconds(report.snapshot.interval));
        let (requests, host, kernel) = (report.requests, &header.host, &header.kernel);
        let line = format!(
            "{which} {path}: {from}Z, {length}, {requests} requests, on {host}, Linux {kernel}"
        );
        for (i, line) in wrap(&clean(&line), COLUMNS - 7, 6).iter().enumerate() {
            writeln!(text, "{}{line}", if i == 0 { "" } else { "       " })?;
        }
    }
    compared.notes.iter().try_for_each(|note| sentence(&mut text, "-", note))?;
    for array in busy(compared) {
        writeln!(text)?;
        wrapped(&mut text, "", &description(array))?;
        array.notes.iter().try_for_each(|note| sentence(&mut text, "-", note))?;
        for (title, whole, keep) in SECTIONS {
            let own: Vec<_> = array.changes.iter().filter(|c| keep(&c.subject)).collect();
            table(&mut text, title, whole, &own)?;
        }
    }
    if !comparison.operations.is_empty() {
        writeln!(text)?;
        let operations: Vec<_> = comparison.operations.iter().collect();
        table(&mut text, "Operations on files", true, &operations)?;
    }
    writeln!(text)?;
    wrapped(&mut text, "", &method(&comparison.method))?;
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{}", cut(line.trim_end(), COLUMNS))?;
    }
    out.flush()
}

/// Arrays with IO, before or after.
pub fn busy<'a>(compared: &'a Compared<'_>) -> impl Iterator<Item = &'a ArrayComparison> {
    compared.comparison.arrays.iter().filter(|a| a.verdict != ComparisonVerdict::NoRequests)
}

/// `md0: raid0, 12 disks, 512 KiB chunk`; the level and disks are those after.
fn description(array: &ArrayComparison) -> String {
    let now = &array.after;
    let chunk = match now.chunk_bytes {
        0 => String::new(),
        bytes => format!(", {} chunk", units::size(bytes)),
    };
    let disks = if now.disks == 1 { "disk" } else { "disks" };
    format!("{}: {}, {} {disks}{chunk}", array.name(), now.level, now.disks)
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Load | Subject::Array => String::new(),
        Subject::Member { slot, member_before, member_after } => match slot {
            _ if member_before == member_after => member_after.clone(),
            Some(slot) => format!("{slot}: {member_before} -> {member_after}"),
            None => format!("{member_before} -> {member_after}"),
        },
        Subject::Origin { origin, op } => format!("{} {op}", io_name(*origin, *op)),
        Subject::Task { task: name } | Subject::File { path: name } => name.clone(),
        Subject::Operation { operation } => operation.clone(),
    }
}

/// Writes all of `changes`, or else those that differ and the utilisation of members, in the order
/// of their importance.
fn table(out: &mut Vec<u8>, title: &str, whole: bool, changes: &[&Change]) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut row = |mark: &str, what: &str, [before, after]: [&str; 2], difference: &str| {
        let what = left(what, SUBJECT_WIDTH + 2 - mark.len());
        let (before, after) = (right(before, VALUE_WIDTH), right(after, VALUE_WIDTH));
        writeln!(out, "{mark}{what} {before} {after}  {difference}")
    };
    row("", title, ["before", "after"], "difference (95 % interval)")?;
    let untested = changes.iter().all(|c| c.estimate.p.is_none());
    let is_busy = |c: &Change| *c.figure == figure::UTILISATION;
    let mut room = MAX_ROWS;
    let mut rest = Vec::new();
    for &change in changes {
        let fits = room > 0 && (untested || change.significant);
        if !whole && !is_busy(change) && !fits {
            rest.push(change);
            continue;
        }
        room = room.saturating_sub(usize::from(!is_busy(change)));
        let label = change.figure.label;
        let label = change.op.map_or_else(|| label.to_owned(), |op| format!("{op} {label}"));
        // The figure is more important than the end of a long path.
        let name = subject(&change.subject);
        let subject = clean(&name);
        let width = SUBJECT_WIDTH.saturating_sub(label.chars().count() + 1);
        let is_path = subject.starts_with('/');
        let subject = if is_path { end(&subject, width) } else { cut(&subject, width) };
        let mark = if change.significant { "* " } else { "  " };
        let values = values(change);
        let what = format!("{subject} {label}");
        row(mark, what.trim_start(), values.each_ref().map(|v| &**v), &difference_short(change))?;
    }
    let different = rest.iter().filter(|c| c.significant).count();
    match (rest.len(), different) {
        (0, _) => Ok(()),
        (n, _) if untested => writeln!(out, "  and {n} more"),
        (1, 0) => writeln!(out, "  and 1 figure without a difference beyond noise"),
        (n, 0) => writeln!(out, "  and {n} figures without a difference beyond noise"),
        (n, d) => writeln!(out, "  and {n} more, {d} of which differ beyond noise"),
    }
}

/// The method, for the reader who must trust it.
fn method(method: &Method) -> String {
    let ([n, m], [s, t]) = (method.intervals, method.interval_s);
    let Some([b, c]) = method.block_intervals else {
        return format!(
            "No differences were tested: there are {n} intervals before and {m} after."
        );
    };
    format!(
        "* {} of {} figures differ beyond noise: false discovery rate 5 % (Benjamini-Hochberg). \
         95 % intervals and p values: moving-block bootstrap over {n} intervals of {s:.1} s \
         before and {m} of {t:.1} s after, {RESAMPLES} resamples of blocks of {b} and {c} \
         intervals, because successive intervals depend on each other; Student's t with degrees \
         of freedom from the number of blocks. A difference that lasts for a whole recording, \
         such as a load that depends on the time of day, cannot be distinguished from an effect of \
         the change.",
        method.different, method.tested
    )
}
