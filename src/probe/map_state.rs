//! Updates the maps of running programs in place for new tables, if possible. Pure.
//!
//! Copy on write: an entry that a program may be reading is never changed. A new or changed entry
//! is first written to an unused index of its map. Then the reference to the entry is updated: a
//! disk refers to its members, and the device index refers to disks. An entry of the device index
//! has 16 bytes; the programs compare the first four and use the first twelve. If the kernel's
//! memcpy() does not copy them at once, one bio may be looked up with a mix of the old and the new
//! entry.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::dev_index::slots;
use super::member_ids::{MemberIds, Switchover};
use super::tables::{DEVS, MAX_SLOTS, Tables};
use super::wire::{rt_array, rt_dev, rt_dev_entry, rt_member};
use crate::analysis::cube::Cube;

/// Limits of the number of spare entries for members that join or change while the programs run.
/// Within the limits, the number is half the number of members. Each spare entry costs 12 rows and
/// 512 bytes, 13 KiB, on each CPU: 52 KiB for up to eight members.
const MIN_SPARE_MEMBERS: u32 = 4;
const MAX_SPARE_MEMBERS: u32 = 32;
/// Maximum number of spare in-flight slots for the disks of such members, 16 bytes each (4 MiB).
/// Enough for four disks with 64 queues and 1023 tags, or for any number of common disks.
const MAX_SPARE_SLOTS: u32 = 1 << 18;

/// Map entries beyond those that the tables need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spare {
    pub(super) members: u32,
    pub(super) slots: u32,
}

impl Spare {
    /// Spare entries for these tables: none without an md array, because only members of md arrays
    /// change.
    pub(super) fn for_tables(tables: &Tables) -> Self {
        if !tables.md {
            return Self::default();
        }
        let members = (tables.members.len() as u32 / 2).clamp(MIN_SPARE_MEMBERS, MAX_SPARE_MEMBERS);
        let largest = tables.devs.iter().map(|d| d.nr_slots).max().unwrap_or(0);
        Self {
            members,
            slots: (largest.saturating_mul(members))
                .min(MAX_SPARE_SLOTS.max(largest))
                .min(MAX_SLOTS.saturating_sub(tables.slots)),
        }
    }
}

/// Unused entries of a map.
#[derive(Clone, Debug)]
struct Pool {
    fresh: Range<u32>,
    free: Vec<Range<u32>>,
    /// Entries released by the last update. A program may still read them, so they are reused only
    /// after the next update.
    released: Vec<Range<u32>>,
}

impl Pool {
    fn new(used: u32, spare: u32) -> Self {
        Self { fresh: used..used.saturating_add(spare), free: Vec::new(), released: Vec::new() }
    }

    fn take(&mut self, count: u32) -> Option<u32> {
        if let Some(at) = self.free.iter().position(|r| r.len() == count as usize) {
            return Some(self.free.swap_remove(at).start);
        }
        let first = self.fresh.start;
        (self.fresh.len() >= count as usize).then(|| {
            self.fresh.start += count;
            first
        })
    }

    fn give(&mut self, first: u32, count: u32) {
        self.released.push(first..first + count);
    }

    fn reuse_released(&mut self) {
        self.free.append(&mut self.released);
    }
}

/// An entry of a map to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum MapEntry {
    Member(u32, rt_member),
    Dev(u32, rt_dev),
    Index(u32, rt_dev_entry),
}

/// Device, first sector and array of a member. These stay the same when the member's other
/// properties change.
type MemberIdentity = (u32, u64, u16);

/// Content of the maps.
#[derive(Clone, Debug)]
pub(super) struct MapState {
    mult: u64,
    layouts: u64,
    arrays: Vec<rt_array>,
    /// Members by id.
    members: HashMap<u32, rt_member>,
    member_ids: MemberIds,
    positions: HashMap<MemberIdentity, usize>,
    devs: BTreeMap<u32, (rt_dev_entry, rt_dev)>,
    /// Slots of the devices in the device index.
    slots: HashMap<u32, u32>,
    free_members: Pool,
    free_devs: Pool,
    free_slots: Pool,
}

impl MapState {
    /// Content of the maps directly after loading the programs.
    pub(super) fn new(tables: &Tables, spare: Spare) -> Self {
        let members = tables.members.len();
        Self {
            mult: tables.mult,
            layouts: tables.layout_digest(),
            arrays: tables.arrays.clone(),
            members: (0..).zip(tables.members.iter().copied()).collect(),
            member_ids: MemberIds::loaded(members),
            positions: identities(tables).into_iter().map(|(p, id)| (id, p)).collect(),
            slots: tables.index.iter().map(|(slot, entry)| (entry.dev, *slot)).collect(),
            devs: watched(tables).map(|(entry, dev)| (entry.dev, (entry, dev))).collect(),
            free_members: Pool::new(members as u32, spare.members),
            free_devs: Pool::new(tables.devs.len() as u32, (DEVS - tables.devs.len()) as u32),
            free_slots: Pool::new(tables.slots, spare.slots),
        }
    }

    /// Content of the maps for `tables`, and the ordered writes that produce it. `None` if the maps
    /// cannot be updated in place.
    pub(super) fn updated(&self, tables: &Tables) -> Option<(Self, Vec<MapEntry>, Switchover)> {
        if self.layouts != tables.layout_digest() || self.arrays.len() != tables.arrays.len() {
            return None;
        }
        let mut next = self.clone();
        next.free_members.reuse_released();
        next.free_devs.reuse_released();
        next.free_slots.reuse_released();
        let mut writes = Vec::new();
        let switchover = next.members(self, tables, &mut writes)?;
        next.arrays(tables)?;
        next.devs(self, tables, &mut writes)?;
        Some((next, writes, switchover))
    }

