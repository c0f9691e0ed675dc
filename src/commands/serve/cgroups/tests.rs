use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::{CgroupFigures, CgroupInterval, CgroupTotals, OTHER, RETENTION, UNKNOWN, figures};
use crate::analysis::around::Around;
use crate::analysis::cube::Cube;
use crate::analysis::fixture::{array, snapshot};
use crate::analysis::snapshot::{Snapshot, TaskIo, TaskSnapshot};
use crate::analysis::verdict::{CauseKind, Verdict};
use crate::origin::{Op, Origin};

const SECOND: Duration = Duration::from_secs(1);
const A: &str = "/kubepods/burstable/pod1/a";
const B: &str = "/system.slice/backup.service";

fn io(origin: Origin, op: Op, bytes: u64) -> TaskIo {
    TaskIo { origin, op, bios: 1, bytes }
}

fn task(comm: &str, cgroup: Option<&str>, io: Vec<TaskIo>, dirtied: Vec<TaskIo>) -> TaskSnapshot {
    TaskSnapshot {
        pid: 1,
        comm: comm.into(),
        cgroup: cgroup.map(str::to_owned),
        role: None,
        io,
        dirtied,
        dirtied_files: Default::default(),
    }
}

/// A second of two cgroups, of the kernel, and of a task without a known cgroup.
fn second() -> Snapshot {
    use Op::{Read, Write};
    let mut array = array(Vec::new());
    let mut writeback = task("kworker/u8:2", Some("/"), Vec::new(), Vec::new());
    writeback.role = Some("writeback of md127".to_owned());
    writeback.io = vec![io(Origin::FileData, Write, 1000)];
    array.tasks = vec![
        writeback,
        task("postgres", Some(A), vec![io(Origin::FileData, Read, 10)], Vec::new()),
        task(
            "postgres",
            Some(A),
            vec![io(Origin::FileData, Read, 5), io(Origin::FileData, Write, 7)],
            vec![io(Origin::FileData, Write, 300), io(Origin::Unknown, Write, 40)],
        ),
        task("tar", Some(B), vec![io(Origin::FileData, Write, 900)], Vec::new()),
        task("short", None, vec![io(Origin::FileData, Write, 3)], Vec::new()),
    ];
    let slept = [(Some(A), 700_000), (Some(B), 20_000), (None, 1)];
    let slept_us = slept.map(|(cgroup, us)| (cgroup.map(str::to_owned), us)).into();
    array.around = Some(Around { slept_us, ..Around::default() });
    snapshot(array)
}

fn with_verdict(mut snapshot: Snapshot, kind: CauseKind, name: &str) -> Snapshot {
    let mut verdict = Verdict::default();
    (verdict.cause.kind, verdict.cause.name) = (kind, name.to_owned());
    snapshot.arrays[0].verdict = Some(verdict);
    snapshot
}

fn of<'a>(interval: &'a CgroupInterval, cgroup: &str) -> &'a CgroupFigures {
    &interval[&("md127".to_owned(), cgroup.to_owned())]
}

#[test]
fn each_figure_is_in_the_cgroup_of_its_task() {
    let second = with_verdict(second(), CauseKind::Resync, "md127");
    let interval = figures(&second, &second);
    assert_eq!(interval.len(), 4);
    let a = of(&interval, A);
    assert_eq!(a.submitted, [(Op::Read, 15), (Op::Write, 7)].into());
    assert_eq!(a.dirtied, [300, 40]);
    assert_eq!(a.waiting_us, [(CauseKind::Resync, 700_000)].into());
    assert!(a.made_wait_us.is_empty());
    // Writeback is the kernel's, in its root cgroup.
    assert_eq!(of(&interval, "/").submitted, [(Op::Write, 1000)].into());
    let unknown = of(&interval, UNKNOWN);
    assert_eq!((unknown.submitted[&Op::Write], unknown.waiting_us[&CauseKind::Resync]), (3, 1));
    // Nothing is slow.
    let calm = figures(&super::tests::second(), &second);
    assert_eq!(of(&calm, A).waiting_us, [(CauseKind::None, 700_000)].into());
}

