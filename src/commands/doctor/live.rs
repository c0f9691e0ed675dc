//! `--live` and `--load`: compares measured writes with the layout. Pure: a snapshot and facts in,
//! rows and findings out.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;

use super::facts::{ArrayFacts, BitmapFacts, Facts};
use super::finding::{Finding, FindingSeverity};
use super::rules::{bitmap, journal, list, plural};
use crate::advice::slow::larger_bitmap_chunks;
use crate::analysis::placement::MIN_UNEVEN_SKEW;
use crate::analysis::snapshot::{ArraySnapshot, MemberSnapshot, Snapshot};
use crate::analysis::verdict::{AccountPart, Severity};
use crate::analysis::{hotspot, units};
use crate::origin::{Op, Origin};

/// Origins with fixed locations and scattered writes. The journal is written sequentially, so it
/// visits all members. Of XFS, only headers stay: roots of btrees move, and inodes are created
/// where space is free.
const COMPARED: [Origin; 4] =
    [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable, Origin::AgHeader];
/// Minimum number of 4 KiB blocks written per member, on average.
const MIN_BLOCKS: u64 = 8;
/// Minimum share of the writes on members other than predicted that counts as a disagreement.
const MIN_DISAGREEMENT: f64 = 0.25;
/// Maximum share of the layout on a member that counts as none.
const MAX_NONE_SHARE: f64 = 0.005;
/// Minimum writes of such a member, relative to the mean, that are not chance.
const MIN_SIGNIFICANT: f64 = 0.25;
/// Minimum share of a member's writes that makes the write-intent bitmap hot.
const MIN_HOT_SHARE: f64 = 0.2;
/// Advised md/bitmap/time_base in seconds; md's default is 5.
const TIME_BASE: u64 = 60;
/// Minimum number of writes of a member for [`MIN_HOT_SHARE`] to apply.
const MIN_HOT_WRITES: u64 = 100;
/// Minimum number of writes per second of a member for [`MIN_HOT_SHARE`] to apply.
const MIN_HOT_RATE: f64 = 10.0;

/// Writes of one origin on a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberWrites {
    pub name: String,
    pub slot: u32,
    pub bytes: u64,
    /// Share of the origin's blocks that the layout has on this member, 0 to 1.
    pub predicted_share: f64,
}

/// Writes of one origin on an array.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OriginWrites {
    pub array: String,
    pub origin: Origin,
    /// Always `write`.
    pub op: Op,
    /// Bytes on all members.
    pub bytes: u64,
    /// Bytes on the busiest member divided by the mean.
    pub observed: f64,
    /// The same ratio for the blocks of the layout.
    pub predicted: f64,
    /// Members by slot.
    pub members: Vec<MemberWrites>,
}

/// Measured writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredWrites {
    /// Path of the recording; `None` for `--live`.
    pub recording: Option<String>,
    pub interval_s: f64,
    pub lost: u64,
    /// Origins with enough writes.
    pub rows: Vec<OriginWrites>,
}

impl OriginWrites {
    /// Members that are clearly above the mean, the busiest first.
    pub fn busiest(&self) -> Vec<&str> {
        let mean = self.bytes as f64 / self.members.len().max(1) as f64;
        let mut above: Vec<&MemberWrites> =
            self.members.iter().filter(|m| m.bytes as f64 > mean * 1.2).collect();
        above.sort_by_key(|m| Reverse(m.bytes));
        above.iter().map(|m| m.name.as_str()).collect()
    }

    /// Share of the writes that a member received.
    fn observed_share(&self, m: &MemberWrites) -> f64 {
        m.bytes as f64 / self.bytes.max(1) as f64
    }

    /// Share of the writes on members other than predicted: half of the summed differences.
    fn disagreement(&self) -> f64 {
        let differences =
            self.members.iter().map(|m| (self.observed_share(m) - m.predicted_share).abs());
        differences.sum::<f64>() / 2.0
    }

    /// Members with writes although the layout has no blocks of this origin on them.
    fn impossible(&self) -> Vec<&str> {
        let some = MIN_SIGNIFICANT / self.members.len().max(1) as f64;
        self.members
            .iter()
            .filter(|m| m.predicted_share < MAX_NONE_SHARE && self.observed_share(m) >= some)
            .map(|m| m.name.as_str())
            .collect()
    }
}

/// Compares the writes of a snapshot with the layout.
pub fn compare(facts: &Facts, snapshot: &Snapshot) -> (MeasuredWrites, Vec<Finding>) {
    let over = snapshot.interval;
    let mut live = MeasuredWrites {
        recording: None,
        interval_s: over.as_secs_f64(),
        lost: snapshot.lost.events(),
        rows: Vec::new(),
    };
    let mut found = Vec::new();
    for of in &facts.arrays {
        let name = &of.array.name;
        let Some(measured) = snapshot.arrays.iter().find(|a| a.info.name == *name) else {
            continue;
        };
        let rows: Vec<OriginWrites> =
            COMPARED.iter().filter_map(|o| row(of, measured, *o)).collect();
        let mut on_array: Vec<Finding> = rows.iter().filter_map(|r| disagrees(of, r)).collect();
        on_array.extend(slow(measured));
        on_array.extend(skewed(measured, &rows, over));
        on_array.extend(hot_bitmap(of, measured, over));
        on_array.extend(stalled(of, measured, over));
        found.extend(on_array.into_iter().map(|f| f.on_array(name)));
        live.rows.extend(rows);
    }
    (live, found)
}

