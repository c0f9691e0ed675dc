//! The report as text, 80 columns.

use std::io::{self, Write};
use std::path::Path;

use super::gather::{Report, Sizes};
use super::time;
use crate::model::snapshot::ArraySnapshot;
use crate::model::standout::Kind;
use crate::model::units;
use crate::origin::Op;
use crate::top::batch;
use crate::top::rows::{self, Filter, Measure};
use crate::top::text::{clean, cut, left, right, wrap};
use crate::top::view::header;

const COLUMNS: usize = 80;
/// Rows of tables whose length the recording decides.
const ROWS: usize = 10;

/// The recorder's notes and those of the recording, each once.
pub fn notes(report: &Report) -> Vec<&String> {
    let mut notes: Vec<&String> = Vec::new();
    for note in report.header.notes.iter().chain(&report.snapshot.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Writes it and flushes.
pub fn write(out: &mut impl Write, path: &Path, report: &Report) -> io::Result<()> {
    let mut text = Vec::new();
    head(&mut text, path, report)?;
    for array in &report.snapshot.arrays {
        writeln!(text)?;
        of_array(&mut text, report, array)?;
    }
    // Tables that are shared with the live screen may be wider.
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{}", cut(line.trim_end(), COLUMNS))?;
    }
    out.flush()
}

fn said(out: &mut Vec<u8>, mark: &str, text: &str) -> io::Result<()> {
    for (i, line) in wrap(&clean(text), COLUMNS - 2, 6).iter().enumerate() {
        writeln!(out, "{} {line}", if i == 0 { mark } else { " " })?;
    }
    Ok(())
}

fn head(out: &mut Vec<u8>, path: &Path, report: &Report) -> io::Result<()> {
    let (h, s) = (&report.header, &report.snapshot);
    let file = path.file_name().unwrap_or(path.as_os_str());
    let of = format!(
        "{}: raidtrace {} on {}, Linux {}, {}",
        file.to_string_lossy(),
        h.version,
        h.host,
        h.kernel,
        h.machine
    );
    writeln!(out, "{}", clean(&of))?;
    if !h.command.is_empty() {
        writeln!(out, "while running: {}", clean(&h.command.join(" ")))?;
    }
    let (from, to) = (time::rfc3339(report.from_us), time::clock(report.to_us));
    writeln!(
        out,
        "{} to {to} ({})",
        from.get(..23).map_or(from.clone(), |f| format!("{f}Z")),
        units::seconds(s.interval)
    )?;
    if (report.from_us, report.to_us) != report.recorded_us {
        let (first, last) = report.recorded_us;
        let whole = format!("of {} to {}", time::clock(first), time::clock(last));
        writeln!(out, "{whole}")?;
    }
    writeln!(
        out,
        "{} requests completed, {} bios submitted, {} failed",
        report.requests, report.submissions, report.errors
    )?;
    if report.ending.is_cut() {
        said(out, "!", &report.ending.to_string())?;
    }
    if report.unplaced > 0 {
        let n = report.unplaced;
        said(
            out,
            "!",
            &format!("{n} rows could not be read or placed, and are left out"),
        )?;
    }
    if s.lost.events() > 0 {
        let named = s.lost.reasons();
        let named = named
            .iter()
            .filter(|r| r.0 > 0)
            .map(|(n, why)| format!("{why} {n}"));
        let named = named.collect::<Vec<_>>().join(", ");
        said(out, "!", &format!("LOST {} ({named})", s.lost.events()))?;
    } else {
        writeln!(out, "lost 0")?;
    }
    for (us, text) in report.losses.iter().take(ROWS) {
        said(out, "!", &format!("{} lost {text}", time::clock(*us)))?;
    }
    if report.losses.len() > ROWS {
        writeln!(out, "  and {} more times", report.losses.len() - ROWS)?;
    }
    for note in notes(report) {
        said(out, "-", note)?;
    }
    Ok(())
}

fn of_array(out: &mut Vec<u8>, report: &Report, array: &ArraySnapshot) -> io::Result<()> {
    let snapshot = &report.snapshot;
    let secs = rows::seconds(snapshot.interval);
    writeln!(out, "{}", clean(&header::what(array)))?;
    for filesystem in &array.info.filesystems {
        writeln!(out, "  {}", clean(filesystem))?;
    }
    if let Some(standout) = &array.standout {
        let mark = if standout.kind.is_finding() { "!" } else { " " };
        said(out, mark, &standout.sentence)?;
        if standout.kind == Kind::Idle {
            return Ok(());
        }
    }
    writeln!(out, "  {}", header::measured(snapshot, array))?;
    section(out, "Members, per second")?;
    batch::write_members(out, array, secs)?;
    origins(out, array)?;
    latencies(out, array)?;
    sizes(out, report, &array.info.name)?;
    if !array.tasks.is_empty() {
        section(out, "Processes: what they submitted, per second")?;
        tasks(out, array, secs)?;
    }
    if !array.files.busiest.is_empty() {
        section(out, "Files: file data submitted, per second")?;
        batch::write_files(out, array, secs, ROWS)?;
        let more = [
            (array.files.rest, "of other files"),
            (array.files.untold, "not told whose"),
        ];
        for (sum, what) in more.iter().filter(|(sum, _)| sum.bios > 0) {
            writeln!(
                out,
                "  {what}: {} bios, {}",
                sum.bios,
                units::bytes(sum.bytes as f64)
            )?;
        }
    }
    let costs = array.ledger.iter().flat_map(|l| &l.rows);
    if costs
        .into_iter()
        .any(|r| r.factor().is_some_and(|f| f >= 1.05))
    {
        section(out, "Amplification")?;
        batch::write_costs(out, array, snapshot, ROWS)?;
    }
    Ok(())
}

fn section(out: &mut Vec<u8>, title: &str) -> io::Result<()> {
    writeln!(out, "{title}")
}

/// Who submitted most; what it is goes before its name.
fn tasks(out: &mut Vec<u8>, array: &ArraySnapshot, secs: f64) -> io::Result<()> {
    let rows = rows::tasks(array, secs, Filter::default(), Measure::Bytes);
    writeln!(out, "     r/s    w/s   MiB/s  who (pid)")?;
    for row in rows.iter().take(ROWS) {
        let task = row.task;
        let who = task.role.clone().unwrap_or_else(|| row.comm.clone());
        let group = match (&task.role, &task.cgroup) {
            (Some(_), _) => format!(", {}", row.comm),
            (None, Some(cgroup)) if cgroup != "/" => format!(", {cgroup}"),
            _ => String::new(),
        };
        let all: f64 = row.parts.iter().map(|p| p.1).sum();
        let mut parts = row.parts.clone();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let parts = parts.iter().take(2).map(|(origin, n)| {
            format!(
                "{origin} {}",
                units::percent_short(n / all.max(f64::MIN_POSITIVE))
            )
        });
        writeln!(
            out,
            "  {:>6} {:>6} {:>7}  {} ({}): {}{}",
            units::count(row.reads),
            units::count(row.writes),
            units::mib(row.bytes),
            clean(&who),
            task.pid,
            parts.collect::<Vec<_>>().join(", "),
            clean(&group),
        )?;
    }
    if rows.len() > ROWS {
        writeln!(out, "  and {} more", rows.len() - ROWS)?;
    }
    Ok(())
}

/// Each origin, and on which members it is.
fn origins(out: &mut Vec<u8>, array: &ArraySnapshot) -> io::Result<()> {
    section(out, "Origins, in all")?;
    writeln!(
        out,
        "  {} {:>9} {:>9} {:>5}  busiest members by bytes",
        left("origin", 17),
        "requests",
        "bytes",
        "skew"
    )?;
    let by = |measure| rows::origins(array, 1.0, Filter::default(), measure).0;
    let requests = by(Measure::Requests);
    for row in by(Measure::Bytes) {
        let count = requests.iter().find(|r| r.origin == row.origin);
        // Flushes have no bytes.
        let row = match count {
            Some(count) if row.total == 0.0 => count,
            _ => &row,
        };
        let bytes = array
            .members
            .iter()
            .map(|m| m.sum(|c| c.origin == row.origin).1 as f64);
        let mut each: Vec<(usize, f64)> = row.each.iter().copied().enumerate().collect();
        each.sort_by(|a, b| b.1.total_cmp(&a.1));
        let all: f64 = row.each.iter().sum();
        let busiest = each
            .iter()
            .take(3)
            .filter(|(_, v)| *v > 0.0)
            .filter_map(|(i, v)| {
                let member = array.members.get(*i)?;
                let share = units::percent_short(v / all.max(f64::MIN_POSITIVE));
                Some(format!("{} {share}", clean(&member.name)))
            });
        writeln!(
            out,
            "  {} {:>9} {:>9} {:>5}  {}",
            left(row.origin.name(), 17),
            count.map_or(0.0, |c| c.each.iter().sum::<f64>()),
            units::bytes(bytes.sum()),
            format!("{:.1}x", row.skew),
            busiest.collect::<Vec<_>>().join(", ")
        )?;
    }
    Ok(())
}

fn latencies(out: &mut Vec<u8>, array: &ArraySnapshot) -> io::Result<()> {
    section(out, "Latency, slowest first")?;
    writeln!(
        out,
        "  {} {} {} {:>9} {:>15} {:>17}",
        left("member", 8),
        left("origin", 17),
        left("op", 7),
        "requests",
        "queue p50   p99",
        "device p50   p99"
    )?;
    let mut slowest = rows::latencies(array, 1.0, Filter::default());
    slowest.sort_by_key(|r| std::cmp::Reverse(r.device.quantile(0.99)));
    for row in slowest.iter().take(ROWS) {
        let us = |h: &crate::model::hist::Hist, q| right(&units::latency(h.quantile(q)), 7);
        writeln!(
            out,
            "  {} {} {} {:>9} {} {}   {} {}",
            left(&clean(&row.member.name), 8),
            left(row.origin.name(), 17),
            left(row.op.name(), 7),
            row.requests,
            us(row.queue, 0.5),
            us(row.queue, 0.99),
            us(row.device, 0.5),
            us(row.device, 0.99),
        )?;
    }
    if slowest.len() > ROWS {
        writeln!(out, "  and {} more", slowest.len() - ROWS)?;
    }
    Ok(())
}

/// `write: 4 KiB 96%, 8 KiB 2%, ...`: of the requests.
fn sizes(out: &mut Vec<u8>, report: &Report, array: &str) -> io::Result<()> {
    section(
        out,
        "Request sizes: of that much and less than twice as much",
    )?;
    let data = |op: &Op| *op != Op::Flush;
    let mine = report
        .sizes
        .iter()
        .filter(|((name, op), _)| name == array && data(op));
    for ((_, op), sizes) in mine {
        let all: u64 = sizes.requests.iter().sum();
        let each = sizes.requests.iter().enumerate().filter(|(_, n)| **n > 0);
        let parts: Vec<String> = each
            .map(|(bucket, n)| {
                let share = units::percent_short(*n as f64 / all.max(1) as f64);
                format!(
                    "{} {share}",
                    units::size(Sizes::from(bucket)).replace(' ', "\u{a0}")
                )
            })
            .collect();
        let parts = parts.join(", ");
        for (i, line) in wrap(&parts, COLUMNS - 12, 3).iter().enumerate() {
            let op = if i == 0 { op.name() } else { "" };
            writeln!(out, "  {} {line}", left(op, 9))?;
        }
    }
    Ok(())
}
