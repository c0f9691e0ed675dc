//! Headlines with a symptom.

use super::HotspotKind;
use super::{SECOND, data, headline_of, with, with_cells};
use crate::analysis::fixture::cell;
use crate::analysis::recent::Stall;
use crate::analysis::snapshot::{TaskIo, TaskSnapshot};
use crate::origin::{Op, Origin};

#[test]
fn headlines_start_with_the_symptom() {
    let at = |i: usize, these: f64, others: f64| move |n| if n == i { these } else { others };
    let reads = |us| vec![cell(Origin::FileData, Op::Read, 500, 500 * 4096, us)];
    let slow = |utilisation| {
        with(12, at(6, utilisation, 0.3), |i| reads(if i == 6 { 40_000 } else { 900 }))
    };
    let mut unknown = with(4, |_| 0.99, |_| vec![data(1000)]);
    unknown.members[2].disk = None;
    let mut none = with(4, |_| 0.99, |_| vec![data(1000)]);
    none.members.iter_mut().for_each(|m| m.disk = None);
    let mut stalled = with(4, at(2, 1.0, 0.0), |_| vec![]);
    for m in &mut stalled.members {
        let disk = m.disk.as_mut().unwrap();
        (disk.requests, disk.in_flight) = (0, 1);
    }
    let mut held = with(2, |_| 0.004, |_| vec![data(64)]);
    for m in &mut held.members {
        m.io[0].queue = cell(Origin::FileData, Op::Write, 64, 0, 90_000).device;
    }
    let mut over = with(4, |_| 0.3, |_| vec![data(1000)]);
    over.members[3].stall = Some(Stall { lasted: 42 * SECOND, in_flight: 1, is_over: true });
    let mut scheduler = with(2, at(0, 0.99, 0.1), |_| reads(900));
    let waits = cell(Origin::FileData, Op::Read, 500, 0, 30_000).device;
    scheduler.members[0].io[0].queue = waits;
    for (what, array, kind, headline) in [
        (
            "hung once",
            over,
            HotspotKind::Stalled,
            "loop4 completed nothing for 42 s, with 1 request in flight",
        ),
        (
            "held back by the scheduler: io_ticks count from the allocation of a request",
            scheduler,
            HotspotKind::Queued,
            "requests to loop1 take 42ms (mean), of which they wait 40ms before they are issued: \
             held back by the I/O scheduler or the host adapter, not by the disk, which works at \
             most 6 % of the time; mostly file_data reads (100 % of the bytes)",
        ),
        (
            "slow and saturated",
            slow(0.99),
            HotspotKind::Slow,
            "loop7 is busy 99 % of the time, the others 30 %, with no more work: a request takes \
             43x as long there",
        ),
        (
            "1.5 times the time is not slow",
            with_cells(12, |i| reads(if i == 6 { 1_400 } else { 900 })),
            HotspotKind::Even,
            "no member is saturated: the busiest, loop12, is busy 30 % of the time; the load is \
             even, 1.0x the mean on the busiest",
        ),
        (
            "saturated",
            with(4, |_| 0.99, |_| vec![data(1000)]),
            HotspotKind::Saturated,
            "the array is saturated: all 4 members are busy 99 % of the time or more, evenly; \
             mostly file_data writes (100 % of the bytes)",
        ),
        (
            "one disk",
            with(1, |_| 0.99, |_| vec![data(1000)]),
            HotspotKind::Saturated,
            "loop1 is busy 99 % of the time, mostly file_data writes (100 % of the bytes)",
        ),
        (
            "one member without a figure",
            unknown,
            HotspotKind::Saturated,
            "loop1, loop2 and loop4 are busy 99 % of the time or more; 1 member has no \
             utilisation figure; mostly file_data writes (100 % of the bytes)",
        ),
        (
            "no figures",
            none,
            HotspotKind::Even,
            "utilisation is not known; the load is even, 1.0x the mean on the busiest",
        ),
        (
            "other load",
            with(4, at(1, 0.97, 0.1), |_| vec![data(1000)]),
            HotspotKind::Saturated,
            "loop2 is busy 97 % of the time, the others 10 %, with no more of the array's work: \
             look for other load",
        ),
        (
            "more work of all origins",
            with(4, at(1, 0.97, 0.1), |i| vec![data(if i == 1 { 75 } else { 30 })]),
            HotspotKind::Saturated,
            "loop2 is busy 97 % of the time, the others 10 %: it has 2.5x the work of each other, \
             mostly file_data writes (100 % of the bytes)",
        ),
        (
            "all the work",
            with(4, at(1, 0.97, 0.0), |i| if i == 1 { vec![data(100)] } else { vec![] }),
            HotspotKind::Saturated,
            "loop2 is busy 97 % of the time, the others 0 %: it has all the work, mostly \
             file_data writes (100 % of the bytes)",
        ),
        (
            "busy with short requests",
            with(4, |_| 1.0, |_| vec![cell(Origin::FileData, Op::Read, 9000, 9000 * 4096, 80)]),
            HotspotKind::Even,
            "loop4 is busy 100 % of the time, but a request takes 117µs (mean): it can serve \
             more; the load is even, 1.0x the mean on the busiest",
        ),
        (
            "hangs",
            stalled,
            HotspotKind::Stalled,
            "loop3 completes nothing: 1 request in flight, none completed in 10 s",
        ),
        (
            "held back",
            held,
            HotspotKind::Queued,
            "requests to loop1 and loop2 take 118ms (mean), of which they wait 116ms before they \
             are issued: held back by the I/O scheduler or the host adapter, not by the disk, \
             which works at most 1 % of the time; mostly file_data writes (100 % of the bytes)",
        ),
    ] {
        let hotspot = headline_of(&array);
        assert_eq!(hotspot.headline, headline, "{what}");
        assert_eq!(hotspot.kind, kind, "{what}");
    }
}

