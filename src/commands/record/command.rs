//! `raidtrace record`: records until a signal, `--duration`, `--max-size`, the end of the command,
//! or a write error.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Error, Result, bail};

use super::args::RecordArgs;
use super::child::{self, Running};
use super::output::OutputFiles;
use super::recording::{Finished, Limits, RunningRecording};
use super::summary::{Summary, report};
use crate::analysis::units;
use crate::machine::Sys;
use crate::machine::limits;
use crate::machine::privileges;
use crate::machine::signals::Signals;
use crate::session::engine::{Engine, Tick};
use crate::session::recorder::storage::Storage as _;
use crate::session::recorder::{RecorderOptions, SECOND};
use crate::ui::text;

/// Interval for polling the command and the engine.
const STEP: Duration = Duration::from_millis(20);
/// Time for which repetitions of the signal that ends the recording are ignored.
const GRACE: Duration = Duration::from_millis(100);

/// Records. Returns the exit status of the command, if one was given.
pub fn run(args: &RecordArgs) -> Result<ExitCode> {
    if let Some(why) = privileges::missing_message("record") {
        bail!(why);
    }
    let files = OutputFiles::new(&args.output, args.force, args.rotate)?;
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
    let limits = Limits { duration: args.duration, max_size: args.max_size };
    let start = move || RunningRecording::start(Sys::live(), files, &options, limits);
    let mut engine = Engine::start(start, SECOND, SECOND)?;
    let mut printed = HashSet::new();
    let mut child: Option<Running> = None;
    let mut failed = None;
    let mut status = None;
    let mut grace = Duration::ZERO;
    loop {
        if let Some(signal) = signals.wait(STEP) {
            match &mut child {
                // The terminal sends the signal to the command too. The recording ends with the
                // command.
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
            Some(Tick::Notes(notes)) => print_notes(&notes, &mut printed),
            Some(Tick::Started { subjects, notes }) => {
                print_notes(&notes, &mut printed);
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
                // Give up capabilities only now: starting the command needs them, to switch to the
                // user who called sudo or, with --as-root, to pass them on.
                privileges::keep_for_command();
            }
        }
        if let Some(child) = &mut child
            && let Some(ended) = child.ended()?
        {
            status = Some(ended);
            grace = GRACE; // Ctrl-C may have ended the command.
            break;
        }
        if engine.has_ended() {
            break;
        }
    }
    // The disk or the reader of a pipe may be stuck: let the next signal kill raidtrace.
    signals.release_after(grace);
    let ended = engine.end(None)?;
    let Finished { files, summary, result } = ended.total;
    signals.catch_again();
    let failed = failed.or(ended.result.err()).or(result.err());
    // If the reader of the pipe has closed it, that is not a failure.
    let failed = failed.filter(|e| kind(e) != Some(io::ErrorKind::BrokenPipe));
    if failed.is_none() {
        let _ = report(&summary, &files.name());
    }
    // If the command outlasts the recording, wait for it.
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
        (Some(error), _) => Err(with_file_state(error, &summary, &files)),
        (None, Some(status)) => Ok(ExitCode::from(child::code(status))),
        (None, None) => Ok(ExitCode::SUCCESS),
    }
}

fn kind(error: &Error) -> Option<io::ErrorKind> {
    error.chain().find_map(|e| Some(e.downcast_ref::<io::Error>()?.kind()))
}

/// Adds the state of the file to an error.
fn with_file_state(error: Error, summary: &Summary, files: &OutputFiles) -> Error {
    let hint = match kind(&error) {
        Some(kind) if limits::is_full(kind) => "; limit the size with --max-size or --rotate",
        _ => "",
    };
    error.context(format!(
        "recording ended after {:.1} s; {} ({}) is readable up to that point{hint}",
        summary.span.as_secs_f64(),
        files.name(),
        units::bytes(summary.recorded.written.bytes as f64),
    ))
}

/// Prints notes that are not in `printed` yet.
fn print_notes(notes: &[String], printed: &mut HashSet<String>) {
    for note in notes {
        if printed.insert(note.clone()) {
            let _ = writeln!(io::stderr(), "raidtrace: note: {}", text::clean(note));
        }
    }
}
