//! `layout --search`: options of mke2fs compared for one array, by computing what each would make. No rule of thumb: skews and
//! costs are of this level, number of disks, chunk and offset.
//!
//! * `candidates`: what is compared.
//! * `weigh`: skews against costs.
//! * `show`: the comparison as text and JSON.

mod candidates;
pub mod show;
mod weigh;

use super::filesystem::Filesystem;
use super::plan::{Conf, Options, plan};
use super::spread::Skews;
use super::target::Target;
use crate::host::Segment;
use crate::raid::{Geometry, Level};
use candidates::candidates;
pub use weigh::Costs;

/// Larger filesystems are compared as if they were so large: what happens at the start has no more weight by then.
const LARGEST: u64 = 64 << 40;

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

    fn planned(&self, options: &Options) -> Result<Filesystem, String> {
        let bytes = self.bytes.min(LARGEST);
        plan(bytes, self.chunk(), options, self.conf).map(Filesystem::of)
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
        // Only where tables lie unevenly on chunks that are shorter than they are.
        let longer = longer(&first).filter(|_| self.chunk() < 256 << 10);
        let block = first.block_size.into();
        let all = candidates(self.base, block, self.chunk(), clusters, longer);
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

    /// Those of `part` that mke2fs would make.
    fn some(&self, part: &[Options], base: &Costs) -> Vec<Candidate> {
        let one = |options| {
            let fs = self.planned(options).ok()?;
            Some(self.candidate(options, &fs, Some(base)))
        };
        part.iter().filter_map(one).collect()
    }

    /// The first of the usual remedies that is even, for a hint; `None` when none is.
    pub fn remedy(&self) -> Option<Candidate> {
        let first = self.planned(self.base).ok()?;
        let base = self.candidate(self.base, &first, None);
        let block = u64::from(first.block_size);
        let group = (self.base.group.is_none() && first.groups?.blocks == block as u32 * 8)
            .then(|| candidates(self.base, block, self.chunk(), false, None))?
            .iter()
            .find_map(|o| o.group)?;
        let flex = (self.chunk() / block / 8).clamp(2, 1024) as u32;
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

/// The bytes an inode (`-i`) that make inode tables a block longer.
fn longer(fs: &Filesystem) -> Option<u64> {
    let groups = fs.groups?;
    let per_group = fs.inodes / u64::from(groups.count.max(1));
    let per_block = per_group / u64::from(groups.table_blocks.max(1));
    let bytes = u64::from(groups.blocks) * u64::from(fs.block_size);
    // Half a block more, which mke2fs fills up.
    let ratio = bytes / (per_group + per_block / 2).max(1);
    (per_block > 1 && ratio >= 1024).then_some(ratio)
}

#[cfg(test)]
mod tests;
