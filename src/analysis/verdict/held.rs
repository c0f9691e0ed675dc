//! Waits of tasks before their IO reaches the array, from samples of their kernel stacks.

use std::collections::BTreeMap;

use super::CauseKind::{self, Allocator, CgroupLimit, Filesystem, Journal, Md};
use super::moment::MomentSum;
use crate::analysis::around::Asleep;

/// A kernel function in which tasks sleep, and the cause that this shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsIn(
    /// Start of the function's name.
    pub &'static str,
    pub CauseKind,
    /// Name of the cause.
    pub &'static str,
);

/// Name of the wait of writers while too many pages are dirty.
pub const DIRTY_LIMIT: &str = "dirty_limit";
/// Name of the wait for md's barrier, which keeps writes out of the area that is resynced.
pub const BARRIER: &str = "barrier";
/// Name of any other wait for md: for a suspended range, if the array has one.
pub const SUSPENDED: &str = "suspended";
/// Name of the wait for a commit, which in turn waits for IO.
pub const COMMIT: &str = "commit";
/// Name of the wait for a commit by an allocation that found no free block: freed blocks can be
/// used after it.
pub const NO_SPACE: &str = "no_space";
/// Name of the writes of md's write-intent bitmap, which precede writes of data.
pub const BITMAP: &str = "bitmap";
/// Name of the wait of writeback while other requests are slow (blk-wbt): a result of the load.
pub const WBT: &str = "writeback throttling";
/// Name of the wait for an inode's lock, which in turn may be held while IO is waited for.
pub const INODE: &str = "inode";
/// Name of the wait of a commit for the data of files (data=ordered).
const ORDERED: &str = "ordered_data";
/// Name of the wait of a commit for handles that tasks hold.
pub const HANDLES: &str = "handles";

/// Function of ext4's search for free blocks, where a task may be on a CPU, too.
pub const ALLOCATOR: &str = "ext4_mb_regular_allocator";
/// Name of the reads of block bitmaps by that search.
pub const BITMAP_READS: &str = "bitmap_reads";

/// Functions that a stack is searched for, the most telling first.
pub const WAITS_IN: &[WaitsIn] = &[
    // fs/super.c: sb_start_write() sleeps in percpu_rwsem_wait() while the filesystem is frozen.
    WaitsIn("percpu_rwsem_wait", Filesystem, "frozen"),
    WaitsIn("__percpu_down_read", Filesystem, "frozen"),
    WaitsIn("__sb_start_write", Filesystem, "frozen"),
    WaitsIn("balance_dirty_pages", Filesystem, DIRTY_LIMIT),
    WaitsIn("md_write_start", Md, "superblock"),
    WaitsIn("md_flush_request", Md, "flush"),
    WaitsIn("raid5_get_active_stripe", Md, "stripe_cache"),
    WaitsIn("wait_barrier", Md, BARRIER),
    WaitsIn("_wait_barrier", Md, BARRIER),
    WaitsIn("wait_read_barrier", Md, BARRIER),
    WaitsIn("regular_request_wait", Md, BARRIER),
    WaitsIn("md_handle_request", Md, SUSPENDED),
    // block/blk-iocost.c and, for io.latency and wbt, block/blk-rq-qos.c.
    WaitsIn("ioc_rqos_throttle", CgroupLimit, "io.cost"),
    WaitsIn("blkcg_iolatency_throttle", CgroupLimit, "io.latency"),
    WaitsIn("wbt_wait", CgroupLimit, WBT),
    WaitsIn("rq_qos_wait", CgroupLimit, "io.latency or writeback throttling"),
    WaitsIn("blkcg_maybe_throttle", CgroupLimit, "io.latency or io.cost"),
    // fs/jbd2/commit.c and the callbacks of fs/ext4/super.c: jbd2 writes ordered data, and waits.
    WaitsIn("journal_finish_inode_data_buffers", Journal, ORDERED),
    WaitsIn("jbd2_journal_finish_inode_data_buffers", Journal, ORDERED),
    WaitsIn("ext4_journal_finish_inode_data_buffers", Journal, ORDERED),
    WaitsIn("jbd2_journal_submit_inode_data_buffers", Journal, ORDERED),
    WaitsIn("ext4_journal_submit_inode_data_buffers", Journal, ORDERED),
    WaitsIn("ext4_normal_submit_inode_data_buffers", Journal, ORDERED),
    // fs/jbd2/transaction.c: a commit waits until all handles of its transaction have ended.
    WaitsIn("jbd2_journal_wait_updates", Journal, HANDLES),
    // fs/jbd2/checkpoint.c: a handle waits until a checkpoint has made room.
    WaitsIn("__jbd2_log_wait_for_space", Journal, "full"),
    // fs/ext4: only an allocation that finds no free block requests a commit by this function.
    WaitsIn("jbd2_journal_force_commit_nested", Filesystem, NO_SPACE),
    // fs/ext4/balloc.c: the search reads the bitmap of a group, or waits for a read ahead of it.
    WaitsIn("ext4_wait_block_bitmap", Allocator, BITMAP_READS),
    WaitsIn(ALLOCATOR, Allocator, "search"),
    WaitsIn("jbd2_log_wait_commit", Journal, COMMIT),
    WaitsIn("wait_transaction_locked", Journal, "locked"),
    WaitsIn("add_transaction_credits", Journal, "full"),
    // fs/xfs/xfs_log.c: a transaction waits until the log has room.
    WaitsIn("xlog_grant_head_wait", Journal, "full"),
    // fs/xfs/xfs_log.c: fsync and O_DSYNC wait until the log is written.
    WaitsIn("xlog_wait_on_iclog", Journal, COMMIT),
    WaitsIn("xfs_log_force", Journal, COMMIT),
];

