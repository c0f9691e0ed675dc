//! Bytes that members moved for each byte submitted to the array, by origin.
//!
//! Every byte that the members moved is counted exactly once: under its own origin or, where md
//! moved it because of a write (parity, pre-reads, write-intent bitmap, journal), charged to the
//! written origin. Bytes submitted in one interval may be moved in the next one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use super::snapshot::{ArrayInfo, ArraySnapshot, sum_by};
use crate::origin::{Op, Origin};

/// Submitted and moved bytes of one array over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Amplification {
    /// Rows with any bytes, ordered by (origin, operation).
    pub rows: Vec<Row>,
    /// Length of the time covered.
    pub over: Duration,
}

/// Bytes submitted to the array for one (origin, op), and the member bytes they caused.
///
/// A row of an md origin without submitted bytes is work not caused by IO to the array (`resync`,
/// `md_superblock`), or work that has no origin to charge because nothing was written (`parity`,
/// `rmw_read`, `md_bitmap`, `md_journal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Row {
    /// Origin of the submitted bytes.
    pub origin: Origin,
    /// Operation on the array.
    pub op: Op,
    /// Bytes submitted to the array.
    pub submitted: u64,
    /// Bytes moved by the members under the same origin and operation.
    pub data: u64,
    /// Bytes of P and Q written because of the submitted bytes.
    pub parity: u64,
    /// Bytes read to compute parity.
    pub rmw_read: u64,
    /// Bytes written to the write-intent bitmap.
    pub md_bitmap: u64,
    /// Bytes written to the journal device or PPL.
    pub md_journal: u64,
}

/// Field of [`Row`] for bytes that md adds.
type Charge = fn(&mut Row) -> &mut u64;

/// Origins to charge, each with its weight.
type Weights = Vec<(Origin, u64)>;

impl Row {
    fn new(origin: Origin, op: Op) -> Self {
        Self {
            origin,
            op,
            submitted: 0,
            data: 0,
            parity: 0,
            rmw_read: 0,
            md_bitmap: 0,
            md_journal: 0,
        }
    }

    /// Bytes moved by the members, all kinds.
    pub fn below(&self) -> u64 {
        [self.parity, self.rmw_read, self.md_bitmap, self.md_journal]
            .into_iter()
            .fold(self.data, u64::saturating_add)
    }

    /// Member bytes per submitted byte; `None` without submitted bytes.
    pub fn factor(&self) -> Option<f64> {
        self.share(self.below())
    }

    /// `bytes` per submitted byte; `None` without submitted bytes.
    pub fn share(&self, bytes: u64) -> Option<f64> {
        (self.submitted > 0).then(|| bytes as f64 / self.submitted as f64)
    }

    /// True for md's member bytes without submitted bytes: background work, and parity, pre-reads,
    /// bitmap or journal that could not be charged to an origin.
    pub fn is_md_overhead(&self) -> bool {
        self.submitted == 0 && self.origin.group() == crate::origin::Group::Md
    }

    /// True for md's background work, which IO to the array does not cause: resync, md's
    /// superblocks.
    pub fn is_md_background(&self) -> bool {
        self.is_md_overhead() && charged(self.origin, self.op).is_none()
    }

    fn charge(&mut self, charge: Charge, bytes: u64) {
        let part = charge(self);
        *part = part.saturating_add(bytes);
    }

    fn add(&mut self, other: &Self) {
        self.charge(|r| &mut r.submitted, other.submitted);
        self.charge(|r| &mut r.data, other.data);
        self.charge(|r| &mut r.parity, other.parity);
        self.charge(|r| &mut r.rmw_read, other.rmw_read);
        self.charge(|r| &mut r.md_bitmap, other.md_bitmap);
        self.charge(|r| &mut r.md_journal, other.md_journal);
    }
}

impl Amplification {
    /// Amplification of `array`, whose figures cover the time `over`.
    pub fn new(array: &ArraySnapshot, over: Duration) -> Self {
        let mut rows: BTreeMap<(Origin, Op), Row> = BTreeMap::new();
        let cells = array.members.iter().flat_map(|m| &m.io);
        let moved = sum_by(cells.map(|c| ((c.origin, c.op), c.bytes)));
        for (&(origin, op), &bytes) in &array.submitted {
            row(&mut rows, origin, op).submitted = bytes;
        }
        // On a nested array, parity submitted by the outer array is data.
        let shared = |origin: Origin, op| {
            let charge = charged(origin, op)?;
            let own =
                Op::ALL.iter().all(|&o| array.submitted.get(&(origin, o)).is_none_or(|&b| b == 0));
            own.then_some(charge)
        };
        let (divided, own): (Vec<_>, Vec<_>) =
            moved.iter().partition(|&(&(origin, op), _)| shared(origin, op).is_some());
        for (&(origin, op), &bytes) in own {
            row(&mut rows, origin, op).data = bytes;
        }
        // Weigh by written bytes only, independent of the order of the charges.
        let written = rows.clone();
        for (&(origin, op), &bytes) in divided {
            let Some((charge, by)) = shared(origin, op) else {
                continue;
            };
            let weights = weights(array, &written, origin, by);
            if weights.is_empty() {
                row(&mut rows, origin, op).charge(charge, bytes);
            }
            for (origin, part) in split(bytes, &weights) {
                row(&mut rows, origin, by).charge(charge, part);
            }
        }
        let has_bytes = |r: &Row| r.submitted > 0 || r.below() > 0;
        Self { rows: rows.into_values().filter(has_bytes).collect(), over }
    }

