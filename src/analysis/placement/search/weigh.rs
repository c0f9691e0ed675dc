//! What options cost, and which are best all in all.

use super::{Candidate, Search};
use crate::analysis::placement::filesystem::Filesystem;
use crate::analysis::units;
use crate::mke2fs::Options;

/// ext4_new_inode spreads directories over flex groups of at least so many groups (EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME).
const SPREADS_DIRECTORIES: u32 = 4;

/// For each doubling of the distance between metadata and its files, on disks that seek.
const FARTHER: f64 = 0.05;

/// Flex groups that directories should have to spread over: Orlov gives each directory under the root one of its own, and
/// all files of one begin in the same group (`ext4_inode_to_goal_block`).
const PLACES: f64 = 64.0;

/// Up to here nobody can tell a skew from an even spread.
const EVEN: f64 = 1.05;

/// What one gives for evenness.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Of the groups, how many begin on a chunk: 0 to 1.
    pub aligned: f64,
    /// Groups.
    pub groups: u32,
    /// Groups of a flex group.
    pub per_flex: u32,
    /// Flex groups.
    pub flex_groups: u32,
    /// Inodes.
    pub inodes: u64,
    /// Bytes that it can grow to while mounted; 0 for none.
    pub grows_to: u64,
    /// Bytes whose bitmaps lie together.
    pub together: u64,
    /// In words; empty for none.
    pub words: Vec<String>,
    /// In skew that one would put up with instead.
    pub weight: f64,
}

impl Costs {
    /// `base`: of what was typed, `None` if that is what this is.
    pub fn of(
        fs: &Filesystem,
        options: &Options,
        search: &Search<'_>,
        base: Option<&Self>,
    ) -> Self {
        let groups = fs.groups.unwrap_or(crate::analysis::placement::Groups {
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
            together: groups.step() * block,
            words: Vec::new(),
            weight: 0.0,
        };
        let Some(base) = base else {
            return costs;
        };
        if costs.aligned < base.aligned - 0.01 {
            // Small where it was measured, and a little more where unaligned writes read first.
            costs.weight += if search.parity { 0.15 } else { 0.1 } * (base.aligned - costs.aligned);
            costs.words.push(format!(
                "{} of the groups begin on a chunk, not {}: files start off chunks, large ones have more extents",
                units::percent(costs.aligned),
                units::percent(base.aligned),
            ));
        }
        if groups.per_flex < SPREADS_DIRECTORIES && options.flex != search.base.flex {
            costs.weight += 0.1;
            costs.words.push(
                "flex groups below 4 turn off ext4's groups for directories, and bitmaps are prefetched in small bites"
                    .to_owned(),
            );
        }
        // Smaller ones scatter bitmaps, which are read ahead flex group by flex group. Larger ones are further from their
        // files, and a search for free blocks passes more full groups behind the one where all files of a flex group begin.
        let steps = (f64::from(groups.per_flex) / 16.0).log2();
        if options.flex != search.base.flex {
            costs.weight += if steps < 0.0 {
                -0.03 * steps
            } else {
                FARTHER * steps
            };
        }
        if groups.per_flex > base.per_flex {
            let few = |n: u32| (PLACES / f64::from(n.max(1))).log2().max(0.0);
            costs.weight += 0.1 * (few(groups.flex_groups()) - few(base.flex_groups));
            costs.words.push(format!(
                "the metadata of {} lies together, not of {}: farther from its files on a disk that seeks; directories spread over {} flex groups, not {}",
                units::size(costs.together),
                units::size(base.together),
                groups.flex_groups(),
                base.flex_groups,
            ));
        }
        if options.extended.len() > search.base.extended.len() {
            // As one flex group of all groups.
            costs.weight += FARTHER * (f64::from(groups.count) / 16.0).log2().max(6.0);
            costs.words.push(
                "all metadata lies at the start: far from all files, and what a resize adds is not packed".to_owned(),
            );
        }
        let more = f64::from(costs.groups) / f64::from(base.groups.max(1)) - 1.0;
        if more > 0.005 {
            costs.weight += more;
            costs
                .words
                .push(format!("{:.1} % more groups", more * 100.0));
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
        // Of two that are as good, the one with less to type.
        let typed = |o: &Options| {
            [o.group.is_some(), o.flex.is_some()]
                .into_iter()
                .map(usize::from)
                .sum::<usize>()
        };
        costs.weight += 0.01 * typed(options) as f64;
        costs
    }
}

/// How many of the groups begin where a chunk does.
fn aligned(fs: &Filesystem, search: &Search<'_>) -> f64 {
    let chunk = search.geometry.chunk_sectors().unwrap_or(1);
    let block_sectors = u64::from(fs.block_size / 512);
    let offset = search.segments.first().map_or(0, |s| s.array_sector);
    let (on, all) = fs.group_starts().fold((0_u64, 0_u64), |(on, all), block| {
        let sector = block * block_sectors + offset;
        (on + u64::from(sector.is_multiple_of(chunk)), all + 1)
    });
    on as f64 / all.max(1) as f64
}

impl Candidate {
    /// The less the better: what is above an even spread, and the costs.
    pub fn score(&self) -> f64 {
        let above = |skew: Option<f64>| skew.map_or(0.0, |s| (s - EVEN).max(0.0));
        let bitmaps = above(self.skews.bitmaps).max(0.5 * above(self.skews.one_bitmap));
        let all = bitmaps + 0.7 * above(self.skews.tables) + self.costs.weight;
        // A hundredth is no difference.
        (all * 100.0).round() / 100.0
    }
}
