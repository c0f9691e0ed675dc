//! `raidtrace alloc`: watches the allocator until a signal or a limit option ends it.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::args::Alloc;
use super::outputs::{outputs, pictures};
use super::replay::Intervals;
use super::source::{Allocator, Total};
use super::state::{Shown, State};
use super::view::VIEWS;
use super::{json, screen, text};
use crate::analysis::alloc::figures;
use crate::analysis::profile::Profile;
use crate::machine::privileges;
use crate::machine::signals::{End, asked_to_end};
use crate::recording::alloc::Recorded;
use crate::session::alloc::sampler::AllocOptions;
use crate::session::engine::{Engine, PATIENCE, Tick};
use crate::ui::lines::{is_last, print_new, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::screen::{Live, run_app};

/// Runs until Ctrl-C, a signal, `--count`, `--duration` or a closed pipe.
pub fn run(args: &Alloc) -> Result<()> {
    if let Some(file) = &args.replay {
        return replayed(file, args);
    }
    if let Some(why) = privileges::missing_message("alloc") {
        bail!(why);
    }
    if args.hertz == 0 && (args.folded.is_some() || args.flame.is_some()) {
        bail!("--folded and --flame need stack samples: remove --hertz 0");
    }
    let [record, folded, flame] = outputs(args)?;
    let runtime = runtime()?;
    // Catch signals before the programs are loaded, which takes a second, so that Ctrl-C ends cleanly.
    let end = asked_to_end()?;
    let options = AllocOptions {
        hertz: args.hertz,
        all: args.all,
        mb_stats: args.mb_stats,
        groups: args.groups,
        keep_counting: args.keep_counting,
    };
    let on_screen = !args.batch && !args.json && io::stdout().is_terminal();
    let targets = args.targets.clone();
    let engine = Engine::start(
        move || Allocator::start(&targets, options, record, on_screen),
        args.interval,
        args.interval,
    )?;
    privileges::keep_for_reload();
    let profile = runtime.block_on(async {
        if on_screen {
            on_the_screen(engine, args, end).await
        } else {
            as_text(engine, args, end).await
        }
    })?;
    pictures(&profile, folded, flame)
}

/// Shows a recording: as text or JSON, or on the screen at its original pace.
fn replayed(file: &Path, args: &Alloc) -> Result<()> {
    let [_, folded, flame] = outputs(args)?;
    let mut intervals = Intervals::open(file)?;
    let mut whole = Profile::default();
    if args.batch || args.json || !io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        let mut left = args.count;
        for interval in intervals.by_ref() {
            let Recorded { snapshot, stacks } = interval?;
            whole.merge(&stacks);
            let written = if args.json {
                json::write(&mut out, &snapshot)
            } else {
                text::write(&mut out, &snapshot)
            };
            match written {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other.context("writing the figures")?,
            }
            if is_last(&mut left) {
                break;
            }
        }
        print_new(&intervals.finish()?, &mut HashSet::new());
    } else {
        let all = intervals.read_all()?;
        let notes = intervals.finish()?;
        all.iter()
            .for_each(|interval| whole.merge(&interval.stacks));
        let end = asked_to_end()?;
        runtime()?.block_on(screen::replay(all, Depth::from_env(), end))?;
        print_new(&notes, &mut HashSet::new());
    }
    pictures(&whole, folded, flame)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}

type Tracing = Engine<Shown, Result<Total>>;

/// Waits for the signal, at most for `duration`.
async fn ends(signal: End, duration: Option<Duration>) {
    match duration {
        Some(duration) => drop(tokio::time::timeout(duration, signal).await),
        None => signal.await,
    }
}

/// Shows the screen until a key, a signal, `--count` or `--duration` ends it. Then prints the total. Returns the stacks.
async fn on_the_screen(engine: Tracing, args: &Alloc, mut end: End) -> Result<Profile> {
    let mut live = Live::new(engine, args.count);
    // Open the screen only after the start: until then, errors go to the plain terminal.
    let started = tokio::select! {
        started = live.started() => started,
        () = &mut end => false,
    };
    let mut result = Ok(());
    if started {
        let state = State::new(VIEWS.len(), args.interval);
        let end = ends(end, args.duration);
        result = run_app(state, &mut live, Depth::from_env(), end).await;
    }
    let has_all = live.has_shown_all();
    let mut engine = live.into_engine();
    if started && result.is_ok() && !has_all {
        // Complete the interval in progress, for the recording and the total.
        let mut now = std::future::ready(());
        while engine.tick_or_last(&mut now).await.is_some() {}
    }
    let ended = engine.end(Some(PATIENCE))?;
    let total = ended.total?;
    if let Some(snapshot) = &total.snapshot {
        success_if_nobody_reads(text::write(&mut io::stdout().lock(), snapshot))?;
    }
    result.and(ended.result).map(|()| total.stacks)
}

/// Prints each interval. A signal or `--duration` cuts the last interval short. Returns the stacks.
async fn as_text(mut engine: Tracing, args: &Alloc, mut end: End) -> Result<Profile> {
    let mut printed = HashSet::new();
    let mut out = io::stdout().lock();
    let (mut intervals, mut left) = (0, args.count);
    let mut result = Ok(());
    if let Some(Tick::Started { notes, .. }) = engine.tick_or_last(&mut end).await {
        print_new(&notes, &mut printed);
    }
    // The duration starts when counting starts.
    let mut end = Box::pin(ends(end, args.duration));
    while let Some(tick) = engine.tick_or_last(&mut end).await {
        let (snapshot, _) = match tick {
            // Intervals carry these notes, together with notes about their sources.
            Tick::Started { .. } | Tick::Notes(_) => continue,
            Tick::Interval(shown) => shown,
        };
        intervals += 1;
        print_new(&figures::notes(&snapshot), &mut printed);
        let written = if args.json {
            json::write(&mut out, &snapshot)
        } else {
            text::write(&mut out, &snapshot)
        };
        match written.and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
            // Do not return yet: the recording must be finished first.
            Err(e) => {
                result = Err(e).context("writing the figures");
                break;
            }
        }
        if is_last(&mut left) {
            break;
        }
    }
    let ended = engine.end(Some(PATIENCE))?;
    let total = ended.total?;
    if let Some(snapshot) = &total.snapshot
        && !args.json
        && intervals > 1
    {
        success_if_nobody_reads(
            writeln!(out, "total:").and_then(|()| text::write(&mut out, snapshot)),
        )?;
    }
    result.and(ended.result).map(|()| total.stacks)
}
