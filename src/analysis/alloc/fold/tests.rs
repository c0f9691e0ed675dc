use super::{AllocFold, MAX_ROWS, add};
use crate::analysis::alloc::fixture;
use crate::analysis::alloc::{
    AllocCounters, AllocShare, AllocTaskKey, Counts, FigureSource, MbCount,
};
use crate::analysis::files::FileId;
use crate::analysis::snapshot::Overhead;

const DEV: u32 = fixture::DEV;

fn share(requests: u64, ns: u64) -> AllocShare {
    AllocShare { requests, nanoseconds: ns, ..AllocShare::default() }
}

fn file(inode: u64) -> FileId {
    FileId { dev: DEV, inode, generation: 1 }
}

fn counters(requests: u64) -> AllocCounters {
    let counts = Counts { requests, ..Counts::default() };
    AllocCounters {
        filesystems: [(DEV, counts)].into(),
        calls: requests * 2,
        lost: 3,
        overhead: Overhead { bpf_ns: requests * 10, bpf_events: requests, ..Overhead::default() },
        ..AllocCounters::default()
    }
}

#[test]
fn an_interval_has_the_increase() {
    let task = |pid| AllocTaskKey { dev: DEV, pid };
    let mut was = counters(100);
    was.tasks.insert(task(7), (share(60, 600), b"a".to_vec()));
    was.tasks.insert(task(8), (share(40, 400), b"b".to_vec()));
    was.files.insert(file(12), share(90, 900));
    let mut now = counters(150);
    now.tasks.insert(task(7), (share(60, 600), b"a".to_vec()));
    now.tasks.insert(task(8), (share(70, 900), b"b2".to_vec()));
    now.tasks.insert(task(9), (share(20, 2000), b"\xff\x1b".to_vec()));
    // Inode 12 was evicted from the table and added again.
    now.files.insert(file(12), share(5, 50));
    now.files.insert(file(13), share(5, 70));
    let other = AllocTaskKey { dev: 1, pid: 1 };
    now.tasks.insert(other, (share(9, 9), b"elsewhere".to_vec()));
    let mut fold = AllocFold::new(was);
    let step = fold.step(now.clone());
    assert_eq!(step.lost, 0);
    assert_eq!((step.overhead.bpf_ns, step.overhead.bpf_events), (500, 50));
    let fs = &step.filesystems[&DEV];
    assert_eq!((fs.dev, fs.counts.requests), (DEV, 50));
    let tasks: Vec<_> =
        fs.tasks.iter().map(|t| (t.pid, t.comm.as_slice(), t.share.requests)).collect();
    assert_eq!(tasks, [(9, &b"\xff\x1b"[..], 20), (8, &b"b2"[..], 30)]);
    let files: Vec<_> = fs.files.iter().map(|f| (f.id.inode, f.share.requests)).collect();
    assert_eq!(files, [(13, 5), (12, 5)]);
    let step = fold.step(now);
    assert!(step.filesystems[&DEV].counts.is_empty());
    assert!(step.filesystems[&DEV].tasks.is_empty());
    assert_eq!(step.filesystems.len(), 1);
}

#[test]
fn tasks_with_the_most_time_are_kept() {
    let mut now = counters(1);
    for pid in 0..MAX_ROWS as u32 + 100 {
        let task = AllocTaskKey { dev: DEV, pid };
        now.tasks.insert(task, (share(1, u64::from(pid)), Vec::new()));
    }
    let step = AllocFold::new(AllocCounters::default()).step(now);
    let tasks = &step.filesystems[&DEV].tasks;
    assert_eq!((tasks.len(), tasks[0].pid), (MAX_ROWS, MAX_ROWS as u32 + 99));
}

