use jiff::Timestamp;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{AccountPart, Accounts, CauseKind, Severity, Verdict, Worst};
use crate::advice::slow::MdSettings;
use crate::analysis::around::{
    Around, Asleep, DeviceIo, FullPool, HungTask, Neighbour, SharedDisk,
};
use crate::analysis::fixture;
use crate::analysis::snapshot::{ArraySnapshot, Snapshot, TaskIo, TaskSnapshot};
use crate::analysis::window::Window;
use crate::origin::{Op, Origin};

mod asleep;
mod several;

/// A second of a RAID 5 of `disks`: `writes` by postgres, each of `array_ms` at the array and of
/// `disk_ms` on the members.
fn second(disks: usize, writes: u64, array_ms: u64, disk_ms: u64) -> ArraySnapshot {
    let cell = || fixture::cell(Origin::FileData, Op::Write, writes, writes * 8192, disk_ms * 1000);
    let mut array = fixture::array((0..disks).map(|i| fixture::member(i, vec![cell()])).collect());
    array.info.name = "md0".to_owned();
    array.info.level = if disks == 1 { "single" } else { "raid5" }.to_owned();
    for member in &mut array.members {
        if let Some(disk) = &mut member.disk {
            disk.in_flight = 0;
        }
    }
    array.tasks = vec![task("postgres", writes, writes * 8192)];
    array.around = Some(Around {
        io: DeviceIo {
            requests: [0, writes],
            bytes: [0, writes * 8192],
            ms: [0, writes * array_ms],
            in_flight: 0,
        },
        ..Around::default()
    });
    array
}

fn task(comm: &str, bios: u64, bytes: u64) -> TaskSnapshot {
    TaskSnapshot {
        pid: 7,
        comm: comm.as_bytes().to_vec(),
        cgroup: None,
        role: None,
        io: vec![TaskIo { origin: Origin::FileData, op: Op::Write, bios, bytes }],
        dirtied: Vec::new(),
        dirtied_files: Default::default(),
    }
}

struct Play {
    window: Window,
    at: i64,
}

impl Play {
    fn new() -> Self {
        Self { window: Window::new(Duration::from_secs(10)), at: 1_800_000_000 }
    }

    /// Plays `seconds` of `array`, and returns the last verdict.
    fn for_seconds(&mut self, seconds: i64, array: &ArraySnapshot) -> Verdict {
        let mut last = None;
        for _ in 0..seconds {
            self.at += 1;
            let mut snapshot = snapshot(array.clone(), self.at);
            self.window.evaluate(&mut snapshot);
            last = snapshot.arrays[0].verdict.take();
        }
        let verdict = last.unwrap();
        let sum: u64 = verdict.account.iter().map(|p| p.us).sum();
        assert!(verdict.account.is_empty() || sum == verdict.waiting.us, "{verdict:?}");
        verdict
    }

    /// The same after 20 healthy seconds.
    fn after_calm(array: &ArraySnapshot) -> Verdict {
        let mut play = Self::new();
        let calm = second(array.members.len(), 60, 10, 8);
        assert_eq!(play.for_seconds(20, &calm).severity, Severity::None);
        play.for_seconds(4, array)
    }
}

fn snapshot(array: ArraySnapshot, at: i64) -> Snapshot {
    let mut snapshot = fixture::snapshot(array);
    snapshot.time = Timestamp::from_second(at).unwrap();
    snapshot.interval = Duration::from_secs(1);
    snapshot
}

fn around(array: &mut ArraySnapshot) -> &mut Around {
    array.around.as_mut().unwrap()
}

#[track_caller]
fn is(verdict: &Verdict, severity: Severity, kind: CauseKind, accused: &[&str], words: &[&str]) {
    assert_eq!((verdict.severity, verdict.cause.kind), (severity, kind), "{verdict:#?}");
    assert_eq!(verdict.accused, accused, "{verdict:#?}");
    for word in words {
        assert!(verdict.sentence.contains(word), "{word}: {verdict:#?}");
    }
}

