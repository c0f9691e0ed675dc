//! `raidtrace record`: records until a signal, `--duration`, `--max-size`, the end of the command, or an error of the file.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Error, Result, bail};

use super::args::Record;
use super::child::{self, Running};
use super::output::Files;
use super::recording::{Finished, Limits, Recording};
use super::summary::{Summary, report};
use crate::analysis::units;
use crate::machine::Sys;
use crate::machine::privileges;
use crate::machine::signals::Signals;
use crate::session::engine::{Engine, Tick};
use crate::session::recorder::storage::Storage as _;
use crate::session::recorder::{RecorderOptions, SECOND};
use crate::ui::text;

/// Interval of looking at the command and the engine.
const STEP: Duration = Duration::from_millis(20);
/// Repetitions of the signal that ends the recording are dropped for this long.
const GRACE: Duration = Duration::from_millis(100);

/// Records; the status is that of the command, if one was given.
pub fn run(args: &Record) -> Result<ExitCode> {
    if let Some(why) = privileges::lacks("record") {
        bail!(why);
    }
    let files = Files::new(&args.output, args.force, args.rotate)?;
    let (name, is_stdout) = (files.name(), files.is_stdout());
    child::find(&args.command)?;
    let command = child::for_user(&args.command, args.as_root)?;
    let signals = Signals::catch()?;
    let options = RecorderOptions {
        targets: args.targets.clone(),
        command: args.command.clone(),
        buffer: args.buffer,
        alloc: args.alloc,
        slow: args.slow,
    };
    let limits = Limits {
        duration: args.duration,
        max_size: args.max_size,
    };
    let start = move || Recording::start(Sys::live(), files, &options, limits);
    let mut engine = Engine::start(start, SECOND, SECOND)?;
    let mut said = HashSet::new();
    let mut child: Option<Running> = None;
    let mut failed = None;
    let mut status = None;
    let mut grace = Duration::ZERO;
    loop {
        if let Some(signal) = signals.wait(STEP) {
            match &mut child {
                // The command gets it as well, and the recording ends with the command.
                Some(_) if signal.from_terminal => {}
                Some(child) => child.signal(signal.number),
                None => {
                    grace = GRACE;
                    break;
                }
            }
        }
        match engine.try_tick() {
            None | Some(Tick::Interval(())) => {}
            Some(Tick::Notes(notes)) => say(&notes, &mut said),
            Some(Tick::Started { subjects, notes }) => {
                say(&notes, &mut said);
                let _ = writeln!(
                    io::stderr(),
                    "raidtrace: recording {} to {}{}",
                    text::clean(&subjects),
                    text::clean(&name),
                    if args.command.is_empty() && args.duration.is_none() {
                        "; Ctrl-C ends it"
                    } else {
                        ""
                    }
                );
                match Running::start(&command, is_stdout, &signals) {
                    Ok(running) => child = running,
                    Err(e) => {
                        failed = Some(e);
                        break;
                    }
                }
                // After the command, which is to have the rights of its user.
                privileges::keep_for_reload();
            }
        }
        if let Some(child) = &mut child
            && let Some(ended) = child.ended()?
        {
            status = Some(ended);
            grace = GRACE; // perhaps because of Ctrl-C
            break;
        }
        if engine.has_ended() {
            break;
        }
    }
    // The disk, or the reader of a pipe, may not answer.
    signals.release_after(grace);
    let ended = engine.end(None)?;
    let Finished {
        files,
        summary,
        result,
    } = ended.total;
    signals.catch_again();
    let failed = failed.or(ended.result.err()).or(result.err());
    let failed = failed.filter(|e| !nobody_reads(e));
    if failed.is_none() {
        let _ = report(&summary, &files.name());
    }
    // raidtrace stays until a command that outlasts the recording has ended.
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

/// True if the reader of a pipe has closed it, which is no failure.
fn nobody_reads(error: &Error) -> bool {
    kind(error) == Some(io::ErrorKind::BrokenPipe)
}

fn kind(error: &Error) -> Option<io::ErrorKind> {
    error
        .chain()
        .find_map(|e| Some(e.downcast_ref::<io::Error>()?.kind()))
}

/// An error with the state of the file.
fn explained(error: Error, summary: &Summary, files: &Files) -> Error {
    let hint = match kind(&error) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            "; --max-size and --rotate keep a recording small"
        }
        _ => "",
    };
    error.context(format!(
        "recording ended after {:.1} s; {} ({}) can be read up to then{hint}",
        summary.span.as_secs_f64(),
        files.name(),
        units::bytes(summary.recorded.written.bytes as f64),
    ))
}

/// Writes notes that are not in `said`.
fn say(notes: &[String], said: &mut HashSet<String>) {
    for note in notes {
        if said.insert(note.clone()) {
            let _ = writeln!(io::stderr(), "raidtrace: note: {}", text::clean(note));
        }
    }
}
