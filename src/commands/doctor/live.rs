//! `--live` and `--load`: what the members were seen to write, beside what the layout predicts. Pure: a snapshot and facts in,
//! rows and findings out.

use std::time::Duration;

use super::facts::{ArrayFacts, Facts};
use super::finding::{Finding, Severity};
use super::rules::{journal, list, plural};
use crate::analysis::snapshot::{ArraySnapshot, JournalStalls, MemberSnapshot, Snapshot};
use crate::analysis::{hotspot, units};
use crate::origin::{Op, Origin};

/// Origins whose places are known and that are written here and there: the journal goes round by itself.
const COMPARED: [Origin; 3] = [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable];
/// Blocks of 4 KiB a member on average below which nothing is proved.
const ENOUGH: u64 = 8;
/// As `layout` counts it.
const STANDS_OUT: f64 = 1.5;
/// Share that would have to move to another member for the two to agree.
const APART: f64 = 0.25;
/// A member with less of the layout than this holds next to none of it.
const NONE: f64 = 0.005;
/// Of the mean: what such a member is not written by chance.
const SOME: f64 = 0.25;
/// Share of a member's writes from which the write-intent bitmap is hot, and writes that it takes to say so: all, and a second.
const HOT: f64 = 0.2;
const HOT_WRITES: u64 = 100;
const HOT_RATE: f64 = 10.0;

/// A member of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Kernel name.
    pub name: String,
    /// Its slot.
    pub slot: u32,
    /// Bytes written.
    pub bytes: u64,
    /// What the layout has there of the origin, 0 to 1.
    pub predicted: f64,
}

/// Writes of one origin on an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The array.
    pub array: String,
    /// What was written.
    pub origin: Origin,
    /// Bytes on all members.
    pub bytes: u64,
    /// The busiest member over the mean, as seen.
    pub observed: f64,
    /// The same as the layout has it.
    pub predicted: f64,
    /// By slot.
    pub members: Vec<Share>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The recording that it is from; `None` for this run.
    pub recording: Option<String>,
    /// Seconds.
    pub interval_s: f64,
    /// Events that were lost.
    pub lost: u64,
    /// Rows with enough in them.
    pub rows: Vec<Row>,
}

impl Row {
    /// Members that carry more than the mean, the busiest first.
    pub fn busiest(&self) -> Vec<&str> {
        let mean = self.bytes as f64 / self.members.len().max(1) as f64;
        let mut above: Vec<&Share> = self
            .members
            .iter()
            .filter(|m| m.bytes as f64 > mean * 1.2)
            .collect();
        above.sort_by_key(|m| std::cmp::Reverse(m.bytes));
        above.iter().map(|m| m.name.as_str()).collect()
    }

    fn seen(&self, m: &Share) -> f64 {
        m.bytes as f64 / self.bytes.max(1) as f64
    }

    /// Share of the writes that would have to be elsewhere.
    fn apart(&self) -> f64 {
        let sum: f64 = self
            .members
            .iter()
            .map(|m| (self.seen(m) - m.predicted).abs())
            .sum();
        sum / 2.0
    }

    /// Members that are written although the layout has nothing there.
    fn impossible(&self) -> Vec<&str> {
        let some = SOME / self.members.len().max(1) as f64;
        self.members
            .iter()
            .filter(|m| m.predicted < NONE && self.seen(m) >= some)
            .map(|m| m.name.as_str())
            .collect()
    }
}

/// Compares.
pub fn compare(facts: &Facts, snapshot: &Snapshot) -> (Live, Vec<Finding>) {
    let mut live = Live {
        recording: None,
        interval_s: snapshot.interval.as_secs_f64(),
        lost: snapshot.lost.events(),
        rows: Vec::new(),
    };
    let mut found = Vec::new();
    for of in &facts.arrays {
        let Some(seen) = snapshot
            .arrays
            .iter()
            .find(|a| a.info.name == of.array.name)
        else {
            continue;
        };
        let rows: Vec<Row> = COMPARED.iter().filter_map(|o| row(of, seen, *o)).collect();
        let mut on: Vec<Finding> = rows.iter().filter_map(|r| disagrees(of, r)).collect();
        on.extend(skewed(seen, &rows, snapshot.interval));
        on.extend(hot_bitmap(of, seen, snapshot.interval));
        on.extend(stalled(of, seen, snapshot.interval));
        found.extend(on.into_iter().map(|f| Finding {
            array: Some(of.array.name.clone()),
            ..f
        }));
        live.rows.extend(rows);
    }
    (live, found)
}

