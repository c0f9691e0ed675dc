//! The screen loop: draws the snapshots of a [`SnapshotSource`] as they arrive, and handles keys as
//! they are pressed.
//!
//! A source works on another thread or task, so that neither a key nor drawing waits for it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ratatui::Frame;

use super::keys::Key;
use super::lines::lasts;
use super::palette::{Depth, Palette};
use super::state::{Position, ScreenAction, ScreenState};
use super::term::{Guard, Input, KeyReader, Screen};
use super::view;
use crate::analysis::snapshot::Snapshot;
use crate::machine::signals::End;
use crate::session::engine::{Engine, Tick};

/// State of a screen: changed by keys, drawn together with a snapshot.
pub(crate) trait ScreenApp {
    /// Figures of one interval.
    type Snapshot;

    fn on_key(&mut self, key: Key) -> ScreenAction;

    /// Keeps the selection within `snapshot`. Called for each snapshot and after each key.
    fn observe(&mut self, snapshot: &Self::Snapshot);

    /// Stores the position of a replay, for drawing.
    fn set_position(&mut self, position: Position);

    /// Speed of a replay, 1 for real time; `None` if it must not advance by itself.
    fn speed(&self) -> Option<f64>;

    /// True if a live screen must keep its snapshot.
    fn is_paused(&self) -> bool;

    /// Draws. `snapshot` is `None` until the first interval has ended.
    fn draw(&self, frame: &mut Frame<'_>, snapshot: Option<&Self::Snapshot>, palette: Palette);
}

/// A snapshot and, from a replay, its position in the recording.
pub(crate) type Shown<S> = (Option<Arc<S>>, Option<Position>);

/// A producer of snapshots, running on another thread or task.
pub(crate) trait SnapshotSource {
    /// Figures of one interval.
    type Snapshot;

    /// Waits for the next snapshot; `None` at the end. Cancel safe.
    async fn next(&mut self) -> Result<Option<Shown<Self::Snapshot>>>;

    /// Passes on a key's action and the current [`ScreenApp::speed`]. Does not block.
    fn request(&mut self, action: ScreenAction, speed: Option<f64>);
}

/// Time after which a message is printed if the session has not started.
const MAX_SILENCE: Duration = Duration::from_secs(2);

/// A running session as the source of a screen.
pub(crate) struct LiveSource<S, T> {
    engine: Engine<S, T>,
    /// Intervals left to show; `None` for no limit.
    left: Option<u64>,
}

impl<S: Send + 'static, T: Send + 'static> LiveSource<S, T> {
    /// Shows `count` intervals of `engine`; all of them if `None`.
    pub fn new(engine: Engine<S, T>, count: Option<u64>) -> Self {
        Self { engine, left: count }
    }

    /// Shows `app` until a key, `end`, `duration` or the last interval ends the screen. False if
    /// `end` came first, or if the session could not be started: errors until then go to the plain
    /// terminal.
    pub async fn show(
        &mut self,
        app: impl ScreenApp<Snapshot = S>,
        mut end: End,
        duration: Option<Duration>,
    ) -> (bool, Result<()>) {
        let started = tokio::select! {
            started = self.started() => started,
            () = &mut end => false,
        };
        let mut result = Ok(());
        if started {
            result = run_app(app, self, Depth::from_env(), lasts(end, duration)).await;
        }
        (started, result)
    }

    /// Waits until IO is counted. False if the session could not be started. After [`MAX_SILENCE`],
    /// standard error has a reason for the empty terminal: on a busy host, the kernel needs many
    /// seconds to verify the programs.
    async fn started(&mut self) -> bool {
        // Cancel safe: a cancelled wait loses no tick.
        match tokio::time::timeout(MAX_SILENCE, self.engine.tick()).await {
            Ok(tick) => tick.is_some(),
            Err(_) => {
                eprintln!("raidtrace: waiting for the first figures; Ctrl-C ends it");
                self.engine.tick().await.is_some()
            }
        }
    }

    /// True if all `count` intervals were shown.
    pub fn has_shown_all(&self) -> bool {
        self.left == Some(0)
    }

    /// The engine, after the screen.
    pub fn into_engine(self) -> Engine<S, T> {
        self.engine
    }
}

impl<S: Send + 'static, T: Send + 'static> SnapshotSource for &mut LiveSource<S, T> {
    type Snapshot = S;

    async fn next(&mut self) -> Result<Option<Shown<S>>> {
        while self.left != Some(0) {
            match self.engine.tick().await {
                None => break,
                // An interval has the notes as well.
                Some(Tick::Started { .. } | Tick::Notes(_)) => {}
                Some(Tick::Interval(snapshot)) => {
                    self.left = self.left.map(|n| n - 1);
                    return Ok(Some((Some(Arc::new(snapshot)), None)));
                }
            }
        }
        Ok(None)
    }

    fn request(&mut self, action: ScreenAction, _: Option<f64>) {
        if let ScreenAction::Interval(to) = action {
            self.engine.set_interval(to);
        }
    }
}

impl ScreenApp for ScreenState {
    type Snapshot = Snapshot;

    fn on_key(&mut self, key: Key) -> ScreenAction {
        Self::on_key(self, key)
    }

