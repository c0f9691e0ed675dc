//! Tests of the headline.

mod any;
mod cases;
mod incidents;
mod symptom;

use super::{Hotspot, HotspotKind, HotspotSeverity, find};
use crate::analysis::fixture;
use crate::analysis::fixture::{array, cell, member};
use crate::analysis::snapshot::{ArraySnapshot, Cell, DiskUse, TaskIo, TaskSnapshot, UnevenGroups};
use crate::origin::{Op, Origin};
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);

/// `count` members, `cells(i)` on each, busy for `utilisation(i)`.
pub fn with(
    count: usize,
    utilisation: impl Fn(usize) -> f64,
    cells: impl Fn(usize) -> Vec<Cell>,
) -> ArraySnapshot {
    let mut array = array((0..count).map(|i| member(i, cells(i))).collect());
    for (i, m) in array.members.iter_mut().enumerate() {
        m.disk = Some(DiskUse { utilisation: utilisation(i), requests: 1, ..DiskUse::default() });
    }
    array
}

/// Like [`with`], with a utilisation of 30 % for every member.
pub fn with_cells(count: usize, cells: impl Fn(usize) -> Vec<Cell>) -> ArraySnapshot {
    with(count, |_| 0.3, cells)
}

pub fn writes(origin: Origin, requests: u64) -> Cell {
    cell(origin, Op::Write, requests, requests * 4096, 1000)
}

pub fn data(requests: u64) -> Cell {
    writes(Origin::FileData, requests)
}

pub fn bitmap(requests: u64) -> Cell {
    writes(Origin::BlockBitmap, requests)
}

pub fn headline_of(array: &ArraySnapshot) -> Hotspot {
    find(array, 10 * SECOND)
}

#[test]
fn bitmaps_on_3_of_12_members() {
    let hotspot = find(&fixture::raid0(12).arrays[0], SECOND);
    assert_eq!(
        hotspot.headline,
        "loop1, loop5 and loop9 are busy 98 % of the time or more, the others 53 %: they carry 97 \
         % of the block_bitmap, inode_bitmap and inode_table writes, 3.9x the mean, from \
         writeback (kworker/u8:2)"
    );
    assert_eq!(hotspot.kind, HotspotKind::Saturated);
    assert_eq!(hotspot.severity, HotspotSeverity::Warning);
    assert_eq!(hotspot.origins, [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable]);
    assert_eq!(hotspot.op, Some(Op::Write));
    assert_eq!(hotspot.members, ["loop1", "loop5", "loop9"]);
}

const CALM: &str = "no member is saturated: the busiest, loop12, is busy 30 % of the time; ";

