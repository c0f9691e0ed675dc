//! State of the screen of `slow`, and the effect of each key on it. Pure: no terminal, no I/O.

use std::time::Duration;

use crate::ui::keys::Key;
use crate::ui::state::{ScreenAction, change_interval};
use crate::ui::tabs::Tabs;

/// State that keys change.
#[derive(Clone, Debug)]
pub struct SlowScreenState {
    /// The selected view, and the selected row of each view.
    pub tabs: Tabs,
    /// The help window and its first line; `None` if closed.
    pub help: Option<Tabs>,
    /// The full-screen waterfall of the selected operation and its first line; `None` if closed.
    pub open: Option<Tabs>,
    /// True if the screen is paused and keeps its snapshot.
    pub paused: bool,
    /// True if the screen shows a recording.
    pub is_recording: bool,
    /// Requested length of an interval, or the length of the recording.
    pub interval: Duration,
}

impl SlowScreenState {
    /// State of a screen with `views` views, updated every `interval`.
    pub fn new(views: usize, interval: Duration) -> Self {
        Self {
            tabs: Tabs::new(views),
            help: None,
            open: None,
            paused: false,
            is_recording: false,
            interval,
        }
    }

    pub fn on_key(&mut self, key: Key) -> ScreenAction {
        if key == Key::Interrupt {
            return ScreenAction::Quit;
        }
        for window in [&mut self.help, &mut self.open] {
            if let Some(tabs) = window {
                // Any other key closes the window.
                if !tabs.scroll(key) {
                    *window = None;
                }
                return ScreenAction::Draw;
            }
        }
        match key {
            Key::Enter if self.tabs.shown() == 0 => self.open = Some(Tabs::new(1)),
            Key::Char(' ' | 'p' | '+' | '=' | '-' | '_') if self.is_recording => {
                return ScreenAction::Nothing;
            }
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('+' | '=') => return change_interval(&mut self.interval, true),
            Key::Char('-' | '_') => return change_interval(&mut self.interval, false),
            Key::Char('?') => self.help = Some(Tabs::new(1)),
            Key::Char('q') | Key::Esc => return ScreenAction::Quit,
            _ if self.tabs.on_key(key) => {}
            _ => return ScreenAction::Nothing,
        }
        ScreenAction::Draw
    }
}
