//! The findings as text: a summary, the worst first, then each finding with its evidence. Lines
//! have at most 80 columns, except commands, which are never wrapped so that they can be pasted.

use std::io::{self, Write};

use super::facts::ArrayFacts;
use super::finding::{Finding, FindingSeverity};
use super::kernel::Ability;
use super::live::MeasuredWrites;
use super::rules::{list, plural};
use super::select::Diagnosis;
use crate::analysis::units;
use crate::machine::dm::raid_volume;
use crate::ui::text::{clean, cut, left, right, wrap};

const COLUMNS: usize = 80;
/// Width of a severity or a label with a space.
const LABEL: usize = 9;
/// Indentation of evidence in the table of `--kernel`.
const EVIDENCE: usize = 33;
const LINES: usize = 40;

pub fn write(out: &mut dyn Write, diagnosis: &Diagnosis<'_>) -> io::Result<()> {
    for array in &diagnosis.facts.arrays {
        writeln!(out, "{}", cut(&clean(&heading(array)), COLUMNS))?;
    }
    paragraph(out, "", 2, &count(diagnosis))?;
    if !diagnosis.found.is_empty() {
        writeln!(out)?;
    }
    for finding in diagnosis.found {
        summary(out, finding)?;
    }
    if let Some(live) = diagnosis.live {
        writeln!(out)?;
        measured(out, live)?;
    }
    writeln!(out)?;
    ability(out, diagnosis.able, &diagnosis.facts.notes)?;
    for finding in diagnosis.found {
        writeln!(out)?;
        detail(out, finding)?;
    }
    Ok(())
}

/// Writes the output of `--kernel`.
pub fn kernel(out: &mut dyn Write, able: &Ability) -> io::Result<()> {
    writeln!(out, "kernel {}", clean(&able.release))?;
    for (title, lines) in [("requirements", &able.requirements), ("features", &able.features)] {
        writeln!(out, "{title}")?;
        for line in lines {
            let available = match line.available {
                Some(true) => "yes",
                Some(false) => "no",
                None => "?",
            };
            let head = format!("  {} {}", left(available, 4), left(line.name, 26));
            paragraph(out, &head, EVIDENCE, &line.evidence)?;
        }
    }
    ability(out, able, &[])
}

/// `md0 raid6, 8 disks, 512 KiB chunk, 1.5 TiB: /srv (md0)`
fn heading(of: &ArrayFacts) -> String {
    let array = &of.array;
    let size = |sectors: u64| units::size(sectors.saturating_mul(512));
    let mapper = raid_volume(array).map_or(String::new(), |name| format!(" ({name})"));
    let mut text = format!("{}{mapper} {}", array.name, array.level);
    if array.is_md() {
        text.push_str(&format!(", {} disks", array.raid_disks));
    }
    if array.chunk_sectors > 0 {
        text.push_str(&format!(", {} chunk", size(array.chunk_sectors.into())));
    }
    text.push_str(&format!(", {}", size(array.sectors)));
    let labels: Vec<String> = of.filesystems.iter().map(|f| f.label()).collect();
    match labels.as_slice() {
        [] => text,
        labels => format!("{text}: {}", labels.join(", ")),
    }
}

/// `1 critical, 2 info; left out: 1 acknowledged`
fn count(diagnosis: &Diagnosis<'_>) -> String {
    let Diagnosis { facts, found, .. } = diagnosis;
    let left_out = diagnosis.left_out.words();
    let severities = [FindingSeverity::Critical, FindingSeverity::Warning, FindingSeverity::Info];
    let counts = severities.map(|s| (found.iter().filter(|f| f.severity == s).count(), s));
    let counts = counts.iter().filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, severity)| format!("{n} {severity}")).collect();
    let shown = if found.is_empty() {
        let other = if left_out.is_some() { "no other findings" } else { "no findings" };
        let filesystems = facts.arrays.iter().map(|a| a.filesystems.len()).sum();
        format!(
            "{other} on {} and {}",
            plural(facts.arrays.len(), "array or disk"),
            plural(filesystems, "filesystem")
        )
    } else {
        counts.join(", ")
    };
    left_out.map_or(shown.clone(), |left_out| format!("{shown}; left out: {left_out}"))
}