/// Without a calm time, the task that does most is no better cause than a limit that holds it.
#[test]
fn a_limit_is_a_better_cause_than_the_largest_load() {
    let mut array = second(4, 60, 150, 140);
    let mut play = Play::new();
    let verdict = play.for_seconds(4, &array);
    is(&verdict, Severity::Slow, CauseKind::Load, &[], &["postgres does 100 %"]);
    let mut limit = crate::analysis::hotspot::find(&array, Duration::from_secs(5));
    limit.kind = crate::analysis::hotspot::HotspotKind::Queued;
    limit.members.clear();
    limit.headline = "cgroup /db is held back by its I/O limit".to_owned();
    array.hotspot = Some(limit);
    super::lead(&mut array, verdict);
    let verdict = array.verdict.unwrap();
    is(&verdict, Severity::Slow, CauseKind::CgroupLimit, &[], &["cgroup /db is held back"]);
    assert!(verdict.actions[0].text.contains("io.max"), "{verdict:#?}");
    assert!(matches!(verdict.account[..], [AccountPart { part: "held", .. }]), "{verdict:#?}");
}

/// The task that dirtied what writeback writes is named for seconds.
#[test]
fn a_task_is_remembered() {
    let with = |name: &str, blocks: u64| {
        let mut array = second(4, 60, 90, 80);
        array.tasks.push(task(name, 60, blocks << 16));
        array
    };
    let mut worker = with("kworker/u8:1+flush-9:0", 9000);
    worker.tasks[1].role = Some("writeback of md0".to_owned());
    let mut play = Play::new();
    play.for_seconds(20, &second(4, 60, 10, 8));
    is(
        &play.for_seconds(3, &with("dump", 300)),
        Severity::Slow,
        CauseKind::Load,
        &[],
        &["dump does"],
    );
    is(&play.for_seconds(3, &worker), Severity::Slow, CauseKind::Load, &[], &["dump does"]);
    is(
        &play.for_seconds(6, &worker),
        Severity::Slow,
        CauseKind::Load,
        &[],
        &["writeback of md0 does"],
    );
}

/// A wait that has grown too slowly for the last minutes to show it.
#[test]
fn slow_compared_with_the_same_hour_of_the_day_before() {
    let mut play = Play::new();
    let calm = second(4, 60, 8, 6);
    play.for_seconds(60, &calm);
    play.at += 86_400 - 60;
    let slow = second(4, 60, 45, 40);
    for _ in 0..2 {
        // At first nothing is known of the minutes before; then they are as slow.
        let verdict = play.for_seconds(320, &slow);
        let words = ["writes to md0 take 45ms (8ms at this hour yesterday): "];
        assert_eq!(verdict.severity, Severity::Slow, "{verdict:?}");
        assert!(verdict.sentence.starts_with(words[0]), "{verdict:?}");
        assert_eq!(verdict.waiting.before_us, None);
    }
    // An hour that is as slow as the day before is not.
    play.at += 86_400 - 640;
    assert_eq!(play.for_seconds(30, &slow).severity, Severity::None);
}

#[test]
fn one_slow_disk_is_accused() {
    let mut array = second(4, 12, 90, 8);
    array.members[2].io = vec![fixture::cell(Origin::FileData, Op::Write, 12, 12 * 8192, 80_000)];
    let verdict = Play::after_calm(&array);
    is(
        &verdict,
        Severity::Slow,
        CauseKind::Member,
        &["loop3"],
        &["writes to md0 take 90ms", "loop3"],
    );
    assert_eq!(verdict.waiting.tasks, ["postgres"]);
    assert!(verdict.actions[0].to_string().contains("smartctl -a /dev/loop3"));
    // A disk alone is compared with its own past.
    let verdict = Play::after_calm(&second(1, 10, 100, 95));
    is(&verdict, Severity::Slow, CauseKind::Member, &["loop1"], &["(10ms before"]);
}

/// dm-delay, dm-integrity and others take time above the disk.
#[test]
fn the_time_of_a_mapped_member_is_that_of_the_mapped_device() {
    let mut array = second(4, 12, 90, 8);
    let slow = DeviceIo { requests: [0, 12], ms: [0, 12 * 80], ..DeviceIo::default() };
    around(&mut array).mapped = BTreeMap::from([("loop3".to_owned(), slow)]);
    is(
        &Play::after_calm(&array),
        Severity::Slow,
        CauseKind::Member,
        &["loop3"],
        &["loop3 answers in 80ms"],
    );
}

