//! Size and position of the log (calculate_log_size).

use super::decided::{Decided, INODES_PER_CHUNK};
use super::groups::Groups;
use super::reservation::{self, Largest};
use super::{Defaults, Options, Version, must};
use crate::address::FsBlock;
use crate::fs::xfs::Log;
use std::ops::RangeInclusive;

/// Smallest log that mkfs.xfs creates (XFS_MIN_REALISTIC_LOG_BLOCKS).
const MIN_BYTES: u64 = 64 << 20;
/// Largest log (XFS_MAX_LOG_BLOCKS, XFS_MAX_LOG_BYTES, libxfs/xfs_fs.h).
const MAX_BLOCKS: u64 = 1 << 20;
const MAX_BYTES: u64 = (2 << 30) - (10 << 20);
pub fn log(
    decided: &Decided,
    groups: &Groups,
    options: &Options,
    defaults: &Defaults,
) -> Result<Log, String> {
    let max = MAX_BLOCKS.min(decided.blocks_in(MAX_BYTES));
    let largest = reservation::largest(decided, groups);
    let min = decided.blocks_in(MIN_BYTES).max(largest.min_log(decided));
    if options.log_device.is_some() {
        return external(decided, options, min, max);
    }
    // xfs_alloc_ag_max_usable, less one block so that the AG does not become full: headers, blocks
    // for the free list, roots.
    let headers = (4 * decided.sector_size).div_ceil(decided.block_size);
    let taken = headers + 4 + decided.trees() + 1;
    let usable = u64::from(groups.size).saturating_sub(taken.into());
    must(usable >= min, || {
        format!("an AG of {} blocks has no room for a log of {min} blocks", groups.size)
    })?;
    let mut blocks = match options.log_size {
        Some(size) => own(decided, size, usable, max)?,
        None => default(decided, groups, &largest, options, defaults).max(min).min(usable).min(max),
    };
    must(blocks >= min, || format!("a log of {blocks} blocks: mkfs.xfs requires at least {min}"))?;
    must(blocks <= u64::from(groups.size - decided.fixed_blocks()), || {
        format!("a log of {blocks} blocks does not fit in an AG of {} blocks", groups.size)
    })?;
    let group = options.log_group.unwrap_or(groups.count / 2);
    must(group < groups.count, || format!("-l agnum={group}: there are {} AGs", groups.count))?;
    let mut most = usable;
    if group == 0 {
        // adjust_ag0_internal_logblocks: room for the first inodes.
        let chunk = INODES_PER_CHUNK * decided.inode_size / decided.block_size;
        most -= u64::from((4 * chunk).max(2 * decided.stripe.unit)).min(most);
        must(options.log_size.is_none() || blocks <= most, || {
            format!("-l size: must be less than {most} blocks in AG 0")
        })?;
        blocks = blocks.min(most);
    }
    place(decided, groups, options, group, blocks, min..=most.min(max))
}

/// Size of an external log. Without `-l size=` it is the size of its device, which raidtrace does
/// not know.
fn external(decided: &Decided, options: &Options, min: u64, max: u64) -> Result<Log, String> {
    let size = options
        .log_size
        .ok_or("-l logdev: give the size of the log, too: -l logdev=DEVICE,size=...")?;
    let blocks = decided.blocks_in(size);
    must((min..=max).contains(&blocks), || {
        format!("-l size={size}: must be {min} to {max} blocks")
    })?;
    let unit = u64::from(decided.log_unit);
    must(unit == 0 || blocks.is_multiple_of(unit), || {
        format!("-l size={size}: not a multiple of the log's stripe unit, {unit} blocks")
    })?;
    Ok(Log::External { blocks: blocks as u32 })
}

/// Blocks of `-l size=`.
fn own(decided: &Decided, size: u64, usable: u64, max: u64) -> Result<u64, String> {
    must(size.is_multiple_of(512), || format!("-l size={size}: not a multiple of 512 bytes"))?;
    let blocks = decided.blocks_in(size);
    must(blocks <= usable, || format!("-l size={size}: an AG has room for {usable} blocks"))?;
    must(blocks <= max, || format!("-l size={size}: must be at most {max} blocks"))?;
    Ok(blocks)
}

