//! Computes the geometry of the filesystem that mkfs.xfs of xfsprogs 6.0 to 7.2 would create: sizes
//! of blocks, sectors and AGs, stripe alignment and the log. Pure. Comments cite the function in
//! xfsprogs, mkfs/xfs_mkfs.c unless another file is named.
//!
//! * `words`: the option string. `options`: its options.
//! * `decided`: parameters that result from the options: sizes, features, stripe.
//! * `groups`: size and number of AGs.
//! * `log`: size and position of the log. `reservation`: the largest transaction, which the log's
//!   size depends on.

mod decided;
mod groups;
mod log;
mod options;
mod reservation;
mod words;

pub use options::Options;

use crate::fs::Uuid;
use crate::fs::xfs::{Features, Geometry};
use decided::Decided;

/// Releases of xfsprogs whose mkfs.xfs has different defaults or rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 6.0 to 6.4.
    V6_1,
    /// 6.5 to 6.7: rmapbt and nrext64 by default.
    V6_6,
    /// 6.8 to 6.17: AGs and log follow the number of CPUs on a non-rotational device.
    V6_13,
    /// 6.18: parent pointers by default.
    V6_18,
    /// 6.19 and later: the log is aligned to the stripe on a device with sectors of 4 KiB, too.
    V7_2,
}

impl Version {
    /// Rules of the release MAJOR.MINOR. `None` for 5.19 and older, which create smaller logs.
    pub fn from_release(major: u32, minor: u32) -> Option<Self> {
        match (major, minor) {
            (6, 0..=4) => Some(Self::V6_1),
            (6, 5..=7) => Some(Self::V6_6),
            (6, 8..=17) => Some(Self::V6_13),
            (6, 18) => Some(Self::V6_18),
            (6, 19..) | (7.., _) => Some(Self::V7_2),
            _ => None,
        }
    }
}

/// A release of xfsprogs: MAJOR.MINOR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release(pub u32, pub u32);

impl std::str::FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split('.').map(|n| n.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) => Ok(Self(major, minor)),
            _ => Err("expected a release of xfsprogs: 6.13".to_owned()),
        }
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Properties of the machine and of the device that mkfs.xfs takes defaults from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Release of xfsprogs.
    pub version: Version,
    /// CPUs that are online (`_SC_NPROCESSORS_ONLN`).
    pub cpus: u32,
    /// `queue/rotational` of the device. A file counts as rotational.
    pub rotational: bool,
    /// `queue/physical_block_size` of the device in bytes; 512 for a file. The logical block size
    /// is expected to be 512 unless this is larger than the filesystem's blocks.
    pub physical_sector: u32,
}

/// Geometry of the filesystem that mkfs.xfs would create on a device of `bytes` bytes. `su` is the
/// stripe unit in bytes that the device reports (`minimum_io_size`: md's chunk), 0 for none; `sw`
/// is the number of data disks of a stripe.
///
/// # Errors
/// mkfs.xfs would reject an option or the size, or raidtrace cannot compute the result. The message
/// names the reason.
pub fn plan(
    bytes: u64,
    su: u64,
    sw: u32,
    options: &Options,
    defaults: &Defaults,
) -> Result<Geometry, String> {
    let decided = Decided::new(bytes, su, sw, options, defaults)?;
    let groups = groups::groups(&decided, options, defaults)?;
    let log = log::log(&decided, &groups, options, defaults)?;
    Ok(Geometry {
        version: if decided.v5 { 5 } else { 4 },
        block_size: decided.block_size,
        sector_size: decided.sector_size,
        inode_size: decided.inode_size,
        blocks: groups.blocks,
        ag_blocks: groups.size,
        ag_count: groups.count,
        log,
        stripe_unit: decided.stripe.unit,
        stripe_width: decided.stripe.width,
        inode_align: decided.inode_align(),
        features: Features {
            finobt: decided.finobt,
            rmapbt: decided.rmapbt,
            reflink: decided.reflink,
        },
        realtime_blocks: 0,
        uuid: Uuid::default(),
    })
}

/// `Err` with a message unless `condition` holds.
fn must(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}
