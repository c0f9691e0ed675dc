use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;

use super::{Lane, MemberLoad, RequestPiece, Side};
use crate::address::{ArraySector, FsSector};
use crate::analysis::placement::{BlockGroups, FsMetadata, Groups};
use crate::fs::SectorRange;
use crate::fs::xfs::{XfsGeometry, XfsLayout};
use crate::machine::mkfs_xfs::{MkfsDevice, XfsOptions};
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::{Op, Origin};
use crate::raid::{Geometry, Level, Params};

/// 64 GiB.
const BYTES: u64 = 64 << 30;
const SECTORS: u64 = BYTES / 512;

fn options(group: Option<u32>, flex: Option<u32>, packed: bool) -> Options {
    Options {
        group,
        flex,
        extended: if packed { vec!["packed_meta_blocks=1".to_owned()] } else { Vec::new() },
        ..Options::default()
    }
}

fn ext4(options: &Options, bytes: u64) -> FsMetadata {
    FsMetadata::new(plan(bytes, 512 << 10, options, &Conf::compiled_in()).unwrap())
}

fn side(fs: &FsMetadata) -> Side {
    Side::new(fs).unwrap()
}

/// An XFS of 64 GiB. mkfs.xfs is asked once for each of the few options.
fn xfs(options: &str) -> FsMetadata {
    static MADE: Mutex<BTreeMap<String, XfsGeometry>> = Mutex::new(BTreeMap::new());
    let device = MkfsDevice { bytes: BYTES, chunk: 512 << 10, disks: 7, sector: 512 };
    let plan = || XfsOptions::parse(options).unwrap().plan(device).unwrap();
    let geometry = MADE.lock().unwrap().entry(options.to_owned()).or_insert_with(plan).clone();
    FsMetadata::from_xfs(XfsLayout::from_geometry(geometry))
}

/// ext4 with options that differ in every way the translation depends on, of several sizes.
fn any_ext4() -> impl Strategy<Value = FsMetadata> {
    let group = prop::option::of(prop_oneof![Just(32744), Just(8192), Just(32752)]);
    let flex = prop::option::of(prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(64)]);
    let block_size = prop_oneof![Just(None), Just(Some(1024))];
    let made = (group, flex, any::<bool>(), block_size, 20_u64..90);
    made.prop_map(|(group, flex, packed, block_size, gib)| {
        let group = group.filter(|_| block_size.is_none());
        ext4(&Options { block_size, ..options(group, flex, packed) }, gib << 30)
    })
}

fn any_xfs() -> impl Strategy<Value = FsMetadata> {
    let sizes = vec!["", "-d agcount=11", "-d agcount=29", "-d noalign", "-d agcount=16"];
    let logs =
        vec!["", "-l agnum=0,size=128m", "-l size=64m", "-l agnum=3", "-l logdev=x,size=64m"];
    let made = (prop::sample::select(sizes), prop::sample::select(logs));
    made.prop_map(|(size, log)| xfs(&format!("{size} {log}")))
}

/// Origin of a sector; `FileData` if the sector has no fixed purpose.
fn kind(fs: &FsMetadata, sector: u64) -> Origin {
    let after = fs.ranges.partition_point(|r| r.first.0 <= sector);
    let range = after.checked_sub(1).map(|i| fs.ranges[i]);
    range.filter(|r| sector < r.end().0).map_or(Origin::FileData, |r| r.origin)
}

fn keeps_every_sector(fs: &FsMetadata, sectors: Vec<u64>, turn: u64) {
    let side = side(fs);
    // The boot block belongs to no group.
    for sector in sectors.into_iter().filter(|s| (2..fs.bytes() / 512).contains(s)) {
        let (place, run) = side.place(&side, sector, turn);
        assert_eq!(place, Some(sector));
        assert!(run > 0);
    }
}

fn keeps_kinds(today: &FsMetadata, then: &FsMetadata, sectors: Vec<u64>, turn: u64) {
    let sides = [today, then].map(side);
    for sector in sectors.into_iter().filter(|s| *s < today.bytes() / 512) {
        let (place, run) = sides[0].place(&sides[1], sector, turn);
        let Some(at) = place else {
            assert!(then.ranges.iter().all(|r| r.origin != kind(today, sector)));
            continue;
        };
        assert!(run > 0 && at + run <= then.bytes() / 512, "{sector} to {at}, {run}");
        // The whole run is of the same kind in both.
        let kinds = [(today, sector), (today, sector + run - 1), (then, at), (then, at + run - 1)];
        let kinds = kinds.map(|(fs, sector)| kind(fs, sector));
        assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{sector} to {at}: {kinds:?}");
    }
}