/// Filesystems whose journals had no room.
fn stalled(of: &ArrayFacts, seen: &ArraySnapshot, over: Duration) -> Vec<Finding> {
    let journal = seen.submitted.get(&(Origin::Journal, Op::Write)).copied();
    // By array: whose journal it was is known where there is one.
    let filling = journal.filter(|_| of.filesystems.len() == 1);
    let filling = filling.map(|bytes| bytes as f64 / over.as_secs_f64().max(f64::MIN_POSITIVE));
    let of_one = |stalls: &JournalStalls| {
        let fs = of
            .filesystems
            .iter()
            .find(|f| f.fs.name == stalls.filesystem)?;
        let finding = journal::small(fs, stalls, over, filling)?;
        Some(finding.on(fs))
    };
    seen.journal_stalls.iter().filter_map(of_one).collect()
}

/// A skew of the layout is a warning where members were measured to saturate for it.
pub fn raise(found: &mut [Finding], measured: &[Finding]) {
    let hurts = measured
        .iter()
        .filter(|f| f.id == "live-skew" && f.severity >= Severity::Warning);
    for measured in hurts {
        let of_layout = |f: &&mut Finding| f.id == "layout-skew" && f.array == measured.array;
        for f in found.iter_mut().filter(of_layout) {
            f.severity = measured.severity;
            f.seen.push(format!("measured: {}", measured.title));
        }
    }
}

fn written(member: &MemberSnapshot, origin: Origin) -> u64 {
    let cells = member.io.iter();
    cells
        .filter(|c| c.origin == origin && c.op == Op::Write)
        .fold(0, |n, c| n.saturating_add(c.bytes))
}

fn row(of: &ArrayFacts, seen: &ArraySnapshot, origin: Origin) -> Option<Row> {
    let disks = of.array.raid_disks as usize;
    let mut places = vec![0_u64; disks];
    for report in of.filesystems.iter().filter_map(|f| f.report.as_ref()) {
        for (place, member) in places.iter_mut().zip(&report.spread.members) {
            // Tables are as long as whole chunks, but the inodes in use are at their heads.
            *place += match origin {
                Origin::InodeTable => member.heads,
                _ => member.of(origin),
            };
        }
    }
    let all: u64 = places.iter().sum();
    let members: Vec<Share> = seen
        .members
        .iter()
        .filter_map(|m| {
            let slot = m.slot?;
            Some(Share {
                name: m.name.clone(),
                slot,
                bytes: written(m, origin),
                predicted: *places.get(slot as usize)? as f64 / all.max(1) as f64,
            })
        })
        .collect();
    let bytes: u64 = members.iter().map(|m| m.bytes).sum();
    let n = members.len();
    if n < 2 || all == 0 || bytes / 4096 < ENOUGH * n as u64 {
        return None;
    }
    let most = members.iter().map(|m| m.bytes).max().unwrap_or(0);
    let most_predicted = members.iter().map(|m| m.predicted).fold(0.0, f64::max);
    Some(Row {
        array: of.array.name.clone(),
        origin,
        bytes,
        observed: most as f64 * n as f64 / bytes as f64,
        predicted: most_predicted * n as f64,
        members,
    })
}

/// Neither by chance nor by rounding.
fn disagrees(of: &ArrayFacts, row: &Row) -> Option<Finding> {
    let apart = row.apart();
    let impossible = row.impossible();
    if apart < APART || of.array.before_reshape.is_some() {
        return None;
    }
    let origin = row.origin.name();
    let finding = if impossible.is_empty() {
        Finding::new(
            "live-disagrees",
            Severity::Info,
            format!(
                "{origin} writes: {} the mean on the busiest member, where the layout has {}",
                units::factor(Some(row.observed)),
                units::factor(Some(row.predicted))
            ),
        )
        .why("only some groups are written now, and where these lie decides: another load, another picture")
    } else {
        Finding::new(
            "live-disagrees",
            Severity::Warning,
            format!("{origin} is written on {}, where the layout has none", list(&impossible)),
        )
        .why("the array or the filesystem is not what it was when its layout was read, or raidtrace is wrong: please report it")
    };
    let shares = row.members.iter().map(|m| {
        format!(
            "{} (slot {}): {} of the writes, {} of the places",
            m.name,
            m.slot,
            units::percent(row.seen(m)),
            units::percent(m.predicted)
        )
    });
    Some(
        shares
            .take(16)
            .fold(finding, Finding::seen)
            .figure("origin", origin)
            .figure("apart", apart)
            .figure("observed", row.observed)
            .figure("predicted", row.predicted)
            .source("raidtrace, measured"),
    )
}

