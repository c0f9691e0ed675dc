//! Tasks that sleep before their IO reaches the array, and writes that md adds.

use super::{CauseKind, Play, Severity, around, asleep, is, second, task};
use crate::analysis::fixture;
use crate::origin::{Op, Origin};

/// The array's figures do not change: what waits does not get there.
#[test]
fn what_holds_tasks_before_their_io_is_the_cause() {
    let mut calm = second(4, 60, 10, 8);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 600)], 60)];
    let mut held = second(4, 10, 10, 8);
    let sleeps = [("add_transaction_credits", 700), ("io_schedule", 200)];
    around(&mut held).asleep = vec![asleep("postgres", &sleeps, 3)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &held);
    let words = [
        "postgres waits 300ms for each write to md0 (10ms before",
        "no room for a new handle (78 %",
    ];
    is(&verdict, Severity::Slow, CauseKind::Journal, &[], &words);
    assert!(verdict.waiting.since.is_some());
    assert!(verdict.actions[0].to_string().contains("make the journal larger"), "{verdict:?}");
    // Most of the sleep is IO.
    let sleeps = [("add_transaction_credits", 200), ("io_schedule", 700)];
    around(&mut held).asleep = vec![asleep("postgres", &sleeps, 3)];
    assert_ne!(play.for_seconds(4, &held).cause.kind, CauseKind::Journal);
    // A writer that fills the page cache is throttled from its start on.
    let writer = asleep("dump", &[("balance_dirty_pages", 900)], 5);
    around(&mut calm).asleep.push(writer.clone());
    let mut play = Play::new();
    assert_eq!(play.for_seconds(20, &calm).severity, Severity::None);
    // A task that was not throttled before is.
    around(&mut held).asleep = vec![asleep("postgres", &[("balance_dirty_pages", 900)], 3), writer];
    held.tasks.push(task("dump", 100, 100 << 20));
    let verdict = play.for_seconds(4, &held);
    is(&verdict, Severity::Slow, CauseKind::Filesystem, &[], &["postgres waits", "dirty pages"]);
}

/// While a task searches for free blocks, on a CPU or in reads of bitmaps, the members idle.
#[test]
fn searches_for_free_blocks_are_the_cause() {
    let mut calm = second(4, 60, 3, 3);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 400)], 60)];
    for (function, words) in [
        ("ext4_mb_regular_allocator", "searches groups for free blocks on a CPU (90 % of the time"),
        ("ext4_wait_block_bitmap", "reads block bitmaps"),
    ] {
        let mut array = second(4, 10, 3, 3);
        let sleeps = [(function, 900), ("io_schedule", 100)];
        around(&mut array).asleep = vec![asleep("postgres", &sleeps, 10)];
        let mut play = Play::new();
        play.for_seconds(20, &calm);
        let verdict = play.for_seconds(4, &array);
        let who = "postgres waits 100ms for each write to md0 (6.7ms before";
        is(&verdict, Severity::Slow, CauseKind::Allocator, &[], &[who, words]);
        assert!(verdict.actions[0].text.contains("raidtrace alloc"), "{verdict:?}");
    }
}

/// The commit waits for the handle of the search.
#[test]
fn a_commit_waits_for_the_search_of_another_task() {
    let mut calm = second(4, 60, 3, 3);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 300)], 60)];
    let mut array = second(4, 4, 3, 3);
    around(&mut array).asleep = vec![
        asleep("postgres", &[("jbd2_log_wait_commit", 700)], 4),
        asleep("jbd2/md0-8", &[("jbd2_journal_wait_updates", 600)], 4),
        asleep("archiver", &[("ext4_mb_regular_allocator", 500)], 3),
    ];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &array);
    let words = ["postgres waits 175ms for each write", "searches groups for free blocks on a CPU"];
    is(&verdict, Severity::Slow, CauseKind::Allocator, &[], &words);
    // Without the search.
    around(&mut array).asleep.pop();
    let verdict = play.for_seconds(4, &array);
    is(
        &verdict,
        Severity::Slow,
        CauseKind::Journal,
        &[],
        &["waits for a handle that a task holds"],
    );
}

