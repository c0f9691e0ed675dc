//! Updates of the maps when members change, and changes that need a reload.

use proptest::prelude::*;

use super::{
    MAX_SPARE_MEMBERS, MAX_SPARE_SLOTS, MIN_SPARE_MEMBERS, MapEntry, MapState, Spare, slots,
    watched,
};
use crate::address::MemberSector;
use crate::machine::{Array, Member};
use crate::probe::tables::Tables;
use crate::probe::tables::tests::{array, dev, member, tables};
use crate::probe::wire::{Wire as _, rt_dev, rt_dev_entry, rt_member};

/// The maps as programs read them.
#[derive(Clone, Default)]
struct Maps {
    members: std::collections::HashMap<u32, rt_member>,
    devs: std::collections::HashMap<u32, rt_dev>,
    index: std::collections::HashMap<u32, rt_dev_entry>,
}

impl Maps {
    fn loaded(tables: &Tables) -> Self {
        Self {
            members: (0..).zip(tables.members.iter().copied()).collect(),
            devs: (0..).zip(tables.devs.iter().copied()).collect(),
            index: tables.index.iter().copied().collect(),
        }
    }

    fn write(&mut self, write: &MapEntry) {
        match *write {
            MapEntry::Member(at, member) => drop(self.members.insert(at, member)),
            MapEntry::Dev(at, dev) => drop(self.devs.insert(at, dev)),
            MapEntry::Index(at, entry) => drop(self.index.insert(at, entry)),
        }
    }

    /// The members on a device as a program finds them: first sector, id, and member entry.
    fn find(&self, number: u32, mult: u64) -> Option<Vec<(u64, u32, rt_member)>> {
        let mut bucket = slots(number, mult).filter_map(|slot| self.index.get(&slot));
        let entry = bucket.find(|entry| entry.dev == number)?;
        let dev = &self.devs[&u32::from(entry.index)];
        let parts = dev.parts.iter().take(dev.nr_parts as usize);
        Some(parts.map(|p| (p.start, p.member, self.members[&p.member])).collect())
    }
}

/// A device as a program finds it, without ids, which differ between updated and newly loaded maps.
fn known(maps: &Maps, number: u32, mult: u64) -> Option<Vec<(u64, Vec<u8>)>> {
    let found = maps.find(number, mult)?;
    Some(found.iter().map(|(s, _, m)| (*s, m.bytes().to_vec())).collect())
}

fn raid1(members: &[Member]) -> Array {
    let mut a = array(1, "raid1", members.to_vec());
    a.raid_disks = 2;
    a
}

fn two() -> [Member; 2] {
    [member(0, 8, 0), member(1, 8, 16)]
}

/// Updates the maps to `next` write by write, and checks after each write that every device is
/// either in its old or in its new state.
fn switch_over(
    state: &mut MapState,
    maps: &mut Maps,
    was: &Tables,
    next: &Tables,
) -> Option<super::Switchover> {
    let (after, writes, switchover) = state.updated(next)?;
    let mult = state.mult;
    let loaded = Maps::loaded(next);
    let devices: Vec<u32> = watched(was).chain(watched(next)).map(|(e, _)| e.dev).collect();
    let before = maps.clone();
    for write in &writes {
        maps.write(write);
        for &number in &devices {
            let now = known(maps, number, mult);
            let either = [known(&before, number, mult), known(&loaded, number, next.mult)];
            assert!(either.contains(&now), "{number}: {now:?}");
        }
    }
    for &number in &devices {
        assert_eq!(known(maps, number, mult), known(&loaded, number, next.mult));
    }
    // Positions agree with the ids that the programs use.
    for (entry, dev) in watched(next) {
        for (part, (_, number, _)) in dev.parts.iter().zip(maps.find(entry.dev, mult)?) {
            assert_eq!(after.member_ids.position(number), Some(part.member));
        }
    }
    *state = after;
    Some(switchover)
}

