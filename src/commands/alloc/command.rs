//! `raidtrace alloc`: watches the allocator until a signal or an option ends it.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::watch;

use super::args::Alloc;
use super::replay::Intervals;
use super::{json, screen, text};
use crate::analysis::alloc::AllocSnapshot;
use crate::analysis::alloc::window::Window;
use crate::analysis::alloc::{figures, fold, reason};
use crate::analysis::item::{Item, State};
use crate::analysis::profile::Profile;
use crate::commands::alloc::tree::Tree;
use crate::machine::output::{Destination, Output, Pending};
use crate::machine::signals::{End, asked_to_end};
use crate::recording::alloc::{Interval, Recorded};
use crate::recording::header::Header;
use crate::recording::writer::{Options, Writer};
use crate::session::alloc::sampler::{AllocOptions, AllocSampler};
use crate::ui::lines::{ended, say, success_if_nobody_reads};
use crate::ui::palette::Depth;

/// Interval of draining the samples' buffer.
const TICK: Duration = Duration::from_millis(100);
/// An interval is a row, and a batch is written after each.
const RECORDING: Options = Options {
    level: 1,
    rows: 64,
    waiting: 16,
};

/// Runs until Ctrl-C, a signal, `--count`, `--duration` or the reader of a pipe ends it.
pub fn run(args: &Alloc) -> Result<()> {
    if let Some(file) = &args.replay {
        return replayed(file, args);
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "raidtrace alloc needs root, to load its programs into the kernel: sudo raidtrace alloc"
        );
    }
    if args.hertz == 0 && (args.folded.is_some() || args.flame.is_some()) {
        bail!("--folded and --flame are made of samples: leave --hertz 0 out");
    }
    let [record, folded, flame] = outputs(args)?;
    let runtime = runtime()?;
    // Before the programs are loaded, which takes a second: Ctrl-C ends cleanly from here on.
    let end = asked_to_end()?;
    let options = AllocOptions {
        hertz: args.hertz,
        all: args.all,
        mb_stats: args.mb_stats,
        groups: args.groups,
        keep_counting: args.keep_counting,
    };
    let mut sampler = AllocSampler::start(&args.targets, options)?;
    let header = sampler.header(&args.targets);
    let record = record.map(|out| Record::create(out, &header)).transpose()?;
    let mut watching = Watching {
        sampler,
        record,
        whole: None,
        left: args.count,
        end: args.duration.map(|d| Instant::now() + d),
    };
    let on_screen = !args.batch && !args.json && io::stdout().is_terminal();
    let result = runtime.block_on(async {
        if on_screen {
            watching.on_screen(args, end).await
        } else {
            watching.as_text(args, end).await
        }
    });
    let recorded = watching.record.take().map_or(Ok(()), Record::finish);
    let written = pictures(watching.sampler.whole(), folded, flame);
    result.and(recorded).and(written)
}

/// The outputs beside the report: recording, folded stacks, flame graph.
fn outputs(args: &Alloc) -> Result<[Option<Out>; 3]> {
    let outputs = [&args.record, &args.folded, &args.flame];
    let mut names: Vec<_> = outputs.into_iter().flatten().collect();
    names.sort();
    if names.windows(2).any(|w| w[0] == w[1]) {
        bail!("two outputs in one file: give each of --record, --folded and --flame its own");
    }
    let open = |path: &Option<PathBuf>| {
        let path = path.as_deref();
        path.map(|path| Out::new(path, args.force)).transpose()
    };
    let [record, folded, flame] = outputs.map(open);
    Ok([record?, folded?, flame?])
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
            if ended(&mut left) {
                break;
            }
        }
        say(&intervals.finish()?, &mut HashSet::new());
    } else {
        let all = intervals.read_all()?;
        let notes = intervals.finish()?;
        all.iter()
            .for_each(|interval| whole.merge(&interval.stacks));
        let end = asked_to_end()?;
        runtime()?.block_on(screen::replay(all, Depth::from_env(), end))?;
        say(&notes, &mut HashSet::new());
    }
    pictures(&whole, folded, flame)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}

struct Watching {
    sampler: AllocSampler,
    record: Option<Record>,
    whole: Option<AllocSnapshot>,
    left: Option<u64>,
    end: Option<Instant>,
}

impl Watching {
    /// Samples intervals and sends them to the screen, which runs on the same thread.
    async fn on_screen(&mut self, args: &Alloc, end: End) -> Result<()> {
        let (snapshots, shown) = watch::channel(None);
        let (interval, mut wanted) = watch::channel(args.interval);
        let mut window = Window::default();
        let sample = async {
            loop {
                let period = *wanted.borrow_and_update();
                tokio::select! {
                    over = self.wait(period) => over?,
                    // A new interval begins at once, so that + and - are felt.
                    changed = wanted.changed() => if changed.is_err() { return Ok(()) },
                }
                let (snapshot, last) = self.next()?;
                let snapshot = window.push(snapshot);
                let tree = Tree::new(self.sampler.whole());
                if snapshots.send(Some(Arc::new((snapshot, tree)))).is_err() || last {
                    return Ok(());
                }
            }
        };
        let (result, cut) = tokio::select! {
            result = screen::run(shown, interval, Depth::from_env(), end) => (result, true),
            result = sample => (result, false),
        };
        // The last interval, cut short.
        if cut && result.is_ok() {
            self.next()?;
        }
        // Leave a summary on the terminal.
        if let Some(whole) = &self.whole {
            success_if_nobody_reads(text::write(&mut io::stdout().lock(), whole))?;
        }
        result
    }

