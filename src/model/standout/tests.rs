use super::{Kind, Standout, find};
use crate::model::fixture::{self, array, cell, member};
use crate::model::snapshot::{ArraySnapshot, Cell, DiskUse};
use crate::origin::{Op, Origin};
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// `count` members, `cells(i)` on each.
fn of(count: usize, cells: impl Fn(usize) -> Vec<Cell>) -> ArraySnapshot {
    let mut array = array((0..count).map(|i| member(i, cells(i))).collect());
    for m in &mut array.members {
        m.disk = Some(DiskUse {
            in_flight: 1,
            utilisation: 0.3,
            requests: 1,
        });
    }
    array
}

fn writes(origin: Origin, requests: u64) -> Cell {
    cell(origin, Op::Write, requests, requests * 4096, 1000)
}

fn say(array: &ArraySnapshot) -> Standout {
    find(array, 10 * SECOND)
}

#[test]
fn the_first_case() {
    let standout = find(&fixture::raid0(12).arrays[0], SECOND);
    assert_eq!(
        standout.sentence,
        "block_bitmap, inode_bitmap and inode_table writes: loop1, loop5 and loop9 carry 97 % of them, 3.9x the mean"
    );
    assert_eq!(standout.kind, Kind::Uneven);
    assert_eq!(
        standout.origins,
        [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable]
    );
    assert_eq!(standout.op, Some(Op::Write));
    assert_eq!(standout.members, ["loop1", "loop5", "loop9"]);
}

#[test]
fn sentences() {
    let data = |n| writes(Origin::FileData, n);
    let bitmap = |n| writes(Origin::BlockBitmap, n);
    let slow = |i: usize, us| {
        vec![cell(
            Origin::FileData,
            Op::Read,
            500,
            500 * 4096,
            if i == 6 { us } else { 900 },
        )]
    };
    for (what, array, sentence) in [
        (
            "idle",
            of(12, |_| vec![]),
            "idle: no IO on the members in the last 10 s",
        ),
        (
            "no members",
            of(0, |_| vec![]),
            "idle: no IO on the members in the last 10 s",
        ),
        (
            "even",
            of(12, |i| vec![data(1000 + i as u64)]),
            "nothing stands out: the busiest member carries 1.0x the mean",
        ),
        (
            "one origin on one member",
            of(12, |i| {
                vec![data(300), bitmap(if i == 3 { 100 } else { 0 })]
            }),
            "block_bitmap writes: loop4 carries all of them, 12.0x the mean",
        ),
        (
            "an even file does not hide it",
            of(12, |i| {
                vec![data(300), bitmap(if i % 4 == 0 { 100 } else { 4 })]
            }),
            "block_bitmap writes: loop1, loop5 and loop9 carry 89 % of them, 3.6x the mean",
        ),
        (
            "many members",
            of(100, |i| {
                vec![data(300), bitmap(if i % 4 == 0 { 100 } else { 0 })]
            }),
            "block_bitmap writes: loop1, loop5, loop9, loop13 and 21 more carry all of them, 4.0x the mean",
        ),
        (
            "too little to matter beside the rest",
            of(12, |i| {
                vec![data(30_000), bitmap(if i == 3 { 100 } else { 0 })]
            }),
            "nothing stands out: the busiest member carries 1.0x the mean",
        ),
        (
            "what mkfs.ext4 -g 32744 leaves",
            of(12, |i| {
                vec![data(300), bitmap(if i % 4 == 0 { 145 } else { 90 })]
            }),
            "nothing stands out: the busiest member carries 1.1x the mean",
        ),
        (
            "too few to judge",
            of(12, |i| if i == 2 { vec![data(7)] } else { vec![] }),
            "nothing stands out: 7 requests are too few to judge",
        ),
        (
            "one file, less than a few times round the array, is on few members by nature",
            of(12, |i| if i == 2 { vec![data(128)] } else { vec![] }),
            "no kind of block stands out: the busiest member, loop3, carries 12.0x the mean, mostly file_data writes \
             (100 % of the bytes)",
        ),
        (
            "a slow member",
            of(12, |i| slow(i, 40_000)),
            "loop7 is slow: p99 328ms in the device, the other members' median is 7.2ms",
        ),
        (
            "half as slow again is not slow",
            of(12, |i| slow(i, 1_400)),
            "nothing stands out: the busiest member carries 1.0x the mean",
        ),
        (
            "one disk",
            of(1, |_| vec![data(300), bitmap(100)]),
            "nothing stands out: one disk, mostly file_data writes (75 % of the bytes)",
        ),
        (
            "flushes have no bytes",
            of(4, |i| {
                vec![cell(
                    Origin::Raw,
                    Op::Flush,
                    if i == 0 { 400 } else { 0 },
                    0,
                    100,
                )]
            }),
            "raw flushes: loop1 carries all of them, 4.0x the mean",
        ),
        (
            "a mirror whose reads go to one side",
            of(2, |i| {
                vec![cell(
                    Origin::FileData,
                    Op::Read,
                    if i == 0 { 4000 } else { 8 },
                    if i == 0 { 4000 } else { 8 } * 4096,
                    900,
                )]
            }),
            "file_data reads: loop1 carries 99 % of them, 2.0x the mean",
        ),
    ] {
        assert_eq!(say(&array).sentence, sentence, "{what}");
    }
}

