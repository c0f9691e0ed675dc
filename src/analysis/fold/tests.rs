//! Fold tests on hand-made samples.

use super::{
    ArrayNow, CellKey, DiskCounters, Duration, Fold, MemberNow, Sample, THROTTLED, TaskInfo,
};
use crate::analysis::counters::{CostCounters, JournalCounters, TaskCounters, TaskKey};
use crate::analysis::lost::Loss;
use crate::origin::{Op, Origin};

const BITMAP: CellKey = CellKey { member: 1, origin: Origin::BlockBitmap, op: Op::Write };
const TASK: TaskKey = TaskKey { array: 0, pid: 7, origin: Origin::FileData, op: Op::Read };

fn sample(second: u64, requests: u64, ticks: u64) -> Sample {
    let member = |name: &str, slot| MemberNow {
        name: name.to_owned(),
        slot,
        disk: Some(DiskCounters {
            requests: requests + 5,
            io_ticks_ms: ticks,
            in_flight: 3,
            ..DiskCounters::default()
        }),
        ..MemberNow::default()
    };
    let mut sample = Sample {
        clock: Duration::from_secs(second),
        arrays: vec![ArrayNow {
            // md lists the spare first; it is shown last.
            members: vec![member("spare", None), member("sda", Some(0))],
            ..ArrayNow::default()
        }],
        ..Sample::default()
    };
    let cell = sample.counters.cells.entry(BITMAP).or_default();
    cell.requests = requests;
    cell.bytes = requests * 4096;
    cell.device.record(100);
    sample
}

/// `sample` plus bios of a task in the interval that ends there.
fn submitted(mut sample: Sample, bios: u64) -> Sample {
    let task = TaskCounters { bios, bytes: bios * 512 };
    sample.counters.tasks.insert(TASK, task);
    let info = TaskInfo { comm: b"cat".to_vec(), ..TaskInfo::default() };
    sample.tasks.insert(TASK.id(), info);
    sample
}

#[test]
fn requests_only_the_kernel_counted_are_lost_and_noted() {
    // `kernel` is read before raidtrace's counters. The count that is read after them is 9 higher,
    // and must not be used.
    let with = |second, ours: u64, kernel: u64| {
        let mut sample = sample(second, ours, 0);
        let disk = sample.arrays[0].members[1].disk.as_mut().unwrap();
        (disk.requests, disk.requests_before) = (kernel + 9, Some(kernel));
        sample
    };
    let mut fold = Fold::new(sample(0, 100, 0));
    let mut step = |sample| {
        let snapshot = fold.step(sample);
        let disk = snapshot.arrays[0].members[0].disk.unwrap();
        assert_eq!(snapshot.lost[Loss::Uncounted], disk.uncounted);
        assert_eq!(snapshot.lost.events(), disk.uncounted);
        (disk.uncounted, snapshot.notes)
    };
    // raidtrace's counters are read later, so under load they are ahead.
    assert_eq!(step(with(1, 200, 203)), (0, vec![]));
    let note =
        |n| format!("the kernel counts {n} more requests than raidtrace: sda {n} (lost.uncounted)");
    assert_eq!(step(with(2, 300, 312)), (7, vec![note(7)]));
    assert_eq!(step(with(3, 400, 411)), (0, vec![note(7)]));
    assert_eq!(step(with(4, 500, 517)), (5, vec![note(12)]));
    // No new note if the two counts cannot be compared.
    assert_eq!(step(sample(5, 600, 0)), (0, vec![note(12)]));
}

/// The volumes of a container share a disk, whose count is that of both.
#[test]
fn requests_of_volumes_on_one_disk_are_added_up() {
    let with = |ours: u64, others: u64, kernel: u64| {
        let mut sample = sample(ours, ours, 0);
        sample.arrays[0].members[1].disk.as_mut().unwrap().requests_before = Some(kernel);
        let mut second = sample.arrays[0].clone();
        second.members.remove(0);
        second.members[0].disk.as_mut().unwrap().requests_before = None;
        sample.arrays.push(second);
        let cell = sample.counters.cells.entry(CellKey { member: 2, ..BITMAP }).or_default();
        cell.requests = others;
        sample
    };
    let mut fold = Fold::new(with(100, 1000, 105));
    let mut step = |sample| fold.step(sample).lost[Loss::Uncounted];
    assert_eq!(step(with(110, 1040, 155)), 0);
    assert_eq!(step(with(120, 1080, 208)), 3);
}

