//! State of the screen of `top`, and the effect of each key on it. Pure: no terminal, no drawing,
//! no I/O.

use std::cell::Cell;
use std::time::Duration;

use super::keys::Key::{
    self, Back, Char, Down, End, Enter, Esc, Home, Interrupt, Left, PageDown, PageUp, Right, Up,
};
use super::rows::{Measure, RowFilter};
use super::tabs::Tabs;
use crate::analysis::snapshot::Snapshot;
use crate::origin::{Op, Origin};

/// Intervals that + and - select.
const INTERVALS: [Duration; 9] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// A window over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    None,
    /// Help: number of pages forwards (or back) from the first. Pages wrap around.
    Help(i32),
    /// The list of origins to filter by, and the selected line; 0 is all origins.
    Origins(usize),
}

/// Result of a key, for the screen loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenAction {
    /// Nothing changed.
    Nothing,
    /// The state changed.
    Draw,
    /// Use this interval from now on.
    Interval(Duration),
    /// Move a replay.
    Replay(Replay),
    /// End the screen.
    Quit,
}

/// A replay command that a key triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Move by a number of intervals; negative: back.
    Step(i64),
    /// Search for the next or previous hot spot.
    Hotspot {
        /// Towards the end.
        forwards: bool,
    },
    /// Move to this time, as typed.
    Time(String),
}

/// Position of a replay in its recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    /// The last interval is on the screen.
    pub ended: bool,
    /// The tail of the recording is missing.
    pub cut: bool,
    /// Message for the bottom line after a replay command, for example an invalid time or no
    /// further hot spot, or at the end of a recording that was cut.
    pub message: Option<String>,
    /// Number of the interval, from 1, and the number of intervals, if both are known.
    pub interval: Option<(usize, usize)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReplayState {
    /// Playback speed: seconds of recorded time per second of real time.
    pub speed: f64,
    /// Position in the recording.
    pub position: Position,
    /// A time that is being typed.
    pub typed: Option<String>,
}

impl Default for ReplayState {
    fn default() -> Self {
        Self { speed: 1.0, position: Position::default(), typed: None }
    }
}

/// Speeds that + and - select.
const SPEEDS: [f64; 11] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0];

/// State that keys change.
#[derive(Clone, Debug)]
pub struct ScreenState {
    /// The view that is shown, and the selected row and sort column of each.
    pub tabs: Tabs,
    /// The window over the view.
    pub overlay: Overlay,
    /// Origins and operations that are shown.
    pub filter: RowFilter,
    /// Unit of bars and heat.
    pub measure: Measure,
    /// While true, a live screen keeps its snapshot and a replay does not advance.
    pub paused: bool,
    /// The requested interval.
    pub interval: Duration,
    /// `None` on a live screen.
    pub replay: Option<ReplayState>,
    /// Index of the array that is shown.
    pub array: usize,
    /// The member that is selected in the heat map.
    pub member: usize,
    /// If true, ← and → select a member instead of changing the sort column. Set by the view that
    /// was drawn last.
    pub selects_member: Cell<bool>,
    known: SnapshotContents,
}

/// Contents of the last snapshot that keys depend on.
#[derive(Clone, Debug, Default)]
struct SnapshotContents {
    arrays: usize,
    members: usize,
    ops: Vec<Op>,
    origins: Vec<Origin>,
}

impl ScreenState {
    /// State of a screen with `views` views that is updated every `interval`.
    pub fn new(views: usize, interval: Duration) -> Self {
        Self {
            tabs: Tabs::new(views),
            overlay: Overlay::None,
            filter: RowFilter::default(),
            measure: Measure::default(),
            paused: false,
            interval,
            replay: None,
            array: 0,
            member: 0,
            selects_member: Cell::new(false),
            known: SnapshotContents::default(),
        }
    }