/// Sectors everywhere, and some near the start of groups of 1 GiB and less.
fn any_sectors() -> impl Strategy<Value = Vec<u64>> {
    let near = (0_u64..512, 0_u64..20_000).prop_map(|(group, at)| group * 32744 * 8 + at);
    prop::collection::vec(prop_oneof![0..SECTORS, near], 200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_same_filesystem_keeps_every_sector(
        ext4 in any_ext4(),
        xfs in any_xfs(),
        sectors in any_sectors(),
        turn in any::<u64>(),
    ) {
        keeps_every_sector(&ext4, sectors.clone(), turn);
        keeps_every_sector(&xfs, sectors, turn);
    }

    #[test]
    fn structures_stay_structures_and_data_stay_data(
        ext4 in [any_ext4(), any_ext4()],
        xfs in [any_xfs(), any_xfs()],
        sectors in any_sectors(),
        turn in any::<u64>(),
    ) {
        keeps_kinds(&ext4[0], &ext4[1], sectors.clone(), turn);
        keeps_kinds(&xfs[0], &xfs[1], sectors, turn);
    }

    /// Every planned group has a share of today's, whatever their numbers.
    #[test]
    fn all_planned_groups_are_in_use(xfs in [any_xfs(), any_xfs()]) {
        let sides = [side(&xfs[0]), side(&xfs[1])];
        let groups = [&xfs[0], &xfs[1]].map(|fs| fs.allocation_groups().unwrap());
        let mut hit = vec![false; groups[1].count as usize];
        for group in 0..u64::from(groups[0].count) {
            for turn in 0..64 {
                // The first sector of the AGF.
                let (at, _) = sides[0].place(&sides[1], group * groups[0].sectors + 1, turn);
                hit[(at.unwrap() / groups[1].sectors) as usize] = true;
            }
        }
        prop_assert!(hit.iter().all(|h| *h), "{:?}", hit);
    }

    /// Bytes on the members are those that the geometry has there.
    #[test]
    fn writes_reach_every_copy(
        sector in 0_u64..1 << 24,
        sectors in 1_u64..5000,
        level in prop_oneof![Just(Level::Raid0), Just(Level::Raid10), Just(Level::Raid1)],
    ) {
        let geometry = geometry(level, 6, 64);
        let mut want = vec![0; 6];
        for at in sector..sector + sectors {
            for (slot, _) in geometry.copies(ArraySector(at)) {
                want[slot as usize] += 512;
            }
        }
        let members = laid(&geometry, &[&[data(Op::Write, sector, sectors)]]);
        prop_assert_eq!(members.iter().map(MemberLoad::bytes).collect::<Vec<_>>(), want);
    }

    #[test]
    fn no_filesystem_of_a_header_panics(
        blocks in any::<u64>(),
        block_shift in 10_u32..17,
        first_block in 0_u32..2,
        groups in 1_u32..5000,
        per_group in any::<u32>(),
        per_flex in any::<u32>(),
        table_blocks in any::<u32>(),
        sectors in [any::<u64>(), any::<u64>()],
        ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..8),
    ) {
        let mut fs = ext4(&Options::default(), BYTES);
        fs.block_size = 1 << block_shift;
        fs.blocks = if blocks % 2 == 0 {
            blocks % (1 << 53)
        } else {
            u64::from(groups) * u64::from(per_group)
        };
        fs.groups = Some(Groups::Block(BlockGroups {
            count: groups,
            first_block,
            blocks: per_group,
            per_flex,
            table_blocks,
        }));
        let kinds = [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable, Origin::Journal];
        let ranges = ranges.into_iter().zip(kinds.into_iter().cycle());
        let range = |((first, count), origin)| {
            SectorRange { first: FsSector(first), count, origin }
        };
        fs.ranges = ranges.map(range).collect();
        if let Ok(today) = Side::new(&fs) {
            let then = side(&ext4(&Options::default(), BYTES));
            for [from, to] in [[&today, &then], [&then, &today]] {
                for sector in sectors {
                    prop_assert!(from.place(to, sector, sector).1 > 0);
                    prop_assert!(from.place(to, sector % SECTORS, sector).1 > 0);
                }
            }
        }
    }
}

