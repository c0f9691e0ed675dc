use proptest::prelude::*;

use super::commit::flushes;
use super::event::{
    Commit, LockWait, MemberIo, Operation, OperationKind, Purpose, STATES, StackSleeps,
};
use super::fixture::{MS, SDA, SDC, commit, flush, fsync, interval, pre_read, sleep, task};
use super::phase::{Phase, classify};
use super::sentence::sentence;
use super::waterfall::Waterfall;

/// Phases with their lengths in ms, longest first.
fn phases(waterfall: &Waterfall) -> Vec<(Phase, u64)> {
    waterfall.longest().into_iter().map(|(p, part)| (p, part.ns / MS)).collect()
}

#[test]
fn the_purpose_of_a_request_is_in_its_stack() {
    let of = |frames: &[&str]| {
        let stack: Vec<std::sync::Arc<str>> = frames.iter().map(|f| (*f).into()).collect();
        Purpose::from_stack(&stack)
    };
    let log_space = [
        "__jbd2_log_start_commit",
        "jbd2_log_start_commit",
        "__jbd2_log_wait_for_space",
        "add_transaction_credits.isra.0",
        "start_this_handle",
    ];
    assert_eq!(of(&log_space), Some(Purpose::LogSpace));
    assert_eq!(of(&log_space[3..]), Some(Purpose::Credits));
    let fsync = ["jbd2_complete_transaction", "ext4_sync_file"];
    assert_eq!(of(&fsync), Some(Purpose::Fsync));
    assert_eq!(of(&["jbd2_log_start_commit", "ext4_sync_fs"]), Some(Purpose::Sync));
    assert_eq!(of(&["vfs_write"]), None);
}

#[test]
fn the_stack_of_other_waits_is_the_one_with_the_most_time() {
    let (short, long) = (&["schedule", "a"][..], &["schedule", "b"][..]);
    let op = fsync(100, vec![sleep(short, 0, 10), sleep(long, 10, 90)]);
    let waterfall = Waterfall::new(&op, &[], &[]);
    let part = &waterfall.parts[&Phase::Other];
    assert_eq!(&*part.stack.as_deref().unwrap()[1], "b");
}

#[test]
fn a_commit_has_the_longest_flush_of_each_member() {
    let commit = commit([10, 20, 50, 60, 100, 110, 300, 310]);
    let ios = [
        flush(SDC, 90, 105), // before the record
        flush(SDA, 111, 113),
        flush(SDC, 112, 280), // the commit's
        flush(SDC, 281, 290), // the record with FUA
        pre_read(SDA, 120, 200),
        flush(SDA, 305, 400), // of a later one
    ];
    let found = flushes(&commit, &ios);
    assert_eq!(found, [(SDC, 168 * MS), (SDA, 2 * MS)]);
    let mut unseen = commit;
    (unseen.record_ns, unseen.state_ns) = (None, [None; STATES]);
    assert!(flushes(&unseen, &ios).is_empty());
}

const WAIT: &[&str] =
    &["schedule", "jbd2_log_wait_commit", "jbd2_complete_transaction", "ext4_sync_file"];

#[test]
fn a_wait_for_a_commit_is_cut_by_its_states() {
    let commit = commit([10, 20, 50, 60, 100, 110, 300, 310]);
    let op = fsync(320, vec![sleep(WAIT, 5, 315)]);
    let waterfall = Waterfall::new(&op, &[&commit], &[flush(SDC, 112, 290), flush(SDA, 112, 114)]);
    assert_eq!(
        phases(&waterfall),
        [
            (Phase::CommitFlush, 180),
            (Phase::JournalSubmit, 40),
            (Phase::TransactionLocked, 30),
            (Phase::CommitStart, 15),
            (Phase::Cpu, 10),
            (Phase::OrderedSubmit, 10),
            (Phase::JournalBlocks, 10),
            (Phase::CommitRecord, 10),
            (Phase::CommitTail, 10),
            (Phase::WakeUp, 5),
        ]
    );
    let flush = &waterfall.parts[&Phase::CommitFlush].culprit;
    assert_eq!((flush.member, flush.other_members_ns), (Some((SDC, 178 * MS)), 2 * MS));
    let locked = &waterfall.parts[&Phase::TransactionLocked].culprit;
    assert_eq!(locked.task, Some(task("rm", 99)));
}

