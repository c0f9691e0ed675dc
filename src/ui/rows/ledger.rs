//! The rows of the amplification view.

use super::column::{Column, Row, SortKey};
use super::{Filter, Part, seconds};
use crate::analysis::ledger;
use crate::analysis::snapshot::ArraySnapshot;
use crate::origin::Origin;
use crate::ui::text::glue;

/// What entered under an origin and operation, and what it cost, over the ledger's own time.
#[derive(Debug)]
pub struct LedgerRow {
    /// Its bytes.
    pub sums: ledger::Row,
    /// What [`LedgerRow::sums`] is over, in seconds.
    pub secs: f64,
}

impl LedgerRow {
    /// Bytes a second below: the data under its own origin, then what md added, under md's.
    pub fn parts(&self) -> Vec<Part> {
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
        .map(|(origin, bytes)| (origin, bytes as f64 / self.secs))
        .collect()
    }
}

/// `1.00 data + 1.00 parity + 2.00 pre-read`: what each byte that entered cost; `None` when none did.
pub fn price(row: &ledger::Row) -> Option<String> {
    let parts = [
        ("data", row.data),
        ("parity", row.parity),
        ("pre-read", row.rmw_read),
        ("md_bitmap", row.md_bitmap),
        ("md_journal", row.md_journal),
    ];
    let words = |(name, bytes)| Some(glue(&format!("{:.2} {name}", row.share(bytes)?)));
    let words: Option<Vec<String>> = parts.into_iter().filter(|p| p.1 > 0).map(words).collect();
    words.map(|w| w.join(" + ")).filter(|_| row.entered > 0)
}

impl Row for LedgerRow {
    fn key(&self, column: Column) -> SortKey {
        let r = &self.sums;
        SortKey::Number(match column {
            Column::Origin => f64::from(r.origin as u8),
            Column::Op => f64::from(r.op as u8),
            Column::Entered => r.entered as f64,
            Column::Data => r.data as f64,
            Column::Parity => r.parity as f64,
            Column::PreRead => r.rmw_read as f64,
            Column::MdBitmap => r.md_bitmap as f64,
            Column::MdJournal => r.md_journal as f64,
            Column::Factor => r.factor().unwrap_or(-1.0),
            _ => r.below() as f64,
        })
    }
}

/// The rows of the amplification view, in the vocabulary's order. A filter by an origin of md's keeps what was charged
/// with it.
pub fn amplification(array: &ArraySnapshot, filter: Filter) -> Vec<LedgerRow> {
    let Some(ledger) = &array.ledger else {
        return Vec::new();
    };
    let secs = seconds(ledger.over);
    let row = |r: &ledger::Row| LedgerRow { sums: *r, secs };
    let kept = |row: &LedgerRow| {
        let (origin, op) = (row.sums.origin, row.sums.op);
        filter.keeps(origin, op) || row.parts().iter().any(|p| filter.keeps(p.0, op))
    };
    ledger.rows.iter().map(row).filter(kept).collect()
}
