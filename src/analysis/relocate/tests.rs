use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;

use super::figures::CLASSES;
use super::groups::GroupTranslation;
use super::sharing::Sharing;
use super::translate::Translation;
use super::{Bio, Direction, Disks, Figures, Groups, Service, Side};
use crate::address::ArraySector;
use crate::analysis::placement::{FIXED, Filesystem};
use crate::fs::xfs;
use crate::machine::mkfs_xfs;
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::Origin;
use crate::raid::{Geometry, Level, Params};

/// 64 GiB.
const BYTES: u64 = 64 << 30;

fn options(group: Option<u32>, flex: Option<u32>, packed: bool) -> Options {
    Options {
        group,
        flex,
        extended: if packed { vec!["packed_meta_blocks=1".to_owned()] } else { Vec::new() },
        ..Options::default()
    }
}

fn planned(options: &Options, bytes: u64) -> Filesystem {
    Filesystem::new(plan(bytes, 512 << 10, options, &Conf::compiled_in()).unwrap())
}

fn side(options: &Options, bytes: u64, stripe: u64) -> Side {
    let side = Side::new(&planned(options, bytes), stripe).unwrap();
    side.check().unwrap();
    side
}

/// An XFS of 64 GiB. mkfs.xfs is asked once for each of the few options.
fn xfs(options: &str) -> xfs::Geometry {
    static MADE: Mutex<BTreeMap<String, xfs::Geometry>> = Mutex::new(BTreeMap::new());
    let device = mkfs_xfs::Device { bytes: BYTES, chunk: 512 << 10, disks: 7, sector: 512 };
    let plan = || mkfs_xfs::Options::parse(options).unwrap().plan(device).unwrap();
    MADE.lock().unwrap().entry(options.to_owned()).or_insert_with(plan).clone()
}

fn xfs_options() -> impl Strategy<Value = String> {
    let size = prop_oneof![
        Just(""),
        Just("-d agcount=11"),
        Just("-d agcount=29"),
        Just("-d noalign"),
        Just("-d agcount=16")
    ];
    let log = prop_oneof![
        Just(""),
        Just("-l agnum=0,size=128m"),
        Just("-l size=64m"),
        Just("-l agnum=3"),
        Just("-l logdev=x,size=64m")
    ];
    (size, log).prop_map(|(size, log)| format!("{size} {log}"))
}

/// Kind of a block: `log`, `header` (or a root), or `content`.
fn part(geometry: &xfs::Geometry, block: u64) -> &'static str {
    let log = match geometry.log {
        xfs::Log::Internal { first, blocks } => first.0..first.0 + u64::from(blocks),
        xfs::Log::External { .. } => 0..0,
    };
    let fixed = geometry.roots_at_mkfs().last().unwrap().0;
    match () {
        () if log.contains(&block) => "log",
        () if block % u64::from(geometry.ag_blocks) <= u64::from(fixed) => "header",
        () => "content",
    }
}

fn origin_of(side: &Side, block: u64) -> Option<Origin> {
    side.fixed(block).ok().map(|range| FIXED[range.kind])
}

