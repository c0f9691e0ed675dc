//! BPF programs, their hook points, and the figures that they give.

use HookPoint::{AtLeast, Exactly, Function, FunctionOf};

/// Hook point of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    /// A tracepoint with at least this number of arguments.
    AtLeast(&'static str, usize),
    /// A tracepoint with exactly this number of arguments.
    Exactly(&'static str, usize),
    Function(&'static str),
    /// A function with exactly this number of arguments.
    FunctionOf(&'static str, usize),
}

impl HookPoint {
    /// Name of the function; `None` for a tracepoint.
    pub fn function(&self) -> Option<&'static str> {
        match *self {
            Self::AtLeast(..) | Self::Exactly(..) => None,
            Self::Function(name) | Self::FunctionOf(name, _) => Some(name),
        }
    }
}

/// Filesystem whose operations a program traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedFs {
    /// Any: the program does not depend on a filesystem.
    Any,
    /// ext2, ext3 and ext4.
    Ext4,
    Xfs,
}

/// Programs that are useful only together.
#[derive(Debug, PartialEq, Eq)]
pub struct SlowHook {
    /// C names, in order of attachment: the end of an operation before its start.
    pub programs: &'static [&'static str],
    /// Hook points. All are needed.
    pub on: &'static [HookPoint],
    /// Figures that are missing without the programs.
    pub gives: &'static str,
    /// Filesystem without which the programs are not loaded.
    pub of: TracedFs,
    /// True if the operations of the filesystem cannot be traced without the programs.
    pub required: bool,
    /// True if a missing hook gives no note, because another hook gives the same figures on other
    /// kernels.
    pub silent: bool,
}

const fn hook(
    programs: &'static [&'static str],
    on: &'static [HookPoint],
    gives: &'static str,
) -> SlowHook {
    SlowHook { programs, on, gives, of: TracedFs::Any, required: false, silent: false }
}

const fn required(hook: SlowHook) -> SlowHook {
    SlowHook { required: true, ..hook }
}

const fn silent(hook: SlowHook) -> SlowHook {
    SlowHook { silent: true, ..hook }
}

const fn ext4(hook: SlowHook) -> SlowHook {
    SlowHook { of: TracedFs::Ext4, ..hook }
}

const fn xfs(hook: SlowHook) -> SlowHook {
    SlowHook { of: TracedFs::Xfs, ..hook }
}

/// Figures that either of two hooks gives.
pub const CREATE: &str = "create, mkdir and rename";
/// Figure that either of two hooks gives; the first one is used if a kernel has both.
pub const ASYNC: &str = "asynchronous direct IO";
/// Starts of asynchronous direct IO, for kernels that allow no hooks on the functions of
/// [`READS_AND_WRITES`].
pub const ASYNC_STARTS: &str = "starts of asynchronous direct IO";
pub const READS_AND_WRITES: [&str; 4] = ["reads", "writes", "reads of XFS", "writes of XFS"];
pub const IO: &str = "IO of members";
pub const ORDERED: &str = "files whose ordered data a commit waits for";

/// The program that userspace runs. It is not attached.
pub const UNENDED: &str = "rt_slow_unended";

