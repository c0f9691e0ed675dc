//! Under which numbers the kernel side counts the members. Pure.
//!
//! Programs that are just loaded have the members in the order of the survey. When members change while they run
//! (`refit`), a changed one gets another number, so that no program ever meets half of what it is now. Everything above
//! the probe goes by positions in the survey.

use std::collections::BTreeMap;

use crate::analysis::counters::{CellCounters, CellKey};

/// Counters of members: by the kernel side's numbers, or by positions in a survey.
pub(super) type Cells = BTreeMap<CellKey, CellCounters>;

/// The numbers of a survey's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// By position: what the programs find now, then what they found before. None for a member that this machine does
    /// not have.
    of: Vec<Vec<u32>>,
    /// By number.
    positions: Vec<Option<u32>>,
}

impl Numbers {
    pub(super) fn new(of: Vec<Vec<u32>>) -> Self {
        let highest = of.iter().flatten().max();
        let mut positions = vec![None; highest.map_or(0, |n| *n as usize + 1)];
        for (position, numbers) in (0..).zip(&of) {
            for &number in numbers {
                positions[number as usize] = Some(position);
            }
        }
        Self { of, positions }
    }

    /// As programs have them that are just loaded.
    pub(super) fn loaded(members: usize) -> Self {
        Self::new((0..members as u32).map(|number| vec![number]).collect())
    }

    /// Of how many members.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// All of a member; the first is what the programs find now.
    pub(super) fn of(&self, position: usize) -> &[u32] {
        self.of.get(position).map_or(&[], Vec::as_slice)
    }

    /// Whose number it is.
    pub(super) fn position(&self, number: u32) -> Option<u32> {
        self.positions.get(number as usize).copied().flatten()
    }

    /// All, each once.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.of.iter().flatten().copied()
    }

    /// What the survey's members were counted, each under all its numbers.
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

/// From a survey to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// The numbers of the survey until now, with those that its members have got since.
    pub(super) was: Numbers,
    /// Those of the next.
    pub(super) next: Numbers,
    /// Numbers that were in use by neither, and now are.
    pub(super) fresh: Vec<u32>,
    /// What had been counted under these, when they were somebody else's.
    pub(super) before: Cells,
}

impl Turn {
    /// All numbers of both.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        let new = |number: &u32| self.was.position(*number).is_none();
        self.was.all().chain(self.next.all().filter(new))
    }

    /// What the members of the survey until now were counted.
    pub(super) fn until(&self, counted: &Cells) -> Cells {
        let theirs = |(key, cell): (&CellKey, &CellCounters)| match self.before.get(key) {
            Some(before) => (*key, cell.since(before)),
            None => (*key, cell.clone()),
        };
        self.was.count(counted.iter().map(theirs))
    }

    /// Where the counts of the next survey's members begin, when those of the last one's end at `counted`: there, and of
    /// members that only the next one has, at nothing. So nothing is in neither, and nothing in both.
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
