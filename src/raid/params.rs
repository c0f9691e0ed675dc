//! What md says of an array, and why some of it cannot be one. Knows no arithmetic.

use std::{fmt, str::FromStr};

use super::{MAX_DISKS, MAX_ZONES};

/// The RAID level; [`Level::Single`] is a plain disk, an array of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// A disk without md: the identity.
    Single,
    /// Striping over members that may differ in size.
    Raid0,
    /// Mirrors.
    Raid1,
    /// Parity on the last member.
    Raid4,
    /// Parity that moves, six layouts.
    Raid5,
    /// Two parities, fourteen layouts.
    Raid6,
    /// Striped copies: near, far, offset.
    Raid10,
}

impl Level {
    /// The name, as JSON and sysfs `md/level` spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
        }
    }

    const ALL: [Self; 7] = [
        Self::Single,
        Self::Raid0,
        Self::Raid1,
        Self::Raid4,
        Self::Raid5,
        Self::Raid6,
        Self::Raid10,
    ];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = GeometryError;

    /// Takes what sysfs `md/level` says, line end included.
    fn from_str(s: &str) -> Result<Self, GeometryError> {
        let s = s.trim();
        let known = Self::ALL.into_iter().find(|l| l.name() == s);
        known.ok_or_else(|| GeometryError::Level(s.to_owned()))
    }
}

/// What md knows of an array, as sysfs or the superblock says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// sysfs `md/level`.
    pub level: Level,
    /// sysfs `md/layout`; RAID 0: 1 original, 2 alternate, anything else (sysfs says -1, here all ones,
    /// or 0) not recorded; ignored for single, RAID 1 and 4.
    pub layout: u32,
    /// sysfs `md/raid_disks`.
    pub disks: u32,
    /// sysfs `md/chunk_size` in sectors; ignored for single and RAID 1.
    pub chunk_sectors: u32,
    /// Size of each slot's data area in sectors. One value stands for all members; where RAID 1 to 10
    /// get several, the smallest counts (md's component size).
    pub member_sectors: Vec<u64>,
}

/// Why there is no such array. Names the field of [`Params`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A level without block addresses, or one that md itself has given up.
    #[error("level {0} is not supported")]
    Level(String),
    /// Below the level's minimum (or not exactly one for a plain disk).
    #[error("disks: {level} cannot have {disks}")]
    Disks {
        /// The level.
        level: Level,
        /// What was asked for.
        disks: u32,
    },
    /// Above [`MAX_DISKS`].
    #[error("disks: {0} members are too many, the limit is {MAX_DISKS}")]
    TooManyDisks(u32),
    /// Zero, or not a power of two where md insists on one.
    #[error("chunk_sectors: {level} cannot have chunks of {chunk} sectors")]
    Chunk {
        /// The level.
        level: Level,
        /// Sectors.
        chunk: u32,
    },
    /// A number that the level does not know or that cannot work with so many disks.
    #[error("layout: {layout:#x} is no layout of {level} with {disks} disks")]
    Layout {
        /// The level.
        level: Level,
        /// What was asked for.
        layout: u32,
        /// Members.
        disks: u32,
    },
    /// RAID 0 of unequal members, layout neither 1 nor 2: `create_strip_zones` then asks a module
    /// parameter, and refuses if that is 0.
    #[error(
        "layout: members of different sizes need layout 1 (original) or 2 (alternate), and none is \
         recorded; see /sys/module/raid0/parameters/default_layout"
    )]
    NoZoneLayout,
    /// Above [`MAX_ZONES`].
    #[error("member_sectors: {0} different sizes are too many, the limit is {MAX_ZONES}")]
    TooManyZones(usize),
    /// Neither one size for all nor one for each.
    #[error("member_sectors: {sizes} sizes for {disks} disks")]
    Sizes {
        /// Values given.
        sizes: usize,
        /// Members.
        disks: u32,
    },
    /// Too small for one row, or absurdly large.
    #[error("member_sectors: a member cannot have {0} sectors")]
    MemberSectors(u64),
}
