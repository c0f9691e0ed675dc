//! The report as text, 80 columns.

use std::io::{self, Write};
use std::path::Path;

use jiff::tz::TimeZone;

use super::lines::{COLUMNS, sentence, shares, wrapped};
use super::{allocator, chart, slow};
use crate::analysis::hotspot::HotspotKind;
use crate::analysis::item::WRITTEN_BECAUSE;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::snapshot::{ArraySnapshot, Cell};
use crate::analysis::time;
use crate::analysis::units;
use crate::origin::{Op, Origin};
use crate::recording::gather::{Report, Sizes};
use crate::ui::batch;
use crate::ui::rows;
use crate::ui::rows::{Measure, RowFilter};
use crate::ui::text::{clean, cut, left, right, wrap};
use crate::ui::view::header;

/// Maximum number of rows of a table.
const MAX_ROWS: usize = 10;

/// Notes of the recorder and of the recording, without duplicates. Reasons for writing the
/// recording come first, newest first.
pub fn notes(report: &Report) -> Vec<&String> {
    let mut notes: Vec<&String> = Vec::new();
    for note in report.header.notes.iter().chain(&report.snapshot.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let is_reason = |note: &&String| note.starts_with(WRITTEN_BECAUSE);
    let (mut reasons, rest): (Vec<_>, Vec<_>) = notes.into_iter().partition(is_reason);
    reasons.reverse();
    [reasons, rest].concat()
}

/// Writes the report and flushes.
pub fn write(out: &mut impl Write, path: &Path, report: &Report) -> io::Result<()> {
    let mut text = Vec::new();
    head(&mut text, path, report)?;
    // After the first verdict, because they show what it means.
    let mut operations = report.slow.as_ref();
    for array in &report.snapshot.arrays {
        writeln!(text)?;
        array_section(&mut text, report, array, operations.take())?;
    }
    if let Some(allocator) = &report.allocator {
        allocator::write(&mut text, allocator)?;
    }
    if let Some(operations) = operations {
        slow::write(&mut text, operations)?;
    }
    // Cut lines: tables shared with the live screen may be wider.
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{}", cut(line.trim_end(), COLUMNS))?;
    }
    out.flush()
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
    wrapped(out, "", &of)?;
    if !h.command.is_empty() {
        wrapped(out, "", &format!("while running: {}", h.command.join(" ")))?;
    }
    let [from, to] = [report.from_us, report.to_us].map(|us| {
        let text = time::rfc3339(us);
        text.get(..23).map_or(text.clone(), |short| format!("{short}Z"))
    });
    // The date only once if it is the same.
    let to = if from.get(..10) == to.get(..10) { time::clock(report.to_us) } else { to };
    writeln!(out, "{from} to {to} ({})", units::seconds(s.interval))?;
    local_times(out, report)?;
    if (report.from_us, report.to_us) != report.recorded_us {
        let (first, last) = report.recorded_us;
        let whole = time::period_in(first, last, &TimeZone::UTC);
        writeln!(out, "of {}", whole.replace(" +00:00", "Z"))?;
    }
    writeln!(
        out,
        "{} requests completed, {} bios submitted, {} failed",
        report.requests, report.submissions, report.errors
    )?;
    if report.ending.is_cut() {
        sentence(out, "!", &report.ending.to_string())?;
    }
    if report.invalid_rows > 0 {
        let n = report.invalid_rows;
        sentence(
            out,
            "!",
            &format!("{n} rows could not be read or assigned to an array, and are left out"),
        )?;
    }
    if s.lost.events() > 0 {
        let named = s.lost.nonzero().map(|(loss, n)| format!("{} {n}", loss.label()));
        let named = named.collect::<Vec<_>>().join(", ");
        sentence(out, "!", &format!("LOST {} ({named})", s.lost.events()))?;
    } else {
        writeln!(out, "lost 0")?;
    }
    for (us, text) in report.losses.iter().take(MAX_ROWS) {
        sentence(out, "!", &format!("{} lost {text}", time::clock(*us)))?;
    }
    if report.losses.len() > MAX_ROWS {
        writeln!(out, "  and {} more times", report.losses.len() - MAX_ROWS)?;
    }
    for note in notes(report) {
        sentence(out, "-", note)?;
    }
    Ok(())
}

