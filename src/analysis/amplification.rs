//! Bytes that members moved for each byte submitted to the array, by origin.
//!
//! Every byte that the members moved is counted exactly once: under its own origin or, where md
//! moved it because of a write (parity, pre-reads, write-intent bitmap, journal), charged to the
//! written origin. Bytes submitted in one interval may be moved in the next one.

mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use super::cube::Cube;
use super::snapshot::{ArrayInfo, ArraySnapshot};
use crate::origin::{Op, Origin};
use row::charged;
pub use row::{Amplification, OriginAmplification};

/// Origins to charge, each with its weight.
type Weights = Vec<(Origin, u64)>;

impl Amplification {
    /// Amplification of `array`, whose figures cover the time `over`.
    pub fn new(array: &ArraySnapshot, over: Duration) -> Self {
        let mut rows = Rows { rows: BTreeMap::new(), copies: copies(&array.info) };
        let cells = array.members.iter().flat_map(|m| &m.io);
        let moved: Cube<_, u64> = cells.map(|c| ((c.origin, c.op), c.bytes)).collect();
        for (&(origin, op), &bytes) in &array.submitted {
            rows.row(origin, op).submitted = bytes;
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
            rows.row(origin, op).data = bytes;
        }
        // Weigh by written bytes only, independent of the order of the charges.
        let written = rows.rows.clone();
        for (&(origin, op), &bytes) in divided {
            let Some((charge, by)) = shared(origin, op) else {
                continue;
            };
            let weights = weights(array, &written, origin, by);
            if weights.is_empty() {
                rows.row(origin, op).charge(charge, bytes);
            }
            for (origin, part) in split(bytes, &weights) {
                rows.row(origin, by).charge(charge, part);
            }
        }
        let has_bytes = |r: &OriginAmplification| r.submitted > 0 || r.below() > 0;
        Self { rows: rows.rows.into_values().filter(has_bytes).collect(), over }
    }
}

struct Rows {
    rows: BTreeMap<(Origin, Op), OriginAmplification>,
    copies: Option<u32>,
}

impl Rows {
    fn row(&mut self, origin: Origin, op: Op) -> &mut OriginAmplification {
        self.rows
            .entry((origin, op))
            .or_insert_with(|| OriginAmplification::new(origin, op, self.copies))
    }
}

/// Maximum number of members that move a byte of data; `None` for RAID 4/5/6, which read what a
/// missing member has from all others.
fn copies(info: &ArrayInfo) -> Option<u32> {
    match info.level.as_str() {
        "single" | "raid0" | "linear" => Some(1),
        "raid1" | "raid10" => Some(info.disks.max(1)),
        _ => None,
    }
}

/// Weights from the stripe costs counted by the BPF programs. Without costs, weights are the bytes
/// written to the array. Without those (all submitted in an earlier interval), weights are the
/// written bytes that members completed. Empty when nothing was written.
fn weights(
    array: &ArraySnapshot,
    rows: &BTreeMap<(Origin, Op), OriginAmplification>,
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
    let written = |bytes: fn(&OriginAmplification) -> u64| {
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
