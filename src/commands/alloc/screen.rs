//! The live screen, and the same of a file: [`top`](crate::ui::screen)'s loop with views of its own.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ratatui::Frame;
use tokio::sync::watch;

use super::state::{Shown, State};
use super::view::{self, tree::Tree};
use crate::analysis::alloc::AllocSnapshot;
use crate::analysis::alloc::window;
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};
use crate::ui::screen::{App, Input, Reader, run_app};
use crate::ui::state::{Action, Replay};
use crate::ui::term::Guard;

impl App for State {
    type Snapshot = Shown;

    fn on_key(&mut self, key: Key) -> Action {
        Self::on_key(self, key)
    }

    fn observe(&mut self, shown: &Shown) {
        Self::observe(self, shown);
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn draw(&self, frame: &mut Frame<'_>, shown: Option<&Shown>, palette: Palette) {
        view::draw(frame, self, shown, palette);
    }
}

/// Shows what comes until a key or `end` ends it, or the sender is dropped. `interval` is what + and - change. All of these
/// ends are `Ok`; the terminal is restored in every case.
pub async fn run(
    shown: watch::Receiver<Option<Arc<Shown>>>,
    interval: watch::Sender<Duration>,
    depth: Depth,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let state = State::new(*interval.borrow());
    run_app(state, shown, interval, depth, end).await
}

/// Shows the intervals of a file as the live screen did: each for as long as it took, with those before it that are in the window
/// ([`window::last`]), until a key or `end` ends it; the last one stays.
///
/// # Errors
/// There is none, or this is no terminal.
pub async fn replay(
    intervals: Vec<AllocSnapshot>,
    depth: Depth,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let mut player = Player::new(intervals)?;
    let guard =
        Guard::take().context("cannot use this terminal for the screen (--batch needs none)")?;
    let mut screen = guard
        .screen()
        .context("cannot use this terminal for the screen")?;
    let mut reader = Reader::start()?;
    let palette = Palette::new(depth);
    let mut end = std::pin::pin!(end);
    let mut due = Instant::now() + player.pace();
    let ended = loop {
        if !guard.holds() {
            break Err(anyhow::anyhow!("a part of raidtrace panicked (see above)"));
        }
        let drawn = screen.draw(|f| view::draw(f, &player.state, player.shown(), palette));
        if let Err(error) = drawn {
            break Err(error).context("cannot draw on the terminal");
        }
        let wait = due.saturating_duration_since(Instant::now());
        tokio::select! {
            biased;
            () = &mut end => break Ok(()),
            input = reader.inputs.recv() => match input {
                None => break Err(anyhow::anyhow!("the reader of keys ended")),
                Some(Input::Failed(error)) => break Err(error).context("cannot read keys from the terminal"),
                Some(Input::Resize) => {}
                Some(Input::Key(key)) => {
                    let was = player.at;
                    if player.on_key(key) {
                        break Ok(());
                    }
                    if player.at != was {
                        due = Instant::now() + player.pace();
                    }
                }
            },
            () = tokio::time::sleep(wait) => {
                player.step(i64::from(!player.state.paused));
                due = Instant::now() + player.pace();
            }
        }
    };
    drop((screen, guard)); // Give the terminal back before waiting for the reader.
    drop(reader.inputs);
    reader.stop.join();
    ended
}

/// Which interval is on the screen. Knows no terminal.
struct Player {
    intervals: Vec<AllocSnapshot>,
    at: usize,
    /// The window that ends with `at`.
    shown: Option<Shown>,
    state: State,
}

impl Player {
    fn new(intervals: Vec<AllocSnapshot>) -> Result<Self> {
        let Some(first) = intervals.first() else {
            bail!("there is no interval to show");
        };
        let state = State::new(first.interval);
        let mut player = Self {
            intervals,
            at: 0,
            shown: None,
            state,
        };
        player.step(0);
        Ok(player)
    }