    /// Sum of all origins for `op`, without work not caused by IO to the array.
    pub fn total(&self, op: Op) -> Row {
        let mut total = Row::new(Origin::Unknown, op);
        self.rows.iter().filter(|r| r.op == op && !r.is_md_background()).for_each(|r| total.add(r));
        total
    }

    /// Bytes not caused by IO to the array: resync and md's superblocks.
    pub fn md_background_bytes(&self) -> u64 {
        let rows = self.rows.iter().filter(|r| r.is_md_background());
        rows.fold(0, |n, r| n.saturating_add(r.below()))
    }
}

fn row(rows: &mut BTreeMap<(Origin, Op), Row>, origin: Origin, op: Op) -> &mut Row {
    rows.entry((origin, op)).or_insert_with(|| Row::new(origin, op))
}

/// Field and operation that member IO of this kind is charged to; `None` for IO under its own
/// origin.
fn charged(origin: Origin, op: Op) -> Option<(Charge, Op)> {
    Some(match (origin, op) {
        (Origin::RmwRead, Op::Read) => (|r| &mut r.rmw_read, Op::Write),
        (Origin::Parity, Op::Write | Op::Discard | Op::WriteZeroes) => (|r| &mut r.parity, op),
        (Origin::MdBitmap, Op::Write) => (|r| &mut r.md_bitmap, Op::Write),
        (Origin::MdJournal, Op::Write) => (|r| &mut r.md_journal, Op::Write),
        _ => return None,
    })
}

/// Weights from the stripe costs counted by the BPF programs. Without costs, weights are the bytes
/// written to the array. Without those (all submitted in an earlier interval), weights are the
/// written bytes that members completed. Empty when nothing was written.
fn weights(
    array: &ArraySnapshot,
    rows: &BTreeMap<(Origin, Op), Row>,
    moved: Origin,
    op: Op,
) -> Weights {
    let costs = array.costs.iter().map(|(&origin, cost)| {
        let bytes = match (moved, op) {
            (Origin::Parity, Op::Write) => cost.parity,
            (Origin::RmwRead, _) => cost.rmw_read,
            _ => 0,
        };
        (origin, bytes)
    });
    let written = |bytes: fn(&Row) -> u64| {
        rows.values()
            .filter(move |r| r.op == op && !r.is_md_overhead())
            .map(move |r| (r.origin, bytes(r)))
    };
    let some = |weights: &mut dyn Iterator<Item = (Origin, u64)>| -> Option<Weights> {
        let weights: Weights = weights.filter(|w| w.1 > 0).collect();
        (!weights.is_empty()).then_some(weights)
    };
    some(&mut { costs })
        .or_else(|| some(&mut written(|r| r.submitted)))
        .or_else(|| some(&mut written(|r| r.data)))
        .unwrap_or_default()
}

/// Splits `bytes` in proportion to the nonzero `weights`. The parts are whole bytes that add up to
/// `bytes`; those with the largest remainders are rounded up.
fn split(bytes: u64, weights: &[(Origin, u64)]) -> Vec<(Origin, u64)> {
    let sum: u128 = weights.iter().map(|w| u128::from(w.1)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let mut parts: Vec<(Origin, u64)> = Vec::with_capacity(weights.len());
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(weights.len());
    for (i, &(origin, weight)) in weights.iter().enumerate() {
        let exact = u128::from(bytes) * u128::from(weight);
        // Fits: a weight is at most the sum, so this is at most `bytes`.
        parts.push((origin, (exact / sum) as u64));
        remainders.push((exact % sum, i));
    }
    let left = bytes - parts.iter().map(|p| p.1).sum::<u64>();
    remainders.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for &(_, i) in remainders.iter().take(left as usize) {
        parts[i].1 += 1;
    }
    parts
}

/// Member bytes per written byte on an array that is not degraded: for full stripes, and the
/// maximum for single blocks. `None` for other levels and impossible numbers of disks.
///
/// For a single block md reads either the old block and the old parity, or the rest of the stripe,
/// whichever takes fewer reads (`handle_stripe_dirtying()`, drivers/md/raid5.c, with the default
/// `rmw_level`).
pub fn expected(info: &ArrayInfo) -> Option<(f64, f64)> {
    let disks = info.disks;
    let parity = match info.level.as_str() {
        "single" | "raid0" | "linear" => return Some((1.0, 1.0)),
        "raid1" => return Some((f64::from(disks), f64::from(disks))),
        "raid4" | "raid5" => 1,
        "raid6" => 2,
        _ => return None,
    };
    let data = disks.checked_sub(parity).filter(|&d| d > 0)?;
    let reads = (1 + parity).min(data - 1);
    Some((f64::from(disks) / f64::from(data), f64::from(1 + parity + reads)))
}
