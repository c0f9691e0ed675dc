//! `raidtrace record`: until a signal, `--duration`, `--max-size`, the command's end, or an error of the file.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Error, Result, bail};

use super::args::Record;
use super::child::{self, Running};
use super::output::Files;
use super::recorder::{Recorder, Summary};
use crate::analysis::units;
use crate::machine::Sys;
use crate::machine::signals::Signals;
use crate::ui::text;

/// Between two looks at the kernel's buffer.
const STEP: Duration = Duration::from_millis(20);
/// What comes so soon after the signal that ends it is no second wish.
const GRACE: Duration = Duration::from_millis(100);

/// Records; the status is that of the command, if one was given.
pub fn run(args: &Record) -> Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "raidtrace record needs root, to load its programs into the kernel and to read the \
             filesystem's layout: sudo raidtrace record"
        );
    }
    let mut files = Files::new(&args.output, args.force, args.rotate)?;
    child::find(&args.command)?;
    let signals = Signals::catch()?;
    let mut recorder = Recorder::start(
        Sys::live(),
        &args.targets,
        &args.command,
        args.buffer,
        &mut files,
    )?;
    let mut said = HashSet::new();
    say(
        &recorder.first_notes().cloned().collect::<Vec<_>>(),
        &mut said,
    );
    let _ = writeln!(
        io::stderr(),
        "raidtrace: recording {} to {}{}",
        text::clean(&recorder.subjects()),
        text::clean(&files.name()),
        if args.command.is_empty() && args.duration.is_none() {
            "; Ctrl-C ends it"
        } else {
            ""
        }
    );
    let mut child = None;
    let mut failed = None;
    match Running::start(&args.command, files.is_stdout(), &signals) {
        Ok(running) => child = running,
        Err(e) => failed = Some(e),
    }
    let mut status = None;
    let mut grace = Duration::ZERO;
    while failed.is_none() {
        if let Some(signal) = signals.wait(STEP) {
            match &mut child {
                // It ends the recording by ending.
                Some(_) if signal.from_terminal => {}
                Some(child) => child.signal(signal.number),
                None => {
                    grace = GRACE;
                    break;
                }
            }
        }
        match recorder.step(&mut files) {
            Ok(true) => say(&recorder.notes(), &mut said),
            Ok(false) => {}
            Err(e) => {
                failed = Some(e);
                break;
            }
        }
        if let Some(child) = &mut child
            && let Some(ended) = child.ended()?
        {
            status = Some(ended);
            grace = GRACE; // Ctrl-C, perhaps
            break;
        }
        let long_enough = args.duration.is_some_and(|d| recorder.elapsed() >= d);
        if long_enough || args.max_size.is_some_and(|most| recorder.bytes() >= most) {
            break;
        }
    }
    // The disk, or who reads the pipe, may take for ever.
    signals.release_after(grace);
    let (summary, ended) = recorder.finish(&mut files);
    signals.catch_again();
    let failed = failed.or(ended.err()).filter(|e| !nobody_reads(e));
    if failed.is_none() {
        let _ = report(&summary, &files.name());
    }
    // A command that outlasts the recording is not left alone.
    while let Some(child) = &mut child
        && status.is_none()
    {
        status = child.ended()?;
        if let Some(signal) = signals.wait(STEP)
            && !signal.from_terminal
        {
            child.signal(signal.number);
        }
    }
    match (failed, status) {
        (Some(error), _) => Err(explained(error, &summary, &files)),
        (None, Some(status)) => Ok(ExitCode::from(child::code(status))),
        (None, None) => Ok(ExitCode::SUCCESS),
    }
}

/// The reader of a pipe has had enough: no failure.
fn nobody_reads(error: &Error) -> bool {
    kind(error) == Some(io::ErrorKind::BrokenPipe)
}

fn kind(error: &Error) -> Option<io::ErrorKind> {
    error
        .chain()
        .find_map(|e| Some(e.downcast_ref::<io::Error>()?.kind()))
}

/// What is left of a recording that could not go on.
fn explained(error: Error, summary: &Summary, files: &Files) -> Error {
    let hint = match kind(&error) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            "; --max-size and --rotate keep a recording small"
        }
        _ => "",
    };
    error.context(format!(
        "recording ended after {:.1} s; what {} has until then ({}) is whole and can be read{hint}",
        summary.span.as_secs_f64(),
        files.name(),
        units::bytes(summary.written.bytes as f64),
    ))
}

/// Notes that are new.
fn say(notes: &[String], said: &mut HashSet<String>) {
    for note in notes {
        if said.insert(note.clone()) {
            let _ = writeln!(io::stderr(), "raidtrace: note: {}", text::clean(note));
        }
    }
}

fn report(s: &Summary, name: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let mib = s.written.bytes as f64 / f64::from(1 << 20);
    write!(
        err,
        "raidtrace: {}: {:.1} s, {} requests, {} submissions, {mib:.2} MiB",
        text::clean(name),
        s.span.as_secs_f64(),
        s.requests,
        s.submissions
    )?;
    match s.requests {
        0 => writeln!(err)?,
        n => writeln!(
            err,
            ", {:.1} bytes a request",
            s.written.bytes as f64 / n as f64
        )?,
    }
    let slow = (s.written.dropped, "the disk was too slow");
    let reasons = s.lost.reasons().into_iter().chain([slow]);
    let lost: Vec<String> = reasons
        .filter(|(n, _)| *n > 0)
        .map(|(n, why)| format!("{n} ({why})"))
        .collect();
    if lost.is_empty() {
        writeln!(err, "raidtrace: nothing was lost")?;
    } else {
        let hint = if s.lost.ring > 0 {
            "; a larger --buffer may help"
        } else {
            ""
        };
        writeln!(err, "raidtrace: lost: {}{hint}", lost.join(", "))?;
    }
    for sentence in &s.sentences {
        writeln!(err, "raidtrace: {}", text::clean(sentence))?;
    }
    Ok(())
}
