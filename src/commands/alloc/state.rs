//! State of the screen of `alloc`, and the effect of each key on it. Pure: no terminal, no I/O.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::tree::Tree;
use crate::analysis::alloc::AllocSnapshot;
use crate::ui::keys::Key;
use crate::ui::state::{Action, Replay, change_interval};
use crate::ui::tabs::Tabs;

pub type Shown = (AllocSnapshot, Tree);

/// A path in the stack tree: the comm, then function names.
pub(super) type Path = Vec<Arc<str>>;

/// State that keys change.
#[derive(Clone, Debug)]
pub struct State {
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
    /// Stacks that a key has folded (false) or unfolded (true).
    folds: HashMap<Path, bool>,
    filesystems: usize,
    /// The selected stack in the last drawn view, and true if it is unfolded. `None` if no stack
    /// is selected or it has no callees.
    selected: RefCell<Option<(Path, bool)>>,
}

impl State {
    /// State of a screen with `views` views and the given interval.
    pub fn new(views: usize, interval: Duration) -> Self {
        Self {
            tabs: Tabs::new(views),
            help: None,
            paused: false,
            interval,
            filesystem: 0,
            replay: None,
            folds: HashMap::new(),
            filesystems: 0,
            selected: RefCell::default(),
        }
    }

    /// Clamps the selected filesystem to those in the snapshot. Called for each snapshot and after
    /// each key.
    pub fn observe(&mut self, (snapshot, _): &Shown) {
        self.filesystems = snapshot.filesystems.len();
        self.filesystem = self.filesystem.min(self.filesystems.saturating_sub(1));
    }

    /// Stores the selected stack of the drawn view, and true if it is unfolded.
    pub(super) fn set_selected(&self, stack: Option<(Path, bool)>) {
        self.selected.replace(stack);
    }

    /// True if a key has unfolded the stack, false if a key has folded it, `None` otherwise.
    pub fn fold(&self, path: &[Arc<str>]) -> Option<bool> {
        self.folds.get(path).copied()
    }

    pub fn on_key(&mut self, key: Key) -> Action {
        if key == Key::Interrupt {
            return Action::Quit;
        }
        if let Some(help) = &mut self.help {
            // Any other key closes help.
            if !help.scroll(key) {
                self.help = None;
            }
            return Action::Draw;
        }
        if self.on_stack_key(key) {
            return Action::Draw;
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
            return Action::Replay(Replay::Step(by));
        }
        self.on_view_key(key)
    }

    /// Folds or unfolds the selected stack. False if the key does neither.
    fn on_stack_key(&mut self, key: Key) -> bool {
        let selected = self.selected.borrow().clone();
        let Some((path, open)) = selected else {
            return false;
        };
        let to = match key {
            Key::Enter | Key::Char(' ') => !open,
            Key::Right if !open => true,
            Key::Left if open => false,
            _ => return false,
        };
        self.folds.insert(path, to);
        true
    }

    fn on_view_key(&mut self, key: Key) -> Action {
        let filesystems = self.filesystems.max(1);
        match key {
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('+' | '=') => return change_interval(&mut self.interval, true),
            Key::Char('-' | '_') => return change_interval(&mut self.interval, false),
            Key::Char('a' | ']') => self.filesystem = (self.filesystem + 1) % filesystems,
            Key::Char('[') => self.filesystem = (self.filesystem + filesystems - 1) % filesystems,
            Key::Char('?') => self.help = Some(Tabs::new(1)),
            Key::Char('q') | Key::Esc => return Action::Quit,
            _ if self.tabs.on_key(key) => {}
            _ => return Action::Nothing,
        }
        Action::Draw
    }
}