#[test]
fn incomplete_filesystems_are_refused() {
    let refused = |change: fn(&mut FsMetadata)| {
        let mut fs = ext4(&Options::default(), BYTES);
        change(&mut fs);
        Side::new(&fs).unwrap_err()
    };
    assert!(refused(|fs| fs.groups = None).contains("no known groups"));
    assert!(refused(|fs| fs.blocks *= 2).contains("do not make"));
    assert!(refused(|fs| fs.ranges.truncate(20)).contains("sectors of"));
}

/// First sector of the structures of a group, or of its free sectors.
fn first(fs: &FsMetadata, of: Origin, group: u64) -> u64 {
    let (groups, size) = (fs.block_groups().unwrap(), fs.block_sectors());
    let ranges = fs.ranges.iter().filter(|r| r.origin == of);
    let mut sectors = ranges.flat_map(|r| (r.first.0..r.end().0).step_by(size as usize));
    match of {
        Origin::FileData => (group * u64::from(groups.blocks) * size..)
            .find(|sector| kind(fs, *sector) == Origin::FileData)
            .unwrap(),
        _ => sectors.nth(group as usize).unwrap(),
    }
}

#[test]
fn a_block_keeps_its_group_and_its_offset() {
    // Flex groups of 16 and of 4: a quarter of the requests of one goes to each of four.
    let fs = [None, Some(4)].map(|flex| ext4(&options(None, flex, false), BYTES));
    let sides = [side(&fs[0]), side(&fs[1])];
    let place = |sector, turn| sides[0].place(&sides[1], sector, turn).0.unwrap();
    for (turn, group) in [(0, 8 * 16), (16, 8 * 16 + 4), (63, 8 * 16 + 12)] {
        for kind in [Origin::BlockBitmap, Origin::InodeBitmap, Origin::FileData] {
            let today = first(&fs[0], kind, 8 * 16);
            assert_eq!(place(today, turn), first(&fs[1], kind, group), "{kind} {turn}");
            // The second group of the flex group, in which ext4 begins with regular files.
            let today = first(&fs[0], kind, 8 * 16 + 1);
            assert_eq!(place(today, turn), first(&fs[1], kind, group + 1), "{kind} {turn}");
        }
    }
    let journal =
        |fs: &FsMetadata| fs.ranges.iter().find(|r| r.origin == Origin::Journal).unwrap().first.0;
    assert_eq!(place(journal(&fs[0]) + 800, 5), journal(&fs[1]) + 800);
}

fn geometry(level: Level, disks: u32, chunk_sectors: u32) -> Geometry {
    let layout = match level {
        Level::Raid10 => 0x102,
        Level::Raid5 | Level::Raid6 => 2,
        _ => 0,
    };
    let member_sectors = vec![1 << 30];
    Geometry::new(&Params { level, layout, disks, chunk_sectors, member_sectors }).unwrap()
}

fn data(op: Op, sector: u64, sectors: u64) -> RequestPiece {
    RequestPiece { op, origin: Origin::FileData, sector, sectors, parity: None, is_request: true }
}

/// A filesystem without structures.
fn plain() -> Side {
    let mut fs = xfs("-d agcount=11");
    fs.ranges.clear();
    side(&fs)
}

/// Members after requests of these pieces.
fn laid(geometry: &Geometry, requests: &[&[RequestPiece]]) -> Vec<MemberLoad> {
    let side = plain();
    let mut lane = Lane::new(&side, &side, geometry, 0);
    for pieces in requests {
        lane.begin(100);
        pieces.iter().for_each(|piece| assert_eq!(lane.add(*piece), 0));
    }
    lane.members
}

fn requests(members: &[MemberLoad], op: Op) -> Vec<u64> {
    members.iter().map(|member| member.requests(op)).collect()
}

