//! The report as text, 80 columns wide: filesystem and array, headline, two bars per member, and
//! the origins.

use std::io::{self, Write};

use anyhow::Result;
use serde_json::Value;

use super::args::LayoutArgs;
use crate::analysis::placement::Groups;
use crate::analysis::placement::report::{self, PlacementReport};
use crate::analysis::placement::spread::{MemberSpread, PlacementFigure, skew};
use crate::analysis::placement::target::Target;
use crate::analysis::units;
use crate::origin::Origin;
use crate::raid::Geometry;
use crate::ui::lines::success_if_nobody_reads;
use crate::ui::text;

const COLUMNS: usize = 80;
const BAR: usize = 23;
const NAME: usize = 10;

/// Writes lines without spaces at their ends.
pub fn write_lines(out: &mut dyn Write, lines: Vec<String>) -> io::Result<()> {
    for line in lines {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The report. If `all`, includes every origin by member.
pub fn lines(report: &PlacementReport, all: bool) -> Vec<String> {
    let mut out: Vec<String> = about(&report.target).iter().flat_map(|l| wrapped("", l)).collect();
    let mark = if report.uneven { "! " } else { "  " };
    out.extend(wrapped(mark, &report.headline));
    if let Some(why) = &report.why {
        out.extend(wrapped("  why: ", why));
    }
    if let Some(advice) = &report.advice {
        out.extend(wrapped("  do: ", advice));
    }
    out.push(String::new());
    if report.spread.members.len() > 1 {
        out.extend(bars(report));
        out.extend(grown(report));
        out.push(String::new());
    }
    out.extend(origins(report));
    if all {
        out.push(String::new());
        out.extend(matrix(report));
    }
    for note in report::notes(&report.target) {
        out.extend(wrapped("note: ", note));
    }
    out
}

/// Prints lines, or with --json an object. A closed pipe is not an error.
pub fn print(
    args: &LayoutArgs,
    lines: impl FnOnce() -> Vec<String>,
    object: impl FnOnce() -> Value,
) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = match args.json {
        true => writeln!(out, "{}", object()),
        false => write_lines(&mut out, lines()),
    };
    success_if_nobody_reads(written.and_then(|()| out.flush()))
}

/// Wraps untrusted text at 80 columns. The first line starts with `mark`, the other lines are
/// indented.
pub fn wrapped(mark: &str, sentence: &str) -> Vec<String> {
    let indent = 2;
    let sentence = text::clean(sentence);
    let glued = format!("{}{sentence}", text::glue(mark));
    let mut lines = text::wrap(&glued, COLUMNS - indent, 12);
    for line in lines.iter_mut().skip(1) {
        line.insert_str(0, &" ".repeat(indent));
    }
    lines
}

/// Filesystem and array, one line each.
pub fn about(target: &Target) -> [String; 2] {
    let fs = &target.fs;
    let geometry = &target.array.geometry;
    let mut first = format!(
        "{}: {}, {}, {} blocks",
        text::clean(&target.name),
        fs.kind,
        text::glue(&units::size(fs.bytes())),
        text::glue(&units::size(fs.block_size.into())),
    );
    match fs.groups {
        Some(Groups::Block(groups)) => {
            first.push_str(&format!(", {} groups of {}", groups.count, groups.blocks));
            if groups.per_flex > 1 {
                first.push_str(&format!(", flex\u{a0}{}", groups.per_flex));
            }
        }
        Some(Groups::Allocation(groups)) => {
            first.push_str(&format!(", {} allocation groups of {}", groups.count, groups.blocks))
        }
        None => {}
    }
    let name = target.array.name.as_deref();
    let part = match target.share() {
        share if share < 1.0 => format!(" ({} of it)", text::glue(&units::percent(share))),
        _ => String::new(),
    };
    let named = name.map_or(String::new(), |n| format!("{n}{part}, "));
    let mut second = format!("on {named}{}", array_words(geometry));
    if name.is_none() && geometry.disks() > 1 {
        second.push_str(" (from the command line)");
    }
    [first, second]
}

/// `raid5 of 8 disks, 512 KiB chunks`.
pub fn array_words(geometry: &Geometry) -> String {
    let mut words = geometry.level().to_string();
    if geometry.disks() > 1 {
        words.push_str(&format!(" of {} disks", geometry.disks()));
    }
    if let Some(chunk) = geometry.chunk_sectors() {
        words.push_str(&format!(", {} chunks", units::size(chunk * 512)));
    }
    words
}

/// A bar in half columns. The value `most` takes `columns`.
fn bar(value: u64, most: u64, columns: usize) -> String {
    let halves = (value as f64 * 2.0 * columns as f64 / most.max(1) as f64).round() as usize;
    let halves = if value > 0 { halves.max(1) } else { 0 };
    let half = if halves % 2 == 1 { "▌" } else { "" };
    text::left(&format!("{}{half}", "█".repeat(halves / 2)), columns)
}

fn bars(report: &PlacementReport) -> Vec<String> {
    let fs = &report.target.fs;
    let members = &report.spread.members;
    let [allocation, inodes] = fs.figures().names;
    let [allocation_unit, inodes_unit] = fs.units();
    let figures: [(String, PlacementFigure, u64); 2] = [
        (allocation.to_owned(), fs.figures().allocation, allocation_unit),
        (format!("{inodes}*"), |m| m.heads, inodes_unit),
    ];
    let mut head = text::left("slot", 5) + &text::left("member", NAME);
    let mut foot = text::left("", 5) + &text::left("skew", NAME);
    for (title, figure, _) in &figures {
        head.push_str(&format!(" {}", text::left(&format!("{title:>7}"), 8 + BAR)));
        let skew = units::factor(skew(members.iter().map(*figure)));
        foot.push_str(&format!(" {:>7} {}", skew, " ".repeat(BAR)));
    }
    let mut out = vec![head];
    for (slot, member) in members.iter().enumerate() {
        let name = text::clean(report.target.array.member(slot)).into_owned();
        let mut line = format!("{slot:>4} ") + &text::left(&name, NAME);
        for (_, figure, unit) in &figures {
            let most = members.iter().map(*figure).max().unwrap_or(0);
            let value = figure(member);
            let count = short(value / unit);
            line.push_str(&format!(" {count:>7} {}", bar(value, most, BAR)));
        }
        out.push(line);
    }
    out.push(foot);
    let foot = match fs.groups {
        Some(Groups::Allocation(_)) => {
            "* where XFS puts the first 64 inodes of a group; both columns count groups"
        }
        _ => "* assumed in use: 4 per group from the start of each flex group; all in blocks",
    };
    out.push(foot.to_owned());
    out
}

/// A number in at most 7 columns, rounded if it has more digits.
fn short(value: u64) -> String {
    let text = value.to_string();
    if text.len() <= 7 { text } else { units::count(value as f64) }
}

fn grown(report: &PlacementReport) -> Vec<String> {
    let Some((disks, skews)) = &report.grown else {
        return Vec::new();
    };
    let [allocation, inodes] = [skews.allocation, skews.inodes].map(units::factor);
    let names = report.target.fs.figures().names;
    let sentence =
        format!("after growing to {disks} disks: {} {allocation}, {} {inodes}", names[0], names[1]);
    wrapped("", &sentence)
}

fn origins(report: &PlacementReport) -> Vec<String> {
    let fs = &report.target.fs;
    let (unit, unit_sectors) = fs.origin_unit();
    let members = report.spread.members.len();
    let mut out =
        vec![format!("{:<20}{unit:>12}{:>10}{:>7}  {}", "origin", "bytes", "skew", "most on")];
    for &origin in fs.figures().origins {
        let figure = |m: &MemberSpread| m.sectors_of(origin);
        let sum: u64 = report.spread.members.iter().map(figure).sum();
        let count = sum / unit_sectors;
        if sum == 0 {
            continue;
        }
        // No skew for fewer blocks or groups than members, which cannot be even.
        let skew = report.spread.skew(figure).filter(|_| fs.pieces(origin, sum) >= members as u64);
        out.push(format!(
            "{:<20}{count:>12}{:>10}{:>7}  {}",
            origin.name(),
            units::bytes(sum as f64 * 512.0),
            units::factor(skew),
            most_on(report, figure),
        ));
    }
    out
}

/// Slots with more than 1.2 times the mean; only their number if more than 8.
fn most_on(report: &PlacementReport, figure: impl Fn(&MemberSpread) -> u64) -> String {
    let members = &report.spread.members;
    let sum: u64 = members.iter().map(&figure).sum();
    let mean = sum as f64 / members.len() as f64;
    let slots: Vec<usize> =
        (0..members.len()).filter(|&slot| figure(&members[slot]) as f64 > mean * 1.2).collect();
    match slots.as_slice() {
        [] => "even".to_owned(),
        some if some.len() <= 8 => some.iter().map(usize::to_string).collect::<Vec<_>>().join(" "),
        many => format!("{} of {} slots", many.len(), members.len()),
    }
}

/// Column heading of an origin.
fn column(origin: Origin) -> &'static str {
    match origin {
        Origin::BlockBitmap => "bbitmap",
        Origin::InodeBitmap => "ibitmap",
        Origin::InodeTable => "itable",
        Origin::GroupDescriptors => "gdt",
        Origin::Superblock => "super",
        Origin::Journal => "journal",
        Origin::ExtentTree => "extents",
        Origin::AgHeader => "header",
        Origin::FreeSpaceBtree => "free",
        Origin::InodeBtree => "inobt",
        Origin::RmapBtree => "rmap",
        Origin::RefcountBtree => "refcnt",
        Origin::InodeCluster => "inodes",
        _ => "other",
    }
}

/// Blocks, or sectors, of each origin on each member.
fn matrix(report: &PlacementReport) -> Vec<String> {
    let (_, unit_sectors) = report.target.fs.origin_unit();
    let origins = report.target.fs.figures().origins;
    let width = (COLUMNS - 5) / origins.len();
    let mut head = text::left("slot", 5);
    for &origin in origins {
        head.push_str(&format!("{:>width$}", column(origin)));
    }
    let mut out = vec![head];
    for (slot, member) in report.spread.members.iter().enumerate() {
        let mut line = format!("{slot:>4} ");
        for &origin in origins {
            let count = member.sectors_of(origin) / unit_sectors;
            line.push_str(&format!("{count:>width$}"));
        }
        out.push(line);
    }
    out
}
