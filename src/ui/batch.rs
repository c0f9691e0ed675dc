//! `--batch`: an interval as plain text, for a log or a pipe, without colours and cursor control.

use std::io::{self, Write};

use super::figures::{self, MemberFigure, UTILISATION};
use super::rows::{self, Measure, MemberRow, RowFilter};
use super::text::{clean, left, right, sanitize};
use super::view::header;
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::analysis::units;
use crate::origin::{Origin, io_name};

/// Maximum number of members for which every member has a row. Larger arrays show only the busiest
/// members.
const MAX_MEMBERS: usize = 24;
/// Number of busiest members that have a row in a larger array.
const BUSIEST_MEMBERS: usize = 12;
/// Maximum number of tasks, of amplified kinds of IO, and of files that are named.
const MAX_NAMED: usize = 3;
/// Number of origins that a row names.
const MAX_ORIGINS: usize = 4;

/// Writes `snapshot` and flushes it: for each array the time, the figures, the headline, the
/// members, the busiest tasks and files, the most amplified IO, and an empty line.
pub fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    let mut text = Vec::with_capacity(4096);
    for array in &snapshot.arrays {
        write_array(&mut text, snapshot, array)?;
    }
    if snapshot.arrays.is_empty() {
        writeln!(text, "{} no array is left to trace", header::stamp(snapshot))?;
    }
    out.write_all(&text)?;
    out.flush()
}

fn write_array(out: &mut impl Write, snapshot: &Snapshot, array: &ArraySnapshot) -> io::Result<()> {
    let secs = rows::seconds(snapshot.interval);
    writeln!(out, "{} {}", header::stamp(snapshot), clean(&header::subject(array)))?;
    writeln!(out, "  {}", header::measured(snapshot, array))?;
    if let Some(hotspot) = &array.hotspot {
        let mark = if hotspot.is_warning() { '!' } else { ' ' };
        writeln!(out, "{mark} {}", clean(&header::headline(hotspot)))?;
    }
    if let Some(slow) = &array.slow {
        writeln!(out, "! {}", clean(slow))?;
    }
    write_members(out, array, secs)?;
    write_tasks(out, array, secs, MAX_NAMED)?;
    write_costs(out, array, snapshot, MAX_NAMED)?;
    write_files(out, array, secs, MAX_NAMED)?;
    for volume in rows::thin_volumes(array, secs).iter().take(MAX_NAMED) {
        writeln!(out, "  {volume}")?;
    }
    writeln!(out)
}