#[test]
fn parity_and_pre_reads_are_in_the_stripe_of_the_data() {
    let piece = |origin, op, parity| RequestPiece { origin, parity, ..data(op, 0, 8) };
    // Parity, the read of parity, the read of the block after it.
    let pieces = [
        piece(Origin::Parity, Op::Write, Some(0)),
        piece(Origin::RmwRead, Op::Read, Some(0)),
        piece(Origin::RmwRead, Op::Read, Some(1)),
    ];
    for stripe in 0..8 {
        let moved = pieces.map(|piece| RequestPiece { sector: stripe * 3 * 64, ..piece });
        let raid5 = geometry(Level::Raid5, 4, 64);
        let members = laid(&raid5, &[&moved[..1], &moved[1..2], &moved[2..]]);
        let p = raid5.parity(ArraySector(stripe * 3 * 64)).unwrap().p as usize;
        let bytes: Vec<u64> = members.iter().map(MemberLoad::bytes).collect();
        let want = |slot: usize| match (slot + 4 - p) % 4 {
            0 => 8192,
            1 => 4096,
            _ => 0,
        };
        assert_eq!(bytes, (0..4).map(want).collect::<Vec<u64>>());
    }
    // Q is written and read like P; other levels have no parity.
    let bytes = |level| -> u64 {
        let members = laid(&geometry(level, 4, 64), &[&pieces[..1], &pieces[1..2], &pieces[2..]]);
        members.iter().map(MemberLoad::bytes).sum()
    };
    assert_eq!(bytes(Level::Raid6), 5 * 4096);
    assert_eq!(bytes(Level::Raid0), 0);
}

#[test]
fn a_request_remains_one_where_its_chunks_follow_each_other() {
    // Chunks 0 and 4 follow each other on the first of 4 members.
    let row = [data(Op::Write, 0, 1024), data(Op::Write, 4 * 1024, 1024)];
    let raid0 = geometry(Level::Raid0, 4, 1024);
    let members = laid(&raid0, &[&row]);
    assert_eq!(requests(&members, Op::Write), [1, 0, 0, 0]);
    // Its device time counts once.
    assert_eq!(members[0].device_us, 100);
    // A part has the origin of a later bio of the request.
    let part =
        RequestPiece { origin: Origin::Directory, is_request: false, ..data(Op::Write, 8, 8) };
    let members = laid(&raid0, &[&[data(Op::Write, 0, 8), part]]);
    assert_eq!(members[0].sum((Origin::Directory, Op::Write)).requests, 0);
    assert_eq!(members[0].sum((Origin::Directory, Op::Write)).bytes, 4096);
    assert_eq!(requests(&members, Op::Write), [1, 0, 0, 0]);
    // Other chunks, other members: one on each.
    let members = laid(&geometry(Level::Raid0, 5, 1024), &[&row]);
    assert_eq!(requests(&members, Op::Write), [1, 0, 0, 0, 1]);
    let members = laid(&geometry(Level::Raid0, 4, 512), &[&row[..1]]);
    assert_eq!(requests(&members, Op::Write), [1, 1, 0, 0]);
}

#[test]
fn mirrors_share_the_reads() {
    let read = [data(Op::Read, 0, 8)];
    let members = laid(&geometry(Level::Raid10, 4, 1024), &[&read[..]; 100]);
    assert_eq!(requests(&members, Op::Read), [50, 50, 0, 0]);
}

#[test]
fn what_has_no_place_is_counted() {
    let plain = plain();
    let small = Geometry::new(&Params {
        level: Level::Raid0,
        layout: 0,
        disks: 4,
        chunk_sectors: 64,
        member_sectors: vec![1 << 20],
    })
    .unwrap();
    let mut lane = Lane::new(&plain, &plain, &small, 0);
    let end = small.array_sectors();
    assert_eq!(lane.add(data(Op::Write, end - 8, 16)), 8 * 512);
    assert_eq!(lane.members.iter().map(MemberLoad::bytes).sum::<u64>(), 8 * 512);
    // The planned log is on another device.
    let all = ["", "-l logdev=x,size=64m"].map(xfs);
    let log = all[0].ranges.iter().find(|r| r.origin == Origin::Journal).unwrap().first.0;
    let [today, then] = [side(&all[0]), side(&all[1])];
    let geometry = geometry(Level::Raid0, 4, 64);
    let mut lane = Lane::new(&today, &then, &geometry, 0);
    assert_eq!(lane.add(RequestPiece { origin: Origin::Journal, ..data(Op::Write, log, 8) }), 4096);
}