/// Options that differ in every way the translation depends on.
fn any_options() -> impl Strategy<Value = Options> {
    let group = prop::option::of(prop_oneof![Just(32744), Just(8192), Just(32752)]);
    let flex = prop::option::of(prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(64)]);
    (group, flex, any::<bool>()).prop_map(|(group, flex, packed)| options(group, flex, packed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_same_filesystem_keeps_every_block(
        options in any_options(),
        stripe in prop_oneof![Just(0_u64), Just(48), Just(1024)],
        blocks in prop::collection::vec(0..BYTES / 4096, 200),
        length in 1_u64..300,
    ) {
        let side = side(&options, BYTES, stripe);
        let translation = Translation::new(&side, &side);
        for block in blocks {
            for origin in [Origin::FileData, Origin::Directory] {
                let place = translation.place(block, origin, length, 0);
                prop_assert_eq!(place.block, Some(block));
                prop_assert!(place.run > 0);
            }
        }
    }

    #[test]
    fn structures_stay_structures_and_data_stay_data(
        from in any_options(),
        to in any_options(),
        other_size in prop::option::of(20_u64..90),
        blocks in prop::collection::vec(0..BYTES / 4096, 200),
        length in 1_u64..300,
        turn in any::<u64>(),
    ) {
        let bytes = other_size.map_or(BYTES, |gib| gib << 30);
        let (today, then) = (side(&from, BYTES, 0), side(&to, bytes, 1024));
        let translation = Translation::new(&today, &then);
        for block in blocks {
            let place = translation.place(block, Origin::FileData, length, turn);
            let at = place.block.unwrap();
            prop_assert!(at < then.blocks);
            prop_assert_eq!(origin_of(&today, block), origin_of(&then, at), "{} to {}", block, at);
            // The whole run is of the same kind in both.
            let last = place.run - 1;
            prop_assert_eq!(origin_of(&today, block), origin_of(&today, block + last));
            prop_assert_eq!(origin_of(&then, at), origin_of(&then, at + last));
        }
    }

    #[test]
    fn the_same_xfs_keeps_every_block(
        options in xfs_options(),
        blocks in prop::collection::vec(0..BYTES / 4096, 200),
        length in 1_u64..300,
    ) {
        let geometry = xfs(&options);
        let side = Groups::new(&geometry);
        let translation = GroupTranslation::new(&side, &side);
        for block in blocks.into_iter().filter(|b| *b < geometry.blocks) {
            prop_assert_eq!(translation.copies(block), 1);
            let place = translation.place(block, Origin::FileData, length, 0);
            prop_assert_eq!(place.block, Some(block), "{}", options);
            prop_assert!(place.run > 0);
        }
    }

    #[test]
    fn parts_of_an_xfs_stay_what_they_are(
        from in xfs_options(),
        to in xfs_options(),
        blocks in prop::collection::vec(0..BYTES / 4096, 200),
        near in prop::collection::vec((0_u64..16, 0_u64..40), 50),
        length in 1_u64..300,
    ) {
        let (today, then) = (xfs(&from), xfs(&to));
        let sides = [Groups::new(&today), Groups::new(&then)];
        let translation = GroupTranslation::new(&sides[0], &sides[1]);
        let near = near.into_iter().map(|(ag, at)| ag * u64::from(today.ag_blocks) + at);
        for block in blocks.into_iter().chain(near).filter(|b| *b < today.blocks) {
            for copy in 0..translation.copies(block) {
                let place = translation.place(block, Origin::FileData, length, copy);
                let Some(at) = place.block else {
                    prop_assert_eq!(part(&today, block), "log");
                    continue;
                };
                prop_assert!(place.run > 0 && at + place.run <= then.blocks, "{} to {}: {:?}", block, at, place);
                prop_assert_eq!(part(&today, block), part(&then, at), "{} to {}", block, at);
                let last = place.run - 1;
                prop_assert_eq!(part(&today, block), part(&today, block + last));
                prop_assert_eq!(part(&then, at), part(&then, at + last), "{} to {}: {:?}", block, at, place);
            }
        }
    }

    /// Every planned header has a share of today's, whatever the numbers of groups.
    #[test]
    fn headers_are_all_in_use(from in xfs_options(), to in xfs_options()) {
        let (today, then) = (xfs(&from), xfs(&to));
        let sides = [Groups::new(&today), Groups::new(&then)];
        let translation = GroupTranslation::new(&sides[0], &sides[1]);
        let mut hit = vec![false; then.ag_count as usize];
        for ag in 0..u64::from(today.ag_count) {
            let block = ag * u64::from(today.ag_blocks) + 1;
            for copy in 0..translation.copies(block) {
                let at = translation.place(block, Origin::FreeSpaceBtree, 1, copy).block.unwrap();
                hit[(at / u64::from(then.ag_blocks)) as usize] = true;
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
        let figures = laid(&geometry, &[write(0, sector, sectors)]);
        let mut want = vec![0; 6];
        for at in sector..sector + sectors {
            for (slot, _) in geometry.copies(ArraySector(at)) {
                want[slot as usize] += 512;
            }
        }
        let got: Vec<u64> = figures.by_member(Direction::Write).iter().map(|s| s.bytes).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn no_filesystem_of_a_header_panics(
        blocks in any::<u64>(),
        groups in any::<u32>(),
        per_group in any::<u32>(),
        per_flex in any::<u32>(),
        table_blocks in any::<u32>(),
        inodes in any::<u64>(),
        stripe in any::<u64>(),
        block in any::<u64>(),
        ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..8),
    ) {
        let mut fs = planned(&Options::default(), BYTES);
        let groups = crate::analysis::placement::BlockGroups {
            count: groups % 5000,
            first_block: 0,
            blocks: per_group,
            per_flex,
            table_blocks,
        };
        fs.blocks = if blocks % 2 == 0 {
            blocks
        } else {
            u64::from(groups.count) * u64::from(per_group)
        };
        fs.ranges = ranges
            .into_iter()
            .map(|(first, count)| crate::fs::SectorRange {
                first: crate::address::FsSector(first),
                count,
                origin: Origin::BlockBitmap,
            })
            .collect();
        (fs.groups, fs.inodes) = (Some(crate::analysis::placement::Groups::Block(groups)), inodes);
        if let Ok(today) = Side::new(&fs, stripe) {
            let then = side(&Options::default(), BYTES, 0);
            let _ = today.check();
            let translation = Translation::new(&today, &then);
            let place = translation.place(block % fs.blocks, Origin::FileData, 1, block);
            prop_assert!(place.run > 0);
        }
    }
}

fn geometry(level: Level, disks: u32, chunk_sectors: u32) -> Geometry {
    let layout = match level {
        Level::Raid10 => 0x102,
        Level::Raid5 | Level::Raid6 => 2,
        _ => 0,
    };
    Geometry::new(&Params { level, layout, disks, chunk_sectors, member_sectors: vec![1 << 30] })
        .unwrap()
}

fn write(time_us: i64, sector: u64, sectors: u64) -> Bio {
    Bio {
        time_us,
        direction: Direction::Write,
        origin: Origin::FileData,
        sector,
        sectors,
        pid: 1,
        is_flush: false,
    }
}

fn laid(geometry: &Geometry, bios: &[Bio]) -> Figures {
    let mut disks = Disks::new(geometry, 1 << 20, 0).unwrap();
    bios.iter().for_each(|bio| disks.add(*bio));
    let (figures, outside) = disks.finish();
    assert_eq!(outside, 0);
    figures
}

/// Pages of parity written and of pre-reads on all members.
fn pages(geometry: &Geometry, bios: &[Bio]) -> (u64, u64) {
    let figures = laid(geometry, bios);
    let sum = |origin, direction| -> u64 {
        let members = 0..figures.members();
        let bytes = members.map(|m| figures.sum(m, origin, direction).bytes);
        bytes.sum::<u64>() / 4096
    };
    (sum(Origin::Parity, Direction::Write), sum(Origin::RmwRead, Direction::Read))
}

#[test]
fn stripes_read_what_the_cheaper_way_lacks() {
    // Chunks of 8 pages.
    let raid5 = |disks| geometry(Level::Raid5, disks, 64);
    let page = [write(0, 0, 8)];
    // Of 3: reconstruct-write reads two pages, as read-modify-write would. Of 7: read-modify-write
    // reads data and parity.
    assert_eq!(pages(&raid5(4), &page), (1, 2));
    assert_eq!(pages(&raid5(8), &page), (1, 2));
    assert_eq!(pages(&geometry(Level::Raid6, 8, 64), &page), (2, 3));
    // A whole row of chunks, at once or in pieces.
    let row = [write(0, 0, 3 * 64)];
    assert_eq!(pages(&raid5(4), &row), (8, 0));
    let pieces = [0, 64, 128].map(|sector| write(sector as i64, sector, 64));
    assert_eq!(pages(&raid5(4), &pieces), (8, 0));
    // Less than a page is not enough for reconstruction without it.
    assert_eq!(pages(&raid5(4), &[write(0, 0, 1)]), (1, 2));
    // The cache has the pages of the first write.
    let twice = [write(0, 0, 8), write(1_000_000, 0, 8)];
    assert_eq!(pages(&raid5(4), &twice), (2, 2));
    // But not after 1999 other stripes.
    let mut many = vec![write(0, 0, 8)];
    many.extend((1..2000).map(|i| write(i, i as u64 * 3 * 64, 8)));
    many.push(write(1_000_000, 0, 8));
    assert_eq!(pages(&raid5(4), &many), (2001, 4002));
}

#[test]
fn parity_and_pre_reads_are_on_their_members() {
    let geometry = geometry(Level::Raid5, 8, 64);
    let sector = 64 * 7 * 3 + 64 * 2 + 16;
    let figures = laid(&geometry, &[write(0, sector, 8)]);
    let at = geometry.parity(ArraySector(sector)).unwrap();
    let data = geometry.copies(ArraySector(sector))[0].0;
    for slot in 0..8 {
        let sum = |origin, direction| figures.sum(slot as usize, origin, direction).requests;
        let is_parity = u64::from(slot == at.p);
        assert_eq!(sum(Origin::Parity, Direction::Write), is_parity);
        let is_data = u64::from(slot == data);
        assert_eq!(sum(Origin::FileData, Direction::Write), is_data);
        assert_eq!(sum(Origin::RmwRead, Direction::Read), is_parity + is_data);
    }
}

#[test]
fn bios_that_continue_each_other_are_one_request() {
    let geometry = geometry(Level::Raid0, 4, 1024);
    let requests = |bios: &[Bio]| -> u64 {
        let sums = laid(&geometry, bios).by_member(Direction::Write);
        sums.iter().map(|s| s.requests).sum()
    };
    let mut bios = [write(0, 0, 8), write(10, 8, 8), write(20, 16, 8)];
    assert_eq!(requests(&bios), 1);
    // A commit block with its flush is alone.
    bios[1].is_flush = true;
    assert_eq!(requests(&bios), 3);
    bios[1].is_flush = false;
    bios[2].pid = 2;
    assert_eq!(requests(&bios), 2);
    bios[1].time_us = 100_000;
    assert_eq!(requests(&bios), 3);
    // 2048 sectors are two chunks, on two members.
    assert_eq!(requests(&[write(0, 0, 2048)]), 2);
}

#[test]
fn reads_of_mirrors_are_spread() {
    let geometry = geometry(Level::Raid10, 4, 1024);
    let read = |i: i64| Bio { direction: Direction::Read, ..write(i * 100_000, 0, 8) };
    let bios: Vec<Bio> = (0..100).map(read).collect();
    let sums = laid(&geometry, &bios).by_member(Direction::Read);
    let requests: Vec<u64> = sums.iter().map(|s| s.requests).collect();
    assert_eq!(requests, [50, 50, 0, 0]);
}

#[test]
fn sectors_after_the_end_are_counted_apart() {
    let geometry = geometry(Level::Raid0, 4, 1024);
    let end = geometry.array_sectors();
    let mut disks = Disks::new(&geometry, 1 << 20, 0).unwrap();
    disks.add(write(0, end - 8, 16));
    disks.add(write(0, end + 100, 8));
    let (figures, outside) = disks.finish();
    assert_eq!(outside, 16 * 512);
    let bytes: u64 = figures.by_member(Direction::Write).iter().map(|s| s.bytes).sum();
    assert_eq!(bytes, 8 * 512);
}

/// Seen on 6.12: in an empty group of 32744 blocks, a file of 20 blocks is at 32704, and a
/// preallocation of 1024 at 30720.
#[test]
fn an_odd_group_fills_from_its_end() {
    let odd = side(&options(Some(32744), None, false), BYTES, 0);
    assert_eq!(odd.filled(0, 32), (32704, 32));
    assert_eq!(odd.filled(0, 1024), (30720, 1024));
    assert_eq!(odd.filled(1024, 1024), (28672, 2048));
    let even = side(&Options::default(), BYTES, 0);
    assert_eq!(even.filled(5000, 1024), (5000, 32768 - 5000));
    for size in [1, 32, 1024] {
        for position in 0..31744 {
            let (at, run) = odd.filled(position, size);
            assert!(run > 0);
            assert_eq!(odd.position(at, size), position);
        }
    }
}

#[test]
fn divided_flex_groups_have_a_bitmap_for_each_directory() {
    let (today, then) =
        (side(&Options::default(), BYTES, 0), side(&options(None, Some(4), false), BYTES, 0));
    let translation = Translation::new(&today, &then);
    let mut sharing = Sharing::new(today.flexes());
    let kind = FIXED.iter().position(|o| *o == Origin::InodeBitmap).unwrap();
    let bitmap = today.at(kind, 16).unwrap().0;
    assert_eq!(sharing.copies(&translation, bitmap), 1);
    for i in 0..3 {
        sharing.learn(&translation, today.directories(1) + i);
    }
    assert_eq!(sharing.copies(&translation, bitmap), 3);
    sharing.learn(&translation, today.directories(1) + 1000);
    assert_eq!(sharing.copies(&translation, bitmap), 4);
    assert_eq!(sharing.copies(&translation, today.directories(1)), 1);
    let places: Vec<_> =
        (0..4).map(|turn| translation.place(bitmap, Origin::InodeBitmap, 1, turn).block).collect();
    assert!((0..4).all(|i| !places[..i].contains(&places[i])), "{places:?}");
}

#[test]
fn merged_bitmaps_are_written_once_per_writeback() {
    let mut sharing = Sharing::new(1);
    assert!(!sharing.is_shared(100, 1, 0));
    assert!(sharing.is_shared(100, 2, 10_000));
    assert!(!sharing.is_shared(100, 1, 20_000));
    assert!(!sharing.is_shared(100, 2, 5_000_000));
}

#[test]
fn intervals_get_longer() {
    let mut figures = Figures::new(2, 0);
    for second in 0..1000 {
        figures.count(1, Direction::Write, 4096, second * 1_000_000);
    }
    let (interval_us, rows) = figures.intervals();
    assert_eq!(interval_us, 4_000_000);
    let counts: Vec<u32> = rows.map(|members| members[1].iter().sum()).collect();
    assert_eq!(counts, vec![4; 250]);
    assert_eq!(CLASSES, 24);
}

#[test]
fn device_times_are_means_by_size() {
    let mut service = Service::default();
    for _ in 0..50 {
        service.add(Direction::Write, 4096, 1000);
        service.add(Direction::Write, 1 << 20, 9000);
    }
    let mut figures = Figures::new(2, 0);
    figures.count(0, Direction::Write, 4096, 0);
    figures.count(1, Direction::Write, 1 << 20, 0);
    // The nearest size with enough requests.
    figures.count(1, Direction::Write, 4 << 20, 100);
    assert_eq!(service.seconds(&figures), [0.001, 0.018]);
    assert_eq!(service.busiest(&figures), [0.018]);
}

/// Planned places of the data blocks of one group, in bios of 256 blocks.
fn places(translation: &Translation<'_>, blocks: std::ops::Range<u64>) -> Vec<u64> {
    let mut places = Vec::new();
    let mut at = blocks.start;
    while at < blocks.end {
        let place = translation.place(at, Origin::FileData, 256, 0);
        let run = place.run.min(blocks.end - at);
        let first = place.block.unwrap();
        places.extend(first..first + run);
        at += run;
    }
    places
}

#[test]
fn a_large_file_has_as_many_places_as_blocks() {
    // Group 33, the first for files in its flex group, has no backup of the superblock.
    let group = 33 * 32768..34 * 32768;
    let today = side(&options(None, None, false), BYTES, 0);
    let then = side(&options(Some(32744), None, false), BYTES, 0);
    let mut all = places(&Translation::new(&today, &then), group.clone());
    all.sort_unstable();
    all.dedup();
    let blocks = (group.end - group.start) as usize;
    assert!(all.len() > blocks * 9 / 10, "{} of {blocks}", all.len());
}

#[test]
fn flex_groups_that_share_with_none_keep_their_bitmaps_apart() {
    // 33 flex groups today, 32 planned: only the first planned one is shared.
    let today = side(&options(Some(32744), None, false), BYTES, 0);
    let then = side(&options(None, None, false), BYTES, 0);
    assert!(today.flexes() > then.flexes());
    let translation = Translation::new(&today, &then);
    let bitmap = |group: u64| {
        let kind = FIXED.iter().position(|o| *o == Origin::BlockBitmap);
        today.at(kind.unwrap(), group).unwrap().0
    };
    let mut planned: Vec<_> = (16 * 20..16 * 21)
        .filter_map(|g| translation.place(bitmap(g), Origin::BlockBitmap, 1, 0).block)
        .collect();
    planned.dedup();
    // Groups differ in size, so that one bitmap of today may share its place with the next.
    assert!(planned.len() >= 15, "{planned:?}");
}

#[test]
fn mirrors_share_the_reads_of_a_task_that_also_writes() {
    let geometry = geometry(Level::Raid1, 2, 0);
    let bio = |n: u64| Bio {
        direction: if n.is_multiple_of(2) { Direction::Read } else { Direction::Write },
        ..write(n as i64 * 100_000, n * 1000, 8)
    };
    let bios: Vec<Bio> = (0..100).map(bio).collect();
    let sums = laid(&geometry, &bios).by_member(Direction::Read);
    let reads: Vec<u64> = sums.iter().map(|s| s.requests).collect();
    assert_eq!(reads, [25, 25]);
}