#[test]
fn the_log_tail_is_not_a_part_of_the_commit_record() {
    let mut commit = commit([0, 1, 2, 3, 4, 5, 90, 91]);
    let wait = |by, from, to| sleep(&["io_schedule", "__wait_on_buffer", by], from, to);
    commit.off.sleeps =
        vec![wait("jbd2_journal_commit_transaction", 5, 60), wait("jbd2_write_superblock", 61, 89)];
    let op = fsync(91, vec![sleep(WAIT, 0, 91)]);
    let parts = phases(&Waterfall::new(&op, &[&commit], &[]));
    assert!(parts.contains(&(Phase::CommitRecord, 55)), "{parts:?}");
    assert!(parts.contains(&(Phase::CommitTail, 31)), "{parts:?}");
}

#[test]
fn reads_for_parity_are_a_part_of_the_wait_for_writes() {
    let wait = ["io_schedule", "folio_wait_writeback", "ext4_sync_file"];
    let op = fsync(100, vec![sleep(&wait, 0, 100)]);
    let other = flush(SDC, 70, 100);
    let ios = [pre_read(SDA, 10, 40), pre_read(SDC, 20, 60), pre_read(SDA, 25, 30), other];
    let waterfall = Waterfall::new(&op, &[], &ios);
    assert_eq!(phases(&waterfall), [(Phase::OwnData, 50), (Phase::PreRead, 50)]);
    let culprit = &waterfall.parts[&Phase::PreRead].culprit;
    assert_eq!((culprit.member, culprit.other_members_ns), (Some((SDC, 40 * MS)), 30 * MS));
}

/// A write of data, between these times in ms.
fn write(dev: u32, from: u64, to: u64) -> MemberIo {
    MemberIo { flush: false, ..flush(dev, from, to) }
}

#[test]
fn the_last_write_is_the_cause_only_if_it_explains_the_wait() {
    let wait = ["io_schedule", "folio_wait_writeback", "ext4_sync_file"];
    let op = fsync(100, vec![sleep(&wait, 0, 100)]);
    let member = |from| {
        let ios = [write(SDA, 60, 99), write(SDC, 20, 25), write(SDC, from, 100)];
        Waterfall::new(&op, &[], &ios).parts[&Phase::OwnData].culprit.member
    };
    // 10 ms in two IOs
    assert_eq!(member(95), Some((SDC, 5 * MS)));
    assert_eq!(member(96), None);
}

#[test]
fn reads_for_parity_are_a_part_of_the_wait_for_the_journal() {
    let mut commit = commit([0, 1, 2, 3, 4, 80, 90, 91]);
    let op = fsync(91, vec![sleep(WAIT, 0, 91)]);
    let reads = [pre_read(SDA, 4, 34)];
    let parts = phases(&Waterfall::new(&op, &[&commit], &reads));
    assert!(parts.contains(&(Phase::PreRead, 30)), "{parts:?}");
    assert!(parts.contains(&(Phase::JournalBlocks, 46)), "{parts:?}");
    commit.journal = Some(SDC);
    let waterfall = Waterfall::new(&op, &[&commit], &reads);
    assert!(!waterfall.parts.contains_key(&Phase::PreRead));
    let culprit = &waterfall.parts[&Phase::JournalBlocks].culprit;
    assert_eq!(culprit.journal, Some(SDC));
}

#[test]
fn the_commit_before_the_awaited_one_is_a_phase_of_its_own() {
    let before = commit([0, 1, 2, 3, 4, 5, 90, 100]);
    let awaited = commit([110, 111, 112, 113, 114, 115, 190, 195]);
    let op = fsync(200, vec![sleep(WAIT, 50, 200)]);
    let waterfall = Waterfall::new(&op, &[&before, &awaited], &[]);
    let parts = phases(&waterfall);
    assert!(parts.contains(&(Phase::PreviousCommit, 50)), "{parts:?}");
    assert!(parts.contains(&(Phase::CommitRecord, 75)), "{parts:?}");
    assert!(parts.contains(&(Phase::CommitStart, 11)), "{parts:?}");
}