/// `md0 /srv`
fn subject(f: &Finding) -> String {
    let fs = f.mounted_on.as_ref().or(f.filesystem.as_ref());
    let fs = fs.filter(|fs| f.array.as_ref() != Some(*fs));
    match (&f.array, fs) {
        (None, _) => String::new(),
        (Some(array), None) => array.clone(),
        (Some(array), Some(fs)) => format!("{array} {fs}"),
    }
}

fn summary(out: &mut dyn Write, f: &Finding) -> io::Result<()> {
    let text = match subject(f).as_str() {
        "" => f.title.clone(),
        subject => format!("{subject}: {}", f.title),
    };
    let severity = f.severity.to_string().to_uppercase();
    paragraph(out, &left(&severity, LABEL), LABEL, &text)?;
    if f.severity == FindingSeverity::Info {
        return Ok(());
    }
    let indent = " ".repeat(LABEL);
    match f.commands.as_slice() {
        _ if f.destroys => writeln!(out, "{indent}the only fix is a new filesystem, see below"),
        [] => Ok(()),
        [only] => writeln!(out, "{indent}$ {}", clean(only)),
        [first, ..] => writeln!(out, "{indent}$ {}   ...", clean(first)),
    }
}

/// Measured writes compared with the layout.
fn measured(out: &mut dyn Write, live: &MeasuredWrites) -> io::Result<()> {
    let source = match &live.recording {
        Some(file) => format!("recorded in {file}"),
        None => "measured".to_owned(),
    };
    let head = format!(
        "{source} for {:.0} s, lost {}; writes to the busiest member as a multiple of the mean: \
         seen, and expected from the layout",
        live.interval_s, live.lost
    );
    paragraph(out, "", 0, &head)?;
    if live.rows.is_empty() {
        return writeln!(out, "  too few writes of metadata to compare");
    }
    writeln!(out, "  array    origin         written    seen  layout  busiest")?;
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
    let title = format!("{} ({}) {}", f.id, f.severity, subject(f));
    writeln!(out, "{}", cut(clean(&title).trim_end(), COLUMNS))?;
    let head = |label: &str| format!("  {}", left(label, LABEL));
    let labels = ["seen"].into_iter().chain(std::iter::repeat(""));
    for (line, label) in f.seen.iter().zip(labels) {
        paragraph(out, &head(label), LABEL + 2, line)?;
    }
    paragraph(out, &head("why"), LABEL + 2, &f.why)?;
    let labels = ["do"].into_iter().chain(std::iter::repeat(""));
    for (command, label) in f.commands.iter().zip(labels) {
        writeln!(out, "{}{}", head(label), clean(command))?;
    }
    paragraph(out, &head("risk"), LABEL + 2, &f.risk)?;
    paragraph(out, &head("not when"), LABEL + 2, &f.not_when)?;
    paragraph(out, &head("source"), LABEL + 2, f.source)
}

/// Result of the kernel checks, and notes.
fn ability(out: &mut dyn Write, able: &Ability, notes: &[String]) -> io::Result<()> {
    let can_run = match able.can_run {
        Some(true) => "raidtrace can run here",
        Some(false) => "raidtrace cannot run here",
        None => "raidtrace on this kernel",
    };
    let text = format!("{can_run} (Linux {}): {}", able.release, able.why);
    paragraph(out, "", 0, &text)?;
    for note in notes.iter().chain(&able.notes) {
        paragraph(out, "note: ", 2, note)?;
    }
    Ok(())
}

/// Writes untrusted text in lines of at most 80 columns, the first after `head`, the others
/// indented. Nothing if it is empty.
fn paragraph(out: &mut dyn Write, head: &str, indent: usize, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let width = COLUMNS - head.len().max(indent);
    let mut head = head.to_owned();
    for line in wrap(&clean(text), width, LINES) {
        writeln!(out, "{head}{line}")?;
        head = " ".repeat(indent);
    }
    Ok(())
}
