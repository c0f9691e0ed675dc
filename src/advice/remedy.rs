//! What mends the block allocator, in the words of both `doctor` and `alloc`. Commands are printed, never run.

use crate::advice::kernel::Kernel;

/// Whether the aligned search may propose the same group again and again (kernel.org bug 217965): since the lists of 6.0,
/// until 6.8 falls back to an unaligned search. `optimised`, `stripe` (blocks): of the filesystem, as far as they are known.
pub fn may_livelock(kernel: &Kernel, optimised: Option<bool>, stripe: Option<u64>) -> bool {
    ((6, 0)..=(6, 7)).contains(&kernel.version())
        && !kernel.new_allocator
        && optimised != Some(false)
        && stripe.is_some_and(|s| s > 1)
}

/// What turns stripes off, now and for good. `mount`, `device`: words for a shell.
pub fn stripe_off(mount: &str, device: &str) -> [String; 2] {
    [
        format!("mount -o remount,stripe=0 {mount}"),
        format!("tune2fs -E stride=0,stripe_width=0 {device}"),
    ]
}

/// What [`stripe_off`] costs.
pub const STRIPE_OFF_RISK: &str = "parity levels get more writes of parts of stripes. `-o stripe=0` at mount would be ignored: in /etc/fstab it has to be stripe=1. Undone with the old values";
/// When not.
pub const STRIPE_OFF_UNLESS: &str = "the kernel can be upgraded to 6.8 or later today";

/// What has the kernel look groups up instead of asking one after the other, where it can.
pub fn lists_on(mount: &str, device: &str) -> [String; 2] {
    [
        format!("umount {mount}"),
        format!("mount -o mb_optimize_scan=1 {device} {mount}"),
    ]
}

/// What has it ask for less at a time. `name`: the device's kernel name.
pub fn ask_for_less(name: &str) -> String {
    format!("echo 64 > /sys/fs/ext4/{name}/mb_group_prealloc")
}

/// What that costs.
pub const ASK_FOR_LESS_RISK: &str = "a smaller preallocation asks for shorter runs and makes more fragments (undone: the old value, 512 without a stripe)";
/// How [`lists_on`] must not be had.
pub const LISTS_ON_RISK: &str =
    "Never turn mb_optimize_scan on by remount: before 6.17 that could damage its lists";
/// When neither.
pub const LINEAR_UNLESS: &str = "free space can be made instead: removing files helps at once. mb_optimize_scan needs 5.13, and 5.18 (or 5.15.y) for files with extents; an older kernel refuses to mount with it";
