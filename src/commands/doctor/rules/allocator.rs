//! The block allocator: kernels and options with which it searches all groups for each file. Features are asked for where
//! something shows them (sysfs, /proc/fs/ext4, symbols); the fix of 6.8 shows nowhere, so there the version decides.

use super::list;
use crate::advice::kernel::Kernel;
use crate::advice::remedy;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};
use crate::machine::mballoc::MbStats;

/// Groups from which a search of all of them is felt: 2.4 TiB with groups of 128 MiB.
const MANY_GROUPS: u32 = 20_000;
/// Used share from which average fragments are short.
const FULL: f64 = 0.8;

/// Whether the aligned search may propose the same group again and again.
pub fn livelock(kernel: &Kernel, fs: &FsFacts) -> bool {
    remedy::may_livelock(kernel, fs.optimised, fs.stripe())
}

/// A1 to A4.
pub fn check(kernel: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    if livelock(kernel, fs) {
        return vec![aligned(kernel, fs)];
    }
    let mut found = Vec::new();
    found.extend(linear(kernel, fs));
    found.extend(spreading(kernel, array, fs));
    found.extend(on_ssd(array, fs));
    found
}

fn groups(fs: &FsFacts) -> u32 {
    fs.superblock.as_ref().map_or(0, |sb| sb.groups)
}

/// What turns stripes off, now and for good.
pub fn stripe_off(fs: &FsFacts, finding: Finding) -> Finding {
    let finding = match &fs.superblock {
        // What it takes to undo it.
        Some(sb) => finding.seen(format!(
            "in the superblock: stride={} stripe_width={}",
            sb.raid_stride, sb.raid_stripe_width
        )),
        None => finding,
    };
    remedy::stripe_off(&fs.mount_point(), &fs.path())
        .into_iter()
        .fold(finding, Finding::command)
}

fn aligned(kernel: &Kernel, fs: &FsFacts) -> Finding {
    let stripe = fs.stripe().unwrap_or(0);
    // One allocation that went through half of all groups in vain.
    let caught = fs
        .scanned
        .as_ref()
        .map(MbStats::bad_suggestions)
        .filter(|n| *n >= 100 && *n >= u64::from(groups(fs)) / 2);
    let (severity, title) = match caught {
        Some(_) => (
            Severity::Critical,
            "the allocator goes through all groups for one stripe, and has done so",
        ),
        None => (
            Severity::Warning,
            "with this kernel and a stripe the allocator may go through all groups for each file",
        ),
    };
    let mut finding = Finding::new("alloc-stripe-livelock", severity, title)
        .seen(format!(
            "kernel {}: by its version it has the lists of 6.0 and lacks the fix of 6.8 (no symbol of 6.17's allocator)",
            kernel.release
        ))
        .seen(format!("/proc/fs/ext4/{}/options: stripe={stripe}; {} groups", fs.fs.name, groups(fs)))
        .figure("stripe_blocks", stripe)
        .figure("groups", groups(fs));
    if let Some(s) = &fs.scanned {
        finding = finding
            .seen(format!(
                "mb_stats: {} allocations, {} groups searched, {} proposed in vain",
                s.requests,
                s.groups_scanned,
                s.bad_suggestions()
            ))
            .figure("bad_suggestions", s.bad_suggestions());
    }
    if kernel.version() == (6, 6) {
        finding = finding.seen("no back-port of the fix to 6.6 is known");
    }
    stripe_off(fs, finding)
        .why("once no free run is aligned to the stripe, the same group is proposed until all have been tried: a flush thread at 100 % CPU, disks idle, minutes for each file")
        .risk(remedy::STRIPE_OFF_RISK)
        .unless(remedy::STRIPE_OFF_UNLESS)
        .source("kernel.org bug 217965, Linux 6.8 commit 1f6bc02f1848; reproduced on 6.1.192")
}