#[test]
fn headlines_without_a_symptom() {
    for (what, array, kind, headline) in [
        (
            "even",
            with_cells(12, |i| vec![data(1000 + i as u64)]),
            HotspotKind::Even,
            "the load is even, 1.0x the mean on the busiest",
        ),
        (
            "one origin on one member",
            with_cells(12, |i| vec![data(300), bitmap(if i == 3 { 100 } else { 0 })]),
            HotspotKind::Uneven,
            "block_bitmap writes: loop4 carries all of them, 12.0x the mean",
        ),
        (
            "an even file does not hide it",
            with_cells(12, |i| vec![data(300), bitmap(if i % 4 == 0 { 100 } else { 4 })]),
            HotspotKind::Uneven,
            "block_bitmap writes: loop1, loop5 and loop9 carry 89 % of them, 3.6x the mean",
        ),
        (
            "too little to matter beside the rest",
            with_cells(12, |i| vec![data(30_000), bitmap(if i == 3 { 100 } else { 0 })]),
            HotspotKind::Even,
            "the load is even, 1.0x the mean on the busiest",
        ),
        (
            "the skew that mkfs.ext4 -g 32744 leaves",
            with_cells(12, |i| vec![data(300), bitmap(if i % 4 == 0 { 145 } else { 90 })]),
            HotspotKind::Even,
            "the load is even, 1.1x the mean on the busiest",
        ),
        (
            "too few to judge",
            with_cells(12, |i| if i == 2 { vec![data(7)] } else { vec![] }),
            HotspotKind::Even,
            "7 requests are too few to judge how even the load is",
        ),
        (
            "one file, less than a few times round the array, is on few members by nature",
            with_cells(12, |i| if i == 2 { vec![data(128)] } else { vec![] }),
            HotspotKind::Even,
            "no origin is uneven, but loop3 has 12.0x the mean load, mostly file_data writes (100 \
             % of the bytes)",
        ),
        (
            "discards free space and move nothing",
            with_cells(12, |i| {
                let freed = if i == 2 { 64 << 30 } else { 0 };
                vec![data(300), cell(Origin::FileData, Op::Discard, 4, freed, 900)]
            }),
            HotspotKind::Even,
            "the load is even, 1.0x the mean on the busiest",
        ),
        (
            "discards alone",
            with_cells(12, |i| {
                let count = if i == 2 { 4000 } else { 0 };
                vec![cell(Origin::FileData, Op::Discard, count, count << 30, 900)]
            }),
            HotspotKind::Uneven,
            "free_space discards: loop3 carries all of them, 12.0x the mean",
        ),
    ] {
        let hotspot = headline_of(&array);
        assert_eq!(hotspot.headline, format!("{CALM}{headline}"), "{what}");
        assert_eq!(hotspot.kind, kind, "{what}");
        assert!(!hotspot.is_warning(), "{what}");
    }
    let idle = "idle: no IO on the members in the last 10 s";
    assert_eq!(headline_of(&with_cells(12, |_| vec![])).headline, idle);
    assert_eq!(headline_of(&with_cells(0, |_| vec![])).headline, idle);
    assert_eq!(
        headline_of(&with_cells(1, |_| vec![data(300), bitmap(100)])).headline,
        "not saturated: busy 30 % of the time; mostly file_data writes (75 % of the bytes)"
    );
    let many = with_cells(100, |i| vec![data(300), bitmap(if i % 4 == 0 { 100 } else { 0 })]);
    assert!(
        headline_of(&many)
            .headline
            .ends_with("loop1, loop5, loop9, loop13 and 21 more carry all of them, 4.0x the mean")
    );
    let flushes = with_cells(4, |i| {
        let count = if i == 0 { 400 } else { 0 };
        vec![cell(Origin::Raw, Op::Flush, count, 0, 100)]
    });
    assert!(
        headline_of(&flushes)
            .headline
            .ends_with("raw flushes: loop1 carries all of them, 4.0x the mean")
    );
}

/// Requests as md writes them on RAID 5: each AG header in a page that begins with the superblock's
/// copy.
fn allocation_groups(busy: f64) -> ArraySnapshot {
    with(
        7,
        |i| if i == 0 { busy } else { 0.07 },
        |i| {
            let n = |all: u64| if i == 0 { all } else { 0 };
            vec![
                writes(Origin::Superblock, n(300)),
                cell(Origin::AgHeader, Op::Write, 0, n(300) * 3584, 1000),
                writes(Origin::FreeSpaceBtree, n(290)),
                writes(Origin::InodeCluster, if i == 0 { 2750 } else { 20 }),
                writes(Origin::Parity, 800),
            ]
        },
    )
}

