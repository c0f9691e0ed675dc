//! `raidtrace top --replay` and `raidtrace demo`: a recording on the screen, as text or as JSON.

use std::collections::HashSet;
use std::io::{self, Cursor, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::super::args::{Demo, Top};
use super::screen;
use crate::analysis::time;
use crate::commands::top::command::{Render, add};
use crate::recording::reader::{Reader, Wanted};
use crate::recording::source::{Reopen, Source};
use crate::ui::lines::{is_last, print_new, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::{batch, json};

/// The first case, as `tests/lab/demo.sh` recorded it.
static DEMO: &[u8] = include_bytes!("demo.rtrace");

/// Display of the replay.
struct How {
    interval: Duration,
    count: Option<u64>,
    batch: bool,
    json: bool,
}

/// Shows the recording `file`.
pub fn run(file: &Path, args: &Top) -> Result<()> {
    let how = How {
        interval: args.interval,
        count: args.count,
        batch: args.batch,
        json: args.json,
    };
    let reader = Reader::open(file, Wanted::Figures)?;
    let file = file.to_owned();
    let again = move || Reader::open(&file, Wanted::Figures).ok();
    show(reader, Box::new(again), how)
}

/// Shows the recording that comes with raidtrace.
pub fn demo(args: &Demo) -> Result<()> {
    let how = How {
        interval: args.interval,
        count: None,
        batch: args.batch,
        json: args.json,
    };
    let open = || {
        let input = Box::new(Cursor::new(DEMO));
        Reader::new(input, Path::new("demo"), Wanted::Figures)
    };
    show(open()?, Box::new(move || open().ok()), how)
}

fn show(reader: Reader, again: Reopen, how: How) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let source = Source::new(reader, how.interval, again);
    if !how.batch && !how.json && io::stdout().is_terminal() {
        return runtime.block_on(async {
            let end = crate::machine::signals::asked_to_end()?;
            screen::run(source, how.interval, Depth::from_env(), end).await
        });
    }
    as_text(source, &how)
}

/// One rendering an interval, as fast as they can be read.
fn as_text(mut source: Source, how: &How) -> Result<()> {
    let render: Render = if how.json { json::write } else { batch::write };
    let mut out = io::stdout().lock();
    let (mut whole, mut printed) = (None, HashSet::new());
    let mut left = how.count;
    for snapshot in source.by_ref() {
        print_new(&snapshot.notes, &mut printed);
        if !how.json {
            add(&mut whole, &snapshot);
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
    let Some(begin) = source.begins_us() else {
        bail!(
            "the recording holds no interval; {}",
            source.reader().ending()
        );
    };
    let length = whole.as_ref().map_or(Duration::ZERO, |w| w.interval);
    if let Some(whole) = whole.filter(|_| length > how.interval.mul_f64(1.5)) {
        let since = time::clock_both(begin, &time::local());
        success_if_nobody_reads(
            writeln!(out, "in all, since {since}:").and_then(|()| batch::write(&mut out, &whole)),
        )?;
    }
    if source.reader().ending().is_cut() {
        let _ = writeln!(
            io::stderr(),
            "raidtrace: note: {}",
            source.reader().ending()
        );
    }
    Ok(())
}
