//! Arrays of device mapper's raid target (LVM RAID).

use proptest::prelude::*;

use super::tree::{Tree, segments};
use crate::address::{DiskSector, MemberSector};
use crate::machine::dm::raid_volume;
use crate::machine::dm_raid::{DmRaid, DmRaidStatus};
use crate::machine::{ArrayState, Dev, HostError, MetadataDevice};

/// Three slots; the metadata of the last one are on another disk than its data.
const RAID5: &str = "
    disk sda 8:0 2000000 queue/iostats=1
    disk sdb 8:16 2000000 queue/iostats=1
    disk sdc 8:32 2000000 queue/iostats=1
    disk sdd 8:48 2000000 queue/iostats=1
    dm dm-0 253:0 8192 name=vg-lv_rmeta_0 uuid=LVM-m0 slaves=sda
    dm dm-1 253:1 100000 name=vg-lv_rimage_0 uuid=LVM-i0 slaves=sda
    dm dm-2 253:2 8192 name=vg-lv_rmeta_1 uuid=LVM-m1 slaves=sdb
    dm dm-3 253:3 100000 name=vg-lv_rimage_1 uuid=LVM-i1 slaves=sdb
    dm dm-4 253:4 8192 name=vg-lv_rmeta_2 uuid=LVM-m2 slaves=sdd
    dm dm-5 253:5 100000 name=vg-lv_rimage_2 uuid=LVM-i2 slaves=sdc
    dm dm-6 253:6 200000 name=vg-lv uuid=LVM-l slaves=dm-0,dm-1,dm-2,dm-3,dm-4,dm-5
    target 253:0 0 8192 linear 8:0 2048
    target 253:1 0 100000 linear 8:0 10240
    target 253:2 0 8192 linear 8:16 500000
    target 253:3 0 100000 linear 8:16 2048
    target 253:4 0 8192 linear 8:48 2048
    target 253:5 0 100000 linear 8:32 2048
    target 253:6 0 200000 raid raid5_ls 3 128 region_size 4096 3 253:0 253:1 253:2 253:3 253:4 253:5
    status 253:6 raid5_ls 3 AaD 4096/100000 recover 0 0 -
    mount 253:6 /srv ext4 /dev/mapper/vg-lv rw";

#[test]
fn a_volume_is_an_array_of_its_disks() {
    let mut tree = Tree::new(RAID5);
    for target in ["/srv", "dm-6", "vg-lv", "sda"] {
        assert_eq!(tree.names(&[target]).as_deref(), Ok("dm-6"), "{target}");
    }
    let topology = tree.resolve(&[]).unwrap();
    let array = &topology.arrays[0];
    assert_eq!((array.level.as_str(), array.layout, array.chunk_sectors), ("raid5", 2, 128));
    assert_eq!((array.raid_disks, array.component_sectors), (3, 100_000));
    assert_eq!(array.mapper_name.as_deref(), Some("vg-lv"));
    assert_eq!(segments(&array.filesystems[0].segments), [(0, 0, 200_000)]);
    assert_eq!(array.filesystems[0].stack, ["LVM vg-lv"]);
    let members: Vec<_> = (array.members.iter())
        .map(|m| (m.name.as_str(), m.slot, m.start.0, m.state[0].as_str()))
        .collect();
    let expected = [
        ("sda", Some(0), 10_240, "in_sync"),
        ("sdb", Some(1), 2048, "spare"),
        ("sdc", Some(2), 2048, "faulty"),
    ];
    assert_eq!(members, expected);
    let metadata: Vec<_> = array.members.iter().map(|m| m.metadata_device).collect();
    let at = |minor, sector| {
        let dev = Dev { major: 253, minor };
        Some(MetadataDevice { dev, start: DiskSector(sector), sectors: 8192 })
    };
    assert_eq!(metadata, [at(0, 2048), at(2, 500_000), None]);
    assert_eq!(array.members[0].sb_offset, Some(MemberSector(100_000)));
    assert_eq!(array.members[0].bitmap, Some((MemberSector(100_008), 8184)));
    assert!(topology.notes.iter().any(|n| n.contains("dm-4")), "{:?}", topology.notes);

    let array = array.clone();
    let state = ArrayState::read(&tree.sys(), &array).unwrap();
    let target = "raid5_ls 3".to_owned();
    assert_eq!(state, ArrayState { target, ..ArrayState::from_array(&array) });
    assert_eq!(state.health().as_deref(), Some("degraded by 2, recover 4.1 %"));
    tree.add("status 253:6 raid5_ls 3 aaa 1000/100000 resync 0 0 -");
    let state = ArrayState::read(&tree.sys(), &array).unwrap();
    assert_eq!(state.health().as_deref(), Some("resync 1.0 %"));
    assert!(state.members.iter().all(|m| m.health().is_none()), "{state:?}");
    tree.add("status 253:6 raid5_ls 3 AAA 100000/100000 idle 0 0 -");
    assert_eq!(ArrayState::read(&tree.sys(), &array).unwrap().health(), None);
    let gone = Tree::new("dm dm-6 253:6 200000 name=vg-lv uuid=LVM-l slaves=");
    assert_eq!(ArrayState::read(&gone.sys(), &array), Err(HostError::Stopped("dm-6".into())));
}