#[test]
fn several_slow_disks_are_accused_with_their_figures_unless_they_are_most() {
    let mut array = second(4, 12, 120, 8);
    let slow = |ms: u64| vec![fixture::cell(Origin::FileData, Op::Write, 12, 12 * 8192, ms * 1000)];
    (array.members[1].io, array.members[2].io) = (slow(60), slow(80));
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Member, &["loop2", "loop3"], &["loop2 in", "loop3 in"]);
    array.members[0].io = slow(70);
    assert!(Play::after_calm(&array).accused.is_empty());
}

#[test]
fn a_task_that_does_more_than_before_is_the_cause_although_the_disks_do_no_more() {
    let mut array = second(4, 3, 600, 130);
    array.tasks.push(task("export", 30, 30 << 16));
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Load, &[], &["export does", "more than before"]);
}

#[test]
fn a_disk_with_more_work_is_not_accused() {
    let mut array = second(4, 12, 90, 8);
    let io = fixture::cell(Origin::FileData, Op::Write, 300, 300 * 65536, 80_000);
    array.members[2].io = vec![io];
    array.tasks.push(task("export", 300, 300 * 65536));
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Load, &[], &["export"]);
    assert_eq!(verdict.cause.name, "export");
}

#[test]
fn all_disks_slow_is_what_they_share() {
    let verdict = Play::after_calm(&second(4, 10, 110, 100));
    is(&verdict, Severity::Slow, CauseKind::Path, &[], &["all 4 members"]);
}

#[test]
fn a_rebuild_is_the_cause() {
    let mut array = second(5, 8, 150, 90);
    let facts = around(&mut array);
    facts.sync_action = Some("recover".to_owned());
    facts.settings = Some(MdSettings {
        sync_speed_max: Some("200000 (system)".to_owned()),
        ..MdSettings::default()
    });
    array.info.health = Some("degraded, recover 7.5 %".to_owned());
    for (slot, member) in array.members.iter_mut().enumerate() {
        let op = if slot == 4 { Op::Write } else { Op::Read };
        member.io.push(fixture::cell(Origin::Resync, op, 100, 100 * 65536, 60_000));
    }
    // The new disk takes longer, as its queue has only writes.
    array.members[4].io[0] = fixture::cell(Origin::FileData, Op::Write, 8, 65536, 300_000);
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Resync, &[], &["rebuild", "7.5 %", "(10ms before"]);
    assert!(
        verdict.actions[0].to_string().contains("echo 10000 > /sys/block/md0/md/sync_speed_max")
    );
    assert!(verdict.actions[0].to_string().contains("Undone with: echo system"), "{verdict:?}");
    let parts: Vec<_> = verdict.account.iter().map(|p| p.part).collect();
    assert!(parts.contains(&"device_resync"), "{parts:?}");
}

#[test]
fn a_neighbour_on_the_disk_is_named_and_the_disk_is_not() {
    let mut array = second(3, 8, 200, 10);
    array.members[2].io = vec![fixture::cell(Origin::FileData, Op::Write, 8, 65536, 190_000)];
    let io = |requests, bytes| DeviceIo {
        requests: [0, requests],
        bytes: [0, bytes],
        ..DeviceIo::default()
    };
    around(&mut array).disks = vec![SharedDisk {
        member: "loop3".to_owned(),
        disk: "vdc".to_owned(),
        io: io(208, 14 << 20),
        others: vec![Neighbour {
            device: "vdc2".to_owned(),
            user: "copy (pid 77)".to_owned(),
            io: io(200, 13 << 20),
        }],
    }];
    let verdict = Play::after_calm(&array);
    let words = ["vdc2 (copy (pid 77))", "loop3 shares"];
    is(&verdict, Severity::Slow, CauseKind::Neighbour, &[], &words);
    assert_eq!(verdict.cause.name, "vdc2");
    // Without the partition, the rest of the disk's work is of the disk's own users.
    around(&mut array).disks[0].others.clear();
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Neighbour, &[], &["IO that is not md0's", "disk vdc"]);
    // A whole disk is read behind the array, which has no reads.
    let mut array = second(3, 8, 200, 10);
    array.members[2].io.push(fixture::cell(Origin::FileData, Op::Read, 90, 90 << 19, 190_000));
    let verdict = Play::after_calm(&array);
    is(
        &verdict,
        Severity::Slow,
        CauseKind::Neighbour,
        &[],
        &["IO that is not md0's", "disk loop3"],
    );
    around(&mut array).openers = BTreeMap::from([("loop3".to_owned(), "dd (pid 3)".to_owned())]);
    let mut verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Neighbour, &[], &["not md0's (open in dd (pid 3))"]);
    verdict.hide_tasks();
    assert!(!verdict.sentence.contains("dd"), "{verdict:?}");
}

