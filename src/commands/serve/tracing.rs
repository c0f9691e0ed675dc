//! The session of `serve`: adds up its intervals, checks the rules, and hands dumps over.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::watch;

use super::dump::{Dump, Dumper, say};
use super::flight::Memory;
use super::rules::{Fired, Rule, Rules};
use super::timeline::Timeline;
use super::totals::Totals;
use crate::analysis::item::WRITTEN_BECAUSE;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window::{self, Window};
use crate::machine::{ArrayState, Sys};
use crate::probe::Dirtied;
use crate::session::Session;
use crate::session::engine::Source;
use crate::session::recorder::{Recorder, RecorderOptions};
use crate::session::sampler::Sampler;

/// Length of an interval.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Time from the moment that a rule fires to the dump, so that the incident is in it.
const AFTER: Duration = Duration::from_secs(10);
/// Number of alerts kept for the page.
const ALERTS: usize = 32;
/// Size of the ring buffers in bytes.
const BUFFER: u32 = 8 << 20;

/// What the session's thread and the HTTP side share.
pub struct Shared {
    totals: Mutex<Totals>,
    timeline: Mutex<Timeline>,
    flight: Mutex<FlightNow>,
    /// The last interval; `None` before the first.
    pub latest: watch::Sender<Option<Arc<Snapshot>>>,
}

/// State of the flight recorder.
#[derive(Clone, Debug, Default)]
pub struct FlightNow {
    /// Bytes in memory; `None` without a flight recorder.
    pub bytes: Option<u64>,
    /// Time that they cover.
    pub span: Duration,
    /// True if there is a directory for dumps.
    pub dumps: bool,
    /// What became of the dumps so far.
    pub written: super::dump::Written,
    /// Rules that have fired, newest first.
    pub alerts: VecDeque<Alert>,
    /// Dumps that were asked for and are not begun.
    asked: Vec<String>,
    /// True if the programs could not be updated for the last change of the host.
    pub update_failed: bool,
}

/// A rule that has fired.
#[derive(Clone, Debug)]
pub struct Alert {
    /// When.
    pub time: jiff::Timestamp,
    /// The rule.
    pub rule: Rule,
    /// What was found.
    pub why: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Nothing has been counted yet. `dumps`: there is a directory for dumps.
    pub fn new(dumps: bool) -> Arc<Self> {
        Arc::new(Self {
            totals: Mutex::default(),
            timeline: Mutex::default(),
            flight: Mutex::new(FlightNow {
                dumps,
                ..FlightNow::default()
            }),
            latest: watch::Sender::new(None),
        })
    }

    /// The sums now.
    pub fn totals(&self) -> Totals {
        lock(&self.totals).clone()
    }

    /// The last hour.
    pub fn timeline(&self) -> MutexGuard<'_, Timeline> {
        lock(&self.timeline)
    }

    /// State of the flight recorder.
    pub fn flight(&self) -> FlightNow {
        lock(&self.flight).clone()
    }

    /// Asks for a dump. `why` becomes a note of the recording.
    ///
    /// # Errors
    /// There is no flight recorder, or no directory for dumps; or a dump is asked for already.
    pub fn ask_for_dump(&self, why: &str) -> Result<(), &'static str> {
        let mut flight = lock(&self.flight);
        if flight.bytes.is_none() || !flight.dumps {
            return Err(
                "raidtrace serve runs without --dump-dir, or with --keep 0: there is no recording to write",
            );
        }
        if !flight.asked.is_empty() {
            return Err("the last minutes are being written already");
        }
        flight.asked.push(why.to_owned());
        Ok(())
    }
}

/// Options of the session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Targets, as for [`Session::start`].
    pub targets: Vec<String>,
    /// Time that the flight recorder keeps; zero for none.
    pub keep: Duration,
    /// Bytes that it keeps at most.
    pub keep_bytes: u64,
    /// Rules of `--dump-on`.
    pub rules: Vec<Rule>,
    /// Add up tasks too.
    pub with_tasks: bool,
}

enum Tracer {
    /// Boxed: it is large, and there is one.
    Recorder(Box<Recorder<Memory>>, Window),
    Sampler(Box<Sampler>),
}

/// The session.
pub struct Tracing {
    tracer: Tracer,
    shared: Arc<Shared>,
    rules: Rules,
    with_tasks: bool,
    dumper: Option<Dumper>,
    /// Dump that is due after rules have fired: when, the first rule's word, and what was found.
    pending: Option<(Instant, String, Vec<String>)>,
}