#[test]
fn two_intervals_add_up() {
    let (one, two) = (fixture::linear(), fixture::linear());
    let mut sum = one.clone();
    add(&mut sum, &two);
    let (was, now) = (&one.filesystems[0], &sum.filesystems[0]);
    assert_eq!(sum.interval, one.interval * 2);
    assert_eq!(now.counts.requests, 2 * was.counts.requests);
    assert_eq!(now.counts.latency.count(), 2 * was.counts.latency.count());
    assert_eq!(now.tasks.len(), was.tasks.len());
    assert_eq!(now.tasks[0].share.looked, 2 * was.tasks[0].share.looked);
    assert_eq!(now.files.len(), was.files.len());
    assert_eq!(now.reason, None);
    assert_eq!(now.fragmentation, was.fragmentation);
    assert_eq!(sum.overhead.bpf_ns, 2 * one.overhead.bpf_ns);
    let cpu = sum.cpu.as_ref().unwrap();
    assert_eq!((cpu.possible, cpu.allocator), (2 * 8 * 99, 2 * 97));
    assert_eq!(cpu.hottest, Some(("ext4_mb_good_group".to_owned(), 2 * 88)));
    assert_eq!(sum.cpus[&5].possible, 2 * 99);
    assert_eq!((sum.on_cpu.len(), sum.on_cpu[0].2.allocator), (2, 2 * 97));
}

#[test]
fn possible_samples_include_idle_intervals() {
    let (busy, idle) = (fixture::linear(), fixture::empty());
    for (first, second) in [(&busy, &idle), (&idle, &busy)] {
        let mut sum = first.clone();
        add(&mut sum, second);
        assert_eq!(sum.cpus[&5].possible, 2 * 99);
        assert_eq!(sum.cpus[&5].allocator, 97);
        assert_eq!(sum.on_cpu[0].2.possible, 2 * 99);
        // Only one interval has allocator samples: its hottest function is kept.
        assert_eq!(sum.cpu.as_ref().unwrap().hottest, busy.cpu.as_ref().unwrap().hottest);
    }
    // The hottest functions differ: the sum has none.
    let mut sum = fixture::livelock();
    add(&mut sum, &busy);
    assert_eq!(sum.cpu.unwrap().hottest, None);
}

#[test]
fn removed_filesystems_and_lost_sources_are_kept() {
    let (mut one, mut two) = (fixture::linear(), fixture::linear());
    two.filesystems[0].dev += 1;
    two.filesystems[0].name = "md4".to_owned();
    one.filesystems[0].members = vec![("sda".to_owned(), 1, 4096, fixture::hist(&[(9, 1)]))];
    two.sources.insert("groups", FigureSource::None);
    add(&mut one, &two);
    let names: Vec<_> = one.filesystems.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["md3", "md4"]);
    assert_eq!(one.filesystems[0].members.len(), 1);
    assert_eq!(one.sources["groups"], FigureSource::Fentry);
}

#[test]
fn counts_of_a_hook_and_of_mb_stats_are_not_mixed() {
    let hooked = fixture::linear();
    let mut by_ext4 = fixture::linear();
    by_ext4.sources.insert("groups", FigureSource::MbStats);
    for (mut one, two) in [(hooked.clone(), &by_ext4), (by_ext4.clone(), &hooked)] {
        add(&mut one, two);
        assert_eq!(one.sources["groups"], FigureSource::Fentry);
        let looks = hooked.filesystems[0].counts.looks();
        assert_eq!(one.filesystems[0].counts.looks(), looks);
    }
    let mut sum = by_ext4.clone();
    add(&mut sum, &by_ext4);
    assert_eq!(sum.sources["groups"], FigureSource::MbStats);
}

#[test]
fn mb_stats_are_added_only_if_both_intervals_have_them() {
    let mut one = fixture::linear();
    let two = one.clone();
    one.filesystems[0].mb_stats = Some(MbCount { searches: 2, groups: 9 });
    let mut sum = one.clone();
    add(&mut sum, &one);
    let both = MbCount { searches: 4, groups: 18 };
    assert_eq!(sum.filesystems[0].mb_stats, Some(both));
    // One interval has no mb_stats.
    for (mut sum, newer) in [(one.clone(), &two), (two.clone(), &one)] {
        add(&mut sum, newer);
        assert_eq!(sum.filesystems[0].mb_stats, None);
    }
}
