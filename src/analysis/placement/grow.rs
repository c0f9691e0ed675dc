//! Skews after the array has grown to more disks. An existing filesystem keeps its size, a planned
//! one grows with the array.

use super::figures::XFS;
use super::filesystem::{FsMetadata, Groups};
use super::spread::Skews;
use super::target::Target;
use crate::address::FsSector;
use crate::fs::SectorRange;
use crate::fs::xfs::MAX_AGS;
use crate::mke2fs::{Conf, Options, plan};
use crate::raid::{Geometry, Level};

/// Number of disks without parity disks.
fn data_disks(level: Level, disks: u32) -> u64 {
    u64::from(disks.saturating_sub(level.parities()).max(1))
}

/// `size` multiplied by the number of data disks of the grown array over that of the target's
/// array.
fn larger(target: &Target, grown: &Geometry, size: u64) -> u64 {
    let level = grown.level();
    let (now, then) =
        (data_disks(level, target.array.geometry.disks()), data_disks(level, grown.disks()));
    u64::try_from(u128::from(size) * u128::from(then) / u128::from(now)).unwrap_or(u64::MAX)
}

/// Geometry of the target's array after it has grown to `disks` disks.
///
/// # Errors
/// If the array cannot grow to this number.
pub fn array(target: &Target, disks: u32) -> Result<Geometry, String> {
    let now = target.array.geometry.disks();
    if disks <= now {
        return Err(format!("--grow-to {disks}: the array already has {now}"));
    }
    let level = target.array.geometry.level();
    if !matches!(level, Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10) {
        return Err(format!("--grow-to: {level} has no chunks"));
    }
    target.array.options.with_disks(Some(disks)).map_err(|e| format!("--grow-to {disks}: {e}"))
}

/// Skews of an existing filesystem on the grown array.
pub fn existing(target: &Target, grown: &Geometry) -> Skews {
    Skews::new(&target.fs, grown, &target.segments)
}

/// Skews of a filesystem that is created now and grows with the array.
///
/// # Errors
/// If mke2fs would refuse the filesystem.
pub fn planned(
    target: &Target,
    grown: &Geometry,
    bytes: u64,
    options: &Options,
    conf: &Conf,
) -> Result<Skews, String> {
    let larger = larger(target, grown, bytes);
    let chunk = grown.chunk_sectors().unwrap_or(0) * 512;
    let layout = plan(larger, chunk, &options.pinned(bytes), conf)?;
    Ok(Skews::new(&FsMetadata::new(layout), grown, &target.segments))
}

/// Skews of an XFS that is created as `fs` now and grows with the array: xfs_growfs keeps agsize,
/// and adds groups that start like the others.
///
/// # Errors
/// It has more groups than raidtrace computes.
pub fn planned_xfs(target: &Target, fs: &FsMetadata, grown: &Geometry) -> Result<Skews, String> {
    let mut fs = fs.clone();
    fs.blocks = larger(target, grown, fs.blocks);
    if let Some(Groups::Allocation(groups)) = &mut fs.groups {
        let total = fs.blocks.saturating_mul(u64::from(fs.block_size / 512));
        let before = groups.count;
        groups.count = groups.count_in(total);
        if groups.count > MAX_AGS {
            return Err(format!(
                "--grow-to: {} allocation groups are more than raidtrace's limit of {MAX_AGS}; \
                 try fewer disks or a larger agsize",
                groups.count
            ));
        }
        // The second group has no log, unless it is the middle one.
        let model = u64::from(before > 1);
        let first = model.saturating_mul(groups.sectors);
        let origins = XFS.allocation_origins;
        let pattern: Vec<SectorRange> = fs
            .ranges
            .iter()
            .filter(|r| r.first.0 / groups.sectors.max(1) == model && origins.contains(&r.origin))
            .copied()
            .collect();
        for group in u64::from(before)..u64::from(groups.count) {
            let start = group.saturating_mul(groups.sectors);
            fs.ranges.extend(pattern.iter().map(|r| SectorRange {
                first: FsSector(start.saturating_add(r.first.0 - first)),
                ..*r
            }));
        }
    }
    Ok(Skews::new(&fs, grown, &target.segments))
}