/// The layout is uneven, and the load shows it.
fn skewed(seen: &ArraySnapshot, rows: &[Row], over: Duration) -> Option<Finding> {
    let uneven: Vec<&Row> = rows
        .iter()
        .filter(|r| r.observed >= STANDS_OUT && r.predicted >= STANDS_OUT && r.apart() < APART)
        .collect();
    let worst = uneven
        .iter()
        .copied()
        .max_by(|a, b| a.observed.total_cmp(&b.observed))?;
    let busiest = worst.busiest();
    let use_of = |name: &str| {
        let member = seen.members.iter().find(|m| m.name == name)?;
        member.utilisation()
    };
    let most = busiest.iter().filter_map(|n| use_of(n)).fold(0.0, f64::max);
    let others = seen
        .members
        .iter()
        .filter(|m| !busiest.contains(&m.name.as_str()))
        .filter_map(MemberSnapshot::utilisation)
        .fold(0.0, f64::max);
    // A skew that no member suffers from is worth knowing, no more: as `top` judges it.
    let pain = hotspot::find(seen, over);
    let severity =
        if pain.is_warning() && pain.members.iter().any(|m| busiest.contains(&m.as_str())) {
            Severity::Warning
        } else {
            Severity::Info
        };
    let finding = Finding::new(
        "live-skew",
        severity,
        format!(
            "{} carry the metadata writes, {} the mean, and are {} busy; no other is over {}",
            list(&busiest),
            units::factor(Some(worst.observed)),
            units::percent(most),
            units::percent(others)
        ),
    )
    .seen(pain.headline)
    .figure("observed", worst.observed)
    .figure("utilisation", most)
    .figure("utilisation_of_others", others)
    .why("it is where the layout put them, so it stays so under this load: see layout-skew for what would be even")
    .source("raidtrace, measured");
    Some(uneven.iter().fold(finding, |f, r| {
        f.seen(format!(
            "{}: {} written, {} the mean on the busiest, {} by the layout",
            r.origin.name(),
            units::size(r.bytes),
            units::factor(Some(r.observed)),
            units::factor(Some(r.predicted))
        ))
    }))
}

/// Every member has the same write-intent bitmap: the first one with enough writes will do.
fn hot_bitmap(of: &ArrayFacts, seen: &ArraySnapshot, over: Duration) -> Option<Finding> {
    let enough = HOT_WRITES.max((over.as_secs_f64() * HOT_RATE) as u64);
    let requests = |m: &MemberSnapshot, origin: Option<Origin>| -> u64 {
        let cells = m.io.iter();
        cells
            .filter(|c| c.op == Op::Write && origin.is_none_or(|o| c.origin == o))
            .map(|c| c.requests)
            .sum()
    };
    let hot = seen.members.iter().find(|m| {
        let all = requests(m, None);
        all >= enough && requests(m, Some(Origin::MdBitmap)) as f64 >= all as f64 * HOT
    })?;
    let (bitmap, all) = (requests(hot, Some(Origin::MdBitmap)), requests(hot, None));
    let share = bitmap as f64 / all as f64;
    let busy =
        of.array.degraded > 0 || of.array.sync_action.as_deref().is_some_and(|a| a != "idle");
    let finding = Finding::new(
        "bitmap-hot",
        Severity::Warning,
        format!("{} of the members' writes are the write-intent bitmap's", units::percent(share)),
    )
    .seen(format!("{}: {bitmap} of {}", hot.name, plural(all as usize, "write")))
    .figure("share", share)
    .why("each first write to a clean chunk waits until its bit is on every member, flushed: few writes at a time all over the array are the worst")
    .unless("the array is degraded or syncing: bits stay set then, and it passes")
    .source("measured, see docs/doctor.md; md(4), BITMAP WRITE-INTENT LOGGING");
    if busy {
        return Some(finding);
    }
    let dev = of.path();
    Some(
        finding
            .command(format!(
                "echo 60 > /sys/block/{}/md/bitmap/time_base",
                of.array.name
            ))
            .command(format!("mdadm --grow --bitmap=none {dev}"))
            .command(format!("mdadm --grow --bitmap=internal --bitmap-chunk=1G {dev}"))
            .risk("the first is undone with the old value, and costs a longer resync after a crash. Between the other two a crash means a full resync; they help where the first does not"),
    )
}

#[cfg(test)]
mod tests;
