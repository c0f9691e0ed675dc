//! Costs of options, and the score of a candidate.

use super::{Candidate, Search};
use crate::analysis::placement::filesystem::{BlockGroups, FsMetadata};
use crate::analysis::units;
use crate::mke2fs::Options;

/// Minimum groups per flex group for ext4 to spread directories over flex groups
/// (EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME).
const MIN_SPREADING_FLEX: u32 = 4;

/// Cost of seeks, for each doubling of the distance between metadata and its files.
const DISTANCE_COST: f64 = 0.05;

/// Minimum number of flex groups to spread directories over: the Orlov allocator places each
/// directory of the root in a different flex group, and all files of a flex group start in the same
/// group (`ext4_inode_to_goal_block()`).
const MIN_FLEX_GROUPS: f64 = 64.0;

/// Skew up to which a layout is as good as even.
const MAX_EVEN_SKEW: f64 = 1.05;

/// Costs of an even layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Share of the groups that start on a chunk, 0 to 1.
    pub aligned: f64,
    /// Number of groups.
    pub groups: u32,
    /// Groups per flex group.
    pub per_flex: u32,
    /// Number of flex groups.
    pub flex_groups: u32,
    /// Number of inodes.
    pub inodes: u64,
    /// Size in bytes to which the filesystem can grow while mounted; 0 if it cannot grow.
    pub grows_to: u64,
    /// Size of a flex group in bytes.
    pub flex_bytes: u64,
    /// Costs in words; may be empty.
    pub words: Vec<String>,
    /// Sum of the costs, in units of skew.
    pub weight: f64,
}

impl Costs {
    /// Costs relative to `base`, the costs of the user's options. `base` is `None` for the user's
    /// options themselves.
    pub fn new(
        fs: &FsMetadata,
        options: &Options,
        search: &Search<'_>,
        base: Option<&Self>,
    ) -> Self {
        let groups = fs.block_groups().unwrap_or(BlockGroups {
            count: 0,
            first_block: 0,
            blocks: 1,
            per_flex: 1,
            table_blocks: 0,
        });
        let block = u64::from(fs.block_size);
        let mut costs = Self {
            aligned: aligned(fs, search),
            groups: groups.count,
            per_flex: groups.per_flex,
            flex_groups: groups.flex_groups(),
            inodes: fs.inodes,
            grows_to: fs.grows_to,
            flex_bytes: groups.step() * block,
            words: Vec::new(),
            weight: 0.0,
        };
        let Some(base) = base else {
            return costs;
        };
        if costs.aligned < base.aligned - 0.01 {
            // Measured: the cost is small, and slightly higher if unaligned writes must read first.
            costs.weight += if search.parity { 0.15 } else { 0.1 } * (base.aligned - costs.aligned);
            costs.words.push(format!(
                "{} of the groups start on a chunk, not {}: files do not start on chunks, and \
                 large ones have more extents",
                units::percent(costs.aligned),
                units::percent(base.aligned),
            ));
        }
        if groups.per_flex < MIN_SPREADING_FLEX && options.flex != search.base.flex {
            costs.weight += 0.1;
            costs.words.push(
                "with fewer than 4 groups per flex group ext4 reserves no groups for directories, \
                 and prefetches fewer bitmaps at once"
                    .to_owned(),
            );
        }
        // Smaller flex groups scatter bitmaps, which are read ahead by flex group. In larger ones
        // metadata is farther from its files, and a search for free blocks passes more full groups
        // after the one where all files of a flex group start.
        let steps = (f64::from(groups.per_flex) / 16.0).log2();
        if options.flex != search.base.flex {
            costs.weight += if steps < 0.0 { -0.03 * steps } else { DISTANCE_COST * steps };
        }
        if groups.per_flex > base.per_flex {
            let few = |n: u32| (MIN_FLEX_GROUPS / f64::from(n.max(1))).log2().max(0.0);
            costs.weight += 0.1 * (few(groups.flex_groups()) - few(base.flex_groups));
            costs.words.push(format!(
                "the metadata of {} is adjacent, not of {}: farther from its files on rotational \
                 disks; directories spread over {} flex groups, not {}",
                units::size(costs.flex_bytes),
                units::size(base.flex_bytes),
                groups.flex_groups(),
                base.flex_groups,
            ));
        }
        if options.extended.len() > search.base.extended.len() {
            // Same cost as for a single flex group.
            costs.weight += DISTANCE_COST * (f64::from(groups.count) / 16.0).log2().max(6.0);
            costs.words.push(
                "all metadata is at the start: far from most files, and metadata that a resize \
                 adds is not packed"
                    .to_owned(),
            );
        }
        let more = f64::from(costs.groups) / f64::from(base.groups.max(1)) - 1.0;
        if more > 0.005 {
            costs.weight += more;
            costs.words.push(format!("{:.1} % more groups", more * 100.0));
        }
        let inodes = costs.inodes as f64 / base.inodes.max(1) as f64 - 1.0;
        if inodes.abs() > 0.02 {
            costs.weight += 0.5 * inodes.abs();
            costs.words.push(format!("{:+.1} % inodes", inodes * 100.0));
        }
        if (costs.grows_to as f64) < base.grows_to as f64 * 0.95 {
            costs.weight += 0.1;
            costs.words.push(format!(
                "grows to {} while mounted, not {}",
                units::size(costs.grows_to),
                units::size(base.grows_to)
            ));
        }
        // Prefer fewer options.
        let added = usize::from(options.group.is_some()) + usize::from(options.flex.is_some());
        costs.weight += 0.01 * added as f64;
        costs
    }
}

/// Share of the groups that start on a chunk.
fn aligned(fs: &FsMetadata, search: &Search<'_>) -> f64 {
    let chunk = search.geometry.chunk_sectors().unwrap_or(1);
    let block_sectors = u64::from(fs.block_size / 512);
    let offset = search.segments.first().map_or(0, |s| s.array_sector.0);
    let (aligned, total) = fs.group_starts().fold((0_u64, 0_u64), |(n, total), block| {
        let sector = block * block_sectors + offset;
        (n + u64::from(sector.is_multiple_of(chunk)), total + 1)
    });
    aligned as f64 / total.max(1) as f64
}

impl Candidate {
    /// Skews above an even layout plus costs; the lowest is the best.
    pub fn score(&self) -> f64 {
        let above = |skew: Option<f64>| skew.map_or(0.0, |s| (s - MAX_EVEN_SKEW).max(0.0));
        let bitmaps = above(self.skews.allocation).max(0.5 * above(self.skews.alone));
        let sum = bitmaps + 0.7 * above(self.skews.inodes) + self.costs.weight;
        // Round: smaller differences are not significant.
        (sum * 100.0).round() / 100.0
    }
}
