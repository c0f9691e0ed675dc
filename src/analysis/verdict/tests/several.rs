//! A filesystem on several arrays.

use super::{CauseKind, Play, Severity, Verdict, around, asleep, is, second, snapshot, task};
use crate::analysis::around::{DeviceIo, Neighbour, SharedDisk};
use crate::analysis::fixture;
use crate::analysis::snapshot::ArraySnapshot;
use crate::origin::{Op, Origin};

/// A second of the array that the tasks write to: `writes`, and as many commits, of `commit_ms`.
fn data(writes: u64, commit_ms: u64) -> ArraySnapshot {
    let mut array = second(2, writes, 5, 4);
    let sleeps = [("jbd2_log_wait_commit", writes * commit_ms)];
    around(&mut array).asleep = vec![asleep("postgres", &sleeps, writes)];
    array.info.filesystems = vec!["ext4 on /pg (dm-0)".to_owned()];
    array
}

/// A second of the array that has the journal: `writes` to each member, which take `ms`.
fn journal(writes: u64, ms: [u64; 2]) -> ArraySnapshot {
    let mut array = second(2, writes, ms[1], 4);
    let cell = |ms| fixture::cell(Origin::Journal, Op::Write, writes, writes * 8192, ms * 1000);
    for (member, ms) in array.members.iter_mut().zip(ms) {
        member.io = vec![cell(ms)];
    }
    let mut jbd2 = task("jbd2/dm-0-8", writes, writes * 8192);
    jbd2.role = Some("jbd2 journal of dm-0".to_owned());
    array.tasks = vec![jbd2];
    array.info.name = "md1".to_owned();
    array.info.filesystems = vec!["ext4 on /pg (dm-0)".to_owned()];
    array
}

fn play(play: &mut Play, seconds: i64, arrays: [&ArraySnapshot; 2]) -> [Verdict; 2] {
    let mut last = None;
    for _ in 0..seconds {
        play.at += 1;
        let mut snapshot = snapshot(arrays[0].clone(), play.at);
        snapshot.arrays.push(arrays[1].clone());
        play.window.evaluate(&mut snapshot);
        last = Some(snapshot);
    }
    let arrays = last.unwrap().arrays.try_into();
    <[ArraySnapshot; 2]>::map(arrays.unwrap(), |array| array.verdict.unwrap())
}

#[test]
fn a_slow_disk_of_the_array_with_the_journal_is_the_cause() {
    let (calm, held) = (data(40, 10), data(3, 300));
    let (fast, slow) = (journal(80, [4, 4]), journal(6, [4, 140]));
    let words =
        ["postgres waits 300ms for each write to md0", "loop2 answers in", "md1 has another"];
    let mut with_journal = Play::new();
    play(&mut with_journal, 20, [&calm, &fast]);
    let [first, second] = play(&mut with_journal, 5, [&held, &slow]);
    is(&first, Severity::Slow, CauseKind::Member, &[], &words);
    is(&second, Severity::Slow, CauseKind::Member, &["loop2"], &words);
    // The journal's disks are as fast as before.
    let fewer = journal(6, [4, 4]);
    let mut alone = Play::new();
    play(&mut alone, 20, [&calm, &fast]);
    let [first, second] = play(&mut alone, 5, [&held, &fewer]);
    is(&first, Severity::Slow, CauseKind::Journal, &[], &["commits of the journal"]);
    assert_eq!(second.severity, Severity::None, "{second:?}");
    // Another partition does most of the work of its slow disk, which is not accused.
    let mut shared = slow.clone();
    let all = DeviceIo { requests: [0, 300], bytes: [0, 300 << 20], ms: [0, 9000], in_flight: 9 };
    let swap = Neighbour { device: "vdd2".to_owned(), user: "swap".to_owned(), io: all };
    let (member, disk) = ("loop2".to_owned(), "vdd".to_owned());
    around(&mut shared).disks = vec![SharedDisk { member, disk, io: all, others: vec![swap] }];
    let mut beside = Play::new();
    play(&mut beside, 20, [&calm, &fast]);
    for verdict in play(&mut beside, 5, [&held, &shared]) {
        is(&verdict, Severity::Slow, CauseKind::Neighbour, &[], &["vdd2 (swap) has"]);
    }
    // Its disk is slow, but it has another filesystem.
    let mut other = slow.clone();
    other.info.filesystems = vec!["ext4 on /home (md1)".to_owned()];
    let mut apart = Play::new();
    play(&mut apart, 20, [&calm, &fast]);
    assert_eq!(play(&mut apart, 5, [&held, &other])[0].cause.kind, CauseKind::Journal);
}
