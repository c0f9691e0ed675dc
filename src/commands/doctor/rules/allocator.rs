//! Kernels and mount options with which the block allocator searches many groups, or places small
//! files far apart. Features are probed if sysfs, /proc/fs/ext4 or a symbol shows them. No
//! interface shows the fix of 6.8, so the kernel version is used.

use super::list;
use crate::advice::kernel::Kernel;
use crate::advice::remedy;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::Finding;
use crate::machine::mballoc::MbStats;

/// Minimum number of groups for which a search of all of them is noticeable: 2.4 TiB with groups of
/// 128 MiB.
const MIN_MANY_GROUPS: u32 = 20_000;
/// Minimum used share of the blocks for which free runs are short.
const MIN_FULL_SHARE: f64 = 0.8;

/// True if the aligned search can suggest the same group forever.
pub fn livelock(kernel: &Kernel, fs: &FsFacts) -> bool {
    remedy::may_livelock(kernel, fs.optimised, fs.stripe())
}

/// Kernels and options that make allocation slow.
pub fn check(kernel: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    if livelock(kernel, fs) {
        return vec![aligned(kernel, fs)];
    }
    let found = [linear(kernel, fs), spreading(kernel, array, fs), on_ssd(array, fs)];
    found.into_iter().flatten().collect()
}

/// mb_stats of the filesystem on `device`, which a killed process left on.
pub fn counted(device: &str) -> Finding {
    let file = format!("/sys/fs/ext4/{device}/mb_stats");
    let mut finding = Finding::warning(
        "alloc-counted",
        format!("a killed raidtrace left ext4's counters of allocations on {device} enabled"),
    )
    .seen(format!("{file} is 1, and /run/raidtrace/mb_stats/{device} has no owner"))
    .command(format!("echo 0 > {file}"));
    finding.filesystem = Some(device.to_owned());
    finding
}

fn groups(fs: &FsFacts) -> u32 {
    fs.superblock.as_ref().map_or(0, |sb| sb.groups)
}

/// Adds the commands that turn stripe alignment off, now and permanently.
pub fn stripe_off(fs: &FsFacts, finding: Finding) -> Finding {
    // The old values are needed to undo the commands.
    let old = fs.superblock.as_ref().map(|sb| {
        format!(
            "in the superblock: stride={} stripe_width={}",
            sb.raid_stride, sb.raid_stripe_width
        )
    });
    finding.seen_all(old).commands(remedy::stripe_off(&fs.mount_point(), &fs.path()))
}

fn aligned(kernel: &Kernel, fs: &FsFacts) -> Finding {
    let stripe = fs.stripe().unwrap_or(0);
    let groups = groups(fs);
    let suggestions = fs.mb_stats.as_ref().map(MbStats::bad_suggestions);
    // Over all allocations, half as many groups as there are were tried in vain.
    let finding = if suggestions.is_some_and(|n| n >= 100 && n >= u64::from(groups) / 2) {
        Finding::critical(
            "alloc-stripe-livelock",
            "the allocator tries groups in vain for allocations aligned to the stripe",
        )
    } else {
        Finding::warning(
            "alloc-stripe-livelock",
            "with this kernel and a stripe the allocator may try all groups in vain for each file",
        )
    };
    let mb_stats = fs.mb_stats.as_ref().map(|s| {
        format!(
            "mb_stats: {} allocations, {} groups searched, {} suggested in vain",
            s.requests,
            s.groups_scanned,
            s.bad_suggestions()
        )
    });
    let mut finding = finding
        .seen(format!(
            "kernel {}: this version has the group lists of 6.0 and not the fix of 6.8 (no symbol \
             of 6.17's allocator)",
            kernel.release
        ))
        .seen(fs.option_seen(format_args!("stripe={stripe}; {groups} groups")))
        .seen_all(mb_stats)
        .figure("stripe_blocks", stripe)
        .figure("groups", groups);
    if let Some(n) = suggestions {
        finding = finding.figure("bad_suggestions", n);
    }
    if kernel.version() == (6, 6) {
        finding = finding.seen("no backport of the fix to 6.6 is known");
    }
    stripe_off(fs, finding)
        .why(
            "when no free run is aligned to the stripe, the same group is suggested until all \
             have been tried: a flush thread at 100 % CPU, idle disks, minutes per file",
        )
        .risk(remedy::STRIPE_OFF_RISK)
        .not_when(remedy::STRIPE_OFF_UNLESS)
        .source("kernel.org bug 217965, Linux 6.8 commit 1f6bc02f1848; reproduced on 6.1.192")
}

