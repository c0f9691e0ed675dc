//! Assigns functions to a part of the kernel.
//!
//! A function of a module belongs to the part of that module. Functions without a module are
//! recognized by the prefix of their subsystem. A static function may have no prefix, so all
//! functions of a stack count, not only the innermost.

/// Part of the kernel between a file's data and its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// fs/ext4/mballoc.c.
    Allocator,
    /// The rest of ext4.
    Ext4,
    /// jbd2, the journal of ext4.
    Jbd2,
    /// md and its levels.
    Md,
    Block,
}

/// Prefixes of functions in fs/ext4/mballoc.c: `ext4_mb_` for searches, and its interface for
/// freeing blocks, dropping preallocations and discarding freed blocks.
const ALLOCATOR: [&str; 9] = [
    "ext4_mb_",
    "ext4_free_blocks",
    "ext4_free_data_in_buddy",
    "ext4_process_freed_data",
    "ext4_group_add_blocks",
    "ext4_discard_preallocations",
    "ext4_discard_allocated_blocks",
    "ext4_discard_work",
    "ext4_try_merge_freed_extent",
];

/// Functions of fs/ext4/mballoc.c that neither allocate nor free blocks: /proc/fs/ext4/*/mb_*
/// (which raidtrace reads too), FS_IOC_GETFSMAP, fstrim. A stack with one of them does not count as
/// the allocator.
const READERS: [&str; 4] =
    ["ext4_mb_seq_", "ext4_seq_mb_", "ext4_mballoc_query_range", "ext4_trim_fs"];

/// Prefixes of functions without a module.
const PREFIXES: [(&str, Area); 30] = {
    use Area::*;
    [
        ("ext4_", Ext4),
        ("__ext4_", Ext4),
        ("_ext4_", Ext4),
        ("jbd2_", Jbd2),
        ("__jbd2_", Jbd2),
        ("kjournald2", Jbd2),
        ("md_", Md),
        ("__md_", Md),
        ("raid0_", Md),
        ("raid1_", Md),
        ("raid10_", Md),
        ("raid5_", Md),
        ("raid5d", Md),
        ("raid1d", Md),
        ("raid10d", Md),
        ("raid_run_ops", Md),
        ("handle_stripe", Md),
        ("blk_", Block),
        ("__blk_", Block),
        ("blkdev_", Block),
        ("bio_", Block),
        ("__bio_", Block),
        ("submit_bio", Block),
        ("__submit_bio", Block),
        ("elv_", Block),
        ("dd_", Block),
        ("bfq_", Block),
        ("kyber_", Block),
        ("wbt_", Block),
        ("rq_qos_", Block),
    ]
};
const MODULES: [(&str, Area); 9] = [
    ("ext4", Area::Ext4),
    ("jbd2", Area::Jbd2),
    ("md_mod", Area::Md),
    ("raid456", Area::Md),
    ("raid0", Area::Md),
    ("raid1", Area::Md),
    ("raid10", Area::Md),
    ("linear", Area::Md),
    ("bfq", Area::Block),
];

/// Part of the kernel that a function belongs to; `None` if it is not listed in [`Area`].
pub fn area(name: &str, module: Option<&str>) -> Option<Area> {
    let is = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p));
    // mb_cache_ is fs/mbcache.c.
    let buddy = name.starts_with("mb_") && !name.starts_with("mb_cache_");
    if matches!(module, None | Some("ext4")) && (is(&ALLOCATOR) || buddy) {
        return Some(Area::Allocator);
    }
    if let Some(module) = module {
        return MODULES.iter().find(|(m, _)| *m == module).map(|(_, a)| *a);
    }
    PREFIXES.iter().find(|(p, _)| name.starts_with(p)).map(|(_, area)| *area)
}

/// Prefixes of functions that run only for tracing: BPF programs, their trampolines, tracepoint
/// handlers, kprobes.
const HOOKS: [&str; 12] = [
    "__traceiter_",
    "trace_event_raw_event_",
    "perf_trace_",
    "__bpf_",
    "bpf_trace_run",
    "bpf_trampoline_",
    "bpf_prog_",
    "kprobe_ftrace_handler",
    "kretprobe_",
    "rethook_",
    "arch_rethook_",
    "ftrace_trampoline",
];

/// True for a BPF program, or a function that runs only for tracing.
pub fn is_hook(name: &str) -> bool {
    name == "[bpf]" || HOOKS.iter().any(|p| name.starts_with(p))
}

/// Two flags: true if a stack contains the allocator, and true if it contains any [`Area`].
pub fn contains<'a>(
    functions: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> (bool, bool) {
    let (mut allocator, mut any, mut reader) = (false, false, false);
    for (name, module) in functions {
        let area = area(name, module);
        any |= area.is_some();
        allocator |= area == Some(Area::Allocator);
        reader |= READERS.iter().any(|p| name.starts_with(p));
    }
    (allocator && !reader, any)
}

#[cfg(test)]
mod tests {
    use super::{Area, area, contains};

    #[test]
    fn functions_are_assigned_by_prefix_or_module() {
        for (name, module, expected) in [
            ("ext4_mb_good_group", None, Some(Area::Allocator)),
            ("ext4_mb_good_group", Some("ext4"), Some(Area::Allocator)),
            ("ext4_mb_normalize_request.constprop.0", Some("ext4"), Some(Area::Allocator)),
            ("mb_find_buddy", Some("ext4"), Some(Area::Allocator)),
            ("mb_find_buddy", Some("other"), None),
            ("mb_cache_entry_get", None, None),
            ("mb_cache_entry_get", Some("mbcache"), None),
            ("ext4_free_blocks", None, Some(Area::Allocator)),
            ("ext4_writepages", None, Some(Area::Ext4)),
            ("add_system_zone", Some("ext4"), Some(Area::Ext4)),
            ("__ext4_new_inode", None, Some(Area::Ext4)),
            ("jbd2_journal_commit_transaction", None, Some(Area::Jbd2)),
            ("do_get_write_access", Some("jbd2"), Some(Area::Jbd2)),
            ("md_thread", None, Some(Area::Md)),
            ("ops_run_io", Some("raid456"), Some(Area::Md)),
            ("blk_mq_submit_bio", None, Some(Area::Block)),
            ("submit_bio_noacct", None, Some(Area::Block)),
            ("xfs_bmap", Some("xfs"), None),
            ("vfs_write", None, None),
            ("0xffffffffc0100000", None, None),
        ] {
            assert_eq!(area(name, module), expected, "{name} {module:?}");
        }
    }

    #[test]
    fn readers_do_not_count_as_the_allocator() {
        let stack = |names: &[&'static str]| contains(names.iter().map(|n| (*n, None)));
        assert_eq!(stack(&["ext4_mb_load_buddy_gfp", "vfs_read"]), (true, true));
        assert_eq!(
            stack(&["ext4_mb_load_buddy_gfp", "ext4_mb_seq_groups_show", "seq_read_iter"]),
            (false, true)
        );
        assert_eq!(stack(&["vfs_read", "ksys_read"]), (false, false));
        assert_eq!(stack(&[]), (false, false));
    }
}
