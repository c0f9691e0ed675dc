//! `raidtrace slow`: traces until a signal or a limit option ends it.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::args::Slow;
use super::filter::Filter;
use super::source::Tracer;
use super::state::State;
use super::view::VIEWS;
use super::{json, replay, text};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::machine::privileges;
use crate::machine::signals::{End, asked_to_end};
use crate::session::engine::{Engine, PATIENCE, Tick};
use crate::ui::lines::{is_last, print_new, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::screen::{Live, run_app};

/// Default of `--threshold`.
const THRESHOLD: Duration = Duration::from_millis(10);

/// Runs until Ctrl-C, a signal, `--count`, `--duration` or a closed pipe.
pub fn run(args: &Slow) -> Result<()> {
    if let Some(file) = &args.replay {
        return replay::run(file, args);
    }
    if let Some(why) = privileges::missing_message("slow") {
        bail!(why);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    // Catch signals before the programs are loaded, which takes a second, so that Ctrl-C ends cleanly.
    let end = asked_to_end()?;
    let (targets, threshold) = (args.targets.clone(), args.threshold.unwrap_or(THRESHOLD));
    let filter = Filter::new(args);
    let on_screen = !args.batch && !args.json && io::stdout().is_terminal();
    let engine = Engine::start(
        move || Tracer::start(&targets, threshold, filter, on_screen),
        args.interval,
        args.interval,
    )?;
    privileges::keep_none();
    runtime.block_on(async {
        if on_screen {
            on_the_screen(engine, args, end).await
        } else {
            as_text(engine, args, end).await
        }
    })
}

type Tracing = Engine<SlowSnapshot, Option<SlowSnapshot>>;

/// Waits for the signal, at most for `duration`.
async fn ends(signal: End, duration: Option<Duration>) {
    match duration {
        Some(duration) => drop(tokio::time::timeout(duration, signal).await),
        None => signal.await,
    }
}

/// Shows the screen until a key, a signal, `--count` or `--duration` ends it. Then prints the longest operations.
async fn on_the_screen(engine: Tracing, args: &Slow, mut end: End) -> Result<()> {
    let mut live = Live::new(engine, args.count);
    // Open the screen only after the start: until then, errors go to the plain terminal.
    let started = tokio::select! {
        started = live.started() => started,
        () = &mut end => false,
    };
    let mut result = Ok(());
    if started {
        let state = State::new(VIEWS.len(), args.interval);
        let end = Box::pin(ends(end, args.duration));
        result = run_app(state, &mut live, Depth::from_env(), end).await;
    }
    let ended = live.into_engine().end(Some(PATIENCE))?;
    if let Some(total) = ended.total.filter(|_| started) {
        success_if_nobody_reads(text::write_total(&mut io::stdout().lock(), &total))?;
    }
    result.and(ended.result)
}

/// Prints each interval. A signal or `--duration` cuts the last interval short.
async fn as_text(mut engine: Tracing, args: &Slow, mut end: End) -> Result<()> {
    let mut printed = HashSet::new();
    let mut out = io::stdout().lock();
    let mut left = args.count;
    let mut result = Ok(());
    if let Some(Tick::Started { notes, .. }) = engine.tick_or_last(&mut end).await {
        print_new(&notes, &mut printed);
        if args.json {
            // Print an empty first line once everything is attached.
            let first = SlowSnapshot {
                time: jiff::Timestamp::now(),
                threshold: args.threshold.unwrap_or(THRESHOLD),
                ..SlowSnapshot::default()
            };
            json::write(&mut out, &first)?;
        }
    }
    let mut end = Box::pin(ends(end, args.duration));
    while let Some(tick) = engine.tick_or_last(&mut end).await {
        let Tick::Interval(snapshot) = tick else {
            continue;
        };
        print_new(&snapshot.notes, &mut printed);
        let written = if args.json {
            json::write(&mut out, &snapshot)
        } else {
            text::write(&mut out, &snapshot)
        };
        match written.and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
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
    result.and(ended.result)
}
