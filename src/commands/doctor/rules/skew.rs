//! Metadata on some members only: decided when the filesystem is made.

use super::predict;
use crate::advice::kernel::Kernel;
use crate::analysis::placement::Skews;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};

/// As `layout` counts it: from here on it is worth a word.
const STANDS_OUT: f64 = 1.5;
/// Groups a member below which nothing is said: two flex groups of mke2fs's size. Fewer cannot be even, and their few bitmaps are
/// written seldom.
const ENOUGH_GROUPS: u32 = 32;
/// Inodes of an empty filesystem: the reserved ones and lost+found. An orphan file is one more.
const EMPTY: u64 = 11;

/// L1 to L5.
pub fn check(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let Some(report) = fs.report.as_ref() else {
        return Vec::new();
    };
    let groups = report.target.fs.groups.map_or(0, |g| g.count);
    if groups / array.array.raid_disks.max(1) < ENOUGH_GROUPS {
        return Vec::new();
    }
    let mut found = Vec::new();
    if report.uneven {
        found.push(uneven(fs));
        found.extend(inert_stride(fs));
    }
    found.extend(reshaped(array, fs));
    found
}

/// `These options cost: groups no longer begin on chunks, 0.1 % more groups. `
fn costs(better: &predict::Better) -> String {
    match better.costs.as_slice() {
        [] => String::new(),
        costs => format!("These options cost: {}. ", costs.join(", ")),
    }
}

fn figures(skews: &Skews) -> String {
    format!(
        "bitmaps {}, inode tables {}",
        units::factor(skews.bitmaps),
        units::factor(skews.tables)
    )
}

fn uneven(fs: &FsFacts) -> Finding {
    // What it costs only a load can show: `live::raise` does where one was measured.
    let severity = Severity::Info;
    let Some(report) = fs.report.as_ref() else {
        return Finding::new("layout-skew", severity, "");
    };
    let target = &report.target;
    let mut finding = Finding::new("layout-skew", severity, report.headline.clone())
        .seen(format!("busiest member over the mean: {}", figures(&report.skews)))
        .figure("skew", report.skews.worst())
        .figure("bitmaps", report.skews.bitmaps)
        .figure("inode_table_heads", report.skews.tables)
        .why("each file that is made, grown or removed changes a bitmap and an inode table: these members saturate first. Whether they do --live S, --load FILE or `raidtrace top` shows")
        .source("measured, see docs/doctor.md; e2fsprogs, lib/ext2fs/alloc_tables.c");
    if let Some(why) = &report.why {
        finding = finding.seen(why.clone());
    }
    // With bigalloc a group has eight times the blocks or more, and no -g evens that.
    let sb = fs.superblock.as_ref().filter(|sb| sb.cluster_ratio == 1);
    let now = sb.map(|sb| predict::Now { target, sb });
    let better = now.as_ref().and_then(predict::Now::even);
    if let Some(better) = &better {
        finding = finding
            .seen(format!(
                "made with {} it would be: {}",
                better.options,
                figures(&better.skews)
            ))
            .figure("better_options", better.options.clone())
            .figure("better_skew", better.skews.worst());
    }
    finding.destroys = true;
    let Some(better) = better else {
        return finding
            .seen("none of the usual options of mke2fs is even here: raidtrace layout --search tries more")
            .unless("the members never saturate")
            .risk("nothing moves these places later");
    };
    let own = EMPTY + u64::from(sb.is_some_and(|sb| sb.orphan_file_inum != 0));
    let files = match fs.inodes.map(|n| n.saturating_sub(own)) {
        None => "it may hold files".to_owned(),
        Some(0) => "no inode but its own was in use when it was looked at".to_owned(),
        Some(n) => format!("{n} inodes in use beside its own"),
    };
    // Never the device itself, not even of an empty filesystem: that was true when it was asked, and not a moment later.
    finding
        .seen(files)
        .command(format!("mkfs.ext4 {} /dev/NEW_ARRAY", better.options))
        .risk(format!(
            "nothing mends it in place, so the command is for the filesystem that takes its data one day: mkfs destroys what is \
             there. {}Until then a larger journal has the same blocks written less often",
            costs(&better)
        ))
        .unless("the members never saturate, or the files are large and written in long runs. Do not reshape the array for this alone: it takes days, and a fault in between can cost everything")
}

/// mke2fs sets a stride on every array; under flex_bg it moves nothing.
fn inert_stride(fs: &FsFacts) -> Option<Finding> {
    let sb = fs.superblock.as_ref()?;
    if sb.raid_stride == 0 || sb.groups_per_flex() < 2 {
        return None;
    }
    Some(
        Finding::new(
            "layout-stride-inert",
            Severity::Info,
            format!("stride={} spreads no bitmaps here", sb.raid_stride),
        )
        .seen(format!(
            "s_raid_stride is {}, and flex groups of {} are on: mke2fs heeds a stride only without them",
            sb.raid_stride,
            sb.groups_per_flex()
        ))
        .why("mke2fs(8) says that stride keeps bitmaps off a single disk; since flex_bg it does not")
        .source("e2fsprogs, commit ca74ecf32569 and lib/ext2fs/alloc_tables.c"),
    )
}

/// Disks are being added, and with them an even layout becomes an uneven one, or the other way round.
fn reshaped(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let (before, report) = (fs.before?, fs.report.as_ref()?);
    let old = array.array.before_reshape?;
    if before.worst() >= STANDS_OUT || !report.uneven {
        return None;
    }
    Some(
        Finding::new(
            "layout-grow",
            Severity::Info,
            format!(
                "the reshape from {} to {} disks makes an even layout uneven: {} the mean on the busiest",
                old.raid_disks,
                array.array.raid_disks,
                units::factor(Some(report.skews.worst()))
            ),
        )
        .seen(format!("before: {}", figures(&before)))
        .seen(format!("after: {}", figures(&report.skews)))
        .figure("before", before.worst())
        .figure("after", report.skews.worst())
        .why("where a block lies is its chunk modulo the disks, and flex groups are a power of two of chunks apart")
        .risk("nothing to do while it runs; one disk more or less would be even again, at the price of another reshape")
        .unless("the members never saturate")
        .source("measured, see docs/doctor.md"),
    )
}