impl Tracing {
    /// Starts the session. IO is counted from the moment this returns.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start(
        sys: Sys,
        options: &Options,
        dumper: Option<Dumper>,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let tracer = if options.keep.is_zero() {
            let sampler = Sampler::start(sys, &options.targets, true, Dirtied::Counted)?;
            Tracer::Sampler(Box::new(sampler))
        } else {
            let slow = options.rules.iter().filter_map(|rule| match rule {
                Rule::Slow(time) => Some(*time),
                _ => None,
            });
            let recorder = RecorderOptions {
                targets: options.targets.clone(),
                buffer: BUFFER,
                slow: slow.min(),
                ..RecorderOptions::default()
            };
            let memory = Memory::new(options.keep, options.keep_bytes);
            let recorder = Recorder::start(sys, memory, &recorder)?;
            lock(&shared.flight).bytes = Some(0);
            Tracer::Recorder(Box::new(recorder), Window::new(window::SPAN))
        };
        Ok(Self {
            tracer,
            shared,
            rules: Rules::new(options.rules.clone()),
            with_tasks: options.with_tasks,
            dumper,
            pending: None,
        })
    }

    fn states(&mut self) -> Vec<(String, Option<ArrayState>)> {
        let states = self.session().states();
        states
            .map(|(array, state)| (array.name.clone(), state.cloned()))
            .collect()
    }

    /// Keeps what the rules have found for the page, and for a dump.
    fn note(&mut self, fired: Vec<Fired>, now: Instant) {
        for Fired { rule, why, .. } in fired {
            say(&format!("{rule}: {why}"));
            let mut flight = lock(&self.shared.flight);
            flight.alerts.push_front(Alert {
                time: jiff::Timestamp::now(),
                rule,
                why: why.clone(),
            });
            flight.alerts.truncate(ALERTS);
            if self.dumper.is_some() {
                let word = rule.word().to_owned();
                let due = (now + AFTER, word, Vec::new());
                let (.., whys) = self.pending.get_or_insert(due);
                whys.push(format!("{rule}: {why}"));
            }
        }
    }

    /// Hands a dump over if one is due.
    fn dump(&mut self, now: Instant) -> Result<()> {
        let asked = mem::take(&mut lock(&self.shared.flight).asked);
        let is_due = self.pending.as_ref().is_some_and(|(due, ..)| *due <= now);
        let (word, whys) = match self.pending.take_if(|_| is_due) {
            Some((_, word, whys)) => (word, [whys, asked].concat()),
            None if asked.is_empty() => return Ok(()),
            None => ("asked".to_owned(), asked),
        };
        let (Tracer::Recorder(recorder, _), Some(dumper)) = (&mut self.tracer, &self.dumper) else {
            return Ok(());
        };
        for why in whys {
            let time = jiff::Timestamp::now().strftime("%H:%M:%SZ");
            recorder.note(format!("{WRITTEN_BECAUSE}{why} ({time})"))?;
        }
        let dump = Dump {
            kept: recorder.settled()?.kept(),
            rule: word,
            time: jiff::Timestamp::now(),
        };
        if !dumper.dump(dump) {
            say("a dump was left out: the directory for dumps is too slow");
        }
        Ok(())
    }
}

impl Source for Tracing {
    type Interval = ();
    type Total = ();
    const ON_TIME: bool = true;

    fn session(&mut self) -> &mut Session {
        match &mut self.tracer {
            Tracer::Recorder(recorder, _) => recorder.session(),
            Tracer::Sampler(sampler) => sampler.session(),
        }
    }

    fn notes(&self) -> Vec<String> {
        match &self.tracer {
            Tracer::Recorder(recorder, _) => recorder.notes(),
            Tracer::Sampler(sampler) => sampler.notes(),
        }
    }

    fn drain_every(&self) -> Option<Duration> {
        match &self.tracer {
            Tracer::Recorder(recorder, _) => recorder.drain_every(),
            Tracer::Sampler(sampler) => sampler.drain_every(),
        }
    }

    fn drain(&mut self) -> Result<bool> {
        match &mut self.tracer {
            Tracer::Recorder(recorder, _) => recorder.drain(),
            Tracer::Sampler(sampler) => sampler.drain(),
        }
    }

    fn update(&mut self) -> Result<()> {
        match &mut self.tracer {
            Tracer::Recorder(recorder, _) => recorder.update(),
            Tracer::Sampler(sampler) => sampler.update(),
        }
    }

    fn interval(&mut self) -> Result<()> {
        let now = Instant::now();
        let (snapshot, merged) = match &mut self.tracer {
            Tracer::Recorder(recorder, window) => {
                let mut snapshot = recorder.interval()?;
                window.evaluate(&mut snapshot);
                (snapshot, window.merged())
            }
            Tracer::Sampler(sampler) => {
                let snapshot = sampler.interval()?;
                (snapshot, sampler.window().merged())
            }
        };
        let merged = merged.unwrap_or_else(|| snapshot.clone());
        let states = self.states();
        {
            let mut totals = lock(&self.shared.totals);
            totals.add(&snapshot, &merged, self.with_tasks);
            for (array, state) in &states {
                totals.set_state(array, state.clone());
            }
        }
        self.shared.timeline().add(&snapshot);
        let known = states
            .iter()
            .filter_map(|(array, state)| Some((array.as_str(), state.as_ref()?)));
        let fired = self.rules.check(&snapshot, &merged, known, now);
        self.note(fired, now);
        self.dump(now)?;
        let update_failed = self.session().update_failed();
        let mut flight = lock(&self.shared.flight);
        flight.update_failed = update_failed;
        if let Tracer::Recorder(recorder, _) = &self.tracer {
            let memory = recorder.storage();
            (flight.bytes, flight.span) = (Some(memory.bytes()), memory.span());
        }
        if let Some(dumper) = &self.dumper {
            flight.written = dumper.written();
        }
        drop(flight);
        self.shared.latest.send_replace(Some(Arc::new(snapshot)));
        Ok(())
    }

    fn finish(self) {}
}