/// Writes the period in local time and in the time zone of the recording machine, if these differ
/// from UTC.
fn local_times(out: &mut Vec<u8>, report: &Report) -> io::Result<()> {
    let (from, to) = (report.from_us, report.to_us);
    let here = time::local();
    if !time::is_utc(from, &here) {
        let name = here.iana_name().unwrap_or("this machine");
        let period = time::period_in(from, to, &here);
        writeln!(out, "local {period} ({})", clean(name))?;
    }
    if let Some(there) = report.header.zone()
        && !time::is_utc(from, &there)
        && time::period_in(from, to, &there) != time::period_in(from, to, &here)
    {
        let period = time::period_in(from, to, &there);
        writeln!(out, "there {period} ({})", clean(&report.header.host))?;
    }
    Ok(())
}

fn array_section(
    out: &mut Vec<u8>,
    report: &Report,
    array: &ArraySnapshot,
    operations: Option<&SlowSnapshot>,
) -> io::Result<()> {
    let snapshot = &report.snapshot;
    let secs = rows::seconds(snapshot.interval);
    wrapped(out, "", &header::subject(array))?;
    for filesystem in &array.info.filesystems {
        wrapped(out, "  ", filesystem)?;
    }
    if let Some(hotspot) = &array.hotspot {
        let mark = if hotspot.is_warning() { "!" } else { " " };
        sentence(out, mark, &hotspot.headline)?;
    }
    if let Some(operations) = operations {
        slow::write(out, operations)?;
        writeln!(out)?;
    }
    if array.hotspot.as_ref().is_some_and(|h| h.kind == HotspotKind::Idle) {
        return Ok(());
    }
    wrapped(out, "  ", &header::measured(snapshot, array))?;
    chart::write(out, &report.timeline, array)?;
    section(out, "Members, per second")?;
    batch::write_members(out, array, secs)?;
    origins(out, array)?;
    latencies(out, array)?;
    sizes(out, report, &array.info.name)?;
    if !array.tasks.is_empty() {
        tasks(out, array, secs)?;
    }
    if !array.files.busiest.is_empty() {
        section(out, "Files: file data submitted, per second")?;
        batch::write_files(out, array, secs, MAX_ROWS)?;
        let more =
            [(array.files.rest, "of other files"), (array.files.unattributed, "unattributed")];
        for (sum, what) in more.iter().filter(|(sum, _)| sum.bios > 0) {
            writeln!(out, "  {what}: {} bios, {}", sum.bios, units::bytes(sum.bytes as f64))?;
        }
    }
    let volumes = rows::thin_volumes(array, secs);
    if !volumes.is_empty() {
        section(out, "Thin volumes, per second")?;
        volumes.iter().take(MAX_ROWS).try_for_each(|volume| writeln!(out, "  {volume}"))?;
    }
    let costs = array.amplification.iter().flat_map(|l| &l.rows);
    if costs.into_iter().any(|r| r.costs_more()) {
        section(out, "Amplification")?;
        batch::write_costs(out, array, snapshot, MAX_ROWS)?;
    }
    Ok(())
}

fn section(out: &mut Vec<u8>, title: &str) -> io::Result<()> {
    writeln!(out, "{title}")
}

