//! Kinds of waits, and how they are recognised in a kernel stack.

use serde::{Deserialize, Serialize};

/// A part of the time of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Cpu,
    /// Runnable, waiting for a CPU.
    RunQueue,
    /// The inode's lock (i_rwsem).
    InodeLock,
    /// The lock of the inode's block map: i_data_sem of ext4, the ILOCK (i_lock) of XFS.
    BlockMapLock,
    /// Direct IO in flight on the inode (inode_dio_wait()).
    DirectDrain,
    /// balance_dirty_pages(): the writer is throttled.
    Throttled,
    /// The operation's own data is being written.
    OwnData,
    /// RAID 4/5/6 reads blocks to compute the parity of a write.
    PreRead,
    /// md writes its superblocks: the array was clean (md_write_start()).
    MdSuperblock,
    /// md waits for a write-intent bitmap.
    MdBitmap,
    /// The stripe cache of RAID 4/5/6 is full.
    StripeCache,
    /// RAID 1 or 10 holds requests back for a resync.
    ResyncBarrier,
    ArraySuspended,
    /// A reshape passes the blocks.
    Reshape,
    /// RAID 4/5/6 still writes the same blocks.
    Overlap,
    /// RAID 1: write-behind to a write-mostly member.
    WriteBehind,
    /// md records an error of a member before it goes on.
    BlockedMember,
    /// RAID 1 repairs a read error, or removes a member.
    ReadRepair,
    /// Up to 6.1, md flushes for one caller at a time.
    OtherFlush,
    /// The queue of a device has no free request.
    QueueFull,
    /// The queue of a device is frozen: its scheduler or a limit is changed, or it sleeps.
    QueueFrozen,
    /// The cost model of cgroups.
    IoCost,
    /// Another cgroup misses its latency target.
    IoLatency,
    /// Writeback is held back for reads (blk-wbt).
    WritebackThrottle,
    /// fsfreeze, or a snapshot.
    Frozen,
    /// A record of a quota is locked.
    Quota,
    /// Direct IO first writes dirty pages of the same file.
    MixedIo,
    /// A page is locked, or must not change while it is written.
    PageLock,
    /// The commit before the awaited one.
    PreviousCommit,
    /// The journal's thread has not started the commit yet.
    CommitStart,
    /// Open handles keep the transaction from being committed, or a locked transaction keeps a
    /// handle from starting.
    TransactionLocked,
    /// Submission of ordered data.
    OrderedSubmit,
    /// Submission of metadata to the journal.
    JournalSubmit,
    /// Data of files, which must be on disk before the transaction (data=ordered).
    OrderedData,
    JournalBlocks,
    /// Flush of the filesystem's device before the record on an external journal.
    DataFlush,
    /// Flush before the commit record.
    CommitFlush,
    CommitRecord,
    /// Checkpoint lists, log tail, discards after the record.
    CommitTail,
    /// From the end of the commit to the end of the wait.
    WakeUp,
    /// A commit whose events were lost, or several commits that cannot be distinguished.
    Commit,
    FastCommit,
    /// The log has no free space: a checkpoint.
    LogSpace,
    /// A metadata block that is being written or committed.
    JournalBuffer,
    /// XFS: the transactions in memory (CIL) are written to the log's buffers.
    CilPush,
    /// XFS: the log's buffers are written to disk.
    LogIo,
    /// XFS: another task has locked a metadata buffer, or the buffer is being written.
    BufferLock,
    /// The operation's own flush.
    OwnFlush,
    MetadataRead,
    DataRead,
    /// The operation's own direct IO.
    DirectIo,
    /// A limit of its cgroup (io.max) held direct IO, after its submission.
    IoLimit,
    /// Direct IO was between the filesystem and the member: in md.
    Md,
    /// Direct IO was in the queue of a member: its scheduler, or the driver took no more.
    DeviceQueue,
    /// A member executed direct IO.
    Device,
    /// Direct IO was complete, the operation was not: md, the filesystem, and their threads.
    Completion,
    /// io_uring could not do it without waiting, and left it to a worker.
    UringWorker,
    /// Writeback by a flush thread, on behalf of a sync.
    Writeback,
    /// Memory reclaim.
    Memory,
    /// None of the above.
    Other,
}

