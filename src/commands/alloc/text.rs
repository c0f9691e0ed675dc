//! `--batch`, and the summary at the end: an interval as plain text, 80 columns wide, starting with
//! the headline.

mod extents;
mod tasks;

use std::io::{self, Write};

use self::extents::extents;
pub(super) use self::extents::orders;
pub(super) use self::tasks::{activity, busiest, in_allocator};
use self::tasks::{cpus, files, tasks};
use crate::analysis::alloc::figures;
use crate::analysis::alloc::figures::{
    BITMAPS, DISCARDS, LATENCY, MIN_NOTICEABLE_COST, PREALLOCATED, READS, REQUESTS, SEARCHES,
    WAITS, bucket, criterion, has, has_given, has_groups, is_hooked, mean_goal, mean_groups,
    per_cent, reasons, refusal_text, tasks_at_once, total, whole,
};
use crate::analysis::alloc::{AllocSnapshot, FsAlloc, Reason};
use crate::analysis::hist::Hist;
use crate::analysis::units;
use crate::analysis::units::{count, percent};
use crate::ui::rows::seconds;
use crate::ui::text::{clean, glue, left, wrap};

const COLUMNS: usize = 80;
/// Width of the label column.
const LABEL: usize = 14;
/// Maximum number of tasks, files and threads to list.
const MAX_NAMED: usize = 5;
/// Width of the longest bar.
const MAX_BAR: usize = 24;
/// Maximum number of lines of a sentence or list.
const MAX_LINES: usize = 12;

/// Writes `snapshot` and flushes: the headline and figures of every filesystem, then the CPUs.
pub fn write(out: &mut impl Write, snapshot: &AllocSnapshot) -> io::Result<()> {
    let mut text = Vec::with_capacity(4096);
    for fs in &snapshot.filesystems {
        filesystem(&mut text, snapshot, fs)?;
    }
    if snapshot.filesystems.is_empty() {
        writeln!(text, "no ext4 filesystem is left")?;
        line(&mut text, &about(snapshot))?;
    }
    cpus(&mut text, snapshot)?;
    let sources = figures::sources(snapshot);
    if !sources.is_empty() {
        labelled(&mut text, "from", &sources)?;
    }
    writeln!(text)?;
    out.write_all(&text)?;
    out.flush()
}

/// Time and length of the interval, lost events, and overhead.
fn about(s: &AllocSnapshot) -> String {
    format!(
        "{}, {}; {} {}; {}",
        s.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        units::seconds(s.interval),
        if s.lost == 0 { "lost" } else { "LOST" },
        count(s.lost as f64),
        s.overhead.describe(s.interval)
    )
}

/// `md3 on /srv`, printable.
pub(super) fn name(fs: &FsAlloc) -> String {
    let name = clean(&fs.name);
    match &fs.mount {
        Some(mount) => format!("{name} on {}", clean(mount)),
        None => name.into_owned(),
    }
}

/// `221,184 groups, blocks of 4 KiB, stripe=640`
pub(super) fn shape(fs: &FsAlloc) -> String {
    let mut parts = Vec::new();
    if fs.groups > 0 {
        parts.push(format!("{} groups", whole(u64::from(fs.groups))));
    }
    if fs.block_bytes > 0 {
        parts.push(format!("blocks of {}", units::size(u64::from(fs.block_bytes))));
    }
    if fs.stripe > 1 {
        parts.push(format!("stripe={}", fs.stripe));
    }
    parts.join(", ")
}

/// True if allocations are counted, so that 0 means none.
pub(super) fn is_counted(s: &AllocSnapshot) -> bool {
    has(s, REQUESTS, true)
}

/// The headline of a filesystem. Untrusted, like the names in it.
pub(super) fn headline(s: &AllocSnapshot, fs: &FsAlloc) -> String {
    match &fs.reason {
        Some(reason) => reason.sentence.clone(),
        None if !is_counted(s) => "allocations are not counted (see the notes)".to_owned(),
        None if fs.counts.is_empty() => {
            format!("nothing stands out: nothing was allocated in {}", units::seconds(s.interval))
        }
        // Many quick allocations keep tasks in the allocator.
        None if tasks_at_once(fs, seconds(s.interval)) >= MIN_NOTICEABLE_COST => format!(
            "nothing stands out: {}/s given keep {:.1} tasks in the allocator at a time, {} each",
            count(fs.counts.given as f64 / seconds(s.interval)),
            tasks_at_once(fs, seconds(s.interval)),
            units::latency(Some(fs.counts.nanoseconds / fs.counts.latency.count().max(1) / 1000))
        ),
        None => "nothing stands out".to_owned(),
    }
}

