//! The session of `serve`: adds up intervals, checks the rules, and queues dumps.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::watch;

use super::cgroups;
#[cfg(feature = "export")]
use super::dataset::DatasetWriter;
use super::dump::{ASKED, Dump, Dumper, log_line};
use super::flight::Memory;
use super::rules::{DumpRule, FiredRule, Rules};
use super::timeline::LastHour;
use super::totals::Totals;
use crate::analysis::fail_slow::Peers;
use crate::analysis::hotspot;
use crate::analysis::item::WRITTEN_BECAUSE;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::verdict;
use crate::analysis::window::{self, Window};
use crate::machine::{ArrayState, Sys};
use crate::probe::DirtiedCounting;
use crate::session::Session;
use crate::session::engine::EngineSource;
use crate::session::recorder::{Recorder, RecorderOptions};
use crate::session::sampler::Sampler;

pub const INTERVAL: Duration = Duration::from_secs(1);
/// Delay between a rule firing and the dump, so that the dump contains the whole incident.
const DUMP_DELAY: Duration = Duration::from_secs(10);
/// Maximum age of the last interval of a healthy session.
pub const MAX_FRESH_AGE: Duration = Duration::from_secs(10);
/// Shortest time between two requests of a dump by SIGUSR1, or by a client with the token.
pub const MIN_REQUEST_PAUSE: Duration = Duration::from_secs(10);
/// The same for requests without a token, which every process of this machine can send.
pub const MIN_OPEN_REQUEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum wait for unfinished dumps at the end.
const MAX_LAST_DUMPS_WAIT: Duration = Duration::from_secs(8);
/// Maximum number of alerts kept for the web page.
const MAX_ALERTS: usize = 32;
/// Size of the ring buffers in bytes.
const BUFFER: u32 = 8 << 20;

/// State shared by the session's thread and the HTTP side.
pub struct Shared {
    totals: Mutex<Totals>,
    timeline: Mutex<LastHour>,
    flight: Mutex<FlightNow>,
    /// The last interval; `None` before the first interval.
    pub latest: watch::Sender<Option<Arc<Snapshot>>>,
    /// Monotonic time at which the last interval ended. The time of a snapshot follows the host's
    /// clock, which can be set.
    ended: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug, Default)]
pub struct FlightNow {
    /// Bytes in memory; `None` without a flight recorder.
    pub bytes: Option<u64>,
    /// Time that the recording in memory covers.
    pub span: Duration,
    /// True if there is a directory for dumps.
    pub dumps: bool,
    pub written: super::dump::DumpResults,
    /// Rules that have fired, newest first.
    pub alerts: VecDeque<Alert>,
    /// Rows of the recording that were dropped because the writer was too slow.
    pub dropped_rows: u64,
    /// Slow operations, commits and events missing from the recording.
    pub slow_lost: u64,
    /// Reasons of requested dumps that have not started.
    asked: Vec<String>,
    /// Time of the last request for a dump.
    asked_at: Option<Instant>,
    /// True if the programs could not be updated for the last change of the host.
    pub update_failed: bool,
}

#[derive(Clone, Debug)]
pub struct Alert {
    pub time: jiff::Timestamp,
    pub rule: DumpRule,
    /// Finding, as a sentence.
    pub why: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Initial state without figures. `dumps` is true if there is a directory for dumps.
    pub fn new(dumps: bool) -> Arc<Self> {
        Arc::new(Self {
            totals: Mutex::default(),
            timeline: Mutex::default(),
            flight: Mutex::new(FlightNow { dumps, ..FlightNow::default() }),
            latest: watch::Sender::new(None),
            ended: Mutex::default(),
        })
    }

    /// Time since the last interval ended; `None` before the first interval.
    pub fn age(&self) -> Option<Duration> {
        lock(&self.ended).map(|ended| ended.elapsed())
    }

    pub fn totals(&self) -> Totals {
        lock(&self.totals).clone()
    }