/// An fsync is several writes, most of them to fast members.
#[test]
fn long_sleeps_are_slow_although_the_mean_write_is_not() {
    let mut calm = second(4, 60, 3, 3);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 900)], 30)];
    let mut array = second(4, 20, 15, 3);
    array.members[2].io = vec![fixture::cell(Origin::FileData, Op::Write, 5, 5 * 8192, 110_000)];
    around(&mut array).asleep = vec![asleep("postgres", &[("io_schedule", 900)], 6)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &array);
    let words =
        ["postgres waits 150ms for each write to md0 (30ms before", "loop3 answers in 131ms"];
    is(&verdict, Severity::Slow, CauseKind::Member, &["loop3"], &words);
    // The task that does more waits for its own work.
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    array.tasks = vec![task("postgres", 600, 600 << 16)];
    assert_eq!(play.for_seconds(4, &array).severity, Severity::None);
    // Without a time before, it is not known whether that is long.
    array.tasks = vec![task("postgres", 20, 20 << 16)];
    assert_eq!(Play::new().for_seconds(4, &array).severity, Severity::None);
}

/// md counts the time of a write of RAID 10 from the barrier on.
#[test]
fn tasks_at_the_barrier_wait_for_the_resync() {
    let mut calm = second(4, 60, 3, 3);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 900)], 100)];
    let mut array = second(4, 10, 12, 10);
    array.info.level = "raid10".to_owned();
    array.members[2].io.push(fixture::cell(Origin::Resync, Op::Read, 1, 65536, 9_000));
    let facts = around(&mut array);
    facts.sync_action = Some("recover".to_owned());
    let sleeps = [("wait_barrier", 700), ("io_schedule", 200)];
    facts.asleep = vec![asleep("postgres", &sleeps, 6)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &array);
    is(&verdict, Severity::Slow, CauseKind::Resync, &[], &["holds IO at its barrier (78 %"]);
}

#[test]
fn a_commit_that_waits_for_data_is_not_only_a_commit() {
    let mut array = second(2, 10, 300, 100);
    array.info.level = "raid1".to_owned();
    array.tasks.push(task("dump", 100, 100 << 20));
    let commit = asleep("postgres", &[("jbd2_log_wait_commit", 900)], 2);
    let data = [("jbd2_journal_finish_inode_data_buffers", 800), ("io_schedule", 100)];
    around(&mut array).asleep = vec![commit.clone(), asleep("jbd2/md0-8", &data, 9)];
    let verdict = Play::after_calm(&array);
    let words = ["data of files", "dump does 94 % of md0's work"];
    is(&verdict, Severity::Slow, CauseKind::Journal, &[], &words);
    assert!(verdict.actions[0].to_string().contains("dump"), "{verdict:?}");
    // A commit that waits for its own IO is no cause.
    let own = asleep("jbd2/md0-8", &[("io_schedule", 900)], 9);
    around(&mut array).asleep = vec![commit, own];
    is(&Play::after_calm(&array), Severity::Slow, CauseKind::Load, &[], &["dump does"]);
}

/// Writeback is throttled because a task writes more; io.latency holds a cgroup for another one.
#[test]
fn throttled_writeback_is_a_result_of_the_load() {
    let mut array = second(2, 10, 300, 290);
    array.tasks.push(task("dump", 100, 100 << 20));
    around(&mut array).asleep = vec![asleep("postgres", &[("wbt_wait", 900)], 9)];
    is(&Play::after_calm(&array), Severity::Slow, CauseKind::Load, &[], &["dump does"]);
    around(&mut array).asleep = vec![asleep("postgres", &[("blkcg_iolatency_throttle", 900)], 9)];
    is(
        &Play::after_calm(&array),
        Severity::Slow,
        CauseKind::CgroupLimit,
        &[],
        &["io.latency holds it"],
    );
}