fn filesystem(out: &mut Vec<u8>, s: &AllocSnapshot, fs: &FsAlloc) -> io::Result<()> {
    let mark = if fs.reason.is_some() { '!' } else { ' ' };
    let sentence = headline(s, fs);
    let sentence = format!("{}: {}", name(fs), unbroken(&clean(&sentence)));
    for (i, line) in wrap(&sentence, COLUMNS - 2, MAX_LINES).iter().enumerate() {
        writeln!(out, "{} {line}", if i == 0 { mark } else { ' ' })?;
    }
    if let Some(reason) = &fs.reason {
        fix(out, reason)?;
    }
    line(out, &about(s))?;
    let shape = shape(fs);
    if !shape.is_empty() {
        line(out, &shape)?;
    }
    if !fs.counts.is_empty() {
        write_figures(out, allocation_lines(s, fs))?;
        write_figures(out, search_lines(s, fs))?;
        criteria(out, s, fs)?;
        write_figures(out, bitmap_lines(s, fs))?;
    }
    if let Some(fragmentation) = &fs.fragmentation {
        extents(out, fragmentation, fs)?;
    }
    tasks(out, s, fs)?;
    files(out, s, fs)?;
    writeln!(out)
}

/// Keeps a figure and its `%` on one line.
pub(super) fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// Commands that fix a problem, and their risk.
fn fix(out: &mut Vec<u8>, reason: &Reason) -> io::Result<()> {
    if let Some(rule) = &reason.rule {
        let rule = clean(rule);
        line(out, &format!("how to fix it (raidtrace doctor: {rule}):"))?;
    } else if !reason.commands.is_empty() {
        line(out, "how to fix it:")?;
    }
    for command in &reason.commands {
        // Do not wrap commands, so that they can be copied.
        writeln!(out, "      {}", clean(command))?;
    }
    if let Some(risk) = &reason.risk {
        let first = if reason.commands.is_empty() { "" } else { "risk: " };
        for text in wrap(&format!("{first}{}", clean(risk)), COLUMNS - 4, MAX_LINES) {
            writeln!(out, "    {text}")?;
        }
    }
    Ok(())
}

fn line(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    for text in wrap(text, COLUMNS - 2, MAX_LINES) {
        writeln!(out, "  {text}")?;
    }
    Ok(())
}

/// Writes a figure after its label.
fn labelled(out: &mut Vec<u8>, name: &str, text: &str) -> io::Result<()> {
    let room = COLUMNS - LABEL - 2;
    for (i, text) in wrap(text, room, MAX_LINES).iter().enumerate() {
        let name = if i == 0 { name } else { "" };
        writeln!(out, "  {}{text}", left(name, LABEL))?;
    }
    Ok(())
}

fn write_figures(out: &mut Vec<u8>, lines: Vec<(&str, String)>) -> io::Result<()> {
    lines.iter().try_for_each(|(name, text)| labelled(out, name, text))
}

/// `p50 40ms, p99 82ms, max 82ms`; values are at most 25 % too high.
pub(super) fn quantiles(hist: &Hist) -> String {
    let of = |q| units::latency(hist.quantile(q));
    glue(&format!("p50 {}, p99 {}, max {}", of(0.5), of(0.99), units::latency(hist.max())))
}

const UNKNOWN: &str = "not known here";

/// Joins the known parts of a line.
fn known(parts: &[String]) -> String {
    if parts.is_empty() { UNKNOWN.to_owned() } else { parts.join("; ") }
}

