//! Functions of ext4's allocator.

/// Functions of ext4 that a plan may hook; see [`super::plan`].
pub const FUNCTIONS: [&str; 11] = [
    "ext4_mb_regular_allocator",
    "ext4_mb_good_group",
    "ext4_mb_scan_group",
    "ext4_mb_scan_groups_xa_range",
    "ext4_get_group_info",
    "ext4_mb_prefetch",
    "ext4_mb_prefetch_fini",
    "ext4_mb_load_buddy_gfp",
    "ext4_mb_init_group",
    "ext4_mb_find_by_goal",
    WAIT,
];

/// `ext4_wait_block_bitmap(sb, group, bh)`.
pub const WAIT: &str = "ext4_wait_block_bitmap";
