//! What becomes of a layout when the array gets more disks: the same places on more members, and where the filesystem is only
//! planned, more of them.

use super::filesystem::Filesystem;
use super::spread::Skews;
use super::target::Target;
use crate::mke2fs::{Conf, Options, plan};
use crate::raid::{Geometry, Level};

/// Members that hold data.
fn data_disks(level: Level, disks: u32) -> u64 {
    let parity = match level {
        Level::Raid4 | Level::Raid5 => 1,
        Level::Raid6 => 2,
        _ => 0,
    };
    u64::from(disks.saturating_sub(parity).max(1))
}

/// The target's array with so many disks.
///
/// # Errors
/// Where there is none.
pub fn array(target: &Target, disks: u32) -> Result<Geometry, String> {
    let now = target.array.geometry.disks();
    if disks <= now {
        return Err(format!(
            "--grow-to {disks}: more than the {now} that it has"
        ));
    }
    let level = target.array.geometry.level();
    if !matches!(
        level,
        Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10
    ) {
        return Err(format!("--grow-to: {level} has everything everywhere"));
    }
    target
        .array
        .shape
        .with(Some(disks))
        .map_err(|e| format!("--grow-to {disks}: {e}"))
}

/// Skews of the places that there are, on the grown array.
pub fn existing(target: &Target, grown: &Geometry) -> Skews {
    Skews::of(&target.fs, grown, &target.segments)
}

/// Skews of a filesystem made now and grown with the array.
///
/// # Errors
/// Where mke2fs would refuse it.
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
    Ok(Skews::of(&Filesystem::of(layout), grown, &target.segments))
}