#[test]
fn time_in_md_is_not_blamed_on_the_disks() {
    let mut array = second(4, 20, 120, 8);
    is(&Play::after_calm(&array), Severity::Slow, CauseKind::Md, &[], &["in md"]);
    let facts = around(&mut array);
    facts.stripe_cache_full = true;
    let entries = Some("8192".to_owned());
    facts.settings = Some(MdSettings { stripe_cache_size: entries, ..MdSettings::default() });
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Md, &[], &["stripe cache"]);
    assert!(
        verdict.actions[0].to_string().contains("echo 16384 >"),
        "not a smaller one: {verdict:?}"
    );
}

#[test]
fn the_barrier_of_a_resync_is_not_only_md() {
    let mut array = second(4, 6, 60, 8);
    array.info.level = "raid10".to_owned();
    around(&mut array).sync_action = Some("recover".to_owned());
    array.members[2].io.push(fixture::cell(Origin::Resync, Op::Read, 1, 65536, 9_000));
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Resync, &[], &["holds IO at its barrier (84 %"]);
}

fn asleep(comm: &str, ms: &[(&str, u64)], sleeps: u64) -> Asleep {
    let ms = ms.iter().map(|(function, ms)| ((*function).to_owned(), *ms)).collect();
    Asleep { comm: comm.to_owned(), is_kernel: comm.starts_with("jbd2/"), ms, sleeps }
}

/// A database that has just begun, on a disk that has become slow. Minutes ago, a copy made all
/// members slow for a while.
#[test]
fn more_work_does_not_slow_one_member_down() {
    let mut play = Play::new();
    play.for_seconds(5, &second(4, 400, 20, 400));
    let mut calm = second(4, 4, 5, 4);
    calm.tasks.clear();
    calm.tasks.push(task("mount", 4, 4 * 8192));
    play.for_seconds(60, &calm);
    play.for_seconds(10, &second(4, 4, 5, 4));
    let mut array = second(4, 8, 150, 4);
    array.members[1].io = vec![fixture::cell(Origin::FileData, Op::Write, 8, 8 * 8192, 250_000)];
    let verdict = play.for_seconds(4, &array);
    is(&verdict, Severity::Slow, CauseKind::Member, &["loop2"], &["loop2 answers in"]);
}

/// A read of what a missing member held is a read of each other member.
#[test]
fn a_member_that_went_away_is_named() {
    let mut play = Play::new();
    play.for_seconds(20, &second(4, 60, 10, 8));
    let mut array = second(4, 60, 90, 80);
    array.members[1].health = Some("missing".to_owned());
    let verdict = play.for_seconds(4, &array);
    let words = ["loop2 is missing (md0 is degraded): the other members do its work"];
    is(&verdict, Severity::Slow, CauseKind::Md, &[], &words);
    array.members.remove(1);
    // One of the others is a little behind.
    let mut uneven = array.clone();
    let slow = fixture::cell(Origin::FileData, Op::Write, 60, 60 * 8192, 200_000);
    uneven.members[1].io = vec![slow];
    is(&play.for_seconds(4, &uneven), Severity::Slow, CauseKind::Md, &[], &["loop2 is missing"]);
    // It was missing before, too.
    let mut play = Play::new();
    let mut calm = second(4, 60, 10, 8);
    calm.members.remove(1);
    play.for_seconds(20, &calm);
    is(&play.for_seconds(4, &array), Severity::Slow, CauseKind::Path, &[], &["all 3 members"]);
}