/// Writes the tasks that submitted most, or that caused most IO if that is known. The role comes
/// before the name.
fn tasks(out: &mut Vec<u8>, array: &ArraySnapshot, secs: f64) -> io::Result<()> {
    let mut rows = rows::tasks(array, secs, RowFilter::default(), Measure::Bytes);
    let dirtied = rows::has_dirtied(&rows);
    let causes = |text: String| if dirtied { text } else { String::new() };
    if dirtied {
        rows::sort_by_causes(&mut rows);
    }
    let caused = causes(" and caused".to_owned());
    section(out, &format!("Processes: IO submitted{caused}, per second"))?;
    writeln!(out, "     r/s    w/s   MiB/s  {}task (pid)", causes("causes  ".to_owned()))?;
    for row in rows.iter().take(MAX_ROWS) {
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
        let parts: Vec<_> = parts
            .iter()
            .take(2)
            .map(|(origin, n)| {
                format!("{origin} {}", units::percent_short(n / all.max(f64::MIN_POSITIVE)))
            })
            .collect();
        writeln!(
            out,
            "  {:>6} {:>6} {:>7}  {}{} ({}){}{}",
            units::count(row.reads),
            units::count(row.writes),
            units::mib(row.bytes),
            causes(format!("{:>6}  ", units::mib(row.causes))),
            clean(&who),
            task.pid,
            if parts.is_empty() { "" } else { ": " },
            parts.join(", ") + &clean(&group),
        )?;
        let whom = rows::on_behalf_of(task, &array.tasks);
        if !whom.is_empty() {
            wrapped(out, &" ".repeat(34), &format!("for {whom}"))?;
        }
    }
    if rows.len() > MAX_ROWS {
        writeln!(out, "  and {} more", rows.len() - MAX_ROWS)?;
    }
    Ok(())
}

/// Requests and bytes of one origin, by member.
struct OriginLoad {
    label: String,
    requests: u64,
    bytes: u64,
    each: Vec<u64>,
}

/// Sums the cells that `keep` accepts; `None` if there are none.
fn share(array: &ArraySnapshot, label: String, keep: impl Fn(&Cell) -> bool) -> Option<OriginLoad> {
    let sums: Vec<(u64, u64)> = array.members.iter().map(|m| m.sum(&keep)).collect();
    let (requests, bytes) = sums.iter().fold((0, 0), |all: (u64, u64), sum| {
        (all.0.saturating_add(sum.0), all.1.saturating_add(sum.1))
    });
    // Flushes have no bytes.
    let each = sums.iter().map(|sum| if bytes > 0 { sum.1 } else { sum.0 });
    (requests > 0 || bytes > 0).then(|| OriginLoad { label, requests, bytes, each: each.collect() })
}

