//! Remedies for the block allocator, shared by `doctor` and `alloc`. Commands are printed, never
//! run.

use crate::advice::kernel::Kernel;

/// True if the aligned search can suggest the same group forever (kernel.org bug 217965). This is
/// possible from 6.0, which replaced the tree of groups by average free run with lists, until 6.8,
/// which falls back to an unaligned search. `optimised` and `stripe` (blocks) are properties of the
/// filesystem, if known.
pub fn may_livelock(kernel: &Kernel, optimised: Option<bool>, stripe: Option<u64>) -> bool {
    ((6, 0)..=(6, 7)).contains(&kernel.version())
        && !kernel.new_allocator
        && optimised != Some(false)
        && stripe.is_some_and(|s| s > 1)
}

/// Commands that turn stripe alignment off, now and permanently. `mount` and `device` are quoted.
pub fn stripe_off(mount: &str, device: &str) -> [String; 2] {
    [
        format!("mount -o remount,stripe=0 {mount}"),
        format!("tune2fs -E stride=0,stripe_width=0 {device}"),
    ]
}

pub const STRIPE_OFF_RISK: &str = "parity levels get more partial-stripe writes. `-o stripe=0` at \
                                   mount would be ignored: in /etc/fstab it has to be stripe=1. \
                                   Undone with the old values";
/// Condition under which [`stripe_off`] is not needed.
pub const STRIPE_OFF_UNLESS: &str = "the kernel can be upgraded to 6.8 or later today";

/// Commands that make the kernel find groups by lists instead of a linear search.
pub fn lists_on(mount: &str, device: &str) -> [String; 2] {
    [format!("umount {mount}"), format!("mount -o mb_optimize_scan=1 {device} {mount}")]
}

/// Command that reduces the preallocation. `name` is the kernel name of the device.
pub fn ask_for_less(name: &str) -> String {
    format!("echo 64 > /sys/fs/ext4/{name}/mb_group_prealloc")
}

pub const ASK_FOR_LESS_RISK: &str = "a smaller preallocation asks for shorter runs and makes more \
                                     fragments (undone: the old value, 512 without a stripe)";
pub const LISTS_ON_RISK: &str =
    "Never turn mb_optimize_scan on by remount: before 6.17 that could damage its lists";
/// For a command with a device and a mount point.
pub const OTHER_OPTIONS: &str = "mount(8) then ignores /etc/fstab: add the other mount options";
/// Condition under which neither [`lists_on`] nor [`ask_for_less`] is needed.
pub const LINEAR_UNLESS: &str = "free space can be made instead: removing files helps at once. \
                                 mb_optimize_scan needs 5.13, and 5.18 (or 5.15.y) for files with \
                                 extents; an older kernel refuses to mount with it";