/// A drive of which one path is slow.
#[test]
fn a_slow_path_is_named() {
    let mut array = second(2, 60, 150, 8);
    array.members[1].io = vec![fixture::cell(Origin::FileData, Op::Write, 60, 60 * 8192, 145_000)];
    let path = |ms: u64| DeviceIo { requests: [0, 30], ms: [0, 30 * ms], ..DeviceIo::default() };
    let paths = |one, other| {
        [("nvme0c0n1".to_owned(), path(one)), ("nvme0c1n1".to_owned(), path(other))].into()
    };
    around(&mut array).paths.insert("loop2".to_owned(), paths(2, 280));
    let words = ["path nvme0c1n1 of loop2 takes 280ms, its other paths 2ms or less"];
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Path, &[], &words);
    assert_eq!(verdict.cause.name, "nvme0c1n1");
    assert!(verdict.actions[0].text.contains("not the drive"), "{:?}", verdict.actions);
    // Nothing is known of the time before. The other path shows that 60 ms are not usual.
    let mut early = second(2, 60, 60, 8);
    for member in &mut early.members {
        member.io = vec![fixture::cell(Origin::FileData, Op::Write, 60, 60 * 8192, 58_000)];
    }
    around(&mut early).paths.insert("loop2".to_owned(), paths(2, 118));
    is(&Play::new().for_seconds(4, &early), Severity::Slow, CauseKind::Path, &[], &["nvme0c1n1"]);
    around(&mut early).paths.insert("loop2".to_owned(), paths(58, 62));
    let verdict = Play::new().for_seconds(4, &early);
    assert_eq!(verdict.severity, Severity::None, "{verdict:?}");
    // The slow paths of both drives go through one port.
    for member in ["loop1", "loop2"] {
        around(&mut early).paths.insert(member.to_owned(), paths(2, 118));
    }
    let words = ["paths are slow: nvme0c1n1 (118ms) and nvme0c1n1 (118ms)"];
    is(&Play::new().for_seconds(4, &early), Severity::Slow, CauseKind::Path, &[], &words);
}

/// The few requests that complete fast do not say that the time is in md.
#[test]
fn requests_in_a_queue_are_in_the_device() {
    let mut array = second(4, 10, 400, 10);
    let mut worker = task("kworker/u8:1+xfs-cil", 100, 100 << 20);
    worker.role = Some("kernel worker".to_owned());
    array.tasks.push(worker);
    for disk in array.members.iter_mut().filter_map(|m| m.disk.as_mut()) {
        disk.in_flight = 40;
    }
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Slow, CauseKind::Load, &[], &["writeback of md0 does"]);
    array.tasks.pop();
    assert_ne!(Play::after_calm(&array).cause.kind, CauseKind::Md);
}

#[test]
fn a_hang_is_seen_while_nothing_completes() {
    let mut array = second(4, 0, 0, 0);
    array.members.iter_mut().for_each(|m| m.io.clear());
    array.tasks.clear();
    around(&mut array).io.in_flight = 1;
    if let Some(disk) = &mut array.members[1].disk {
        (disk.in_flight, disk.requests) = (3, 0);
    }
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Stalled, CauseKind::Member, &["loop2"], &["3 requests in flight"]);
    around(&mut array).suspended = vec!["loop2".to_owned()];
    is(&Play::after_calm(&array), Severity::Stalled, CauseKind::Member, &["loop2"], &["suspended"]);
    // md holds the writes: they are in flight nowhere.
    array.members[1].disk.as_mut().unwrap().in_flight = 0;
    let hung = |function: &str, ms| HungTask {
        pid: 7,
        comm: "postgres".to_owned(),
        ms,
        function: function.to_owned(),
    };
    let facts = around(&mut array);
    facts.io.in_flight = 0;
    facts.suspended = vec!["md0".to_owned()];
    facts.hung = vec![hung("md_handle_request", 14_000)];
    let verdict = Play::after_calm(&array);
    let words = ["postgres (pid 7) has waited 14 s for md0", "md0 is suspended"];
    is(&verdict, Severity::Stalled, CauseKind::Md, &[], &words);
    let facts = around(&mut array);
    (facts.suspended, facts.hung) = (Vec::new(), vec![hung("percpu_rwsem_wait", 5_000)]);
    is(&Play::after_calm(&array), Severity::Stalled, CauseKind::Filesystem, &[], &["frozen"]);
    // Without the permission to read the stack.
    around(&mut array).hung = vec![hung("", 5_000)];
    is(&Play::after_calm(&array), Severity::Stalled, CauseKind::Filesystem, &[], &["frozen"]);
    // Asleep in something else, while the array serves others.
    let mut array = second(4, 60, 10, 8);
    around(&mut array).hung = vec![hung("rpc_wait_bit_killable", 60_000)];
    assert_eq!(Play::after_calm(&array).severity, Severity::None);
}