/// The verdict, if tasks wait long.
fn slow(measured: &ArraySnapshot) -> Option<Finding> {
    let verdict = measured.verdict.as_ref().filter(|v| v.severity > Severity::None)?;
    let stalled = verdict.severity == Severity::Stalled;
    let part =
        |p: &AccountPart| format!("{}: {}", p.part.replace('_', ", "), units::latency(Some(p.us)));
    Some(
        Finding::warning("live-slow", &verdict.sentence)
            .raise_if(stalled, FindingSeverity::Critical)
            .seen_all(verdict.account.iter().map(part))
            .figure("waited_us", verdict.waiting.us)
            .seen_all(verdict.actions.iter().map(|action| format!("to do: {action}"))),
    )
}

/// Filesystems whose tasks waited for room in the journal.
fn stalled(of: &ArrayFacts, measured: &ArraySnapshot, over: Duration) -> Vec<Finding> {
    let journal = measured.submitted.get(&(Origin::Journal, Op::Write)).copied();
    // These are the writes of all journals on the array.
    let journal = journal.filter(|_| of.filesystems.len() == 1);
    let rate = journal.map(|bytes| bytes as f64 / over.as_secs_f64().max(f64::MIN_POSITIVE));
    let found = measured.journal_stalls.iter().filter_map(|stalls| {
        let fs = of.filesystems.iter().find(|f| f.fs.name == stalls.filesystem)?;
        Some(journal::small(fs, stalls, over, rate)?.on(fs))
    });
    found.collect()
}

/// Raises a skew of the layout to the severity of the measured one: a warning if members saturate
/// because of it.
pub fn raise_severity(found: &mut [Finding], measured: &[Finding]) {
    let skews =
        measured.iter().filter(|f| f.id == "live-skew" && f.severity >= FindingSeverity::Warning);
    for measured in skews {
        let same = |f: &&mut Finding| f.id == "layout-skew" && f.array == measured.array;
        for f in found.iter_mut().filter(same) {
            f.severity = measured.severity;
            f.seen.push(format!("measured: {}", measured.title));
        }
    }
}

fn row(of: &ArrayFacts, measured: &ArraySnapshot, origin: Origin) -> Option<OriginWrites> {
    let mut blocks = vec![0_u64; of.array.raid_disks as usize];
    for report in of.filesystems.iter().filter_map(|f| f.report.as_ref()) {
        for (n, member) in blocks.iter_mut().zip(&report.spread.members) {
            // Inode tables span whole chunks, but the inodes in use are at their heads.
            *n += match origin {
                Origin::InodeTable => member.heads,
                _ => member.sectors_of(origin),
            };
        }
    }
    let total: u64 = blocks.iter().sum();
    let members: Vec<MemberWrites> = measured
        .members
        .iter()
        .filter_map(|m| {
            let slot = m.slot?;
            let writes = m.io.iter().filter(|c| c.origin == origin && c.op == Op::Write);
            Some(MemberWrites {
                name: m.name.clone(),
                slot,
                bytes: writes.fold(0, |sum, c| sum.saturating_add(c.bytes)),
                predicted_share: *blocks.get(slot as usize)? as f64 / total.max(1) as f64,
            })
        })
        .collect();
    let bytes: u64 = members.iter().map(|m| m.bytes).sum();
    let n = members.len();
    if n < 2 || total == 0 || bytes / 4096 < MIN_BLOCKS * n as u64 {
        return None;
    }
    let most = members.iter().map(|m| m.bytes).max().unwrap_or(0);
    let most_predicted = members.iter().map(|m| m.predicted_share).fold(0.0, f64::max);
    Some(OriginWrites {
        array: of.array.name.clone(),
        origin,
        op: Op::Write,
        bytes,
        observed: most as f64 * n as f64 / bytes as f64,
        predicted: most_predicted * n as f64,
        members,
    })
}

