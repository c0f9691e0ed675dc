//! Parameters of an array, and errors of invalid ones.

use std::{fmt, str::FromStr};

use super::{MAX_DISKS, MAX_ZONES};
use crate::contract;

/// The RAID level, numbered as in `enum rt_level`. [`Level::Single`] is a disk without md, treated
/// as an array of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Level {
    /// A disk without md: array and member addresses are equal.
    Single = contract::LEVEL_SINGLE,
    /// Striping over members that may differ in size.
    Raid0 = contract::LEVEL_RAID0,
    /// Mirrors.
    Raid1 = contract::LEVEL_RAID1,
    /// Parity on the last member.
    Raid4 = contract::LEVEL_RAID4,
    /// One parity, six layouts.
    Raid5 = contract::LEVEL_RAID5,
    /// Two parities, fourteen layouts.
    Raid6 = contract::LEVEL_RAID6,
    /// Striped copies: near, far, offset.
    Raid10 = contract::LEVEL_RAID10,
    /// One member after the other.
    Linear = contract::LEVEL_LINEAR,
}

impl Level {
    /// The name in JSON and sysfs `md/level`.
    pub const fn name(self) -> &'static str {
        use Level::*;
        match self {
            Single => "single",
            Raid0 => "raid0",
            Raid1 => "raid1",
            Raid4 => "raid4",
            Raid5 => "raid5",
            Raid6 => "raid6",
            Raid10 => "raid10",
            Linear => "linear",
        }
    }

    /// Number of parity blocks in a stripe: 1 on RAID 4 and 5, 2 on RAID 6, else 0.
    pub const fn parities(self) -> u32 {
        match self {
            Self::Raid4 | Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }

    const ALL: [Self; 8] = {
        use Level::*;
        [Single, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Linear]
    };
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = GeometryError;

    /// Parses sysfs `md/level`, with or without its newline.
    fn from_str(s: &str) -> Result<Self, GeometryError> {
        let s = s.trim();
        let known = Self::ALL.into_iter().find(|l| l.name() == s);
        known.ok_or_else(|| GeometryError::Level(s.to_owned()))
    }
}

/// Parameters of an array from sysfs or the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// sysfs `md/level`.
    pub level: Level,
    /// sysfs `md/layout`. RAID 0: 1 original, 2 alternate, other values (0, or -1 in sysfs, here
    /// all ones) not recorded. Ignored for single, RAID 1 and 4.
    pub layout: u32,
    /// sysfs `md/raid_disks`.
    pub disks: u32,
    /// sysfs `md/chunk_size` in sectors; ignored for single and RAID 1. Members of a linear array
    /// are rounded down to it, unless it is 0.
    pub chunk_sectors: u32,
    /// Size of each slot's data area in sectors. One value applies to all members. If there are
    /// several, all levels but RAID 0 and linear use the smallest (md's component size).
    pub member_sectors: Vec<u64>,
}

/// Invalid fields of [`Params`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A level without block addresses, or one removed from md.
    #[error("level {0} is not supported")]
    Level(String),
    /// Less than the minimum of the level (or not exactly one for a disk without md).
    #[error("disks: {0} cannot have {1}")]
    Disks(Level, u32),
    /// More than [`MAX_DISKS`].
    #[error("disks: {0} members are too many, the limit is {MAX_DISKS}")]
    TooManyDisks(u32),
    /// Zero, or not a power of two although md requires it.
    #[error("chunk_sectors: {0} cannot have chunks of {1} sectors")]
    Chunk(Level, u32),
    /// The number of the layout is unknown for the level, or invalid with this number of disks.
    #[error("layout: {1:#x} is not a layout of {0} with {2} disks")]
    Layout(Level, u32, u32),
    /// RAID 0 of unequal members with a layout other than 1 and 2: `create_strip_zones` then uses a
    /// module parameter, and fails if that is 0.
    #[error(
        "layout: members of different sizes need layout 1 (original) or 2 (alternate), but none \
         is recorded; see /sys/module/raid0/parameters/default_layout"
    )]
    NoZoneLayout,
    /// More than [`MAX_ZONES`].
    #[error("member_sectors: {0} different sizes are too many, the limit is {MAX_ZONES}")]
    TooManyZones(usize),
    /// Neither one size for all members nor one size per member.
    #[error("member_sectors: {0} sizes for {1} disks")]
    Sizes(usize, u32),
    /// Too small for one row, or too large.
    #[error("member_sectors: a member cannot have {0} sectors")]
    MemberSectors(u64),
}
