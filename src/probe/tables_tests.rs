//! What the kernel side is told of arrays that are described here.

use super::{ARRAY_RESHAPING, DEV_INNER, Tables};
use crate::host::{Array, Dev, Member, QueueFacts, Topology};
use crate::survey::Survey;

pub(super) fn dev(major: u32, minor: u32) -> Dev {
    Dev { major, minor }
}

/// A disk in this slot, or, with major number 9, an array.
pub(super) fn member(slot: u32, major: u32, minor: u32) -> Member {
    let name = format!("{}{minor}", if major == 9 { "md" } else { "sd" });
    Member {
        dev: dev(major, minor),
        disk: dev(major, minor),
        disk_name: name.clone(),
        name,
        sectors: 10_000,
        slot: Some(slot),
        data_offset: 2048,
        data_sectors: 4096,
        sb_offset: Some(8),
        sb_sectors: 8,
        inner: (major == 9).then_some(dev(major, minor)),
        queue: QueueFacts {
            nr_hw_queues: u32::from(major != 9),
            nr_tags: 64 * u32::from(major != 9),
            iostats: true,
            bio_based: major == 9,
            ..QueueFacts::default()
        },
        ..Member::default()
    }
}

pub(super) fn array(minor: u32, level: &str, members: Vec<Member>) -> Array {
    Array {
        name: format!("md{minor}"),
        dev: dev(9, minor),
        sectors: 8192,
        level: level.into(),
        chunk_sectors: if level == "raid1" { 0 } else { 128 },
        raid_disks: members.len() as u32,
        component_sectors: if level == "raid1" { 4096 } else { 0 },
        members,
        ..Array::default()
    }
}

pub(super) fn tables(arrays: Vec<Array>) -> Tables {
    let topology = Topology {
        arrays,
        ..Topology::default()
    };
    let survey = Survey {
        topology,
        ..Survey::default()
    };
    Tables::new(&survey).unwrap()
}

fn nested() -> Vec<Array> {
    let pair = |minor, a, b| array(minor, "raid1", vec![member(0, 8, a), member(1, 8, b)]);
    let mut second = member(1, 9, 3);
    second.start = 64;
    second.sectors = 9000;
    vec![
        pair(2, 0, 16),
        pair(3, 32, 48),
        array(10, "raid0", vec![member(0, 9, 2), second]),
    ]
}

#[test]
fn an_inner_array_knows_which_member_it_is() {
    let t = tables(nested());
    let uppers: Vec<_> = t.arrays.iter().map(|a| (a.upper, a.upper_start)).collect();
    assert_eq!(uppers, [(5, 0), (6, 64), (0, 0)]);
    assert_eq!(t.members.len(), 6);
    assert!(t.notes.is_empty(), "{:?}", t.notes);
    // It is a device with members of the outer array on it and an array, both.
    let entry = |d: Dev| t.index.iter().find(|(_, e)| e.dev == d.kernel()).unwrap().1;
    let md3 = entry(dev(9, 3));
    assert_eq!((md3.array, md3.flags & DEV_INNER), (2, DEV_INNER));
    assert!(t.need.bio_based);
    let part = t.devs[usize::from(md3.index)].parts[0];
    assert_eq!((part.start, part.end, part.member), (64, 9064, 5));
}

#[test]
fn two_members_on_one_inner_array() {
    let mut arrays = nested();
    arrays[2].members[1].disk = dev(9, 2);
    arrays[2].members[1].inner = Some(dev(9, 2));
    let t = tables(arrays);
    assert_eq!(t.arrays[0].upper, 5);
    assert!(t.notes[0].contains("several members"), "{:?}", t.notes);
}

#[test]
fn a_level_without_arithmetic_has_data_of_unknown_origin() {
    let mut gone = member(1, 8, 16);
    gone.data_sectors = 0;
    let mut spare = member(2, 8, 32);
    spare.slot = None;
    let t = tables(vec![array(1, "linear", vec![member(0, 8, 0), gone, spare])]);
    let wire = t.arrays[0];
    assert_eq!(wire.flags & ARRAY_RESHAPING, ARRAY_RESHAPING);
    assert_eq!((wire.nr_boundaries, wire.geometry.array_sectors), (1, 8192));
    let data: Vec<_> = t
        .members
        .iter()
        .map(|m| (m.data_offset, m.data_sectors))
        .collect();
    assert_eq!(data, [(2048, 4096), (2048, 7952), (2048, 0)]);
    assert!(t.notes[0].contains("linear"), "{:?}", t.notes);
}