/// Labelled lines about requested and granted allocations. Shared with the screen.
pub(super) fn allocation_lines(s: &AllocSnapshot, fs: &FsAlloc) -> Vec<(&'static str, String)> {
    let (c, secs) = (&fs.counts, seconds(s.interval));
    let each = |sum: u64, n: u64| {
        let mean = sum as f64 / n.max(1) as f64;
        if n == 0 { "-".to_owned() } else { count(mean) }
    };
    let mut parts = Vec::new();
    if has(s, REQUESTS, c.requests > 0) {
        let (n, blocks) = (count(c.requests as f64 / secs), each(c.asked, c.requests));
        parts.push(format!("{n}/s asked for, {blocks} blocks each"));
    }
    if has_given(s, c) {
        let (n, blocks) = (count(c.given as f64 / secs), each(c.got, c.given));
        parts.push(format!("{n}/s given, {blocks} blocks each"));
    }
    if has(s, LATENCY, c.nanoseconds > 0) {
        let n = count(tasks_at_once(fs, secs));
        parts.push(format!("{n} tasks in the allocator at a time"));
    }
    let mut lines = vec![("allocations", known(&parts))];
    if has(s, LATENCY, c.latency.count() > 0) {
        lines.push(("latency", quantiles(&c.latency)));
    } else {
        lines.push(("latency", UNKNOWN.to_owned()));
    }
    let mut parts = Vec::new();
    if has(s, PREALLOCATED, c.preallocated > 0) {
        let n = count(c.preallocated as f64 / secs);
        let share = c.preallocated as f64 / c.requests.max(1) as f64;
        let share = if has(s, REQUESTS, c.requests > 0) {
            format!(" ({})", glue(&percent(share)))
        } else {
            String::new()
        };
        parts.push(format!("{n}/s served from preallocated space{share}"));
    }
    if has(s, DISCARDS, c.discards > 0) {
        parts.push(format!("{}/s given back", count(c.discards as f64 / secs)));
    }
    if !parts.is_empty() {
        lines.push(("preallocated", parts.join("; ")));
    }
    lines
}

/// Labelled lines about searches and the groups they considered. Shared with the screen.
pub(super) fn search_lines(s: &AllocSnapshot, fs: &FsAlloc) -> Vec<(&'static str, String)> {
    let (c, secs) = (&fs.counts, seconds(s.interval));
    let mut lines = Vec::new();
    if has(s, SEARCHES, c.searches > 0) {
        let goal =
            mean_goal(c).map_or(String::new(), |g| format!(" for {} blocks on average", whole(g)));
        lines.push(("searches", format!("{}/s{goal}", count(c.searches as f64 / secs))));
    } else {
        lines.push(("searches", UNKNOWN.to_owned()));
    }
    if !has_groups(s, c) {
        lines.push(("groups", UNKNOWN.to_owned()));
        return lines;
    }
    let of = |q| c.groups.quantile(q).map_or("-".to_owned(), bucket);
    let mean = match mean_groups(s, c) {
        Some(_) if c.groups.count() == 0 && is_hooked(s, c) => "no search has ended".to_owned(),
        Some(mean) => format!("mean {}", whole(mean.round() as u64)),
        None => "-".to_owned(),
    };
    let mut text = format!("considered by a search: {mean}");
    if c.groups.count() > 0 {
        let (p50, p99, max) = (of(0.5), of(0.99), of(1.0));
        text.push_str(&format!("; p50 {p50}, p99 {p99}, max {max}"));
    }
    lines.push(("groups", text));
    let looks = c.looks();
    let mut text = format!(
        "{} of {}",
        per_cent(c.refusals() as f64 / looks.max(1) as f64),
        count(looks as f64)
    );
    let named: Vec<String> = reasons(c)
        .iter()
        .map(|(reason, share)| format!("{} {}", glue(&percent(*share)), refusal_text(*reason)))
        .collect();
    if !named.is_empty() {
        text.push_str(&format!("; of a sample of these {}", named.join(", ")));
    }
    if looks > 0 && is_hooked(s, c) {
        lines.push(("refused", text));
    }
    if let Some(by_ext4) = fs.mb_stats.filter(|_| is_hooked(s, c)) {
        let shown = match figures::disagreement(s, fs) {
            Some(_) => ": more than 20 % apart; the hook's count is shown",
            None => "",
        };
        lines.push((
            "mb_stats",
            format!(
                "ext4 itself counts {} groups considered, the hook {}{shown}",
                whole(by_ext4.groups),
                whole(looks)
            ),
        ));
    }
    lines
}

