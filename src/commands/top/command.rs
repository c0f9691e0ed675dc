//! `raidtrace top`: shows a live session or a recording, on the screen, as text or as JSON.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::TopArgs;
use super::output::{IntervalPrinter, WholePeriod};
use super::slow::Sentences;
use crate::analysis::snapshot::Snapshot;
use crate::commands::top::replay;
use crate::machine::Sys;
use crate::machine::privileges;
use crate::machine::signals::{End, asked_to_end};
use crate::probe::DirtiedCounting;
use crate::session::Session;
use crate::session::engine::{Engine, EngineSource, MAX_LAST_WAIT, Tick, runtime};
use crate::session::sampler::Sampler;
use crate::session::slow;
use crate::ui::lines::{lasts, print_intervals, print_new, success_if_nobody_reads};
use crate::ui::screen::LiveSource;
use crate::ui::state::ScreenState;
use crate::ui::view::VIEWS;
use crate::ui::{batch, json};

/// Maximum length of the first interval without `--count`, so that the first figures appear at
/// once.
const MAX_FIRST_INTERVAL: Duration = Duration::from_millis(50);

/// Runs until Ctrl-C, a signal, `--count` or a closed pipe.
pub fn run(args: &TopArgs) -> Result<()> {
    if let Some(file) = &args.replay {
        return replay::command::run(file, args);
    }
    if let Some(why) = privileges::missing_message("top") {
        bail!(why);
    }
    let runtime = runtime()?;
    // Catch signals before the programs are loaded, which takes a second, so that Ctrl-C ends
    // cleanly.
    let end = asked_to_end()?;
    let on_screen = args.live.on_screen();
    let engine = start(args)?;
    privileges::keep_none();
    runtime.block_on(async {
        if on_screen {
            on_the_screen(engine, args, end).await
        } else {
            let render: IntervalPrinter = if args.live.json { json::write } else { batch::write };
            as_text(engine, args, render, end).await
        }
    })
}

type TopEngine = Engine<Snapshot, Option<Snapshot>>;

fn start(args: &TopArgs) -> Result<TopEngine> {
    let dirtied =
        if args.dirtied_origins { DirtiedCounting::ByOrigin } else { DirtiedCounting::Counted };
    let (targets, account, json) = (args.targets.clone(), !args.no_overhead, args.live.json);
    let slow = args.slow;
    let period = args.live.interval.max(Duration::from_millis(1));
    Engine::start(
        move || {
            let mut sampler = Sampler::start(Sys::live(), &targets, account, dirtied)?;
            let slow = slow.map(|least| Sentences::start(&targets, sampler.session(), least));
            let total = (!json).then(WholePeriod::default);
            Ok(TopTracer { slow: slow.transpose()?, sampler, total })
        },
        first(args),
        period,
    )
}

/// A sampler, optionally with slow operations, and the sum of its intervals.
struct TopTracer {
    sampler: Sampler,
    slow: Option<Sentences>,
    /// `None` if the total is not needed, that is with `--json`.
    total: Option<WholePeriod>,
}

impl EngineSource for TopTracer {
    type Interval = Snapshot;
    type Total = Option<Snapshot>;

    fn session(&mut self) -> &mut Session {
        self.sampler.session()
    }

    fn notes(&self) -> Vec<String> {
        let slow = self.slow.iter().flat_map(Sentences::notes);
        self.sampler.notes().into_iter().chain(slow.cloned()).collect()
    }

    fn drain_every(&self) -> Option<Duration> {
        self.slow.as_ref().map(|_| slow::DRAIN_INTERVAL)
    }

    fn drain(&mut self) -> Result<bool> {
        if let Some(slow) = &mut self.slow {
            slow.drain(self.sampler.session())?;
        }
        Ok(false)
    }

    fn update(&mut self) -> Result<()> {
        self.sampler.update()
    }

    fn interval(&mut self) -> Result<Snapshot> {
        let mut snapshot = self.sampler.interval()?;
        if let Some(slow) = &mut self.slow {
            slow.add_to(&mut snapshot, self.sampler.session())?;
        }
        if let Some(total) = &mut self.total {
            total.add(&snapshot);
        }
        Ok(snapshot)
    }

    fn finish(self) -> Option<Snapshot> {
        self.total?.finish()
    }
}

/// Shows the screen until a key, a signal, `--count` or `--duration` ends it. Then prints the
/// total.
async fn on_the_screen(engine: TopEngine, args: &TopArgs, end: End) -> Result<()> {
    let mut live = LiveSource::new(engine, args.live.count);
    let state = ScreenState::new(VIEWS.len(), args.live.interval);
    let (_, result) = live.show(state, end, args.duration).await;
    let ended = live.into_engine().end(Some(MAX_LAST_WAIT))?;
    if let Some(total) = ended.total {
        success_if_nobody_reads(batch::write(&mut io::stdout().lock(), &total))?;
    }
    result.and(ended.result)
}

fn first(args: &TopArgs) -> Duration {
    match args.live.count {
        Some(_) => args.live.interval,
        None => args.live.interval.min(MAX_FIRST_INTERVAL),
    }
}

/// Prints each interval. A signal or `--duration` cuts the last interval short.
async fn as_text(
    mut engine: TopEngine,
    args: &TopArgs,
    render: IntervalPrinter,
    mut end: End,
) -> Result<()> {
    let mut printed = HashSet::new();
    let mut out = io::stdout().lock();
    if let Some(Tick::Started { notes, .. }) = engine.tick_or_last(&mut end).await {
        print_new(&notes, &mut printed);
    }
    let end = lasts(end, args.duration);
    let result =
        print_intervals(&mut engine, args.live.count, end, &mut printed, |snapshot, printed| {
            print_new(&snapshot.notes, printed);
            render(&mut out, &snapshot)
        })
        .await;
    let ended = engine.end(Some(MAX_LAST_WAIT))?;
    let total = ended.total;
    if let Some(total) = total.filter(|t| t.interval > args.live.interval.mul_f64(1.5)) {
        success_if_nobody_reads(
            writeln!(out, "total:").and_then(|()| batch::write(&mut out, &total)),
        )?;
    }
    result.and(ended.result)
}