impl Phase {
    /// True for a wait that ends with IO of members.
    pub fn is_io(self) -> bool {
        use Phase::*;
        matches!(
            self,
            OwnData
                | PreRead
                | MdSuperblock
                | MdBitmap
                | DataFlush
                | OwnFlush
                | OrderedSubmit
                | JournalSubmit
                | OrderedData
                | JournalBlocks
                | CommitFlush
                | CommitRecord
                | CommitTail
                | CilPush
                | LogIo
                | BufferLock
                | MetadataRead
                | DataRead
                | DirectIo
                | DeviceQueue
                | Device
                | Writeback
                | PageLock
                | StripeCache
        )
    }

    /// Words for a sentence and for the waterfall.
    pub fn words(self) -> &'static str {
        use Phase::*;
        match self {
            Cpu => "on the CPU",
            RunQueue => "waiting for a CPU",
            InodeLock => "the inode's lock",
            BlockMapLock => "the lock of the file's block map",
            DirectDrain => "direct IO in flight on the file",
            Throttled => "throttled because too much is dirty",
            OwnData => "its own data",
            PreRead => "reads for parity",
            MdSuperblock => "md's superblock write after idle",
            MdBitmap => "md's write-intent bitmap",
            StripeCache => "the full stripe cache",
            ResyncBarrier => "the barrier of a resync",
            ArraySuspended => "the suspended array",
            Reshape => "a reshape of these blocks",
            Overlap => "an earlier write to the same blocks",
            WriteBehind => "write-behind of RAID 1",
            BlockedMember => "the error of a member, which md records",
            ReadRepair => "the repair of a read error, or a change of members",
            OtherFlush => "another flush of the array",
            QueueFull => "a full device queue",
            QueueFrozen => "a frozen device queue",
            IoCost => "io.cost of its cgroup",
            IoLatency => "io.latency of another cgroup",
            WritebackThrottle => "writeback throttling (wbt)",
            Frozen => "the frozen filesystem",
            Quota => "a locked quota record",
            MixedIo => "dirty pages of the file, before direct IO",
            PageLock => "a locked page",
            PreviousCommit => "the previous commit",
            CommitStart => "the start of the commit",
            TransactionLocked => "open handles of the transaction",
            OrderedSubmit => "submitting ordered data",
            JournalSubmit => "submitting journal blocks",
            OrderedData => "ordered data",
            JournalBlocks => "journal blocks",
            DataFlush => "the data disk's flush",
            CommitFlush => "the commit's flush",
            CommitRecord => "the commit record",
            CommitTail => "the end of the commit",
            WakeUp => "waking up",
            Commit => "a commit (states unknown)",
            FastCommit => "a fast commit",
            LogSpace => "room in the journal",
            JournalBuffer => "a metadata block that is being committed",
            CilPush => "the push of the CIL (log)",
            LogIo => "log writes",
            BufferLock => "a locked metadata buffer",
            OwnFlush => "its own flush",
            MetadataRead => "reading metadata",
            DataRead => "reading data",
            DirectIo => "direct IO",
            IoLimit => "io.max of its cgroup",
            Md => "in md",
            DeviceQueue => "a device queue",
            Device => "the device",
            Completion => "completing it",
            UringWorker => "a worker of io_uring",
            Writeback => "writeback of all dirty data",
            Memory => "memory reclaim",
            Other => "other waits",
        }
    }
}