/// Writes each origin and its busiest members. Discards and zeroing move no data and have rows of
/// their own.
fn origins(out: &mut Vec<u8>, array: &ArraySnapshot) -> io::Result<()> {
    let mut rows = Vec::new();
    for origin in Origin::ALL {
        let moves = |c: &Cell| !matches!(c.op, Op::Discard | Op::WriteZeroes);
        let data = share(array, origin.to_string(), |c| c.origin == origin && moves(c));
        let freed = [Op::Discard, Op::WriteZeroes].into_iter().filter_map(|op| {
            let keep = |c: &Cell| c.origin == origin && c.op == op;
            share(array, format!("{origin} {op}"), keep)
        });
        rows.extend(data.into_iter().chain(freed));
    }
    let width = rows.iter().map(|r| r.label.len()).max().unwrap_or(0).max(17);
    section(out, "Origins, total")?;
    writeln!(
        out,
        "  {} {:>9} {:>9} {:>5}  busiest members by bytes",
        left("origin", width),
        "requests",
        "bytes",
        "skew"
    )?;
    let present = array.members.iter().filter(|m| m.is_present()).count();
    for row in rows {
        let all: u64 = row.each.iter().fold(0, |sum, n| sum.saturating_add(*n));
        let all = all.max(1) as f64;
        let most = row.each.iter().copied().max().unwrap_or(0) as f64;
        let names = array.members.iter().map(|m| clean(&m.name));
        let parts = names.zip(row.each.iter().map(|n| *n as f64));
        writeln!(
            out,
            "  {} {:>9} {:>9} {:>5}  {}",
            left(&row.label, width),
            row.requests,
            units::bytes(row.bytes as f64),
            format!("{:.1}x", most * present.max(1) as f64 / all),
            shares(parts, all, 3)
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
    let mut slowest = rows::latencies(array, 1.0, RowFilter::default());
    slowest.sort_by_key(|r| std::cmp::Reverse(r.device.quantile(0.99)));
    for row in slowest.iter().take(MAX_ROWS) {
        let us = |h: &crate::analysis::hist::Hist, q| right(&units::latency(h.quantile(q)), 7);
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
    if slowest.len() > MAX_ROWS {
        writeln!(out, "  and {} more", slowest.len() - MAX_ROWS)?;
    }
    Ok(())
}

/// `write     4 KiB 96%, 8 KiB 2%, ...`: shares of the requests with data.
fn sizes(out: &mut Vec<u8>, report: &Report, array: &str) -> io::Result<()> {
    section(out, "Request sizes: from this size to less than twice as much")?;
    let data = |op: &Op| *op != Op::Flush;
    let mine = report.sizes.iter().filter(|((name, op), _)| name == array && data(op));
    for ((_, op), sizes) in mine {
        let empty = sizes.requests.first().copied().unwrap_or(0);
        let all: u64 = sizes.requests.iter().sum::<u64>() - empty;
        let each = sizes.requests.iter().enumerate().skip(1).filter(|(_, n)| **n > 0);
        let parts: Vec<String> = each
            .map(|(bucket, n)| {
                let share = units::percent_short(*n as f64 / all.max(1) as f64);
                format!("{} {share}", units::size(Sizes::from(bucket)).replace(' ', "\u{a0}"))
            })
            .collect();
        let parts = parts.join(", ");
        for (i, line) in wrap(&parts, COLUMNS - 12, 3).iter().enumerate() {
            let op = if i == 0 { op.name() } else { "" };
            writeln!(out, "  {} {line}", left(op, 9))?;
        }
        if empty > 0 {
            let only = if all > 0 { "and " } else { "" };
            let text =
                format!("{only}{empty} without data: flushes, which the kernel counts as {op}s");
            writeln!(out, "  {} {text}", left(if all > 0 { "" } else { op.name() }, 9))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use super::write;
    use crate::analysis::item::Item;
    use crate::origin::Op;
    use crate::recording::fixture;
    use crate::recording::gather::gather;

    #[test]
    fn discards_and_flushes_are_listed_separately() {
        let mut items = fixture::items(4000, 8);
        let requests = items.iter_mut().filter_map(|item| match item {
            Item::Request(r) if r.op == Op::Write => Some(r),
            _ => None,
        });
        for (n, r) in requests.enumerate() {
            match n % 10 {
                0 => (r.op, r.length, r.bytes) = (Op::Discard, 1 << 30, 1 << 30),
                1 => (r.length, r.bytes, r.device_us) = (0, 0, None),
                _ => {}
            }
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&fixture::file_of(&items, 500)).unwrap();
        let report = gather(file.path(), None, None).unwrap();
        let mut out = Vec::new();
        write(&mut out, Path::new("a.rtrace"), &report).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        let joined = text.replace("\n  ", " ");
        assert!(joined.contains("; lost 0; overhead not measured"), "{text}");
        let line = |begins: &str| {
            let mut lines = text.lines().map(str::trim_start);
            lines.find(|l| l.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"))
        };
        assert!(line("file_data discard").contains(" GiB "), "{text}");
        assert!(line("file_data  ").contains(" MiB "), "{text}");
        assert!(!line("write  ").contains("0 B"), "{text}");
        let end = "without data: flushes, which the kernel counts as writes";
        assert!(text.contains(end), "{text}");
        assert!(line("Timeline: utilisation, about 1 s per column").contains("full height"));
        assert!(line("busiest: ").contains("% from 12:00:0"), "{text}");
    }
}
