//! Ids by which the programs count the members. Pure.
//!
//! When programs are loaded, the id of a member is its position in the topology. When members change while the programs run
//! ([`map_state`](super::map_state)), a changed member gets another id, so that no program reads an entry while it changes.
//! Everything above the probe uses positions in the topology.

use std::collections::BTreeMap;

use crate::analysis::counters::{CellCounters, CellKey};

/// Counters of members, by id or by position in a topology.
pub(super) type Cells = BTreeMap<CellKey, CellCounters>;

/// The ids of a topology's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberIds {
    /// Ids of the member at each position: the one that the programs use now, then earlier ones. Empty for a member without a
    /// disk on this machine.
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

    /// The ids of programs that have just been loaded.
    pub(super) fn loaded(members: usize) -> Self {
        Self::new((0..members as u32).map(|id| vec![id]).collect())
    }

    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// All ids of a member. The programs use the first one.
    pub(super) fn of(&self, position: usize) -> &[u32] {
        self.of.get(position).map_or(&[], Vec::as_slice)
    }

    /// Position of the member with an id.
    pub(super) fn position(&self, id: u32) -> Option<u32> {
        self.positions.get(id as usize).copied().flatten()
    }

    /// Ids of all members, each once.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.of.iter().flatten().copied()
    }

    /// Converts counters by id to counters by position. The counters of all ids of a member are added up.
    pub(super) fn count(
        &self,
        counted: impl IntoIterator<Item = (CellKey, CellCounters)>,
    ) -> Cells {
        let mut cells = Cells::new();
        for (key, counted) in counted {
            let Some(member) = self.position(key.member) else {
                continue;
            };
            match cells.entry(CellKey { member, ..key }) {
                std::collections::btree_map::Entry::Vacant(cell) => {
                    cell.insert(counted);
                }
                std::collections::btree_map::Entry::Occupied(mut cell) => {
                    cell.get_mut().add(&counted)
                }
            }
        }
        cells
    }
}

/// The change from one topology to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Switchover {
    /// Ids of the previous topology, with the new ids of its members.
    pub(super) was: MemberIds,
    /// Ids of the next topology.
    pub(super) next: MemberIds,
    /// Ids that the previous topology did not use and the next one does.
    pub(super) fresh: Vec<u32>,
    /// Counters of the ids in `fresh` from when other members had them.
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
        let theirs = |(key, cell): (&CellKey, &CellCounters)| match self.before.get(key) {
            Some(before) => (*key, cell.since(before)),
            None => (*key, cell.clone()),
        };
        self.was.count(counted.iter().map(theirs))
    }

    /// The base that is subtracted from the next topology's counters if those of the previous topology end with `counted`. New
    /// members have no base beyond earlier use of their ids, so that each request is counted for exactly one topology.
    pub(super) fn base(&self, counted: &Cells) -> Cells {
        let known = |key: &CellKey| self.was.position(key.member).is_some();
        let counted = counted.iter().filter(|(key, _)| known(key));
        let before = self.before.iter().filter(|(key, _)| !known(key));
        self.next.count(
            counted
                .chain(before)
                .map(|(key, cell)| (*key, cell.clone())),
        )
    }
}

#[cfg(test)]
mod tests;
