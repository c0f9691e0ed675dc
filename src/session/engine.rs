//! Runs an [`EngineSource`] on its own thread and sends its intervals to the command, so that keys
//! and drawing never wait for programs to load, for paths or for sysfs.

use std::future::Future;
use std::sync::mpsc as orders;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Session;
use crate::machine::Mdstat;
use crate::machine::privileges;

/// Name of the thread. A task that reads an array's devices is shown with its name, so it must
/// identify raidtrace: 15 bytes at most (TASK_COMM_LEN).
const THREAD: &str = "raidtrace:trace";
/// Pause before checking again whether the consumer has taken the last interval.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// Polling interval while waiting for the thread to end.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time limit for the last interval of a running source. Longer than a busy machine needs; limited
/// because a device or sysfs may hang.
pub const MAX_LAST_WAIT: Duration = Duration::from_secs(10);

/// The work of an engine. Created, used and finished on the engine's thread.
pub trait EngineSource {
    /// Figures of one interval.
    type Interval: Send + 'static;
    /// Result of the whole run.
    type Total: Send + 'static;
    /// True if each interval ends on time and is dropped if the consumer is busy. False if an
    /// interval is extended until the consumer has taken the previous one.
    const ON_TIME: bool = false;

    fn session(&mut self) -> &mut Session;

    /// Limits of this kernel and host, and changes during the run.
    fn notes(&self) -> Vec<String>;

    /// Longest time between two calls of [`EngineSource::drain`]; `None` if there is nothing to
    /// drain. Each call wakes a CPU.
    fn drain_every(&self) -> Option<Duration> {
        None
    }

    /// Drains the programs' buffers. True if the run is to end.
    ///
    /// # Errors
    /// The run cannot continue.
    fn drain(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Applies pending changes of the host within the interval.
    ///
    /// # Errors
    /// The run cannot continue.
    fn update(&mut self) -> Result<()>;

    /// Ends the interval.
    ///
    /// # Errors
    /// The run cannot continue.
    fn interval(&mut self) -> Result<Self::Interval>;

    /// Ends the run, also after an error.
    fn finish(self) -> Self::Total;
}

/// A message of an engine.
#[derive(Debug)]
pub enum Tick<I> {
    /// IO is counted from now on. The first tick.
    Started {
        /// Names of the traced arrays and disks, see [`Session::subjects`].
        subjects: String,
        /// [`EngineSource::notes`].
        notes: Vec<String>,
    },
    /// All notes, after they have changed.
    Notes(Vec<String>),
    /// An interval has ended.
    Interval(I),
}

/// A request from the consumer.
enum EngineRequest {
    /// End the interval, and use this length for the following ones.
    Interval(Duration),
    MdEvent,
    /// End the interval, then the run.
    Last,
    End,
}

/// Result of a run.
#[derive(Debug)]
pub struct Ended<T> {
    /// `Err` with the reason if the run ended early.
    pub result: Result<()>,
    /// [`EngineSource::finish`].
    pub total: T,
}

/// A running source.
pub struct Engine<I, T> {
    ticks: mpsc::Receiver<Tick<I>>,
    orders: orders::Sender<EngineRequest>,
    thread: JoinHandle<Result<Ended<T>>>,
    /// True after the first tick.
    has_started: bool,
    /// True after [`Engine::last_interval`].
    is_last: bool,
}

/// A runtime for the consumer of an engine, on this thread.
///
/// # Errors
/// It cannot be created.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}

impl<I: Send + 'static, T: Send + 'static> Engine<I, T> {
    /// Starts a thread that calls `start`, and then ends an interval after `first` and after each
    /// `period`.
    ///
    /// # Errors
    /// The thread cannot be created. An error of `start` is returned by [`Engine::end`].
    pub fn start<S>(
        start: impl FnOnce() -> Result<S> + Send + 'static,
        first: Duration,
        period: Duration,
    ) -> Result<Self>
    where
        S: EngineSource<Interval = I, Total = T>,
    {
        let (sender, ticks) = mpsc::channel(1);
        let (orders, received) = orders::channel();
        let events = orders.clone();
        let body = move || {
            // Before any other thread is started.
            privileges::keep_for_reload();
            let mut source = start()?;
            watch_md(&mut source, events);
            let schedule = Schedule::new(first, period);
            let result = run(&mut source, schedule, &sender, &received);
            // Signal the end of the ticks now, because finishing can take long.
            drop(sender);
            Ok(Ended { result, total: source.finish() })
        };
        let thread = thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(body)
            .context("starting the session's thread")?;
        Ok(Self { ticks, orders, thread, has_started: false, is_last: false })
    }

    /// Waits for the next tick; `None` after the last one. Cancel safe.
    pub async fn tick(&mut self) -> Option<Tick<I>> {
        let tick = self.ticks.recv().await;
        self.has_started |= tick.is_some();
        tick
    }

    /// Waits for the next tick. When `end` completes, ends the interval; the tick of that interval
    /// is the last one. Returns `None` after the last tick, or if the last tick does not arrive
    /// within [`MAX_LAST_WAIT`]. The wait for the first tick (loading the programs) has no limit.
    pub async fn tick_or_last(
        &mut self,
        end: &mut (impl Future<Output = ()> + Unpin),
    ) -> Option<Tick<I>> {
        if !self.is_last {
            tokio::select! {
                tick = self.tick() => return tick,
                () = end => self.last_interval(),
            }
        }
        if !self.has_started {
            return self.tick().await;
        }
        let last = tokio::time::timeout(MAX_LAST_WAIT, self.tick()).await;
        last.ok().flatten()
    }

