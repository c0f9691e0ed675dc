//! XFS: plans with the rules of mkfs.xfs, advice, and `--search`.

use std::process::Command;

use anyhow::{Result, anyhow};
use serde_json::json;

use super::args::Layout;
use super::found::{Found, Row, factor};
use crate::analysis::placement::filesystem::Filesystem;
use crate::analysis::placement::geometry::data_disks;
use crate::analysis::placement::search::agsizes::{
    AgSizeCandidate, AgSizeOptions, compare as compare_sizes, recommended, remedy as suggested,
};
use crate::analysis::placement::target::Target;
use crate::analysis::placement::{Skews, grow, report, words};
use crate::fs::xfs;
use crate::machine::programs;
use crate::mkfs_xfs::{self, Defaults, Options, Release, Version};
use crate::raid::Geometry;

/// A release whose rules plans follow without mkfs.xfs on this machine.
const NEWEST: (u32, u32) = (7, 2);

/// The release of this machine's mkfs.xfs.
fn installed() -> Option<Release> {
    let found = Command::new(programs::find("mkfs.xfs")?).arg("-V").output().ok()?;
    String::from_utf8_lossy(&found.stdout).into_owned().split_whitespace().last()?.parse().ok()
}

/// The release to plan for, and how it was chosen.
fn release(args: &Layout) -> Result<(Version, String)> {
    let found = args.mkfs_version.is_none().then(installed).flatten();
    let (release, source) = match (args.mkfs_version, found) {
        (Some(own), _) => (own, "--mkfs-version"),
        (None, Some(found)) => (found, "this machine's mkfs.xfs"),
        (None, None) => (Release(NEWEST.0, NEWEST.1), "no mkfs.xfs on this machine"),
    };
    let version = Version::from_release(release.0, release.1).ok_or_else(|| {
        anyhow!(
            "mkfs.xfs {release} ({source}): plans follow xfsprogs 6.0 and later; choose one with \
             --mkfs-version"
        )
    })?;
    Ok((version, format!("planned as by mkfs.xfs {release} ({source})")))
}

/// Properties of the device and the machine that mkfs.xfs takes defaults from.
pub fn defaults(args: &Layout) -> Result<Defaults> {
    Ok(Defaults {
        version: release(args)?.0,
        cpus: std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        rotational: true,
        physical_sector: 4096,
    })
}

/// The options of `--mkfs`.
pub fn options(args: &Layout) -> Result<Options> {
    Options::parse(args.mkfs.as_deref().unwrap_or("")).map_err(|e| anyhow!("--mkfs: {e}"))
}

/// Limits of a plan.
fn note(args: &Layout) -> Result<String> {
    let (version, release) = release(args)?;
    let others = if version >= Version::V6_13 {
        ". On other disks mkfs.xfs chooses agsize by the number of CPUs: plan it with --mkfs '-d \
         concurrency=CPUS'"
    } else {
        ""
    };
    Ok(format!("{release}, for rotational disks with physical sectors of 4 KiB{others}"))
}

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
        Ok(Self {
            bytes,
            chunk: geometry.chunk_sectors().unwrap_or(0) * 512,
            disks: data_disks(geometry.level(), geometry.disks(), layout),
            options: options(args)?,
            defaults: defaults(args)?,
        })
    }

    /// The filesystem with the user's options and those of a choice.
    fn plan(&self, choice: AgSizeOptions) -> Result<Filesystem, String> {
        let options = self.options.with(choice.agsize, choice.no_align);
        let geometry =
            mkfs_xfs::plan(self.bytes, self.chunk, self.disks, &options, &self.defaults)?;
        Ok(Filesystem::from_xfs(xfs::Layout::from_geometry(geometry)))
    }

    /// The options of [`Planner::plan`].
    fn words(&self, choice: AgSizeOptions) -> String {
        self.options.with(choice.agsize, choice.no_align).words()
    }
}