#[test]
fn ordered_data_names_its_file_and_external_journals_flush_first() {
    let mut commit = commit([0, 1, 2, 3, 80, 100, 110, 111]);
    commit.off.sleeps = vec![
        sleep(
            &["schedule", "folio_wait_writeback", "ext4_journal_finish_inode_data_buffers"],
            10,
            70,
        ),
        sleep(
            &[
                "schedule",
                "submit_bio_wait",
                "blkdev_issue_flush",
                "jbd2_journal_commit_transaction",
            ],
            82,
            97,
        ),
    ];
    let op = fsync(111, vec![sleep(WAIT, 0, 111)]);
    // The last write belongs to the journal.
    let ios = [write(SDA, 20, 40), write(SDC, 20, 69), write(SDA, 70, 99)];
    let waterfall = Waterfall::new(&op, &[&commit], &ios);
    let ordered = &waterfall.parts[&Phase::OrderedData];
    assert_eq!(ordered.ns, 60 * MS);
    assert_eq!(ordered.culprit.file.map(|f| f.inode), Some(13));
    assert_eq!(ordered.culprit.member, Some((SDC, 49 * MS)));
    assert_eq!(waterfall.parts[&Phase::DataFlush].ns, 15 * MS);
}

#[test]
fn without_events_of_the_commit_its_states_are_not_known() {
    let op = fsync(100, vec![sleep(WAIT, 10, 90)]);
    let parts = phases(&Waterfall::new(&op, &[], &[]));
    assert_eq!(parts, [(Phase::Commit, 80), (Phase::Cpu, 20)]);
}

#[test]
fn the_holder_of_the_inode_lock_is_named() {
    let mut op = fsync(50, vec![sleep(&["ext4_file_read_iter", "vfs_read"], 0, 40)]);
    op.kind = OperationKind::Read;
    op.lock = LockWait {
        waits: 1,
        ns: 40 * MS,
        holder: Some(task("fio", 5)),
        kind: Some(OperationKind::Write),
        ..LockWait::default()
    };
    op.lock.flags.direct = true;
    op.lock.flags.extends = true;
    let waterfall = Waterfall::new(&op, &[], &[]);
    let culprit = &waterfall.parts[&Phase::InodeLock].culprit;
    assert_eq!(culprit.task, Some(task("fio", 5)));
    assert_eq!(culprit.what.as_deref(), Some("direct write that extends the file"));
    // XFS lets a write that ends after the end of the file share the lock, but not one that begins
    // after it.
    op.lock.flags.xfs = true;
    let what =
        |op: &Operation| Waterfall::new(op, &[], &[]).parts[&Phase::InodeLock].culprit.what.clone();
    assert_eq!(what(&op).as_deref(), Some("direct write that begins after the end of the file"));
    op.lock.flags.extends = false;
    assert_eq!(what(&op).as_deref(), Some("direct write"));
}

#[test]
fn waits_for_the_log_of_xfs_name_its_thread_and_the_slow_member() {
    let mut op = fsync(
        400,
        vec![
            sleep(&["xlog_grant_head_wait", "xfs_log_reserve"], 0, 100),
            sleep(&["xlog_cil_force_seq"], 100, 250),
            sleep(&["xlog_wait_on_iclog", "xfs_log_force_seq"], 250, 400),
        ],
    );
    op.flags.xfs = true;
    op.pusher = Some(task("xfsaild/md127", 77));
    let ios = [flush(SDC, 255, 398), flush(SDA, 255, 260), flush(SDA, 10, 60)];
    let mut interval = interval();
    let slow = &mut interval.operations[0];
    slow.waterfall = Waterfall::new(&op, &[], &ios);
    slow.operation = op;
    let words = [(Phase::CilPush, 150), (Phase::LogIo, 150), (Phase::LogSpace, 100)];
    assert_eq!(phases(&slow.waterfall), words);
    let text = sentence(slow, &interval.names);
    assert!(text.contains("log writes on sdc (143 ms"), "{text}");
    assert!(text.contains(", freed by xfsaild/md127(77)"), "{text}");
    // The log is on another device, whose IO is not traced.
    slow.waterfall.log_is_on(SDA);
    let log = &slow.waterfall.parts[&Phase::LogIo].culprit;
    assert_eq!((log.journal, log.member), (Some(SDA), None));
}

