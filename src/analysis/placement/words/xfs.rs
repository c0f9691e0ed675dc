//! Sentences on the allocation groups of XFS.

use super::{UnevenFigure, members, share};
use crate::analysis::placement::agsize::member_period;
use crate::analysis::placement::allocation_groups::AllocationGroups;
use crate::analysis::placement::filesystem::FsMetadata;
use crate::analysis::placement::spread::{MIN_UNEVEN_SKEW, Spread};
use crate::analysis::placement::target::Target;
use crate::analysis::units;

/// A clause on figures that are uneven on the same slots.
pub(super) fn clause(target: &Target, groups: u32, uneven: &[UnevenFigure]) -> Option<String> {
    let first = uneven.first()?;
    let part = |of: &UnevenFigure| match share(of.share).as_str() {
        "all" => "all".to_owned(),
        some => format!("{some} of the"),
    };
    let all = part(first);
    let what = match uneven {
        [one] if one.inodes => format!("first inodes of {groups} allocation groups"),
        [_] => format!("{groups} allocation group headers and their btree roots"),
        [a, b, ..] if share(a.share) == share(b.share) => {
            format!("{groups} allocation group headers, their btree roots and first inodes")
        }
        [_, b, ..] => format!(
            "{groups} allocation group headers with their btree roots, and {} first inodes,",
            part(b)
        ),
        [] => return None,
    };
    let on = members(target, &first.slots);
    let of = if on.ends_with(" members") {
        String::new()
    } else {
        format!(" of {}", target.array.geometry.disks())
    };
    let most = uneven.iter().map(|u| u.skew).fold(0.0, f64::max);
    Some(format!("{all} {what} are on {on}{of}: {} the mean", units::factor(Some(most))))
}

/// The reason why allocation groups start on few members, if agsize is a whole number of chunks.
pub(super) fn why(target: &Target, spread: &Spread, groups: &AllocationGroups) -> Option<String> {
    let geometry = &target.array.geometry;
    let chunk = geometry.chunk_sectors()?;
    let period = member_period(geometry)?;
    if !groups.sectors.is_multiple_of(chunk) {
        return None;
    }
    let apart = groups.sectors / chunk;
    let figure = target.fs.figures().allocation;
    let hit = spread.members.iter().filter(|m| figure(m) > 0).count();
    let so = match hit {
        1 => ", so all groups start on the same member".to_owned(),
        n if n < spread.members.len() => {
            format!(", so groups start on only {n} of {} members", geometry.disks())
        }
        _ => String::new(),
    };
    let avoided = match (target.fs.stride, target.fs.stripe_width) {
        (stride, width) if stride > 0 && width > stride => format!(
            "; mkfs.xfs avoids only multiples of the stripe width of {} chunks",
            width / stride
        ),
        _ => String::new(),
    };
    Some(format!(
        "agsize is {apart} chunks, and the order of members repeats every {period} chunks: \
         {apart} modulo {period} is {}{so}{avoided}",
        apart % period
    ))
}

/// Says that mkfs.xfs's warning about an even agsize can be ignored; empty if it does not warn
/// (`align_ag_geometry()`).
pub fn warning(fs: &FsMetadata, agsize_bytes: u64) -> &'static str {
    let width = u64::from(fs.stripe_width) * u64::from(fs.block_size);
    if width > 0 && fs.stripe_width != fs.stride && agsize_bytes.is_multiple_of(width) {
        ". Ignore mkfs.xfs's warning that it is a multiple of the stripe width, which does no harm \
         on this array"
    } else {
        ""
    }
}

/// Advice for an uneven layout. `found` is the command that makes an even one, and its skew; `None`
/// if there is none.
pub fn remedy(target: &Target, exists: bool, found: Option<(&str, f64)>) -> String {
    let fixed = if exists {
        "agsize cannot be changed, and xfs_growfs keeps it; for a new filesystem: "
    } else {
        ""
    };
    let disks = target.array.geometry.disks();
    match found {
        Some((command, skew)) => format!(
            "{fixed}{command} is {} on {disks} disks ({}); --search compares sizes of allocation \
             groups",
            if skew < MIN_UNEVEN_SKEW { "even" } else { "as even as so few groups can be" },
            units::factor(Some(skew)),
        ),
        None => format!(
            "{fixed}no agsize near the present one is even on {disks} disks: try another number \
             of disks or another chunk"
        ),
    }
}
