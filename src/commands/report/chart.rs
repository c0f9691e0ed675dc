//! The timelines as text: a row of columns for each member, and the busiest interval.

use std::io::{self, Write};

use super::lines::{length, wrapped};
use crate::analysis::snapshot::{ArraySnapshot, MemberSnapshot};
use crate::analysis::time;
use crate::analysis::timeline::{Timeline, TimelineInterval};
use crate::analysis::units;
use crate::ui::text::{clean, left, right};

/// Column heights above zero; zero is a space.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of members if every member has a row.
const MAX_MEMBERS: usize = 24;
/// Number of rows for the busiest members if there are more than `MAX_MEMBERS`.
const BUSIEST_MEMBERS: usize = 12;

struct ChartRow<'a> {
    name: &'a str,
    number: usize,
    each: Vec<f64>,
    /// Mean over all intervals, weighted by length.
    mean: f64,
    most: f64,
}

/// Rows of the members of `array`, of the busiest if there are many, and the others.
fn rows<'a>(
    timeline: &'a Timeline,
    array: &'a ArraySnapshot,
    value: impl Fn(usize, &TimelineInterval, usize) -> f64,
) -> (Vec<ChartRow<'a>>, Vec<ChartRow<'a>>) {
    let intervals = &timeline.intervals;
    let row = |member: &'a MemberSnapshot| {
        let own = |(a, m): &(String, String)| *a == array.info.name && *m == member.name;
        let number = timeline.names.iter().position(own)?;
        let each = intervals.iter().enumerate().map(|(at, i)| value(at, i, number));
        let each: Vec<f64> = each.collect();
        let mean = mean(intervals, &each);
        let most = each.iter().copied().fold(0.0, f64::max);
        Some(ChartRow { name: &member.name, number, each, mean, most })
    };
    let mut rows: Vec<ChartRow<'_>> = array.members.iter().filter_map(row).collect();
    let mut rest = Vec::new();
    if rows.len() > MAX_MEMBERS {
        rows.sort_by(|a, b| b.mean.total_cmp(&a.mean));
        rest = rows.split_off(BUSIEST_MEMBERS);
        rows.sort_by_key(|r| r.number);
    }
    (rows, rest)
}

/// Writes the utilisation of each member of `array` over time, and the p99 of its times in the
/// device. Writes nothing for a single interval.
pub fn write(out: &mut Vec<u8>, timeline: &Timeline, array: &ArraySnapshot) -> io::Result<()> {
    let intervals = &timeline.intervals;
    let length = length(timeline.length_s);
    if intervals.len() < 2 {
        return Ok(());
    }
    let busy = rows(timeline, array, |_, interval, number| interval.utilisation(number));
    let most = busy.0.iter().chain(&busy.1).map(|r| r.most).fold(0.0, f64::max);
    if most == 0.0 {
        return Ok(());
    }
    let height = units::percent(most);
    writeln!(out, "Timeline: utilisation, about {length} per column, full height {height}")?;
    draw(out, &busy, most, intervals.len(), &units::percent_short)?;
    busiest(out, intervals, busy.0.iter().chain(&busy.1), most)?;
    let us = |at, number| timeline.p99_us(at, number).unwrap_or(0) as f64;
    let p99 = rows(timeline, array, |at, _, number| us(at, number));
    let most = p99.0.iter().chain(&p99.1).map(|r| r.most).fold(0.0, f64::max);
    if most == 0.0 {
        return Ok(());
    }
    let latency = |us: f64| units::latency(Some(us as u64));
    let height = latency(most);
    writeln!(out, "Timeline: p99 of the time in the device, full height {height}")?;
    draw(out, &p99, most, intervals.len(), &latency)
}

fn draw(
    out: &mut Vec<u8>,
    (rows, rest): &(Vec<ChartRow<'_>>, Vec<ChartRow<'_>>),
    most: f64,
    columns: usize,
    text: &dyn Fn(f64) -> String,
) -> io::Result<()> {
    let width = rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0).clamp(6, 14);
    let space = " ".repeat(columns);
    writeln!(out, "  {} {space} {:>5} {:>5}", left("member", width), "mean", "most")?;
    for row in rows {
        let columns: String = row.each.iter().map(|v| column(v / most)).collect();
        let name = left(&clean(row.name), width);
        let [mean, most] = [row.mean, row.most].map(|value| right(&text(value), 5));
        writeln!(out, "  {name} {columns} {mean} {most}")?;
    }
    if !rest.is_empty() {
        let most = text(rest.iter().map(|r| r.most).fold(0.0, f64::max));
        writeln!(out, "  and {} more members, each at most {most}", rest.len())?;
    }
    Ok(())
}

/// `  busiest: loop1 31% from 09:12:24.100Z to 09:12:25.200Z: inode_table write 83% of its
/// requests`
fn busiest<'r, 'a: 'r>(
    out: &mut Vec<u8>,
    intervals: &[TimelineInterval],
    mut rows: impl Iterator<Item = &'r ChartRow<'a>>,
    most: f64,
) -> io::Result<()> {
    let Some(row) = rows.find(|r| r.most >= most) else {
        return Ok(());
    };
    let Some(interval) = row.each.iter().position(|v| *v >= most).and_then(|i| intervals.get(i))
    else {
        return Ok(());
    };
    let what = interval.members.get(row.number).and_then(|w| w.most()).map_or(
        "no request completed".to_owned(),
        |(origin, op, share)| {
            let share = units::percent_short(share);
            format!("{origin} {op} {share} of its requests")
        },
    );
    let zone = time::local();
    let line = format!(
        "busiest: {} {} from {} to {}: {what}",
        clean(row.name),
        units::percent_short(most),
        time::clock_both(interval.from_us, &zone),
        time::clock_both(interval.to_us, &zone),
    );
    wrapped(out, "  ", &line)
}

fn mean(intervals: &[TimelineInterval], each: &[f64]) -> f64 {
    let lengths = intervals.iter().map(|i| (i.to_us - i.from_us) as f64);
    let busy: f64 = lengths.clone().zip(each).map(|(l, v)| l * v).sum();
    busy / lengths.sum::<f64>().max(1.0)
}

/// Character for a share of the full height.
fn column(share: f64) -> char {
    let height = (share * HEIGHTS.len() as f64).ceil() as usize;
    match height {
        0 => ' ',
        n => HEIGHTS.get(n - 1).copied().unwrap_or('█'),
    }
}

#[cfg(test)]
mod tests {
    use super::{column, length};

    #[test]
    fn columns_and_lengths() {
        assert_eq!([0.0, 0.001, 0.5, 1.0, 2.0].map(column), [' ', '▁', '▄', '█', '█']);
        assert_eq!([1, 90, 900, 7200].map(length), ["1 s", "90 s", "15 min", "2 h"]);
    }
}
