//! Reads both recordings, compares them, and prints the result.

use std::io;
use std::path::Path;
use std::thread;

use anyhow::{Result, anyhow};

use super::compared::{Compared, Recording};
use super::{html, json, notes, text};
use crate::analysis::compare::evaluate::{Input, evaluate};
use crate::commands::report::args::Report as Args;
use crate::commands::report::lines::write_page;
use crate::recording::gather::{Period, gather_series};
use crate::ui::lines::success_if_closed;

/// Compares the file with `before`, and prints the result or writes it as a page.
pub fn run(args: &Args, before: &Path) -> Result<()> {
    if let Some(path) = &args.html {
        return write_page(args, path, || Ok(html::draw(&read(args, before)?)));
    }
    let compared = read(args, before)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written =
        if args.json { json::write(&mut out, &compared) } else { text::write(&mut out, &compared) };
    success_if_closed(written, || "writing the comparison".to_owned())
}

pub(super) fn read<'a>(args: &'a Args, before: &'a Path) -> Result<Compared<'a>> {
    let periods = [
        Period {
            from: args.against_from.as_deref(),
            to: args.against_to.as_deref(),
            options: ("--against-from", "--against-to"),
        },
        Period { from: args.from.as_deref(), to: args.to.as_deref(), options: ("--from", "--to") },
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
    Ok(Compared { before, after, comparison, notes })
}

fn recording<'a>(path: &'a Path, period: Period<'_>) -> Result<Recording<'a>> {
    let (report, series) = gather_series(path, period)?;
    Ok(Recording { path, report, series })
}

fn input<'a>(recording: &'a Recording<'_>) -> Input<'a> {
    Input {
        series: &recording.series,
        arrays: &recording.report.snapshot.arrays,
        threshold: recording.report.slow.as_ref().map(|s| s.threshold),
    }
}
