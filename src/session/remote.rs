//! A session of another process or machine: follows the intervals of a `raidtrace serve`.
//!
//! [`address`]: where it listens. [`stream`]: the HTTP side. [`message`]: an interval as a line of JSON. [`token`]: who may read it.

pub mod address;
pub mod message;
mod stream;
pub mod token;

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc::Sender;

use self::address::Address;
use self::stream::Stream;
use super::engine::{Ended, Engine, Order, Tick};
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;

/// Longest wait before an order is seen.
const POLL: Duration = Duration::from_millis(20);
/// Time without an interval after which the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(15);
/// Pause before another attempt to connect.
const RETRY: Duration = Duration::from_secs(1);

/// Options of [`start`].
#[derive(Debug)]
pub struct Options {
    /// Where to connect.
    pub address: Address,
    /// Bearer token, if one is needed.
    pub token: Option<Vec<u8>>,
    /// Length of an interval. Intervals of `serve` are added up to it.
    pub period: Duration,
    /// On a loss of the connection, yield the last interval again with a note, for a screen.
    pub repeat: bool,
}

/// Connects and yields intervals. The engine's total is `total` after `add` was called for each. A connection that is lost later
/// is made again.
///
/// # Errors
/// The thread cannot be created. An error of the first connection is returned by [`Engine::end`].
pub fn start<T: Send + 'static>(
    options: Options,
    total: T,
    add: fn(&mut T, &Snapshot),
) -> Result<Engine<Snapshot, T>> {
    Engine::run(move |ticks, orders| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the runtime")?;
        runtime.block_on(async {
            let stream = Stream::open(&options.address, options.token.as_deref()).await?;
            let mut remote = Remote {
                options,
                connection: Connection::new(stream),
                merged: None,
                last: None,
                lost: None,
                gap: None,
                is_last: false,
            };
            let mut total = total;
            let result = remote.run(&ticks, &orders, |s| add(&mut total, s)).await;
            Ok(Ended { result, total })
        })
    })
}

enum Connection {
    /// With the time of the last line.
    Open(Box<Stream>, Instant),
    /// With the time of the next attempt.
    Lost(Instant),
}

impl Connection {
    fn new(stream: Stream) -> Self {
        Self::Open(Box::new(stream), Instant::now())
    }
}

struct Remote {
    options: Options,
    connection: Connection,
    /// Intervals received since the last one yielded, added up.
    merged: Option<Snapshot>,
    /// The last interval received.
    last: Option<Snapshot>,
    /// Why there is no connection, if there is none.
    lost: Option<String>,
    /// The last time of which nothing was received, if there is any.
    gap: Option<String>,
    /// True if the next interval is the last one to yield.
    is_last: bool,
}

impl Remote {
    async fn run(
        &mut self,
        ticks: &Sender<Tick<Snapshot>>,
        orders: &Receiver<Order>,
        mut add: impl FnMut(&Snapshot),
    ) -> Result<()> {
        let started = Tick::Started {
            subjects: self.options.address.to_string(),
            notes: Vec::new(),
        };
        let _ = ticks.try_send(started);
        loop {
            match orders.try_recv() {
                Ok(Order::Interval(period)) => self.options.period = period,
                Ok(Order::Last) => self.is_last = true,
                Ok(Order::MdEvent) | Err(TryRecvError::Empty) => {}
                Ok(Order::End) | Err(TryRecvError::Disconnected) => return Ok(()),
            }
            let notes = self.notes();
            self.receive().await;
            if ticks.is_closed() {
                return Ok(());
            }
            if notes != self.notes() {
                let _ = ticks.try_send(Tick::Notes(self.notes()));
                if let Some(again) = self.last.clone().filter(|_| self.options.repeat) {
                    let _ = ticks.send(Tick::Interval(self.with_notes(again))).await;
                }
            }
            if let Some(snapshot) = self.due() {
                add(&snapshot);
                let snapshot = self.with_notes(snapshot);
                if ticks.send(Tick::Interval(snapshot)).await.is_err() || self.is_last {
                    return Ok(());
                }
            } else if self.is_last && self.merged.is_none() {
                return Ok(());
            }
        }
    }

    /// Receives one line at most, or connects again.
    async fn receive(&mut self) {
        match &mut self.connection {
            Connection::Open(stream, since) => {
                let received = match tokio::time::timeout(POLL, stream.next()).await {
                    Ok(line) => line.and_then(|line| message::decode(&line)),
                    Err(_) if since.elapsed() < SILENCE => return,
                    Err(_) => Err(anyhow::anyhow!("nothing came for {} s", SILENCE.as_secs())),
                };
                match received {
                    Ok(snapshot) => {
                        *since = Instant::now();
                        self.add(snapshot);
                    }
                    Err(why) => self.lose(&why),
                }
            }
            Connection::Lost(due) if *due > Instant::now() => tokio::time::sleep(POLL).await,
            Connection::Lost(due) => {
                *due = Instant::now() + RETRY;
                let token = self.options.token.as_deref();
                if let Ok(stream) = Stream::open(&self.options.address, token).await {
                    self.connection = Connection::new(stream);
                    self.lost = None;
                }
            }
        }
    }

    fn lose(&mut self, why: &anyhow::Error) {
        self.connection = Connection::Lost(Instant::now());
        let last = self.last.as_ref().map(|last| last.time);
        let since = last.map_or_else(String::new, |t| t.strftime(" since %H:%M:%SZ").to_string());
        self.lost = Some(format!(
            "no connection{since}, trying again: {}: {why:#}",
            self.options.address
        ));
    }

    fn notes(&self) -> Vec<String> {
        self.lost.iter().chain(&self.gap).cloned().collect()
    }

    fn add(&mut self, snapshot: Snapshot) {
        if let Some(last) = &self.last {
            // The first line of a connection may come twice.
            if last.time == snapshot.time {
                return;
            }
            let since = snapshot.time.duration_since(last.time).unsigned_abs();
            if since > snapshot.interval.mul_f64(1.5) {
                self.gap = Some(format!(
                    "nothing was received of the time from {} to {}",
                    last.time.strftime("%H:%M:%SZ"),
                    snapshot.time.strftime("%H:%M:%SZ")
                ));
            }
        }
        match &mut self.merged {
            None => self.merged = Some(snapshot.clone()),
            Some(merged) => {
                window::merge(merged, &snapshot);
                // Those of `serve` cover the last seconds, as everywhere.
                for (array, newer) in merged.arrays.iter_mut().zip(&snapshot.arrays) {
                    array.hotspot.clone_from(&newer.hotspot);
                    array.amplification.clone_from(&newer.amplification);
                }
            }
        }
        self.last = Some(snapshot);
    }

    /// The intervals received, if they are as long as the period.
    fn due(&mut self) -> Option<Snapshot> {
        let last = self.last.as_ref()?.interval;
        // An interval of "1 s" is never exactly that.
        let is_due = |merged: &mut Snapshot| merged.interval + last / 2 >= self.options.period;
        let is_last = self.is_last;
        self.merged.take_if(|merged| is_last || is_due(merged))
    }

    fn with_notes(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.notes.splice(0..0, self.notes());
        snapshot.stale.clone_from(&self.lost);
        snapshot
    }
}