fn linear(kernel: &Kernel, fs: &FsFacts) -> Option<Finding> {
    let groups = groups(fs);
    if !(fs.no_lists || fs.optimised == Some(false)) || groups < MIN_MANY_GROUPS {
        return None;
    }
    let per_allocation = fs
        .mb_stats
        .as_ref()
        .filter(|s| s.requests >= 100)
        .map(|s| s.considered() / s.requests)
        .filter(|n| *n >= u64::from(groups) / 2);
    let finding = match (per_allocation, fs.used.filter(|used| *used >= MIN_FULL_SHARE)) {
        (Some(n), _) => Finding::critical(
            "alloc-linear",
            format!("each allocation considers {n} of {groups} groups"),
        ),
        (None, Some(used)) => Finding::warning(
            "alloc-linear",
            format!(
                "{} full, and the allocator searches {groups} groups one by one",
                units::percent(used)
            ),
        ),
        (None, None) => return None,
    };
    let mut finding = finding
        .seen(if fs.no_lists {
            format!(
                "no /sys/fs/ext4/{}/mb_max_linear_groups: kernel {} has no lists of groups by \
                 free space",
                fs.fs.name, kernel.release
            )
        } else {
            format!("/proc/fs/ext4/{}/mb_structs_summary: optimize_scan: 0", fs.fs.name)
        })
        .figure("groups", groups)
        .why(
            "with free space in short runs no group fits at first, and each is tried twice: a \
             flush thread at 100 % CPU in ext4_mb_good_group, idle disks. raidtrace alloc shows \
             if a smaller mb_group_prealloc would help",
        )
        .not_when(remedy::LINEAR_UNLESS)
        .source("Linux 5.13, 196e402adf2e; 5.18, 077d0c2c78df");
    if let Some(used) = fs.used {
        finding = finding
            .seen(format!("{} of the blocks are in use", units::percent(used)))
            .figure("used", used);
    }
    if let Some(s) = &fs.mb_stats {
        finding = finding.seen(format!(
            "mb_stats: {} allocations, {} groups considered",
            s.requests,
            s.considered()
        ));
    }
    if !fs.no_lists {
        finding = finding.commands(fs.mount_again("mb_optimize_scan=1")).risk(match fs.fstab {
            Some(_) => remedy::LISTS_ON_RISK.to_owned(),
            None => format!("{}. {}", remedy::LISTS_ON_RISK, remedy::OTHER_OPTIONS),
        });
    }
    Some(finding)
}

fn spreading(kernel: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let affected = matches!(kernel.version(), (5, 18 | 19)) && fs.optimised == Some(true);
    if !affected || !array.rotational() {
        return None;
    }
    let disks = list(&array.disks_with(|m, _| m.queue.rotational));
    Some(
        Finding::warning(
            "alloc-spreading",
            "this kernel's allocator jumps from group to group on rotational disks",
        )
        .seen(format!(
            "kernel {}: determined by its version; later 5.19.y have the fix",
            kernel.release
        ))
        .seen(format!("optimize_scan: 1; rotational: {disks}"))
        .commands(fs.mount_again("mb_optimize_scan=0")),
    )
}

fn on_ssd(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let stripe = fs.stripe().filter(|s| *s > 1)?;
    let members = array.array.members.len();
    if !array.array.is_md() || array.rotational() || members == 0 {
        return None;
    }
    let finding = Finding::info(
        "alloc-stripe-ssd",
        format!("the allocator aligns to stripes of {stripe} blocks, and no member is rotational"),
    )
    .seen(fs.option_seen(format_args!("stripe={stripe}")))
    .seen(format!("queue/rotational is 0 on all {members} members"))
    .figure("stripe_blocks", stripe);
    Some(
        stripe_off(fs, finding)
            .risk(
                "files stay where they are; undone with the old values. `-o stripe=0` at mount \
                 would be ignored",
            )
            .not_when(
                "the level has parity and writes are long and sequential: full stripes save md's \
                 reads on SSDs too",
            )
            .source("e2fsprogs 1.47.3, commit b61f182b"),
    )
}