    /// Keeps the selected array and member within `snapshot`. Called for each snapshot and after
    /// each key.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        self.known =
            SnapshotContents { arrays: snapshot.arrays.len(), ..SnapshotContents::default() };
        self.array = self.array.min(self.known.arrays.saturating_sub(1));
        if let Some(array) = snapshot.arrays.get(self.array) {
            let cells = || array.members.iter().flat_map(|m| &m.io);
            let has_op = |op: &Op| cells().any(|c| c.op == *op);
            let has_origin = |origin: &Origin| cells().any(|c| c.origin == *origin);
            self.known.ops = Op::ALL.into_iter().filter(has_op).collect();
            self.known.origins = Origin::ALL.into_iter().filter(has_origin).collect();
            self.known.members = array.members.len();
            self.member = self.member.min(array.members.len().saturating_sub(1));
        }
    }

    /// Origins to choose from: the origins of the snapshot, and the chosen origin.
    pub fn choices(&self) -> Vec<Origin> {
        let mut origins = self.known.origins.clone();
        origins.extend(self.filter.origin);
        origins.sort_unstable();
        origins.dedup();
        origins
    }

    /// Stores the position of a replay.
    pub fn set_position(&mut self, position: Position) {
        self.replay.get_or_insert_default().position = position;
    }

    /// Speed of a replay; `None` while it must not advance by itself.
    pub fn speed(&self) -> Option<f64> {
        let replay = self.replay.as_ref()?;
        (!self.paused && replay.typed.is_none()).then_some(replay.speed)
    }

    /// Handles a key.
    pub fn on_key(&mut self, key: Key) -> ScreenAction {
        if key == Interrupt {
            return ScreenAction::Quit;
        }
        match self.overlay {
            Overlay::None => match self.on_replay_key(key) {
                Some(action) => action,
                None => self.on_view_key(key),
            },
            Overlay::Origins(at) => self.on_list_key(key, at),
            Overlay::Help(page) => {
                self.overlay = match key {
                    Down | Right | PageDown => Overlay::Help(page.wrapping_add(1)),
                    Up | Left | PageUp => Overlay::Help(page.wrapping_sub(1)),
                    // Any other key closes help.
                    _ => Overlay::None,
                };
                ScreenAction::Draw
            }
        }
    }

    /// Handles the keys that have another meaning in a replay.
    fn on_replay_key(&mut self, key: Key) -> Option<ScreenAction> {
        let replay = self.replay.as_mut()?;
        if let Some(typed) = &mut replay.typed {
            match key {
                Char(c) if typed.len() < 32 => typed.push(c),
                Back => {
                    typed.pop();
                }
                Enter => {
                    let typed = replay.typed.take().unwrap_or_default();
                    return Some(ScreenAction::Replay(Replay::Time(typed)));
                }
                Esc => replay.typed = None,
                // h and l are decoded as arrows.
                Left => typed.push('h'),
                Right => typed.push('l'),
                _ => {}
            }
            return Some(ScreenAction::Draw);
        }
        replay.position.message = None;
        let mut pause = |request| {
            self.paused = true;
            Some(ScreenAction::Replay(request))
        };
        match key {
            Right => pause(Replay::Step(1)),
            Left => pause(Replay::Step(-1)),
            PageDown => pause(Replay::Step(10)),
            PageUp => pause(Replay::Step(-10)),
            Char('n') => pause(Replay::Hotspot { forwards: true }),
            Char('N') => pause(Replay::Hotspot { forwards: false }),
            Char('t') => {
                replay.typed = Some(String::new());
                Some(ScreenAction::Draw)
            }
            Char('+' | '=') => {
                let faster = SPEEDS.iter().find(|&&s| s > replay.speed);
                replay.speed = *faster.unwrap_or(&replay.speed);
                Some(ScreenAction::Draw)
            }
            Char('-' | '_') => {
                let slower = SPEEDS.iter().rev().find(|&&s| s < replay.speed);
                replay.speed = *slower.unwrap_or(&replay.speed);
                Some(ScreenAction::Draw)
            }
            _ => None,
        }
    }

    fn on_list_key(&mut self, key: Key, at: usize) -> ScreenAction {
        let choices = self.choices();
        self.overlay = match key {
            Up => Overlay::Origins(at.saturating_sub(1)),
            Down => Overlay::Origins((at + 1).min(choices.len())),
            Home | PageUp => Overlay::Origins(0),
            End | PageDown => Overlay::Origins(choices.len()),
            Enter | Char(' ') => {
                self.filter.origin = at.checked_sub(1).and_then(|i| choices.get(i).copied());
                Overlay::None
            }
            Esc | Char('q' | 'f') => Overlay::None,
            _ => return ScreenAction::Nothing,
        };
        ScreenAction::Draw
    }

    fn on_view_key(&mut self, key: Key) -> ScreenAction {
        let last_member = self.known.members.saturating_sub(1);
        match key {
            Left if self.selects_member.get() => self.member = self.member.saturating_sub(1),
            Right if self.selects_member.get() => self.member = (self.member + 1).min(last_member),
            Char('o') => self.filter.op = next(&self.known.ops, self.filter.op),
            Char('f') => {
                let chosen = self.choices().iter().position(|&o| Some(o) == self.filter.origin);
                self.overlay = Overlay::Origins(chosen.map_or(0, |i| i + 1));
            }
            Char('x') => self.filter = RowFilter::default(),
            Char('m') => {
                self.measure = match self.measure {
                    Measure::Requests => Measure::Bytes,
                    Measure::Bytes => Measure::Requests,
                }
            }
            Char(' ' | 'p') => self.paused = !self.paused,
            Char('+' | '=') => {
                return change_interval(&mut self.interval, true);
            }
            Char('-' | '_') => {
                return change_interval(&mut self.interval, false);
            }
            Char('a' | ']') => self.array = (self.array + 1) % self.known.arrays.max(1),
            Char('[') => {
                self.array = (self.array + self.known.arrays.max(1) - 1) % self.known.arrays.max(1)
            }
            Char('?') => self.overlay = Overlay::Help(0),
            Char('q') | Esc => return ScreenAction::Quit,
            _ if self.tabs.on_key(key) => {}
            _ => return ScreenAction::Nothing,
        }
        ScreenAction::Draw
    }
}

/// Changes to the next longer or shorter interval. Does nothing after the last one.
pub(crate) fn change_interval(interval: &mut Duration, longer: bool) -> ScreenAction {
    let next = match longer {
        true => INTERVALS.iter().find(|i| *i > interval),
        false => INTERVALS.iter().rev().find(|i| *i < interval),
    };
    next.map_or(ScreenAction::Nothing, |&next| {
        *interval = next;
        ScreenAction::Interval(next)
    })
}

/// The value after `now` in `all`; `None` (everything) after the last one.
fn next<T: Copy + PartialEq>(all: &[T], now: Option<T>) -> Option<T> {
    match now {
        None => all.first().copied(),
        Some(now) => all.iter().position(|&v| v == now).and_then(|i| all.get(i + 1)).copied(),
    }
}

#[cfg(test)]
mod tests;