    fn shown(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    /// How long an interval stays on the screen.
    fn pace(&self) -> Duration {
        let length = self.intervals.get(self.at);
        let length = length.map_or(Duration::ZERO, |s| s.interval);
        length.clamp(Duration::from_millis(100), Duration::from_secs(3600))
    }

    /// So many intervals on, or back.
    fn step(&mut self, by: i64) {
        let last = self.intervals.len() - 1;
        let at = i64::try_from(self.at)
            .unwrap_or(i64::MAX)
            .saturating_add(by);
        let at = usize::try_from(at).unwrap_or(0).min(last);
        if at != self.at || self.shown.is_none() {
            // The file holds no stacks.
            self.shown = window::last(&self.intervals[..=at]).map(|s| (s, Tree::default()));
        }
        self.at = at;
        self.state.replay = Some((self.at + 1, self.intervals.len()));
        if let Some(shown) = &self.shown {
            self.state.observe(shown);
        }
    }

    /// `true`: it is over.
    fn on_key(&mut self, key: Key) -> bool {
        match self.state.on_key(key) {
            Action::Quit => return true,
            Action::Replay(Replay::Step(by)) => {
                self.state.paused = true;
                self.step(by);
            }
            _ => self.step(0),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Result;

    use super::{Player, window};
    use crate::analysis::alloc::AllocSnapshot;
    use crate::analysis::alloc::fixture;
    use crate::analysis::alloc::window::Window;
    use crate::commands::alloc::json;
    use crate::commands::alloc::replay::Lines;
    use crate::ui::keys::Key;

    #[test]
    fn a_file_is_gone_through_by_keys() {
        assert!(Player::new(Vec::new()).is_err());
        let all = vec![fixture::healthy(), fixture::linear(), fixture::cold()];
        let mut player = Player::new(all).unwrap();
        assert_eq!((player.at, player.state.replay), (0, Some((1, 3))));
        player.step(1);
        assert_eq!((player.at, player.state.paused), (1, false));
        for (key, at) in [
            (Key::Right, 2),
            (Key::Right, 2),
            (Key::Left, 1),
            (Key::PageUp, 0),
            (Key::PageDown, 2),
        ] {
            assert!(!player.on_key(key));
            assert_eq!((player.at, player.state.paused), (at, true), "{key:?}");
        }
        player.on_key(Key::Char('p'));
        assert!(!player.state.paused);
        assert!(player.on_key(Key::Char('q')));
    }

    #[test]
    fn a_file_is_shown_as_the_live_screen_was() {
        let mut all = Vec::new();
        for second in 0..25 {
            let mut s = match second % 5 {
                1 => fixture::cold(),
                _ => fixture::linear(),
            };
            if second % 5 > 1 {
                s.filesystems[0].counts = Default::default();
            }
            all.push(s);
        }
        let lines = |s: &AllocSnapshot| {
            let mut out = Vec::new();
            json::write(&mut out, s).unwrap();
            String::from_utf8(out).unwrap()
        };
        // As it comes from the file.
        let text: String = all.iter().map(&lines).collect();
        let read: Result<Vec<_>> = Lines::new(text.as_bytes()).collect();
        let mut player = Player::new(read.unwrap()).unwrap();
        let mut window = Window::default();
        let mut live = Vec::new();
        for s in &all {
            let shown = lines(&window.push(s.clone()));
            assert_eq!(lines(&player.shown().unwrap().0), shown, "{}", player.at);
            assert_eq!(player.pace(), s.interval);
            live.push(shown);
            player.step(1);
        }
        let last = &player.shown().unwrap().0;
        assert_eq!(last.interval, window::LENGTH);
        assert!(last.filesystems[0].reason.is_some());
        // Back, too.
        for (key, at) in [(Key::Left, 23), (Key::PageUp, 13), (Key::PageUp, 3)] {
            player.on_key(key);
            assert_eq!(lines(&player.shown().unwrap().0), live[at], "{at}");
        }
    }

    /// The screen by hand: `cargo test --lib alloc::screen::tests::by_hand -- --ignored --nocapture`.
    #[tokio::test(flavor = "current_thread")]
    #[ignore = "needs a terminal and a person"]
    async fn by_hand() {
        let all = vec![
            fixture::healthy(),
            fixture::linear(),
            fixture::cold(),
            fixture::degraded(),
            fixture::huge(),
        ];
        let end = crate::ui::screen::asked_to_end().unwrap();
        super::replay(all, crate::ui::palette::Depth::from_env(), end)
            .await
            .unwrap();
    }
}
