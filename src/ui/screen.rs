//! The live screen: draws snapshots as they come and keys as they are pressed.
//!
//! Knows nothing of where snapshots come from. The sampler sends them; it listens to the interval that + and - set.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::keys::{Key, decode};
use super::palette::{Depth, Palette};
use super::state::{Action, State};
use super::term::{Guard, Screen};
use super::view;
use crate::analysis::snapshot::Snapshot;
use crate::machine::signals::is_ignored;

/// Ends when a command is asked to end.
pub(crate) type End = Pin<Box<dyn Future<Output = ()>>>;

/// How long the reader of keys may take to notice that it is over.
const POLL: Duration = Duration::from_millis(100);

/// What comes from the terminal.
pub(crate) enum Input {
    /// A key.
    Key(Key),
    /// The terminal has another size.
    Resize,
    /// Reading failed: the terminal is gone.
    Failed(std::io::Error),
}

/// What a live screen is of: what keys change, and how it is drawn.
pub(crate) trait App {
    /// What comes each interval.
    type Snapshot;

    /// Takes a key.
    fn on_key(&mut self, key: Key) -> Action;

    /// Keeps what is selected inside of what is shown.
    fn observe(&mut self, snapshot: &Self::Snapshot);

    /// Whether the screen keeps the snapshot it has.
    fn is_paused(&self) -> bool;

    /// Draws. `None` until the first interval has ended.
    fn draw(&self, frame: &mut Frame<'_>, snapshot: Option<&Self::Snapshot>, palette: Palette);
}

impl App for State {
    type Snapshot = Snapshot;

    fn on_key(&mut self, key: Key) -> Action {
        Self::on_key(self, key)
    }

    fn observe(&mut self, snapshot: &Snapshot) {
        Self::observe(self, snapshot);
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn draw(&self, frame: &mut Frame<'_>, snapshot: Option<&Snapshot>, palette: Palette) {
        view::draw(frame, self, snapshot, palette);
    }
}

/// Shows `snapshots` until a key or `end` ([`asked_to_end`]) ends it, or their sender is dropped.
///
/// `interval` is what the sampler measures at; + and - change it. All of these ends are `Ok`; the terminal is restored
/// in every case.
pub async fn run(
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    interval: watch::Sender<Duration>,
    depth: Depth,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let state = State::new(*interval.borrow());
    run_app(state, snapshots, interval, depth, end).await
}

/// [`run`] for any screen.
pub(crate) async fn run_app<A: App>(
    state: A,
    snapshots: watch::Receiver<Option<Arc<A::Snapshot>>>,
    interval: watch::Sender<Duration>,
    depth: Depth,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let guard =
        Guard::take().context("cannot use this terminal for the screen (--batch needs none)")?;
    let screen = guard
        .screen()
        .context("cannot use this terminal for the screen")?;
    let reader = Reader::start()?;
    let mut live = Live {
        guard,
        screen,
        state,
        palette: Palette::new(depth),
        shown: None,
        newest: None,
    };
    let ended = live.run(snapshots, interval, reader.inputs, end).await;
    drop(live); // Give the terminal back before waiting for the reader.
    reader.stop.join();
    ended
}

struct Live<A: App> {
    guard: Guard,
    screen: Screen,
    state: A,
    palette: Palette,
    /// What is on the screen; stays while paused.
    shown: Option<Arc<A::Snapshot>>,
    newest: Option<Arc<A::Snapshot>>,
}

impl<A: App> Live<A> {
    async fn run(
        &mut self,
        mut snapshots: watch::Receiver<Option<Arc<A::Snapshot>>>,
        interval: watch::Sender<Duration>,
        mut inputs: mpsc::Receiver<Input>,
        end: impl Future<Output = ()>,
    ) -> Result<()> {
        let mut end = std::pin::pin!(end);
        loop {
            self.draw()?;
            tokio::select! {
                () = &mut end => return Ok(()),
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    self.newest = snapshots.borrow_and_update().clone();
                    self.refresh();
                }
                input = inputs.recv() => match input {
                    None => bail!("the reader of keys ended"),
                    Some(Input::Failed(error)) => return Err(error).context("cannot read keys from the terminal"),
                    // Drawing again finds the new size.
                    Some(Input::Resize) => {}
                    Some(Input::Key(key)) => match self.state.on_key(key) {
                        Action::Quit => return Ok(()),
                        Action::Interval(to) => interval.send_modify(|i| *i = to),
                        Action::Draw | Action::Nothing | Action::Replay(_) => self.refresh(),
                    },
                },
            }
        }
    }

    /// Takes the newest snapshot unless paused, and keeps what is selected inside of it.
    fn refresh(&mut self) {
        if !self.state.is_paused() || self.shown.is_none() {
            self.shown = self.newest.clone();
        }
        if let Some(snapshot) = &self.shown {
            self.state.observe(snapshot);
        }
    }

