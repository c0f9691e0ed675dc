//! `stripe=`: what the allocator aligns to, against what the array is; and the two ways to turn it off that do not.

use super::allocator;
use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};

const SOURCE: &str = "Linux, fs/ext4/super.c, ext4_get_stripe_size";

/// Stripe in force, or in store, against the geometry.
pub fn check(kernel: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let mut found: Vec<Finding> = zero_ignored(fs).into_iter().collect();
    let (Some(sb), Some(disks)) = (fs.superblock.as_ref(), array.data_disks()) else {
        return found;
    };
    let chunk = u64::from(array.array.chunk_sectors) * 512;
    let block = u64::from(sb.block_size);
    if !chunk.is_multiple_of(block) || array.array.before_reshape.is_some() {
        return found;
    }
    let geometry = Expected {
        stride: chunk / block,
        width: chunk / block * disks,
    };
    let (stride, width) = (u64::from(sb.raid_stride), u64::from(sb.raid_stripe_width));
    let in_force = fs
        .stripe()
        .filter(|s| *s <= u64::from(u32::MAX))
        .unwrap_or_else(|| by_kernel(stride, width, sb.blocks_per_group.into()));
    // The allocator's own trouble with stripes comes first: nothing that sets one is advised then.
    let trouble = allocator::livelock(kernel, fs);
    if in_force <= 1 {
        let unset = stride == 0 && width == 0;
        if unset && array.has_parity() && array.rotational() && !trouble {
            found.push(missing(array, fs, &geometry));
        }
    } else if !in_force.is_multiple_of(geometry.width) && in_force * block != array.optimal_io {
        if in_force == stride && !trouble {
            found.push(from_stride(
                array,
                fs,
                &geometry,
                width,
                sb.blocks_per_group,
            ));
        } else if in_force != stride {
            found.push(wrong(array, fs, &geometry, in_force, (stride, width)));
        }
    }
    found
}

/// In blocks.
struct Expected {
    stride: u64,
    width: u64,
}

/// As the kernel decides without a mount option.
fn by_kernel(stride: u64, width: u64, blocks_per_group: u64) -> u64 {
    [width, stride]
        .into_iter()
        .find(|n| *n > 0 && *n <= blocks_per_group)
        .unwrap_or(0)
}

fn zero(options: &str) -> bool {
    options.split(',').any(|o| o.trim() == "stripe=0")
}

fn zero_ignored(fs: &FsFacts) -> Option<Finding> {
    let in_force = fs.stripe().filter(|s| *s > 1)?;
    let stored = fs
        .superblock
        .as_ref()
        .map_or("", |sb| sb.mount_opts.as_str());
    let place = match (&fs.fstab, zero(stored)) {
        (Some(options), _) if zero(options) => "/etc/fstab",
        (_, true) => "the superblock's mount options",
        _ => return None,
    };
    let finding = Finding::new(
        "stripe-zero-ignored",
        Severity::Warning,
        format!("stripe=0 in {place} is ignored: the stripe is {in_force} blocks"),
    )
    .seen(format!("{place} has stripe=0"))
    .seen(format!("/proc/fs/ext4/{}/options: stripe={in_force}", fs.fs.name))
    .figure("stripe_blocks", in_force)
    .why("at mount the kernel takes 0 for `not said` and goes by the superblock; only a remount, or stripe=1, turns it off");
    Some(
        allocator::stripe_off(fs, finding)
            .risk("parity levels get more writes of parts of stripes; undone with the old values")
            .unless("nobody meant it: then take stripe=0 out")
            .source(SOURCE),
    )
}

fn set(fs: &FsFacts, e: &Expected) -> [String; 2] {
    [
        format!(
            "tune2fs -E stride={},stripe_width={} {}",
            e.stride,
            e.width,
            fs.path()
        ),
        format!("mount -o remount,stripe={} {}", e.width, fs.mount_point()),
    ]
}

fn geometry(array: &ArrayFacts, e: &Expected) -> String {
    format!(
        "{} of {} members with chunks of {} blocks: {} blocks a stripe",
        array.array.level, array.array.raid_disks, e.stride, e.width
    )
}

