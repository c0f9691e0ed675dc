//! The text: what is wrong in a few lines, the worst first; then each finding with its evidence. 80 columns; commands are
//! never broken, so that they can be copied.

use std::io::{self, Write};

use super::facts::ArrayFacts;
use super::finding::{Finding, Severity};
use super::kernel::{Ability, Works};
use super::live::Live;
use super::rules::{list, plural};
use super::select::Diagnosis;
use crate::analysis::units;
use crate::ui::text::{clean, cut, left, right, wrap};

const COLUMNS: usize = 80;
/// Of a severity or a label, with a space.
const LABEL: usize = 9;
/// No paragraph is longer.
const LINES: usize = 40;

/// All of it.
pub fn write(out: &mut dyn Write, diagnosis: &Diagnosis<'_>) -> io::Result<()> {
    let Diagnosis {
        facts,
        found,
        able,
        live,
        ..
    } = *diagnosis;
    for array in &facts.arrays {
        writeln!(out, "{}", cut(&clean(&heading(array)), COLUMNS))?;
    }
    for line in paragraph(&count(diagnosis), 0, 2) {
        writeln!(out, "{line}")?;
    }
    if !found.is_empty() {
        writeln!(out)?;
    }
    for finding in found {
        summary(out, finding)?;
    }
    if let Some(live) = live {
        writeln!(out)?;
        watched(out, live)?;
    }
    writeln!(out)?;
    for line in paragraph(&ability(able), 0, 0) {
        writeln!(out, "{line}")?;
    }
    for note in facts.notes.iter().chain(&able.notes) {
        for line in paragraph(&format!("note: {note}"), 0, 2) {
            writeln!(out, "{line}")?;
        }
    }
    for finding in found {
        writeln!(out)?;
        detail(out, finding)?;
    }
    Ok(())
}