/// `lvextend` after another volume took the space behind the image, three more times, and with the
/// space of another disk.
#[test]
fn images_in_pieces() {
    let raid1 = |first_image: &str| {
        Tree::new(&format!(
            "disk sda 8:0 2000000 queue/iostats=1
            disk sdb 8:16 2000000 queue/iostats=1
            dm dm-0 253:0 8192 name=vg-lv_rmeta_0 uuid=LVM-m0 slaves=sda
            dm dm-1 253:1 100000 name=vg-lv_rimage_0 uuid=LVM-i0 slaves=sda
            dm dm-2 253:2 8192 name=vg-lv_rmeta_1 uuid=LVM-m1 slaves=sdb
            dm dm-3 253:3 100000 name=vg-lv_rimage_1 uuid=LVM-i1 slaves=sdb
            dm dm-4 253:4 100000 name=vg-lv uuid=LVM-l slaves=dm-0,dm-1,dm-2,dm-3
            target 253:0 0 8192 linear 8:0 2048
            target 253:2 0 8192 linear 8:16 2048
            target 253:3 0 100000 linear 8:16 10240
            {first_image}
            target 253:4 0 100000 raid raid1 1 0 2 253:0 253:1 253:2 253:3
            status 253:4 raid1 2 AA 100000/100000 idle 0 0 -
            mount 253:4 /srv ext4 /dev/mapper/vg-lv rw"
        ))
    };
    let image = |pieces: &[(u64, u64, &str, u64)]| {
        let target = |(from, sectors, disk, at): &(u64, u64, &str, u64)| {
            format!("target 253:1 {from} {sectors} linear {disk} {at}\n")
        };
        pieces.iter().map(target).collect::<String>()
    };
    let two = image(&[(0, 60_000, "8:0", 10_240), (60_000, 40_000, "8:0", 500_000)]);
    let array = raid1(&two).array();
    assert_eq!(raid_volume(&array).as_deref(), Some("vg/lv"));
    let member = &array.members[0];
    assert_eq!((member.name.as_str(), member.mapped), ("sda", true));
    let pieces: Vec<_> = member.pieces().map(|p| (p.sector.0, p.start.0, p.sectors)).collect();
    // The metadata device follows the data.
    assert_eq!(pieces, [(0, 10_240, 60_000), (60_000, 500_000, 40_000), (100_000, 2048, 8192)]);
    let at = |sector| member.pieces().find_map(|p| p.member_sector(DiskSector(sector)));
    let found = [2047, 10_240, 70_239, 70_240, 500_000, 539_999, 540_000, 2048].map(at);
    let expected =
        [None, Some(0), Some(59_999), None, Some(60_000), Some(99_999), None, Some(100_000)];
    assert_eq!(found, expected.map(|sector| sector.map(MemberSector)));

    let fifth = |n: u64| (n * 20_000, 20_000, "8:0", 100_000 + n * 50_000);
    for (case, pieces) in [
        ("too many", image(&[0, 1, 2, 3, 4].map(fifth))),
        ("two disks", image(&[(0, 60_000, "8:0", 10_240), (60_000, 40_000, "8:16", 500_000)])),
    ] {
        let topology = raid1(&pieces).resolve(&[]).unwrap();
        let member = &topology.arrays[0].members[0];
        assert_eq!((member.disk, member.later_pieces.len()), (member.dev, 0), "{case}");
        assert!(topology.notes.iter().any(|n| n.contains("dm-1")), "{case}: {:?}", topology.notes);
    }
}