    /// Returns the next tick if it has already arrived.
    pub fn try_tick(&mut self) -> Option<Tick<I>> {
        let tick = self.ticks.try_recv().ok();
        self.has_started |= tick.is_some();
        tick
    }

    /// True after the last tick.
    pub fn has_ended(&self) -> bool {
        self.ticks.is_closed() && self.ticks.is_empty()
    }

    /// Ends the interval now, and sets the length of the following ones.
    pub fn set_interval(&self, period: Duration) {
        self.order(EngineRequest::Interval(period));
    }

    /// Ends the interval now. The tick of this interval is the last one.
    pub fn last_interval(&mut self) {
        self.is_last = true;
        self.order(EngineRequest::Last);
    }

    /// Ends the run and waits for its result.
    ///
    /// # Errors
    /// The source could not be started, its thread has panicked, or it has started and its last
    /// interval does not end within `patience`.
    pub fn end(mut self, patience: Option<Duration>) -> Result<Ended<T>> {
        self.order(EngineRequest::End);
        let start = Instant::now();
        // Then the source detaches its programs, which has no limit: for each hooked function a
        // preemptible kernel waits for all tasks (synchronize_rcu_tasks()).
        while !self.has_ended() {
            let _ = self.ticks.try_recv();
            let limit = patience.filter(|_| self.has_started);
            if let Some(limit) = limit.filter(|limit| start.elapsed() >= *limit) {
                bail!(
                    "tracing did not end within {} s: a device or a file in /sys does not \
                     respond; the kernel removes the programs when this process exits",
                    limit.as_secs()
                );
            }
            thread::sleep(POLL_INTERVAL);
        }
        let panicked = |_| Err(anyhow!("the session's thread panicked"));
        self.thread.join().unwrap_or_else(panicked)
    }

    /// Sends an order. An order to an engine that has ended is dropped.
    fn order(&self, order: EngineRequest) {
        let _ = self.orders.send(order);
    }
}

/// Polls /proc/mdstat on another thread, which ends at the first event after the engine has ended.
/// Without md there are no events. If the thread cannot be started, changes are detected at the
/// next interval.
fn watch_md(source: &mut impl EngineSource, events: orders::Sender<EngineRequest>) {
    let Some(mdstat) = Mdstat::open(source.session().sys()) else {
        return;
    };
    let _ = thread::Builder::new().name("mdstat".to_owned()).spawn(move || {
        privileges::keep_none();
        while mdstat.wait(None) && events.send(EngineRequest::MdEvent).is_ok() {}
    });
}

/// Schedule of the ends of intervals.
struct Schedule {
    due: Instant,
    period: Duration,
}

impl Schedule {
    fn new(first: Duration, period: Duration) -> Self {
        Self { due: Instant::now() + first, period }
    }

    /// Schedules the end of the next interval. After a late end, the next interval has its full
    /// length.
    fn advance(&mut self, now: Instant) {
        self.due += self.period;
        if self.due <= now {
            self.due = now + self.period;
        }
    }
}

/// Runs until an order, the source, an error or the exit of the consumer ends the run.
fn run<S: EngineSource>(
    source: &mut S,
    mut schedule: Schedule,
    ticks: &mpsc::Sender<Tick<S::Interval>>,
    orders: &orders::Receiver<EngineRequest>,
) -> Result<()> {
    let mut sent = source.notes();
    let _ = ticks
        .try_send(Tick::Started { subjects: source.session().subjects(), notes: sent.clone() });
    let mut is_last = false;
    loop {
        let mut wait = schedule.due.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            match ticks.try_reserve() {
                Err(TrySendError::Closed(())) => return Ok(()),
                Err(TrySendError::Full(())) if !S::ON_TIME => wait = BUSY_PAUSE,
                room => {
                    let interval = source.interval()?;
                    if let Ok(room) = room {
                        room.send(Tick::Interval(interval));
                    }
                    if is_last {
                        return Ok(());
                    }
                    schedule.advance(Instant::now());
                }
            }
        }
        let notes = source.notes();
        if notes != sent && ticks.try_send(Tick::Notes(notes.clone())).is_ok() {
            sent = notes;
        }
        let look = source.session().look_at_tasks();
        let waits = [source.drain_every(), source.session().next_check(), look];
        let wait = waits.into_iter().flatten().fold(wait, Duration::min);
        match orders.recv_timeout(wait) {
            Ok(EngineRequest::Interval(period)) => {
                schedule = Schedule::new(Duration::ZERO, period);
            }
            Ok(EngineRequest::Last) => {
                is_last = true;
                schedule.due = Instant::now();
            }
            Ok(EngineRequest::MdEvent) => source.session().md_event(),
            Ok(EngineRequest::End) | Err(orders::RecvTimeoutError::Disconnected) => return Ok(()),
            Err(orders::RecvTimeoutError::Timeout) => {}
        }
        if source.drain()? {
            return Ok(());
        }
        if source.session().next_check() == Some(Duration::ZERO) {
            source.update()?;
        }
    }
}
