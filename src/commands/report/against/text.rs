//! The comparison as text, 80 columns.

use std::io::{self, Write};

use super::compared::{Compared, Recording};
use super::rows::{Section, section, sections};
use crate::analysis::compare::comparison::Verdict;
use crate::analysis::compare::comparison::{ArrayComparison, Method};
use crate::analysis::compare::resample::RESAMPLES;
use crate::analysis::{time, units};
use crate::commands::report::lines::{COLUMNS, sentence, wrapped};
use crate::ui::text::{clean, cut, end, left, right, wrap};

/// Width of the subject and the name of its figure in a table.
const WHAT: usize = 31;
/// Width of a value.
const FIGURE: usize = 8;

/// Writes the comparison and flushes.
pub fn write(out: &mut impl Write, compared: &Compared<'_>) -> io::Result<()> {
    let mut text = Vec::new();
    headlines(&mut text, compared)?;
    writeln!(text)?;
    recording(&mut text, "BEFORE", &compared.before)?;
    recording(&mut text, "AFTER ", &compared.after)?;
    for note in &compared.notes {
        sentence(&mut text, "-", note)?;
    }
    for array in busy(compared) {
        writeln!(text)?;
        array_section(&mut text, array)?;
    }
    let operations: Vec<_> = compared.comparison.operations.iter().collect();
    if !operations.is_empty() {
        writeln!(text)?;
        table(&mut text, &section("Operations on files", true, &operations))?;
    }
    writeln!(text)?;
    wrapped(&mut text, "", &method_text(&compared.comparison.method))?;
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{}", cut(line.trim_end(), COLUMNS))?;
    }
    out.flush()
}

/// Arrays with IO, before or after.
pub fn busy<'a>(compared: &'a Compared<'_>) -> impl Iterator<Item = &'a ArrayComparison> {
    compared.comparison.arrays.iter().filter(|a| a.verdict != Verdict::NoRequests)
}

/// One sentence for each array, and one for all idle arrays.
fn headlines(out: &mut Vec<u8>, compared: &Compared<'_>) -> io::Result<()> {
    for array in busy(compared) {
        let mark = match array.verdict {
            Verdict::Worse | Verdict::Mixed => "!",
            _ => " ",
        };
        for (i, line) in wrap(&clean(&array.headline), COLUMNS - 2, 12).iter().enumerate() {
            writeln!(out, "{} {line}", if i == 0 { mark } else { " " })?;
        }
    }
    if let Some(idle) = idle(compared) {
        sentence(out, " ", &idle)?;
    }
    if compared.comparison.arrays.is_empty() {
        sentence(out, "!", "No array is in both recordings")?;
    }
    Ok(())
}

/// `idle before and after: sda and sdb`; `None` if no array was idle.
pub fn idle(compared: &Compared<'_>) -> Option<String> {
    let idle = compared.comparison.arrays.iter().filter(|a| a.verdict == Verdict::NoRequests);
    let idle: Vec<&str> = idle.map(|a| a.after.name.as_str()).collect();
    (!idle.is_empty()).then(|| format!("idle before and after: {}", units::list(&idle)))
}

fn recording(out: &mut Vec<u8>, which: &str, recording: &Recording<'_>) -> io::Result<()> {
    let report = &recording.report;
    let file = recording.path.file_name().unwrap_or(recording.path.as_os_str()).to_string_lossy();
    let from = time::rfc3339(report.from_us);
    let line = format!(
        "{which} {file}: {}Z, {}, {} requests, on {}, Linux {}",
        from.get(..19).unwrap_or(&from),
        units::seconds(report.snapshot.interval),
        report.requests,
        report.header.host,
        report.header.kernel,
    );
    for (i, line) in wrap(&clean(&line), COLUMNS - 7, 6).iter().enumerate() {
        writeln!(out, "{}{line}", if i == 0 { "" } else { "       " })?;
    }
    Ok(())
}

/// `md0: raid0, 12 disks, 512 KiB chunk`; the level and disks are those after.
pub fn description(array: &ArrayComparison) -> String {
    let (was, now) = (&array.before, &array.after);
    let name = if was.name == now.name {
        now.name.clone()
    } else {
        format!("{} -> {}", was.name, now.name)
    };
    let chunk = match now.chunk_bytes {
        0 => String::new(),
        bytes => format!(", {} chunk", units::size(bytes)),
    };
    let disks = if now.disks == 1 { "disk" } else { "disks" };
    format!("{name}: {}, {} {disks}{chunk}", now.level, now.disks)
}

fn array_section(out: &mut Vec<u8>, array: &ArrayComparison) -> io::Result<()> {
    wrapped(out, "", &description(array))?;
    for note in &array.notes {
        sentence(out, "-", note)?;
    }
    for section in sections(&array.changes) {
        table(out, &section)?;
    }
    Ok(())
}

fn table(out: &mut Vec<u8>, section: &Section) -> io::Result<()> {
    writeln!(
        out,
        "{} {} {}  difference (95 % interval)",
        left(section.title, WHAT + 2),
        right("before", FIGURE),
        right("after", FIGURE)
    )?;
    for row in &section.rows {
        // The figure is more important than the end of a long path.
        let subject = clean(&row.subject);
        let room = WHAT.saturating_sub(row.figure.chars().count() + 1);
        let what = match subject.is_empty() {
            true => row.figure.clone(),
            false if row.subject.starts_with('/') => {
                format!("{} {}", end(&subject, room), row.figure)
            }
            false => format!("{} {}", cut(&subject, room), row.figure),
        };
        writeln!(
            out,
            "{} {} {} {}  {}",
            if row.is_significant { "*" } else { " " },
            left(&what, WHAT),
            right(&row.before, FIGURE),
            right(&row.after, FIGURE),
            row.difference
        )?;
    }
    if let Some(rest) = section.rest() {
        writeln!(out, "  {rest}")?;
    }
    Ok(())
}

/// The method, for the reader who must trust it.
pub fn method_text(method: &Method) -> String {
    let (n, m) = method.intervals;
    let (s, t) = method.interval_s;
    let Some((b, c)) = method.blocks else {
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