#[test]
fn what_is_busy_all_the_time() {
    let mut array = of(4, |_| vec![writes(Origin::FileData, 1000)]);
    let mut busy = |shares: [f64; 4]| {
        for (m, share) in array.members.iter_mut().zip(shares) {
            m.disk = Some(DiskUse {
                in_flight: 9,
                utilisation: share,
                requests: 1000,
            });
        }
        say(&array).sentence
    };
    assert_eq!(
        busy([0.2, 0.99, 0.4, 0.3]),
        "loop2 is busy 99 % of the time, the others 30 %"
    );
    assert_eq!(
        busy([1.0, 0.99, 0.4, 0.2]),
        "loop1 and loop2 are busy 99 % of the time or more, the others 30 %"
    );
    assert_eq!(
        busy([1.0; 4]),
        "all 4 members are busy 100 % of the time or more; the busiest carries 1.0x the mean"
    );
    assert!(busy([0.9; 4]).starts_with("nothing stands out"));
}

#[test]
fn a_failing_disk_comes_before_a_little_unevenness() {
    let array = |bitmaps: u64| {
        of(12, |i| {
            let us = if i == 6 { 80_000 } else { 900 };
            let bitmaps = if i == 0 { bitmaps } else { 0 };
            vec![
                cell(Origin::FileData, Op::Write, 1000, 4 << 20, us),
                writes(Origin::BlockBitmap, bitmaps),
            ]
        })
    };
    assert_eq!(say(&array(300)).kind, Kind::Slow);
    assert_eq!(say(&array(3000)).kind, Kind::Uneven);
}

#[test]
fn spares_and_the_faulty_do_not_lower_the_mean() {
    let mut array = of(4, |i| {
        vec![writes(Origin::FileData, if i < 2 { 10_000 } else { 0 })]
    });
    array.members[2].slot = None;
    array.members[3].trouble = Some("faulty".to_owned());
    assert_eq!(
        say(&array).sentence,
        "nothing stands out: the busiest member carries 1.0x the mean"
    );
}

/// Where every member does the same, what their work is for says more.
#[test]
fn what_single_blocks_cost_on_raid_5() {
    let small = |n: u64, read: u64| {
        let mut array = of(4, |_| {
            vec![
                writes(Origin::FileData, n),
                writes(Origin::Parity, n),
                cell(Origin::RmwRead, Op::Read, read, read * 4096, 900),
            ]
        });
        array.entered = [((Origin::FileData, Op::Write), 4 * n * 4096)].into();
        array
    };
    let mut array = small(500, 1000);
    let sentence = "nothing stands out: the busiest member carries 1.0x the mean; \
                    writes cost 4.0x, 2.0x of it pre-reads";
    assert_eq!(say(&array).sentence, sentence);
    for member in &mut array.members {
        member.disk.as_mut().unwrap().utilisation = 1.0;
    }
    assert!(say(&array).sentence.ends_with("2.0x of it pre-reads"));
    // One member alone is busy: that is what stands out.
    array.members[0].disk.as_mut().unwrap().utilisation = 0.5;
    assert!(!say(&array).sentence.contains("pre-reads"));
    // Full stripes; and writes that are little beside the reads.
    assert!(!say(&small(500, 100)).sentence.contains("cost"));
    let mut array = small(500, 1000);
    for member in &mut array.members {
        let reads = cell(Origin::FileData, Op::Read, 3000, 3000 * 4096, 900);
        member.io.push(reads);
    }
    assert!(!say(&array).sentence.contains("cost"));
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let big = prop_oneof![0u64..100, 0u64..100_000, Just(u64::MAX)];
    (
        0..Origin::ALL.len(),
        0..Op::ALL.len(),
        big.clone(),
        big,
        0u64..1 << 24,
    )
        .prop_map(|(origin, op, requests, bytes, us)| {
            let mut cell = cell(Origin::ALL[origin], Op::ALL[op], requests.min(50), 0, us);
            (cell.requests, cell.bytes) = (requests, bytes);
            cell
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn never_panics_and_keeps_its_ranges(
        members in prop::collection::vec((prop::collection::vec(any_cell(), 0..6), any::<bool>(), any::<f64>()), 0..14),
    ) {
        let mut array = array(members.iter().enumerate().map(|(i, m)| member(i, m.0.clone())).collect());
        for (member, (_, spare, utilisation)) in array.members.iter_mut().zip(&members) {
            member.slot = member.slot.filter(|_| !spare);
            member.disk = Some(DiskUse { in_flight: 0, utilisation: *utilisation, requests: 0 });
        }
        let standout = say(&array);
        prop_assert!((0.0..=1.0).contains(&standout.share), "{standout:?}");
        prop_assert!(standout.skew >= 1.0, "{standout:?}");
        prop_assert!(!standout.sentence.is_empty());
        for name in &standout.members {
            prop_assert!(array.members.iter().any(|m| &m.name == name && m.is_present()));
        }
        if standout.kind == Kind::Uneven {
            prop_assert!(2 * standout.members.len() <= array.members.len());
        }
    }
}
