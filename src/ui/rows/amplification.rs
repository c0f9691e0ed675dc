//! The rows of the amplification view.

use super::{BarPart, RowFilter, seconds};
use crate::analysis::amplification::OriginAmplification;
use crate::analysis::snapshot::ArraySnapshot;
use crate::origin::Origin;
use crate::ui::text::glue;

/// Submitted bytes of an (origin, op) and the member bytes they caused, over the time window of the
/// amplification.
#[derive(Debug)]
pub struct AmplificationRow {
    /// Bytes by kind.
    pub sums: OriginAmplification,
    /// Time that [`AmplificationRow::sums`] covers, in seconds.
    pub secs: f64,
}

impl AmplificationRow {
    /// Bytes per second.
    pub fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 / self.secs
    }

    /// Member bytes per second by origin: first the data, then the bytes that md added.
    pub fn parts(&self) -> Vec<BarPart> {
        let r = &self.sums;
        [
            (r.origin, r.data),
            (Origin::Parity, r.parity),
            (Origin::RmwRead, r.rmw_read),
            (Origin::MdBitmap, r.md_bitmap),
            (Origin::MdJournal, r.md_journal),
        ]
        .into_iter()
        .filter(|p| p.1 > 0)
        .map(|(origin, bytes)| (origin, self.rate(bytes)))
        .collect()
    }
}

/// `1.00 data + 1.00 parity + 2.00 pre-read`: member bytes per submitted byte; `None` without
/// submitted bytes.
pub fn price(row: &OriginAmplification) -> Option<String> {
    let parts = [
        ("data", row.data),
        ("parity", row.parity),
        ("pre-read", row.rmw_read),
        ("md_bitmap", row.md_bitmap),
        ("md_journal", row.md_journal),
    ];
    let words = |(name, bytes)| Some(glue(&format!("{:.2} {name}", row.share(bytes)?)));
    let words: Option<Vec<String>> = parts.into_iter().filter(|p| p.1 > 0).map(words).collect();
    words.map(|w| w.join(" + ")).filter(|_| row.submitted > 0)
}

/// The rows of the amplification view, in the order of the origins. A filter for an md origin keeps
/// the rows to which IO of this origin was charged.
pub fn amplification(array: &ArraySnapshot, filter: RowFilter) -> Vec<AmplificationRow> {
    let Some(amplification) = &array.amplification else {
        return Vec::new();
    };
    let secs = seconds(amplification.over);
    let row = |r: &OriginAmplification| AmplificationRow { sums: *r, secs };
    let kept = |row: &AmplificationRow| {
        let (origin, op) = (row.sums.origin, row.sums.op);
        filter.keeps(origin, op) || row.parts().iter().any(|p| filter.keeps(p.0, op))
    };
    amplification.rows.iter().map(row).filter(kept).collect()
}
