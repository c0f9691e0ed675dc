//! The main work of members, and the task that caused it.

use std::time::Duration;

use super::ENOUGH_REQUESTS;
use super::spread::LoadSpread;
use super::uneven::{UnevenOrigins, is_of_allocation_group};
use super::words::from_task;
use crate::analysis::amplification::Amplification;
use crate::analysis::cube::Amount as _;
use crate::analysis::recent::Waited;
use crate::analysis::snapshot::{ArraySnapshot, Cell, MemberSnapshot};
use crate::analysis::units;
use crate::origin::plural;
use crate::origin::{Op, Origin, io_name};

/// Minimum share of the time in the device for requests without data (flushes, discards) to be the
/// main work.
const MIN_MAIN_SHARE: f64 = 0.5;
/// Minimum mean time of reads to be mentioned, µs.
const MIN_LONG_READ_US: f64 = 10_000.0;
/// Minimum number of reads to be mentioned.
const MIN_READS: u64 = 64;
/// Minimum bytes added by md to be mentioned, as a multiple of the written bytes.
const MIN_MD_RATIO: f64 = 0.5;

fn kinds() -> impl Iterator<Item = (Origin, Op)> {
    Origin::ALL.into_iter().flat_map(|origin| Op::ALL.map(|op| (origin, op)))
}

/// The origin and operation with most of the work.
struct MainWork {
    origin: Origin,
    op: Op,
    /// `72 % of the bytes`
    part: String,
}

impl MainWork {
    /// Compares bytes, or requests if there are no bytes. Requests without data that are in the
    /// device for most of the time `over` come first: reads queued after a discard take as long as
    /// the discard. `None` without work.
    fn new(members: &[&MemberSnapshot], over: Duration) -> Option<Self> {
        let without_data = |op: Op| !matches!(op, Op::Read | Op::Write);
        let time = |origin, op| -> f64 {
            let cells =
                members.iter().flat_map(|m| &m.io).filter(|c| (c.origin, c.op) == (origin, op));
            cells.filter(|_| without_data(op)).map(Cell::device_us).sum()
        };
        let whole = over.as_micros() as f64 * members.len() as f64;
        let occupied: f64 = kinds().map(|(origin, op)| time(origin, op)).sum();
        let total = LoadSpread::new(members, |_| true);
        let part = |origin, op| LoadSpread::new(members, |c| (c.origin, c.op) == (origin, op));
        if whole > 0.0 && occupied >= MIN_MAIN_SHARE * whole {
            let (origin, op, us) = Self::among(time)?;
            let share = units::percent(us / whole);
            let part = format!("in the device {share} of the time");
            return Some(Self { origin, op, part });
        }
        let (whole, unit, (origin, op, most)) = if total.bytes() > 0.0 {
            let most = Self::among(|o, op| part(o, op).bytes())?;
            (total.bytes(), "bytes", most)
        } else {
            let most = Self::among(|o, op| part(o, op).requests())?;
            (total.requests(), "requests", most)
        };
        let part = format!("{} of the {unit}", units::percent(most / whole));
        Some(Self { origin, op, part })
    }

    fn among(amount: impl Fn(Origin, Op) -> f64) -> Option<(Origin, Op, f64)> {
        let each = kinds().map(|(o, op)| (o, op, amount(o, op)));
        each.max_by(|a, b| a.2.total_cmp(&b.2)).filter(|(_, _, amount)| *amount > 0.0)
    }

    /// `, from postgres (pid 4242)`: the task that submitted the work, or whose writes caused md to
    /// do it; empty for md's own work.
    fn submitter(&self, array: &ArraySnapshot) -> String {
        match self.origin {
            Origin::Resync | Origin::MdSuperblock => String::new(),
            Origin::Parity | Origin::RmwRead | Origin::MdBitmap | Origin::MdJournal => {
                from_task(array, |_, op| op == Op::Write)
            }
            origin => from_task(array, |o, op| (o, op) == (origin, self.op)),
        }
    }
}

