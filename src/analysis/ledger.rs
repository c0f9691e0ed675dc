//! The amplification ledger: what a unit of IO of each origin cost below the array.
//!
//! Every byte that the members moved is in exactly one place: under its own origin, or, where md moved it because
//! something else was written (parity, pre-reads, write-intent bitmap, journal), charged to what was written. What is
//! counted in flight is not waited for: bytes that entered in one interval may be moved in the next.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use super::snapshot::{ArrayInfo, ArraySnapshot};
use crate::origin::{Op, Origin};

/// What one array did in some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Those with any bytes, ordered by (origin, operation).
    pub rows: Vec<Row>,
    /// The time that was looked at.
    pub over: Duration,
}

/// What entered the array under one origin and operation, and what it cost. All in bytes.
///
/// An origin of md's own that nothing entered under is work that no IO asked for (`resync`, `md_superblock`), or that
/// could be charged to nobody because nothing was written (`parity`, `rmw_read`, `md_bitmap`, `md_journal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it belongs to.
    pub origin: Origin,
    /// What it did to the array.
    pub op: Op,
    /// Submitted to the array.
    pub entered: u64,
    /// Moved by the members under the same origin and operation.
    pub data: u64,
    /// P and Q written for it.
    pub parity: u64,
    /// Read so that parity could be computed.
    pub rmw_read: u64,
    /// Written to the write-intent bitmap.
    pub md_bitmap: u64,
    /// Written to the journal device or PPL.
    pub md_journal: u64,
}

/// The places of [`Row`] that md's bytes are charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    Parity,
    RmwRead,
    MdBitmap,
    MdJournal,
}

/// Who may have to pay, and by which figures.
type Weights = Vec<(Origin, u64)>;

impl Row {
    fn new(origin: Origin, op: Op) -> Self {
        Self {
            origin,
            op,
            entered: 0,
            data: 0,
            parity: 0,
            rmw_read: 0,
            md_bitmap: 0,
            md_journal: 0,
        }
    }

    /// Everything that the members moved.
    pub fn below(&self) -> u64 {
        [self.parity, self.rmw_read, self.md_bitmap, self.md_journal]
            .into_iter()
            .fold(self.data, u64::saturating_add)
    }

    /// Bytes below for each that entered; `None` when none did.
    pub fn factor(&self) -> Option<f64> {
        self.share(self.below())
    }

    /// `bytes` for each that entered.
    pub fn share(&self, bytes: u64) -> Option<f64> {
        (self.entered > 0).then(|| bytes as f64 / self.entered as f64)
    }

    /// Whether md did it unasked, or nobody could be charged with it.
    pub fn is_mds_own(&self) -> bool {
        self.entered == 0 && self.origin.group() == crate::origin::Group::Md
    }

    /// Whether no IO asked for it: resync, md's superblocks.
    pub fn is_unasked(&self) -> bool {
        self.is_mds_own() && charged(self.origin, self.op).is_none()
    }

    fn charge(&mut self, charge: Charge, bytes: u64) {
        let part = match charge {
            Charge::Parity => &mut self.parity,
            Charge::RmwRead => &mut self.rmw_read,
            Charge::MdBitmap => &mut self.md_bitmap,
            Charge::MdJournal => &mut self.md_journal,
        };
        *part = part.saturating_add(bytes);
    }

    fn add(&mut self, other: &Self) {
        self.entered = self.entered.saturating_add(other.entered);
        self.data = self.data.saturating_add(other.data);
        self.charge(Charge::Parity, other.parity);
        self.charge(Charge::RmwRead, other.rmw_read);
        self.charge(Charge::MdBitmap, other.md_bitmap);
        self.charge(Charge::MdJournal, other.md_journal);
    }
}

impl Ledger {
    /// The ledger of `array`, whose figures are those of the time `over`.
    pub fn of(array: &ArraySnapshot, over: Duration) -> Self {
        let mut rows: BTreeMap<(Origin, Op), Row> = BTreeMap::new();
        let mut moved: BTreeMap<(Origin, Op), u64> = BTreeMap::new();
        for cell in array.members.iter().flat_map(|m| &m.io) {
            let sum = moved.entry((cell.origin, cell.op)).or_default();
            *sum = sum.saturating_add(cell.bytes);
        }
        for (&(origin, op), &bytes) in &array.entered {
            row(&mut rows, origin, op).entered = bytes;
        }
        // An array on another one: what entered as parity is data here.
        let shared = |origin: Origin, op| {
            let charge = charged(origin, op)?;
            let own = Op::ALL
                .iter()
                .all(|&o| array.entered.get(&(origin, o)).is_none_or(|&b| b == 0));
            own.then_some(charge)
        };
        let (divided, own): (Vec<_>, Vec<_>) = moved
            .iter()
            .partition(|&(&(origin, op), _)| shared(origin, op).is_some());
        for (&(origin, op), &bytes) in own {
            row(&mut rows, origin, op).data = bytes;
        }
        // By what was written alone, whichever was charged first.
        let written = rows.clone();
        for (&(origin, op), &bytes) in divided {
            let Some((charge, by)) = shared(origin, op) else {
                continue;
            };
            let weights = weights(array, &written, charge, by);
            if weights.is_empty() {
                row(&mut rows, origin, op).charge(charge, bytes);
            }
            for (payer, part) in split(bytes, &weights) {
                row(&mut rows, payer, by).charge(charge, part);
            }
        }
        let says = |r: &Row| r.entered > 0 || r.below() > 0;
        Self {
            rows: rows.into_values().filter(says).collect(),
            over,
        }
    }

