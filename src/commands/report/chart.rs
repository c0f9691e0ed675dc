//! The timeline as text: a row of columns for each member, and the busiest interval.

use std::io::{self, Write};

use super::lines::{length, wrapped};
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::time;
use crate::analysis::timeline::{Interval, Timeline};
use crate::analysis::units;
use crate::ui::text::{clean, left, right};

/// Column heights above zero; zero is a space.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum number of members if every member has a row.
const MEMBERS: usize = 24;
/// Number of rows for the busiest members if there are more than `MEMBERS`.
const BUSIEST: usize = 12;

struct Row<'a> {
    name: &'a str,
    number: usize,
    each: Vec<f64>,
    mean: f64,
    most: f64,
}

/// Writes the utilisation of each member of `array` over time. Writes nothing for a single
/// interval.
pub fn write(out: &mut Vec<u8>, timeline: &Timeline, array: &ArraySnapshot) -> io::Result<()> {
    let intervals = &timeline.intervals;
    if intervals.len() < 2 {
        return Ok(());
    }
    let mut rows: Vec<Row<'_>> = array
        .members
        .iter()
        .filter_map(|member| {
            let own = |(a, m): &(String, String)| *a == array.info.name && *m == member.name;
            let number = timeline.names.iter().position(own)?;
            let each: Vec<f64> = intervals.iter().map(|i| i.utilisation(number)).collect();
            Some(Row {
                name: &member.name,
                number,
                mean: mean(intervals, &each),
                most: each.iter().copied().fold(0.0, f64::max),
                each,
            })
        })
        .collect();
    let most = rows.iter().map(|r| r.most).fold(0.0, f64::max);
    if most == 0.0 {
        return Ok(());
    }
    writeln!(
        out,
        "Timeline: utilisation, about {} per column, full height {}",
        length(timeline.length_s),
        units::percent(most)
    )?;
    let mut rest = Vec::new();
    if rows.len() > MEMBERS {
        rows.sort_by(|a, b| b.mean.total_cmp(&a.mean));
        rest = rows.split_off(BUSIEST);
        rows.sort_by_key(|r| r.number);
    }
    let width = rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0).clamp(6, 14);
    writeln!(
        out,
        "  {} {} {:>5} {:>5}",
        left("member", width),
        " ".repeat(intervals.len()),
        "mean",
        "most"
    )?;
    for row in &rows {
        let columns: String = row.each.iter().map(|v| column(v / most)).collect();
        writeln!(
            out,
            "  {} {columns} {} {}",
            left(&clean(row.name), width),
            right(&units::percent_short(row.mean), 5),
            right(&units::percent_short(row.most), 5),
        )?;
    }
    if !rest.is_empty() {
        let most = rest.iter().map(|r| r.most).fold(0.0, f64::max);
        writeln!(
            out,
            "  and {} more members, each at most {}",
            rest.len(),
            units::percent_short(most)
        )?;
    }
    busiest(out, intervals, rows.iter().chain(&rest), most)
}

/// `  busiest: loop1 31% from 09:12:24.100Z to 09:12:25.200Z: inode_table write 83% of its
/// requests`
fn busiest<'r, 'a: 'r>(
    out: &mut Vec<u8>,
    intervals: &[Interval],
    mut rows: impl Iterator<Item = &'r Row<'a>>,
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

/// Mean over all intervals, weighted by length.
fn mean(intervals: &[Interval], each: &[f64]) -> f64 {
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
