//! Volumes in a container (IMSM, DDF): ranges of the disks that they share.

use super::tree::Tree;
use crate::machine::{Array, differences, resolve_again};

/// Four disks of 512 MiB in a DDF container, with a RAID 10 and a RAID 5. The values of sysfs are
/// those of mdadm 4.2.
fn ddf() -> Tree {
    let mut tree = Tree::new(
        "md md127 9:127 0 array_state=inactive metadata_version=external:ddf
        md md121 9:121 409600 level=raid10 layout=258 chunk_size=524288 raid_disks=4 \
         component_size=102400 array_state=clean metadata_version=external:/md127/0
        md md122 9:122 614400 level=raid5 layout=2 chunk_size=524288 raid_disks=4 \
         component_size=102400 array_state=clean metadata_version=external:-md127/1
        mount 9:121 /a ext4 /dev/md121 rw
        mount 9:122 /b ext4 /dev/md122 rw",
    );
    for n in 0..4 {
        tree.add(&format!(
            "disk loop{n} 7:{n} 1048576
            member md127 loop{n} slot=none state=spare offset=983040 size=32768
            member md121 loop{n} slot={n} state=in_sync offset=0 size=102400
            member md122 loop{n} slot={n} state=in_sync offset=204800 size=102400"
        ));
    }
    tree
}

/// First sector, sectors, first data sector and metadata area of the first member.
fn range(array: &Array) -> (u64, u64, u64, Option<(u64, u64)>) {
    let m = &array.members[0];
    let metadata = m.sb_offset.map(|at| (at.0, m.sb_sectors));
    (m.start.0, m.sectors, m.data_offset.0, metadata)
}

#[test]
fn volumes_are_ranges_of_their_disks() {
    let mut tree = ddf();
    let topology = tree.resolve(&[]).unwrap();
    let [first, second] = &topology.arrays[..] else { panic!() };
    assert_eq!(range(first), (0, 204_800, 0, None));
    assert_eq!(range(second), (204_800, 843_776, 0, Some((778_240, 65_536))));
    assert!(topology.arrays.iter().all(|a| a.members.iter().all(|m| m.other_volumes == 1)));
    assert_eq!(topology.notes, Vec::<String>::new());
    // The other volume's range is not a part of a volume that is traced alone.
    let alone = tree.resolve(&["md121"]).unwrap();
    assert_eq!(
        (range(&alone.arrays[0]), alone.arrays[0].members[0].other_volumes),
        (range(first), 1)
    );
    // A third volume, on one of the disks.
    tree.add(
        "md md123 9:123 100 level=raid0 raid_disks=1 array_state=clean \
         metadata_version=external:/md127/2
        member md123 loop0 slot=0 state=in_sync offset=409600 size=100",
    );
    let topology = tree.resolve(&["md122", "md123"]).unwrap();
    let [second, third] = &topology.arrays[..] else { panic!() };
    assert_eq!(range(second), (204_800, 204_800, 0, None));
    assert_eq!(second.members[1].sectors, 843_776);
    assert_eq!(range(third), (409_600, 638_976, 0, Some((573_440, 65_536))));
}

/// A new volume takes its range from the one before it.
#[test]
fn a_new_volume_changes_the_others() {
    let mut tree = ddf();
    let then = tree.resolve(&["md122"]).unwrap();
    tree.add(
        "md md123 9:123 100 level=raid0 raid_disks=1 array_state=clean \
         metadata_version=external:/md127/2
        member md123 loop0 slot=0 state=in_sync offset=409600 size=100",
    );
    let now = resolve_again(&["md122".to_owned()], &then, &tree.sys(), false).unwrap();
    assert_eq!(differences(&then, &now), ["md122: loop0 with another layout or queue"]);
}

#[test]
fn a_volume_without_its_container() {
    let tree = Tree::new(
        "md md121 9:121 100 level=raid1 raid_disks=1 array_state=clean \
         metadata_version=external:/md127/0
        disk sda 8:0 5000
        member md121 sda slot=0 state=in_sync offset=1000 size=500",
    );
    let topology = tree.resolve(&["md121"]).unwrap();
    assert_eq!(range(&topology.arrays[0]), (0, 5000, 1000, None));
    assert!(topology.notes[0].contains("counts as raw"), "{:?}", topology.notes);
}

/// IMSM keeps a partial parity log or a write-intent bitmap behind the data of each volume.
#[test]
fn logs_and_bitmaps_at_absolute_sectors() {
    let mut tree = Tree::new(
        "md md126 9:126 0 array_state=inactive metadata_version=external:imsm
        md md123 9:123 262144 level=raid5 raid_disks=1 component_size=65536 chunk_size=65536 \
         array_state=clean metadata_version=external:/md126/0
        md md124 9:124 131072 level=raid1 raid_disks=1 component_size=65536 array_state=clean \
         metadata_version=external:/md126/1
        disk sda 8:0 614400
        member md126 sda slot=none state=spare,external_bbl offset=612190 size=1105
        member md123 sda slot=0 state=in_sync offset=141312 size=65536 ppl_sector=272384 \
         ppl_size=2048
        member md124 sda slot=0 state=in_sync offset=4096 size=65536",
    );
    tree.add(
        "file sys/block/md124/md/bitmap/location +135192
        file sys/block/md124/md/bitmap/metadata external
        file sys/block/md124/md/bitmap/chunksize 67108864",
    );
    let topology = tree.resolve(&["md123", "md124"]).unwrap();
    let [second, first] = &topology.arrays[..] else { panic!() };
    assert_eq!(range(first), (0, 141_312, 4096, None));
    assert_eq!(range(second), (141_312, 473_088, 0, Some((470_878, 2210))));
    let area = |area: Option<(crate::address::MemberSector, u64)>| area.map(|(at, n)| (at.0, n));
    assert_eq!(area(first.members[0].bitmap), Some((135_184, 16)));
    assert_eq!(
        (area(second.members[0].ppl), area(second.members[0].bitmap)),
        (Some((131_072, 2048)), None)
    );
}