/// A criterion that a search used.
pub(super) struct Criterion {
    /// Untrusted if it comes from a file.
    pub name: String,
    pub searches: u64,
    /// Groups considered, if known.
    pub looked: Option<u64>,
    /// Share of the considered groups that was refused, if known.
    pub refused: Option<f64>,
}

impl Criterion {
    /// Table cells: groups considered, and the share refused.
    pub fn cells(&self) -> (String, String) {
        let looked = self.looked.map_or("-".to_owned(), |n| count(n as f64));
        let refused = self.refused.filter(|_| self.looked > Some(0));
        (looked, refused.map_or("-".to_owned(), per_cent))
    }
}

/// The criteria that searches used, in the kernel's order.
pub(super) fn by_criterion(s: &AllocSnapshot, fs: &FsAlloc) -> Vec<Criterion> {
    let c = &fs.counts;
    let (known, hooked) = (has_groups(s, c), is_hooked(s, c));
    let rows = c.criteria.iter().zip(c.looked.iter().zip(&c.refused));
    rows.enumerate()
        .filter(|(_, (n, (looked, _)))| **n > 0 || **looked > 0)
        .map(|(i, (&searches, (&looked, &refused)))| Criterion {
            name: criterion(&s.criteria, i),
            searches,
            looked: known.then_some(looked),
            refused: hooked.then(|| refused as f64 / looked.max(1) as f64),
        })
        .collect()
}

/// Writes a table of the criteria that searches used.
fn criteria(out: &mut Vec<u8>, s: &AllocSnapshot, fs: &FsAlloc) -> io::Result<()> {
    let rows = by_criterion(s, fs);
    if !rows.is_empty() {
        let head =
            format!("{:<18} {:>9} {:>10} {:>8}", "criterion", "searches", "looked at", "refused");
        labelled(out, "criteria", &glue(&head))?;
    }
    for c in rows {
        let (looked, refused) = c.cells();
        let row =
            format!("{} {:>9} {looked:>10} {refused:>8}", left(&clean(&c.name), 18), c.searches);
        labelled(out, "", &glue(&row))?;
    }
    Ok(())
}

fn none_or(n: u64) -> String {
    if n == 0 { "none".to_owned() } else { count(n as f64) }
}

/// Labelled lines about bitmaps in memory and on disk. Shared with the screen.
pub(super) fn bitmap_lines(s: &AllocSnapshot, fs: &FsAlloc) -> Vec<(&'static str, String)> {
    let (c, secs) = (&fs.counts, seconds(s.interval));
    let mut parts = Vec::new();
    if has(s, BITMAPS, c.bitmaps | c.buddies > 0) {
        parts.push(format!(
            "{} brought into memory, {} made into buddies",
            none_or(c.bitmaps),
            none_or(c.buddies)
        ));
    }
    if has(s, READS, c.reads | c.prefetches > 0) {
        parts.push(format!(
            "{} read from disk, {} prefetched",
            none_or(c.reads),
            none_or(c.prefetches)
        ));
    }
    let mut lines = vec![("bitmaps", known(&parts))];
    if !has(s, WAITS, c.waits.count() > 0) {
        lines.push(("waits", UNKNOWN.to_owned()));
    } else if c.waits.count() > 0 {
        lines
            .push(("waits", format!("{}; {}", count(c.waits.count() as f64), quantiles(&c.waits))));
    }
    let all = total(fs.members.iter().map(|m| &m.1));
    for (i, (name, requests, bytes, us)) in fs.members.iter().filter(|m| m.1 > 0).enumerate() {
        let text = format!(
            "{}: {}/s {}/s ({}), {}",
            clean(name),
            count(*requests as f64 / secs),
            units::bytes(*bytes as f64 / secs),
            percent(*requests as f64 / all.max(1) as f64),
            quantiles(us)
        );
        if i < MAX_NAMED {
            lines.push((if i == 0 { "read by" } else { "" }, text));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