    fn observe(&mut self, snapshot: &Snapshot) {
        Self::observe(self, snapshot);
    }

    fn set_position(&mut self, position: Position) {
        Self::set_position(self, position);
    }

    fn speed(&self) -> Option<f64> {
        Self::speed(self)
    }

    fn is_paused(&self) -> bool {
        self.paused && self.replay.is_none()
    }

    fn draw(&self, frame: &mut Frame<'_>, snapshot: Option<&Snapshot>, palette: Palette) {
        view::draw(frame, self, snapshot, palette);
    }
}

/// Shows `source` until a key, `end` or the source ends the screen. The terminal is restored in
/// every case.
pub(crate) async fn run_app<A: ScreenApp>(
    app: A,
    source: impl SnapshotSource<Snapshot = A::Snapshot>,
    depth: Depth,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let guard =
        Guard::take().context("cannot use this terminal for the screen (--batch needs none)")?;
    let screen = guard.screen().context("cannot use this terminal for the screen")?;
    let mut keys = KeyReader::start()?;
    let mut shell =
        Shell { guard, screen, app, palette: Palette::new(depth), shown: None, newest: None };
    let ended = shell.run(source, &mut keys, end).await;
    drop(shell); // Restore the terminal before waiting for the reader.
    keys.stop();
    ended
}

struct Shell<A: ScreenApp> {
    guard: Guard,
    screen: Screen,
    app: A,
    palette: Palette,
    /// The snapshot on the screen; stays while paused.
    shown: Option<Arc<A::Snapshot>>,
    newest: Option<Arc<A::Snapshot>>,
}

impl<A: ScreenApp> Shell<A> {
    async fn run(
        &mut self,
        mut source: impl SnapshotSource<Snapshot = A::Snapshot>,
        keys: &mut KeyReader,
        end: impl Future<Output = ()>,
    ) -> Result<()> {
        let mut end = std::pin::pin!(end);
        loop {
            self.draw()?;
            tokio::select! {
                () = &mut end => return Ok(()),
                next = source.next() => {
                    let Some((snapshot, position)) = next? else { return self.check() };
                    self.newest = snapshot;
                    if let Some(position) = position {
                        self.app.set_position(position);
                    }
                }
                input = keys.next() => match input {
                    None => bail!("the key reader ended"),
                    Some(Input::Failed(error)) => return Err(error).context(
                        "cannot read keys from the terminal",
                    ),
                    // ratatui reads the new size when it draws.
                    Some(Input::Resize) => {}
                    Some(Input::Key(key)) => match self.app.on_key(key) {
                        ScreenAction::Quit => return Ok(()),
                        action => source.request(action, self.app.speed()),
                    },
                },
            }
            if !self.app.is_paused() || self.shown.is_none() {
                self.shown = self.newest.clone();
            }
            if let Some(snapshot) = &self.shown {
                self.app.observe(snapshot);
            }
        }
    }

    /// # Errors
    /// Another thread has panicked, and the terminal shows its message.
    fn check(&self) -> Result<()> {
        if !self.guard.holds() {
            bail!("a thread of raidtrace panicked (see above)");
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<()> {
        self.check()?;
        let (app, shown, palette) = (&self.app, self.shown.as_deref(), self.palette);
        self.screen
            .draw(|frame| app.draw(frame, shown, palette))
            .context("cannot draw on the terminal")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Shown, SnapshotSource, run_app};
    use crate::analysis::fixture;
    use crate::analysis::snapshot::Snapshot;
    use crate::analysis::window::Window;
    use crate::ui::palette::Depth;
    use crate::ui::state::{ScreenAction, ScreenState};
    use crate::ui::view::VIEWS;
    use anyhow::Result;
    use std::sync::Arc;
    use std::time::Duration;

    struct Fixture {
        interval: Duration,
        window: Window,
    }

    impl SnapshotSource for Fixture {
        type Snapshot = Snapshot;

        async fn next(&mut self) -> Result<Option<Shown<Snapshot>>> {
            tokio::time::sleep(self.interval).await;
            let members = std::env::var("MEMBERS").map_or(12, |n| n.parse().unwrap_or(12));
            let mut snapshot = fixture::raid0(members);
            snapshot.time = jiff::Timestamp::now();
            snapshot.interval = self.interval;
            self.window.evaluate(&mut snapshot);
            if std::env::var("PANIC").is_ok() {
                std::thread::spawn(|| panic!("as asked"));
            }
            Ok(Some((Some(Arc::new(snapshot)), None)))
        }

        fn request(&mut self, action: ScreenAction, _: Option<f64>) {
            if let ScreenAction::Interval(to) = action {
                self.interval = to;
            }
        }
    }

    /// Shows the screen, for tests by hand: `cargo test --lib by_hand -- --ignored --nocapture`.
    #[tokio::test(flavor = "current_thread")]
    #[ignore = "needs a terminal and a person"]
    async fn by_hand() {
        let interval = Duration::from_secs(1);
        let window = Window::new(Duration::from_secs(10));
        let state = ScreenState::new(VIEWS.len(), interval);
        let end = crate::machine::signals::asked_to_end().unwrap();
        run_app(state, Fixture { interval, window }, Depth::from_env(), end).await.unwrap();
    }
}
