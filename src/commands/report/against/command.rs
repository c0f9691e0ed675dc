//! Reads both recordings, compares them, and prints the result.

use std::io;
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, anyhow};

use super::compared::{Compared, Recording};
use super::{html, json, notes, text};
use crate::analysis::compare::evaluate::{Input, evaluate};
use crate::commands::report::args::Report as Args;
use crate::machine::output::Destination;
use crate::recording::gather::{Period, gather_series};

/// Compares the file with `before`, and prints the result or writes it as a page.
pub fn run(args: &Args, before: &Path) -> Result<()> {
    if let Some(path) = &args.html {
        return page(args, before, path);
    }
    let compared = read(args, before)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = if args.json {
        json::write(&mut out, &compared)
    } else {
        text::write(&mut out, &compared)
    };
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).context("writing the comparison"),
        _ => Ok(()),
    }
}

/// Reads both recordings and writes the page. Checks the output first, which takes less time than reading the recordings.
fn page(args: &Args, before: &Path, path: &Path) -> Result<()> {
    let destination = Destination::new(path, args.force)?;
    let page = html::draw(&read(args, before)?);
    let output = destination.open();
    let written = output.and_then(|output| output.write(|out| out.write_all(page.as_bytes())));
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(e).with_context(|| format!("{}: writing the page", path.display()))
        }
        _ => Ok(()),
    }
}

pub(super) fn read<'a>(args: &'a Args, before: &'a Path) -> Result<Compared<'a>> {
    let periods = [
        Period {
            from: args.against_from.as_deref(),
            to: args.against_to.as_deref(),
            options: ("--against-from", "--against-to"),
        },
        Period {
            from: args.from.as_deref(),
            to: args.to.as_deref(),
            options: ("--from", "--to"),
        },
    ];
    let paths = [before, args.file.as_path()];
    // One thread for each file: decoding is most of the time.
    let [before, after] = thread::scope(|scope| {
        let first = scope.spawn(|| recording(paths[0], periods[0]));
        let second = recording(paths[1], periods[1]);
        let failed = || Err(anyhow!("{}: reading it failed", paths[0].display()));
        [first.join().unwrap_or_else(|_| failed()), second]
    });
    let (before, after) = (before?, after?);
    let comparison =
        evaluate(input(&before), input(&after), &args.pair).map_err(anyhow::Error::msg)?;
    let notes = notes::notes(&before, &after, &comparison);
    Ok(Compared {
        before,
        after,
        comparison,
        notes,
    })
}

fn recording<'a>(path: &'a Path, period: Period<'_>) -> Result<Recording<'a>> {
    let (report, series) = gather_series(path, period)?;
    Ok(Recording {
        path,
        report,
        series,
    })
}

fn input<'a>(recording: &'a Recording<'_>) -> Input<'a> {
    Input {
        series: &recording.series,
        arrays: &recording.report.snapshot.arrays,
        threshold: recording.report.slow.as_ref().map(|s| s.threshold),
    }
}
