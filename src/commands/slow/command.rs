//! `raidtrace slow`: traces until a signal or a limit option ends it.

use std::collections::HashSet;
use std::io::{self};
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::SlowArgs;
use super::filter::SlowFilter;
use super::source::SlowTracer;
use super::state::SlowScreenState;
use super::view::VIEWS;
use super::{replay, text};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::machine::privileges;
use crate::machine::signals::{End, asked_to_end};
use crate::session::engine::{Engine, MAX_LAST_WAIT, Tick, runtime};
use crate::ui::lines::{lasts, print_intervals, print_new, success_if_nobody_reads};
use crate::ui::screen::LiveSource;

const THRESHOLD: Duration = Duration::from_millis(10);

/// Runs until Ctrl-C, a signal, `--count`, `--duration` or a closed pipe.
pub fn run(args: &SlowArgs) -> Result<()> {
    if let Some(file) = &args.replay {
        return replay::run(file, args);
    }
    if let Some(why) = privileges::missing_message("slow") {
        bail!(why);
    }
    let runtime = runtime()?;
    // Catch signals before the programs are loaded, which takes a second, so that Ctrl-C ends
    // cleanly.
    let end = asked_to_end()?;
    let (targets, threshold) = (args.targets.clone(), args.threshold.unwrap_or(THRESHOLD));
    let filter = SlowFilter::new(args);
    let on_screen = args.live.on_screen();
    let engine = Engine::start(
        move || SlowTracer::start(&targets, threshold, filter, on_screen),
        args.live.interval,
        args.live.interval,
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

type SlowEngine = Engine<SlowSnapshot, Option<SlowSnapshot>>;

/// Shows the screen until a key, a signal, `--count` or `--duration` ends it. Then prints the
/// longest operations.
async fn on_the_screen(engine: SlowEngine, args: &SlowArgs, end: End) -> Result<()> {
    let mut live = LiveSource::new(engine, args.live.count);
    let state = SlowScreenState::new(VIEWS.len(), args.live.interval);
    let (started, result) = live.show(state, end, args.duration).await;
    let ended = live.into_engine().end(Some(MAX_LAST_WAIT))?;
    if let Some(total) = ended.total.filter(|_| started) {
        success_if_nobody_reads(text::write_total(&mut io::stdout().lock(), &total))?;
    }
    result.and(ended.result)
}

/// Prints each interval. A signal or `--duration` cuts the last interval short.
async fn as_text(mut engine: SlowEngine, args: &SlowArgs, mut end: End) -> Result<()> {
    let mut printed = HashSet::new();
    let mut out = io::stdout().lock();
    if let Some(Tick::Started { notes, .. }) = engine.tick_or_last(&mut end).await {
        print_new(&notes, &mut printed);
        if args.live.json {
            // Print a first object without operations once everything is attached.
            let first = SlowSnapshot {
                time: jiff::Timestamp::now(),
                threshold: args.threshold.unwrap_or(THRESHOLD),
                ..SlowSnapshot::default()
            };
            text::write_as(args, &mut out, &first)?;
        }
    }
    let end = lasts(end, args.duration);
    let result =
        print_intervals(&mut engine, args.live.count, end, &mut printed, |snapshot, printed| {
            print_new(&snapshot.notes, printed);
            text::write_as(args, &mut out, &snapshot)
        })
        .await;
    let ended = engine.end(Some(MAX_LAST_WAIT))?;
    result.and(ended.result)
}
