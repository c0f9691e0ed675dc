//! Reads both recordings, compares them, and prints the result.

use std::io;
use std::path::Path;
use std::thread;

use anyhow::{Result, anyhow};

use super::compared::{Compared, ComparedRecording};
use super::{html, json, notes, text};
use crate::analysis::compare::differences::{Comparison, ComparisonInput};
use crate::commands::report::args::ReportArgs;
use crate::commands::report::lines::write_page;
use crate::recording::gather::{Period, gather_series};
use crate::ui::lines::success_if_closed;

/// Compares the file with `before`, and prints the result or writes it as a page.
pub fn run(args: &ReportArgs, before: &Path) -> Result<()> {
    if let Some(path) = &args.html {
        return write_page(args, path, || Ok(html::draw(&read(args, before)?)));
    }
    let compared = read(args, before)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written =
        if args.json { json::write(&mut out, &compared) } else { text::write(&mut out, &compared) };
    success_if_closed(written, || "writing the comparison".to_owned())
}

pub(super) fn read<'a>(args: &'a ReportArgs, before: &'a Path) -> Result<Compared<'a>> {
    let (from, to) = (args.against_from.as_deref(), args.against_to.as_deref());
    let was = Period { from, to, options: ("--against-from", "--against-to") };
    let (from, to) = (args.from.as_deref(), args.to.as_deref());
    let now = Period { from, to, options: ("--from", "--to") };
    let recording = |path: &'a Path, period| -> Result<ComparedRecording<'a>> {
        let (report, series) = gather_series(path, period)?;
        Ok(ComparedRecording { path, report, series })
    };
    // One thread for each file: decoding is most of the time.
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| recording(before, was));
        let second = recording(&args.file, now);
        let failed = || Err(anyhow!("{}: reading it failed", before.display()));
        (first.join().unwrap_or_else(|_| failed()), second)
    });
    let recordings = [first?, second?];
    let inputs = recordings.each_ref().map(|recording| ComparisonInput {
        series: &recording.series,
        arrays: &recording.report.snapshot.arrays,
        threshold: recording.report.slow.as_ref().map(|s| s.threshold),
    });
    let comparison = Comparison::new(inputs, &args.pair).map_err(anyhow::Error::msg)?;
    let notes = notes::notes(&recordings, &comparison);
    Ok(Compared { recordings, comparison, notes })
}
