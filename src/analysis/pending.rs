//! Charges for parity and pre-reads that are submitted in one interval and complete in a later one.

use std::collections::VecDeque;
use std::time::Duration;

use super::counters::CostCounters;
use super::cube::{Amount as _, Cube};
use super::snapshot::MemberSnapshot;
use crate::origin::Origin;

/// Age from which on (or after one interval, if longer) charges do not stay pending. They are
/// charged without a completion, which must have been lost.
const MAX_AGE: Duration = Duration::from_millis(500);

type CostField = fn(&mut CostCounters) -> &mut u64;
const PARTS: [(Origin, CostField); 2] =
    [(Origin::Parity, |c| &mut c.parity), (Origin::RmwRead, |c| &mut c.rmw_read)];

/// Charges, by origin, for IO that was submitted to an array's members and had not completed at the
/// end of an interval.
#[derive(Debug, Default)]
pub struct PendingCharges {
    costs: Cube<Origin, CostCounters>,
    /// Bytes submitted recently for each of [`PARTS`], with the end of their interval.
    recent: VecDeque<(Duration, [u64; 2])>,
}

impl PendingCharges {
    /// Charges for IO that completed in an interval that ends at `now`, out of the charges of that
    /// interval, `costs`, and the pending ones. Charges for IO that has not completed stay pending.
    pub fn charge(
        &mut self,
        mut costs: Cube<Origin, CostCounters>,
        members: &[MemberSnapshot],
        now: Duration,
    ) -> Cube<Origin, CostCounters> {
        self.recent.retain(|(end, _)| now.saturating_sub(*end) < MAX_AGE);
        let submitted = PARTS.map(|(_, part)| *part(&mut costs.total()));
        self.recent.push_back((now, submitted));
        costs.merge(&std::mem::take(&mut self.costs));
        for (kind, (origin, part)) in PARTS.into_iter().enumerate() {
            let all = *part(&mut costs.total());
            let completed = members
                .iter()
                .fold(0, |n: u64, m| n.saturating_add(m.sum(|c| c.origin == origin).1));
            let recent = self
                .recent
                .iter()
                .map(|(_, submitted)| submitted[kind])
                .fold(0, u64::saturating_add);
            let left = all.saturating_sub(completed).min(recent);
            for (origin, cost) in costs.iter_mut() {
                let share = u128::from(*part(cost)) * u128::from(left) / u128::from(all.max(1));
                let share = u64::try_from(share).unwrap_or(u64::MAX);
                *part(self.costs.sum_mut(*origin)) = share;
                *part(cost) -= share; // charge once, also when intervals are merged later
            }
        }
        costs.retain(|_, cost| !cost.is_zero());
        costs
    }
}