    fn draw(&mut self) -> Result<()> {
        if !self.guard.holds() {
            bail!("a part of raidtrace panicked (see above)");
        }
        let (state, shown, palette) = (&self.state, self.shown.as_deref(), self.palette);
        self.screen
            .draw(|frame| state.draw(frame, shown, palette))
            .context("cannot draw on the terminal")?;
        Ok(())
    }
}

/// Ends when a signal asks for it: SIGINT, SIGQUIT (Ctrl-\), SIGTERM, SIGHUP. From this call on: signals are kept until it is
/// polled. A SIGHUP that is ignored (nohup) stays so.
pub fn asked_to_end() -> Result<End> {
    let on = |kind| signal(kind).context("cannot handle signals");
    let mut interrupt = on(SignalKind::interrupt())?;
    let mut terminate = on(SignalKind::terminate())?;
    let mut quit = on(SignalKind::quit())?;
    let mut hangup = if is_ignored(libc::SIGHUP) {
        None
    } else {
        Some(on(SignalKind::hangup())?)
    };
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = quit.recv() => {}
            () = async {
                match &mut hangup {
                    Some(hangup) => { hangup.recv().await; }
                    None => std::future::pending().await,
                }
            } => {}
        }
    }))
}

/// The thread that reads keys: crossterm's own stream would need a second event loop.
pub(crate) struct Reader {
    /// What it reads.
    pub inputs: mpsc::Receiver<Input>,
    /// Ends it.
    pub stop: Stop,
}

/// The end of a [`Reader`].
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Stop {
    /// Waits until it has noticed; not for ever, for crossterm reads the end of a terminal that is gone again and again.
    pub fn join(self) {
        self.asked.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        while !self.thread.is_finished() && asked.elapsed() < 5 * POLL {
            std::thread::sleep(POLL / 20);
        }
    }
}

impl Reader {
    /// Begins to read.
    pub fn start() -> Result<Self> {
        let (sender, inputs) = mpsc::channel(64);
        let asked = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&asked);
        let thread = std::thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read(&sender, &flag))
            .context("cannot start the reader of keys")?;
        Ok(Self {
            inputs,
            stop: Stop { asked, thread },
        })
    }
}

fn read(sender: &mpsc::Sender<Input>, asked: &AtomicBool) {
    while !asked.load(Ordering::Relaxed) && !sender.is_closed() {
        let event = match event::poll(POLL) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let input = match event {
            Ok(Event::Key(key)) => decode(key).map(Input::Key),
            Ok(Event::Resize(..)) => Some(Input::Resize),
            Ok(_) => None,
            Err(error) => {
                let _ = sender.blocking_send(Input::Failed(error));
                return;
            }
        };
        if let Some(input) = input
            && sender.blocking_send(input).is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::analysis::fixture;
    use crate::analysis::window::Window;
    use crate::ui::palette::Depth;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::watch;

    /// What signals do is so for the whole process: this runs in one of its own.
    #[test]
    fn signals_ask_for_the_end() {
        for ignored in ["", "nohup"] {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "ui::screen::tests::of_its_own", "--ignored"])
                .env("SIGNALS", ignored)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(
                child.status.success(),
                "{ignored}: {:?} {said}",
                child.status
            );
            assert!(said.contains("1 passed"), "{said}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    #[ignore = "is run by signals_ask_for_the_end"]
    async fn of_its_own() {
        let Ok(how) = std::env::var("SIGNALS") else {
            return;
        };
        let nohup = how == "nohup";
        let action = if nohup { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: neither runs code. The suite itself may run under nohup.
        unsafe { libc::signal(libc::SIGHUP, action) };
        let raise = |signal| {
            // SAFETY: it is handled or ignored; else this process ends, which its parent says.
            unsafe { libc::raise(signal) };
        };
        // One that is handled may take its time; one that is ignored never comes.
        let soon = Duration::from_millis(if nohup { 200 } else { 20_000 });
        let mut end = super::asked_to_end().unwrap();
        raise(libc::SIGHUP);
        let ended = tokio::time::timeout(soon, &mut end).await.is_ok();
        assert_eq!(ended, !nohup);
        let end = super::asked_to_end().unwrap();
        raise(libc::SIGQUIT);
        tokio::time::timeout(Duration::from_secs(20), end)
            .await
            .unwrap();
    }

    /// The screen on the first case, by hand: `cargo test --lib by_hand -- --ignored --nocapture`.
    #[tokio::test(flavor = "current_thread")]
    #[ignore = "needs a terminal and a person"]
    async fn by_hand() {
        let (snapshots, shown) = watch::channel(None);
        let (interval, mut wanted) = watch::channel(Duration::from_secs(1));
        tokio::spawn(async move {
            let mut window = Window::new(Duration::from_secs(10));
            loop {
                let wait = *wanted.borrow_and_update();
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    _ = wanted.changed() => continue,
                }
                let members = std::env::var("MEMBERS").map_or(12, |n| n.parse().unwrap_or(12));
                let mut snapshot = fixture::raid0(members);
                snapshot.time = jiff::Timestamp::now();
                snapshot.interval = wait;
                window.evaluate(&mut snapshot);
                if std::env::var("PANIC").is_ok() {
                    std::thread::spawn(|| panic!("as asked"));
                }
                if snapshots.send(Some(Arc::new(snapshot))).is_err() {
                    return;
                }
            }
        });
        run(
            shown,
            interval,
            Depth::from_env(),
            super::asked_to_end().unwrap(),
        )
        .await
        .unwrap();
    }
}
