//! The largest transaction, which the smallest log and the log for many CPUs depend on.

use super::decided::Decided;
use super::groups::Groups;

/// Bytes of the largest transaction (xfs_log_get_max_trans_res, libxfs/xfs_log_rlimit.c).
///
/// # Errors
/// raidtrace does not compute it for this geometry.
pub fn largest(_decided: &Decided, _groups: &Groups) -> Result<u64, String> {
    Err("raidtrace does not compute the log that mkfs.xfs creates here: give -l size=".to_owned())
}
