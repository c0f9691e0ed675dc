//! Parity and pre-reads that were charged to an origin when they were submitted, and complete later.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::counters::CostCounters;
use super::snapshot::MemberSnapshot;
use crate::origin::Origin;

/// Longer than this, or than an interval, nothing is under way; what did not complete by then was lost on its way.
const UNDER_WAY: Duration = Duration::from_millis(500);

type Part = fn(&mut CostCounters) -> &mut u64;
const PARTS: [(Origin, Part); 2] = [
    (Origin::Parity, |c| &mut c.parity),
    (Origin::RmwRead, |c| &mut c.rmw_read),
];

/// Who is to be charged with what was submitted to an array's members and had not completed by the end of an interval.
#[derive(Debug, Default)]
pub struct Owed {
    costs: BTreeMap<Origin, CostCounters>,
    /// What was submitted lately, of each of [`PARTS`], with the end of its interval.
    lately: VecDeque<(Duration, [u64; 2])>,
}

impl Owed {
    /// Who is to be charged with what completes in an interval that ends `now`: who submitted in it, `costs`, and who
    /// owes from before. What of it has not completed by now is owed in the next.
    pub fn charge(
        &mut self,
        mut costs: BTreeMap<Origin, CostCounters>,
        members: &[MemberSnapshot],
        now: Duration,
    ) -> BTreeMap<Origin, CostCounters> {
        self.lately
            .retain(|(end, _)| now.saturating_sub(*end) < UNDER_WAY);
        let submitted = PARTS.map(|(_, part)| sum(&mut costs, part));
        self.lately.push_back((now, submitted));
        for (origin, cost) in std::mem::take(&mut self.costs) {
            costs.entry(origin).or_default().add(cost);
        }
        for (kind, (origin, part)) in PARTS.into_iter().enumerate() {
            let all = sum(&mut costs, part);
            let completed = members.iter().fold(0, |n: u64, m| {
                n.saturating_add(m.sum(|c| c.origin == origin).1)
            });
            let lately = self.lately.iter().map(|(_, submitted)| submitted[kind]);
            let lately = lately.fold(0, u64::saturating_add);
            let left = all.saturating_sub(completed).min(lately);
            for (origin, cost) in &mut costs {
                let share = u128::from(*part(cost)) * u128::from(left) / u128::from(all.max(1));
                let share = u64::try_from(share).unwrap_or(u64::MAX);
                *part(self.costs.entry(*origin).or_default()) = share;
                *part(cost) -= share; // once only, however many intervals are joined
            }
        }
        costs.retain(|_, cost| *cost != CostCounters::default());
        costs
    }
}

fn sum(costs: &mut BTreeMap<Origin, CostCounters>, part: Part) -> u64 {
    costs
        .values_mut()
        .fold(0, |sum: u64, c| sum.saturating_add(*part(c)))
}