#[test]
fn allocation_groups_on_one_member() {
    let mut array = allocation_groups(0.14);
    let uneven = "no member is saturated: the busiest, loop1, is busy 14 % of the time; \
                  ag_header, free_space_btree and inode_cluster writes: loop1 carries 97 % of \
                  them, 6.8x the mean";
    let hotspot = headline_of(&array);
    assert_eq!(hotspot.headline, uneven);
    assert_eq!(hotspot.members, ["loop1"]);
    let groups = UnevenGroups {
        groups: 44,
        members: vec!["loop1".to_owned()],
        on_members: 44,
        agsize_bytes: Some(1_099_510_579_200),
    };
    array.info.uneven_groups = Some(groups.clone());
    assert_eq!(
        headline_of(&array).headline,
        format!(
            "{uneven}; all 44 allocation groups start there, only a new mkfs.xfs -d \
             agsize=1099510579200 changes that"
        )
    );
    let mut saturated = allocation_groups(0.97);
    saturated.info.uneven_groups =
        Some(UnevenGroups { on_members: 40, agsize_bytes: None, ..groups.clone() });
    assert_eq!(
        headline_of(&saturated).headline,
        "loop1 is busy 97 % of the time, the others 7 %: it carries 97 % of the ag_header, \
         free_space_btree and inode_cluster writes, 6.8x the mean; 40 of 44 allocation groups \
         start there, see raidtrace layout"
    );
    // A load of few groups is uneven for another reason.
    array.info.uneven_groups = Some(UnevenGroups { members: vec!["loop2".to_owned()], ..groups });
    assert_eq!(headline_of(&array).headline, uneven);
}

/// New inodes are written one cluster after the other, as a file is.
#[test]
fn few_inode_clusters_are_on_few_members_by_nature() {
    let array = with_cells(7, |i| vec![writes(Origin::InodeCluster, if i == 2 { 300 } else { 0 })]);
    assert_eq!(headline_of(&array).kind, HotspotKind::Even);
}

/// Reads of a mirror from one member, first without and then with saturation.
#[test]
fn a_skew_is_information_without_a_symptom() {
    let mirror = |utilisation| {
        let reads = |i| if i == 0 { 4000 } else { 8 };
        let mut array = with(
            2,
            |i| if i == 0 { utilisation } else { 0.05 },
            |i| vec![cell(Origin::FileData, Op::Read, reads(i), reads(i) * 4096, 900)],
        );
        let task = |pid, bytes| TaskSnapshot {
            pid,
            comm: b"postgres".to_vec(),
            cgroup: None,
            role: None,
            io: vec![TaskIo { origin: Origin::FileData, op: Op::Read, bios: 10, bytes }],
            dirtied: Vec::new(),
            dirtied_files: crate::analysis::files::Files::default(),
        };
        array.tasks = vec![task(7, 60), task(8, 30)];
        headline_of(&array)
    };
    let calm = mirror(0.11);
    assert_eq!(
        calm.headline,
        "no member is saturated: the busiest, loop1, is busy 11 % of the time; file_data reads: \
         loop1 carries 99 % of them, 2.0x the mean"
    );
    assert_eq!((calm.kind, calm.severity), (HotspotKind::Uneven, HotspotSeverity::Info));
    let hurt = mirror(0.97);
    assert_eq!(
        hurt.headline,
        "loop1 is busy 97 % of the time, the others 5 %: it carries 99 % of the file_data reads, \
         2.0x the mean, 67 % from postgres (pid 7)"
    );
    assert_eq!((hurt.kind, hurt.severity), (HotspotKind::Saturated, HotspotSeverity::Warning));
    assert_eq!(hurt.origins, calm.origins);
}

#[test]
fn spares_and_faulty_members_do_not_lower_the_mean() {
    let mut array = with_cells(4, |i| vec![data(if i < 2 { 10_000 } else { 0 })]);
    array.members[2].slot = None;
    array.members[3].health = Some("faulty".to_owned());
    assert_eq!(headline_of(&array).kind, HotspotKind::Even);
    assert!(headline_of(&array).headline.ends_with("1.0x the mean on the busiest"));
}

