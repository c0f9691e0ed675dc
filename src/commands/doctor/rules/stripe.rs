//! `stripe=`: the alignment of the allocator compared with the array, and attempts to turn it off
//! that have no effect.

use super::allocator;
use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::fs::ext4::Ext4Superblock;

const SOURCE: &str = "Linux, fs/ext4/super.c, ext4_get_stripe_size";

/// A filesystem on an array with chunks.
struct StripeCase<'a> {
    array: &'a ArrayFacts,
    fs: &'a FsFacts,
    /// Stride and stripe width in the superblock, blocks.
    stored: (u64, u64),
    /// Blocks of a group.
    group: u64,
    /// Bytes of a block.
    block: u64,
    /// Chunk of the array, blocks.
    chunk: u64,
    /// Stripe of the array, blocks.
    stripe: u64,
}

/// Checks the stripe in force, or the stored one, against the geometry of the array.
pub fn check(kernel: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let case = fs.superblock.as_ref().and_then(|sb| StripeCase::new(array, fs, sb));
    // Advise no stripe where the allocator has a bug with stripes.
    let livelock = allocator::livelock(kernel, fs);
    let found = [zero_ignored(fs), case.and_then(|c| c.check(livelock))];
    found.into_iter().flatten().collect()
}

/// `stripe=0` that has no effect.
fn zero_ignored(fs: &FsFacts) -> Option<Finding> {
    let in_force = fs.stripe().filter(|s| *s > 1)?;
    let zero = |options: &str| options.split(',').any(|o| o.trim() == "stripe=0");
    let stored = fs.superblock.as_ref().map(|sb| sb.mount_opts.as_str());
    let origin = if fs.fstab.as_deref().is_some_and(zero) {
        "/etc/fstab"
    } else if stored.is_some_and(zero) {
        "the superblock's mount options"
    } else {
        return None;
    };
    let title = format!("stripe=0 in {origin} is ignored: the stripe is {in_force} blocks");
    let finding = Finding::warning("stripe-zero-ignored", title)
        .seen(format!("{origin} has stripe=0"))
        .seen(fs.option_seen(format_args!("stripe={in_force}")))
        .figure("stripe_blocks", in_force);
    Some(
        allocator::stripe_off(fs, finding)
            .risk("parity levels get more partial-stripe writes; undone with the old values")
            .not_when("a stripe is wanted: then remove stripe=0")
            .source(SOURCE),
    )
}

impl<'a> StripeCase<'a> {
    fn new(array: &'a ArrayFacts, fs: &'a FsFacts, sb: &Ext4Superblock) -> Option<Self> {
        let bytes = u64::from(array.array.chunk_sectors) * 512;
        let block = u64::from(sb.block_size);
        let disks = array.data_disks()?;
        if !bytes.is_multiple_of(block) || array.array.before_reshape.is_some() {
            return None;
        }
        Some(Self {
            array,
            fs,
            stored: (sb.raid_stride.into(), sb.raid_stripe_width.into()),
            group: sb.blocks_per_group.into(),
            block,
            chunk: bytes / block,
            stripe: bytes / block * disks,
        })
    }

    /// Stripe in force; before a mount, the one that ext4_get_stripe_size() would choose.
    fn in_force(&self) -> u64 {
        let (stride, width) = self.stored;
        let by_kernel = [width, stride].into_iter().find(|n| (1..=self.group).contains(n));
        self.fs.stripe().filter(|s| *s <= u64::from(u32::MAX)).or(by_kernel).unwrap_or(0)
    }

    fn check(&self, livelock: bool) -> Option<Finding> {
        let in_force = self.in_force();
        if in_force <= 1 {
            let wanted = self.array.has_parity() && self.array.rotational() && !livelock;
            return (wanted && self.stored == (0, 0)).then(|| self.missing());
        }
        let optimal = in_force * self.block == self.array.optimal_io;
        if in_force.is_multiple_of(self.stripe) || optimal {
            None
        } else if in_force != self.stored.0 {
            Some(self.wrong(in_force))
        } else {
            (!livelock).then(|| self.stride_as_stripe())
        }
    }

    /// Commands that set stride and stripe to those of the array.
    fn set(&self) -> Vec<String> {
        let (stride, width) = (self.chunk, self.stripe);
        let tune2fs = format!("-E stride={stride},stripe_width={width}");
        self.fs.change(&tune2fs, &format!("stripe={width}"))
    }

    fn geometry(&self) -> String {
        let array = &self.array.array;
        format!(
            "{} of {} members with chunks of {} blocks: stripes of {} blocks",
            array.level, array.raid_disks, self.chunk, self.stripe
        )
    }

    fn missing(&self) -> Finding {
        Finding::info("stripe-missing", "ext4 has no stripe set on this parity array")
            .seen("s_raid_stride and s_raid_stripe_width are 0")
            .seen(self.geometry())
            .figure("stripe_blocks", self.stripe)
            .commands(self.set())
    }

    fn stride_as_stripe(&self) -> Finding {
        let (stride, width) = self.stored;
        let costly = self.array.has_parity() && self.array.rotational();
        let finding = Finding::info(
            "stripe-from-stride",
            format!(
                "ext4 uses the stride ({stride} blocks) as the stripe ({} blocks)",
                self.stripe
            ),
        )
        .raise_if(costly, FindingSeverity::Warning)
        .seen(if width == 0 {
            "s_raid_stripe_width is 0 (mke2fs 1.47.3 and later do not set it on SSDs; or tune2fs \
             cleared it alone)"
                .to_owned()
        } else {
            format!(
                "s_raid_stripe_width is {width}, more than the {} blocks of a group",
                self.group
            )
        })
        .seen(self.geometry())
        .figure("stripe_blocks", stride)
        .source(SOURCE);
        if width == 0 && costly {
            return finding
                .commands(self.set())
                .risk(
                    "on a full and fragmented filesystem the allocator searches longer; undone \
                     with stripe_width=0",
                )
                .not_when(
                    "files are small: turn the stripe off with stride=0,stripe_width=0 instead",
                );
        }
        finding
            .seen(format!("in the superblock: stride={stride} stripe_width={width}"))
            .command(format!("tune2fs -E stride=0,stripe_width=0 {}", self.fs.path()))
            .risk(
                "none known: files stay where they are; takes effect at the next mount, undone \
                 with the old values",
            )
            .not_when(
                "long writes to a parity array of hard disks matter more than the allocator's time",
            )
    }

    fn wrong(&self, in_force: u64) -> Finding {
        let (stride, width) = self.stored;
        let mounted = if self.fs.stripe().is_some() { "in force" } else { "at the next mount" };
        let title =
            format!("ext4 aligns to {in_force} blocks, a stripe of the array has {}", self.stripe);
        Finding::info("stripe-wrong", title)
            .raise_if(self.array.has_parity(), FindingSeverity::Warning)
            .seen(format!(
                "stride={stride} stripe_width={width} in the superblock, {in_force} {mounted}"
            ))
            .seen(self.geometry())
            .figure("stripe_blocks", in_force)
            .figure("expected_blocks", self.stripe)
            .commands(self.set())
    }
}