#[test]
fn an_allocation_that_waits_for_a_commit_has_no_space() {
    let mut calm = second(2, 60, 10, 8);
    around(&mut calm).asleep = vec![asleep("spooler", &[("io_schedule", 1)], 60)];
    calm.tasks = vec![task("spooler", 60, 60 << 13)];
    let mut array = calm.clone();
    let sleeps = [("jbd2_journal_force_commit_nested", 900)];
    around(&mut array).asleep = vec![asleep("spooler", &sleeps, 9)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &array);
    is(&verdict, Severity::Slow, CauseKind::Filesystem, &[], &["spooler waits", "no free block"]);
    assert!(verdict.actions[0].to_string().contains("free some space"), "{verdict:?}");
}

/// Readers wait for the lock, whose holder writes to disks that are fast.
#[test]
fn a_lock_is_the_cause_if_the_io_is_fast() {
    let mut calm = second(2, 60, 10, 8);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 600)], 60)];
    let mut array = second(2, 60, 10, 8);
    array.tasks.push(task("loader", 100, 51_200));
    let sleeps = [("ext4_file_read_iter", 800), ("io_schedule", 100)];
    around(&mut array).asleep = vec![asleep("postgres", &sleeps, 9)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &array);
    let words = ["postgres waits 100ms", "lock of a file or directory", "loader does"];
    is(&verdict, Severity::Slow, CauseKind::Lock, &[], &words);
    // Whoever has the lock waits for a slow disk.
    let mut slow = second(2, 60, 300, 8);
    slow.members[1].io = vec![fixture::cell(Origin::FileData, Op::Write, 60, 60 * 8192, 280_000)];
    around(&mut slow).asleep = vec![asleep("postgres", &sleeps, 9)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    is(&play.for_seconds(4, &slow), Severity::Slow, CauseKind::Member, &["loop2"], &[]);
}

/// Writes take less than twice as long, because each waits for a write of the bitmap.
#[test]
fn a_new_bitmap_is_the_cause() {
    let with_bitmap = |writes: u64, ms: u64| {
        let mut array = second(2, 60, ms, 8);
        array.info.level = "raid1".to_owned();
        for member in &mut array.members {
            let cell = fixture::cell(Origin::MdBitmap, Op::Write, writes, writes * 4096, 8_000);
            member.io.push(cell);
        }
        array
    };
    let mut play = Play::new();
    assert_eq!(play.for_seconds(20, &with_bitmap(2, 10)).severity, Severity::None);
    assert_eq!(play.for_seconds(4, &with_bitmap(2, 18)).severity, Severity::None);
    let verdict = play.for_seconds(4, &with_bitmap(60, 18));
    is(
        &verdict,
        Severity::Slow,
        CauseKind::Md,
        &[],
        &["the write-intent bitmap of md0 does 49 % of its"],
    );
    assert!(verdict.actions[0].to_string().contains("--bitmap-chunk=1G"), "{verdict:?}");
    // A bitmap that was there before is not what changed.
    let mut play = Play::new();
    play.for_seconds(20, &with_bitmap(40, 10));
    assert_eq!(play.for_seconds(4, &with_bitmap(60, 18)).severity, Severity::None);
}

/// Requests take longer than before, but that is a small part of the wait.
#[test]
fn a_member_that_does_not_explain_the_wait_is_innocent() {
    let mut calm = second(1, 600, 1, 1);
    around(&mut calm).asleep = vec![asleep("postgres", &[("io_schedule", 600)], 600)];
    let mut array = second(1, 40, 3, 3);
    let sleeps = [("ioc_rqos_throttle", 800), ("io_schedule", 100)];
    around(&mut array).asleep = vec![asleep("postgres", &sleeps, 40)];
    let mut play = Play::new();
    play.for_seconds(20, &calm);
    let verdict = play.for_seconds(4, &array);
    is(&verdict, Severity::Slow, CauseKind::CgroupLimit, &[], &["io.cost holds it (89 %"]);
}