/// The target of --plan with --fs xfs.
pub fn planned(args: &Layout, bytes: u64) -> Result<Target> {
    let geometry = args.array.geometry().map_err(|e| anyhow!(e))?;
    let layout = args.array.layout_number().unwrap_or(0);
    let planner = Planner::new(args, &geometry, layout, bytes)?;
    let fs = planner.plan(AgSizeOptions::default()).map_err(|e| anyhow!(e))?;
    let name = format!("mkfs.xfs {}", planner.options.words());
    let mut target = Target::on_array(name.trim_end(), fs, &args.array)?;
    target.notes.push(note(args)?);
    Ok(target)
}

fn planner(args: &Layout, target: &Target) -> Result<Planner> {
    let layout = target.array.options.layout_number().unwrap_or(0);
    let bytes = args.plan.unwrap_or(target.fs.bytes());
    let mut planner = Planner::new(args, &target.array.geometry, layout, bytes)?;
    planner.options = options_for(args, target)?;
    Ok(planner)
}

/// The options of `--mkfs`, with the block size of a filesystem that exists.
fn options_for(args: &Layout, target: &Target) -> Result<Options> {
    let mut options = options(args)?;
    if args.plan.is_none() && target.fs.block_size != 4096 {
        options.block_size = options.block_size.or(Some(target.fs.block_size));
    }
    Ok(options)
}

/// Advice for an uneven layout: the agsize to use.
pub fn remedy(args: &Layout, target: &Target) -> String {
    let exists = args.plan.is_none();
    let found = suggested(target, &target.fs).and_then(|(bytes, skew)| {
        let choice = AgSizeOptions::with(bytes);
        let options = options_for(args, target).ok()?;
        let words = options.with(choice.agsize, choice.no_align).words();
        let warning = words::xfs_warning(&target.fs, bytes);
        if exists {
            return Some((words, skew, warning));
        }
        let planner = planner(args, target).ok()?;
        let fs = planner.plan(choice).ok()?;
        let skews = Skews::new(&fs, &target.array.geometry, &target.segments);
        Some((words, skews.worst(), warning))
    });
    let warning = found.as_ref().map_or("", |found| found.2);
    let found = found.map(|(options, skew, _)| (format!("mkfs.xfs {options}"), skew));
    let remedy = words::xfs_remedy(target, exists, found.as_ref().map(|(c, s)| (c.as_str(), *s)));
    format!("{remedy}{warning}")
}

/// `--search`: sizes of the allocation groups.
pub fn compare<'a>(
    args: &Layout,
    target: &'a Target,
    grown: Option<&Geometry>,
) -> Result<Found<'a>> {
    let planner = planner(args, target)?;
    let plan = |choice| planner.plan(choice);
    let (all, base) = compare_sizes(target, &plan).map_err(|e| anyhow!(e))?;
    let chunk = target.array.geometry.chunk_sectors().unwrap_or(1);
    let row = |c: &AgSizeCandidate| -> Result<Row> {
        let skews = grown.map(|grown| grow::planned_xfs(target, &c.fs, grown));
        Ok(Row {
            options: planner.words(c.options),
            skews: c.skews,
            grown: skews.transpose().map_err(|e| anyhow!(e))?,
            cells: format!(
                "{:>8}{:>8}{:>8}{:>9}",
                factor(c.skews.allocation),
                factor(c.skews.inodes),
                c.count,
                c.sectors / chunk,
            ),
            costs: Vec::new(),
            figures: json!({"allocation_groups": c.count, "agsize_bytes": c.sectors * 512}),
        })
    };
    Ok(Found {
        target,
        program: "mkfs.xfs",
        columns: (36, " headers  inodes  groups   chunks"),
        rows: all.iter().map(row).collect::<Result<_>>()?,
        base,
        best: recommended(&all, base),
        none_better: "no agsize is better: try another number of disks or another chunk",
        grown: grown.map(|grown| (grown.disks(), "; agsize stays")),
        notes: report::notes(target).cloned().collect(),
    })
}
