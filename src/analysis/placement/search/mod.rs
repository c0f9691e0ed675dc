//! `layout --search`: compares options of mke2fs for one array by planning the filesystem with
//! each. Skews and costs are computed for the array's level, number of disks, chunk and offset.
//!
//! * `candidates`: options to compare.
//! * `weigh`: costs of options, and the score.
//! * `agsizes`: the same for XFS: sizes of its allocation groups.

pub mod agsizes;
mod candidates;
mod weigh;

use super::filesystem::FsMetadata;
use super::spread::{MIN_UNEVEN_SKEW, Skews};
use super::target::Target;
use crate::machine::Segment;
use crate::mke2fs::{Conf, Options, plan, plan_first};
use crate::raid::Geometry;
use candidates::candidates;
pub use weigh::Costs;

/// Size in bytes above which only the first [`PLANNED_BYTES`] bytes are planned. Flex groups
/// repeat, so the rest would only take time.
const MAX_WHOLE_BYTES: u64 = 64 << 40;
const PLANNED_BYTES: u64 = 16 << 40;

/// Maximum size of a flex group in bytes, unless the user's options alone make larger ones: 64
/// groups of 128 MiB. All inodes and directories of a flex group start in its first group and all
/// larger files in its second (`ext4_inode_to_goal_block()`), so that larger flex groups cause
/// longer seeks from metadata to data and longer searches for free blocks (see docs/layout.md).
const MAX_FLEX_BYTES: u64 = 8 << 30;

/// Worst skew below which [`Search::remedy`] recommends options: as even as allocation groups may
/// be, see `agsize::EVEN`.
const MAX_REMEDY_SKEW: f64 = 1.2;

/// Sorts candidates by score, the lowest first; the first of equals comes first. Also returns the
/// new index of the first one.
fn ranked<T>(all: Vec<T>, score: impl Fn(&T) -> f64) -> (Vec<T>, usize) {
    let mut all: Vec<(usize, T)> = all.into_iter().enumerate().collect();
    all.sort_by(|a, b| score(&a.1).total_cmp(&score(&b.1)));
    let base = all.iter().position(|(i, _)| *i == 0).unwrap_or(0);
    (all.into_iter().map(|(_, one)| one).collect(), base)
}

/// A search for options for one array.
pub struct Search<'a> {
    /// Size of the filesystem in bytes.
    pub bytes: u64,
    /// Options of the user, part of every candidate.
    pub base: &'a Options,
    /// mke2fs.conf.
    pub conf: &'a Conf,
    /// The array.
    pub geometry: &'a Geometry,
    /// Location of the filesystem on the array.
    pub segments: &'a [Segment],
    /// True if partial-stripe writes cost reads.
    pub parity: bool,
}

/// Options with the resulting skews and costs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Options of mke2fs.
    pub options: Options,
    /// Skews on this array.
    pub skews: Skews,
    pub costs: Costs,
}

impl<'a> Search<'a> {
    /// A search for a filesystem of `bytes` at the location of the target's filesystem.
    pub fn on(target: &'a Target, bytes: u64, base: &'a Options, conf: &'a Conf) -> Self {
        let geometry = &target.array.geometry;
        Self {
            bytes,
            base,
            conf,
            geometry,
            segments: &target.segments,
            parity: geometry.level().parities() > 0,
        }
    }

    fn chunk(&self) -> u64 {
        self.geometry.chunk_sectors().unwrap_or(0) * 512
    }

    /// A note if the skews do not cover the whole filesystem.
    pub fn partial_note(&self) -> Option<&'static str> {
        (self.bytes > MAX_WHOLE_BYTES).then_some(
            "skews are those of the first 16 TiB, as flex groups repeat; other figures are of the \
             whole filesystem",
        )
    }

    fn planned(&self, options: &Options) -> Result<FsMetadata, String> {
        if self.bytes <= MAX_WHOLE_BYTES {
            return plan(self.bytes, self.chunk(), options, self.conf).map(FsMetadata::new);
        }
        let (whole, part) =
            plan_first(PLANNED_BYTES, self.bytes, self.chunk(), options, self.conf)?;
        Ok(FsMetadata::from_first_part(&whole, part))
    }

    fn candidate(&self, options: &Options, fs: &FsMetadata, base: Option<&Costs>) -> Candidate {
        Candidate {
            options: options.clone(),
            skews: Skews::new(fs, self.geometry, self.segments),
            costs: Costs::new(fs, options, self, base),
        }
    }

    /// All candidates, the best first, and the index of the candidate with only the user's options.
    ///
    /// # Errors
    /// If mke2fs would refuse the user's options.
    pub fn run(&self) -> Result<(Vec<Candidate>, usize), String> {
        let first = self.planned(self.base)?;
        let clusters = self.base.features.iter().any(|f| f.contains("bigalloc"));
        let base = self.candidate(self.base, &first, None);
        let block = first.block_size.into();
        let all = candidates(self.base, block, self.chunk(), clusters);
        drop(first);
        let rest = &all[1..];
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(4);
        let share = rest.len().div_ceil(threads).max(1);
        let costs = &base.costs;
        let mut found: Vec<Candidate> = std::thread::scope(|scope| {
            let workers: Vec<_> = rest
                .chunks(share)
                .map(|part| scope.spawn(move || self.evaluate(part, costs)))
                .collect();
            workers.into_iter().flat_map(|w| w.join().unwrap_or_default()).collect()
        });
        found.insert(0, base);
        Ok(ranked(found, Candidate::score))
    }

    /// Candidates for the options that mke2fs accepts. Leaves out options that place metadata far
    /// from its files: flex groups over [`MAX_FLEX_BYTES`], and packed metadata that is still
    /// uneven.
    fn evaluate(&self, part: &[Options], base: &Costs) -> Vec<Candidate> {
        let one = |options: &Options| {
            let fs = self.planned(options).ok()?;
            let found = self.candidate(options, &fs, Some(base));
            let packed = options.extended.len() > self.base.extended.len();
            let far = found.costs.flex_bytes > MAX_FLEX_BYTES.max(base.flex_bytes);
            let uneven = found.skews.worst() >= MIN_UNEVEN_SKEW;
            (!far && (!packed || !uneven)).then_some(found)
        };
        part.iter().filter_map(one).collect()
    }

    /// The first candidate among a few common options whose worst skew is below
    /// [`MAX_REMEDY_SKEW`], for advice.
    pub fn remedy(&self) -> Option<Candidate> {
        let first = self.planned(self.base).ok()?;
        let base = self.candidate(self.base, &first, None);
        let block = u64::from(first.block_size);
        let group = (self.base.group.is_none() && first.block_groups()?.blocks == block as u32 * 8)
            .then(|| candidates(self.base, block, self.chunk(), false))?
            .iter()
            .find_map(|o| o.group)?;
        // A group has 8 times an odd number of blocks, so with this many the distance between flex
        // groups is an odd number of chunks.
        let flex = (self.chunk() / block / 8).clamp(2, 64) as u32;
        let flexes = if flex == 16 { vec![None] } else { vec![None, Some(flex)] };
        flexes.into_iter().find_map(|flex| {
            let mut options = self.base.clone();
            options.group = Some(group);
            options.flex = flex.or(self.base.flex);
            let fs = self.planned(&options).ok()?;
            let found = self.candidate(&options, &fs, Some(&base.costs));
            (found.skews.worst() < MAX_REMEDY_SKEW).then_some(found)
        })
    }
}

#[cfg(test)]
mod tests;
