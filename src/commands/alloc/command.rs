//! `raidtrace alloc`: watches the allocator until it is told to end, and says what it found.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::watch;

use super::args::Alloc;
use super::{json, replay, screen, text};
use crate::analysis::alloc::AllocSnapshot;
use crate::analysis::alloc::window::Window;
use crate::analysis::alloc::{figures, fold, reason};
use crate::analysis::profile::Profile;
use crate::commands::alloc::tree::Tree;
use crate::machine::output::{Destination, Output};
use crate::session::alloc::sampler::{AllocOptions, AllocSampler};
use crate::ui::lines::{ended, say, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::screen::End;
use crate::ui::screen::asked_to_end;

/// Samples wait in their buffer for so long.
const TICK: Duration = Duration::from_millis(100);

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
    let outputs = [&args.record, &args.folded, &args.flame];
    if args.hertz == 0 && (args.folded.is_some() || args.flame.is_some()) {
        bail!("--folded and --flame are made of samples: leave --hertz 0 out");
    }
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
    let (record, folded, flame) = (record?, folded?, flame?);
    let runtime = runtime()?;
    // Before the programs are loaded, which takes a second: Ctrl-C ends cleanly from here on.
    let end = runtime.block_on(async { asked_to_end() })?;
    let options = AllocOptions {
        hertz: args.hertz,
        all: args.all,
        mb_stats: args.mb_stats,
        groups: args.groups,
        keep_counting: args.keep_counting,
    };
    let mut watching = Watching {
        sampler: AllocSampler::start(&args.targets, options)?,
        record: record.map(Record::create).transpose()?,
        whole: None,
        left: args.count,
        end: args.duration.map(|d| Instant::now() + d),
    };
    let on_screen = !args.batch && !args.json && io::stdout().is_terminal();
    let result = runtime.block_on(async {
        if on_screen {
            watching.on_the_screen(args, end).await
        } else {
            watching.as_text(args, end).await
        }
    });
    let written = pictures(watching.sampler.whole(), folded, flame);
    result.and(written)
}

/// What was recorded: all of it as text or JSON, or in the screen at the pace of then.
fn replayed(file: &Path, args: &Alloc) -> Result<()> {
    if args.batch || args.json || !io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        for (number, snapshot) in (1u64..).zip(replay::lines(file)?) {
            let snapshot = snapshot.with_context(|| format!("cannot read {}", file.display()))?;
            let written = if args.json {
                json::write(&mut out, &snapshot)
            } else {
                text::write(&mut out, &snapshot)
            };
            match written {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other.context("writing the figures")?,
            }
            if args.count == Some(number) {
                break;
            }
        }
        return Ok(());
    }
    runtime()?.block_on(async {
        let intervals = replay::read(file)?;
        screen::replay(intervals, Depth::from_env(), asked_to_end()?).await
    })
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
    /// The screen draws what this sends; both live in this one thread.
    async fn on_the_screen(&mut self, args: &Alloc, end: End) -> Result<()> {
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
                let tree = Tree::of(self.sampler.whole());
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
        // The screen is gone; what it showed should not be.
        if let Some(whole) = &self.whole {
            success_if_nobody_reads(text::write(&mut io::stdout().lock(), whole))?;
        }
        result
    }

    /// One rendering an interval; the last one, cut short, when a signal ends it.
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

    /// Until the interval is over, or all of it.
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

    /// An interval, and whether it is the last one.
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
            record.write(&snapshot)?;
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

/// The lines of `--json`, kept.
struct Record {
    out: Output,
    name: String,
    /// Bytes of whole lines.
    whole: u64,
}

impl Record {
    fn create(out: Out) -> Result<Self> {
        let Out { destination, name } = out;
        Ok(Self {
            out: destination
                .open()
                .with_context(|| format!("creating {name}"))?,
            name,
            whole: 0,
        })
    }

    /// Whole lines only, so that what is there can be read at any time; also when the disk is full. The first line makes it
    /// FILE, and replaces an older one.
    fn write(&mut self, snapshot: &AllocSnapshot) -> Result<()> {
        let mut line = Vec::new();
        json::write(&mut line, snapshot)?;
        let file = &mut self.out.file;
        let written = file.write_all(&line).inspect_err(|_| {
            let _ = file.set_len(self.whole);
        });
        written
            .and_then(|()| self.out.commit())
            .with_context(|| format!("writing {}: what it has until now can be read", self.name))?;
        self.whole += line.len() as u64;
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
        let title = "raidtrace alloc: what the CPUs did in the kernel";
        flame.write(|mut out| profile.write_svg(title, &mut out))?;
    }
    Ok(())
}