#[test]
fn requests_lost_in_a_reload_are_uncounted() {
    let with = |second, ours: u64, kernel: u64| {
        let mut sample = sample(second, ours, 0);
        let disk = sample.arrays[0].members[1].disk.as_mut().unwrap();
        (disk.requests, disk.requests_before) = (kernel + 9, Some(kernel));
        sample
    };
    let mut fold = Fold::new(with(0, 0, 991));
    let lost = |fold: &mut Fold, sample| fold.step(sample).lost[Loss::Uncounted];
    assert_eq!(lost(&mut fold, with(1, 100, 1100)), 0);
    // Of 150 requests until the next sample, the old programs count 20, and the new ones 100.
    assert_eq!(lost(&mut fold, with(2, 120, 1120)), 0);
    let mut base = with(2, 0, 1145);
    fold.resume_disks(&mut base);
    fold.rebase(base);
    assert_eq!(lost(&mut fold, with(3, 100, 1250)), 30);
    // A member that leaves and returns starts again.
    let mut gone = with(3, 100, 1250);
    gone.arrays[0].members.remove(1);
    fold.rebase(gone);
    fold.rebase(with(4, 100, 2000));
    assert_eq!(lost(&mut fold, with(5, 200, 2112)), 3);
}

#[test]
fn parity_that_completes_late_is_charged_to_its_cause() {
    let with = |tenths: u64, file: u64, journal: u64, completed: u64| {
        let mut sample = sample(0, 1, 0);
        sample.clock = Duration::from_millis(tenths * 100);
        for (origin, parity) in [(Origin::FileData, file), (Origin::Journal, journal)] {
            let cost = CostCounters { parity, ..CostCounters::default() };
            sample.counters.costs.insert((0, origin), cost);
        }
        let key = CellKey { member: 1, origin: Origin::Parity, op: Op::Write };
        sample.counters.cells.entry(key).or_default().bytes = completed;
        sample
    };
    let mut fold = Fold::new(with(100, 0, 0, 0));
    let charged = |snapshot: super::Snapshot| -> Vec<_> {
        let costs = &snapshot.arrays[0].costs;
        costs.iter().map(|(o, c)| (*o, c.parity)).collect()
    };
    let first = charged(fold.step(with(110, 4000, 0, 1000)));
    // 3000 bytes of the file are still pending.
    assert_eq!(first, [(Origin::FileData, 1000)]);
    let second = charged(fold.step(with(120, 4000, 500, 4500)));
    assert_eq!(second, [(Origin::Journal, 500), (Origin::FileData, 3000)]);
    assert!(charged(fold.step(with(130, 4000, 500, 4500))).is_empty());

    // An empty partial interval, because a member joined.
    charged(fold.step(with(140, 8000, 500, 5500)));
    for tenths in [141, 143] {
        let part = charged(fold.step(with(tenths, 8000, 500, 5500)));
        assert!(part.is_empty());
    }
    let rest = charged(fold.step(with(144, 8000, 500, 7500)));
    assert_eq!(rest, [(Origin::FileData, 2000)]);
    // Pending charges expire, and are charged once.
    let lost = charged(fold.step(with(145, 8000, 500, 7500)));
    assert_eq!(lost, [(Origin::FileData, 1000)]);
    assert!(charged(fold.step(with(160, 8000, 500, 7500))).is_empty());
}

#[test]
fn uncertain_pre_reads_are_unknown() {
    let with = |second, mut rmw: u64, read_reason_uncertain| {
        let mut sample = sample(second, 1, 0);
        sample.arrays[0].read_reason_uncertain = read_reason_uncertain;
        for origin in [Origin::RmwRead, Origin::Unknown] {
            let key = CellKey { member: 1, origin, op: Op::Read };
            let cell = sample.counters.cells.entry(key).or_default();
            (cell.requests, cell.bytes) = (rmw, rmw * 4096);
            rmw /= 2;
        }
        sample
    };
    let mut fold = Fold::new(with(10, 0, false));
    let origins = |snapshot: super::Snapshot| -> Vec<_> {
        let io = &snapshot.arrays[0].members[0].io;
        io.iter().map(|c| (c.origin, c.bytes / 4096)).collect()
    };
    assert_eq!(
        origins(fold.step(with(11, 4, false))),
        [(Origin::Unknown, 2), (Origin::RmwRead, 4)]
    );
    assert_eq!(origins(fold.step(with(12, 12, true))), [(Origin::Unknown, 12)]);
}

#[test]
fn figures_cover_the_interval() {
    let mut fold = Fold::new(submitted(sample(10, 100, 0), 100));
    let snapshot = fold.step(submitted(sample(12, 130, 500), 30));
    assert_eq!(snapshot.interval, Duration::from_secs(2));
    let members = &snapshot.arrays[0].members;
    assert_eq!(members[0].name, "sda");
    let cell = &members[0].io[0];
    assert_eq!((cell.origin, cell.requests, cell.bytes), (Origin::BlockBitmap, 30, 30 * 4096));
    assert_eq!(cell.device.count(), 0, "the one value was counted before");
    assert!(members[1].io.is_empty());
    let disk = members[0].disk.unwrap();
    assert_eq!((disk.requests, disk.in_flight, disk.utilisation), (30, 3, 0.25));
    let task = &snapshot.arrays[0].tasks[0];
    assert_eq!((task.pid, task.comm.as_slice(), task.io[0].bios), (7, &b"cat"[..], 30));
}

