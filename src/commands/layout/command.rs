//! `raidtrace layout`: prints a report as text, JSON or SVG, and sets the exit status.

use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args as _;
use clap::error::ErrorKind;

use super::args::{LayoutArgs, PlannedFs};
use super::comparison::{self, CandidateComparison};
use super::found::{SearchResults, check_striped};
use super::table::{self, print};
use super::{json, load, picture, xfs};
use crate::analysis::placement::filesystem::FsMetadata;
use crate::analysis::placement::report::PlacementReport;
use crate::analysis::placement::search::Search;
use crate::analysis::placement::target::Target;
use crate::analysis::placement::{grow, words};
use crate::analysis::units;
use crate::machine::output::Destination;
use crate::mke2fs::{Conf, plan};
use crate::raid::Geometry;
use crate::ui::text;

/// Exit status of `--check` if the skew is above `--max-skew`.
const TOO_UNEVEN: u8 = 3;

/// Runs `layout`.
///
/// # Errors
/// There is no layout, or the output cannot be written.
pub fn run(args: &LayoutArgs) -> Result<ExitCode> {
    if let Some(path) = &args.load {
        return load::run(args, path).map(|()| ExitCode::SUCCESS);
    }
    if (args.mke2fs.is_any() || args.mkfs.is_some()) && args.plan.is_none() && !args.search {
        usage("options of mkfs require --plan, --load or --search");
    }
    if args.fs == PlannedFs::Xfs && args.plan.is_none() {
        usage("--fs requires --plan: an existing filesystem is recognised");
    }
    let conf = Conf::from_machine();
    let mut targets = match (&args.target, args.plan) {
        (Some(name), _) => Target::find(name, &args.array)?,
        (None, bytes) => vec![match args.fs {
            PlannedFs::Ext4 => planned(args, bytes.unwrap_or(0), &conf)?,
            PlannedFs::Xfs => xfs::planned(args, bytes.unwrap_or(0))?,
        }],
    };
    if targets.len() > 1 {
        return on_several(args, targets);
    }
    let target = targets.swap_remove(0);
    let is_xfs = target.fs.allocation_groups().is_some();
    if is_xfs && args.mke2fs.is_any() {
        usage("this is an XFS, and mke2fs makes none: pass options of mkfs.xfs with --mkfs");
    }
    if !is_xfs && args.mkfs.is_some() {
        usage(
            "--mkfs is for options of mkfs.xfs, and this is no XFS (for a plan add --fs xfs); \
             options of mke2fs need no --mkfs",
        );
    }
    let grown = match args.grow_to {
        Some(disks) => Some(grow::array(&target, disks).map_err(|e| anyhow!(e))?),
        None => None,
    };
    if args.search {
        check_striped(&target.array.geometry)?;
        let found = match is_xfs {
            true => xfs::compare(args, &target, grown.as_ref())?,
            false => compare(args, &target, grown.as_ref(), &conf)?,
        };
        print(args, || found.lines(), || found.object())?;
        return Ok(check(args, found.worst()));
    }
    let mut report = PlacementReport::new(target);
    if report.uneven {
        report.advice = Some(match is_xfs {
            true => xfs::remedy(args, &report.target),
            false => remedy(args, &report.target, &conf),
        });
    }
    if let Some(grown) = &grown {
        let skews = match args.plan {
            Some(_) if is_xfs => grow::planned_xfs(&report.target, &report.target.fs, grown),
            Some(bytes) => grow::planned(&report.target, grown, bytes, &args.mke2fs, &conf),
            None => Ok(grow::existing(&report.target, grown)),
        };
        report.grown = Some((grown.disks(), skews.map_err(|e| anyhow!(e))?));
    }
    if let Some(path) = &args.svg {
        let svg = Destination::beside_stdout(path, args.force)?;
        let picture = picture::draw(&report);
        svg.open()
            .and_then(|svg| svg.write(|out| out.write_all(picture.as_bytes())))
            .with_context(|| {
                format!("{} cannot be written", text::clean(&path.display().to_string()))
            })?;
    }
    print(args, || table::lines(&report, args.all), || json::object(&report))?;
    Ok(check(args, report.skews.worst()))
}

