//! `raidtrace top`: finds what to trace, attaches, and renders until it is told to end.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::sync::watch;

use super::args::Top;
use crate::analysis::amplification::Amplification;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::{hotspot, window};
use crate::commands::top::replay;
use crate::machine::Sys;
use crate::machine::signals::{End, asked_to_end};
use crate::probe::Dirtied;
use crate::session::md_events::MdEvents;
use crate::session::sampler::Sampler;
use crate::ui::lines::{ended, say, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::{batch, json, screen};

/// The first interval is no longer than this, so that figures come at once, unless `--count` says how many are wanted.
const FIRST: Duration = Duration::from_millis(50);

pub(crate) type Render = fn(&mut io::StdoutLock<'static>, &Snapshot) -> io::Result<()>;

/// Runs until Ctrl-C, a signal, `--count` or the reader of a pipe ends it.
pub fn run(args: &Top) -> Result<()> {
    if let Some(file) = &args.replay {
        return replay::command::run(file, args);
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "raidtrace top needs root, to load its programs into the kernel and to read the \
             filesystem's layout: sudo raidtrace top"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    // Before the programs are loaded, which takes a second: Ctrl-C ends cleanly from here on.
    let end = asked_to_end()?;
    let dirtied = if args.dirtied_origins {
        Dirtied::ByOrigin
    } else {
        Dirtied::Counted
    };
    let mut sampler = Sampler::start(Sys::live(), &args.targets, !args.no_overhead, dirtied)?;
    let on_screen = !args.batch && !args.json && io::stdout().is_terminal();
    runtime.block_on(async {
        if on_screen {
            on_the_screen(&mut sampler, args, end).await
        } else {
            let render: Render = if args.json { json::write } else { batch::write };
            as_text(&mut sampler, args, render, end).await
        }
    })
}

/// The screen draws what the sampler sends; both live in this one thread.
async fn on_the_screen(sampler: &mut Sampler, args: &Top, end: End) -> Result<()> {
    let (snapshots, shown) = watch::channel(None);
    let (interval, mut wanted) = watch::channel(args.interval);
    let mut whole: Option<Snapshot> = None;
    let md_events = MdEvents::start(&Sys::live());
    let sample = async {
        let mut left = args.count;
        let mut first = Some(first(args));
        loop {
            let interval = *wanted.borrow_and_update();
            let next = tokio::time::sleep(first.take().unwrap_or(interval));
            tokio::pin!(next);
            loop {
                tokio::select! {
                    () = &mut next => break,
                    () = md_events.wait(sampler) => sampler.update()?,
                    // A new interval begins at once, so that + and - are felt.
                    changed = wanted.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return Ok(()),
                    },
                }
            }
            let snapshot = sampler.snapshot()?;
            add(&mut whole, &snapshot);
            if snapshots.send(Some(Arc::new(snapshot))).is_err() || ended(&mut left) {
                return Ok(());
            }
        }
    };
    let result = tokio::select! {
        result = screen::run(shown, interval, Depth::from_env(), end) => result,
        result = sample => result,
    };
    // The screen is gone; what it showed should not be.
    if let Some(whole) = whole {
        success_if_nobody_reads(batch::write(&mut io::stdout().lock(), &whole))?;
    }
    result
}

fn first(args: &Top) -> Duration {
    match args.count {
        Some(_) => args.interval,
        None => args.interval.min(FIRST),
    }
}

/// One rendering an interval; the last one, cut short, when a signal ends it.
async fn as_text(sampler: &mut Sampler, args: &Top, render: Render, mut end: End) -> Result<()> {
    let mut said = HashSet::new();
    say(&sampler.notes(), &mut said);
    let mut out = io::stdout().lock();
    let mut whole: Option<Snapshot> = None;
    let mut left = args.count;
    let mut next = tokio::time::interval_at(
        tokio::time::Instant::now() + first(args),
        args.interval.max(Duration::from_millis(1)),
    );
    next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let md_events = MdEvents::start(&Sys::live());
    loop {
        let last = tokio::select! {
            _ = next.tick() => ended(&mut left),
            () = &mut end => true,
            () = md_events.wait(sampler) => {
                sampler.update()?;
                say(&sampler.notes(), &mut said);
                continue;
            }
        };
        let snapshot = sampler.snapshot()?;
        say(&snapshot.notes, &mut said);
        if !args.json {
            add(&mut whole, &snapshot);
        }
        match render(&mut out, &snapshot) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => return Err(e).context("writing the figures"),
        }
        if last {
            break;
        }
    }
    if !args.json
        && let Some(whole) = whole.filter(|w| w.interval > args.interval.mul_f64(1.5))
    {
        success_if_nobody_reads(
            writeln!(out, "in all:").and_then(|()| batch::write(&mut out, &whole)),
        )?;
    }
    Ok(())
}

/// What left meanwhile, members and arrays, stays: it had its share.
pub(crate) fn add(whole: &mut Option<Snapshot>, snapshot: &Snapshot) {
    match whole {
        Some(whole) => {
            window::join(whole, snapshot, window::alike);
            for array in &mut whole.arrays {
                array.hotspot = Some(hotspot::find(array, whole.interval));
                array.amplification = Some(Amplification::new(array, whole.interval));
            }
        }
        None => *whole = Some(snapshot.clone()),
    }
}