#[test]
fn tables_of_all_types() {
    for (params, slots, level) in [
        ("raid0 1 128 2 - 253:1 - 253:3", 2, ("raid0", 0)),
        ("raid1 4 0 nosync region_size 1024 2 253:0 253:1 - -", 2, ("raid1", 0)),
        ("raid4 1 128 3 - 1:1 - 1:2 - 1:3", 3, ("raid5", 4)),
        ("raid5_n 1 128 3 - 1:1 - 1:2 - 1:3", 3, ("raid5", 5)),
        ("raid6_zr 3 128 rebuild 1 4 - 1:1 - 1:2 - 1:3 - 1:4", 4, ("raid6", 8)),
        ("raid6_rs_6 1 128 4 - 1:1 - 1:2 - 1:3 - 1:4", 4, ("raid6", 19)),
        ("raid10 3 128 raid10_copies 3 3 - 1:1 - 1:2 - 1:3", 3, ("raid10", 3 | 1 << 8)),
        ("raid10 3 128 raid10_format far 2 - 1:1 - 1:2", 2, ("raid10", 1 | 2 << 8 | 1 << 17)),
        ("raid10_offset 1 128 2 - 1:1 - 1:2", 2, ("raid10", 1 | 2 << 8 | 1 << 16 | 1 << 17)),
    ] {
        let raid = DmRaid::parse(params).unwrap_or_else(|| panic!("{params}"));
        assert_eq!((raid.slots.len(), raid.level_and_layout()), (slots, Some(level)), "{params}");
    }
    let mostly = DmRaid::parse("raid1 5 0 write_mostly 1 region_size 8 2 - 1:1 - 1:2").unwrap();
    assert_eq!(mostly.write_mostly, [1]);
    let sectors = |params| DmRaid::parse(params).unwrap().sectors_of_device(1200);
    assert_eq!(sectors("raid6_nr 1 8 4 - 1:1 - 1:2 - 1:3 - 1:4"), 600);
    assert_eq!(sectors("raid10 1 8 4 - 1:1 - 1:2 - 1:3 - 1:4"), 600);
    assert_eq!(sectors("raid0 1 8 4 - 1:1 - 1:2 - 1:3 - 1:4"), 300);
    for wrong in ["", "raid1", "raid1 9 0 2 - -", "raid1 1 0 3 - 1:1", "raid1 1 0 1 x 1:1"] {
        assert_eq!(DmRaid::parse(wrong), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_table_panics(params in "[a-z0-9_: -]{0,80}", count in 0_u64..) {
        if let Some(raid) = DmRaid::parse(&params) {
            let _ = (raid.level_and_layout(), raid.sectors_of_device(count));
        }
        if let Some(status) = DmRaidStatus::parse(&params) {
            let _ = (status.degraded("raid1"), status.words(u32::MAX), status.sync_completed());
        }
    }
}