/// A filesystem on several arrays: what is on each of them.
fn on_several(args: &LayoutArgs, targets: Vec<Target>) -> Result<ExitCode> {
    if args.search || args.grow_to.is_some() || args.svg.is_some() {
        let names = targets.iter().filter_map(|target| target.array.name.as_deref());
        bail!(
            "the filesystem is on several arrays, and --search, --grow-to and --svg work on one: \
             name it ({})",
            names.collect::<Vec<_>>().join(", ")
        );
    }
    let mut worst: f64 = 1.0;
    for (i, target) in targets.into_iter().enumerate() {
        let report = PlacementReport::new(target);
        let mut lines = table::lines(&report, args.all);
        if i > 0 {
            lines.insert(0, String::new());
        }
        print(args, || lines, || json::object(&report))?;
        worst = worst.max(report.skews.worst());
    }
    Ok(check(args, worst))
}

/// Advice for an uneven layout.
fn remedy(args: &LayoutArgs, target: &Target, conf: &Conf) -> String {
    let mut base = args.mke2fs.clone();
    (base.group, base.flex) = (None, None);
    if args.plan.is_none() && target.fs.block_size != 4096 {
        base.block_size = Some(target.fs.block_size.into());
    }
    let bytes = args.plan.unwrap_or(target.fs.bytes());
    let found = Search::on(target, bytes, &base, conf).remedy();
    words::remedy(target, args.plan.is_none(), found.as_ref())
}

/// `--search` for ext2, ext3 and ext4.
fn compare<'a>(
    args: &LayoutArgs,
    target: &'a Target,
    grown: Option<&Geometry>,
    conf: &Conf,
) -> Result<SearchResults<'a>> {
    let bytes = args.plan.unwrap_or(target.fs.bytes());
    let search = Search::on(target, bytes, &args.mke2fs, conf);
    let (all, base) = search.run().map_err(|e| anyhow!(e))?;
    let grown = grown.map(|grown| {
        let rows = comparison::shown(&all, base).into_iter();
        let skews: Result<Vec<_>, String> =
            rows.map(|i| grow::planned(target, grown, bytes, &all[i].options, conf)).collect();
        skews.map(|skews| (grown.disks(), skews))
    });
    let comparison = CandidateComparison {
        target,
        all: &all,
        base,
        counted: search.partial_note(),
        grown: grown.transpose().map_err(|e| anyhow!(e))?,
    };
    Ok(comparison.found())
}

/// Exits with a usage error, like clap.
fn usage(message: &str) -> ! {
    let mut command = LayoutArgs::augment_args(clap::Command::new("raidtrace layout"));
    command.error(ErrorKind::ArgumentConflict, message).exit()
}

/// The target of --plan.
fn planned(args: &LayoutArgs, bytes: u64, conf: &Conf) -> Result<Target> {
    let geometry = args.array.geometry().map_err(|e| anyhow!(e))?;
    let chunk = geometry.chunk_sectors().unwrap_or(0) * 512;
    let layout = plan(bytes, chunk, &args.mke2fs, conf).map_err(|e| anyhow!(e))?;
    let kind = args.mke2fs.fs_type.as_deref().unwrap_or("ext4");
    let mut options = args.mke2fs.clone();
    options.fs_type = None;
    let name = format!("mkfs.{kind} {}", options.words());
    let mut target = Target::on_array(name.trim_end(), FsMetadata::new(layout), &args.array)?;
    target.notes.push(format!("planned with {}", conf.source));
    Ok(target)
}

fn check(args: &LayoutArgs, worst: f64) -> ExitCode {
    if !args.check || worst <= args.max_skew {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "raidtrace: the skew is {worst:.2} ({}), above --max-skew {}",
        units::factor(Some(worst)),
        args.max_skew
    );
    ExitCode::from(TOO_UNEVEN)
}
