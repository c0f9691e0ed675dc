//! Starts of allocation groups on common arrays, with the agsize that mkfs.xfs 6.1 to 7.2 choose.

use super::{AgSize, MAX_TRIES, best, member_period, starts, uneven};
use crate::address::{ArraySector, FsBlock};
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::spread::{Projection, skew};
use crate::analysis::placement::target::whole;
use crate::analysis::placement::{FsMetadata, TargetArray};
use crate::analysis::snapshot::UnevenGroups;
use crate::fs::Uuid;
use crate::fs::xfs::{XfsFeatures, XfsGeometry, XfsLayout, XfsLog};
use crate::raid::{Geometry, Level, Params};

/// Data offset of mdadm's arrays, sectors.
const DATA_OFFSET: u64 = 264_192;

fn array(level: Level, disks: u32, chunk_kib: u32, disk_bytes: u64) -> Geometry {
    let layout = match level {
        Level::Raid10 => 0x102,
        Level::Raid4 => 0,
        _ => 2,
    };
    Geometry::new(&Params {
        level,
        layout,
        disks,
        chunk_sectors: chunk_kib * 2,
        member_sectors: vec![disk_bytes / 512 - DATA_OFFSET],
    })
    .unwrap()
}

/// agsize in blocks of 4 KiB that mkfs.xfs chooses (libxfs/topology.c, `calc_default_ag_geometry`;
/// mkfs/xfs_mkfs.c, `align_ag_geometry`), except that filesystems of 64 to 512 GiB have 32 groups
/// here, and 16 from mkfs.xfs. Independent of the planner.
fn mkfs(blocks: u64, sunit: u64, swidth: u64) -> u64 {
    const TIB: u64 = 1 << 28;
    let parts = match blocks {
        b if b > 128 << 20 => 32,
        b if b > 8 << 18 => 16,
        b if b > 128 << 8 => 8,
        b if b > 64 << 8 => 4,
        _ => 2,
    };
    let mut ag = if blocks >= 32 * TIB { TIB - 1 } else { blocks.div_ceil(parts) };
    if !ag.is_multiple_of(sunit) {
        let up = ag.next_multiple_of(sunit);
        ag = if up > TIB - 1 { up - sunit } else { up };
    }
    if ag.is_multiple_of(swidth) && swidth != sunit {
        ag -= sunit;
    }
    ag
}

fn data_disks(geometry: &Geometry) -> u64 {
    let disks = u64::from(geometry.disks());
    match geometry.level() {
        Level::Raid5 | Level::Raid4 => disks - 1,
        Level::Raid6 => disks - 2,
        Level::Raid10 => disks / 2,
        _ => disks,
    }
}

/// Size of the filesystem and agsize, in sectors.
fn made(geometry: &Geometry) -> (u64, u64) {
    let blocks = geometry.array_sectors() / 8;
    let sunit = geometry.chunk_sectors().unwrap() / 8;
    let agsize = mkfs(blocks, sunit, sunit * data_disks(geometry));
    (blocks * 8, agsize * 8)
}

/// Starts by member, and their skew.
fn spread(geometry: &Geometry, agsize: u64, total: u64) -> (Vec<u64>, f64) {
    let segments = whole(ArraySector(0));
    let projection = Projection::new(geometry, &segments);
    let hits = starts(&projection, geometry.disks() as usize, agsize, total);
    let skew = skew(hits.iter().copied()).unwrap();
    (hits, skew)
}

const GB: u64 = 1_000_000_000;
/// Bytes of a disk of this many GB (IDEMA LBA1-03).
fn disk(gb: u64) -> u64 {
    (97_696_368 + 1_953_504 * (gb - 50)) * 512
}

/// The headline: with mkfs.xfs's defaults, all groups of a RAID 5 of seven 8 TB disks start on the
/// first member.
#[test]
fn seven_disks_of_8_tb() {
    let geometry = array(Level::Raid5, 7, 512, disk(8000));
    let (total, agsize) = made(&geometry);
    assert_eq!(agsize / 1024, (1 << 21) - 1);
    assert_eq!(member_period(&geometry), Some(7));
    assert_eq!(spread(&geometry, agsize, total).0, [44, 0, 0, 0, 0, 0, 0]);
    let found = best(&geometry, &whole(ArraySector(0)), agsize, total).unwrap();
    assert_eq!(found.sectors, agsize - 1024);
    assert_eq!(spread(&geometry, found.sectors, total).0, [7, 6, 6, 6, 6, 6, 7]);
}

/// An XFS of `total` sectors, as mkfs.xfs 6.1 makes it.
fn xfs(total: u64, agsize: u64) -> XfsGeometry {
    XfsGeometry {
        version: 5,
        block_size: 4096,
        sector_size: 512,
        inode_size: 512,
        blocks: total / 8,
        ag_blocks: (agsize / 8) as u32,
        ag_count: (total / agsize) as u32 + 1,
        log: XfsLog::Internal { first: FsBlock(agsize / 8 * 22 + 8), blocks: 521_728 },
        stripe_unit: 128,
        stripe_width: 768,
        inode_align: 8,
        features: XfsFeatures { finobt: true, rmapbt: false, reflink: true },
        realtime_blocks: 0,
        uuid: Uuid([7; 16]),
    }
}

fn target(geometry: Geometry) -> TargetArray {
    TargetArray {
        name: Some("md0".to_owned()),
        members: (1..=geometry.disks()).map(|i| format!("loop{i}")).collect(),
        geometry,
        options: ArrayOptions::default(),
    }
}