/// Stacks of 5.10 to 7.2, with what the task waits for.
#[test]
fn stacks_have_phases() {
    for (stack, phase) in [
        (
            &[
                "schedule",
                "md_write_start",
                "raid1_make_request",
                "md_handle_request",
                "file_write_and_wait_range",
            ][..],
            Phase::MdSuperblock,
        ),
        (
            &["io_schedule", "blk_mq_get_tag", "submit_bio_noacct", "ext4_writepages"],
            Phase::QueueFull,
        ),
        (
            &["raid5_get_active_stripe.part.0", "raid5_make_request", "md_handle_request"],
            Phase::StripeCache,
        ),
        (&["md_handle_request", "md_submit_bio"], Phase::ArraySuspended),
        // Every wait in md has md_handle_request() below it.
        (&["ioc_rqos_throttle", "blk_mq_submit_bio", "md_handle_request"], Phase::IoCost),
        (
            &["rq_qos_wait", "blkcg_iolatency_throttle", "blk_mq_submit_bio", "md_handle_request"],
            Phase::IoLatency,
        ),
        (&["rq_qos_wait", "wbt_wait", "blk_mq_submit_bio"], Phase::WritebackThrottle),
        (&["rq_qos_wait", "blk_mq_submit_bio"], Phase::QueueFull),
        (&["__bio_queue_enter", "submit_bio_noacct"], Phase::QueueFrozen),
        (&["make_stripe_request", "raid5_make_request", "md_handle_request"], Phase::Overlap),
        (&["raid5_make_request", "md_handle_request"], Phase::Reshape),
        (&["regular_request_wait", "raid10_write_request"], Phase::Reshape),
        (&["raid1_read_request", "raid1_make_request"], Phase::ReadRepair),
        (&["wait_for_serialization", "raid1_write_request"], Phase::WriteBehind),
        (&["md_wait_for_blocked_rdev", "raid10_write_request"], Phase::BlockedMember),
        (&["wait_read_barrier", "raid1_read_request"], Phase::ReadRepair),
        (&["_wait_barrier", "raid1_write_request"], Phase::ResyncBarrier),
        (&["md_flush_request", "raid1_make_request", "blkdev_issue_flush"], Phase::OtherFlush),
        (&["md_super_wait", "md_bitmap_wait_writes", "md_handle_request"], Phase::MdBitmap),
        (&["md_super_wait", "md_handle_request"], Phase::MdSuperblock),
        (&["llbitmap_start_write", "md_account_bio"], Phase::MdBitmap),
        (&["mempool_alloc_noprof", "alloc_r1bio", "raid1_write_request"], Phase::Memory),
        (&["nothing_known", "md_handle_request"], Phase::Other),
        (&["dquot_acquire", "ext4_acquire_dquot", "ext4_create"], Phase::Quota),
        (&["bit_wait_io", "ext4_bread", "v2_read_dquot", "dquot_acquire"], Phase::MetadataRead),
        (&["xfs_dqlock2", "xfs_trans_dqresv", "xfs_trans_reserve_quota_bydquots"], Phase::Quota),
        (&["percpu_rwsem_wait", "__percpu_down_read", "ext4_evict_inode"], Phase::Frozen),
        (
            &["folio_wait_writeback", "filemap_write_and_wait_range", "__iomap_dio_rw"],
            Phase::MixedIo,
        ),
        (&["folio_wait_writeback", "kiocb_invalidate_pages", "__iomap_dio_rw"], Phase::MixedIo),
        (&["ext4_fc_wait_inode_state", "ext4_fc_del", "ext4_clear_inode"], Phase::FastCommit),
        (&["jbd2_journal_release_jbd_inode", "ext4_clear_inode"], Phase::OrderedData),
        (&["__inode_wait_for_writeback", "ext4_evict_inode"], Phase::Writeback),
        (
            &["io_schedule_timeout", "balance_dirty_pages", "generic_perform_write"],
            Phase::Throttled,
        ),
        (&["ext4_buffered_write_iter.isra.0", "vfs_write"], Phase::InodeLock),
        (&["ext4_map_blocks", "ext4_file_read_iter"], Phase::BlockMapLock),
        (&["do_user_addr_fault"], Phase::Other),
        (
            &[
                "schedule",
                "jbd2_log_wait_commit",
                "jbd2_log_do_checkpoint",
                "__jbd2_log_wait_for_space",
                "start_this_handle",
            ],
            Phase::LogSpace,
        ),
        (&["schedule", "jbd2_log_wait_commit", "ext4_fc_commit", "ext4_sync_file"], Phase::Commit),
        (
            &["schedule", "wait_transaction_locked", "add_transaction_credits", "ext4_writepages"],
            Phase::TransactionLocked,
        ),
        (
            &[
                "io_schedule",
                "folio_wait_bit_common",
                "folio_wait_writeback",
                "__filemap_fdatawait_range",
            ],
            Phase::OwnData,
        ),
        (
            &["blk_io_schedule", "__iomap_dio_rw", "iomap_dio_rw", "ext4_file_read_iter"],
            Phase::DirectIo,
        ),
        (
            &["bio_await", "submit_bio_wait", "__iomap_dio_read_simple", "ext4_file_read_iter"],
            Phase::DirectIo,
        ),
        (&["bio_await", "submit_bio_wait", "ext4_file_read_iter"], Phase::DirectIo),
        (&["io_wq_submit_work"], Phase::UringWorker),
        (&["nap", "io_wq_submit_work", "io_worker_handle_work"], Phase::Other),
        (&["bio_await", "submit_bio_wait", "blkdev_issue_flush"], Phase::OwnFlush),
        (
            &[
                "io_schedule",
                "bit_wait_io",
                "__wait_on_buffer",
                "ext4_read_bh",
                "ext4_bread",
                "ext4_file_read_iter",
            ],
            Phase::MetadataRead,
        ),
        // XFS: i_rwsem is locked by a call in xfs_ilock(), i_lock by a jump at its end.
        (&["xfs_ilock", "xfs_file_dio_read"], Phase::InodeLock),
        (&["xfs_ilock", "xfs_file_write_checks", "xfs_file_dio_write_aligned"], Phase::InodeLock),
        (&["xfs_ilock", "xfs_vn_setattr"], Phase::Other),
        (&["xfs_ilock", "xfs_create", "xfs_generic_create"], Phase::BlockMapLock),
        (
            &["xfs_map_blocks", "iomap_writepages", "file_write_and_wait_range", "xfs_file_fsync"],
            Phase::BlockMapLock,
        ),
        (&["file_write_and_wait_range", "xfs_file_fsync"], Phase::OwnData),
        (&["__flush_workqueue", "xlog_cil_push_now.isra.0", "xlog_cil_force_seq"], Phase::CilPush),
        (&["xlog_wait_on_iclog", "xfs_log_force_seq", "xfs_file_fsync"], Phase::LogIo),
        (&["md_write_start", "xlog_write_iclog", "xlog_force_lsn"], Phase::MdSuperblock),
        (&["submit_bio_wait", "blkdev_issue_flush", "xlog_write_iclog"], Phase::DataFlush),
        (&["blkdev_issue_flush", "xfs_file_fsync"], Phase::OwnFlush),
        (&["xlog_grant_head_wait", "xfs_log_reserve", "xfs_create"], Phase::LogSpace),
        (&["down", "xfs_buf_lock", "xfs_buf_read_map", "xfs_read_agi"], Phase::BufferLock),
        (&["xfs_buf_iowait", "__xfs_buf_submit", "xfs_buf_read_map"], Phase::MetadataRead),
        (&["__xfs_iunpin_wait"], Phase::JournalBuffer),
        // PREEMPT_RT: the functions of its locks are in the stack.
        (
            &["rt_mutex_schedule", "__rt_mutex_slowlock_locked.constprop.0", "ext4_file_read_iter"],
            Phase::InodeLock,
        ),
        (&["rt_mutex_schedule", "ext4_file_write_iter", "vfs_write"], Phase::InodeLock),
        (&["rt_mutex_schedule", "ext4_map_blocks", "ext4_file_read_iter"], Phase::BlockMapLock),
        (&["rt_mutex_schedule", "xfs_ilock", "xfs_file_dio_read"], Phase::InodeLock),
        (&["schedule_rtlock", "raid5_get_active_stripe", "ext4_file_write_iter"], Phase::Other),
        (&["rt_mutex_schedule", "nothing_known", "ext4_file_write_iter"], Phase::Other),
        (&["schedule", "nothing_known"], Phase::Other),
        (&[], Phase::Other),
    ] {
        assert_eq!(classify(stack), phase, "{stack:?}");
    }
}