/// Blocks of the log without `-l size=`: 1/2048 of the filesystem, more with many CPUs
/// (calc_concurrency_logblocks).
fn default(
    decided: &Decided,
    groups: &Groups,
    largest: &Largest,
    options: &Options,
    defaults: &Defaults,
) -> u64 {
    let ratio = decided.blocks_in(groups.blocks * u64::from(decided.block_size) / 2048);
    let threads = match options.log_concurrency {
        // `-l concurrency=1`: as many as CPUs.
        Some(1) => defaults.cpus,
        Some(threads) => threads,
        None if defaults.version >= Version::V6_13 && !defaults.rotational => defaults.cpus,
        None => 0,
    };
    if threads == 0
        || groups.blocks < decided.blocks_in(1 << 30)
        || ratio >= decided.blocks_in(MAX_BYTES)
    {
        return ratio;
    }
    let bytes = largest.bytes() * 3 * u64::from(threads) / 2;
    ratio.max(decided.blocks_in(bytes.min(MAX_BYTES)))
}

/// First block, aligned to the stripe, and the number of blocks in units of it (align_internal_log,
/// align_log_size).
fn place(
    decided: &Decided,
    groups: &Groups,
    options: &Options,
    group: u32,
    mut blocks: u64,
    limits: RangeInclusive<u64>,
) -> Result<Log, String> {
    let size = u64::from(groups.size);
    let length = size.min(groups.blocks - u64::from(group) * size);
    // Alignment is that of the block's sparse number (XFS_AGB_TO_FSB), whose AG number is above the
    // bits of an AG's size.
    let sparse = u64::from(group) << size.next_power_of_two().trailing_zeros();
    let unit = match decided.log_unit {
        0 => u64::from(decided.stripe.unit),
        unit => unit.into(),
    }
    .max(1);
    let first = (sparse + u64::from(decided.fixed_blocks())).next_multiple_of(unit) - sparse;
    if !blocks.is_multiple_of(unit) {
        must(options.log_size.is_none(), || {
            format!(
                "-l size: {blocks} blocks are not a multiple of the log's stripe unit, {unit} \
                 blocks"
            )
        })?;
        let up = blocks.next_multiple_of(unit);
        blocks = if up > *limits.end() { blocks / unit * unit } else { up };
    }
    if first + blocks > length && blocks > unit {
        blocks -= unit;
    }
    must(blocks >= *limits.start(), || {
        format!("the aligned log of {blocks} blocks is below {} blocks", limits.start())
    })?;
    must(group > 0 || !takes_inodes(decided, first), || {
        "-l agnum=0: mkfs.xfs can fail here, since the first inodes fit in front of the aligned log"
            .to_owned()
    })?;
    must(first + blocks <= length, || {
        format!(
            "a log of {blocks} blocks does not fit in AG {group} of {length} blocks: give a \
             smaller -l size="
        )
    })?;
    Ok(Log::Internal { first: FsBlock(u64::from(group) * size + first), blocks: blocks as u32 })
}

/// True if the first inodes fit between the headers of AG 0 and its log. mkfs.xfs expects them
/// behind the log, and fails if they are not there (check_root_ino).
fn takes_inodes(decided: &Decided, log: u64) -> bool {
    let fixed = u64::from(decided.fixed_blocks());
    let chunk = INODES_PER_CHUNK * decided.inode_size / decided.block_size;
    // Inodes are aligned to the stripe if it is a multiple of their own alignment
    // (xfs_ialloc_setup_geometry).
    let (unit, align) = (decided.stripe.unit, decided.inode_align());
    let striped = unit > 0 && align > 1 && unit.is_multiple_of(align);
    let first = if striped { fixed.next_multiple_of(unit.into()) } else { fixed };
    first + u64::from(chunk.max(1)) <= log
}
