//! `raidtrace top --replay` and `raidtrace demo`: a recording on the screen, as text or as JSON.

use std::collections::HashSet;
use std::io::{self, Cursor, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::super::args::{DemoArgs, TopArgs};
use super::super::output::{IntervalPrinter, WholePeriod};
use super::demo::INCIDENTS;
use super::screen;
use crate::analysis::time;
use crate::recording::gather::Period;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::source::{IntervalReader, Reopener};
use crate::session::engine::runtime;
use crate::ui::lines::{is_last, print_new, success_if_nobody_reads};
use crate::ui::live_args::LiveArgs;
use crate::ui::palette::Depth;
use crate::ui::{batch, json};

struct ReplayOptions {
    /// Start and end, µs since 1970.
    period: (i64, i64),
    live: LiveArgs,
}

/// Shows the recording `file`.
pub fn run(file: &Path, args: &TopArgs) -> Result<()> {
    let (from, to) = (args.from.as_deref(), args.to.as_deref());
    let options = ReplayOptions {
        period: Period { from, to, options: ("--from", "--to") }.find(file)?,
        live: args.live,
    };
    let reader = Reader::open(file, WantedColumns::Figures)?;
    let file = file.to_owned();
    let again = move || Reader::open(&file, WantedColumns::Figures).ok();
    show(reader, Box::new(again), options)
}

/// Shows a recording that is built into raidtrace, or lists them.
pub fn demo(args: &DemoArgs) -> Result<()> {
    if args.list {
        return list();
    }
    let incident = INCIDENTS.iter().find(|incident| incident.name == args.incident);
    let incident = incident.context("there is no such incident: see --list")?;
    let recording: Arc<[u8]> = incident.recording()?.into();
    let options = ReplayOptions { period: (i64::MIN, i64::MAX), live: args.live };
    let open = move || {
        let input = Box::new(Cursor::new(Arc::clone(&recording)));
        Reader::new(input, Path::new("demo"), WantedColumns::Figures)
    };
    show(open()?, Box::new(move || open().ok()), options)
}

fn list() -> Result<()> {
    let lines = INCIDENTS.iter().map(|i| format!("{:16} {}\n", i.name, i.what));
    success_if_nobody_reads(io::stdout().write_all(lines.collect::<String>().as_bytes()))
}

fn show(reader: Reader, again: Reopener, options: ReplayOptions) -> Result<()> {
    let source = IntervalReader::new(reader, options.live.interval, again).between(options.period);
    if options.live.on_screen() {
        return runtime()?.block_on(async {
            let end = crate::machine::signals::asked_to_end()?;
            screen::run(source, options.live.interval, Depth::from_env(), end).await
        });
    }
    as_text(source, &options)
}

/// Prints each interval, as fast as the recording can be read.
fn as_text(mut source: IntervalReader, options: &ReplayOptions) -> Result<()> {
    let render: IntervalPrinter = if options.live.json { json::write } else { batch::write };
    let mut out = io::stdout().lock();
    let (mut whole, mut printed) = (WholePeriod::default(), HashSet::new());
    let mut left = options.live.count;
    for snapshot in source.by_ref() {
        print_new(&snapshot.notes, &mut printed);
        if !options.live.json {
            whole.add(&snapshot);
        }
        match render(&mut out, &snapshot) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => return Err(e).context("writing the figures"),
        }
        if is_last(&mut left) {
            break;
        }
    }
    let Some(begin) = source.start_us() else {
        let inside = if options.period.0 > i64::MIN { " in that period" } else { "" };
        bail!("the recording contains no interval{inside}; {}", source.reader().ending());
    };
    let whole = whole.finish();
    let length = whole.as_ref().map_or(Duration::ZERO, |w| w.interval);
    if let Some(whole) = whole.filter(|_| length > options.live.interval.mul_f64(1.5)) {
        let since = time::clock_both(begin, &time::local());
        success_if_nobody_reads(
            writeln!(out, "total, since {since}:").and_then(|()| batch::write(&mut out, &whole)),
        )?;
    }
    if source.reader().ending().is_cut() {
        let _ = writeln!(io::stderr(), "raidtrace: note: {}", source.reader().ending());
    }
    Ok(())
}