#[test]
fn equal_tables_need_no_writes() {
    let t = tables(vec![raid1(&two())]);
    let (_, writes, switchover) = MapState::new(&t, Spare::for_tables(&t)).updated(&t).unwrap();
    assert!(writes.is_empty());
    assert_eq!(switchover.was, switchover.next);
}

#[test]
fn a_member_fails_and_another_takes_its_place() {
    let t = tables(vec![raid1(&two())]);
    let (mut state, mut maps) = (MapState::new(&t, Spare::for_tables(&t)), Maps::loaded(&t));
    let [a, _] = two();
    let joined = |slot| {
        let mut new = member(1, 8, 32);
        new.slot = slot;
        tables(vec![raid1(&[a.clone(), new])])
    };
    let spare = joined(None);
    let first = switch_over(&mut state, &mut maps, &t, &spare).unwrap();
    assert_eq!(first.fresh, [2]);
    // The disk that was a spare now has a slot: it has a new id, but is the same member.
    let used = joined(Some(1));
    let second = switch_over(&mut state, &mut maps, &spare, &used).unwrap();
    // The id of the member that has left is reused only after another update.
    assert_eq!(second.fresh, [1]);
    assert_eq!(second.was.of(1), [2, 1]);
    assert_eq!(second.next.of(1), [1, 2]);
    assert_eq!(second.next.of(0), [0]);
    // Id 2 was in use until this update, so it is not reused.
    let third = switch_over(&mut state, &mut maps, &used, &spare).unwrap();
    assert_eq!(third.was.of(1), [1, 2, 3]);
    assert_eq!(third.next.of(1), [3, 1]);
}

#[test]
fn a_disk_that_stays_keeps_its_requests_in_flight() {
    let t = tables(vec![raid1(&two())]);
    let state = MapState::new(&t, Spare::for_tables(&t));
    let [mut a, b] = two();
    a.slot = None;
    let new = member(0, 8, 32);
    let next = tables(vec![raid1(&[a, b, new])]);
    let (after, _, _) = state.updated(&next).unwrap();
    let base = |state: &MapState, minor| {
        let d = state.devs[&dev(8, minor).kernel()].1;
        d.slot_base..d.slot_base + d.nr_slots
    };
    assert_eq!(base(&after, 0), base(&state, 0));
    assert_eq!(base(&after, 16), base(&state, 16));
    assert_eq!(base(&after, 32), t.slots..t.slots + 64);
}

#[test]
fn other_geometry_or_lack_of_room_needs_a_reload() {
    let whole = raid1(&two());
    let t = tables(vec![whole.clone()]);
    let state = MapState::new(&t, Spare::for_tables(&t));
    let refused = |change: &dyn Fn(&mut Vec<Array>)| {
        let mut arrays = vec![whole.clone()];
        change(&mut arrays);
        state.updated(&tables(arrays)).is_none()
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|a| a[0].level = "raid10".into()), "another geometry");
    assert!(refused(&|a| a[0].sectors += 8), "another layout");
    assert!(refused(&|a| a[0].dev = dev(9, 7)), "another array");
    assert!(refused(&|a| a.push(array(2, "raid0", vec![member(0, 8, 48)]))));
    assert!(refused(&|a| a.clear()));
    let many = |a: &mut Vec<Array>| {
        let spares = (0..=MIN_SPARE_MEMBERS).map(|n| member(9, 8, 64 + 16 * n));
        a[0].members.extend(spares);
    };
    assert!(refused(&many), "no room");
}

#[test]
fn devices_without_a_free_index_slot_need_a_reload() {
    let t = tables(vec![raid1(&two())]);
    let state = MapState::new(&t, Spare::for_tables(&t));
    let taken = slots(dev(8, 16).kernel(), t.mult);
    let mut clashes = (1..1 << 20).filter(|minor| slots(dev(65, *minor).kernel(), t.mult) == taken);
    let mut new = || member(1, 65, clashes.next().unwrap());
    let ([a, b], second, third) = (two(), new(), new());
    // The second entry of the bucket is free.
    assert!(state.updated(&tables(vec![raid1(&[a.clone(), b, second.clone()])])).is_some());
    // A reload is needed even if the other member has left: a program may have just read its entry.
    assert!(state.updated(&tables(vec![raid1(&[a, second, third])])).is_none());
}

