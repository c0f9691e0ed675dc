//! The headline at the top of the screen: the worst problem of an array and its cause.
//!
//! [`symptom`] finds the problem: a member that is busy all the time, or that hangs. The headline
//! states the problem and its cause: the origin, its skew, and the task; how long tasks wait is the
//! matter of [`super::verdict`]. A skew that delays no IO is only information. [`super::window`]
//! sets the evaluated time.

mod headline;
mod kind;
mod limit;
mod spread;
mod symptom;
#[cfg(test)]
mod tests;
mod uneven;
mod words;
mod work;

use std::collections::BTreeSet;
use std::time::Duration;

use super::snapshot::{ArraySnapshot, MemberSnapshot};
use super::units;
use crate::origin::{Op, Origin};
use headline::HeadlineInput;
pub use kind::{Hotspot, HotspotKind, HotspotSeverity};
use limit::limited;
use spread::LoadSpread;
use symptom::{MemberFigures, Symptom, find_symptom};

/// Minimum number of requests for a figure to be significant.
const ENOUGH_REQUESTS: f64 = 16.0;

/// Finds the hot spot of `array`, whose figures cover the time `over`.
pub fn find(array: &ArraySnapshot, over: Duration) -> Hotspot {
    let present: Vec<&MemberSnapshot> = array.members.iter().filter(|m| m.is_present()).collect();
    let figures: Vec<MemberFigures> = present.iter().map(|m| MemberFigures::new(m, over)).collect();
    let evidence = HeadlineInput {
        array,
        total: LoadSpread::new(&present, |_| true),
        anything: present.iter().any(|m| !m.io.is_empty()),
        untraced: (0..present.len()).filter(|&i| is_untraced(present[i])).collect(),
        present,
        over,
    };
    match find_symptom(&figures) {
        Symptom::None => limited(array).map_or_else(
            || headline::write(&evidence, &figures, &Symptom::None),
            |limited| headline::limited(&evidence, &figures, limited),
        ),
        symptom => headline::write(&evidence, &figures, &symptom),
    }
}

/// True if the kernel counts requests of `member` and raidtrace none: the request tracepoints do
/// not fire for a bio-based device.
fn is_untraced(member: &MemberSnapshot) -> bool {
    let counted = member.disk.map_or(0, |d| d.requests);
    member.io.is_empty() && counted as f64 >= ENOUGH_REQUESTS
}

/// Load of the busiest member over the mean of all present members, for each origin and operation
/// with enough requests.
pub fn skews(array: &ArraySnapshot) -> Vec<(Origin, Op, f64)> {
    let present: Vec<&MemberSnapshot> = array.members.iter().filter(|m| m.is_present()).collect();
    let cells = present.iter().flat_map(|m| &m.io);
    let keys: BTreeSet<(Origin, Op)> = cells.map(|c| (c.origin, c.op)).collect();
    keys.into_iter()
        .filter_map(|(origin, op)| {
            let spread = LoadSpread::new(&present, |c| c.origin == origin && c.op == op);
            (spread.requests() >= ENOUGH_REQUESTS).then(|| (origin, op, spread.skew()))
        })
        .collect()
}