/// The load's tasks are in two cgroups: each has its share, and no microsecond is lost.
#[test]
fn a_load_makes_others_wait_in_proportion_to_its_work() {
    let mut second = with_verdict(second(), CauseKind::Load, "tar");
    let interval = figures(&second, &second);
    assert_eq!(of(&interval, A).made_wait_us, [(B.to_owned(), 700_000)].into());
    assert_eq!(of(&interval, B).made_wait_us, [(B.to_owned(), 20_000)].into());
    // A task of the same name elsewhere, and nothing in the interval itself.
    let mut window = second.clone();
    let other = task("tar", None, vec![io(Origin::FileData, Op::Read, 450)], Vec::new());
    window.arrays[0].tasks.push(other);
    second.arrays[0].tasks.clear();
    let interval = figures(&second, &window);
    let expected = [(B.to_owned(), 466_666), (UNKNOWN.to_owned(), 233_334)];
    assert_eq!(of(&interval, A).made_wait_us, expected.into());
    assert_eq!(of(&interval, A).waiting_us[&CauseKind::Load], 700_000);
    // Writeback works for others, and an ended task has no cgroup that is known.
    for name in ["writeback of md127", "kworker/u8:2", "an ended task"] {
        let second = with_verdict(second.clone(), CauseKind::Load, name);
        assert!(figures(&second, &window).values().all(|f| f.made_wait_us.is_empty()), "{name}");
    }
}

#[test]
fn names_that_look_alike_are_one_series() {
    let mut second = second();
    second.arrays[0].tasks.clear();
    for path in ["/a\n\u{202e}\"b", "/a\n\u{200b}\"b", "/日本"] {
        let io = vec![io(Origin::FileData, Op::Read, 8)];
        second.arrays[0].tasks.push(task("x", Some(path), io, Vec::new()));
    }
    let interval = figures(&second, &second);
    assert_eq!(of(&interval, "/a\\x0a\u{fffd}\"b").submitted[&Op::Read], 16);
    assert_eq!(of(&interval, "/日本").submitted[&Op::Read], 8);
}

/// Sums over all cgroups: bytes submitted, bytes dirtied, µs waited, µs waited for loads.
fn sums<'a>(all: impl IntoIterator<Item = &'a CgroupFigures>) -> [u64; 4] {
    let mut sums = [0; 4];
    for of in all {
        sums[0] += of.submitted.values().sum::<u64>();
        sums[1] += of.dirtied.iter().sum::<u64>();
        sums[2] += of.waiting_us.values().sum::<u64>();
        sums[3] += of.made_wait_us.values().sum::<u64>();
    }
    sums
}

fn names(totals: &CgroupTotals) -> Vec<&str> {
    let mut names: Vec<&str> = totals.sums.keys().map(|key| &key.1[..]).collect();
    names.dedup();
    names
}

fn one(cgroup: &str, bytes: u64, by: &str) -> CgroupInterval {
    let figures = CgroupFigures {
        submitted: [(Op::Read, bytes)].into(),
        dirtied: [bytes, 0],
        waiting_us: [(CauseKind::Load, bytes)].into(),
        made_wait_us: [(by.to_owned(), bytes)].into(),
    };
    [(("md0".to_owned(), cgroup.to_owned()), figures)].into()
}

#[test]
fn small_cgroups_are_added_to_other() {
    let mut totals = CgroupTotals::default();
    for (cgroup, bytes) in [("/a", 1000), ("/b", 50), (UNKNOWN, 1)] {
        assert_eq!(totals.add(one(cgroup, bytes, "/b"), Duration::ZERO, 2), 0);
    }
    let made_wait = |totals: &CgroupTotals| {
        totals.sums[&("md0".to_owned(), "/a".to_owned())].made_wait_us.clone()
    };
    assert_eq!(made_wait(&totals), [("/b".to_owned(), 1000)].into());
    assert_eq!(totals.add(one("/c", 2000, "/c"), Duration::ZERO, 2), 1);
    assert_eq!(names(&totals), ["/a", "/c", OTHER, UNKNOWN]);
    // Nor does a cgroup that made others wait keep its name.
    assert_eq!(made_wait(&totals), [(OTHER.to_owned(), 1000)].into());
    assert_eq!(sums(totals.sums.values()), [3051; 4]);
    totals.add(one("/a", 1, "/b"), Duration::ZERO, 2);
    assert_eq!(made_wait(&totals), [(OTHER.to_owned(), 1001)].into());
    totals.retain_arrays(|array| array != "md0");
    assert!(totals.sums.is_empty());
}

