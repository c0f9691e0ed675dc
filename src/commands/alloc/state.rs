//! State of the screen of `alloc`, and the effect of each key on it. Pure: no terminal, no I/O.

use std::time::Duration;

use crate::analysis::alloc::AllocSnapshot;
use crate::ui::keys::Key;
use crate::ui::state::{Replay, ScreenAction, change_interval};
use crate::ui::tabs::Tabs;

/// State that keys change.
#[derive(Clone, Debug)]
pub struct AllocScreenState {
    /// The selected view, and the selected row or first line of each view.
    pub tabs: Tabs,
    /// The help window and its first line; `None` if closed.
    pub help: Option<Tabs>,
    /// True if paused: a live screen keeps its interval, a replay does not advance.
    pub paused: bool,
    pub interval: Duration,
    pub filesystem: usize,
    /// In a recording: number of the current interval, from 1, and the total number of intervals.
    /// `None` on a live screen.
    pub replay: Option<(usize, usize)>,
    filesystems: usize,
}

impl AllocScreenState {
    /// State of a screen with `views` views and the given interval.
    pub fn new(views: usize, interval: Duration) -> Self {
        Self {
            tabs: Tabs::new(views),
            help: None,
            paused: false,
            interval,
            filesystem: 0,
            replay: None,
            filesystems: 0,
        }
    }

    /// Clamps the selected filesystem to those in the snapshot. Called for each snapshot and after
    /// each key.
    pub fn observe(&mut self, snapshot: &AllocSnapshot) {
        self.filesystems = snapshot.filesystems.len();
        self.filesystem = self.filesystem.min(self.filesystems.saturating_sub(1));
    }

    pub fn on_key(&mut self, key: Key) -> ScreenAction {
        if key == Key::Interrupt {
            return ScreenAction::Quit;
        }
        if let Some(help) = &mut self.help {
            // Any other key closes help.
            if !help.scroll(key) {
                self.help = None;
            }
            return ScreenAction::Draw;
        }
        let by = match key {
            Key::Right => 1,
            Key::Left => -1,
            Key::PageDown => 10,
            Key::PageUp => -10,
            _ => 0,
        };
        if self.replay.is_some() && by != 0 {
            self.paused = true;
            return ScreenAction::Replay(Replay::Step(by));
        }
        self.on_view_key(key)
    }

    fn on_view_key(&mut self, key: Key) -> ScreenAction {
        let filesystems = self.filesystems.max(1);
        match key {
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('+' | '=') => return change_interval(&mut self.interval, true),
            Key::Char('-' | '_') => return change_interval(&mut self.interval, false),
            Key::Char('a' | ']') => self.filesystem = (self.filesystem + 1) % filesystems,
            Key::Char('[') => self.filesystem = (self.filesystem + filesystems - 1) % filesystems,
            Key::Char('?') => self.help = Some(Tabs::new(1)),
            Key::Char('q') | Key::Esc => return ScreenAction::Quit,
            _ if self.tabs.on_key(key) => {}
            _ => return ScreenAction::Nothing,
        }
        ScreenAction::Draw
    }
}
