//! Text output, 80 columns wide.

use super::findings::{COLUMNS, Findings, array_words, assumptions, not_predicted, percent};
use crate::analysis::placement::Filesystem;
use crate::analysis::relocate::Direction;
use crate::analysis::units;
use crate::commands::layout::table::wrapped;
use crate::ui::text;

const WIDTH: usize = 9;

pub fn lines(found: &Findings<'_>) -> Vec<String> {
    let (source, plan) = (found.source, &found.plan);
    let [(reads, read), (writes, written)] = found.submissions;
    let mut out = Vec::new();
    for line in [
        format!(
            "{}: {:.1} s, {} reads ({}) and {} writes ({}) submitted to {}",
            found.path,
            found.seconds,
            reads,
            text::glue(&units::bytes(read as f64)),
            writes,
            text::glue(&units::bytes(written as f64)),
            source.name,
        ),
        format!("recorded: {}; {}", array_words(&source.geometry), groups(&source.fs)),
        format!(
            "planned: {}; {}, {}",
            array_words(&plan.geometry),
            plan.options.command(),
            groups(&plan.fs)
        ),
    ] {
        out.extend(wrapped("", &line));
    }
    out.push(String::new());
    out.extend(wrapped("> ", &found.headline()));
    out.push(String::new());
    out.extend(members(found));
    out.push(String::new());
    out.extend(origins(found));
    out.push(String::new());
    let [bytes, requests] = found.errors();
    let check = format!(
        "on today's layout the model reproduces the recorded bytes of each member within {}, the \
         requests within {}",
        percent(bytes),
        percent(requests)
    );
    out.extend(wrapped("check: ", &check));
    for word in assumptions(source, plan) {
        out.extend(wrapped("assumed: ", &word));
    }
    out.extend(wrapped("not predicted: ", &not_predicted(source).join("; ")));
    for note in &found.notes {
        out.extend(wrapped("note: ", note));
    }
    out
}

fn groups(fs: &Filesystem) -> String {
    let mut words = format!("{} {}", fs.kind, text::glue(&units::size(fs.bytes())));
    if let Some(groups) = fs.allocation_groups() {
        words
            .push_str(&format!(", {} allocation groups of {} blocks", groups.count, groups.blocks));
    }
    if let Some(groups) = fs.block_groups() {
        words.push_str(&format!(
            ", {} groups of {}, flex\u{a0}{}",
            groups.count, groups.blocks, groups.per_flex
        ));
    }
    words
}

/// Shares of requests and bytes by member.
fn members(found: &Findings<'_>) -> Vec<String> {
    let direction = found.direction();
    let requests: Vec<Vec<u64>> = (0..3).map(|c| found.requests(c, direction)).collect();
    let bytes: Vec<Vec<u64>> = (0..3).map(|c| found.bytes(c)).collect();
    let both = [&requests, &bytes];
    let title = format!("share of {} requests", direction.op().name());
    let mut out = vec![
        text::left("", 15)
            + &text::right(&title, 3 * WIDTH)
            + &text::right("share of all bytes", 3 * WIDTH + 2),
        text::left("slot member", 15) + &heads() + "  " + &heads(),
    ];
    let slots = found.plan.geometry.disks().max(found.source.geometry.disks()) as usize;
    for slot in 0..slots {
        let name = found.source.members.get(slot).map_or("", String::as_str);
        let mut line = format!("{slot:>4} ") + &text::left(&text::clean(name), 10);
        for (i, columns) in both.iter().enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            for column in columns.iter() {
                line.push_str(&text::right(&share(column, slot), WIDTH));
            }
        }
        out.push(line);
    }
    let total = |columns: &[Vec<u64>], word: fn(f64) -> String| -> String {
        let sum = |column: &Vec<u64>| column.iter().fold(0_u64, |s, n| s.saturating_add(*n));
        columns.iter().map(|c| text::right(&word(sum(c) as f64), WIDTH)).collect()
    };
    out.push(
        text::left("     total", 15)
            + &total(&requests, units::count)
            + "  "
            + &total(&bytes, units::bytes_short),
    );
    let skews = |columns: &[Vec<u64>]| -> String {
        let skew = |c: &Vec<u64>| crate::analysis::placement::spread::skew(c.iter().copied());
        columns.iter().map(|c| units::factor(skew(c))).map(|w| text::right(&w, WIDTH)).collect()
    };
    out.push(text::left("     skew", 15) + &skews(&requests) + "  " + &skews(&bytes));
    for (name, pick) in [("load, mean", 0), ("load, most", 1)] {
        let loads: String = (0..3)
            .map(|column| {
                let load = found.load(column).map(|(mean, most)| [mean, most][pick]);
                let word = load.map_or("-".to_owned(), |l| format!("{l:.2}"));
                text::right(&word, WIDTH)
            })
            .collect();
        out.push(text::left(&format!("     {name}"), 15) + &loads);
    }
    out.extend(wrapped(
        "",
        "load: estimated requests in progress on the busiest member, per second or longer \
         interval, from the mean device time by operation and size in this recording",
    ));
    out
}

fn heads() -> String {
    COLUMNS.iter().map(|name| text::right(name, WIDTH)).collect()
}

fn share(column: &[u64], slot: usize) -> String {
    let sum = column.iter().fold(0_u64, |s, n| s.saturating_add(*n));
    match column.get(slot) {
        Some(n) if sum > 0 => percent(*n as f64 / sum as f64),
        _ => "-".to_owned(),
    }
}

/// Requests and skew of each origin.
fn origins(found: &Findings<'_>) -> Vec<String> {
    let mut out = vec![
        text::left("", 24)
            + &text::right("requests", 3 * WIDTH)
            + &text::right("skew of bytes", 3 * WIDTH + 2),
        text::left("origin", 24) + &heads() + "  " + &heads(),
    ];
    for (origin, direction) in found.origins() {
        let name = match direction {
            Direction::Read => format!("{} read", origin.name()),
            Direction::Write => format!("{} write", origin.name()),
        };
        let mut line = text::left(&name, 24);
        let sums: Vec<_> = (0..3).map(|c| found.of(c, origin, direction)).collect();
        for column in &sums {
            let requests: u64 = column.iter().map(|s| s.requests).sum();
            line.push_str(&text::right(&units::count(requests as f64), WIDTH));
        }
        line.push_str("  ");
        for column in &sums {
            let bytes = column.iter().map(|s| s.bytes);
            let skew = crate::analysis::placement::spread::skew(bytes);
            line.push_str(&text::right(&units::factor(skew), WIDTH));
        }
        out.push(line);
    }
    out
}