/// The array has nothing to do, because the pool above it holds the writes.
#[test]
fn a_thin_pool_without_free_blocks() {
    let mut array = second(4, 0, 0, 0);
    array.members.iter_mut().for_each(|m| m.io.clear());
    array.tasks.clear();
    let pool = |ms| vec![FullPool { name: "vg-pool-tpool".to_owned(), ms }];
    around(&mut array).full_pools = pool(1_000);
    assert_eq!(Play::after_calm(&array).severity, Severity::None);
    around(&mut array).full_pools = pool(9_000);
    let words = ["writes have waited 9 s", "vg-pool-tpool has no free data blocks"];
    let verdict = Play::after_calm(&array);
    is(&verdict, Severity::Stalled, CauseKind::Filesystem, &[], &words);
    assert!(verdict.actions[0].text.contains("lvextend"), "{:?}", verdict.actions);
}

#[test]
fn nobody_waits_for_writeback() {
    let mut array = second(3, 100, 500, 90);
    array.tasks[0].role = Some("writeback of md0".to_owned());
    let mut play = Play::new();
    assert_eq!(play.for_seconds(60, &array).severity, Severity::None);
    // Nor for a few requests.
    array.tasks[0].io[0].bios = 99;
    array.tasks.push(task("ls", 1, 4096));
    array.around.as_mut().unwrap().io.ms = [0, 1000];
    assert_eq!(play.for_seconds(60, &array).severity, Severity::None);
}

#[test]
fn without_a_calm_time_only_long_waits_are_slow() {
    let mut play = Play::new();
    assert_eq!(play.for_seconds(60, &second(4, 20, 50, 40)).severity, Severity::None);
    let mut play = Play::new();
    let verdict = play.for_seconds(3, &second(4, 5, 400, 390));
    assert_eq!(verdict.severity, Severity::Slow);
    assert_eq!(verdict.waiting.before_us, None);
    // The kernel has counted since the array was assembled.
    let mut array = second(4, 20, 50, 40);
    let facts = around(&mut array);
    facts.earlier = DeviceIo { requests: [0, 200_000], ms: [0, 400_000], ..DeviceIo::default() };
    let verdict = Play::new().for_seconds(3, &array);
    is(&verdict, Severity::Slow, CauseKind::Load, &[], &["take 50ms (2ms on average until now)"]);
    around(&mut array).earlier.requests = [0, 60_000];
    assert_eq!(Play::new().for_seconds(3, &array).severity, Severity::None);
}

/// A database of few commits.
#[test]
fn few_waits_must_be_longer() {
    let severity = |ms| Play::after_calm(&second(4, 2, ms, ms)).severity;
    assert_eq!((severity(60), severity(90)), (Severity::None, Severity::Slow));
}

#[test]
fn the_time_before_is_kept_through_a_long_incident() {
    let mut play = Play::new();
    play.for_seconds(60, &second(4, 60, 10, 8));
    let verdict = play.for_seconds(120, &second(4, 10, 110, 100));
    assert_eq!((verdict.severity, verdict.waiting.before_us), (Severity::Slow, Some(10_000)));
    let since = Timestamp::from_second(play.at - 120).unwrap();
    assert_eq!(verdict.waiting.since, Some(since.to_string()));
    assert_eq!(play.for_seconds(4, &second(4, 60, 10, 8)).severity, Severity::None);
}