/// All hooks, in order of attachment.
pub const HOOKS: [SlowHook; 34] = [
    required(hook(
        &["rt_slow_waking", "rt_slow_switch"],
        &[AtLeast("sched_waking", 1), AtLeast("sched_switch", 3)],
        "sleeps of tasks",
    )),
    hook(&[UNENDED], &[], "operations that have not ended"),
    hook(
        &["rt_slow_bio_done"],
        &[AtLeast("block_bio_complete", 2)],
        "IO of members without requests",
    ),
    hook(&["rt_slow_rq_done"], &[AtLeast("block_rq_complete", 3)], "IO of members"),
    silent(hook(&["rt_slow_bio_queue"], &[Exactly("block_bio_queue", 1)], IO)),
    silent(hook(&["rt_slow_bio_queue_q"], &[Exactly("block_bio_queue", 2)], IO)),
    ext4(silent(hook(&["rt_slow_folio_wait"], &[AtLeast("folio_wait_writeback", 2)], ORDERED))),
    ext4(silent(hook(&["rt_slow_page_wait"], &[AtLeast("wait_on_page_writeback", 2)], ORDERED))),
    ext4(hook(
        &["rt_slow_ordered"],
        &[Function("ext4_journal_finish_inode_data_buffers")],
        "bytes of ordered data",
    )),
    ext4(hook(
        &["rt_slow_request"],
        &[Function("__jbd2_log_start_commit")],
        "tasks that request commits",
    )),
    ext4(hook(
        &["rt_slow_handle"],
        &[AtLeast("jbd2_handle_stats", 5)],
        "tasks that hold a transaction",
    )),
    ext4(required(hook(
        &[
            "rt_slow_commit_end",
            "rt_slow_commit_stats",
            "rt_slow_commit_log",
            "rt_slow_commit_flush",
            "rt_slow_commit_lock",
            "rt_slow_commit_start",
        ],
        &[
            AtLeast("jbd2_end_commit", 1),
            AtLeast("jbd2_run_stats", 3),
            AtLeast("jbd2_commit_logging", 1),
            AtLeast("jbd2_commit_flushing", 1),
            AtLeast("jbd2_commit_locking", 1),
            AtLeast("jbd2_start_commit", 2),
        ],
        "commits",
    ))),
    hook(
        &["rt_slow_lock_end", "rt_slow_lock_begin"],
        &[AtLeast("contention_end", 1), AtLeast("contention_begin", 2)],
        "holders of inode locks",
    ),
    silent(hook(
        &["rt_slow_dio_done", "rt_slow_dio_done_too"],
        &[AtLeast("iomap_dio_complete", 3)],
        ASYNC,
    )),
    silent(hook(
        &["rt_slow_dio_out", "rt_slow_dio_out_too", "rt_slow_dio_in", "rt_slow_dio_in_too"],
        &[FunctionOf("iomap_dio_complete", 1)],
        ASYNC,
    )),
    silent(hook(&["rt_slow_dio_begin"], &[AtLeast("iomap_dio_rw_begin", 2)], ASYNC_STARTS)),
    ext4(hook(
        &["rt_slow_read_out", "rt_slow_read_in"],
        &[Function("ext4_file_read_iter")],
        "reads",
    )),
    ext4(hook(
        &["rt_slow_write_out", "rt_slow_write_in"],
        &[Function("ext4_file_write_iter")],
        "writes",
    )),
    ext4(hook(
        &["rt_slow_fallocate_out", "rt_slow_fallocate_in"],
        &[Function("ext4_fallocate")],
        "fallocate",
    )),
    ext4(hook(
        &["rt_slow_truncate_out", "rt_slow_truncate_in"],
        &[Function("ext4_truncate")],
        "truncation",
    )),
    ext4(silent(hook(
        &[
            "rt_slow_create_out",
            "rt_slow_create_in",
            "rt_slow_mkdir_out",
            "rt_slow_mkdir_in",
            "rt_slow_rename_out",
            "rt_slow_rename_in",
        ],
        &[Function("ext4_create"), FunctionOf("ext4_mkdir", 4), Function("ext4_rename2")],
        CREATE,
    ))),
    ext4(silent(hook(
        &[
            "rt_slow_create_out",
            "rt_slow_create_in_dir",
            "rt_slow_mkdir_out",
            "rt_slow_mkdir_in_dir",
            "rt_slow_rename_out",
            "rt_slow_rename_in_dir",
        ],
        &[Function("ext4_create"), FunctionOf("ext4_mkdir", 3), Function("ext4_rename2")],
        CREATE,
    ))),
    ext4(hook(&["rt_slow_unlink_out", "rt_slow_unlink_in"], &[Function("ext4_unlink")], "unlink")),
    hook(
        &["rt_slow_syncfs_out", "rt_slow_syncfs_in", "rt_slow_ksync_out", "rt_slow_ksync_in"],
        &[Function("sync_filesystem"), Function("ksys_sync")],
        "sync and syncfs",
    ),
    hook(
        &["rt_slow_range_out", "rt_slow_range_in"],
        &[Function("sync_file_range")],
        "sync_file_range",
    ),
    ext4(required(hook(
        &["rt_slow_sync_out", "rt_slow_sync_in"],
        &[AtLeast("ext4_sync_file_exit", 1), AtLeast("ext4_sync_file_enter", 2)],
        "fsync",
    ))),
    xfs(hook(
        &["rt_slow_xfs_grant"],
        &[AtLeast("xfs_log_grant_sleep", 1)],
        "threads that free space in XFS's log",
    )),
    xfs(hook(
        &["rt_slow_xfs_read_out", "rt_slow_xfs_read_in"],
        &[Function("xfs_file_read_iter")],
        "reads of XFS",
    )),
    xfs(hook(
        &["rt_slow_xfs_write_out", "rt_slow_xfs_write_in"],
        &[Function("xfs_file_write_iter")],
        "writes of XFS",
    )),
    xfs(hook(
        &["rt_slow_xfs_fallocate_out", "rt_slow_xfs_fallocate_in"],
        &[Function("xfs_file_fallocate")],
        "fallocate of XFS",
    )),
    xfs(hook(
        &["rt_slow_xfs_truncate_out", "rt_slow_xfs_truncate_in"],
        &[FunctionOf("xfs_vn_setattr_size", 3)],
        "truncation of XFS",
    )),
    xfs(hook(
        &[
            "rt_slow_xfs_create_out",
            "rt_slow_xfs_create_in",
            "rt_slow_xfs_mkdir_out",
            "rt_slow_xfs_mkdir_in",
            "rt_slow_xfs_rename_out",
            "rt_slow_xfs_rename_in",
        ],
        &[Function("xfs_vn_create"), FunctionOf("xfs_vn_mkdir", 4), Function("xfs_vn_rename")],
        "create, mkdir and rename of XFS",
    )),
    xfs(hook(
        &["rt_slow_xfs_unlink_out", "rt_slow_xfs_unlink_in"],
        &[Function("xfs_vn_unlink")],
        "unlink of XFS",
    )),
    xfs(required(hook(
        &["rt_slow_xfs_sync_out", "rt_slow_xfs_sync_in"],
        &[FunctionOf("xfs_file_fsync", 4)],
        "fsync of XFS",
    ))),
];

pub fn points() -> impl Iterator<Item = &'static HookPoint> {
    HOOKS.iter().flat_map(|hook| hook.on)
}
