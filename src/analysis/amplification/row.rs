//! Amplification as part of a snapshot.

use std::time::Duration;

use serde::Serialize;

use crate::origin::{Group, Op, Origin};

/// Submitted and moved bytes of one array over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amplification {
    /// Rows with any bytes, ordered by (origin, operation).
    pub rows: Vec<OriginAmplification>,
    /// Length of the time covered.
    pub over: Duration,
}

/// Bytes submitted to the array for one (origin, op), and the member bytes they caused.
///
/// A row of an md origin without submitted bytes is work not caused by IO to the array (`resync`,
/// `md_superblock`), or work that has no origin to charge because nothing was written (`parity`,
/// `rmw_read`, `md_bitmap`, `md_journal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OriginAmplification {
    /// Origin of the submitted bytes.
    pub origin: Origin,
    /// Operation on the array.
    pub op: Op,
    /// Bytes submitted to the array.
    #[serde(rename = "submitted_bytes")]
    pub submitted: u64,
    /// Bytes moved by the members under the same origin and operation.
    #[serde(rename = "data_bytes")]
    pub data: u64,
    /// Bytes of P and Q written because of the submitted bytes.
    #[serde(rename = "parity_bytes")]
    pub parity: u64,
    /// Bytes read to compute parity.
    #[serde(rename = "rmw_read_bytes")]
    pub rmw_read: u64,
    /// Bytes written to the write-intent bitmap.
    #[serde(rename = "md_bitmap_bytes")]
    pub md_bitmap: u64,
    /// Bytes written to the journal device or PPL.
    #[serde(rename = "md_journal_bytes")]
    pub md_journal: u64,
    /// Maximum number of members that move a submitted byte as data; `None` if it is not known.
    #[serde(skip)]
    pub(super) copies: Option<u32>,
}

/// Moved bytes for each submitted byte up to which the two are equal: some are in flight at the
/// start and at the end.
const MAX_EQUAL_RATIO: f64 = 1.05;

/// Field of [`OriginAmplification`] for bytes that md adds.
pub(super) type Charge = fn(&mut OriginAmplification) -> &mut u64;

impl OriginAmplification {
    pub(super) fn new(origin: Origin, op: Op, copies: Option<u32>) -> Self {
        Self {
            origin,
            op,
            submitted: 0,
            data: 0,
            parity: 0,
            rmw_read: 0,
            md_bitmap: 0,
            md_journal: 0,
            copies,
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

    /// `bytes` per submitted byte; `None` without submitted bytes, or if more was completed than
    /// was submitted meanwhile.
    pub fn share(&self, bytes: u64) -> Option<f64> {
        let submitted = self.submitted as f64;
        let fits = |copies| self.data as f64 <= MAX_EQUAL_RATIO * f64::from(copies) * submitted;
        (submitted > 0.0 && self.copies.is_none_or(fits)).then(|| bytes as f64 / submitted)
    }

    /// True if members move more than was submitted; on RAID 1 and 10, if they move more than
    /// copies.
    pub fn costs_more(&self) -> bool {
        let is_copied = self.copies.is_some_and(|n| n > 1) && self.below() == self.data;
        !is_copied && self.factor().is_some_and(|f| f >= MAX_EQUAL_RATIO)
    }

    /// True for md's member bytes without submitted bytes: background work, and parity, pre-reads,
    /// bitmap or journal that could not be charged to an origin.
    pub fn is_md_overhead(&self) -> bool {
        self.submitted == 0 && self.origin.group() == Group::Md
    }

    /// True for md's background work, which IO to the array does not cause: resync, md's
    /// superblocks.
    pub fn is_md_background(&self) -> bool {
        self.is_md_overhead() && charged(self.origin, self.op).is_none()
    }

    pub(super) fn charge(&mut self, charge: Charge, bytes: u64) {
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
    /// Sum of all origins for `op`, without work not caused by IO to the array.
    pub fn total(&self, op: Op) -> OriginAmplification {
        let copies = self.rows.first().and_then(|r| r.copies);
        let mut total = OriginAmplification::new(Origin::Unknown, op, copies);
        self.rows.iter().filter(|r| r.op == op && !r.is_md_background()).for_each(|r| total.add(r));
        total
    }

    /// Bytes not caused by IO to the array: resync and md's superblocks.
    pub fn md_background_bytes(&self) -> u64 {
        let rows = self.rows.iter().filter(|r| r.is_md_background());
        rows.fold(0, |n, r| n.saturating_add(r.below()))
    }
}

/// Field and operation that member IO of this kind is charged to; `None` for IO under its own
/// origin.
pub(super) fn charged(origin: Origin, op: Op) -> Option<(Charge, Op)> {
    Some(match (origin, op) {
        (Origin::RmwRead, Op::Read) => (|r| &mut r.rmw_read, Op::Write),
        (Origin::Parity, Op::Write | Op::Discard | Op::WriteZeroes) => (|r| &mut r.parity, op),
        (Origin::MdBitmap, Op::Write) => (|r| &mut r.md_bitmap, Op::Write),
        (Origin::MdJournal, Op::Write) => (|r| &mut r.md_journal, Op::Write),
        _ => return None,
    })
}