/// Pods that restart have a new name each time.
#[test]
fn silent_cgroups_are_added_to_other_after_an_hour() {
    let mut totals = CgroupTotals::default();
    totals.add(one("/pod", 5, "/pod"), SECOND, 50);
    for _ in 1..3600 {
        totals.add(one("/busy", 1, "/busy"), SECOND, 50);
    }
    assert_eq!(names(&totals), ["/busy", "/pod"]);
    totals.add(one("/busy", 1, "/busy"), SECOND, 50);
    assert_eq!(names(&totals), ["/busy", OTHER]);
    assert_eq!(sums(totals.sums.values()), [3605; 4]);
    // An hour in which serve was stopped.
    totals.add(CgroupInterval::default(), RETENTION, 50);
    assert_eq!(names(&totals), [OTHER]);
    // It returns.
    totals.add(one("/pod", 5, "/pod"), SECOND, 50);
    assert_eq!(names(&totals), ["/pod", OTHER]);
    assert_eq!(sums(totals.sums.values()), [3610; 4]);
}

/// A cgroup that does IO now is kept, although large ones that are idle did more.
#[test]
fn idle_cgroups_are_added_to_other_first() {
    let mut totals = CgroupTotals::default();
    totals.add(one("/large", 1_000_000, "/large"), SECOND, 1);
    totals.add(CgroupInterval::default(), Duration::from_secs(10), 1);
    assert_eq!(totals.add(one("/now", 1, "/now"), SECOND, 1), 1);
    assert_eq!(names(&totals), ["/now", OTHER]);
}

proptest! {
    /// Over any seconds, the sums over all cgroups are those over all tasks, none of them ever
    /// decreases, and the number of cgroups is bounded.
    #[test]
    fn sums_of_cgroups_are_sums_of_tasks(
        seconds in prop::collection::vec(
            (
                prop::collection::vec((0..8u8, 0..1u64 << 40, 0..1u64 << 40, 0..9u8), 0..12),
                prop::collection::vec((0..8u8, 0..1u64 << 30), 0..8),
                0..9u8,
                1..4000u64,
            ),
            1..12,
        ),
        max in 1..5usize,
    ) {
        let path = |n: u8| (n > 0).then(|| format!("/cgroup{n}"));
        let mut totals = CgroupTotals::default();
        let mut expected = [0; 4];
        let mut other = Cube::<Op, u64>::default();
        for (tasks, slept, culprit, length) in seconds {
            let mut snapshot = super::tests::second();
            let of_array = &mut snapshot.arrays[0];
            of_array.tasks.clear();
            for (cgroup, submitted, dirtied, comm) in tasks {
                let data = if comm % 2 == 0 { Origin::FileData } else { Origin::InodeTable };
                let op = [Op::Read, Op::Write, Op::Discard][usize::from(comm) % 3];
                of_array.tasks.push(task(
                    &format!("task{comm}"),
                    path(cgroup).as_deref(),
                    vec![io(data, op, submitted)],
                    vec![io(data, Op::Write, dirtied)],
                ));
                expected[0] += submitted;
                expected[1] += dirtied;
            }
            let slept: BTreeMap<_, _> = slept.into_iter().map(|(n, us)| (path(n), us)).collect();
            let waited: u64 = slept.values().sum();
            expected[2] += waited;
            let name = format!("task{culprit}");
            let works = of_array.tasks.iter().any(|t| t.comm == name.as_bytes() && t.size().0 > 0);
            expected[3] += if works { waited } else { 0 };
            of_array.around.as_mut().unwrap().slept_us = slept.into_iter().collect();
            let snapshot = with_verdict(snapshot, CauseKind::Load, &name);
            let interval = figures(&snapshot, &snapshot);
            totals.add(interval, Duration::from_secs(length), max);
            prop_assert_eq!(sums(totals.sums.values()), expected);
            prop_assert!(names(&totals).len() <= max + 2, "{:?}", names(&totals));
            for figures in totals.sums.values() {
                let by = figures.made_wait_us.keys();
                let is_kept = |by: &&str| totals.idle.contains_key(*by);
                let mut strangers = by.map(|by| &by[..]).filter(|by| !is_kept(by));
                prop_assert!(strangers.all(|by| by == OTHER || by == UNKNOWN));
            }
            let key = ("md127".to_owned(), OTHER.to_owned());
            let now = totals.sums.get(&key).map(|of| of.submitted.clone()).unwrap_or_default();
            prop_assert!(other.iter().all(|(op, bytes)| now.get(op) >= Some(bytes)));
            other = now;
        }
    }
}