fn linear(kernel: &Kernel, fs: &FsFacts) -> Option<Finding> {
    let groups = groups(fs);
    if !(fs.no_lists || fs.optimised == Some(false)) || groups < MANY_GROUPS {
        return None;
    }
    let caught = fs
        .scanned
        .as_ref()
        .filter(|s| s.requests >= 100 && s.considered() / s.requests >= u64::from(groups) / 2);
    let full = fs.used.filter(|u| *u >= FULL);
    if caught.is_none() && full.is_none() {
        return None;
    }
    let absent = fs.no_lists;
    let mut finding = Finding::new(
        "alloc-linear",
        if caught.is_some() { Severity::Critical } else { Severity::Warning },
        match caught {
            Some(s) => format!("each allocation looks at {} of {groups} groups", s.considered() / s.requests.max(1)),
            None => format!(
                "{} full, and the allocator looks for room group by group, {groups} of them",
                units::percent(full.unwrap_or(0.0))
            ),
        },
    )
    .seen(if absent {
        format!(
            "no /sys/fs/ext4/{}/mb_max_linear_groups: kernel {} has no lists of groups by free space",
            fs.fs.name, kernel.release
        )
    } else {
        format!("/proc/fs/ext4/{}/mb_structs_summary: optimize_scan: 0", fs.fs.name)
    })
    .figure("groups", groups)
    .why("where free space is in short runs, no group will do at first, and each of them is asked twice: a flush thread at 100 % CPU in ext4_mb_good_group while the disks idle. Where these are searches for files of up to mb_stream_req blocks, a smaller mb_group_prealloc helps: raidtrace alloc says so");
    if let Some(used) = fs.used {
        finding = finding
            .seen(format!("{} of its blocks in use", units::percent(used)))
            .figure("used", used);
    }
    if let Some(s) = &fs.scanned {
        finding = finding.seen(format!(
            "mb_stats: {} allocations, {} groups looked at",
            s.requests,
            s.considered()
        ));
    }
    if !absent {
        finding = remedy::lists_on(&fs.mount_point(), &fs.path())
            .into_iter()
            .fold(finding, Finding::command)
            .risk(remedy::LISTS_ON_RISK);
    }
    Some(
        finding
            .unless(remedy::LINEAR_UNLESS)
            .source("Linux 5.13, 196e402adf2e; 5.18, 077d0c2c78df"),
    )
}

fn spreading(kernel: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let version = kernel.version();
    let affected = matches!(version, (5, 18 | 19)) && fs.optimised == Some(true);
    if !affected || !array.rotational() {
        return None;
    }
    let spinning: Vec<&str> = array
        .array
        .members
        .iter()
        .filter(|m| m.queue.rotational)
        .map(|m| m.disk_name.as_str())
        .collect();
    Some(
        Finding::new(
            "alloc-spreading",
            Severity::Warning,
            "this kernel's allocator hops from group to group, on disks that spin",
        )
        .seen(format!(
            "kernel {}: by its version; later 5.19.y have the fix",
            kernel.release
        ))
        .seen(format!("optimize_scan: 1; {} spinning", list(&spinning)))
        .why("small files land far from each other, and each write is a seek")
        .command(format!("umount {}", fs.mount_point()))
        .command(format!("mount -o mb_optimize_scan=0 {} {}", fs.path(), fs.mount_point()))
        .risk("the filesystem is away for a moment; a large and full one is searched group by group instead")
        .unless("the kernel can be upgraded to 6.0 or later")
        .source("Linux 6.0, 4fca50d440cc, 1940265ede66 and 613c5a85898d"),
    )
}

fn on_ssd(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let stripe = fs.stripe().filter(|s| *s > 1)?;
    if !array.array.is_md() || array.rotational() || array.array.members.is_empty() {
        return None;
    }
    let finding = Finding::new(
        "alloc-stripe-ssd",
        Severity::Info,
        format!("the allocator aligns to stripes of {stripe} blocks, and no member spins"),
    )
    .seen(format!("/proc/fs/ext4/{}/options: stripe={stripe}", fs.fs.name))
    .seen(format!(
        "queue/rotational is 0 on all {} members",
        array.array.members.len()
    ))
    .figure("stripe_blocks", stripe)
    .why("aligned runs are searched for longer and longer as the filesystem fills; mke2fs 1.47.3 and later set none on SSDs for that");
    Some(
        stripe_off(fs, finding)
            .risk("what is written stays where it is; undone with the old values. `-o stripe=0` at mount would be ignored")
            .unless("a parity level under long streaming writes: full stripes save its reads there too")
            .source("e2fsprogs 1.47.3, commit b61f182b"),
    )
}