/// Functions and the phase of a stack that contains them, in order: the first match decides. The
/// functions are those of 5.10 to 7.3. If a kernel has inlined a function, its caller matches.
/// Specific waits come before the functions that call them.
const RULES: &[(&str, Phase)] = {
    use Phase::*;
    &[
        ("shrink_node", Memory),
        ("try_to_free_pages", Memory),
        ("try_to_free_mem_cgroup_pages", Memory),
        ("mem_cgroup_handle_over_high", Memory),
        ("__mem_cgroup_handle_over_high", Memory),
        ("mempool_alloc", Memory),
        ("mempool_alloc_noprof", Memory),
        ("throttle_direct_reclaim", Memory),
        ("balance_dirty_pages", Throttled),
        ("md_write_start", MdSuperblock),
        ("md_bitmap_unplug", MdBitmap),
        ("__bitmap_unplug", MdBitmap),
        ("bitmap_unplug_async", MdBitmap),
        ("llbitmap_start_write", MdBitmap),
        ("llbitmap_start_discard", MdBitmap),
        ("llbitmap_raise_barrier", MdBitmap),
        ("llbitmap_unplug", MdBitmap),
        ("bitmap_unplug", MdBitmap),
        ("md_bitmap_startwrite", MdBitmap),
        ("bitmap_startwrite", MdBitmap),
        ("bitmap_start_write", MdBitmap),
        ("md_bitmap_wait_writes", MdBitmap),
        ("bitmap_wait_writes", MdBitmap),
        ("md_super_wait", MdSuperblock),
        ("md_bitmap_wait_behind_writes", WriteBehind),
        ("bitmap_wait_behind_writes", WriteBehind),
        ("llbitmap_wait_behind_writes", WriteBehind),
        ("wait_for_serialization", WriteBehind),
        ("md_wait_for_blocked_rdev", BlockedMember),
        ("regular_request_wait", Reshape),
        ("md_flush_request", OtherFlush),
        ("raid5_get_active_stripe", StripeCache),
        ("make_stripe_request", Overlap),
        ("wait_barrier", ResyncBarrier),
        ("_wait_barrier", ResyncBarrier),
        ("wait_read_barrier", ReadRepair),
        ("wait_barrier_nolock", ResyncBarrier),
        ("blk_mq_get_tag", QueueFull),
        ("ioc_rqos_throttle", IoCost),
        ("blkcg_iolatency_throttle", IoLatency),
        ("wbt_wait", WritebackThrottle),
        ("__wbt_wait", WritebackThrottle),
        ("rq_qos_wait", QueueFull),
        ("blk_queue_enter", QueueFrozen),
        ("__bio_queue_enter", QueueFrozen),
        ("jbd2_log_do_checkpoint", LogSpace),
        ("__jbd2_log_wait_for_space", LogSpace),
        ("xlog_grant_head_wait", LogSpace),
        ("xlog_grant_head_check", LogSpace),
        ("xfs_buf_lock", BufferLock),
        ("xlog_cil_force_seq", CilPush),
        ("xlog_cil_commit", CilPush),
        ("xlog_wait_on_iclog", LogIo),
        ("xlog_force_lsn", LogIo),
        ("xlog_state_get_iclog_space", LogIo),
        ("xfs_extent_busy_flush", LogIo),
        ("jbd2_fc_begin_commit", FastCommit),
        ("jbd2_fc_wait_bufs", FastCommit),
        ("ext4_fc_perform_commit", FastCommit),
        ("ext4_fc_start_update", FastCommit),
        ("ext4_fc_wait_committing_inode", FastCommit),
        ("ext4_fc_wait_inode_state", FastCommit),
        ("ext4_fc_del", FastCommit),
        ("jbd2_journal_release_jbd_inode", OrderedData),
        ("jbd2_log_wait_commit", Commit),
        ("ext4_fc_commit", FastCommit),
        ("wait_transaction_locked", TransactionLocked),
        ("wait_transaction_switching", TransactionLocked),
        ("add_transaction_credits", TransactionLocked),
        ("start_this_handle", TransactionLocked),
        ("do_get_write_access", JournalBuffer),
        ("jbd2_journal_get_write_access", JournalBuffer),
        ("__xfs_iunpin_wait", JournalBuffer),
        ("xfs_buf_wait_unpin", JournalBuffer),
        ("xfs_qm_dqunpin_wait", JournalBuffer),
        ("percpu_rwsem_wait", Frozen),
        ("__percpu_down_read", Frozen),
        ("inode_dio_wait", DirectDrain),
        ("__inode_dio_wait", DirectDrain),
        ("inode_dio_finished", DirectDrain),
        ("blkdev_issue_flush", OwnFlush),
        ("ext4_read_block_bitmap", MetadataRead),
        ("ext4_read_block_bitmap_nowait", MetadataRead),
        ("ext4_wait_block_bitmap", MetadataRead),
        ("ext4_read_inode_bitmap", MetadataRead),
        ("__ext4_get_inode_loc", MetadataRead),
        ("ext4_bread", MetadataRead),
        ("__read_extent_tree_block", MetadataRead),
        ("ext4_read_bh", MetadataRead),
        ("ext4_read_bh_lock", MetadataRead),
        ("ext4_sb_bread", MetadataRead),
        ("__ext4_sb_bread_gfp", MetadataRead),
        ("__ext4_find_entry", MetadataRead),
        ("ext4_ind_get_branch", MetadataRead),
        ("ext4_get_branch", MetadataRead),
        ("__bread_gfp", MetadataRead),
        ("ext4_xattr_block_get", MetadataRead),
        ("xfs_buf_read_map", MetadataRead),
        ("xfs_buf_iowait", MetadataRead),
        // After reads: the task that holds the record may read it.
        ("dquot_acquire", Quota),
        ("dquot_commit", Quota),
        ("dquot_release", Quota),
        ("dqget", Quota),
        ("xfs_trans_dqresv", Quota),
        ("xfs_trans_unreserve_and_mod_dquots", Quota),
        ("xfs_dqlock2", Quota),
        ("sync_inodes_sb", Writeback),
        ("wb_wait_for_completion", Writeback),
        ("writeback_inodes_sb", Writeback),
        ("inode_wait_for_writeback", Writeback),
        ("__inode_wait_for_writeback", Writeback),
        ("xfs_flush_inodes", Writeback),
        ("__folio_lock", PageLock),
        ("__lock_page", PageLock),
        ("folio_wait_stable", PageLock),
        ("wait_for_stable_page", PageLock),
        ("kiocb_write_and_wait", MixedIo),
        ("kiocb_invalidate_pages", MixedIo),
        ("ext4_write_inode", OwnData),
        ("file_write_and_wait_range", OwnData),
        ("filemap_write_and_wait_range", OwnData),
        ("__filemap_fdatawait_range", OwnData),
        ("filemap_fdatawait_range", OwnData),
        ("folio_wait_writeback", OwnData),
        ("wait_on_page_writeback", OwnData),
        ("__iomap_dio_rw", DirectIo),
        ("iomap_dio_rw", DirectIo),
        ("__iomap_dio_read_simple", DirectIo),
        ("blk_io_schedule", DirectIo),
        ("filemap_read", DataRead),
        ("filemap_get_pages", DataRead),
        ("generic_file_buffered_read", DataRead),
        ("filemap_fault", DataRead),
        ("page_cache_ra_unbounded", DataRead),
        ("iomap_write_begin", DataRead),
        // 7.3: a bio that the task itself has submitted.
        ("bio_await", DirectIo),
    ]
};

