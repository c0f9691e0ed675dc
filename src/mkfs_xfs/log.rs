//! Size and position of the log (calculate_log_size).

use super::decided::{Decided, INODES_PER_CHUNK};
use super::groups::Groups;
use super::{Defaults, Options, Version, must, reservation};
use crate::address::FsBlock;
use crate::fs::xfs::Log;

/// Smallest log that mkfs.xfs creates (XFS_MIN_REALISTIC_LOG_BLOCKS).
const MIN_BYTES: u64 = 64 << 20;
/// Largest log (XFS_MAX_LOG_BLOCKS, XFS_MAX_LOG_BYTES, libxfs/xfs_fs.h).
const MAX_BLOCKS: u64 = 1 << 20;
const MAX_BYTES: u64 = (2 << 30) - (10 << 20);
/// The smallest log for the transactions (xfs_log_calc_minimum_size) is below [`MIN_BYTES`] with blocks up to this size, and below
/// [`TRANSACTIONS`] with larger ones.
const SMALL_BLOCK: u32 = 16384;
const TRANSACTIONS: u64 = 256 << 20;

pub fn log(
    decided: &Decided,
    groups: &Groups,
    options: &Options,
    defaults: &Defaults,
) -> Result<Log, String> {
    let max = MAX_BLOCKS.min(decided.blocks_in(MAX_BYTES));
    let min = decided.blocks_in(MIN_BYTES);
    if options.log_device {
        return external(decided, options, min, max);
    }
    // xfs_alloc_ag_max_usable, less one block so that the AG does not become full: headers, blocks for the free list, roots.
    let headers = (4 * decided.sector_size).div_ceil(decided.block_size);
    let roots =
        3 + u32::from(decided.finobt) + u32::from(decided.rmapbt) + u32::from(decided.reflink);
    let usable = u64::from(groups.size).saturating_sub(u64::from(headers + 4 + roots + 1));
    must(usable >= min, || {
        format!(
            "an AG of {} blocks has no room for a log of 64 MiB",
            groups.size
        )
    })?;
    let mut blocks = match options.log_size {
        Some(size) => own(decided, size, usable, max)?,
        None => default(decided, groups, options, defaults)?
            .max(min)
            .min(usable)
            .min(max),
    };
    must(blocks >= min, || {
        format!("a log of {blocks} blocks: mkfs.xfs requires at least 64 MiB")
    })?;
    must(
        decided.block_size <= SMALL_BLOCK || blocks >= decided.blocks_in(TRANSACTIONS),
        || {
            "raidtrace computes no log below 256 MiB with blocks above 16 KiB: give a larger -l size=".to_owned()
        },
    )?;
    must(
        blocks <= u64::from(groups.size - decided.fixed_blocks()),
        || {
            format!(
                "a log of {blocks} blocks does not fit in an AG of {} blocks",
                groups.size
            )
        },
    )?;
    let group = options.log_group.unwrap_or(groups.count / 2);
    must(group < groups.count, || {
        format!("-l agnum={group}: there are {} AGs", groups.count)
    })?;
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
    place(decided, groups, options, group, blocks, most.min(max))
}

/// Size of an external log. Without `-l size=` it is the size of its device, which raidtrace does not know.
fn external(decided: &Decided, options: &Options, min: u64, max: u64) -> Result<Log, String> {
    let size = options
        .log_size
        .ok_or("-l logdev: give the size of the log, too: -l logdev=DEVICE,size=...")?;
    let blocks = decided.blocks_in(size);
    must((min..=max).contains(&blocks), || {
        format!("-l size={size}: must be {min} to {max} blocks")
    })?;
    let unit = u64::from(decided.log_unit);
    must(unit == 0 || blocks % unit == 0, || {
        format!("-l size={size}: not a multiple of the log's stripe unit, {unit} blocks")
    })?;
    Ok(Log::External {
        blocks: blocks as u32,
    })
}

/// Blocks of `-l size=`.
fn own(decided: &Decided, size: u64, usable: u64, max: u64) -> Result<u64, String> {
    must(size % 512 == 0, || {
        format!("-l size={size}: not a multiple of 512 bytes")
    })?;
    let blocks = decided.blocks_in(size);
    must(blocks <= usable, || {
        format!("-l size={size}: an AG has room for {usable} blocks")
    })?;
    must(blocks <= max, || {
        format!("-l size={size}: must be at most {max} blocks")
    })?;
    Ok(blocks)
}

/// Blocks of the log without `-l size=`: 1/2048 of the filesystem, more with many CPUs (calc_concurrency_logblocks).
fn default(
    decided: &Decided,
    groups: &Groups,
    options: &Options,
    defaults: &Defaults,
) -> Result<u64, String> {
    let ratio = decided.blocks_in(groups.blocks * u64::from(decided.block_size) / 2048);
    let threads = match options.log_concurrency {
        Some(threads) => threads,
        None if defaults.version >= Version::V6_13 && !defaults.rotational => defaults.cpus,
        None => 0,
    };
    if threads == 0
        || groups.blocks < decided.blocks_in(1 << 30)
        || ratio >= decided.blocks_in(MAX_BYTES)
    {
        return Ok(ratio);
    }
    let bytes = reservation::largest(decided, groups)? * 3 * u64::from(threads) / 2;
    Ok(ratio.max(decided.blocks_in(bytes.min(MAX_BYTES))))
}

/// First block, aligned to the stripe, and the number of blocks in units of it (align_internal_log, align_log_size).
fn place(
    decided: &Decided,
    groups: &Groups,
    options: &Options,
    group: u32,
    mut blocks: u64,
    most: u64,
) -> Result<Log, String> {
    let size = u64::from(groups.size);
    let length = size.min(groups.blocks - u64::from(group) * size);
    // Alignment is that of the block's sparse number (XFS_AGB_TO_FSB), whose AG number is above the bits of an AG's size.
    let sparse = u64::from(group) << size.next_power_of_two().trailing_zeros();
    let unit = match decided.log_unit {
        0 => u64::from(decided.stripe.unit),
        unit => unit.into(),
    }
    .max(1);
    let first = (sparse + u64::from(decided.fixed_blocks())).next_multiple_of(unit) - sparse;
    if blocks % unit != 0 {
        must(options.log_size.is_none(), || {
            format!(
                "-l size: {blocks} blocks are not a multiple of the log's stripe unit, {unit} blocks"
            )
        })?;
        let up = blocks.next_multiple_of(unit);
        blocks = if up > most { blocks / unit * unit } else { up };
    }
    if first + blocks > length && blocks > unit {
        blocks -= unit;
    }
    must(blocks >= decided.blocks_in(MIN_BYTES), || {
        format!("the aligned log of {blocks} blocks is below 64 MiB")
    })?;
    must(first + blocks <= length, || {
        format!(
            "a log of {blocks} blocks does not fit in AG {group} of {length} blocks: give a smaller -l size="
        )
    })?;
    Ok(Log::Internal {
        first: FsBlock(u64::from(group) * size + first),
        blocks: blocks as u32,
    })
}
