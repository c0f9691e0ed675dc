//! A session in another process or on another machine: receives the intervals of a `raidtrace
//! serve`.
//!
//! [`address`]: address of the server. [`stream`]: HTTP client. [`message`]: encoding of an
//! interval. `resolve`: host names. [`token`]: bearer token.

pub mod address;
pub mod message;
mod resolve;
mod stream;
pub mod token;

use std::pin::Pin;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc::Sender;

use self::address::Address;
use self::stream::Stream;
use super::engine::{Ended, Engine, Order, Tick};
use crate::analysis::snapshot::Snapshot;
use crate::analysis::window;

/// Interval of checks for orders.
const POLL: Duration = Duration::from_millis(20);
/// Time without an interval after which the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(15);
/// Pause before another attempt to connect.
const RETRY: Duration = Duration::from_secs(1);

/// Options of [`start`].
#[derive(Debug)]
pub struct Options {
    /// Address of the server.
    pub address: Address,
    /// Bearer token, if one is needed.
    pub token: Option<Vec<u8>>,
    /// Length of an interval. Shorter intervals of the server are added up.
    pub period: Duration,
    /// For screens: when the connection is lost, yield the last interval again with a note.
    pub repeat: bool,
}

/// Connects and yields intervals. `add` adds each interval to `total`, which becomes the engine's
/// total. Reconnects if the connection is lost.
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
        let ended = runtime.block_on(async {
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
        });
        // A look-up of the host's name may hang.
        runtime.shutdown_background();
        ended
    })
}

enum Connection {
    /// Stream, and the time of the last line.
    Open(Box<Stream>, Instant),
    /// Time of the next attempt to connect.
    Lost(Instant),
    /// An attempt to connect.
    Opening(Pin<Box<dyn Future<Output = Result<Stream>>>>),
}

impl Connection {
    fn new(stream: Stream) -> Self {
        Self::Open(Box::new(stream), Instant::now())
    }
}

struct Remote {
    options: Options,
    connection: Connection,
    /// Sum of the intervals received since the last one was yielded.
    merged: Option<Snapshot>,
    /// The last interval received.
    last: Option<Snapshot>,
    /// Note on the lost connection; `None` while connected.
    lost: Option<String>,
    /// Note on the last gap between received intervals.
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
        let started =
            Tick::Started { subjects: self.options.address.to_string(), notes: Vec::new() };
        let _ = ticks.try_send(started);
        loop {
            match orders.try_recv() {
                Ok(Order::Interval(period)) => self.options.period = period,
                Ok(Order::Last) => self.is_last = true,
                Ok(Order::MdEvent) | Err(TryRecvError::Empty) => {}
                Ok(Order::End) | Err(TryRecvError::Disconnected) => return Ok(()),
            }
            let notes = self.notes();
            self.receive().await?;
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

    /// Receives at most one line, or tries to reconnect.
    async fn receive(&mut self) -> Result<()> {
        match &mut self.connection {
            Connection::Open(stream, since) => {
                let received = match tokio::time::timeout(POLL, stream.next()).await {
                    Ok(line) => line.and_then(|line| message::decode(&line)),
                    Err(_) if since.elapsed() < SILENCE => return Ok(()),
                    Err(_) => Err(anyhow::anyhow!("no data for {} s", SILENCE.as_secs())),
                };
                match received {
                    Ok(snapshot) => {
                        *since = Instant::now();
                        self.add(snapshot);
                    }
                    // No interval has been received yet: the server is another version of
                    // raidtrace, or not raidtrace.
                    Err(why) if self.last.is_none() => return Err(why),
                    Err(why) => self.lose(&why),
                }
            }
            Connection::Lost(due) if *due > Instant::now() => tokio::time::sleep(POLL).await,
            Connection::Lost(_) => {
                let (address, token) = (self.options.address.clone(), self.options.token.clone());
                let open = async move { Stream::open(&address, token.as_deref()).await };
                self.connection = Connection::Opening(Box::pin(open));
            }
            Connection::Opening(open) => match tokio::time::timeout(POLL, open).await {
                Err(_) => {}
                Ok(Ok(stream)) => {
                    self.connection = Connection::new(stream);
                    self.lost = None;
                }
                Ok(Err(_)) => self.connection = Connection::Lost(Instant::now() + RETRY),
            },
        }
        Ok(())
    }

    fn lose(&mut self, why: &anyhow::Error) {
        self.connection = Connection::Lost(Instant::now() + RETRY);
        let last = self.last.as_ref().map(|last| last.time);
        let since = last.map_or_else(String::new, |t| t.strftime(" since %H:%M:%SZ").to_string());
        self.lost =
            Some(format!("no connection{since}, trying again: {}: {why:#}", self.options.address));
    }

    fn notes(&self) -> Vec<String> {
        self.lost.iter().chain(&self.gap).cloned().collect()
    }

    fn add(&mut self, snapshot: Snapshot) {
        if let Some(last) = &self.last {
            // The first line of a new connection may repeat the last interval.
            if last.time == snapshot.time {
                return;
            }
            let since = snapshot.time.duration_since(last.time).unsigned_abs();
            if since > snapshot.interval.mul_f64(1.5) {
                self.gap = Some(format!(
                    "no intervals received from {} to {}",
                    last.time.strftime("%H:%M:%SZ"),
                    snapshot.time.strftime("%H:%M:%SZ")
                ));
            }
        }
        match &mut self.merged {
            None => self.merged = Some(snapshot.clone()),
            Some(merged) => {
                window::merge(merged, &snapshot);
                // These two already cover several intervals. Keep the newest instead of a sum.
                for (array, newer) in merged.arrays.iter_mut().zip(&snapshot.arrays) {
                    array.hotspot.clone_from(&newer.hotspot);
                    array.amplification.clone_from(&newer.amplification);
                }
            }
        }
        self.last = Some(snapshot);
    }

    /// Takes the sum of the received intervals once it is as long as the period.
    fn due(&mut self) -> Option<Snapshot> {
        let last = self.last.as_ref()?.interval;
        // An interval of 1 s is never exactly 1 s long.
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
