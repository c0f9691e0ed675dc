//! The screen of `alloc`: live, or for a recording.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use ratatui::Frame;

use super::state::AllocScreenState;
use super::view::{self, VIEWS};
use crate::analysis::alloc::AllocSnapshot;
use crate::analysis::alloc::window;
use crate::recording::alloc::RecordedAlloc;
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};
use crate::ui::player::{Playback, Player};
use crate::ui::screen::{ScreenApp, run_app};
use crate::ui::state::{Position, Replay, ScreenAction};

impl ScreenApp for AllocScreenState {
    type Snapshot = AllocSnapshot;

    fn on_key(&mut self, key: Key) -> ScreenAction {
        Self::on_key(self, key)
    }

    fn observe(&mut self, shown: &AllocSnapshot) {
        Self::observe(self, shown);
    }

    fn set_position(&mut self, position: Position) {
        self.replay = position.interval;
    }

    fn speed(&self) -> Option<f64> {
        (!self.paused).then_some(1.0)
    }

    fn is_paused(&self) -> bool {
        self.paused && self.replay.is_none()
    }

    fn draw(&self, frame: &mut Frame<'_>, shown: Option<&AllocSnapshot>, palette: Palette) {
        view::draw(frame, self, shown, palette);
    }
}

/// Replays recorded intervals on the screen at their original pace, until a key or `end`. Each step
/// shows the window that ends with the interval ([`window::last`]), as the live screen did. The
/// last interval stays on the screen.
///
/// # Errors
/// There is no interval, or stdout is not a terminal.
pub async fn replay(
    intervals: Vec<RecordedAlloc>,
    depth: Depth,
    end: impl Future<Output = ()>,
) -> Result<()> {
    let recording = AllocPlayback::new(intervals)?;
    let state = AllocScreenState::new(VIEWS.len(), recording.length());
    run_app(state, Player::start(recording)?, depth, end).await
}

/// Intervals in memory, positioned by their index.
struct AllocPlayback {
    intervals: Vec<AllocSnapshot>,
    /// Index of the displayed interval; `None` before the first step.
    at: Option<usize>,
    /// The window that ends with `at`.
    shown: Option<Arc<AllocSnapshot>>,
}

impl AllocPlayback {
    fn new(recorded: Vec<RecordedAlloc>) -> Result<Self> {
        let intervals: Vec<_> = recorded.into_iter().map(|r| r.snapshot).collect();
        if intervals.is_empty() {
            bail!("there is no interval to show");
        }
        Ok(Self { intervals, at: None, shown: None })
    }

    fn go(&mut self, to: usize) {
        let at = to.min(self.intervals.len() - 1);
        if self.at != Some(at) {
            self.shown = window::last(&self.intervals[..=at]).map(Arc::new);
        }
        self.at = Some(at);
    }
}

impl Playback for AllocPlayback {
    type Snapshot = AllocSnapshot;

    fn step(&mut self) -> Result<()> {
        self.go(self.at.map_or(0, |at| at + 1));
        Ok(())
    }

    fn act(&mut self, request: Replay, _: &mut dyn FnMut(Option<&Self>) -> bool) -> Result<()> {
        if let Replay::Step(by) = request {
            let by = isize::try_from(by).unwrap_or(isize::MAX);
            self.go(self.at.unwrap_or(0).saturating_add_signed(by));
        }
        Ok(())
    }

    fn shown(&self) -> Option<Arc<AllocSnapshot>> {
        self.shown.clone()
    }

    fn position(&self) -> Position {
        let (number, count) = (self.at.map_or(0, |at| at + 1), self.intervals.len());
        Position { ended: number == count, interval: Some((number, count)), ..Position::default() }
    }