#[test]
fn the_sentence_names_the_member_and_the_other_file() {
    let interval = interval();
    assert_eq!(
        sentence(&interval.operations[0], &interval.names),
        "fsync of /srv/db/redo.log by mysqld(812): 1.8 s; 63 % the commit's flush on sdc (1.1 s; \
         the other 11 members 4.0 ms), 21 % ordered data of /srv/backup/dump.sql (up to 480 MiB), \
         written by mysqldump(977)"
    );
}

prop_compose! {
    fn any_sleep()(
        which in 0usize..6,
        first in any::<u32>(),
        length in any::<u32>(),
        ns in any::<u32>(),
    ) -> StackSleeps {
        let stacks: [&[&str]; 6] = [
            WAIT,
            &["md_write_start"],
            &["ext4_file_read_iter"],
            &["wait_transaction_locked"],
            &["do_get_write_access"],
            &[],
        ];
        StackSleeps {
            ns: u64::from(ns),
            first_ns: u64::from(first),
            last_ns: u64::from(first) + u64::from(length),
            ..sleep(stacks[which], 0, 1)
        }
    }
}

prop_compose! {
    fn any_commit()(
        states in prop::array::uniform8(prop::option::of(any::<u32>())),
        record in prop::option::of(any::<u32>()),
    ) -> Commit {
        let states: [Option<u32>; STATES] = states;
        Commit {
            flushes: Vec::new(),
            state_ns: states.map(|ns| ns.map(u64::from)),
            record_ns: record.map(u64::from),
            ..commit([0; STATES])
        }
    }
}

