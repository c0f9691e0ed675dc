//! `layout --search`: options of mke2fs compared for one array, by computing what each would make. No rule of thumb: skews and
//! costs are of this level, number of disks, chunk and offset.
//!
//! * `candidates`: what is compared.
//! * `weigh`: skews against costs.
//! * `show`: the comparison as text and JSON.

mod candidates;
mod weigh;

use super::filesystem::Filesystem;
use super::spread::Skews;
use super::target::Target;
use super::words::STANDS_OUT;
use crate::machine::Segment;
use crate::mke2fs::{Conf, Options, plan, plan_first};
use crate::raid::{Geometry, Level};
use candidates::candidates;
pub use weigh::Costs;

/// Of a filesystem larger than so many bytes only the first [`COUNTED`] are counted. Flex groups repeat: what lies behind adds
/// nothing but time to the comparison of many options.
const LARGE: u64 = 64 << 40;
const COUNTED: u64 = 16 << 40;

/// Bytes that one flex group may have, unless mke2fs makes it as large by itself: 64 groups of 128 MiB. All inodes and
/// directories of a flex group begin in its first group and all larger files in its second (`ext4_inode_to_goal_block`), so
/// more means longer seeks from metadata to data and longer searches for free blocks (see docs/layout.md).
const LARGEST_FLEX: u64 = 8 << 30;

/// What to make, and on what.
pub struct Search<'a> {
    /// Bytes of the filesystem.
    pub bytes: u64,
    /// What was typed; part of every candidate.
    pub base: &'a Options,
    /// mke2fs.conf.
    pub conf: &'a Conf,
    /// The array.
    pub geometry: &'a Geometry,
    /// Where the filesystem lies on it.
    pub segments: &'a [Segment],
    /// Whether writing less than a stripe costs reads.
    pub parity: bool,
}

/// Options with what they would make.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// As for mke2fs.
    pub options: Options,
    /// On this array.
    pub skews: Skews,
    /// What they cost.
    pub costs: Costs,
}

impl<'a> Search<'a> {
    /// For a filesystem of so many bytes in the place of the target's.
    pub fn on(target: &'a Target, bytes: u64, base: &'a Options, conf: &'a Conf) -> Self {
        let geometry = &target.array.geometry;
        Self {
            bytes,
            base,
            conf,
            geometry,
            segments: &target.segments,
            parity: matches!(geometry.level(), Level::Raid4 | Level::Raid5 | Level::Raid6),
        }
    }

    fn chunk(&self) -> u64 {
        self.geometry.chunk_sectors().unwrap_or(0) * 512
    }

    /// One line on what the skews leave out; `None` where nothing is left out.
    pub fn counted(&self) -> Option<&'static str> {
        (self.bytes > LARGE).then_some(
            "skews are those of its first 16 TiB, which repeat; all else is of the whole",
        )
    }

    fn planned(&self, options: &Options) -> Result<Filesystem, String> {
        if self.bytes <= LARGE {
            return plan(self.bytes, self.chunk(), options, self.conf).map(Filesystem::of);
        }
        let (whole, part) = plan_first(COUNTED, self.bytes, self.chunk(), options, self.conf)?;
        Ok(Filesystem::from_first_part(&whole, part))
    }

    fn candidate(&self, options: &Options, fs: &Filesystem, base: Option<&Costs>) -> Candidate {
        Candidate {
            options: options.clone(),
            skews: Skews::of(fs, self.geometry, self.segments),
            costs: Costs::of(fs, options, self, base),
        }
    }

    /// All candidates, the best first; the place of the one with nothing but what was typed is the second value.
    ///
    /// # Errors
    /// When mke2fs would refuse what was typed.
    pub fn run(&self) -> Result<(Vec<Candidate>, usize), String> {
        let first = self.planned(self.base)?;
        let clusters = self.base.features.iter().any(|f| f.contains("bigalloc"));
        let base = self.candidate(self.base, &first, None);
        let block = first.block_size.into();
        let all = candidates(self.base, block, self.chunk(), clusters);
        drop(first);
        let rest = &all[1..];
        let threads = std::thread::available_parallelism()
            .map_or(1, |n| n.get())
            .min(4);
        let share = rest.len().div_ceil(threads).max(1);
        let costs = &base.costs;
        let mut found: Vec<Candidate> = std::thread::scope(|scope| {
            let workers: Vec<_> = rest
                .chunks(share)
                .map(|part| scope.spawn(move || self.some(part, costs)))
                .collect();
            workers
                .into_iter()
                .flat_map(|w| w.join().unwrap_or_default())
                .collect()
        });
        found.insert(0, base);
        // Stable: of equals the one that was first.
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by(|&a, &b| found[a].score().total_cmp(&found[b].score()));
        let base = order.iter().position(|&i| i == 0).unwrap_or(0);
        let found = order.into_iter().map(|i| found[i].clone()).collect();
        Ok((found, base))
    }

    /// Candidates for those of `part` that mke2fs would make. Left out is what takes metadata far from its files without a
    /// result worth it: flex groups of more than [`LARGEST_FLEX`], and packed metadata that leaves a figure uneven.
    fn some(&self, part: &[Options], base: &Costs) -> Vec<Candidate> {
        let one = |options: &Options| {
            let fs = self.planned(options).ok()?;
            let found = self.candidate(options, &fs, Some(base));
            let packed = options.extended.len() > self.base.extended.len();
            let far = found.costs.together > LARGEST_FLEX.max(base.together);
            let uneven = found.skews.worst() >= STANDS_OUT;
            (!far && (!packed || !uneven)).then_some(found)
        };
        part.iter().filter_map(one).collect()
    }

    /// The first of the usual remedies that is even, for a hint; `None` when none is.
    pub fn remedy(&self) -> Option<Candidate> {
        let first = self.planned(self.base).ok()?;
        let base = self.candidate(self.base, &first, None);
        let block = u64::from(first.block_size);
        let group = (self.base.group.is_none() && first.groups?.blocks == block as u32 * 8)
            .then(|| candidates(self.base, block, self.chunk(), false))?
            .iter()
            .find_map(|o| o.group)?;
        let flex = (self.chunk() / block / 8).clamp(2, 64) as u32;
        let flexes = if flex == 16 {
            vec![None]
        } else {
            vec![None, Some(flex)]
        };
        flexes.into_iter().find_map(|flex| {
            let mut options = self.base.clone();
            options.group = Some(group);
            options.flex = flex.or(self.base.flex);
            let fs = self.planned(&options).ok()?;
            let found = self.candidate(&options, &fs, Some(&base.costs));
            (found.skews.worst() < 1.2).then_some(found)
        })
    }
}

#[cfg(test)]
mod tests;
