//! What the maps of programs that run would have to hold for other tables, if they can. Pure.
//!
//! Copy on write: an entry that a program may be looking at is never changed. What is new or different is written whole
//! into one that nobody uses, and then pointed to: a member from its disk, a disk from the index. An entry of the index
//! is 16 bytes; those that programs compare and follow are in the first eight. Should the kernel's memcpy() not move these
//! at once, one bio may be looked up by half of each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::numbers::{Numbers, Turn};
use super::tables::{DEVS, SLOTS, Tables, slot};
use super::wire::{rt_array, rt_dev, rt_dev_entry, rt_member};

/// Room for members that join or change while the programs run, at least, and at most (else half as many as there are).
/// One that changes needs an entry too. Each costs 12 rows and 512 bytes a CPU, 13 KiB: 52 KiB a CPU for up to
/// eight members.
const MEMBERS_LEAST: u32 = 4;
const MEMBERS_MOST: u32 = 32;
/// In-flight slots for their disks, 16 bytes each, at most: 4 MiB. Two disks of 64 queues and 1023 tags, or any number
/// of usual ones.
const SLOTS_MOST: u32 = 1 << 18;

/// Entries of the maps beyond what the tables need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spare {
    pub(super) members: u32,
    pub(super) slots: u32,
}

impl Spare {
    /// None where there is no array of md's: a disk has no members that come and go.
    pub(super) fn of(tables: &Tables) -> Self {
        if !tables.md {
            return Self::default();
        }
        let members = (tables.members.len() as u32 / 2).clamp(MEMBERS_LEAST, MEMBERS_MOST);
        let largest = tables.devs.iter().map(|d| d.nr_slots).max().unwrap_or(0);
        Self {
            members,
            slots: (largest.saturating_mul(members))
                .min(SLOTS_MOST.max(largest))
                .min(SLOTS.saturating_sub(tables.slots)),
        }
    }
}

/// Entries that are not in use.
#[derive(Clone, Debug)]
struct Pool {
    fresh: Range<u32>,
    free: Vec<Range<u32>>,
    /// Given back at the last change: until the next one, for a program may have been looking at them.
    resting: Vec<Range<u32>>,
}

impl Pool {
    fn new(used: u32, spare: u32) -> Self {
        Self {
            fresh: used..used.saturating_add(spare),
            free: Vec::new(),
            resting: Vec::new(),
        }
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
        self.resting.push(first..first + count);
    }

    fn rested(&mut self) {
        self.free.append(&mut self.resting);
    }
}

/// An entry of a map to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Write {
    Member(u32, rt_member),
    Dev(u32, rt_dev),
    Index(u32, rt_dev_entry),
}

/// By (device, first sector, array): a member, however often it changes.
type Identity = (u32, u64, u16);

/// What the maps hold.
#[derive(Clone, Debug)]
pub(super) struct Held {
    mult: u64,
    places: u64,
    arrays: Vec<rt_array>,
    /// By the kernel side's number.
    members: HashMap<u32, rt_member>,
    numbers: Numbers,
    positions: HashMap<Identity, usize>,
    devs: BTreeMap<u32, (rt_dev_entry, rt_dev)>,
    free_members: Pool,
    free_devs: Pool,
    free_slots: Pool,
}

impl Held {
    /// Of programs that are just loaded.
    pub(super) fn new(tables: &Tables, spare: Spare) -> Self {
        let members = tables.members.len();
        Self {
            mult: tables.mult,
            places: tables.places(),
            arrays: tables.arrays.clone(),
            members: (0..).zip(tables.members.iter().copied()).collect(),
            numbers: Numbers::loaded(members),
            positions: identities(tables)
                .into_iter()
                .map(|(p, id)| (id, p))
                .collect(),
            devs: watched(tables)
                .map(|(entry, dev)| (entry.dev, (entry, dev)))
                .collect(),
            free_members: Pool::new(members as u32, spare.members),
            free_devs: Pool::new(tables.devs.len() as u32, (DEVS - tables.devs.len()) as u32),
            free_slots: Pool::new(tables.slots, spare.slots),
        }
    }

    /// What they would hold for `tables`, and what is to be written for it, in this order. `None`: they cannot.
    pub(super) fn refit(&self, tables: &Tables) -> Option<(Self, Vec<Write>, Turn)> {
        if self.places != tables.places() || self.arrays.len() != tables.arrays.len() {
            return None;
        }
        let mut next = self.clone();
        next.free_members.rested();
        next.free_devs.rested();
        next.free_slots.rested();
        let mut writes = Vec::new();
        let turn = next.members(self, tables, &mut writes)?;
        next.arrays(tables)?;
        next.devs(self, tables, &mut writes)?;
        Some((next, writes, turn))
    }