/// Writes a row per member.
pub(crate) fn write_members(
    out: &mut impl Write,
    array: &ArraySnapshot,
    secs: f64,
) -> io::Result<()> {
    let rows = rows::members(array, secs, RowFilter::default(), Measure::Requests);
    let name_width = rows.iter().map(|r| r.member.name.len()).max().unwrap_or(0).clamp(6, 16);
    let (shown, rest) = busiest(&rows);
    let span = rows::span(array, secs);
    let columns = columns(&rows, span.map(rows::span_title));
    if !shown.is_empty() {
        let titles: String = columns.iter().map(|c| format!(" {:>1$}", c.title, c.width)).collect();
        writeln!(out, "  slot {}{titles}  origins by requests", left("member", name_width))?;
    }
    for row in shown {
        writeln!(out, "{}", line(row, name_width, &columns).trim_end())?;
    }
    if !rest.is_empty() {
        let most =
            |f: &dyn Fn(&MemberRow<'_>) -> f64| rest.iter().map(|r| f(r)).fold(0.0, f64::max);
        writeln!(
            out,
            "  and {} more members, each at most {} r/s, {} w/s, {} MiB/s",
            rest.len(),
            units::count(most(&|r| r.reads)),
            units::count(most(&|r| r.writes)),
            units::mib(most(&|r| r.bytes)),
        )?;
    }
    Ok(())
}

/// The members that get a row, in the order of their slots, and the others.
fn busiest<'r, 'a>(rows: &'r [MemberRow<'a>]) -> (Vec<&'r MemberRow<'a>>, Vec<&'r MemberRow<'a>>) {
    if rows.len() <= MAX_MEMBERS {
        return (rows.iter().collect(), Vec::new());
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let load = |i: usize| {
        let r = &rows[i];
        r.reads + r.writes + r.flushes + r.discards + r.others
    };
    // Members that are not healthy always have a row.
    order.sort_by(|&a, &b| {
        let healthy = |i: usize| rows[i].member.health.is_none();
        healthy(a).cmp(&healthy(b)).then(load(b).total_cmp(&load(a)))
    });
    let mut rest = order.split_off(BUSIEST_MEMBERS);
    order.sort_unstable();
    rest.sort_unstable();
    let at = |indices: Vec<usize>| indices.into_iter().map(|i| &rows[i]).collect();
    (at(order), at(rest))
}

/// A column of figures.
struct TextColumn {
    title: String,
    width: usize,
    /// `None`: utilisation over the time of the headline.
    figure: Option<MemberFigure>,
}

/// The columns for these rows. `span`: title of the utilisation over the time of the headline, if
/// it is shown.
fn columns(rows: &[MemberRow<'_>], span: Option<String>) -> Vec<TextColumn> {
    let mut columns = Vec::new();
    for (figure, width) in figures::of_text(rows) {
        columns.push(TextColumn { title: figure.title.to_owned(), width, figure: Some(figure) });
        if figure.title == UTILISATION {
            columns.extend(span.clone().map(|title| TextColumn { title, width: 4, figure: None }));
        }
    }
    columns
}

fn line(row: &MemberRow<'_>, name_width: usize, columns: &[TextColumn]) -> String {
    let slot = row.member.slot.map_or("-".to_owned(), |s| s.to_string());
    let origins = match &row.member.health {
        Some(health) => format!("{} {}", clean(health), shares(&row.parts)),
        None => shares(&row.parts),
    };
    let over = || row.busy_over.map_or("-".to_owned(), units::percent_short);
    let cell = |c: &TextColumn| {
        let text = c.figure.map_or_else(over, |f| f.text(row));
        format!(" {}", right(&text, c.width))
    };
    let cells: String = columns.iter().map(cell).collect();
    format!("  {slot:>4} {}{cells}  {origins}", left(&clean(&row.member.name), name_width))
}

/// `file_data 40%, block_bitmap 25%, ...`
fn shares(parts: &[(Origin, f64)]) -> String {
    let all = rows::legend(parts.iter());
    let total: f64 = all.iter().map(|p| p.1).sum();
    let named = all
        .iter()
        .take(MAX_ORIGINS)
        .map(|(o, v)| format!("{o} {}", units::percent_short(v / total)));
    named.collect::<Vec<_>>().join(", ")
}

fn write_tasks(
    out: &mut impl Write,
    array: &ArraySnapshot,
    secs: f64,
    limit: usize,
) -> io::Result<()> {
    let mut rows = rows::tasks(array, secs, RowFilter::default(), Measure::Requests);
    rows::sort_by_causes(&mut rows);
    let dirtied = rows::has_dirtied(&rows);
    for row in rows.iter().take(limit) {
        let role = row.task.role.as_deref().or(row.task.cgroup.as_deref()).unwrap_or("");
        writeln!(
            out,
            "  by {} (pid {}{}{}): {} r/s {} w/s {} MiB/s{}  {}",
            row.comm,
            row.task.pid,
            if role.is_empty() { "" } else { ", " },
            sanitize(role.as_bytes()),
            units::count(row.reads),
            units::count(row.writes),
            units::mib(row.bytes),
            if dirtied { format!(", causes {}", units::mib(row.causes)) } else { String::new() },
            shares(&row.parts),
        )?;
    }
    Ok(())
}

/// Writes the largest amplified kinds of IO, over the time window of the headline.
pub(crate) fn write_costs(
    out: &mut impl Write,
    array: &ArraySnapshot,
    snapshot: &Snapshot,
    limit: usize,
) -> io::Result<()> {
    let Some(amplification) = &array.amplification else {
        return Ok(());
    };
    let mut costly: Vec<_> = amplification.rows.iter().filter(|r| r.costs_more()).collect();
    costly.sort_by_key(|r| std::cmp::Reverse(r.below()));
    for row in costly.iter().take(limit) {
        writeln!(
            out,
            "  {} {} costs {}{}: {}",
            io_name(row.origin, row.op),
            row.op,
            units::factor(row.factor()),
            header::last(amplification.over, snapshot),
            rows::price(row).unwrap_or_default().replace('\u{a0}', " "),
        )?;
    }
    Ok(())
}

/// Writes the files that were read and written most.
pub(crate) fn write_files(
    out: &mut impl Write,
    array: &ArraySnapshot,
    secs: f64,
    limit: usize,
) -> io::Result<()> {
    for row in rows::files(array, secs, RowFilter::default(), Measure::Bytes).iter().take(limit) {
        writeln!(
            out,
            "  of {}: {} r/s {} w/s {} MiB/s  {} of file_data",
            row.path,
            units::count(row.reads),
            units::count(row.writes),
            units::mib(row.bytes),
            units::percent_short(row.share),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::analysis::fixture;
    use crate::analysis::snapshot::Snapshot;
    use crate::analysis::window::Window;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn text(snapshot: &Snapshot) -> String {
        let mut out = Vec::new();
        write(&mut out, snapshot).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        text
    }

    #[test]
    fn without_members_or_arrays() {
        insta::assert_snapshot!("0", text(&fixture::raid0(0)));
        let mut none = fixture::raid0(0);
        none.arrays.clear();
        insta::assert_snapshot!("no_array", text(&none));
    }

    /// The headline covers ten seconds and the table one, so the table has a column with the
    /// utilisation over ten seconds.
    #[test]
    fn utilisation_is_shown_for_interval_and_headline() {
        let mut window = Window::new(10 * SECOND);
        let mut snapshot = fixture::raid0(4);
        for n in 0..10 {
            snapshot = fixture::raid0(4);
            let disk = snapshot.arrays[0].members[1].disk.as_mut().unwrap();
            disk.utilisation = f64::from(u8::from(n < 5));
            window.evaluate(&mut snapshot);
        }
        insta::assert_snapshot!("window", text(&snapshot));
    }

    #[test]
    fn a_hundred_members_are_compact() {
        let mut snapshot = fixture::raid0(100);
        snapshot.arrays[0].members[50].health = Some("faulty\x1b[2J".to_owned());
        let text = text(&snapshot);
        assert!(text.lines().count() <= 25, "{text}");
        insta::assert_snapshot!("100", text);
    }
}
