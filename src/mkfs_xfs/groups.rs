//! Size and number of allocation groups (AGs).

use super::decided::Decided;
use super::{Defaults, Options, Version, must};
use crate::fs::xfs::{MAX_AGS, MIN_AG_BYTES, ag_count};

/// AGs, and the blocks that they have.
pub struct Groups {
    /// Blocks of the filesystem: without a last AG that would be too small.
    pub blocks: u64,
    /// Blocks of an AG.
    pub size: u32,
    /// Number of AGs.
    pub count: u32,
}

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// calculate_initial_ag_geometry, align_ag_geometry, validate_ag_geometry.
pub fn groups(decided: &Decided, options: &Options, defaults: &Defaults) -> Result<Groups, String> {
    let blocks = decided.blocks;
    let min = decided.blocks_in(MIN_AG_BYTES);
    // XFS_AG_MAX_BLOCKS: one byte less than 1 TiB, in whole blocks.
    let max = (TIB - 1) / u64::from(decided.block_size);
    must(blocks >= decided.blocks_in(300 << 20), || {
        format!("{blocks} blocks: mkfs.xfs creates no filesystem below 300 MB")
    })?;
    let size = initial(decided, options, defaults, max)?;
    let size = aligned(decided, options, size, min, max);
    must((min..=max).contains(&size), || {
        format!("an AG of {size} blocks: must be {min} to {max} blocks")
    })?;
    must(size <= blocks, || {
        format!("an AG of {size} blocks is larger than the filesystem, {blocks} blocks")
    })?;
    // A short last AG is dropped. The count is that of the aligned size even if -d agcount was
    // given: see aligned().
    let count = ag_count(blocks, size, min);
    let blocks = blocks.min(count.saturating_mul(size));
    must(count >= 2, || {
        "one AG: mkfs.xfs requires at least two, for a second superblock".to_owned()
    })?;
    must(count <= MAX_AGS.into(), || {
        format!("{count} AGs are more than raidtrace's limit of {MAX_AGS}")
    })?;
    Ok(Groups { blocks, size: size as u32, count: count as u32 })
}

/// Blocks of an AG before alignment.
fn initial(
    decided: &Decided,
    options: &Options,
    defaults: &Defaults,
    max: u64,
) -> Result<u64, String> {
    let block = u64::from(decided.block_size);
    let default = default(decided, max);
    if let Some(threads) = options.data_concurrency.filter(|&n| n > 0) {
        // `-d concurrency=1`: as many as CPUs.
        let threads = if threads == 1 { defaults.cpus } else { threads };
        return Ok(concurrent(decided, default, threads.into(), max));
    }
    if let Some(size) = options.agsize {
        must((MIN_AG_BYTES..=TIB).contains(&size), || {
            format!("-d agsize={size}: must be 16 MiB to 1 TiB")
        })?;
        must(size.is_multiple_of(block), || {
            format!("-d agsize={size}: not a multiple of the block size, {block}")
        })?;
        return Ok(size / block);
    }
    if let Some(count) = options.agcount {
        must(count > 0, || "-d agcount=0: must be at least 1".to_owned())?;
        return Ok(decided.blocks.div_ceil(count));
    }
    let by_cpus = options.data_concurrency.is_none()
        && !defaults.rotational
        && defaults.version >= Version::V6_13;
    if by_cpus {
        return Ok(concurrent(decided, default, defaults.cpus.into(), max));
    }
    Ok(default)
}

/// Blocks of an AG by size alone (calc_default_ag_geometry, libxfs/topology.c).
fn default(decided: &Decided, max: u64) -> u64 {
    let blocks = decided.blocks;
    let at_least = |bytes| blocks >= decided.blocks_in(bytes);
    let up_to = |bytes| blocks <= decided.blocks_in(bytes);
    let striped = decided.stripe.unit > 0;
    if at_least(32 * TIB) || !striped && at_least(4 * TIB) {
        return max;
    }
    let count = match () {
        () if !striped => 4,
        () if up_to(8 * GIB) => 8,
        () if up_to(512 * GIB) => 16,
        () => 32,
    };
    blocks.div_ceil(count)
}

/// Blocks of an AG for `threads` threads (calc_concurrency_ag_geometry).
fn concurrent(decided: &Decided, default: u64, threads: u64, max: u64) -> u64 {
    let blocks = decided.blocks;
    let count = blocks.div_ceil(default);
    if threads == 0 || threads < count {
        return default;
    }
    let least = decided.blocks_in(4 * GIB);
    if blocks / threads < least {
        // The largest count of AGs of at least 4 GiB, if it is above the default.
        let most = blocks / least;
        return if most > count { blocks / most } else { default };
    }
    let (mut groups, mut size) = (threads, blocks / threads);
    while size > max && size > default {
        groups += threads;
        size = blocks / groups;
    }
    size
}

/// Blocks of an AG, aligned to the stripe unit, and not a multiple of the stripe width
/// (align_ag_geometry).
fn aligned(decided: &Decided, options: &Options, size: u64, min: u64, max: u64) -> u64 {
    let (unit, width) = (u64::from(decided.stripe.unit), u64::from(decided.stripe.width));
    if unit == 0 {
        return size;
    }
    let mut size = size;
    if !size.is_multiple_of(unit) {
        let up = size.next_multiple_of(unit);
        size = if up > max { size / unit * unit } else { up };
    }
    if size == 0 {
        return size;
    }
    let count = decided.blocks.div_ceil(size);
    let avoid = size.is_multiple_of(width) && width != unit && count > 1;
    if avoid && options.agcount.is_none() && options.agsize.is_none() {
        let down = size - unit;
        size = match () {
            () if down >= min => down,
            () if decided.blocks < size => size,
            () => size + unit,
        };
    }
    size
}