    fn members(&mut self, was: &Self, tables: &Tables, writes: &mut Vec<Write>) -> Option<Turn> {
        let identities = identities(tables);
        let mut before: Vec<Vec<u32>> = (0..was.numbers.len())
            .map(|position| was.numbers.of(position).to_vec())
            .collect();
        let mut now = Vec::with_capacity(tables.members.len());
        let mut all_fresh = Vec::new();
        for (position, member) in tables.members.iter().enumerate() {
            let Some(identity) = identities.get(&position) else {
                now.push(Vec::new());
                continue;
            };
            let old = was.positions.get(identity).copied();
            let number = old.and_then(|p| was.numbers.of(p).first().copied());
            let same = |n: &u32| was.members.get(n).is_some_and(|m| m == member);
            if let Some(number) = number.filter(same) {
                now.push(vec![number]);
                continue;
            }
            let fresh = self.free_members.take(1)?;
            all_fresh.push(fresh);
            self.members.insert(fresh, *member);
            writes.push(Write::Member(fresh, *member));
            if let Some(numbers) = old.and_then(|p| before.get_mut(p)) {
                numbers.push(fresh);
            }
            now.push([fresh].into_iter().chain(number).collect());
        }
        self.numbers = Numbers::new(now);
        self.positions = identities.into_iter().map(|(p, id)| (id, p)).collect();
        for number in was.numbers.all() {
            if self.numbers.position(number).is_none() {
                self.members.remove(&number);
                self.free_members.give(number, 1);
            }
        }
        Some(Turn {
            was: Numbers::new(before),
            next: self.numbers.clone(),
            fresh: all_fresh,
            before: BTreeMap::new(),
        })
    }

    fn arrays(&self, tables: &Tables) -> Option<()> {
        for (held, array) in self.arrays.iter().zip(&tables.arrays) {
            let mut array = *array;
            if let Some(position) = array.upper.checked_sub(1) {
                array.upper = 1 + self.numbers.of(position as usize).first()?;
            }
            if array != *held {
                return None;
            }
        }
        Some(())
    }

    fn devs(&mut self, was: &Self, tables: &Tables, writes: &mut Vec<Write>) -> Option<()> {
        self.devs.clear();
        let mut index = Vec::new();
        let mut taken = HashSet::new();
        for (mut entry, mut dev) in watched(tables) {
            let held = was.devs.get(&entry.dev);
            // What was learned is by the array's number.
            if entry.array != held.map_or(0, |(h, _)| h.array) {
                return None;
            }
            for part in dev.parts.iter_mut().take(dev.nr_parts as usize) {
                part.member = *self.numbers.of(part.member as usize).first()?;
            }
            let queue = |d: &rt_dev| (d.nr_slots, d.depth);
            dev.slot_base = match held.filter(|(_, h)| queue(h) == queue(&dev)) {
                Some((_, held)) => held.slot_base,
                None => {
                    if let Some((_, held)) = held {
                        self.free_slots.give(held.slot_base, held.nr_slots);
                    }
                    self.free_slots.take(dev.nr_slots)?
                }
            };
            entry.index = match held.filter(|(_, h)| *h == dev) {
                Some((held, _)) => held.index,
                None => {
                    if let Some((held, _)) = held {
                        self.free_devs.give(u32::from(held.index), 1);
                    }
                    let fresh = self.free_devs.take(1)?;
                    writes.push(Write::Dev(fresh, dev));
                    u16::try_from(fresh).ok()?
                }
            };
            if !taken.insert(slot(entry.dev, self.mult)) {
                return None;
            }
            if held.is_none_or(|(h, _)| *h != entry) {
                index.push(Write::Index(slot(entry.dev, self.mult), entry));
            }
            self.devs.insert(entry.dev, (entry, dev));
        }
        for (number, (entry, dev)) in &was.devs {
            if self.devs.contains_key(number) {
                continue;
            }
            // A program that has just found it there still follows the rest.
            let gone = rt_dev_entry { dev: 0, ..*entry };
            if !taken.insert(slot(*number, self.mult)) {
                return None;
            }
            index.push(Write::Index(slot(*number, self.mult), gone));
            self.free_devs.give(u32::from(entry.index), 1);
            self.free_slots.give(dev.slot_base, dev.nr_slots);
        }
        writes.append(&mut index);
        Some(())
    }
}

/// The devices that tables have.
fn watched(tables: &Tables) -> impl Iterator<Item = (rt_dev_entry, rt_dev)> + '_ {
    let of = |entry: &rt_dev_entry| Some((*entry, *tables.devs.get(usize::from(entry.index))?));
    tables.index.iter().filter_map(move |(_, entry)| of(entry))
}

/// By position; not of members that this machine does not have.
fn identities(tables: &Tables) -> HashMap<usize, Identity> {
    let parts = |(entry, dev): (rt_dev_entry, rt_dev)| {
        let parts = dev.parts.into_iter().take(dev.nr_parts as usize);
        parts.map(move |p| (p.member as usize, (entry.dev, p.start, p.array)))
    };
    watched(tables).flat_map(parts).collect()
}

#[cfg(test)]
mod tests;
