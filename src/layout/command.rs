//! `raidtrace layout`: what was typed -> a report -> text, JSON, a picture, and an exit status.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use super::report::Report;
use super::target::Target;
use super::{json, picture, table};
use crate::cli::Layout;
use crate::model::units;
use crate::top::text;

/// With `--check`: the skew is above what was allowed.
const TOO_UNEVEN: u8 = 3;

/// Prints what was asked for.
///
/// # Errors
/// Where there is no layout to be had, or nowhere to write it.
pub fn run(args: &Layout) -> Result<ExitCode> {
    let target = args.target.as_deref().unwrap_or("-");
    let report = Report::new(Target::find(target, &args.array)?);
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