#[test]
fn submitted_bytes_include_every_task_of_the_array() {
    let with = |second, requests, bios| {
        let mut sample = submitted(sample(second, requests, 0), bios);
        let counters = &mut sample.counters;
        let task = counters.tasks[&TASK];
        counters.tasks.insert(TaskKey { pid: 8, ..TASK }, task);
        counters.tasks.insert(TaskKey { array: 1, ..TASK }, task);
        let (parity, rmw_read) = (requests * 4096, requests * 8192);
        let cost = CostCounters { parity, rmw_read };
        counters.costs.insert((0, Origin::FileData), cost);
        counters.costs.insert((1, Origin::Journal), cost);
        sample
    };
    let mut fold = Fold::new(with(10, 100, 100));
    let array = fold.step(with(11, 130, 30)).arrays.remove(0);
    assert_eq!(array.submitted, [((TASK.origin, TASK.op), 2 * 30 * 512)].into());
    let (parity, rmw_read) = (30 * 4096, 30 * 8192);
    let cost = CostCounters { parity, rmw_read };
    assert!(array.costs.is_empty(), "under way");
    let array = fold.step(with(12, 130, 0)).arrays.remove(0);
    assert!(array.submitted.is_empty());
    assert_eq!(array.costs, [(Origin::FileData, cost)].into());
    let array = fold.step(with(13, 130, 0)).arrays.remove(0);
    assert!(array.costs.is_empty());
}

#[test]
fn unchanged_counters_give_an_empty_snapshot() {
    let mut fold = Fold::new(sample(10, 100, 0));
    let snapshot = fold.step(sample(11, 100, 0));
    assert!(snapshot.arrays[0].members.iter().all(|m| m.io.is_empty()));
    assert!(snapshot.arrays[0].tasks.is_empty());
}

#[test]
fn a_throttled_cgroup_has_no_pid() {
    let mut fold = Fold::new(sample(10, 100, 0));
    let mut now = sample(11, 100, 0);
    let key = TaskKey { pid: THROTTLED | 77, ..TASK };
    let io = TaskCounters { bios: 1, bytes: 512 };
    now.counters.tasks.insert(key, io);
    assert_eq!(fold.step(now).arrays[0].tasks[0].pid, 0);
}

#[test]
fn a_removed_member_has_no_figures() {
    let mut fold = Fold::new(sample(10, 100, 0));
    let mut gone = sample(11, 100, 0);
    gone.arrays[0].members[1].disk = None;
    assert_eq!(fold.step(gone).arrays[0].members[0].disk, None);
    let mut less = sample(12, 100, 0);
    less.arrays.clear();
    assert!(fold.step(less).arrays.is_empty());
    assert_eq!(fold.step(sample(13, 100, 0)).arrays.len(), 1);
}

#[test]
fn disk_statistics_continue_across_a_reload() {
    let before = Fold::new(sample(1, 10, 100));
    let requests = |mut first: Sample| {
        before.resume_disks(&mut first);
        first.arrays[0].members.iter().map(|m| m.disk.unwrap().requests).collect::<Vec<_>>()
    };
    assert_eq!(requests(sample(1, 30, 300)), [15, 15]);
    // A new device with the same name.
    assert_eq!(requests(sample(1, 3, 300)), [8, 8]);
    let mut renamed = sample(1, 30, 300);
    renamed.arrays[0].members[1].name = "sdb".to_owned();
    assert_eq!(requests(renamed), [15, 35]);
}

#[test]
fn journal_waits_cover_the_interval() {
    let at = |second, checkpoints, wait_ns| {
        let mut sample = sample(second, 0, 0);
        let counted = JournalCounters { checkpoints, wait_ns };
        for array in [0, 7] {
            sample.journals.insert((array, "md0".to_owned()), counted);
        }
        sample
    };
    let mut fold = Fold::new(at(1, 100, 5_000_000_000));
    let snapshot = fold.step(at(2, 103, 5_250_000_000));
    let [stalls] = &snapshot.arrays[0].journal_stalls[..] else {
        panic!("{snapshot:?}");
    };
    assert_eq!(stalls.filesystem, "md0");
    assert_eq!((stalls.checkpoints, stalls.wait), (3, Duration::from_millis(250)));
    let quiet = fold.step(at(3, 103, 5_250_000_000));
    assert!(quiet.arrays[0].journal_stalls.is_empty());
    let mut both = snapshot.clone();
    crate::analysis::window::merge(&mut both, &snapshot);
    crate::analysis::window::merge(&mut both, &quiet);
    assert_eq!(both.arrays[0].journal_stalls[0].checkpoints, 6);
}