    /// What entered with `op`, and what it cost, all origins together; md's own work apart.
    pub fn total(&self, op: Op) -> Row {
        let mut total = Row::new(Origin::Unknown, op);
        self.rows
            .iter()
            .filter(|r| r.op == op && !r.is_unasked())
            .for_each(|r| total.add(r));
        total
    }

    /// Bytes that md moved unasked: resync and its superblocks.
    pub fn unasked(&self) -> u64 {
        let rows = self.rows.iter().filter(|r| r.is_unasked());
        rows.fold(0, |n, r| n.saturating_add(r.below()))
    }
}

fn row(rows: &mut BTreeMap<(Origin, Op), Row>, origin: Origin, op: Op) -> &mut Row {
    rows.entry((origin, op))
        .or_insert_with(|| Row::new(origin, op))
}

/// What members' IO of this kind is charged as, and to which operation; `None` for what stands for itself.
fn charged(origin: Origin, op: Op) -> Option<(Charge, Op)> {
    Some(match (origin, op) {
        (Origin::RmwRead, Op::Read) => (Charge::RmwRead, Op::Write),
        (Origin::Parity, Op::Write | Op::Discard | Op::WriteZeroes) => (Charge::Parity, op),
        (Origin::MdBitmap, Op::Write) => (Charge::MdBitmap, Op::Write),
        (Origin::MdJournal, Op::Write) => (Charge::MdJournal, Op::Write),
        _ => return None,
    })
}

/// By what the stripes cost, as the kernel side counted it; else by what was written into the array; else (all of it
/// entered before) by what the members completed of it. Empty when nothing was written.
fn weights(
    array: &ArraySnapshot,
    rows: &BTreeMap<(Origin, Op), Row>,
    charge: Charge,
    op: Op,
) -> Weights {
    let costs = array.costs.iter().map(|(&origin, cost)| {
        let bytes = match (charge, op) {
            (Charge::Parity, Op::Write) => cost.parity,
            (Charge::RmwRead, _) => cost.rmw_read,
            _ => 0,
        };
        (origin, bytes)
    });
    let written = |bytes: fn(&Row) -> u64| {
        rows.values()
            .filter(move |r| r.op == op && !r.is_mds_own())
            .map(move |r| (r.origin, bytes(r)))
    };
    let some = |weights: &mut dyn Iterator<Item = (Origin, u64)>| -> Option<Weights> {
        let weights: Weights = weights.filter(|w| w.1 > 0).collect();
        (!weights.is_empty()).then_some(weights)
    };
    some(&mut { costs })
        .or_else(|| some(&mut written(|r| r.entered)))
        .or_else(|| some(&mut written(|r| r.data)))
        .unwrap_or_default()
}

/// `bytes` divided by `weights`, none of which is 0: whole bytes that add up, the largest remainders rounded up.
fn split(bytes: u64, weights: &[(Origin, u64)]) -> Vec<(Origin, u64)> {
    let sum: u128 = weights.iter().map(|w| u128::from(w.1)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let mut parts: Vec<(Origin, u64)> = Vec::with_capacity(weights.len());
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(weights.len());
    for (i, &(origin, weight)) in weights.iter().enumerate() {
        let exact = u128::from(bytes) * u128::from(weight);
        // Not more than `bytes`, since a weight is not more than the sum.
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

/// What a byte written costs at a level that is whole: `(in full stripes, in single blocks at most)`; `None` where the
/// level and the number of disks do not tell.
///
/// A block by itself: md reads either the old block and the old parity, or the rest of the stripe, whichever is fewer
/// (`handle_stripe_dirtying()`, drivers/md/raid5.c, with `rmw_level` as it is by default).
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
    Some((
        f64::from(disks) / f64::from(data),
        f64::from(1 + parity + reads),
    ))
}