/// `mostly file_data writes (72 % of the bytes)`.
pub fn mostly(members: &[&MemberSnapshot], over: Duration) -> String {
    match MainWork::new(members, over) {
        Some(most) => {
            let (name, op) = (io_name(most.origin, most.op), plural(most.op));
            format!("mostly {name} {op} ({})", most.part)
        }
        None => "no request was completed".to_owned(),
    }
}

/// `mostly file_data writes (72 % of the bytes), from dd (pid 7); reads take 120ms (mean)`.
pub fn work(array: &ArraySnapshot, members: &[&MemberSnapshot], over: Duration) -> String {
    let most = MainWork::new(members, over);
    let whose = most.as_ref().map(|m| m.submitter(array)).unwrap_or_default();
    let reads = reads(members)
        .filter(|_| most.is_none_or(|m| !is_read(m.origin, m.op)))
        .unwrap_or_default();
    format!("{}{whose}{reads}", mostly(members, over))
}

/// `; ext4 reads block bitmaps to find free space ...`: the reason for uneven origins, and the
/// command to use next. `members` are those that carry them.
pub fn hint(array: &ArraySnapshot, uneven: &UnevenOrigins, members: &[String]) -> String {
    if uneven.op == Op::Read && uneven.origins.contains(&Origin::BlockBitmap) {
        return "; ext4 reads block bitmaps to find free space, see raidtrace alloc".to_owned();
    }
    let groups = array.info.uneven_groups.as_ref().filter(|g| g.members == members);
    let Some(groups) =
        groups.filter(|_| uneven.origins.iter().copied().any(is_of_allocation_group))
    else {
        return String::new();
    };
    let part = match groups.groups {
        all if groups.on_members == all => format!("all {all}"),
        all => format!("{} of {all}", groups.on_members),
    };
    let remedy = match groups.agsize_bytes {
        Some(agsize) => format!("only a new mkfs.xfs -d agsize={agsize} changes that"),
        None => "see raidtrace layout".to_owned(),
    };
    format!("; {part} allocation groups start there, {remedy}")
}

/// True for reads that a task submitted.
fn is_read(origin: Origin, op: Op) -> bool {
    op == Op::Read && !matches!(origin, Origin::Resync | Origin::RmwRead)
}

/// `; reads take 120ms (mean)`; `None` if the time is short.
fn reads(members: &[&MemberSnapshot]) -> Option<String> {
    let mut waited = Waited::default();
    let cells = members.iter().flat_map(|m| &m.io);
    cells.filter(|c| is_read(c.origin, c.op)).for_each(|c| waited.add(&c.measured()));
    let mean_us = waited.mean_us()?;
    (waited.requests >= MIN_READS && mean_us >= MIN_LONG_READ_US)
        .then(|| format!("; reads take {} (mean)", units::latency(Some(mean_us as u64))))
}

/// `; writes cost 3.4x, 1.8x of it pre-reads` if writes are most of the members' work.
pub fn write_cost(array: &ArraySnapshot, over: Duration, total: &LoadSpread) -> String {
    let amplification = Amplification::new(array, over);
    let write = amplification.total(Op::Write);
    let all = amplification.rows.iter().map(|r| r.below() as f64).sum::<f64>();
    let added = [
        (write.rmw_read, "pre-reads"),
        (write.md_bitmap, "the write-intent bitmap"),
        (write.md_journal, "md's journal"),
    ];
    let added = added.into_iter().filter_map(|(bytes, what)| {
        let times = write.share(bytes).filter(|&t| t >= MIN_MD_RATIO)?;
        Some((times, what))
    });
    let most = added.max_by(|a, b| a.0.total_cmp(&b.0));
    match most {
        Some((times, what))
            if total.requests() >= ENOUGH_REQUESTS && write.below() as f64 >= all / 2.0 =>
        {
            format!(
                "; writes cost {}, {} of it {what}",
                units::factor(write.factor()),
                units::factor(Some(times))
            )
        }
        _ => String::new(),
    }
}