/// A finding if more writes than by chance are on members other than the layout predicts.
fn disagrees(of: &ArrayFacts, row: &OriginWrites) -> Option<Finding> {
    let disagreement = row.disagreement();
    if disagreement < MIN_DISAGREEMENT || of.array.before_reshape.is_some() {
        return None;
    }
    let origin = row.origin.name();
    let impossible = row.impossible();
    let finding = if impossible.is_empty() {
        let title = format!(
            "{origin} writes: {} the mean on the busiest member, {} by the layout",
            units::factor(Some(row.observed)),
            units::factor(Some(row.predicted))
        );
        Finding::info("live-disagrees", title).why(
            "this load writes only some groups, and their locations determine the members: \
             another load may be spread differently",
        )
    } else {
        let title =
            format!("{origin} is written on {}, where the layout has none", list(&impossible));
        Finding::warning("live-disagrees", title).why(
            "the array or the filesystem has changed since its layout was read, or raidtrace is \
             wrong: please report it",
        )
    };
    let shares = row.members.iter().take(16).map(|m| {
        format!(
            "{} (slot {}): {} of the writes, {} of the blocks",
            m.name,
            m.slot,
            units::percent(row.observed_share(m)),
            units::percent(m.predicted_share)
        )
    });
    Some(
        finding
            .seen_all(shares)
            .figure("origin", origin)
            .figure("disagreement", disagreement)
            .figure("observed", row.observed)
            .figure("predicted", row.predicted)
            .source("raidtrace, measured"),
    )
}

/// Writes that are as uneven as the layout.
fn skewed(measured: &ArraySnapshot, rows: &[OriginWrites], over: Duration) -> Option<Finding> {
    let uneven = rows.iter().filter(|r| {
        r.observed >= MIN_UNEVEN_SKEW
            && r.predicted >= MIN_UNEVEN_SKEW
            && r.disagreement() < MIN_DISAGREEMENT
    });
    let worst = uneven.clone().max_by(|a, b| a.observed.total_cmp(&b.observed))?;
    let busiest = worst.busiest();
    let highest = |busy: bool| {
        let members =
            measured.members.iter().filter(|m| busiest.contains(&m.name.as_str()) == busy);
        members.filter_map(MemberSnapshot::utilisation).fold(0.0, f64::max)
    };
    let (most, others) = (highest(true), highest(false));
    // A skew without slow IO is only information, as in `top`.
    let hotspot = hotspot::find(measured, over);
    let delays =
        hotspot.is_warning() && hotspot.members.iter().any(|m| busiest.contains(&m.as_str()));
    let title = format!(
        "{} receive the metadata writes, {} the mean, and are {} busy; no other is over {}",
        list(&busiest),
        units::factor(Some(worst.observed)),
        units::percent(most),
        units::percent(others)
    );
    let lines = uneven.map(|r| {
        format!(
            "{}: {} written, {} the mean on the busiest, {} by the layout",
            r.origin.name(),
            units::size(r.bytes),
            units::factor(Some(r.observed)),
            units::factor(Some(r.predicted))
        )
    });
    Some(
        Finding::info("live-skew", title)
            .raise_if(delays, FindingSeverity::Warning)
            .seen(hotspot.headline)
            .seen_all(lines)
            .figure("observed", worst.observed)
            .figure("utilisation", most)
            .figure("utilisation_of_others", others),
    )
}

/// A write-intent bitmap that causes a large share of the writes. All members have the same bitmap,
/// so the first member with enough writes is reported.
fn hot_bitmap(of: &ArrayFacts, measured: &ArraySnapshot, over: Duration) -> Option<Finding> {
    let enough = MIN_HOT_WRITES.max((over.as_secs_f64() * MIN_HOT_RATE) as u64);
    let (name, bitmap_writes, total) = measured.members.iter().find_map(|m| {
        let writes = m.io.iter().filter(|c| c.op == Op::Write);
        let total: u64 = writes.clone().map(|c| c.requests).sum();
        let bitmap: u64 = writes.filter(|c| c.origin == Origin::MdBitmap).map(|c| c.requests).sum();
        let hot = total >= enough && bitmap as f64 >= total as f64 * MIN_HOT_SHARE;
        hot.then_some((&m.name, bitmap, total))
    })?;
    let share = bitmap_writes as f64 / total as f64;
    let title =
        format!("{} of the members' writes are to the write-intent bitmap", units::percent(share));
    let finding = Finding::warning("bitmap-hot", title)
        .seen(format!("{name}: {bitmap_writes} of {}", plural(total as usize, "write")))
        .figure("share", share);
    if of.array.degraded > 0 || !of.is_idle() {
        return Some(finding);
    }
    // Chunk size and time_base are known for an internal bitmap only.
    let BitmapFacts::Internal { chunk, time_base } = of.bitmap else {
        return Some(finding);
    };
    let replace = (chunk < bitmap::CHUNK && of.container().is_none())
        .then(|| larger_bitmap_chunks(&of.path()));
    let longer = (time_base < TIME_BASE)
        .then(|| format!("echo {TIME_BASE} > {}", of.sysfs("md/bitmap/time_base")));
    let risk = match (&longer, &replace) {
        (None, None) => return Some(finding),
        (Some(_), None) => "undone with the old value; a resync after a crash takes longer",
        (None, Some(_)) => "a crash between the two commands causes a full resync",
        (Some(_), Some(_)) => {
            "time_base is undone with the old value, and a resync after a crash takes longer. A \
             crash between the two commands of mdadm causes a full resync; try them only if \
             time_base does not help"
        }
    };
    Some(finding.commands(longer).commands(replace.into_iter().flatten()).risk(risk))
}

#[cfg(test)]
mod tests;
