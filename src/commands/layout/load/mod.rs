//! `layout --load`: the load of a recording, laid onto another array or other mkfs options.
//!
//! * `source`: array and filesystem of the recording. `plan`: the planned ones; `mkfs`: their
//!   options. `pass`: reads the recording once.
//! * `findings`: what the output says. `text`, `json`: write it. `search`: `--search --load`.

mod findings;
mod json;
mod mkfs;
mod pass;
mod plan;
mod search;
mod source;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

use anyhow::{Result, anyhow};

use super::args::Layout;
use super::table::print;
use crate::commands::layout::xfs;
use crate::mke2fs::Conf;
use crate::recording::reader::{Reader, Wanted};
use crate::ui::text::clean;
use findings::Findings;
use mkfs::Options;
use pass::Pass;
use plan::Plan;
use source::Source;

/// Runs `layout --load`.
///
/// # Errors
/// The recording cannot be laid out, or the output cannot be written.
pub fn run(args: &Layout, path: &Path) -> Result<()> {
    let reader = Reader::open(path, Wanted::Everything)?;
    let named = |why: String| anyhow!("{}: {why}", path.display());
    let source = Source::choose(reader.header(), args.target.as_deref()).map_err(named)?;
    let conf = Conf::from_machine();
    let options = options(args, &source)?;
    if args.search {
        let found = search::run(&args.array, path, reader, &source, &options, &conf)?;
        return print(args, || found.lines(), || found.object());
    }
    let plan = Plan::new(&source, &args.array, &options, &conf).map_err(|e| anyhow!(e))?;
    let mut pass = Pass::new(&source, std::slice::from_ref(&plan))?;
    let mut notes = pass.read(reader).map_err(named)?;
    notes.extend(plan.notes(&source));
    let (submissions, seconds) = (pass.submissions, pass.seconds());
    let laid = pass.finish();
    let found = Findings {
        path: path.display().to_string(),
        source: &source,
        plan,
        laid,
        submissions,
        seconds,
        notes,
    };
    print(args, || text::lines(&found), || json::object(&found))
}

/// The user's options for the mkfs of the recorded filesystem.
fn options(args: &Layout, source: &Source) -> Result<Options> {
    if source.xfs.is_some() {
        if args.mke2fs.is_any() {
            return Err(anyhow!(
                "{} is an XFS, and mke2fs makes none: pass options of mkfs.xfs with --mkfs",
                clean(&source.name)
            ));
        }
        return Ok(Options::Xfs(xfs::options(args)?));
    }
    if args.mkfs.is_some() {
        return Err(anyhow!(
            "--mkfs is for options of mkfs.xfs, and {} is {}; options of mke2fs need no --mkfs",
            clean(&source.name),
            clean(&source.fs.kind)
        ));
    }
    Ok(Options::Ext4(args.mke2fs.clone()))
}
