//! BPF programs, their hook points, and the figures that they give.

/// Tracepoints that the programs attach to.
pub const TRACEPOINTS: [&str; 18] = [
    "sched_switch",
    "sched_waking",
    "ext4_sync_file_enter",
    "ext4_sync_file_exit",
    "jbd2_start_commit",
    "jbd2_commit_locking",
    "jbd2_commit_flushing",
    "jbd2_commit_logging",
    "jbd2_run_stats",
    "jbd2_end_commit",
    "jbd2_handle_stats",
    "folio_wait_writeback",
    "wait_on_page_writeback",
    "contention_begin",
    "contention_end",
    "block_bio_queue",
    "block_rq_complete",
    "block_bio_complete",
];

/// Functions that the programs attach to.
pub const FUNCTIONS: [&str; 13] = [
    "ext4_file_read_iter",
    "ext4_file_write_iter",
    "ext4_fallocate",
    "ext4_truncate",
    "ext4_create",
    "ext4_mkdir",
    "ext4_rename2",
    "ext4_unlink",
    "sync_filesystem",
    "ksys_sync",
    "sync_file_range",
    "__jbd2_log_start_commit",
    "ext4_journal_finish_inode_data_buffers",
];

/// Hook point of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A tracepoint with at least this number of arguments.
    AtLeast(&'static str, usize),
    /// A tracepoint with exactly this number of arguments.
    Exactly(&'static str, usize),
    /// A function.
    Function(&'static str),
    /// A function with exactly this number of arguments.
    FunctionOf(&'static str, usize),
}

/// Programs that are useful only together.
#[derive(Debug, PartialEq, Eq)]
pub struct Hook {
    /// C names, in order of attachment: the end of an operation before its start.
    pub programs: &'static [&'static str],
    /// Hook points. All are needed.
    pub on: &'static [On],
    /// Figures that are missing without the programs.
    pub gives: &'static str,
    /// True if `raidtrace slow` cannot work without the programs.
    pub required: bool,
    /// True if a missing hook gives no note, because another hook gives the same figures on other kernels.
    pub silent: bool,
}

const fn hook(programs: &'static [&'static str], on: &'static [On], gives: &'static str) -> Hook {
    Hook {
        programs,
        on,
        gives,
        required: false,
        silent: false,
    }
}

const fn required(hook: Hook) -> Hook {
    Hook {
        required: true,
        ..hook
    }
}

const fn silent(hook: Hook) -> Hook {
    Hook {
        silent: true,
        ..hook
    }
}

/// Figures that either of two hooks gives.
pub const CREATE: &str = "create, mkdir and rename";
pub const IO: &str = "IO of members";
pub const ORDERED: &str = "files whose ordered data a commit waits for";

/// All hooks, in order of attachment.
pub const HOOKS: [Hook; 22] = [
    required(hook(
        &["rt_slow_waking", "rt_slow_switch"],
        &[
            On::AtLeast("sched_waking", 1),
            On::AtLeast("sched_switch", 3),
        ],
        "sleeps of tasks",
    )),
    hook(
        &["rt_slow_bio_done"],
        &[On::AtLeast("block_bio_complete", 2)],
        "IO of members without requests",
    ),
    hook(
        &["rt_slow_rq_done"],
        &[On::AtLeast("block_rq_complete", 3)],
        "IO of members",
    ),
    silent(hook(
        &["rt_slow_bio_queue"],
        &[On::Exactly("block_bio_queue", 1)],
        IO,
    )),
    silent(hook(
        &["rt_slow_bio_queue_q"],
        &[On::Exactly("block_bio_queue", 2)],
        IO,
    )),
    silent(hook(
        &["rt_slow_folio_wait"],
        &[On::AtLeast("folio_wait_writeback", 2)],
        ORDERED,
    )),
    silent(hook(
        &["rt_slow_page_wait"],
        &[On::AtLeast("wait_on_page_writeback", 2)],
        ORDERED,
    )),
    hook(
        &["rt_slow_ordered"],
        &[On::Function("ext4_journal_finish_inode_data_buffers")],
        "bytes of ordered data",
    ),
    hook(
        &["rt_slow_request"],
        &[On::Function("__jbd2_log_start_commit")],
        "tasks that request commits",
    ),
    hook(
        &["rt_slow_handle"],
        &[On::AtLeast("jbd2_handle_stats", 5)],
        "tasks that hold a transaction",
    ),
    required(hook(
        &[
            "rt_slow_commit_end",
            "rt_slow_commit_stats",
            "rt_slow_commit_log",
            "rt_slow_commit_flush",
            "rt_slow_commit_lock",
            "rt_slow_commit_start",
        ],
        &[
            On::AtLeast("jbd2_end_commit", 1),
            On::AtLeast("jbd2_run_stats", 3),
            On::AtLeast("jbd2_commit_logging", 1),
            On::AtLeast("jbd2_commit_flushing", 1),
            On::AtLeast("jbd2_commit_locking", 1),
            On::AtLeast("jbd2_start_commit", 2),
        ],
        "commits",
    )),
    hook(
        &["rt_slow_lock_end", "rt_slow_lock_begin"],
        &[
            On::AtLeast("contention_end", 1),
            On::AtLeast("contention_begin", 2),
        ],
        "holders of inode locks",
    ),
    hook(
        &["rt_slow_read_out", "rt_slow_read_in"],
        &[On::Function("ext4_file_read_iter")],
        "reads",
    ),
    hook(
        &["rt_slow_write_out", "rt_slow_write_in"],
        &[On::Function("ext4_file_write_iter")],
        "writes",
    ),
    hook(
        &["rt_slow_fallocate_out", "rt_slow_fallocate_in"],
        &[On::Function("ext4_fallocate")],
        "fallocate",
    ),
    hook(
        &["rt_slow_truncate_out", "rt_slow_truncate_in"],
        &[On::Function("ext4_truncate")],
        "truncation",
    ),
    silent(hook(
        &[
            "rt_slow_create_out",
            "rt_slow_create_in",
            "rt_slow_mkdir_out",
            "rt_slow_mkdir_in",
            "rt_slow_rename_out",
            "rt_slow_rename_in",
        ],
        &[
            On::Function("ext4_create"),
            On::FunctionOf("ext4_mkdir", 4),
            On::Function("ext4_rename2"),
        ],
        CREATE,
    )),
    silent(hook(
        &[
            "rt_slow_create_out",
            "rt_slow_create_in_dir",
            "rt_slow_mkdir_out",
            "rt_slow_mkdir_in_dir",
            "rt_slow_rename_out",
            "rt_slow_rename_in_dir",
        ],
        &[
            On::Function("ext4_create"),
            On::FunctionOf("ext4_mkdir", 3),
            On::Function("ext4_rename2"),
        ],
        CREATE,
    )),
    hook(
        &["rt_slow_unlink_out", "rt_slow_unlink_in"],
        &[On::Function("ext4_unlink")],
        "unlink",
    ),
    hook(
        &[
            "rt_slow_syncfs_out",
            "rt_slow_syncfs_in",
            "rt_slow_ksync_out",
            "rt_slow_ksync_in",
        ],
        &[On::Function("sync_filesystem"), On::Function("ksys_sync")],
        "sync and syncfs",
    ),
    hook(
        &["rt_slow_range_out", "rt_slow_range_in"],
        &[On::Function("sync_file_range")],
        "sync_file_range",
    ),
    required(hook(
        &["rt_slow_sync_out", "rt_slow_sync_in"],
        &[
            On::AtLeast("ext4_sync_file_exit", 1),
            On::AtLeast("ext4_sync_file_enter", 2),
        ],
        "fsync",
    )),
];
