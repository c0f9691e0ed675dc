//! Kinds of waits, and how they are recognised in a kernel stack.

use serde::{Deserialize, Serialize};

/// A part of the time of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// The queue of a device has no free request.
    QueueFull,
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
    /// Writeback by a flush thread, on behalf of a sync.
    Writeback,
    /// Memory reclaim.
    Memory,
    /// None of the above.
    Other,
}

impl Phase {
    /// Words for a sentence and for the waterfall.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cpu => "on the CPU",
            Self::RunQueue => "waiting for a CPU",
            Self::InodeLock => "the inode's lock",
            Self::BlockMapLock => "the lock of the file's block map",
            Self::DirectDrain => "direct IO in flight on the file",
            Self::Throttled => "throttled because too much is dirty",
            Self::OwnData => "its own data",
            Self::PreRead => "reads for parity",
            Self::MdSuperblock => "md's superblock write after idle",
            Self::MdBitmap => "md's write-intent bitmap",
            Self::StripeCache => "the full stripe cache",
            Self::ResyncBarrier => "the barrier of a resync",
            Self::ArraySuspended => "the suspended array",
            Self::QueueFull => "a full device queue",
            Self::PageLock => "a locked page",
            Self::PreviousCommit => "the previous commit",
            Self::CommitStart => "the start of the commit",
            Self::TransactionLocked => "open handles of the transaction",
            Self::OrderedSubmit => "submitting ordered data",
            Self::JournalSubmit => "submitting journal blocks",
            Self::OrderedData => "ordered data",
            Self::JournalBlocks => "journal blocks",
            Self::DataFlush => "the data disk's flush",
            Self::CommitFlush => "the commit's flush",
            Self::CommitRecord => "the commit record",
            Self::CommitTail => "the end of the commit",
            Self::WakeUp => "waking up",
            Self::Commit => "a commit (states unknown)",
            Self::FastCommit => "a fast commit",
            Self::LogSpace => "room in the journal",
            Self::JournalBuffer => "a metadata block that is being committed",
            Self::CilPush => "the push of the CIL (log)",
            Self::LogIo => "log writes",
            Self::BufferLock => "a locked metadata buffer",
            Self::OwnFlush => "its own flush",
            Self::MetadataRead => "reading metadata",
            Self::DataRead => "reading data",
            Self::DirectIo => "direct IO",
            Self::Writeback => "writeback of all dirty data",
            Self::Memory => "memory reclaim",
            Self::Other => "other waits",
        }
    }
}