    fn members(
        &mut self,
        was: &Self,
        tables: &Tables,
        writes: &mut Vec<MapEntry>,
    ) -> Option<Switchover> {
        let identities = identities(tables);
        let mut before: Vec<Vec<u32>> = (0..was.member_ids.len())
            .map(|position| was.member_ids.of(position).to_vec())
            .collect();
        let mut now = Vec::with_capacity(tables.members.len());
        let mut all_fresh = Vec::new();
        for (position, member) in tables.members.iter().enumerate() {
            let Some(identity) = identities.get(&position) else {
                now.push(Vec::new());
                continue;
            };
            let old = was.positions.get(identity).copied();
            let id = old.and_then(|p| was.member_ids.of(p).first().copied());
            let same = |n: &u32| was.members.get(n).is_some_and(|m| m == member);
            if let Some(id) = id.filter(same) {
                now.push(vec![id]);
                continue;
            }
            let fresh = self.free_members.take(1)?;
            all_fresh.push(fresh);
            self.members.insert(fresh, *member);
            writes.push(MapEntry::Member(fresh, *member));
            if let Some(ids) = old.and_then(|p| before.get_mut(p)) {
                ids.push(fresh);
            }
            now.push([fresh].into_iter().chain(id).collect());
        }
        self.member_ids = MemberIds::new(now);
        self.positions = identities.into_iter().map(|(p, id)| (id, p)).collect();
        for number in was.member_ids.all() {
            if self.member_ids.position(number).is_none() {
                self.members.remove(&number);
                self.free_members.give(number, 1);
            }
        }
        Some(Switchover {
            was: MemberIds::new(before),
            next: self.member_ids.clone(),
            fresh: all_fresh,
            before: Cube::default(),
        })
    }

    fn arrays(&self, tables: &Tables) -> Option<()> {
        for (had, array) in self.arrays.iter().zip(&tables.arrays) {
            let mut array = *array;
            if let Some(position) = array.outer_member.checked_sub(1) {
                array.outer_member = 1 + self.member_ids.of(position as usize).first()?;
            }
            if array != *had {
                return None;
            }
        }
        Some(())
    }

    fn devs(&mut self, was: &Self, tables: &Tables, writes: &mut Vec<MapEntry>) -> Option<()> {
        self.devs.clear();
        let mut index = Vec::new();
        // A program may have just read the entry of a device that is gone.
        let mut taken: HashSet<u32> = was.slots.values().copied().collect();
        self.slots.clear();
        for (mut entry, mut dev) in watched(tables) {
            let had = was.devs.get(&entry.dev);
            // Learned blocks are keyed by the array's index, so the index must not change.
            if entry.array != had.map_or(0, |(h, _)| h.array) {
                return None;
            }
            for part in dev.parts.iter_mut().take(dev.nr_parts as usize) {
                part.member = *self.member_ids.of(part.member as usize).first()?;
            }
            let queue = |d: &rt_dev| (d.nr_slots, d.depth);
            dev.slot_base = match had.filter(|(_, h)| queue(h) == queue(&dev)) {
                Some((_, had)) => had.slot_base,
                None => {
                    if let Some((_, had)) = had {
                        self.free_slots.give(had.slot_base, had.nr_slots);
                    }
                    self.free_slots.take(dev.nr_slots)?
                }
            };
            entry.index = match had.filter(|(_, h)| *h == dev) {
                Some((had, _)) => had.index,
                None => {
                    if let Some((had, _)) = had {
                        self.free_devs.give(u32::from(had.index), 1);
                    }
                    let fresh = self.free_devs.take(1)?;
                    writes.push(MapEntry::Dev(fresh, dev));
                    u16::try_from(fresh).ok()?
                }
            };
            let slot = match was.slots.get(&entry.dev) {
                Some(slot) => *slot,
                None => slots(entry.dev, self.mult).find(|slot| !taken.contains(slot))?,
            };
            taken.insert(slot);
            self.slots.insert(entry.dev, slot);
            if had.is_none_or(|(h, _)| *h != entry) {
                index.push(MapEntry::Index(slot, entry));
            }
            self.devs.insert(entry.dev, (entry, dev));
        }
        for (number, (entry, dev)) in &was.devs {
            if self.devs.contains_key(number) {
                continue;
            }
            // A program that has just read the entry still uses its index, so only `dev` is
            // cleared.
            let gone = rt_dev_entry { dev: 0, ..*entry };
            index.extend(was.slots.get(number).map(|slot| MapEntry::Index(*slot, gone)));
            self.free_devs.give(u32::from(entry.index), 1);
            self.free_slots.give(dev.slot_base, dev.nr_slots);
        }
        writes.append(&mut index);
        Some(())
    }
}

/// Devices of the tables, with their entries of the device index.
fn watched(tables: &Tables) -> impl Iterator<Item = (rt_dev_entry, rt_dev)> + '_ {
    let of = |entry: &rt_dev_entry| Some((*entry, *tables.devs.get(usize::from(entry.index))?));
    tables.index.iter().filter_map(move |(_, entry)| of(entry))
}

/// Identities of members by position. Members that are absent from this machine are left out.
fn identities(tables: &Tables) -> HashMap<usize, MemberIdentity> {
    let parts = |(entry, dev): (rt_dev_entry, rt_dev)| {
        let parts = dev.parts.into_iter().take(dev.nr_parts as usize);
        parts.map(move |p| (p.member as usize, (entry.dev, p.start, p.array)))
    };
    watched(tables).flat_map(parts).collect()
}

#[cfg(test)]
mod tests;