/// `--kernel`: what this kernel gives.
pub fn kernel(out: &mut dyn Write, able: &Ability) -> io::Result<()> {
    writeln!(out, "kernel {}", clean(&able.release))?;
    for (title, lines) in [("it takes", &able.needs), ("it gives", &able.gives)] {
        writeln!(out, "{title}")?;
        for (what, works, how) in lines {
            let head = format!("  {} {}", left(works.word(), 4), left(what, 26));
            let mut rest = paragraph(how, 0, 0)
                .into_iter()
                .flat_map(|l| wrap(&l, COLUMNS - 33, LINES));
            writeln!(out, "{head}{}", rest.next().unwrap_or_default())?;
            for line in rest {
                writeln!(out, "{}{line}", " ".repeat(33))?;
            }
        }
    }
    for line in paragraph(&ability(able), 0, 0) {
        writeln!(out, "{line}")?;
    }
    for note in &able.notes {
        for line in paragraph(&format!("note: {note}"), 0, 2) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn heading(of: &ArrayFacts) -> String {
    let array = &of.array;
    let mut parts = vec![format!("{} {}", array.name, array.level)];
    if array.is_md() {
        parts.push(format!("{} disks", array.raid_disks));
    }
    if array.chunk_sectors > 0 {
        parts.push(format!(
            "{} chunk",
            units::size(u64::from(array.chunk_sectors) * 512)
        ));
    }
    parts.push(units::size(array.sectors.saturating_mul(512)));
    let places: Vec<String> = of.filesystems.iter().map(|f| f.place()).collect();
    match places.as_slice() {
        [] => parts.join(", "),
        places => format!("{}: {}", parts.join(", "), places.join(", ")),
    }
}

/// `1 critical, 2 info; left out: 1 acknowledged`
fn count(diagnosis: &Diagnosis<'_>) -> String {
    match diagnosis.left_out.words() {
        None => shown(diagnosis, "nothing"),
        Some(left_out) => format!("{}; left out: {left_out}", shown(diagnosis, "nothing else")),
    }
}

fn shown(diagnosis: &Diagnosis<'_>, nothing: &str) -> String {
    let Diagnosis { facts, found, .. } = diagnosis;
    let filesystems: usize = facts.arrays.iter().map(|a| a.filesystems.len()).sum();
    if found.is_empty() {
        return format!(
            "{nothing} found on {} and {}",
            plural(facts.arrays.len(), "array or disk"),
            plural(filesystems, "filesystem")
        );
    }
    let of = |s: Severity| found.iter().filter(|f| f.severity == s).count();
    let parts: Vec<String> = [
        (Severity::Critical, "critical"),
        (Severity::Warning, "warning"),
        (Severity::Info, "info"),
    ]
    .into_iter()
    .map(|(s, word)| (of(s), word))
    .filter(|(n, _)| *n > 0)
    .map(|(n, word)| format!("{n} {word}"))
    .collect();
    parts.join(", ")
}

fn subject(f: &Finding) -> String {
    let place = f.mounted.as_ref().or(f.filesystem.as_ref());
    match (&f.array, place) {
        (None, _) => String::new(),
        (Some(array), Some(place)) if place != array => format!("{array} {place}: "),
        (Some(array), _) => format!("{array}: "),
    }
}

fn summary(out: &mut dyn Write, f: &Finding) -> io::Result<()> {
    let text = format!("{}{}", subject(f), f.title);
    for (i, line) in paragraph(&text, LABEL, LABEL).into_iter().enumerate() {
        if i == 0 {
            let word = f.severity.name().to_uppercase();
            writeln!(out, "{}{}", left(&word, LABEL), &line[LABEL..])?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    if f.severity > Severity::Info && f.destroys {
        writeln!(
            out,
            "{}nothing mends it in place, see below",
            " ".repeat(LABEL)
        )?;
    } else if f.severity > Severity::Info
        && let Some(command) = f.commands.first()
    {
        let more = match f.commands.len() {
            1 => "",
            _ => "   ...",
        };
        writeln!(out, "{}$ {}{more}", " ".repeat(LABEL), clean(command))?;
    }
    Ok(())
}

/// What was written where, beside the layout.
fn watched(out: &mut dyn Write, live: &Live) -> io::Result<()> {
    let how = match &live.recording {
        Some(file) => format!("recorded in {file}"),
        None => "seen".to_owned(),
    };
    let head = format!(
        "{how} for {:.0} s, lost {}: writes, the busiest member over the mean",
        live.interval_s, live.lost
    );
    for line in paragraph(&head, 0, 0) {
        writeln!(out, "{line}")?;
    }
    if live.rows.is_empty() {
        return writeln!(out, "  too few writes of bitmaps and inode tables to judge");
    }
    writeln!(
        out,
        "  array    origin         written    seen  layout  busiest"
    )?;
    for row in &live.rows {
        let line = format!(
            "  {} {} {} {} {}  {}",
            left(&clean(&row.array), 8),
            left(row.origin.name(), 13),
            right(&units::size(row.bytes), 8),
            right(&units::factor(Some(row.observed)), 7),
            right(&units::factor(Some(row.predicted)), 7),
            list(&row.busiest()),
        );
        writeln!(out, "{}", cut(clean(&line).trim_end(), COLUMNS))?;
    }
    Ok(())
}

fn detail(out: &mut dyn Write, f: &Finding) -> io::Result<()> {
    let on = subject(f);
    let title = format!(
        "{} ({}) {}",
        f.id,
        f.severity.name(),
        on.trim_end_matches([':', ' '])
    );
    writeln!(out, "{}", cut(clean(&title).trim_end(), COLUMNS))?;
    let labelled = |out: &mut dyn Write, label: &str, text: &str| -> io::Result<()> {
        for (i, line) in paragraph(text, LABEL + 2, LABEL + 2)
            .into_iter()
            .enumerate()
        {
            let head = if i == 0 { label } else { "" };
            writeln!(out, "  {}{}", left(head, LABEL), &line[LABEL + 2..])?;
        }
        Ok(())
    };
    for (i, line) in f.seen.iter().enumerate() {
        labelled(out, if i == 0 { "seen" } else { "" }, line)?;
    }
    labelled(out, "why", &f.why)?;
    for (i, command) in f.commands.iter().enumerate() {
        let label = left(if i == 0 { "do" } else { "" }, LABEL);
        writeln!(out, "  {label}{}", clean(command))?;
    }
    labelled(out, "risk", &f.risk)?;
    labelled(out, "not when", &f.unless)?;
    labelled(out, "source", f.source)
}

fn ability(able: &Ability) -> String {
    let release = &able.release;
    match able.can {
        Works::Yes => format!("raidtrace can run here (Linux {release}): {}", able.why),
        Works::No => format!("raidtrace cannot run here (Linux {release}): {}", able.why),
        Works::NotChecked => format!("raidtrace on this kernel (Linux {release}): {}", able.why),
    }
}

/// Lines of at most 80 columns, safe to print; the first and the others indented. Nothing gives nothing.
fn paragraph(text: &str, first: usize, others: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let indent = first.max(others);
    let lines = wrap(&clean(text), COLUMNS - indent, LINES);
    let indented = |(i, line): (usize, String)| {
        format!("{}{line}", " ".repeat(if i == 0 { first } else { others }))
    };
    lines.into_iter().enumerate().map(indented).collect()
}
