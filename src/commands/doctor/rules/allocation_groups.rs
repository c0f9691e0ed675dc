//! Allocation groups of XFS that start on few members, which is decided when the filesystem is
//! created.

use crate::analysis::placement::agsize::{self, AgSize};
use crate::analysis::placement::{AllocationGroups, PlacementReport, Skews, words};
use crate::analysis::units;
use crate::commands::doctor::facts::FsFacts;
use crate::commands::doctor::finding::Finding;

/// The two skews of a filesystem in words.
pub(super) fn figures(report: &PlacementReport, skews: &Skews) -> String {
    let [allocation, inodes] = report.target.fs.figures().names;
    format!(
        "{allocation} {}, {inodes} {}",
        units::factor(skews.allocation),
        units::factor(skews.inodes)
    )
}

/// The finding for an uneven layout, with its figures. Only a load shows the cost:
/// `live::raise_severity` raises the severity if one was measured.
pub(super) fn figured(report: &PlacementReport) -> Finding {
    let [allocation, inodes] = report.target.fs.figures().keys;
    Finding::info("layout-skew", report.headline.clone())
        .seen(format!("busiest member over the mean: {}", figures(report, &report.skews)))
        .seen_all(report.why.clone())
        .figure("skew", report.skews.worst())
        .figure(allocation, report.skews.allocation)
        .figure(inodes, report.skews.inodes)
}

/// The finding for an uneven layout of XFS.
pub(super) fn uneven(fs: &FsFacts, report: &PlacementReport, groups: &AllocationGroups) -> Finding {
    let target = &report.target;
    let mut finding = figured(report)
        .why(
            "creating, growing or removing a file changes the header and the btrees of an \
             allocation group, and a mount reads those of all groups, so these members saturate \
             first. As groups fill, inodes and directories spread over the members, but the \
             headers stay",
        )
        .source("measured, see docs/layout.md; xfsprogs, mkfs/xfs_mkfs.c, align_ag_geometry()");
    finding.destroys = true;
    let total = target.fs.blocks.saturating_mul(target.fs.block_sectors());
    let geometry = &target.array.geometry;
    let better =
        agsize::best(geometry, &target.segments, groups.sectors, total).filter(AgSize::is_even);
    let Some(better) = better else {
        return finding
            .seen("no agsize near the present one is even on this array")
            .not_when("the members never saturate")
            .risk("agsize cannot be changed, and xfs_growfs keeps it");
    };
    let files = match fs.inodes {
        None => "the filesystem may hold files".to_owned(),
        Some(n) => format!("{n} inodes in use"),
    };
    let options = format!("-d agsize={}", better.sectors * 512);
    // Never name the device, even of an empty filesystem: files may have been created since.
    finding
        .seen(format!(
            "with {options} it would be: AG headers {}",
            units::factor(Some(better.skew))
        ))
        .seen(files)
        .command(format!("mkfs.xfs {options} /dev/NEW_ARRAY"))
        .figure("better_options", options)
        .figure("better_skew", better.skew)
        .risk(format!(
            "agsize cannot be changed, and xfs_growfs keeps it, so the command is for a new \
             filesystem to move the data to: mkfs destroys the content of its device{}",
            words::xfs_warning(&target.fs, better.sectors * 512)
        ))
        .not_when(
            "the members never saturate, or the files are large and written sequentially. Do not \
             reshape the array for this alone: a reshape takes days, and a failure during it can \
             lose all data",
        )
}

#[cfg(test)]
pub mod tests;
