//! Free extents by order, as a table.

use std::io;

use super::{MAX_BAR, labelled};
use crate::analysis::alloc::figures::{total, whole};
use crate::analysis::alloc::{Fragmentation, FsAlloc};
use crate::analysis::units;
use crate::analysis::units::{count, percent};
use crate::ui::text::glue;

/// A row of [`orders`].
pub(in crate::commands::alloc) struct OrderRow {
    pub order: usize,
    /// Groups whose largest free extent is of this order.
    pub groups: u64,
    pub extents: Option<u64>,
    /// Share shown by the bar: of the free blocks if `extents` is known, else of the groups.
    pub share: f64,
}

/// Rows for the orders that have free extents, and the number of groups without a free extent if
/// known.
pub(in crate::commands::alloc) fn orders(f: &Fragmentation) -> (Vec<OrderRow>, Option<u64>) {
    let length = f.largest.len().max(f.extents.as_ref().map_or(0, Vec::len));
    let of = |list: &[u64], order: usize| list.get(order).copied().unwrap_or(0);
    let weight = |order: usize| match &f.extents {
        Some(extents) => of(extents, order) as f64 * 2f64.powi(order.min(64) as i32),
        None => of(&f.largest, order) as f64,
    };
    let all: f64 = (0..length).map(weight).sum();
    let rows = (0..length)
        .map(|order| OrderRow {
            order,
            groups: of(&f.largest, order),
            extents: f.extents.as_ref().map(|e| of(e, order)),
            share: weight(order) / all.max(1.0),
        })
        .filter(|o| o.groups > 0 || o.extents.is_some_and(|n| n > 0))
        .collect();
    let sum = total(f.largest.iter());
    let none = f.groups.checked_sub(sum).filter(|n| *n > 0 && sum > 0);
    (rows, none)
}

pub(super) fn extents(out: &mut Vec<u8>, f: &Fragmentation, fs: &FsAlloc) -> io::Result<()> {
    let (rows, none) = orders(f);
    if rows.is_empty() {
        return Ok(());
    }
    let bars = if f.extents.is_some() { "share of the free blocks" } else { "share of the groups" };
    let head = format!("{:<6} {:>8} {:>8} {:>8}  {bars}", "order", "bytes", "extents", "groups");
    labelled(out, "free extents", &glue(&head))?;
    for o in rows {
        let bytes = f64::from(fs.block_bytes) * 2f64.powi(o.order.min(64) as i32);
        let row = format!(
            "2^{:<4} {:>8} {:>8} {:>8}  {} {}",
            o.order,
            units::bytes(bytes),
            o.extents.map_or("-".to_owned(), |n| count(n as f64)),
            count(o.groups as f64),
            "#".repeat((o.share * MAX_BAR as f64).round() as usize),
            percent(o.share)
        );
        labelled(out, "", &glue(&row.replace("  0 %", "  -")))?;
    }
    let text = match none {
        // Without extents, the source is mb_structs_summary, which has only groups in memory.
        _ if f.extents.is_none() => "groups in memory, by their largest free extent".to_owned(),
        Some(n) => format!("groups by their largest free extent; {} groups have none", whole(n)),
        None => "groups by their largest free extent".to_owned(),
    };
    labelled(out, "", &text)
}