    /// Prints each interval; the last one may be cut short by a signal.
    async fn as_text(&mut self, args: &Alloc, mut end: End) -> Result<()> {
        let mut said = HashSet::new();
        say(&self.sampler.notes(), &mut said);
        let mut out = io::stdout().lock();
        let mut intervals = 0;
        loop {
            let asked = tokio::select! {
                over = self.wait(args.interval) => { over?; false }
                () = &mut end => true,
            };
            let (snapshot, last) = self.next()?;
            intervals += 1;
            say(&figures::notes(&snapshot), &mut said);
            let written = if args.json {
                json::write(&mut out, &snapshot)
            } else {
                text::write(&mut out, &snapshot)
            };
            match written.and_then(|()| out.flush()) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(e) => return Err(e).context("writing the figures"),
            }
            if asked || last {
                break;
            }
        }
        match &self.whole {
            Some(whole) if !args.json && intervals > 1 => success_if_nobody_reads(
                writeln!(out, "in all:").and_then(|()| text::write(&mut out, whole)),
            ),
            _ => Ok(()),
        }
    }

    /// Waits for the end of the interval or of the duration.
    async fn wait(&mut self, period: Duration) -> Result<()> {
        let over = Instant::now() + period;
        let over = self.end.map_or(over, |end| over.min(end));
        let mut tick = tokio::time::interval(TICK.min(period));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while Instant::now() < over {
            tokio::select! {
                _ = tick.tick() => self.sampler.tick()?,
                () = tokio::time::sleep_until(over.into()) => {}
            }
        }
        Ok(())
    }

    /// Snapshot of the interval, and true if it is the last one.
    fn next(&mut self) -> Result<(AllocSnapshot, bool)> {
        let snapshot = self.sampler.snapshot()?;
        match &mut self.whole {
            Some(whole) => {
                fold::add(whole, &snapshot);
                reason::judge(whole);
            }
            None => self.whole = Some(snapshot.clone()),
        }
        if let Some(record) = &mut self.record {
            record.write(&Interval::item(&snapshot, self.sampler.last())?)?;
        }
        let over = self.end.is_some_and(|end| Instant::now() >= end);
        Ok((snapshot, ended(&mut self.left) || over))
    }
}

/// A file beside the report.
struct Out {
    destination: Destination,
    name: String,
}

impl Out {
    fn new(path: &Path, force: bool) -> Result<Self> {
        Ok(Self {
            destination: Destination::beside_stdout(path, force)?,
            name: path.display().to_string(),
        })
    }

    /// Creates the file with all of its content.
    fn write(self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let written = self.destination.open().and_then(|out| out.write(content));
        written.with_context(|| format!("writing {}", self.name))
    }
}

/// The recording of `--record`.
struct Record {
    writer: Writer,
    name: String,
}

impl Record {
    /// Creates the file with `header` and a first state, which is empty: it counts no requests.
    fn create(out: Out, header: &Header) -> Result<Self> {
        let Out { destination, name } = out;
        let begin = || {
            let Output { file, mut pending } = destination.open()?;
            let mut writer = Writer::create(file, header, RECORDING)?;
            let time_us = jiff::Timestamp::now().as_microsecond();
            writer.push(&Item::State(Box::new(State {
                time_us,
                ..State::default()
            })))?;
            writer.settle()?;
            pending.as_mut().map_or(Ok(()), Pending::commit)?;
            Ok::<_, io::Error>(writer)
        };
        let writer = begin().with_context(|| format!("creating {name}"))?;
        Ok(Self { writer, name })
    }

    fn write(&mut self, interval: &Item) -> Result<()> {
        let written = self.writer.push(interval);
        let written = written.and_then(|()| self.writer.flush());
        written.with_context(|| format!("writing {}: earlier intervals can be read", self.name))
    }

    fn finish(self) -> Result<()> {
        let written = self.writer.finish();
        let written = written.with_context(|| format!("ending {}", self.name))?;
        if written.dropped > 0 {
            let (n, name) = (written.dropped, &self.name);
            let note = format!("{name}: {n} intervals are missing: the disk was too slow");
            say(&[note], &mut HashSet::new());
        }
        Ok(())
    }
}

fn pictures(profile: &Profile, folded: Option<Out>, flame: Option<Out>) -> Result<()> {
    if profile.stacks().next().is_none() && profile.other() == 0 {
        for out in folded.iter().chain(&flame) {
            let _ = writeln!(
                io::stderr(),
                "raidtrace: note: {} is not made: no sample had a stack that is kept (--all keeps those outside of ext4, jbd2, md and \
                 the block layer too)",
                out.name
            );
        }
        return Ok(());
    }
    if let Some(folded) = folded {
        folded.write(|mut out| profile.write_folded(&mut out))?;
    }
    if let Some(flame) = flame {
        let title = "raidtrace alloc: kernel stacks";
        flame.write(|mut out| profile.write_svg(title, &mut out))?;
    }
    Ok(())
}