/// Functions and the phase of a stack that contains them, in order: the first match decides. The
/// functions are those of 5.10 to 7.3. If a kernel has inlined a function, its caller matches.
/// Specific waits come before the functions that call them.
const RULES: &[(&str, Phase)] = &[
    ("shrink_node", Phase::Memory),
    ("try_to_free_pages", Phase::Memory),
    ("try_to_free_mem_cgroup_pages", Phase::Memory),
    ("mem_cgroup_handle_over_high", Phase::Memory),
    ("throttle_direct_reclaim", Phase::Memory),
    ("balance_dirty_pages", Phase::Throttled),
    ("md_write_start", Phase::MdSuperblock),
    ("md_bitmap_unplug", Phase::MdBitmap),
    ("bitmap_unplug", Phase::MdBitmap),
    ("md_bitmap_startwrite", Phase::MdBitmap),
    ("bitmap_startwrite", Phase::MdBitmap),
    ("md_bitmap_wait_writes", Phase::MdBitmap),
    ("bitmap_wait_writes", Phase::MdBitmap),
    ("raid5_get_active_stripe", Phase::StripeCache),
    ("make_stripe_request", Phase::StripeCache),
    ("wait_barrier", Phase::ResyncBarrier),
    ("_wait_barrier", Phase::ResyncBarrier),
    ("wait_read_barrier", Phase::ResyncBarrier),
    ("wait_barrier_nolock", Phase::ResyncBarrier),
    ("blk_mq_get_tag", Phase::QueueFull),
    ("rq_qos_wait", Phase::QueueFull),
    ("wbt_wait", Phase::QueueFull),
    ("__wbt_wait", Phase::QueueFull),
    ("blk_mq_submit_bio_wait", Phase::QueueFull),
    ("blk_queue_enter", Phase::QueueFull),
    ("__bio_queue_enter", Phase::QueueFull),
    ("jbd2_log_do_checkpoint", Phase::LogSpace),
    ("__jbd2_log_wait_for_space", Phase::LogSpace),
    ("xlog_grant_head_wait", Phase::LogSpace),
    ("xlog_grant_head_check", Phase::LogSpace),
    ("xfs_buf_lock", Phase::BufferLock),
    ("xlog_cil_force_seq", Phase::CilPush),
    ("xlog_cil_commit", Phase::CilPush),
    ("xlog_wait_on_iclog", Phase::LogIo),
    ("xlog_force_lsn", Phase::LogIo),
    ("xlog_state_get_iclog_space", Phase::LogIo),
    ("xfs_extent_busy_flush", Phase::LogIo),
    ("jbd2_fc_begin_commit", Phase::FastCommit),
    ("jbd2_fc_wait_bufs", Phase::FastCommit),
    ("ext4_fc_perform_commit", Phase::FastCommit),
    ("jbd2_log_wait_commit", Phase::Commit),
    ("ext4_fc_commit", Phase::FastCommit),
    ("wait_transaction_locked", Phase::TransactionLocked),
    ("wait_transaction_switching", Phase::TransactionLocked),
    ("add_transaction_credits", Phase::TransactionLocked),
    ("start_this_handle", Phase::TransactionLocked),
    ("do_get_write_access", Phase::JournalBuffer),
    ("jbd2_journal_get_write_access", Phase::JournalBuffer),
    ("__xfs_iunpin_wait", Phase::JournalBuffer),
    ("xfs_buf_wait_unpin", Phase::JournalBuffer),
    ("xfs_qm_dqunpin_wait", Phase::JournalBuffer),
    ("inode_dio_wait", Phase::DirectDrain),
    ("__inode_dio_wait", Phase::DirectDrain),
    ("inode_dio_finished", Phase::DirectDrain),
    ("blkdev_issue_flush", Phase::OwnFlush),
    ("ext4_read_block_bitmap", Phase::MetadataRead),
    ("ext4_read_block_bitmap_nowait", Phase::MetadataRead),
    ("ext4_wait_block_bitmap", Phase::MetadataRead),
    ("ext4_read_inode_bitmap", Phase::MetadataRead),
    ("__ext4_get_inode_loc", Phase::MetadataRead),
    ("ext4_bread", Phase::MetadataRead),
    ("__read_extent_tree_block", Phase::MetadataRead),
    ("ext4_read_bh", Phase::MetadataRead),
    ("ext4_read_bh_lock", Phase::MetadataRead),
    ("ext4_sb_bread", Phase::MetadataRead),
    ("__ext4_sb_bread_gfp", Phase::MetadataRead),
    ("__ext4_find_entry", Phase::MetadataRead),
    ("ext4_ind_get_branch", Phase::MetadataRead),
    ("ext4_get_branch", Phase::MetadataRead),
    ("__bread_gfp", Phase::MetadataRead),
    ("ext4_xattr_block_get", Phase::MetadataRead),
    ("xfs_buf_read_map", Phase::MetadataRead),
    ("xfs_buf_iowait", Phase::MetadataRead),
    ("sync_inodes_sb", Phase::Writeback),
    ("wb_wait_for_completion", Phase::Writeback),
    ("writeback_inodes_sb", Phase::Writeback),
    ("xfs_flush_inodes", Phase::Writeback),
    ("__folio_lock", Phase::PageLock),
    ("__lock_page", Phase::PageLock),
    ("folio_wait_stable", Phase::PageLock),
    ("wait_for_stable_page", Phase::PageLock),
    ("ext4_write_inode", Phase::OwnData),
    ("file_write_and_wait_range", Phase::OwnData),
    ("filemap_write_and_wait_range", Phase::OwnData),
    ("__filemap_fdatawait_range", Phase::OwnData),
    ("filemap_fdatawait_range", Phase::OwnData),
    ("folio_wait_writeback", Phase::OwnData),
    ("wait_on_page_writeback", Phase::OwnData),
    ("__iomap_dio_rw", Phase::DirectIo),
    ("iomap_dio_rw", Phase::DirectIo),
    ("__iomap_dio_read_simple", Phase::DirectIo),
    ("blk_io_schedule", Phase::DirectIo),
    ("filemap_read", Phase::DataRead),
    ("filemap_get_pages", Phase::DataRead),
    ("generic_file_buffered_read", Phase::DataRead),
    ("filemap_fault", Phase::DataRead),
    ("page_cache_ra_unbounded", Phase::DataRead),
    ("iomap_write_begin", Phase::DataRead),
    ("md_handle_request", Phase::ArraySuspended),
    // 7.3: a bio that the task itself has submitted.
    ("bio_await", Phase::DirectIo),
];

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
    // Before it writes to a log on another device, XFS flushes the device of the data.
    if names.contains(&"blkdev_issue_flush") && names.contains(&"xlog_write_iclog") {
        return Phase::DataFlush;
    }
    let found = RULES.iter().find(|(function, _)| names.contains(function));
    found.map_or(Phase::Other, |(_, phase)| *phase)
}

/// The name of a function without its compiler suffix.
pub(super) fn plain(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}