fn missing(array: &ArrayFacts, fs: &FsFacts, e: &Expected) -> Finding {
    let [store, now] = set(fs, e);
    let finding = Finding::new(
        "stripe-missing",
        Severity::Info,
        "ext4 does not know the stripe of this parity array",
    )
    .seen("s_raid_stride and s_raid_stripe_width are 0")
    .seen(geometry(array, e))
    .figure("stripe_blocks", e.width)
    .why("large files begin anywhere in a stripe, so that long writes end in parts of stripes, for which md reads first")
    .command(store)
    .risk("on a full and fragmented filesystem the allocator searches longer; undone with stride=0,stripe_width=0")
    .unless("files are small, or the filesystem is nearly full")
    .source("mke2fs(8), -E stripe_width; Linux, Documentation/admin-guide/ext4.rst, stripe=");
    if fs.fs.mounts.is_empty() {
        finding
    } else {
        finding.command(now)
    }
}

fn from_stride(array: &ArrayFacts, fs: &FsFacts, e: &Expected, width: u64, group: u32) -> Finding {
    let severity = if array.has_parity() && array.rotational() {
        Severity::Warning
    } else {
        Severity::Info
    };
    let why_not = if width == 0 {
        "s_raid_stripe_width is 0 (mke2fs 1.47.3 and later leave it so on SSDs; or tune2fs cleared it alone)".to_owned()
    } else {
        format!("s_raid_stripe_width is {width}, more than the {group} blocks of a group")
    };
    let finding = Finding::new(
        "stripe-from-stride",
        severity,
        format!("ext4 takes the chunk ({} blocks) for the stripe ({} blocks)", e.stride, e.width),
    )
    .seen(why_not)
    .seen(geometry(array, e))
    .figure("stripe_blocks", e.stride)
    .why("without a width that fits, the kernel falls back to the stride: files are aligned to chunks, stripes are still written in parts, and the allocator pays for it")
    .source(SOURCE);
    if width == 0 && severity == Severity::Warning {
        let [store, now] = set(fs, e);
        let finding = finding
            .command(store)
            .risk("on a full and fragmented filesystem the allocator searches longer; undone with stripe_width=0")
            .unless("files are small: then turn it off altogether with stride=0,stripe_width=0");
        return if fs.fs.mounts.is_empty() {
            finding
        } else {
            finding.command(now)
        };
    }
    finding
        .seen(format!("in the superblock: stride={} stripe_width={width}", e.stride))
        .command(format!("tune2fs -E stride=0,stripe_width=0 {}", fs.path()))
        .risk("none known: what is written stays where it is; takes effect at the next mount, undone with the old values")
        .unless("long writes to a parity array of hard disks matter more than the allocator's time")
}

fn wrong(
    array: &ArrayFacts,
    fs: &FsFacts,
    e: &Expected,
    in_force: u64,
    stored: (u64, u64),
) -> Finding {
    let severity = if array.has_parity() {
        Severity::Warning
    } else {
        Severity::Info
    };
    let [store, now] = set(fs, e);
    let finding = Finding::new(
        "stripe-wrong",
        severity,
        format!("ext4 aligns to {in_force} blocks, a stripe of the array has {}", e.width),
    )
    .seen(format!(
        "stride={} stripe_width={} in the superblock, {in_force} {}",
        stored.0,
        stored.1,
        if fs.stripe().is_some() { "in force" } else { "when it is mounted" }
    ))
    .seen(geometry(array, e))
    .figure("stripe_blocks", in_force)
    .figure("expected_blocks", e.width)
    .why("what is aligned to the wrong stripe begins anywhere in the right one: long writes end in parts of stripes, for which a parity array reads first. Usual after an array has grown")
    .command(store)
    .risk("what is written stays where it is; takes effect at the next mount. Undone with the old values")
    .unless("stripe= was chosen on purpose for another alignment")
    .source("mke2fs(8), -E stripe_width; raid5.c and raid10.c, io_opt");
    if fs.fs.mounts.is_empty() {
        finding
    } else {
        finding.command(now)
    }
}
