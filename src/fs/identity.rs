//! Identity of a filesystem of any kind, to detect that a device no longer holds the filesystem
//! whose layout was read.

use super::uuid::Uuid;

/// Identity of a filesystem and its layout. Equal identities have equal layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// UUID of the filesystem.
    pub uuid: Uuid,
    /// `s_mkfs_time` of an ext filesystem, seconds since 1970; 0 for XFS.
    pub mkfs_time: u32,
    /// Size of the filesystem in its blocks.
    pub blocks: u64,
    /// Digest of all other parameters that the layout depends on.
    pub(super) layout: u64,
}