/// On RAID 10 each group is on two members.
#[test]
fn a_group_with_two_copies_counts_once() {
    let geometry = array(Level::Raid10, 8, 512, disk(4000));
    let (total, agsize) = made(&geometry);
    let fs = FsMetadata::from_xfs(XfsLayout::from_geometry(xfs(total, agsize)));
    let found = uneven(&fs, &whole(ArraySector(0)), &target(geometry)).unwrap();
    let groups = total.div_ceil(agsize);
    assert_eq!((found.groups, found.on_members), (groups, groups));
    assert_eq!(found.members.len(), 4);
}

/// The groups of a filesystem on such an array, and on one whose groups start on all members.
#[test]
fn groups_on_one_member() {
    let geometry = array(Level::Raid5, 7, 512, disk(8000));
    let (total, agsize) = made(&geometry);
    let on = target(geometry);
    let found = |agsize: u64| {
        let fs = FsMetadata::from_xfs(XfsLayout::from_geometry(xfs(total, agsize)));
        uneven(&fs, &whole(ArraySector(0)), &on)
    };
    assert_eq!(
        found(agsize),
        Some(UnevenGroups {
            groups: 44,
            members: vec!["loop1".to_owned()],
            on_members: 44,
            agsize_bytes: Some((agsize - 1024) * 512),
        })
    );
    assert_eq!(found(agsize - 1024), None);
}

/// Skews and members hit of common arrays with chunks of 512 KiB.
#[test]
fn common_arrays() {
    use Level::{Raid0, Raid5, Raid10};
    for (level, disks, gb, skew, hit) in [
        (Raid0, 4, 1000, 1.0, 4),
        (Raid0, 4, 4000, 2.0, 2),
        (Raid0, 8, 4000, 4.0, 2),
        (Raid0, 12, 1000, 2.2, 6),
        (Raid0, 12, 1920, 3.0, 4),
        (Raid5, 4, 3840, 4.0, 1),
        (Raid5, 5, 1000, 5.0, 1),
        (Raid5, 5, 4000, 5.0, 1),
        (Raid5, 6, 1000, 6.0, 1),
        (Raid5, 6, 4000, 2.1, 3),
        (Raid5, 7, 8000, 7.0, 1),
        (Raid5, 7, 16_000, 7.0, 1),
        (Raid5, 8, 3840, 8.0, 1),
        (Raid5, 8, 8000, 2.0, 4),
        (Raid5, 12, 960, 6.0, 2),
        (Raid10, 8, 4000, 2.0, 4),
        (Raid10, 12, 4000, 3.0, 4),
    ] {
        let geometry = array(level, disks, 512, disk(gb));
        let (total, agsize) = made(&geometry);
        let (hits, found) = spread(&geometry, agsize, total);
        let name = format!("{level} of {disks} x {gb} GB: {hits:?}");
        assert!((found - skew).abs() < 0.06, "{name}: {found}");
        assert_eq!(hits.iter().filter(|&&n| n > 0).count(), hit, "{name}");
    }
}

/// Common sizes of disks, GB.
const DISKS: [u64; 19] = [
    240, 480, 960, 1000, 1920, 2000, 3000, 3840, 4000, 6000, 7680, 8000, 10_000, 12_000, 14_000,
    16_000, 18_000, 20_000, 22_000,
];

/// The suggested agsize is even on every array, and little smaller than mkfs.xfs's own.
#[test]
fn suggestions_are_even() {
    for (level, disks, less, most) in [
        (Level::Raid0, 2..=24, 3, 1.051),
        (Level::Raid4, 3..=24, 3, 1.051),
        (Level::Raid5, 3..=24, 3, 1.051),
        (Level::Raid10, 4..=24, 3, 1.051),
        (Level::Raid6, 4..=24, MAX_TRIES, 1.2),
    ] {
        for disks in disks {
            for chunk_kib in [64, 128, 256, 512, 1024] {
                for gb in DISKS {
                    let geometry = array(level, disks, chunk_kib, disk(gb));
                    let (total, agsize) = made(&geometry);
                    let found = best(&geometry, &whole(ArraySector(0)), agsize, total).unwrap();
                    let AgSize { sectors, skew, .. } = found;
                    let chunk = geometry.chunk_sectors().unwrap();
                    let name = format!("{level} of {disks} x {gb} GB, {chunk_kib} KiB");
                    let (hits, again) = spread(&geometry, sectors, total);
                    assert_eq!(skew, again, "{name}");
                    let (n, sum) = (hits.len() as u64, hits.iter().sum::<u64>());
                    let holders = n - u64::from(level == Level::Raid4);
                    let ideal = (sum.div_ceil(holders) * n) as f64 / sum as f64;
                    assert!(skew <= ideal * most, "{name}: {skew} of {ideal}");
                    assert!(sectors.is_multiple_of(chunk) && sectors <= agsize, "{name}");
                    // Near copies on an odd number of disks overlap.
                    let odd = level == Level::Raid10 && disks % 2 == 1;
                    let chunks = (agsize - sectors) / chunk;
                    assert!(chunks <= less || odd, "{name}: {chunks} chunks");
                }
            }
        }
    }
}

#[test]
fn periods() {
    for (level, disks, period) in [
        (Level::Raid0, 12, 12),
        (Level::Raid4, 5, 4),
        (Level::Raid5, 7, 7),
        (Level::Raid6, 6, 24),
        (Level::Raid10, 8, 4),
        (Level::Raid10, 5, 5),
    ] {
        let geometry = array(level, disks, 64, 1000 * GB);
        assert_eq!(member_period(&geometry), Some(period), "{level} of {disks}");
    }
    let mirror = array(Level::Raid1, 2, 0, 1000 * GB);
    assert_eq!(member_period(&mirror), None);
    assert_eq!(best(&mirror, &whole(ArraySector(0)), 1 << 30, 1 << 34), None);
}
