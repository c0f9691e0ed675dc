//! Skews after the array has grown to more disks. An existing filesystem keeps its size, a planned one grows with the array.

use super::filesystem::Filesystem;
use super::spread::Skews;
use super::target::Target;
use crate::mke2fs::{Conf, Options, plan};
use crate::raid::{Geometry, Level};

/// Number of disks without parity disks.
fn data_disks(level: Level, disks: u32) -> u64 {
    let parity = match level {
        Level::Raid4 | Level::Raid5 => 1,
        Level::Raid6 => 2,
        _ => 0,
    };
    u64::from(disks.saturating_sub(parity).max(1))
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
    if !matches!(
        level,
        Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10
    ) {
        return Err(format!(
            "--grow-to: every member of {level} holds everything"
        ));
    }
    target
        .array
        .options
        .with_disks(Some(disks))
        .map_err(|e| format!("--grow-to {disks}: {e}"))
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
    let level = grown.level();
    let (now, then) = (
        data_disks(level, target.array.geometry.disks()),
        data_disks(level, grown.disks()),
    );
    let larger =
        u64::try_from(u128::from(bytes) * u128::from(then) / u128::from(now)).unwrap_or(u64::MAX);
    let chunk = grown.chunk_sectors().unwrap_or(0) * 512;
    let layout = plan(larger, chunk, &options.pinned(bytes), conf)?;
    Ok(Skews::new(
        &Filesystem::new(layout),
        grown,
        &target.segments,
    ))
}