/// Functions that take an inode's lock (`i_rwsem`, ext4's `i_data_sem`, XFS's `i_lock`). For a task
/// that waits for it they are innermost: /proc/PID/stack leaves out those of the lock itself
/// (`in_sched_functions()`, kernel/sched/core.c). Elsewhere on a stack they say nothing.
const LOCKS: &[&str] = &[
    "ext4_file_read_iter",
    "ext4_file_write_iter",
    "ext4_buffered_write_iter",
    "ext4_dio_read_iter",
    "ext4_dio_write_iter",
    "ext4_map_blocks",
    "xfs_ilock",
    "iterate_dir",
    "lookup_slow",
    "path_openat",
    "filename_create",
    "do_unlinkat",
];
const LOCK: WaitsIn = WaitsIn("", CauseKind::Lock, INODE);

/// The entry of a function; `None` if the function is not in the table.
pub fn known(function: &str) -> Option<&'static WaitsIn> {
    let found = WAITS_IN.iter().find(|known| function.starts_with(known.0));
    let is_lock = || LOCKS.iter().any(|lock| function.starts_with(lock));
    found.or_else(|| is_lock().then_some(&LOCK))
}

/// Least share of the time asleep of tasks, or of a commit, of a wait that is the cause.
pub const MIN_HELD_SHARE: f64 = 0.5;

/// Least share of the time in searches for free blocks for which a commit waits.
const SEARCHED: f64 = 0.1;

/// The wait in which tasks spend most of their time asleep.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub by: &'static WaitsIn,
    /// Share of the tasks' time asleep.
    pub share: f64,
}

/// Time asleep of tasks, ms, and the entry of what they sleep in longest with its time.
type SleepTime = (u64, Option<(&'static WaitsIn, u64)>);

fn longest<'a>(tasks: impl Iterator<Item = &'a Asleep>) -> SleepTime {
    let (mut all, mut by) = (0, BTreeMap::<_, (u64, &'static WaitsIn)>::new());
    for (function, ms) in tasks.flat_map(|a| &a.ms) {
        all += ms;
        if let Some(found) = known(function) {
            by.entry(found.2).or_insert((0, found)).0 += ms;
        }
    }
    let most = by.into_values().max_by_key(|(ms, _)| *ms);
    (all, most.map(|(ms, found)| (found, ms)))
}

/// The wait of the tasks `who`; `None` if they wait for IO most of the time.
pub fn held(now: &MomentSum, who: impl Fn(&str) -> bool) -> Option<Held> {
    let (all, most) = longest(now.asleep.values().filter(|a| !a.is_kernel && who(&a.comm)));
    let (mut by, ms) = most.filter(|most| most.0.2 != SUSPENDED)?;
    let mut share = ms as f64 / (all as f64).max(1.0);
    if by.2 == COMMIT {
        // The commit waits for data of files, for md, or for its own IO.
        let (all, most) = longest(now.asleep.values().filter(|a| a.is_kernel));
        let part = |ms: u64| ms as f64 / (all as f64).max(1.0);
        if let Some((behind, ms)) = most.filter(|m| m.0.2 != COMMIT && part(m.1) >= MIN_HELD_SHARE)
        {
            by = behind;
            share *= part(ms);
        }
        // Or it waits for the handle of a task that searches for free blocks.
        let searched = now.asleep.values().filter_map(|a| a.ms.get(ALLOCATOR)).sum::<u64>();
        if searched as f64 >= SEARCHED * now.waits.seconds * 1000.0 {
            by = known(ALLOCATOR)?;
        }
    }
    Some(Held { by, share })
}

/// Mean time that tasks sleep, µs: for each of their bios, or, without `bios`, each time. A task
/// that is held wakes up several times for one bio.
pub fn sleep_us(asleep: &Asleep, bios: Option<f64>) -> f64 {
    let sleeps = asleep.sleeps.max(1) as f64;
    asleep.total_ms() as f64 * 1000.0 / bios.map_or(sleeps, |bios| sleeps.min(bios.max(1.0)))
}