/// Waits of functions that are on the stacks of other waits, too: only as the innermost one.
const INNERMOST: &[(&str, Phase)] = {
    use Phase::*;
    &[
        ("io_wq_submit_work", UringWorker),
        ("md_handle_request", ArraySuspended),
        ("raid5_read_one_chunk", ArraySuspended),
        ("chunk_aligned_read", ArraySuspended),
        ("raid5_make_request", Reshape),
        ("raid10_write_request", Reshape),
        ("make_discard_request", Overlap),
        // wait_read_barrier(). Up to 6.1 also write-behind, if only write-mostly members are left.
        ("raid1_read_request", ReadRepair),
    ]
};

/// Functions that lock an inode (i_rwsem). When the kernel walks the stack of another task, it
/// leaves out the functions of the scheduler, including those of locks
/// (stack_trace_consume_entry_nosched()). Therefore the innermost function of a task that waits for
/// a lock is the function that takes the lock.
const INODE: [&str; 13] = [
    "ext4_file_read_iter",
    "ext4_file_write_iter",
    "ext4_buffered_write_iter",
    "ext4_dio_read_iter",
    "ext4_dio_write_iter",
    "ext4_fallocate",
    "ext4_punch_hole",
    "ext4_zero_range",
    "ext4_collapse_range",
    "ext4_insert_range",
    "ext4_setattr",
    "do_truncate",
    "xfs_ilock2_io_mmap",
];
/// Functions that lock a block map (i_data_sem), as in [`INODE`].
const BLOCK_MAP: [&str; 6] = [
    "ext4_map_blocks",
    "ext4_da_map_blocks",
    "ext4_da_get_block_prep",
    "ext4_map_create_blocks",
    "ext4_map_query_blocks",
    "ext4_truncate",
];

