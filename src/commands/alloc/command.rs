//! `raidtrace alloc`: watches the allocator until a signal or a limit option ends it.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, bail};

use super::args::AllocArgs;
use super::outputs::{outputs, write_stacks};
use super::source::{AllocTracer, Total};
use super::state::AllocScreenState;
use super::view::VIEWS;
use super::{replay, screen, text};
use crate::analysis::alloc::{AllocSnapshot, figures};
use crate::analysis::profile::Profile;
use crate::machine::privileges;
use crate::machine::signals::{End, asked_to_end};
use crate::recording::alloc::{AllocInterval, RecordedAlloc};
use crate::session::alloc::sampler::AllocOptions;
use crate::session::engine::{Engine, MAX_LAST_WAIT, Tick, runtime};
use crate::ui::json::write_line;
use crate::ui::lines::{lasts, print_intervals, print_new, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::screen::LiveSource;

/// Runs until Ctrl-C, a signal, `--count`, `--duration` or a closed pipe.
pub fn run(args: &AllocArgs) -> Result<()> {
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
    // Catch signals before the programs are loaded, which takes a second, so that Ctrl-C ends
    // cleanly.
    let end = asked_to_end()?;
    let options = AllocOptions {
        hertz: args.hertz,
        all: args.all,
        mb_stats: args.mb_stats,
        groups: args.groups,
        keep_counting: args.keep_counting,
    };
    let on_screen = args.live.on_screen();
    let targets = args.targets.clone();
    let engine = Engine::start(
        move || AllocTracer::start(&targets, options, record, on_screen),
        args.live.interval,
        args.live.interval,
    )?;
    // To write files in directories of other users at the end.
    privileges::keep_for_writing();
    let profile = runtime.block_on(async {
        if on_screen {
            on_the_screen(engine, args, end).await
        } else {
            as_text(engine, args, end).await
        }
    })?;
    write_stacks(&profile, folded, flame)
}

/// Shows a recording: as text or JSON, or on the screen at its original pace.
fn replayed(file: &Path, args: &AllocArgs) -> Result<()> {
    let [_, folded, flame] = outputs(args)?;
    let mut intervals = replay::open(file)?;
    let mut whole = Profile::default();
    if !args.live.on_screen() {
        let mut out = io::stdout().lock();
        let print = |RecordedAlloc { snapshot, stacks }| {
            whole.merge(&stacks);
            write(args, &mut out, &snapshot)
        };
        if !intervals.print(args.live.count, print)? {
            return Ok(());
        }
        print_new(&intervals.finish()?, &mut HashSet::new());
    } else {
        let all = replay::read_all(&mut intervals)?;
        let notes = intervals.finish()?;
        all.iter().for_each(|interval| whole.merge(&interval.stacks));
        let end = asked_to_end()?;
        runtime()?.block_on(screen::replay(all, Depth::from_env(), end))?;
        print_new(&notes, &mut HashSet::new());
    }
    write_stacks(&whole, folded, flame)
}

/// Writes an interval and flushes it.
fn write(args: &AllocArgs, out: &mut impl Write, snapshot: &AllocSnapshot) -> io::Result<()> {
    match args.live.json {
        true => write_line(out, &AllocInterval::new(snapshot)),
        false => text::write(out, snapshot),
    }
}

type AllocEngine = Engine<AllocSnapshot, Result<Total>>;

/// Shows the screen until a key, a signal, `--count` or `--duration` ends it. Then prints the
/// total. Returns the stacks.
async fn on_the_screen(engine: AllocEngine, args: &AllocArgs, end: End) -> Result<Profile> {
    let mut live = LiveSource::new(engine, args.live.count);
    let state = AllocScreenState::new(VIEWS.len(), args.live.interval);
    let (started, result) = live.show(state, end, args.duration).await;
    let has_all = live.has_shown_all();
    let mut engine = live.into_engine();
    if started && result.is_ok() && !has_all {
        // Complete the interval in progress, for the recording and the total.
        let mut now = std::future::ready(());
        while engine.tick_or_last(&mut now).await.is_some() {}
    }
    let ended = engine.end(Some(MAX_LAST_WAIT))?;
    let total = ended.total?;
    if let Some(snapshot) = &total.snapshot {
        success_if_nobody_reads(text::write(&mut io::stdout().lock(), snapshot))?;
    }
    result.and(ended.result).map(|()| total.stacks)
}

/// Prints each interval. A signal or `--duration` cuts the last interval short. Returns the stacks.
async fn as_text(mut engine: AllocEngine, args: &AllocArgs, mut end: End) -> Result<Profile> {
    let mut printed = HashSet::new();
    let mut out = io::stdout().lock();
    let mut intervals = 0;
    if let Some(Tick::Started { notes, .. }) = engine.tick_or_last(&mut end).await {
        print_new(&notes, &mut printed);
    }
    // The duration starts when counting starts.
    let end = lasts(end, args.duration);
    let result =
        print_intervals(&mut engine, args.live.count, end, &mut printed, |snapshot, printed| {
            intervals += 1;
            print_new(&figures::notes(&snapshot), printed);
            write(args, &mut out, &snapshot)
        })
        .await;
    let ended = engine.end(Some(MAX_LAST_WAIT))?;
    let total = ended.total?;
    if let Some(snapshot) = &total.snapshot
        && !args.live.json
        && intervals > 1
    {
        success_if_nobody_reads(
            writeln!(out, "total:").and_then(|()| text::write(&mut out, snapshot)),
        )?;
    }
    result.and(ended.result).map(|()| total.stacks)
}
