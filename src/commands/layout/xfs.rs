//! XFS: plans with the rules of mkfs.xfs, advice, and `--search`.

use std::io::{self, Write as _};

use anyhow::{Result, anyhow};

use super::agsizes::AgSizes;
use super::args::Layout;
use crate::analysis::placement::filesystem::Filesystem;
use crate::analysis::placement::geometry::data_disks;
use crate::analysis::placement::search::agsizes::{compare as compare_sizes, remedy as suggested};
use crate::analysis::placement::target::Target;
use crate::analysis::placement::{Skews, grow, words};
use crate::fs::xfs;
use crate::mkfs_xfs::{self, Defaults, Options, Version};
use crate::raid::Geometry;

/// Limits of a plan. All releases choose the same agsize for rotational disks.
const NOTE: &str = "planned for rotational disks with physical sectors of 4 KiB, and xfsprogs 6.18 or later. On other disks mkfs.xfs 6.8 and \
    later chooses agsize by the number of CPUs: plan it with --mkfs '-d concurrency=CPUS'";

/// Plans of mkfs.xfs for one array.
struct Planner {
    bytes: u64,
    /// Chunk in bytes; 0 without chunks.
    chunk: u64,
    /// Chunks of data in a stripe.
    disks: u32,
    options: Options,
    defaults: Defaults,
}

impl Planner {
    fn new(args: &Layout, geometry: &Geometry, layout: u32, bytes: u64) -> Result<Self> {
        let options = Options::parse(args.mkfs.as_deref().unwrap_or(""));
        Ok(Self {
            bytes,
            chunk: geometry.chunk_sectors().unwrap_or(0) * 512,
            disks: data_disks(geometry.level(), geometry.disks(), layout),
            options: options.map_err(|e| anyhow!("--mkfs: {e}"))?,
            defaults: Defaults {
                version: Version::V7_2,
                cpus: 1,
                rotational: true,
                physical_sector: 4096,
            },
        })
    }

    /// The user's options; with an agsize in bytes instead of their size or number of groups, if it is given.
    fn options_with(&self, agsize: Option<u64>) -> Options {
        let mut options = self.options.clone();
        if agsize.is_some() {
            options.agsize = agsize;
            (options.agcount, options.data_concurrency) = (None, None);
        }
        options
    }

    /// The filesystem of [`Planner::options_with`].
    fn plan(&self, agsize: Option<u64>) -> Result<Filesystem, String> {
        let options = self.options_with(agsize);
        let geometry =
            mkfs_xfs::plan(self.bytes, self.chunk, self.disks, &options, &self.defaults)?;
        Ok(Filesystem::from_xfs(xfs::Layout::from_geometry(geometry)))
    }

    /// The options of [`Planner::plan`].
    fn words(&self, agsize: Option<u64>) -> String {
        self.options_with(agsize).words()
    }
}

/// The target of --plan with --fs xfs.
pub fn planned(args: &Layout, bytes: u64) -> Result<Target> {
    let geometry = args.array.geometry().map_err(|e| anyhow!(e))?;
    let layout = args.array.layout_number().unwrap_or(0);
    let planner = Planner::new(args, &geometry, layout, bytes)?;
    let fs = planner.plan(None).map_err(|e| anyhow!(e))?;
    let name = format!("mkfs.xfs {}", planner.options.words());
    let mut target = Target::on_array(name.trim_end(), fs, &args.array)?;
    target.notes.push(NOTE.to_owned());
    Ok(target)
}

fn planner(args: &Layout, target: &Target) -> Result<Planner> {
    let layout = target.array.options.layout_number().unwrap_or(0);
    let bytes = args.plan.unwrap_or(target.fs.bytes());
    let mut planner = Planner::new(args, &target.array.geometry, layout, bytes)?;
    if args.plan.is_none() && target.fs.block_size != 4096 {
        let own = planner.options.block_size;
        planner.options.block_size = own.or(Some(target.fs.block_size));
    }
    Ok(planner)
}

/// Advice for an uneven layout: the agsize to use.
pub fn remedy(args: &Layout, target: &Target) -> String {
    let exists = args.plan.is_none();
    let found = suggested(target, &target.fs).and_then(|(bytes, skew)| {
        let planner = planner(args, target).ok()?;
        let words = planner.words(Some(bytes));
        if exists {
            return Some((words, skew));
        }
        let fs = planner.plan(Some(bytes)).ok()?;
        let skews = Skews::new(&fs, &target.array.geometry, &target.segments);
        Some((words, skews.worst()))
    });
    let found = found.map(|(options, skew)| (format!("mkfs.xfs {options}"), skew));
    words::xfs_remedy(
        target,
        exists,
        found.as_ref().map(|(c, s)| (c.as_str(), *s)),
    )
}

/// Calls `show` with the sizes of allocation groups to compare.
pub(super) fn with_sizes<T>(
    args: &Layout,
    target: &Target,
    grown: Option<&Geometry>,
    show: impl FnOnce(&AgSizes<'_>) -> T,
) -> Result<T> {
    let planner = planner(args, target)?;
    let plan = |agsize| planner.plan(agsize);
    let (all, base) = compare_sizes(target, &plan).map_err(|e| anyhow!(e))?;
    let grown = grown.map(|grown| {
        let skews = all.iter().map(|c| grow::planned_xfs(target, &c.fs, grown));
        (grown.disks(), skews.collect())
    });
    Ok(show(&AgSizes {
        target,
        all: &all,
        base,
        words: &|agsize| planner.words(agsize),
        grown,
    }))
}

/// `--search`. Returns the result of writing, and the skew that `--check` compares.
pub fn compare(
    args: &Layout,
    target: &Target,
    grown: Option<&Geometry>,
) -> Result<(io::Result<()>, f64)> {
    with_sizes(args, target, grown, |found| {
        let mut out = io::stdout().lock();
        let written = if args.json {
            writeln!(out, "{}", found.object())
        } else {
            found.write(&mut out)
        };
        (written, found.worst())
    })
}
