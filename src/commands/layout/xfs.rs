//! XFS: plans with the rules of mkfs.xfs, advice, and `--search`.

use anyhow::{Result, anyhow};

use super::args::LayoutArgs;
use super::found::{CandidateFigures, CandidateRow, SearchResults, factor};
use crate::analysis::placement::filesystem::FsMetadata;
use crate::analysis::placement::geometry::data_disks;
use crate::analysis::placement::search::agsizes::{
    AgSizeCandidate, AgSizeOptions, compare as compare_sizes, recommended, remedy as suggested,
};
use crate::analysis::placement::target::Target;
use crate::analysis::placement::{Skews, grow, report, words};
use crate::fs::xfs;
use crate::machine::mkfs_xfs::{self, MkfsDevice, XfsOptions};
use crate::raid::Geometry;

/// Sectors of a disk for which a filesystem is planned.
pub const PHYSICAL_SECTOR: u32 = 4096;

/// The options of `--mkfs`.
pub fn options(args: &LayoutArgs) -> Result<XfsOptions> {
    XfsOptions::parse(args.mkfs.as_deref().unwrap_or("")).map_err(|e| anyhow!("--mkfs: {e}"))
}

/// Limits of a plan.
fn note() -> String {
    match mkfs_xfs::release() {
        Some(release) => format!(
            "planned by this machine's mkfs.xfs {release}, for rotational disks with physical \
             sectors of 4 KiB. From 6.8 on, mkfs.xfs chooses agsize on other disks by the number \
             of CPUs: plan it with --mkfs '-d concurrency=CPUS'"
        ),
        None => "no mkfs.xfs on this machine: only the groups follow from -d agsize; the log and \
                 features are assumed"
            .to_owned(),
    }
}

/// Plans of mkfs.xfs for one array.
struct Planner {
    device: MkfsDevice,
    options: XfsOptions,
}

impl Planner {
    fn new(args: &LayoutArgs, geometry: &Geometry, layout: u32, bytes: u64) -> Result<Self> {
        Ok(Self {
            device: MkfsDevice {
                bytes,
                chunk: geometry.chunk_sectors().unwrap_or(0) * 512,
                disks: data_disks(geometry.level(), geometry.disks(), layout),
                sector: PHYSICAL_SECTOR,
            },
            options: options(args)?,
        })
    }

    /// The filesystem with the user's options and those of a choice.
    fn plan(&self, choice: AgSizeOptions) -> Result<FsMetadata, String> {
        let geometry = self.options.with(choice.agsize, choice.no_align).plan(self.device)?;
        Ok(FsMetadata::from_xfs(xfs::XfsLayout::from_geometry(geometry)))
    }

    /// The options of [`Planner::plan`].
    fn words(&self, choice: AgSizeOptions) -> String {
        self.options.with(choice.agsize, choice.no_align).words()
    }
}

/// The target of --plan with --fs xfs.
pub fn planned(args: &LayoutArgs, bytes: u64) -> Result<Target> {
    let geometry = args.array.geometry().map_err(|e| anyhow!(e))?;
    let layout = args.array.layout_number().unwrap_or(0);
    let planner = Planner::new(args, &geometry, layout, bytes)?;
    let fs = planner.plan(AgSizeOptions::default()).map_err(|e| anyhow!(e))?;
    let name = format!("mkfs.xfs {}", planner.options.words());
    let mut target = Target::on_array(name.trim_end(), fs, &args.array)?;
    target.notes.push(note());
    Ok(target)
}

fn planner(args: &LayoutArgs, target: &Target) -> Result<Planner> {
    let layout = target.array.options.layout_number().unwrap_or(0);
    let bytes = args.plan.unwrap_or(target.fs.bytes());
    let mut planner = Planner::new(args, &target.array.geometry, layout, bytes)?;
    planner.options = options_for(args, target)?;
    Ok(planner)
}

/// The options of `--mkfs`, with the block size of a filesystem that exists.
fn options_for(args: &LayoutArgs, target: &Target) -> Result<XfsOptions> {
    let mut options = options(args)?;
    let is_other = args.plan.is_none() && target.fs.block_size != 4096;
    if is_other && !options.has('b', "size") {
        options.add('b', format!("size={}", target.fs.block_size));
    }
    Ok(options)
}

/// Advice for an uneven layout: the agsize to use.
pub fn remedy(args: &LayoutArgs, target: &Target) -> String {
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
    args: &LayoutArgs,
    target: &'a Target,
    grown: Option<&Geometry>,
) -> Result<SearchResults<'a>> {
    let planner = planner(args, target)?;
    let plan = |choice| planner.plan(choice);
    let (all, base) = compare_sizes(target, &plan).map_err(|e| anyhow!(e))?;
    let chunk = target.array.geometry.chunk_sectors().unwrap_or(1);
    let row = |c: &AgSizeCandidate| -> Result<CandidateRow> {
        let skews = grown.map(|grown| grow::planned_xfs(target, &c.fs, grown));
        Ok(CandidateRow {
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
            figures: CandidateFigures::Xfs {
                allocation_groups: c.count.into(),
                agsize_bytes: c.sectors * 512,
            },
        })
    };
    Ok(SearchResults {
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