    /// The last hour.
    pub fn timeline(&self) -> MutexGuard<'_, LastHour> {
        lock(&self.timeline)
    }

    pub fn flight(&self) -> FlightNow {
        lock(&self.flight).clone()
    }

    /// Requests a dump. `why` becomes a note in the recording.
    ///
    /// # Errors
    /// There is no flight recorder or no directory for dumps, no interval has ended in the last 10
    /// s, or a dump was requested less than `pause` ago.
    pub fn request_dump(&self, why: &str, pause: Duration) -> Result<(), String> {
        let mut flight = lock(&self.flight);
        if !flight.dumps {
            return Err("raidtrace serve runs without --dump-dir, or with --keep 0: there is no \
                        recording to write"
                .to_owned());
        }
        match self.age() {
            None => {
                return Err("raidtrace serve is still starting: there is no recording yet".into());
            }
            Some(age) if age > MAX_FRESH_AGE => {
                return Err("no interval has ended for 10 s: a device or sysfs does not respond, \
                            and the recording cannot be written"
                    .to_owned());
            }
            Some(_) => {}
        }
        if flight.asked_at.is_some_and(|at| at.elapsed() < pause) {
            let pause = pause.as_secs();
            return Err(format!("a dump was requested less than {pause} s ago: try again later"));
        }
        flight.asked_at = Some(Instant::now());
        flight.asked.push(why.to_owned());
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub struct TracingOptions {
    /// Targets, as for [`Session::start`].
    pub targets: Vec<String>,
    /// Time that the flight recorder keeps; zero disables it.
    pub keep: Duration,
    /// Maximum number of bytes that the flight recorder keeps.
    pub keep_bytes: u64,
    pub rules: Vec<DumpRule>,
    /// Add up tasks too.
    pub with_tasks: bool,
    /// Add up cgroups too, at most this many.
    pub max_cgroups: Option<usize>,
}

/// Removes tasks from the snapshots and from the headlines.
fn without_tasks(snapshot: &mut Snapshot, window: &mut Snapshot) {
    for array in &mut window.arrays {
        array.tasks.clear();
    }
    for array in &mut snapshot.arrays {
        array.tasks.clear();
        let over = window.arrays.iter().find(|a| a.info.name == array.info.name);
        array.hotspot = over.map(|over| hotspot::find(over, window.interval));
        if let Some(mut verdict) = array.verdict.take() {
            verdict.hide_tasks();
            verdict::lead(array, verdict);
        }
    }
}

enum Tracer {
    /// Boxed, because a recorder is large.
    Recorder(Box<Recorder<Memory>>, Window),
    Sampler(Box<Sampler>),
}

/// Threads that write files.
pub struct Writers {
    pub dumper: Option<Dumper>,
    #[cfg(feature = "export")]
    pub dataset: Option<DatasetWriter>,
}

pub struct Tracing {
    tracer: Tracer,
    shared: Arc<Shared>,
    rules: Rules,
    peers: Peers,
    with_tasks: bool,
    max_cgroups: Option<usize>,
    writers: Writers,
    /// Pending dump after rules have fired: due time, name of the first rule, and findings.
    pending: Option<(Instant, String, Vec<String>)>,
}

impl Tracing {
    /// Starts the session. When this returns, IO is being counted.
    ///
    /// # Errors
    /// See [`Session::start`].
    pub fn start(
        sys: Sys,
        options: &TracingOptions,
        writers: Writers,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        let tracer = if options.keep.is_zero() {
            let sampler = Sampler::start(sys, &options.targets, true, DirtiedCounting::Counted)?;
            Tracer::Sampler(Box::new(sampler))
        } else {
            let slow = options.rules.iter().filter_map(|rule| match rule {
                DumpRule::Slow(time) => Some(*time),
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
            peers: Peers::default(),
            with_tasks: options.with_tasks,
            max_cgroups: options.max_cgroups,
            writers,
            pending: None,
        })
    }

    fn states(&mut self) -> Vec<(String, Option<ArrayState>)> {
        let states = self.session().states();
        states.map(|(array, state)| (array.name.clone(), state.cloned())).collect()
    }

    /// Stores the findings of the rules for the web page and for a dump.
    fn note(&mut self, fired: Vec<FiredRule>, now: Instant) {
        for FiredRule { rule, why, .. } in fired {
            log_line(&format!("{rule}: {why}"));
            let mut flight = lock(&self.shared.flight);
            flight.alerts.push_front(Alert {
                time: jiff::Timestamp::now(),
                rule,
                why: why.clone(),
            });
            flight.alerts.truncate(MAX_ALERTS);
            if self.writers.dumper.is_some() {
                let name = rule.name().to_owned();
                let due = (now + DUMP_DELAY, name, Vec::new());
                let (.., whys) = self.pending.get_or_insert(due);
                whys.push(format!("{rule}: {why}"));
            }
        }
    }

    /// Rows, operations and commits that the recorder has lost since the last call.
    fn recorder_lost(&mut self) -> u64 {
        let Tracer::Recorder(recorder, _) = &self.tracer else {
            return 0;
        };
        let (rows, slow) = (recorder.written().dropped, recorder.slow_lost());
        let mut flight = lock(&self.shared.flight);
        let before = flight.dropped_rows + flight.slow_lost;
        (flight.dropped_rows, flight.slow_lost) = (rows, slow);
        (rows + slow).saturating_sub(before)
    }

    /// Queues a dump if one is due.
    fn dump(&mut self, now: Instant) -> Result<()> {
        let asked = mem::take(&mut lock(&self.shared.flight).asked);
        let is_due = self.pending.as_ref().is_some_and(|(due, ..)| *due <= now);
        let (rule, whys) = match self.pending.take_if(|_| is_due) {
            Some((_, rule, whys)) => (rule, [whys, asked].concat()),
            None if asked.is_empty() => return Ok(()),
            None => (ASKED.to_owned(), asked),
        };
        let (Tracer::Recorder(recorder, _), Some(dumper)) =
            (&mut self.tracer, &self.writers.dumper)
        else {
            return Ok(());
        };
        for why in whys {
            let time = jiff::Timestamp::now().strftime("%H:%M:%SZ");
            recorder.note(format!("{WRITTEN_BECAUSE}{why} ({time})"))?;
        }
        let dump =
            Dump { recording: recorder.settled()?.copy(), rule, time: jiff::Timestamp::now() };
        if !dumper.dump(dump) {
            log_line("a dump was skipped: writing to the directory for dumps is too slow");
        }
        Ok(())
    }
}

impl EngineSource for Tracing {
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
        let (mut snapshot, merged) = match &mut self.tracer {
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
        let mut merged = merged.unwrap_or_else(|| snapshot.clone());
        let cgroups = self.max_cgroups.map(|max| (cgroups::figures(&snapshot, &merged), max));
        if !self.with_tasks {
            without_tasks(&mut snapshot, &mut merged);
        }
        let states = self.states();
        self.peers.add(&snapshot);
        {
            let mut totals = lock(&self.shared.totals);
            totals.add(&snapshot, &merged, self.with_tasks);
            if let Some((cgroups, max)) = &cgroups {
                totals.add_cgroups(cgroups.clone(), snapshot.interval, *max);
            }
            totals.fail_slow.clone_from(self.peers.found());
            for (array, state) in &states {
                totals.set_state(array, state.clone());
            }
        }
        self.shared.timeline().add(&snapshot);
        let known =
            states.iter().filter_map(|(array, state)| Some((array.as_str(), state.as_ref()?)));
        let recorder_lost = self.recorder_lost();
        let fail_slow = self.peers.found();
        let fired = self.rules.check(&snapshot, &merged, fail_slow, known, recorder_lost, now);
        self.note(fired, now);
        self.dump(now)?;
        let update_failed = self.session().update_failed();
        let mut flight = lock(&self.shared.flight);
        flight.update_failed = update_failed;
        if let Tracer::Recorder(recorder, _) = &self.tracer {
            let memory = recorder.storage();
            (flight.bytes, flight.span) = (Some(memory.bytes()), memory.span());
        }
        if let Some(dumper) = &self.writers.dumper {
            flight.written = dumper.written();
        }
        drop(flight);
        let snapshot = Arc::new(snapshot);
        #[cfg(feature = "export")]
        if let Some(dataset) = &mut self.writers.dataset {
            dataset.add(&snapshot, cgroups.map(|(cgroups, _)| cgroups));
        }
        self.shared.latest.send_replace(Some(snapshot));
        *lock(&self.shared.ended) = Some(Instant::now());
        Ok(())
    }

    /// Writes pending and requested dumps.
    fn finish(mut self) {
        let written = self.drain().and_then(|_| self.dump(Instant::now() + DUMP_DELAY));
        if let Err(error) = written {
            log_line(&format!("the last minutes could not be written: {error:#}"));
        }
        #[cfg(feature = "export")]
        let dataset = self.writers.dataset.map(DatasetWriter::close);
        if let Some(dumper) = self.writers.dumper {
            dumper.finish(MAX_LAST_DUMPS_WAIT);
        }
        #[cfg(feature = "export")]
        if let Some(dataset) = dataset {
            dataset.finish(MAX_LAST_DUMPS_WAIT);
        }
    }
}
