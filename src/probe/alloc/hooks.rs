//! Programs, the kernel functions and tracepoints that they hook, and the figures that they give.

use crate::analysis::alloc::FigureSource;

/// Programs that are useful only together.
#[derive(Debug, PartialEq, Eq)]
pub struct AllocHook {
    /// C names, in order of attachment.
    pub programs: &'static [&'static str],
    /// Kernel functions to which the programs are attached; empty for a tracepoint.
    pub functions: &'static [&'static str],
    /// Kind of hook.
    pub source: FigureSource,
    /// Figures that the programs give, with the names of [`AllocPlan::sources`]: fields of
    /// `analysis::alloc::Counts` and `AllocCounters`.
    pub figures: &'static [&'static str],
    /// Figures that are missing without the programs, in words.
    pub gives: &'static str,
}

/// ext4's tracepoints: name, minimum number of arguments, hook.
pub const TRACEPOINTS: [(&str, usize, AllocHook); 8] = [
    (
        "ext4_request_blocks",
        1,
        tracepoint(
            &["rt_al_request"],
            &["requests", "asked", "latency", "tasks", "files"],
            "requests, or their latency",
        ),
    ),
    (
        "ext4_allocate_blocks",
        2,
        tracepoint(
            &["rt_al_allocate"],
            &["given", "got", "latency", "tasks", "files"],
            "allocated blocks, or their latency",
        ),
    ),
    (
        "ext4_mballoc_alloc",
        1,
        tracepoint(
            &["rt_al_search"],
            &["searches", "goal", "criteria", "scanned", "groups"],
            "searches",
        ),
    ),
    (
        "ext4_mballoc_prealloc",
        1,
        tracepoint(&["rt_al_prealloc"], &["preallocated"], "allocations from preallocated space"),
    ),
    ("ext4_mb_bitmap_load", 2, tracepoint(&["rt_al_bitmap"], &["bitmaps"], "bitmap loads")),
    ("ext4_mb_buddy_bitmap_load", 2, tracepoint(&["rt_al_buddy"], &["buddies"], "buddy loads")),
    (
        "ext4_read_block_bitmap_load",
        3,
        tracepoint(&["rt_al_read"], &["reads", "prefetches"], "bitmap reads from disk"),
    ),
    (
        "ext4_discard_preallocations",
        2,
        tracepoint(&["rt_al_discard"], &["discards"], "preallocated space that is given back"),
    ),
];

/// Counts groups in `ext4_mb_scan_group()`, which considers each group since Linux 6.17, and in
/// backports.
pub const GROUPS: AllocHook = AllocHook {
    // The program at the start of a search is attached last: the other programs count nothing
    // before it has run.
    programs: &[
        "rt_al_list_out",
        "rt_al_list_in",
        "rt_al_scan",
        "rt_al_group",
        "rt_al_search_out",
        "rt_al_search_in",
    ],
    functions: &[
        "ext4_mb_scan_groups_xa_range",
        "ext4_mb_scan_group",
        "ext4_mb_good_group",
        "ext4_mb_regular_allocator",
    ],
    source: FigureSource::Fentry,
    figures: &["looked", "refused", "reasons", "groups", "calls"],
    gives: "groups counted by a hook, or reasons why they are refused (ext4_mb_scan_group or \
            ext4_get_group_info)",
};
/// Counts groups in `ext4_get_group_info()` before 6.17, on kernels where it is a function (since
/// 5.10.181, 5.15.113, 6.1.30, 6.4).
pub const GROUPS_BY_INFO: AllocHook = AllocHook {
    programs: &[
        "rt_al_prefetch_out",
        "rt_al_prefetch_in",
        "rt_al_fini_out",
        "rt_al_fini_in",
        "rt_al_load_out",
        "rt_al_load_in",
        "rt_al_init_out",
        "rt_al_init_in",
        "rt_al_goal_out",
        "rt_al_goal_in",
        "rt_al_info",
        "rt_al_group",
        "rt_al_search_out",
        "rt_al_search_in",
    ],
    functions: &[
        "ext4_mb_prefetch",
        "ext4_mb_prefetch_fini",
        "ext4_mb_load_buddy_gfp",
        "ext4_mb_init_group",
        "ext4_mb_find_by_goal",
        "ext4_get_group_info",
        "ext4_mb_good_group",
        "ext4_mb_regular_allocator",
    ],
    ..GROUPS
};
/// `ext4_wait_block_bitmap(sb, group, bh)`.
pub const WAIT_FUNCTION: &str = "ext4_wait_block_bitmap";
pub const WAIT: AllocHook = AllocHook {
    programs: &["rt_al_wait_out", "rt_al_wait_in"],
    functions: &[WAIT_FUNCTION],
    source: FigureSource::Fentry,
    figures: &["waits"],
    gives: "time spent waiting for bitmaps (ext4_wait_block_bitmap)",
};
pub const WAIT_KPROBE: AllocHook = AllocHook {
    programs: &["rt_al_kwait_out", "rt_al_kwait_in"],
    source: FigureSource::Kprobe,
    ..WAIT
};

const fn tracepoint(
    programs: &'static [&'static str],
    figures: &'static [&'static str],
    gives: &'static str,
) -> AllocHook {
    AllocHook { programs, functions: &[], source: FigureSource::Tracepoint, figures, gives }
}

/// Functions of ext4 that a plan may hook.
pub fn functions() -> impl Iterator<Item = &'static str> {
    [GROUPS, GROUPS_BY_INFO, WAIT].into_iter().flat_map(|hook| hook.functions).copied()
}
