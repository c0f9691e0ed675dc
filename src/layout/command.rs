//! `raidtrace layout`: what was typed -> a report -> text, JSON, a picture, and an exit status.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::filesystem::Filesystem;
use super::plan::{Conf, plan};
use super::report::Report;
use super::target::Target;
use super::{json, picture, table};
use crate::cli::{Cli, Layout};
use crate::model::units;
use crate::top::text;

/// With `--check`: the skew is above what was allowed.
const TOO_UNEVEN: u8 = 3;

/// Prints what was asked for.
///
/// # Errors
/// Where there is no layout to be had, or nowhere to write it.
pub fn run(args: &Layout) -> Result<ExitCode> {
    if args.mke2fs.is_any() && args.plan.is_none() {
        usage("options of mke2fs are for --plan: a filesystem that exists has its own");
    }
    let target = match (&args.target, args.plan) {
        (Some(name), _) => Target::find(name, &args.array)?,
        (None, bytes) => planned(args, bytes.unwrap_or(0))?,
    };
    let report = Report::new(target);
    if let Some(path) = &args.svg {
        write_file(path, &picture::draw(&report))?;
    }
    let mut out = io::stdout().lock();
    let written = if args.json {
        json::write(&mut out, &report)
    } else {
        table::write(&mut out, &report, args.all)
    };
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            return Err(e).context("writing the figures");
        }
        _ => {}
    }
    Ok(check(args, report.skews.worst()))
}

/// Ends as clap does.
fn usage(says: &str) -> ! {
    let mut command = Cli::command();
    command.error(ErrorKind::ArgumentConflict, says).exit()
}

/// A filesystem that does not exist.
fn planned(args: &Layout, bytes: u64) -> Result<Target> {
    let geometry = args.array.geometry().map_err(|e| anyhow!(e))?;
    let chunk = geometry.chunk_sectors().unwrap_or(0) * 512;
    let conf = Conf::of_this_machine();
    let layout = plan(bytes, chunk, &args.mke2fs, &conf).map_err(|e| anyhow!(e))?;
    let kind = args.mke2fs.fs_type.as_deref().unwrap_or("ext4");
    let mut typed = args.mke2fs.clone();
    typed.fs_type = None;
    let words = typed.words();
    let name = format!(
        "mkfs.{kind}{}{words}",
        if words.is_empty() { "" } else { " " }
    );
    let mut target = Target::of_typed(&name, Filesystem::of(layout), &args.array)?;
    target.notes.push(format!("planned with {}", conf.source));
    Ok(target)
}

fn check(args: &Layout, worst: f64) -> ExitCode {
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

fn write_file(path: &Path, content: &str) -> Result<()> {
    let name = text::clean(&path.display().to_string()).into_owned();
    let mut file = File::create(path).with_context(|| format!("{name} cannot be made"))?;
    file.write_all(content.as_bytes())
        .with_context(|| format!("{name} cannot be written"))
}
