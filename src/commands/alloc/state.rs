//! What the screen shows and what a key does to it. Pure: no terminal, no I/O.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::view::tree::{self, Tree};
use crate::analysis::alloc::AllocSnapshot;
use crate::ui::keys::Key;
use crate::ui::state::{Action, INTERVALS, PAGE, Replay};

/// What a screen is drawn from: an interval, and its stacks.
pub type Shown = (AllocSnapshot, Tree);

/// The views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The figures of a filesystem, as `--batch` has them.
    Overview,
    /// Groups looked at, criteria, free extents.
    Groups,
    /// Who allocates.
    Tasks,
    /// For which files.
    Files,
    /// Samples by CPU and by thread.
    Cpu,
    /// Samples by stack.
    Stacks,
}

impl View {
    /// In the order of their digits.
    pub const ALL: [Self; 6] = [
        Self::Overview,
        Self::Groups,
        Self::Tasks,
        Self::Files,
        Self::Cpu,
        Self::Stacks,
    ];

    /// As the tab says it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Groups => "groups",
            Self::Tasks => "processes",
            Self::Files => "files",
            Self::Cpu => "CPU",
            Self::Stacks => "stacks",
        }
    }

    fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// Everything that keys change.
#[derive(Clone, Debug)]
pub struct State {
    /// The view that is shown.
    pub view: View,
    /// Help lies over it, scrolled to this line.
    pub help: Option<usize>,
    /// Lines that help can be scrolled by, and one.
    help_lines: Cell<usize>,
    /// Whether the screen keeps the interval it has.
    pub paused: bool,
    /// The interval asked for.
    pub interval: Duration,
    /// The filesystem that is shown, among the snapshot's.
    pub filesystem: usize,
    /// Of a file that is shown: which interval of how many, from 1. `None`: it is what happens now.
    pub replay: Option<(usize, usize)>,
    rows: [usize; View::ALL.len()],
    /// Rows that the view has that was drawn last, or lines that it can be scrolled by, and one.
    last: Cell<usize>,
    /// Stacks that someone has folded or unfolded, by their names from the root.
    folds: HashMap<Vec<Arc<str>>, bool>,
    filesystems: usize,
    /// What keys do something to in the stacks: the selected one's names, and whether it is unfolded.
    selected: Option<(Vec<Arc<str>>, Option<bool>)>,
}

impl State {
    /// At the start, measuring every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            view: View::Overview,
            help: None,
            help_lines: Cell::new(1),
            paused: false,
            interval,
            filesystem: 0,
            replay: None,
            rows: [0; View::ALL.len()],
            last: Cell::new(usize::MAX),
            folds: HashMap::new(),
            filesystems: 0,
            selected: None,
        }
    }

    /// Looks at what is shown now, so that nothing selected lies outside of it. For every new snapshot and after every key.
    pub fn observe(&mut self, (snapshot, tree): &Shown) {
        self.filesystems = snapshot.filesystems.len();
        self.filesystem = self.filesystem.min(self.filesystems.saturating_sub(1));
        self.selected = None;
        if self.view == View::Stacks {
            let rows = tree::rows(tree, self);
            let row = self.row().min(rows.len().saturating_sub(1));
            self.rows[self.view as usize] = row;
            self.selected = rows.get(row).map(|r| (r.path.clone(), r.open));
        }
    }

    /// The row that is selected in this view, or the line it is scrolled to.
    pub fn row(&self) -> usize {
        self.rows[self.view as usize]
    }

    /// To be told by whoever draws: how many rows there are.
    pub fn set_rows(&self, rows: usize) {
        self.last.set(rows.max(1));
    }

    /// To be told by whoever draws help: how many lines it can be scrolled by.
    pub fn set_help_lines(&self, lines: usize) {
        self.help_lines.set(lines + 1);
    }

    /// Whether someone has folded or unfolded this.
    pub fn fold(&self, path: &[Arc<str>]) -> Option<bool> {
        self.folds.get(path).copied()
    }

    /// Takes a key.
    pub fn on_key(&mut self, key: Key) -> Action {
        if key == Key::Interrupt {
            return Action::Quit;
        }
        if let Some(line) = self.help {
            let last = self.help_lines.get() - 1;
            self.help = match key {
                Key::Up => Some(line.saturating_sub(1)),
                Key::Down => Some((line + 1).min(last)),
                Key::PageUp => Some(line.saturating_sub(PAGE)),
                Key::PageDown => Some((line + PAGE).min(last)),
                Key::Home => Some(0),
                Key::End => Some(last),
                // Whatever other key someone tries closes it.
                _ => None,
            };
            return Action::Draw;
        }
        if self.view == View::Stacks && self.on_stack_key(key) {
            return Action::Draw;
        }
        if self.replay.is_some() {
            let by = match key {
                Key::Right => 1,
                Key::Left => -1,
                Key::PageDown => 10,
                Key::PageUp => -10,
                _ => 0,
            };
            if by != 0 {
                return Action::Replay(Replay::Step(by));
            }
        }
        self.on_view_key(key)
    }

    /// `false`: it means what it means everywhere.
    fn on_stack_key(&mut self, key: Key) -> bool {
        let Some((path, Some(open))) = self.selected.clone() else {
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
        let last = self.last.get() - 1;
        let row = &mut self.rows[self.view as usize];
        *row = (*row).min(last);
        match key {
            Key::Up => *row = row.saturating_sub(1),
            Key::Down => *row = (*row + 1).min(last),
            Key::PageUp => *row = row.saturating_sub(PAGE),
            Key::PageDown => *row = (*row + PAGE).min(last),
            Key::Home => *row = 0,
            Key::End => *row = last,
            Key::Tab => self.turn_to(self.view.step(1)),
            Key::BackTab => self.turn_to(self.view.step(View::ALL.len() - 1)),
            Key::Char(c @ '1'..='9') => match View::ALL.get(c as usize - '1' as usize) {
                Some(&view) => self.turn_to(view),
                None => return Action::Nothing,
            },
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('+' | '=') => {
                return self.set_interval(INTERVALS.iter().find(|&&i| i > self.interval));
            }
            Key::Char('-' | '_') => {
                return self.set_interval(INTERVALS.iter().rev().find(|&&i| i < self.interval));
            }
            Key::Char('a' | ']') => {
                self.filesystem = (self.filesystem + 1) % self.filesystems.max(1);
            }
            Key::Char('[') => {
                let all = self.filesystems.max(1);
                self.filesystem = (self.filesystem + all - 1) % all;
            }
            Key::Char('?') => self.help = Some(0),
            Key::Char('q') | Key::Esc => return Action::Quit,
            _ => return Action::Nothing,
        }
        Action::Draw
    }

    fn turn_to(&mut self, view: View) {
        self.view = view;
        // Until it has been drawn.
        self.last.set(usize::MAX);
    }

    fn set_interval(&mut self, to: Option<&Duration>) -> Action {
        let Some(&to) = to else {
            return Action::Nothing;
        };
        self.interval = to;
        Action::Interval(to)
    }
}
