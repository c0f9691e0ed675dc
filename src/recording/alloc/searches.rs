//! Searches and the groups that they considered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::analysis::alloc::figures::{criterion, is_hooked};
use crate::analysis::alloc::{
    AllocSnapshot, CRITERIA, Counts, GROUPS_BUCKETS, GroupRefusal, GroupsConsidered,
};

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct Searches {
    count: u64,
    goal_blocks: u64,
    groups_scanned: u64,
    /// Searches for a locality group's preallocation.
    locality_groups: u64,
    reached: Vec<CriterionSearches>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct CriterionSearches {
    criterion: usize,
    name: String,
    searches: u64,
}

/// Groups considered by each search. p50, p99 and max are the upper bounds of their buckets; the
/// last bucket has no upper bound, so its lower bound is used.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct GroupsLine {
    p50: u64,
    p99: u64,
    max: u64,
    count: u64,
    /// Searches counted by ext4 (mb_stats), possibly in a part of the interval; `None` if a hook
    /// counted the groups.
    mb_stats_searches: Option<u64>,
    /// Pairs of the lower bound of a bucket and its number of searches.
    buckets: Vec<(u64, u64)>,
    criteria: Vec<CriterionGroups>,
    /// Refused groups by reason, if the reason is known.
    reasons: BTreeMap<GroupRefusal, u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct CriterionGroups {
    criterion: usize,
    name: String,
    looked: u64,
    /// `null` if unknown: mb_stats does not count refused groups.
    refused: Option<u64>,
}

impl Searches {
    pub(super) fn new(s: &AllocSnapshot, c: &Counts) -> Self {
        let reached = (0..CRITERIA).filter(|&i| c.criteria[i] > 0);
        Self {
            count: c.searches,
            goal_blocks: c.goal,
            groups_scanned: c.scanned,
            locality_groups: c.locality,
            reached: reached
                .map(|i| CriterionSearches {
                    criterion: i,
                    name: criterion(&s.criteria, i),
                    searches: c.criteria[i],
                })
                .collect(),
        }
    }

    pub(super) fn read(&self, c: &mut Counts) {
        (c.searches, c.goal, c.scanned) = (self.count, self.goal_blocks, self.groups_scanned);
        c.locality = self.locality_groups;
        for reached in &self.reached {
            if let Some(slot) = c.criteria.get_mut(reached.criterion) {
                *slot = reached.searches;
            }
        }
    }
}

impl GroupsLine {
    pub(super) fn new(s: &AllocSnapshot, c: &Counts) -> Self {
        let most = |q| {
            let range = c.groups.quantile(q).map(GroupsConsidered::range);
            range.map_or(0, |(first, last)| last.unwrap_or(first))
        };
        let counts = c.groups.0.iter().enumerate().filter(|(_, n)| **n > 0);
        let each = c.looked.iter().zip(&c.refused).enumerate();
        Self {
            p50: most(0.5),
            p99: most(0.99),
            max: most(1.0),
            count: c.groups.count(),
            mb_stats_searches: (!is_hooked(s, c)).then_some(c.hits),
            buckets: counts.map(|(i, &n)| (GroupsConsidered::range(i).0, n)).collect(),
            criteria: each
                .filter(|(_, (looked, refused))| **looked > 0 || **refused > 0)
                .map(|(i, (&looked, &refused))| CriterionGroups {
                    criterion: i,
                    name: criterion(&s.criteria, i),
                    looked,
                    refused: is_hooked(s, c).then_some(refused),
                })
                .collect(),
            reasons: GroupRefusal::ALL.into_iter().zip(c.reasons).filter(|r| r.1 > 0).collect(),
        }
    }
    pub(super) fn read(&self, c: &mut Counts) {
        c.hits = self.mb_stats_searches.unwrap_or(0);
        for &(first, n) in &self.buckets {
            let slot = &mut c.groups.0[GroupsConsidered::bucket(first).min(GROUPS_BUCKETS - 1)];
            *slot = slot.saturating_add(n);
        }
        for at in self.criteria.iter().filter(|a| a.criterion < CRITERIA) {
            c.looked[at.criterion] = at.looked;
            c.refused[at.criterion] = at.refused.unwrap_or(0);
        }
        for (reason, n) in &self.reasons {
            c.reasons[*reason as usize] = *n;
        }
    }
}