proptest! {
    /// Holds for all reports of the programs, even if times contradict each other.
    #[test]
    fn phases_add_up_to_the_length(
        sleeps in prop::collection::vec(any_sleep(), 0..16),
        commits in prop::collection::vec(any_commit(), 0..4),
        end in any::<u32>(),
        queued in any::<u32>(),
        missed in any::<u32>(),
        flushes in prop::collection::vec((any::<u32>(), any::<u32>()), 0..4),
    ) {
        let mut op = fsync(0, sleeps);
        op.end_ns = u64::from(end);
        op.off.queued_ns = u64::from(queued);
        op.off.missed_ns = u64::from(missed);
        let commits: Vec<&Commit> = commits.iter().collect();
        let ios: Vec<_> = flushes.iter().map(|(a, b)| {
            let mut flush = flush(SDC, 0, 0);
            (flush.start_ns, flush.end_ns) = (u64::from(*a), u64::from(*b));
            flush
        }).collect();
        let waterfall = Waterfall::new(&op, &commits, &ios);
        let total: u64 = waterfall.parts.values().map(|p| p.ns).sum();
        prop_assert_eq!(total, op.total_ns());
    }
}

#[test]
fn an_earlier_write_has_its_member_and_is_no_reshape() {
    for (function, phase) in
        [("raid5_make_request", Phase::Overlap), ("bitmap_unplug", Phase::MdBitmap)]
    {
        let operation = fsync(100, vec![sleep(&[function, "md_handle_request"], 0, 90)]);
        let mut waterfall = Waterfall::new(&operation, &[], &[flush(SDC, 10, 89)]);
        waterfall.not_reshaped();
        let part = &waterfall.parts[&phase];
        assert_eq!((part.ns, part.culprit.member), (90 * MS, Some((SDC, 79 * MS))), "{function}");
    }
}
