//! Metadata concentrated on some members, which is decided when the filesystem is created.

use super::allocation_groups::{self, figured, figures};
use super::predict;
use crate::advice::kernel::Kernel;
use crate::analysis::placement::{MIN_UNEVEN_SKEW, PlacementReport};
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::Finding;

/// Minimum number of groups per member: two default flex groups. Fewer cannot be even, and their
/// bitmaps are rarely written.
const MIN_GROUPS: u32 = 32;
/// Inodes in use on an empty filesystem: the reserved ones and lost+found. An orphan file adds one.
const EMPTY_INODES: u64 = 11;

/// Uneven layouts, strides without effect, and reshapes that make a layout uneven.
pub fn check(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let Some(report) = fs.report.as_ref().filter(|report| report.uneven) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if let Some(groups) = report.target.fs.allocation_groups() {
        found.push(allocation_groups::uneven(fs, report, &groups));
    } else {
        let groups = report.target.fs.block_groups().map_or(0, |g| g.count);
        if groups / array.array.raid_disks.max(1) < MIN_GROUPS {
            return found;
        }
        found.push(uneven(fs, report));
        found.extend(inert_stride(fs));
    }
    found.extend(reshaped(array, fs, report));
    found
}

fn uneven(fs: &FsFacts, report: &PlacementReport) -> Finding {
    let mut finding = figured(report)
        .why(
            "creating, growing or removing a file changes a bitmap and an inode table, so these \
             members saturate first. --live S, --load FILE or `raidtrace top` shows if they do",
        )
        .source("measured, see docs/doctor.md; e2fsprogs, lib/ext2fs/alloc_tables.c");
    finding.destroys = true;
    // With bigalloc a group has as many clusters as otherwise blocks; `predict::even()` does not
    // search these layouts.
    let sb = fs.superblock.as_ref().filter(|sb| sb.cluster_ratio == 1);
    let Some(better) = sb.and_then(|sb| predict::even(&report.target, sb)) else {
        return finding
            .seen(
                "none of the usual mke2fs options is even on this array: raidtrace layout \
                 --search tries more",
            )
            .not_when("the members never saturate")
            .risk("existing metadata cannot be moved");
    };
    let own = EMPTY_INODES + u64::from(sb.is_some_and(|sb| sb.orphan_file_inum != 0));
    let files = match fs.inodes.map(|n| n.saturating_sub(own)) {
        None => "the filesystem may hold files".to_owned(),
        Some(0) => "no inodes in use besides the reserved ones when it was checked".to_owned(),
        Some(n) => format!("{n} inodes in use besides the reserved ones"),
    };
    let costs = match better.costs.as_slice() {
        [] => String::new(),
        costs => format!("These options cost: {}. ", costs.join(", ")),
    };
    // Never name the device, even of an empty filesystem: files may have been created since.
    finding
        .seen(format!("with {} it would be: {}", better.options, figures(report, &better.skews)))
        .seen(files)
        .figure("better_options", better.options.clone())
        .figure("better_skew", better.skews.worst())
        .command(format!("mkfs.ext4 {} /dev/NEW_ARRAY", better.options))
        .risk(format!(
            "there is no fix in place, so the command is for a new filesystem to move the data \
             to: mkfs destroys the content of its device. {costs}Until then a larger journal \
             writes the same blocks less often"
        ))
        .not_when(
            "the members never saturate, or the files are large and written sequentially. Do not \
             reshape the array for this alone: a reshape takes days, and a failure during it can \
             lose all data",
        )
}

/// A stride, which mke2fs sets on every array but does not use with flex_bg when it places bitmaps.
fn inert_stride(fs: &FsFacts) -> Option<Finding> {
    let sb = fs.superblock.as_ref()?;
    let (stride, flex) = (sb.raid_stride, sb.groups_per_flex());
    if stride == 0 || flex < 2 {
        return None;
    }
    Some(
        Finding::info(
            "layout-stride-inert",
            format!("stride={stride} does not spread bitmaps here"),
        )
        .seen(format!(
            "s_raid_stride is {stride}, and flex groups have {flex} groups: mke2fs uses a stride \
             only without flex_bg"
        )),
    )
}

/// A running reshape that makes an even layout uneven.
fn reshaped(array: &ArrayFacts, fs: &FsFacts, report: &PlacementReport) -> Option<Finding> {
    let (before, after) = (fs.before?, report.skews);
    let old = array.array.before_reshape?;
    if before.worst() >= MIN_UNEVEN_SKEW {
        return None;
    }
    let title = format!(
        "the reshape from {} to {} disks makes an even layout uneven: {} the mean on the busiest \
         member",
        old.raid_disks,
        array.array.raid_disks,
        units::factor(Some(after.worst()))
    );
    let groups = match report.target.fs.allocation_groups() {
        Some(_) => "allocation groups",
        None => "flex groups",
    };
    Some(
        Finding::info("layout-grow", title)
            .seen(format!("before: {}", figures(report, &before)))
            .seen(format!("after: {}", figures(report, &after)))
            .figure("before", before.worst())
            .figure("after", after.worst())
            .why(format!(
                "the members of chunks repeat after a number of chunks that depends on the number \
                 of disks, and {groups} are a number of chunks apart that has a common factor \
                 with it"
            )),
    )
}
