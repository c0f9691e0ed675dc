//! Sizes of allocation groups (mkfs.xfs -d agsize=), and -d noalign, to compare on an array. The
//! caller plans the filesystems.

use super::ranked;
use crate::analysis::placement::agsize::{AgSize, best};
use crate::analysis::placement::filesystem::FsMetadata;
use crate::analysis::placement::spread::Skews;
use crate::analysis::placement::target::Target;

/// Number of sizes just below mkfs.xfs's own to compare.
const NEIGHBOURS: u64 = 3;
/// Minimum gain in score to recommend another size than mkfs.xfs's own.
const MIN_GAIN: f64 = 0.15;

/// Cost of files that are not aligned to stripes, in units of skew, as for ext4; with parity an
/// unaligned write reads first.
const UNALIGNED: f64 = 0.1;
const UNALIGNED_PARITY: f64 = 0.15;

/// Options of mkfs.xfs that are added to the user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgSizeOptions {
    /// `-d agsize=` in bytes, instead of the user's size or number of groups.
    pub agsize: Option<u64>,
    /// `-d noalign`.
    pub no_align: bool,
}

impl AgSizeOptions {
    /// An agsize in bytes.
    pub fn with(agsize: u64) -> Self {
        Self { agsize: Some(agsize), no_align: false }
    }
}

/// A size of the allocation groups, and the resulting skews.
#[derive(Clone, Debug)]
pub struct AgSizeCandidate {
    /// The options that are added; none for the user's options.
    pub options: AgSizeOptions,
    /// Cost of files that are not aligned to stripes, unless the user's options have it.
    cost: f64,
    /// Skews on this array.
    pub skews: Skews,
    /// Number of groups.
    pub count: u32,
    /// Sectors of a group.
    pub sectors: u64,
    pub fs: FsMetadata,
}

/// Plans a filesystem with these options in addition to the user's.
pub type PlanAgSize<'a> = dyn Fn(AgSizeOptions) -> Result<FsMetadata, String> + 'a;

/// The candidates, the best first, and the index of the one with the user's options. Sizes that
/// mkfs.xfs refuses are left out.
///
/// # Errors
/// If mkfs.xfs would refuse the user's options.
pub fn compare(
    target: &Target,
    plan: &PlanAgSize<'_>,
) -> Result<(Vec<AgSizeCandidate>, usize), String> {
    let base = candidate(target, AgSizeOptions::default(), plan)?;
    let chunk = target.array.geometry.chunk_sectors().unwrap_or(1);
    let own = base.sectors / chunk;
    let mut sizes: Vec<u64> = (0..=NEIGHBOURS)
        .filter_map(|less| own.checked_sub(less))
        .map(|chunks| chunks * chunk)
        .collect();
    sizes.extend(suggested(target, &base.fs).map(|best| best.sectors));
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = vec![base];
    for sectors in sizes.into_iter().rev() {
        if sectors > 0 && sectors != all[0].sectors {
            all.extend(candidate(target, AgSizeOptions::with(sectors * 512), plan).ok());
        }
    }
    if all[0].fs.stride > 0 {
        let no_align = AgSizeOptions { agsize: None, no_align: true };
        all.extend(candidate(target, no_align, plan).ok());
    }
    // The first of equals is the largest.
    Ok(ranked(all, score))
}

/// True if a skew is so much lower that it is named as the reason for another agsize.
pub fn much_better(from: Option<f64>, to: Option<f64>) -> bool {
    matches!((from, to), (Some(from), Some(to)) if from - to > 0.1)
}

/// Index of the recommended candidate: the user's options, unless another candidate is much better.
pub fn recommended(all: &[AgSizeCandidate], base: usize) -> usize {
    let gain = score(&all[base]) - score(&all[0]);
    let (from, to) = (&all[base].skews, &all[0].skews);
    let much = much_better(from.allocation, to.allocation) || much_better(from.inodes, to.inodes);
    if gain >= MIN_GAIN && much { 0 } else { base }
}

/// Skews above an even layout, weighted like those of ext4, in steps of 0.05: smaller differences
/// are not significant.
fn score(candidate: &AgSizeCandidate) -> f64 {
    let above = |skew: Option<f64>| skew.map_or(0.0, |s| (s - 1.0).max(0.0));
    let Skews { allocation, alone, inodes } = candidate.skews;
    let sum = above(allocation).max(above(alone)) + 0.7 * above(inodes) + candidate.cost;
    (sum * 20.0).round() / 20.0
}

fn candidate(
    target: &Target,
    options: AgSizeOptions,
    plan: &PlanAgSize<'_>,
) -> Result<AgSizeCandidate, String> {
    let fs = plan(options)?;
    let groups = fs.allocation_groups().ok_or("the planned filesystem has no allocation groups")?;
    let has_parity = target.array.geometry.level().parities() > 0;
    Ok(AgSizeCandidate {
        options,
        cost: match (options.no_align, has_parity) {
            (false, _) => 0.0,
            (true, false) => UNALIGNED,
            (true, true) => UNALIGNED_PARITY,
        },
        skews: Skews::new(&fs, &target.array.geometry, &target.segments),
        count: groups.count,
        sectors: groups.sectors,
        fs,
    })
}

/// The agsize in sectors for which the groups of a filesystem start on all members most equally.
fn suggested(target: &Target, fs: &FsMetadata) -> Option<AgSize> {
    let groups = fs.allocation_groups()?;
    let total = fs.blocks.saturating_mul(fs.block_sectors());
    let geometry = &target.array.geometry;
    best(geometry, &target.segments, groups.sectors, total)
}

/// For advice: the agsize in bytes to use instead of that of `fs`, and its skew; `None` if it would
/// not be even.
pub fn remedy(target: &Target, fs: &FsMetadata) -> Option<(u64, f64)> {
    let best = suggested(target, fs).filter(AgSize::is_even)?;
    Some((best.sectors * 512, best.skew))
}
