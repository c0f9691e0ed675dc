//! Member ids in the keys of the BPF programs' counters. Pure.
//!
//! When programs are loaded, the id of a member is its position in the topology. When members
//! change while the programs run ([`map_state`](super::map_state)), a changed member gets another
//! id, so that no program reads an entry while it changes. Outside the probe, members are
//! identified by their position in the topology.

use crate::analysis::counters::{CellCounters, CellKey};
use crate::analysis::cube::{Amount as _, Cube};

/// Counters of members, by id or by position in a topology.
pub(super) type Cells = Cube<CellKey, CellCounters>;

/// The ids of a topology's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberIds {
    /// Ids of the member at each position: the current id first, then earlier ids. Empty for a
    /// member without a disk on this machine.
    of: Vec<Vec<u32>>,
    /// The position of each id.
    positions: Vec<Option<u32>>,
}

impl MemberIds {
    pub(super) fn new(of: Vec<Vec<u32>>) -> Self {
        let highest = of.iter().flatten().max();
        let mut positions = vec![None; highest.map_or(0, |n| *n as usize + 1)];
        for (position, ids) in (0..).zip(&of) {
            for &id in ids {
                positions[id as usize] = Some(position);
            }
        }
        Self { of, positions }
    }

    /// Member ids directly after loading: each id is the member's position.
    pub(super) fn loaded(members: usize) -> Self {
        Self::new((0..members as u32).map(|id| vec![id]).collect())
    }

    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// All ids of a member. The first one is the current id.
    pub(super) fn of(&self, position: usize) -> &[u32] {
        self.of.get(position).map_or(&[], Vec::as_slice)
    }

    pub(super) fn position(&self, id: u32) -> Option<u32> {
        self.positions.get(id as usize).copied().flatten()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.of.iter().flatten().copied()
    }

    /// Converts counters by id to counters by position. Adds up the counters of all ids of a
    /// member.
    pub(super) fn count(
        &self,
        counted: impl IntoIterator<Item = (CellKey, CellCounters)>,
    ) -> Cells {
        let by_position = |(key, counted): (CellKey, CellCounters)| {
            Some((CellKey { member: self.position(key.member)?, ..key }, counted))
        };
        counted.into_iter().filter_map(by_position).collect()
    }
}

/// The change from one topology to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Switchover {
    /// Ids of the previous topology's members, including ids that this switchover has assigned to
    /// them.
    pub(super) was: MemberIds,
    /// Ids of the next topology.
    pub(super) next: MemberIds,
    /// Ids that the next topology uses and the previous one did not.
    pub(super) fresh: Vec<u32>,
    /// Counters of the ids in `fresh` before the switchover, left by earlier members with the same
    /// ids.
    pub(super) before: Cells,
}

impl Switchover {
    /// All ids of both topologies.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        let new = |id: &u32| self.was.position(*id).is_none();
        self.was.all().chain(self.next.all().filter(new))
    }

    /// Counters of the previous topology's members.
    pub(super) fn until(&self, counted: &Cells) -> Cells {
        let without_earlier = |(key, cell): (&CellKey, &CellCounters)| match self.before.get(key) {
            Some(before) => (*key, cell.since(before)),
            None => (*key, cell.clone()),
        };
        self.was.count(counted.iter().map(without_earlier))
    }

    /// Base to subtract from the next topology's counters if the previous topology's counters end
    /// with `counted`. The base of a new member covers only earlier use of its id, so each request
    /// is counted for exactly one topology.
    pub(super) fn base(&self, counted: &Cells) -> Cells {
        let known = |key: &CellKey| self.was.position(key.member).is_some();
        let counted = counted.iter().filter(|(key, _)| known(key));
        let before = self.before.iter().filter(|(key, _)| !known(key));
        self.next.count(counted.chain(before).map(|(key, cell)| (*key, cell.clone())))
    }
}

#[cfg(test)]
mod tests;
