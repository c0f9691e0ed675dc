//! `layout --load`: the load of a recording, laid onto another array or other mkfs options.
//!
//! * `plan`: the planned array and filesystem. `pass`: reads the recording once. `output`: its
//!   figures.

mod output;
mod pass;
mod plan;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Result, anyhow, bail};

use super::args::LayoutArgs;
use super::table::print;
use crate::commands::layout::mkfs::MkfsOptions;
use crate::commands::layout::xfs;
use crate::mke2fs::Conf;
use crate::recording::described::Described;
use crate::recording::reader::{Reader, WantedColumns};
use crate::ui::text::clean;
use output::Findings;
use pass::LoadPass;
use plan::LoadPlan;

/// Runs `layout --load`.
///
/// # Errors
/// The recording cannot be laid out, or the output cannot be written.
pub fn run(args: &LayoutArgs, path: &Path) -> Result<()> {
    let reader = Reader::open(path, WantedColumns::Addresses)?;
    let path = path.display().to_string();
    let named = |why: String| anyhow!("{path}: {why}");
    let source = Described::choose(reader.header(), args.target.as_deref()).map_err(named)?;
    let (name, kind) = (&source.target.name, clean(&source.target.fs.kind));
    let options = match source.target.fs.allocation_groups() {
        Some(_) if args.mke2fs.is_any() => {
            bail!("{name} is an XFS, and mke2fs makes none: pass options of mkfs.xfs with --mkfs")
        }
        Some(_) => MkfsOptions::Xfs(xfs::options(args)?),
        None if args.mkfs.is_some() => bail!(
            "--mkfs is for options of mkfs.xfs, and {name} is {kind}; options of mke2fs need no \
             --mkfs"
        ),
        None => MkfsOptions::Ext4(args.mke2fs.clone()),
    };
    let conf = Conf::from_machine();
    let plan = LoadPlan::new(&source, &args.array, &options, &conf).map_err(|e| anyhow!(e))?;
    let today = source.side().map_err(named)?;
    let (pass, notes) = LoadPass::read(reader, &source, &today, &plan).map_err(named)?;
    let found = Findings { path, plan: &plan, pass: &pass, notes };
    print(args, || found.lines(), || found.object())
}