/// Functions that call xfs_ilock() for the ILOCK, which xfs_ilock() takes last: compilers make the
/// last call in a function a jump, so the stack lacks xfs_ilock() itself. For i_rwsem (IOLOCK) the
/// stack has it.
const ILOCK: [&str; 26] = [
    "xfs_ilock_data_map_shared",
    "xfs_ilock_attr_map_shared",
    "xfs_ilock_for_iomap",
    "xfs_trans_alloc_inode",
    "xfs_trans_alloc_ichange",
    "xfs_lock_inodes",
    "xfs_lock_two_inodes",
    "xfs_buffered_write_iomap_begin",
    "xfs_direct_write_iomap_begin",
    "xfs_read_iomap_begin",
    "xfs_create",
    "xfs_symlink",
    "xfs_setattr_size",
    "xfs_vn_setattr_size",
    "xfs_setfilesize",
    "xfs_map_blocks",
    "xfs_file_fsync",
    "xfs_log_force_inode",
    "xfs_vn_update_time",
    "xfs_can_free_eofblocks",
    "xfs_free_eofblocks",
    "xfs_defer_ops_continue",
    "xfs_bmap_punch_delalloc_range",
    "xfs_bmapi_convert_one_delalloc",
    "xfs_reflink_cancel_cow_range",
    "xfs_reflink_end_cow_extent",
];
/// Functions that call xfs_ilock() for the lock of the file's mapping (invalidate_lock), which has
/// no phase.
const MAPPING: [&str; 3] = ["xfs_vn_setattr", "__xfs_filemap_fault", "__xfs_write_fault"];

/// The phase of a wait in xfs_ilock(), called by `caller`.
fn ilock(caller: &str) -> Phase {
    if MAPPING.contains(&caller) {
        Phase::Other
    } else if ILOCK.contains(&caller) {
        Phase::BlockMapLock
    } else {
        Phase::InodeLock
    }
}

/// True for functions of PREEMPT_RT's locks. Unlike those of other locks, some of them are not
/// among the functions of the scheduler that a stack leaves out: rt_mutex_schedule(),
/// __rt_mutex_slowlock_locked().
fn is_rt_lock(function: &str) -> bool {
    let function = function.trim_start_matches('_');
    ["rt_mutex_", "rwbase_"].iter().any(|prefix| function.starts_with(prefix))
}

/// The phase of a wait. `stack` has functions, innermost first. Ignores compiler suffixes
/// (`.constprop.0`).
pub fn classify<S: AsRef<str>>(stack: &[S]) -> Phase {
    let names = stack.iter().map(|f| plain(f.as_ref())).skip_while(|f| is_rt_lock(f));
    let names: Vec<&str> = names.collect();
    // A spinlock of PREEMPT_RT: the functions that called it wait for nothing else.
    if names.first() == Some(&"schedule_rtlock") {
        return Phase::Other;
    }
    match names.first() {
        Some(&"xfs_ilock") => return ilock(names.get(1).unwrap_or(&"")),
        Some(f) if INODE.contains(f) => return Phase::InodeLock,
        Some(f) if BLOCK_MAP.contains(f) || ILOCK.contains(f) => return Phase::BlockMapLock,
        _ => {}
    }
    let innermost = INNERMOST.iter().find(|(function, _)| names.first() == Some(function));
    if let Some((_, phase)) = innermost {
        return *phase;
    }
    let has = |function| names.contains(&function);
    // Before it writes to a log on another device, XFS flushes the device of the data.
    if has("blkdev_issue_flush") && has("xlog_write_iclog") {
        return Phase::DataFlush;
    }
    // kiocb_write_and_wait(), which makes its last call a jump.
    if has("filemap_write_and_wait_range") && has("__iomap_dio_rw") {
        return Phase::MixedIo;
    }
    let found = RULES.iter().find(|(function, _)| names.contains(function));
    found.map_or(Phase::Other, |(_, phase)| *phase)
}

/// The name of a function without its compiler suffix.
pub(super) fn plain(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}