#[test]
fn the_headline_says_what_the_verdict_says() {
    let mut accounts = Window::new(Duration::from_secs(10));
    let mut play = |array: ArraySnapshot, at| {
        let mut snapshot = snapshot(array, at);
        accounts.evaluate(&mut snapshot);
        snapshot.arrays.remove(0)
    };
    for at in 0..20 {
        play(second(4, 60, 10, 8), at);
    }
    let array = (20..24).map(|at| play(second(4, 10, 110, 100), at)).last().unwrap();
    let hotspot = array.hotspot.unwrap();
    assert!(hotspot.is_warning());
    assert_eq!(hotspot.headline, array.verdict.unwrap().sentence);
}

#[test]
fn a_time_that_is_judged_again_gets_the_same_verdict() {
    let states = |at: i64| if at < 30 { second(4, 60, 10, 8) } else { second(4, 10, 110, 100) };
    let mut accounts = Accounts::default();
    let mut judge = |at| {
        let mut snapshot = snapshot(states(at), at);
        accounts.judge(&mut snapshot);
        snapshot.arrays[0].verdict.take().unwrap()
    };
    let all: Vec<Verdict> = (0..40).map(&mut judge).collect();
    for at in [12, 35, 31, 39] {
        assert_eq!(judge(at), all[at as usize]);
    }
}

#[test]
fn a_period_has_its_worst_verdict_and_says_when() {
    let verdict = |kind, us, sentence: &str| Verdict {
        severity: if kind == CauseKind::None { Severity::None } else { Severity::Slow },
        cause: super::Cause { kind, ..Default::default() },
        waiting: super::Waiting { us, ..Default::default() },
        sentence: sentence.to_owned(),
        ..Verdict::default()
    };
    let mut worst = Worst::default();
    for (at, verdict) in [
        (1, verdict(CauseKind::None, 10, "")),
        (2, verdict(CauseKind::Member, 50, "vdc")),
        (3, verdict(CauseKind::Member, 40, "vdb")),
        (4, verdict(CauseKind::Unexplained, 90, "unknown")),
        (5, verdict(CauseKind::None, 10, "")),
    ] {
        let mut snapshot = snapshot(second(4, 60, 10, 8), at);
        snapshot.arrays[0].verdict = Some(verdict);
        worst.add(&snapshot);
    }
    let mut whole = second(4, 60, 10, 8);
    whole.hotspot = Some(crate::analysis::hotspot::find(&whole, Duration::from_secs(5)));
    worst.lead(std::slice::from_mut(&mut whole));
    let sentence = whole.verdict.unwrap().sentence;
    assert_eq!(sentence, "00:00:01Z to 00:00:04Z (3 of 5 s slow): vdc");
    assert_eq!(whole.hotspot.unwrap().headline, sentence);
}

proptest! {
    #[test]
    fn no_figures_panic(
        rows in prop::collection::vec((any::<[u64; 6]>(), 0u64..4, any::<bool>()), 1..20),
    ) {
        let mut play = Play::new();
        for ([n, ms, bytes, requests, a, b], disks, is_hung) in rows {
            let mut array = second(disks as usize, 3, 5, 7);
            array.tasks = vec![task("x", a, b)];
            let facts = around(&mut array);
            let (requests, bytes) = ([n, requests], [bytes, a]);
            facts.io = DeviceIo { requests, bytes, ms: [ms, b], in_flight: n as u32 };
            let (member, disk) = ("loop1".into(), "vda".into());
            facts.disks = vec![SharedDisk { member, disk, io: facts.io, others: Vec::new() }];
            facts.sync_action = is_hung.then(|| "check".to_owned());
            if is_hung {
                facts.hung = vec![HungTask { ms: n, ..HungTask::default() }];
            }
            let verdict = play.for_seconds(1, &array);
            let has_cause = verdict.cause.kind != CauseKind::None;
            let has_words = !verdict.sentence.is_empty();
            prop_assert_eq!(verdict.severity > Severity::None, has_words && has_cause);
        }
    }
}
