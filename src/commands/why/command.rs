//! Watches, or reads a recording, and prints the answer.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::answer;
use super::args::WhyArgs;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::verdict::Severity;
use crate::machine::Sys;
use crate::machine::privileges;
use crate::probe::DirtiedCounting;
use crate::recording::gather;
use crate::session::period;
use crate::session::sampler::Sampler;
use crate::ui::lines::{print_new, success_if_nobody_reads};

/// Status of slow and of stalled storage.
const SLOW: u8 = 3;
const STALLED: u8 = 4;

/// Prints the answer, which is the exit status, too.
pub fn run(args: &WhyArgs) -> Result<ExitCode> {
    let whole = match &args.replay {
        Some(file) => recorded(file, args)?,
        None => watch(args)?,
    };
    let mut out = io::stdout().lock();
    let written = if args.json {
        answer::write_json(&mut out, &whole, &args.targets)
    } else {
        answer::write(&mut out, &whole)
    };
    success_if_nobody_reads(written)?;
    Ok(match answer::severity(&whole) {
        Severity::None => ExitCode::SUCCESS,
        Severity::Slow => ExitCode::from(SLOW),
        Severity::Stalled => ExitCode::from(STALLED),
    })
}

/// The period of a recording as one interval.
fn recorded(file: &Path, args: &WhyArgs) -> Result<Snapshot> {
    let report = gather::gather(file, args.from.as_deref(), args.to.as_deref())?;
    if report.snapshot.arrays.iter().all(|a| a.verdict.is_none()) {
        bail!(
            "{}: the recording has no verdicts, because it was made by an older raidtrace or on \
             a kernel without statistics: see raidtrace report",
            file.display()
        );
    }
    // No all-clear for what was not read.
    if report.ending.is_cut() {
        let ending = report.ending.to_string();
        if answer::severity(&report.snapshot) == Severity::None {
            bail!("{}: nothing is slow in what can be read; {ending}", file.display());
        }
        print_new(&[ending], &mut HashSet::new());
    }
    Ok(report.snapshot)
}

/// Watches for the duration, or until a signal. Returns that time as one interval.
fn watch(args: &WhyArgs) -> Result<Snapshot> {
    if let Some(why) = privileges::missing_message("why") {
        bail!(why);
    }
    let targets = args.targets.clone();
    let start = move || Sampler::start(Sys::live(), &targets, true, DirtiedCounting::Counted);
    let mut printed = HashSet::new();
    period::watch(start, args.duration, |notes| print_new(notes, &mut printed))
}