/// blk-throttle holds bios back above the array, so its members are idle.
#[test]
fn a_cgroup_limit_is_named_without_a_symptom() {
    let limited = |role: Option<&str>, pid, utilisation| {
        let mut array = with(
            2,
            |_| utilisation,
            |_| vec![cell(Origin::FileData, Op::Write, 40, 40 << 20, 900)],
        );
        let task = |pid, comm: &[u8], role: Option<&str>, bytes| TaskSnapshot {
            pid,
            comm: comm.to_vec(),
            cgroup: Some("/limited".to_owned()),
            role: role.map(str::to_owned),
            io: vec![TaskIo { origin: Origin::FileData, op: Op::Write, bios: 80, bytes }],
            dirtied: Vec::new(),
            dirtied_files: crate::analysis::files::Files::default(),
        };
        array.tasks = vec![task(pid, b"dd", role, 75 << 20), task(8, b"postgres", None, 25 << 20)];
        headline_of(&array)
    };
    let held = limited(Some("throttled"), 7, 0.03);
    assert_eq!(
        held.headline,
        "cgroup /limited is held back by its I/O limit on md127 (io.max, blkio.throttle): 75 % of \
         the bytes submitted, mostly file_data writes, from dd (pid 7); no member is busy more \
         than 3 % of the time"
    );
    assert_eq!((held.kind, held.is_warning()), (HotspotKind::Queued, true));
    let cgroup = limited(Some("cgroup /limited, throttled"), 0, 0.03);
    assert!(!cgroup.headline.contains("from"), "{}", cgroup.headline);
    assert_eq!(limited(None, 7, 0.03).kind, HotspotKind::Even);
    // A symptom of the members precedes the limit.
    let full = limited(Some("throttled"), 7, 0.99);
    assert_eq!(full.kind, HotspotKind::Saturated);
    assert!(full.headline.ends_with("75 % from dd (pid 7)"), "{}", full.headline);
}
