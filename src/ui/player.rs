//! Plays a recording for the screen on its own thread, so that keys work while an interval is read
//! or a file is searched.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;

use super::screen::{Shown, SnapshotSource};
use super::state::{Position, Replay, ScreenAction};

/// A recording with a current interval, which can step and seek.
pub(crate) trait Playback: Send + 'static {
    /// Figures of one interval.
    type Snapshot: Send + Sync + 'static;

    /// Shows the next interval, or sets [`Position::ended`] if there is none.
    fn step(&mut self) -> Result<()>;

    /// Executes a key's request. Calls `progress` between intervals, with the playback if its
    /// interval is to be shown. Returns early if `progress` returns true: another key was pressed,
    /// or the player was dropped.
    fn act(
        &mut self,
        request: Replay,
        progress: &mut dyn FnMut(Option<&Self>) -> bool,
    ) -> Result<()>;

    /// The interval that is shown.
    fn shown(&self) -> Option<Arc<Self::Snapshot>>;

    /// Position of [`Playback::shown`] in the recording.
    fn position(&self) -> Position;

    /// Length of [`Playback::shown`].
    fn length(&self) -> Duration;
}

/// A key's action, if it concerns the recording, and the speed after the key.
type ReplayRequest = (Option<Replay>, Option<f64>);

/// Handle of the replay thread.
pub(crate) struct Player<S> {
    requests: Sender<ReplayRequest>,
    frames: mpsc::Receiver<Result<Shown<S>>>,
}

impl<S: Send + Sync + 'static> Player<S> {
    /// Starts the thread; it ends when the player is dropped.
    pub fn start(playback: impl Playback<Snapshot = S>) -> Result<Self> {
        let (requests, requested) = channel();
        // Capacity 1: the thread waits for a slow terminal.
        let (sender, frames) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("replay".to_owned())
            .spawn(move || {
                if let Err(error) = play(playback, &requested, &sender) {
                    let _ = sender.blocking_send(Err(error));
                }
            })
            .context("cannot start the thread that reads the recording")?;
        Ok(Self { requests, frames })
    }
}

impl<S> SnapshotSource for Player<S> {
    type Snapshot = S;

    async fn next(&mut self) -> Result<Option<Shown<S>>> {
        self.frames.recv().await.transpose()
    }

    fn request(&mut self, action: ScreenAction, speed: Option<f64>) {
        let replay = match action {
            ScreenAction::Replay(replay) => Some(replay),
            _ => None,
        };
        // Fails only if the thread has ended; `next` returns its result.
        let _ = self.requests.send((replay, speed));
    }
}

/// Returns when the player has been dropped.
fn play<P: Playback>(
    mut playback: P,
    requests: &Receiver<ReplayRequest>,
    frames: &mpsc::Sender<Result<Shown<P::Snapshot>>>,
) -> Result<()> {
    let frame = |playback: &P| Ok((playback.shown(), Some(playback.position())));
    let mut speed = Some(1.0);
    // A request that arrived during the execution of another one.
    let mut pending = None;
    playback.step()?;
    while frames.blocking_send(frame(&playback)).is_ok() {
        let due = Instant::now() + pace(playback.length(), speed);
        loop {
            let is_paused = speed.is_none() || playback.position().ended;
            let wait = due.saturating_duration_since(Instant::now());
            let request = match pending.take() {
                Some(request) => Ok(request),
                None if is_paused => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                None => requests.recv_timeout(wait),
            };
            match request {
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    playback.step()?;
                    break;
                }
                Ok((action, now)) => {
                    let changed = std::mem::replace(&mut speed, now) != now;
                    if let Some(action) = action {
                        playback.act(action, &mut |playback| {
                            // Do not wait: a slow terminal must not slow down a search.
                            if let Some(playback) = playback {
                                let _ = frames.try_send(frame(playback));
                            }
                            pending = match requests.try_recv() {
                                Ok(request) => Some(request),
                                Err(TryRecvError::Empty) => return false,
                                Err(TryRecvError::Disconnected) => None,
                            };
                            true
                        })?;
                        break;
                    }
                    if changed {
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Time that an interval stays on the screen.
fn pace(length: Duration, speed: Option<f64>) -> Duration {
    length.div_f64(speed.unwrap_or(1.0)).clamp(Duration::from_millis(20), Duration::from_secs(3600))
}

#[cfg(test)]
mod tests;