    fn length(&self) -> Duration {
        let interval = self.intervals.get(self.at.unwrap_or(0));
        interval.map_or(Duration::ZERO, |s| s.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::{AllocPlayback, VIEWS, window};
    use crate::analysis::alloc::AllocSnapshot;
    use crate::analysis::alloc::fixture;
    use crate::analysis::alloc::window::AllocWindow;
    use crate::analysis::item::Item;
    use crate::analysis::profile::sums::tests::seed;
    use crate::commands::alloc::state::AllocScreenState;
    use crate::recording::alloc::{AllocInterval, RecordedAlloc};
    use crate::ui::json::write_line;
    use crate::ui::keys::Key;
    use crate::ui::player::Playback as _;
    use crate::ui::screen::ScreenApp as _;
    use crate::ui::state::{Replay, ScreenAction};

    fn step(recording: &mut AllocPlayback, by: i64) {
        recording.act(Replay::Step(by), &mut |_| false).unwrap();
    }

    #[test]
    fn keys_step_through_a_file() {
        assert!(AllocPlayback::new(Vec::new()).is_err());
        let all = [fixture::healthy(), fixture::linear(), fixture::cold()];
        let recorded = all.map(|snapshot| RecordedAlloc { snapshot, stacks: seed() });
        let mut recording = AllocPlayback::new(recorded.into()).unwrap();
        recording.step().unwrap();
        assert_eq!(recording.position().interval, Some((1, 3)));
        recording.step().unwrap();
        assert_eq!(recording.position().interval, Some((2, 3)));
        let mut state = AllocScreenState::new(VIEWS.len(), recording.length());
        state.set_position(recording.position());
        assert_eq!(state.speed(), Some(1.0));
        for (key, number) in
            [(Key::Right, 3), (Key::Right, 3), (Key::Left, 2), (Key::PageUp, 1), (Key::PageDown, 3)]
        {
            let ScreenAction::Replay(request) = state.on_key(key) else {
                panic!("{key:?}");
            };
            recording.act(request, &mut |_| false).unwrap();
            assert_eq!(recording.position().interval, Some((number, 3)), "{key:?}");
            assert_eq!((state.paused, state.speed()), (true, None));
            assert_eq!(recording.position().ended, number == 3);
        }
        state.on_key(Key::Char('p'));
        assert_eq!((state.paused, state.speed()), (false, Some(1.0)));
        assert_eq!(state.on_key(Key::Char('q')), ScreenAction::Quit);
    }

    #[test]
    fn replay_matches_the_live_screen() {
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
            write_line(&mut out, &AllocInterval::new(s)).unwrap();
            String::from_utf8(out).unwrap()
        };
        // Encode and decode, as through a file.
        let read = all.iter().map(|s| {
            let item = AllocInterval::item(s, &seed()).unwrap();
            let Item::Alloc { time_us, json } = item else {
                panic!("{item:?}");
            };
            AllocInterval::parse(time_us, &json).unwrap()
        });
        let mut recording = AllocPlayback::new(read.collect()).unwrap();
        let mut window = AllocWindow::default();
        let mut live = Vec::new();
        for s in &all {
            recording.step().unwrap();
            let shown = lines(&window.push(s.clone()));
            assert_eq!(lines(&recording.shown().unwrap()), shown);
            assert_eq!(recording.length(), s.interval);
            live.push(shown);
        }
        let last = &recording.shown().unwrap();
        assert_eq!(last.interval, window::LENGTH);
        assert!(last.filesystems[0].reason.is_some());
        for (by, at) in [(-1, 23), (-10, 13), (-10, 3)] {
            step(&mut recording, by);
            let shown = recording.shown().unwrap();
            assert_eq!(lines(&shown), live[at], "{at}");
        }
    }

    /// Shows the screen for a manual test: `cargo test --lib alloc::screen::tests::by_hand --
    /// --ignored --nocapture`.
    #[tokio::test(flavor = "current_thread")]
    #[ignore = "needs a terminal and a user"]
    async fn by_hand() {
        let all = vec![
            fixture::healthy(),
            fixture::linear(),
            fixture::cold(),
            fixture::degraded(),
            fixture::huge(),
        ];
        let all = all.into_iter().map(|snapshot| RecordedAlloc { snapshot, stacks: seed() });
        let end = crate::machine::signals::asked_to_end().unwrap();
        super::replay(all.collect(), crate::ui::palette::Depth::from_env(), end).await.unwrap();
    }
}