/// A nested array refers to the outer array's member by id.
#[test]
fn an_array_whose_outer_member_gets_a_new_id_needs_a_reload() {
    let inner = |minor, disk: Member| array(minor, "raid1", vec![disk]);
    let outer = |a: Member, b: Member| array(9, "raid0", vec![a, b]);
    let (a, b) = (member(0, 9, 1), member(1, 9, 2));
    let of = |disk| {
        tables(vec![inner(1, disk), inner(2, member(0, 8, 16)), outer(a.clone(), b.clone())])
    };
    let t = of(member(0, 8, 0));
    let state = MapState::new(&t, Spare::for_tables(&t));
    let (after, _, _) = state.updated(&of(member(0, 8, 32))).unwrap();
    assert_eq!(after.arrays[0].bytes(), state.arrays[0].bytes());
    let mut moved = a.clone();
    moved.data_offset = MemberSector(4096);
    let next = tables(vec![
        inner(1, member(0, 8, 0)),
        inner(2, member(0, 8, 16)),
        outer(moved, b.clone()),
    ]);
    assert!(state.updated(&next).is_none());
}

#[test]
fn spare_entries_are_for_half_the_members() {
    let of = |count: u32| {
        let members = (0..count).map(|n| member(n, 8, 16 * n)).collect();
        Spare::for_tables(&tables(vec![array(1, "raid0", members)]))
    };
    let spare = |members| Spare { members, slots: 64 * members };
    assert_eq!(of(2), spare(MIN_SPARE_MEMBERS));
    assert_eq!(of(12), spare(6));
    assert_eq!(of(200), spare(MAX_SPARE_MEMBERS));
    let mut large = member(0, 8, 0);
    large.queue.nr_tags = MAX_SPARE_SLOTS;
    let large = tables(vec![array(1, "raid0", vec![large])]);
    assert_eq!(Spare::for_tables(&large).slots, MAX_SPARE_SLOTS);
    let disk = array(1, "single", vec![member(0, 8, 0)]);
    assert_eq!(Spare::for_tables(&tables(vec![disk])), Spare::default());
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    // Disks of a small machine, each with a slot or as a spare, and with one of two data offsets.
    let one = (prop::option::of(0..2u32), prop::bool::ANY);
    prop::collection::btree_map(0..5u32, one, 1..5).prop_map(|disks| {
        disks
            .into_iter()
            .map(|(disk, (slot, further))| {
                let mut m = member(0, 8, 16 * disk);
                m.slot = slot;
                m.data_offset += 512 * u64::from(further);
                m
            })
            .collect()
    })
}

proptest! {
    /// After any change of members the maps are equal to newly loaded ones, except for ids. An
    /// update is refused only if there is no room. Every request is counted once.
    #[test]
    fn updated_maps_equal_newly_loaded_maps(all in prop::collection::vec(members(), 2..12)) {
        let all: Vec<Tables> = all.iter().map(|m| tables(vec![raid1(m)])).collect();
        let (mut state, mut maps) =
            (MapState::new(&all[0], Spare::for_tables(&all[0])), Maps::loaded(&all[0]));
        for pair in all.windows(2) {
            let [was, next] = pair else { continue };
            match switch_over(&mut state, &mut maps, was, next) {
                Some(switchover) => {
                    let of: Vec<u32> = switchover.next.all().collect();
                    let mut once = of.clone();
                    once.sort_unstable();
                    once.dedup();
                    prop_assert_eq!(of.len(), once.len());
                    // A fresh id of a previous member is also an id of the next topology.
                    for position in 0..switchover.was.len() {
                        for number in switchover.was.of(position).iter().skip(1) {
                            let fresh = switchover.fresh.contains(number);
                            prop_assert!(!fresh || switchover.next.position(*number).is_some());
                        }
                    }
                }
                None => {
                    state = MapState::new(next, Spare::for_tables(next));
                    maps = Maps::loaded(next);
                }
            }
        }
    }
}