/// A bio-based device makes no requests: the kernel counts its IO, the request tracepoints do not
/// fire. The array is not idle, and a traced member does not carry all of the load.
#[test]
fn members_that_are_not_traced() {
    let with_requests = |utilisation: f64, cells: fn(usize) -> Vec<Cell>| {
        let mut array = with(2, |_| utilisation, cells);
        for member in &mut array.members {
            member.disk.as_mut().unwrap().requests = 250;
        }
        headline_of(&array)
    };
    let calm = CALM.replace("loop12", "loop2");
    let none: fn(usize) -> Vec<Cell> = |_| vec![];
    let found = with_requests(0.3, none);
    assert_eq!(
        found.headline,
        format!("{calm}loop1 and loop2 completed 500 requests that are not traced")
    );
    assert_eq!(found.kind, HotspotKind::Even);
    // A recording has no utilisation of them.
    assert_eq!(
        with_requests(0.0, none).headline,
        "loop1 and loop2 completed 500 requests that are not traced"
    );
    let one: fn(usize) -> Vec<Cell> = |i| if i == 0 { vec![data(250)] } else { vec![] };
    assert_eq!(
        with_requests(0.3, one).headline,
        format!("{calm}loop2 completed 250 requests that are not traced")
    );
    let full = with_requests(1.0, none);
    assert_eq!(full.kind, HotspotKind::Saturated);
    assert!(
        full.headline.ends_with("; loop1 and loop2 completed 500 requests that are not traced"),
        "{}",
        full.headline
    );
    let mut busy = with(2, |i| if i == 1 { 0.99 } else { 0.1 }, one);
    busy.members[1].disk.as_mut().unwrap().requests = 250;
    let busy = headline_of(&busy).headline;
    assert!(!busy.contains("look at the disk itself"), "{busy}");
    assert!(busy.ends_with("loop2 completed 250 requests that are not traced"), "{busy}");
}

/// If all members are equally busy, the headline describes their work.
#[test]
fn headline_has_the_write_cost_of_single_blocks_on_raid_5() {
    let small = |n: u64, read: u64, utilisation: f64| {
        let mut array = with(
            4,
            |_| utilisation,
            |_| {
                vec![
                    data(n),
                    writes(Origin::Parity, n),
                    cell(Origin::RmwRead, Op::Read, read, read * 4096, 900),
                ]
            },
        );
        array.submitted = [((Origin::FileData, Op::Write), 4 * n * 4096)].into();
        array
    };
    assert_eq!(
        headline_of(&small(500, 1000, 0.3)).headline,
        "no member is saturated: the busiest, loop4, is busy 30 % of the time; the load is even, \
         1.0x the mean on the busiest; writes cost 4.0x, 2.0x of it pre-reads"
    );
    let full = headline_of(&small(500, 1000, 1.0));
    assert_eq!(
        full.headline,
        "the array is saturated: all 4 members are busy 100 % of the time, evenly; mostly \
         rmw_read reads (50 % of the bytes); writes cost 4.0x, 2.0x of it pre-reads"
    );
    assert_eq!(full.severity, HotspotSeverity::Warning);
    // Full stripes; and few writes among many reads.
    assert!(!headline_of(&small(500, 100, 0.3)).headline.contains("cost"));
    let mut array = small(500, 1000, 0.3);
    for member in &mut array.members {
        let reads = cell(Origin::FileData, Op::Read, 3000, 3000 * 4096, 900);
        member.io.push(reads);
    }
    assert!(!headline_of(&array).headline.contains("cost"));
}

#[test]
fn writeback_names_the_task_that_dirtied_the_data() {
    let mut snapshot = crate::analysis::fixture::dirtied();
    let headline = headline_of(&snapshot.arrays[0]).headline;
    assert!(headline.ends_with("from writeback (kworker/u8:2) for touch (pid 4711)"), "{headline}");
    // No task has dirtied most of the data.
    for task in &mut snapshot.arrays[0].tasks {
        if task.comm == b"postgres" {
            task.dirtied[0].bytes = 25 << 20;
        }
    }
    let tasks = &mut snapshot.arrays[0].tasks;
    let mut third = tasks.last().unwrap().clone();
    third.pid = 4712;
    tasks.push(third);
    let headline = headline_of(&snapshot.arrays[0]).headline;
    assert!(headline.ends_with("from writeback (kworker/u8:2)"), "{headline}");
}
