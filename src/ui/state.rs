//! What the screen shows and what a key does to it. Pure: no terminal, no drawing, no I/O.

use std::time::Duration;

use super::keys::Key;
use super::rows::{self, Column, Filter, Measure};
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::origin::{Op, Origin};

/// The intervals that + and - step through.
pub(crate) const INTERVALS: [Duration; 9] = [
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

/// Rows that a page key moves by.
pub(crate) const PAGE: usize = 10;

/// The views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A row a member.
    Members,
    /// Origin x member.
    Matrix,
    /// Who submitted.
    Tasks,
    /// Queue and device time.
    Latency,
    /// Which files.
    Files,
    /// What IO of each origin cost below.
    Amplification,
}

impl View {
    /// In the order of their digits.
    pub const ALL: [Self; 6] = [
        Self::Members,
        Self::Matrix,
        Self::Tasks,
        Self::Latency,
        Self::Files,
        Self::Amplification,
    ];

    /// As the tab says it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Matrix => "origins",
            Self::Tasks => "processes",
            Self::Latency => "latency",
            Self::Files => "files",
            Self::Amplification => "amplification",
        }
    }

    /// What it can be sorted by; the first is how it starts.
    pub fn columns(self) -> &'static [Column] {
        use Column::{
            Below, Busy, Bytes, Causes, Cgroup, Comm, Data, DeviceMax, DeviceP50, DeviceP99,
            Discards, Factor, Filesystem, Flushes, InFlight, MdBitmap, MdJournal, Name, Op, Origin,
            Others, P50, P99, Parity, Path, Pid, PreRead, QueueMax, QueueP50, QueueP99, Reads,
            Requests, Role, Share, Skew, Slot, Submitted, Total, Writes,
        };
        match self {
            Self::Members => &[
                Slot, Name, Reads, Writes, Flushes, Discards, Others, Bytes, InFlight, Busy, P50,
                P99,
            ],
            Self::Matrix => &[Origin, Skew, Total],
            Self::Tasks => &[
                Causes, Bytes, Pid, Comm, Role, Reads, Writes, Discards, Cgroup,
            ],
            Self::Latency => &[
                DeviceP99, DeviceMax, Name, Origin, Op, Requests, QueueP50, QueueP99, QueueMax,
                DeviceP50,
            ],
            Self::Files => &[Bytes, Reads, Writes, Share, Filesystem, Path],
            Self::Amplification => &[
                Below, Factor, Origin, Op, Submitted, Data, Parity, PreRead, MdBitmap, MdJournal,
            ],
        }
    }

    fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// What lies over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    None,
    /// The keys and what the figures mean: pages forth (or back) from the first. Where they end, they begin again.
    Help(i32),
    /// The list of origins to filter by; 0 is all of them.
    Origins(usize),
}

/// What the loop has to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing changed.
    Nothing,
    /// Draw again.
    Draw,
    /// Measure at this interval from now on.
    Interval(Duration),
    /// Something of a replay alone.
    Replay(Replay),
    /// End.
    Quit,
}

/// What keys do to a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// So many intervals on, or back.
    Step(i64),
    /// Jump to the next or previous hot spot.
    Finding {
        /// Towards the end.
        forwards: bool,
    },
    /// To this moment, as it was typed.
    Time(String),
}

/// How a recording is being shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Of the time that passes in it, and here.
    pub speed: f64,
    /// Its last interval is on the screen.
    pub ended: bool,
    /// Its tail is missing.
    pub cut: bool,
    /// A moment that is being typed.
    pub typed: Option<String>,
    /// The answer to a key.
    pub said: Option<String>,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            speed: 1.0,
            ended: false,
            cut: false,
            typed: None,
            said: None,
        }
    }
}

/// The speeds that + and - step through.
const SPEEDS: [f64; 11] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0,
];

/// What a view remembers while another is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    row: usize,
    sort: usize,
    reversed: bool,
}

/// Everything that keys change.
#[derive(Clone, Debug)]
pub struct State {
    /// The view that is shown.
    pub view: View,
    /// What lies over it.
    pub overlay: Overlay,
    /// What is left out.
    pub filter: Filter,
    /// What bars and heat measure.
    pub measure: Measure,
    /// Whether the screen keeps the snapshot it has.
    pub paused: bool,
    /// The interval asked for.
    pub interval: Duration,
    /// Of a recording: how it is shown. `None`: it is what happens now.
    pub replay: Option<Shown>,
    /// The array that is shown, among the snapshot's.
    pub array: usize,
    /// The member column that is selected in the heat map.
    pub member: usize,
    places: [Place; View::ALL.len()],
    known: Known,
}

/// What the last snapshot has, as far as keys depend on it.
#[derive(Clone, Debug, Default)]
struct Known {
    arrays: usize,
    members: usize,
    rows: usize,
    ops: Vec<Op>,
    origins: Vec<Origin>,
}

impl State {
    /// At the start, measuring every `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            view: View::Members,
            overlay: Overlay::None,
            filter: Filter::default(),
            measure: Measure::default(),
            paused: false,
            interval,
            replay: None,
            array: 0,
            member: 0,
            places: [Place::default(); View::ALL.len()],
            known: Known::default(),
        }
    }

    /// Looks at what is shown now, so that nothing selected lies outside of it. To be called for every new snapshot
    /// and after every key.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        self.known.arrays = snapshot.arrays.len();
        self.array = self.array.min(self.known.arrays.saturating_sub(1));
        let Some(array) = snapshot.arrays.get(self.array) else {
            self.known = Known::default();
            return;
        };
        let cells = || array.members.iter().flat_map(|m| &m.io);
        self.known.ops = Op::ALL
            .into_iter()
            .filter(|&op| cells().any(|c| c.op == op))
            .collect();
        self.known.origins = Origin::ALL
            .into_iter()
            .filter(|&o| cells().any(|c| c.origin == o))
            .collect();
        self.known.members = array.members.len();
        self.known.rows = self.count_rows(array);
        self.member = self.member.min(self.known.members.saturating_sub(1));
        let last = self.known.rows.saturating_sub(1);
        let place = &mut self.places[self.view as usize];
        place.row = place.row.min(last);
    }

    fn count_rows(&self, array: &ArraySnapshot) -> usize {
        match self.view {
            View::Members => array.members.len(),
            View::Matrix => rows::heat(array, 1.0, self.filter, self.measure).0.len(),
            View::Tasks => rows::tasks(array, 1.0, self.filter, self.measure).len(),
            View::Latency => rows::latencies(array, 1.0, self.filter).len(),
            View::Files => rows::files(array, 1.0, self.filter, self.measure).len(),
            View::Amplification => rows::amplification(array, self.filter).len(),
        }
    }

    /// The row that is selected in this view.
    pub fn row(&self) -> usize {
        self.places[self.view as usize].row
    }

    /// What this view is sorted by, and whether the other way round.
    pub fn sort(&self) -> (Column, bool) {
        self.sort_of(self.view)
    }

    /// What `view` is sorted by, and whether the other way round.
    pub fn sort_of(&self, view: View) -> (Column, bool) {
        let place = self.places[view as usize];
        let columns = view.columns();
        (columns[place.sort % columns.len()], place.reversed)
    }

    /// The origins that the list offers: those there are, and the one that is chosen.
    pub fn choices(&self) -> Vec<Origin> {
        let mut origins = self.known.origins.clone();
        origins.extend(self.filter.origin);
        origins.sort_unstable();
        origins.dedup();
        origins
    }

    /// Takes a key.
    pub fn on_key(&mut self, key: Key) -> Action {
        if key == Key::Interrupt {
            return Action::Quit;
        }
        match self.overlay {
            Overlay::None => match self.on_replay_key(key) {
                Some(action) => action,
                None => self.on_view_key(key),
            },
            Overlay::Origins(at) => self.on_list_key(key, at),
            Overlay::Help(page) => {
                self.overlay = match key {
                    Key::Down | Key::Right | Key::PageDown => Overlay::Help(page.wrapping_add(1)),
                    Key::Up | Key::Left | Key::PageUp => Overlay::Help(page.wrapping_sub(1)),
                    // Whatever other key someone tries closes it.
                    _ => Overlay::None,
                };
                Action::Draw
            }
        }
    }

    /// Keys that mean something else in a replay.
    fn on_replay_key(&mut self, key: Key) -> Option<Action> {
        let replay = self.replay.as_mut()?;
        if let Some(typed) = &mut replay.typed {
            match key {
                Key::Char(c) if typed.len() < 32 => typed.push(c),
                Key::Back => {
                    typed.pop();
                }
                Key::Enter => {
                    let typed = replay.typed.take().unwrap_or_default();
                    return Some(Action::Replay(Replay::Time(typed)));
                }
                Key::Esc => replay.typed = None,
                // Arrows are letters to whoever has decoded them.
                Key::Left => typed.push('h'),
                Key::Right => typed.push('l'),
                _ => {}
            }
            return Some(Action::Draw);
        }
        replay.said = None;
        let step = |n| Some(Action::Replay(Replay::Step(n)));
        match key {
            Key::Right => step(1),
            Key::Left => step(-1),
            Key::PageDown => step(10),
            Key::PageUp => step(-10),
            Key::Char('n') => Some(Action::Replay(Replay::Finding { forwards: true })),
            Key::Char('N') => Some(Action::Replay(Replay::Finding { forwards: false })),
            Key::Char('t') => {
                replay.typed = Some(String::new());
                Some(Action::Draw)
            }
            Key::Char('+' | '=') => {
                let faster = SPEEDS.iter().find(|&&s| s > replay.speed);
                replay.speed = *faster.unwrap_or(&replay.speed);
                Some(Action::Draw)
            }
            Key::Char('-' | '_') => {
                let slower = SPEEDS.iter().rev().find(|&&s| s < replay.speed);
                replay.speed = *slower.unwrap_or(&replay.speed);
                Some(Action::Draw)
            }
            _ => None,
        }
    }

    fn on_list_key(&mut self, key: Key, at: usize) -> Action {
        let choices = self.choices();
        self.overlay = match key {
            Key::Up => Overlay::Origins(at.saturating_sub(1)),
            Key::Down => Overlay::Origins((at + 1).min(choices.len())),
            Key::Home | Key::PageUp => Overlay::Origins(0),
            Key::End | Key::PageDown => Overlay::Origins(choices.len()),
            Key::Enter | Key::Char(' ') => {
                self.filter.origin = at.checked_sub(1).and_then(|i| choices.get(i).copied());
                Overlay::None
            }
            Key::Esc | Key::Char('q' | 'f') => Overlay::None,
            _ => return Action::Nothing,
        };
        Action::Draw
    }

    fn on_view_key(&mut self, key: Key) -> Action {
        let last = self.known.rows.saturating_sub(1);
        let last_member = self.known.members.saturating_sub(1);
        let place = &mut self.places[self.view as usize];
        match key {
            Key::Up => place.row = place.row.saturating_sub(1),
            Key::Down => place.row = (place.row + 1).min(last),
            Key::PageUp => place.row = place.row.saturating_sub(PAGE),
            Key::PageDown => place.row = (place.row + PAGE).min(last),
            Key::Home => place.row = 0,
            Key::End => place.row = last,
            Key::Left if self.view == View::Matrix => self.member = self.member.saturating_sub(1),
            Key::Right if self.view == View::Matrix => {
                self.member = (self.member + 1).min(last_member)
            }
            Key::Left => self.sort_by(self.view.columns().len() - 1),
            Key::Right | Key::Char('s') => self.sort_by(1),
            Key::Char('S') => place.reversed = !place.reversed,
            Key::Tab => self.view = self.view.step(1),
            Key::BackTab => self.view = self.view.step(View::ALL.len() - 1),
            Key::Char(c @ '1'..='9') => match View::ALL.get(c as usize - '1' as usize) {
                Some(&view) => self.view = view,
                None => return Action::Nothing,
            },
            Key::Char('o') => self.filter.op = next(&self.known.ops, self.filter.op),
            Key::Char('f') => {
                let chosen = self
                    .choices()
                    .iter()
                    .position(|&o| Some(o) == self.filter.origin);
                self.overlay = Overlay::Origins(chosen.map_or(0, |i| i + 1));
            }
            Key::Char('x') => self.filter = Filter::default(),
            Key::Char('m') => {
                self.measure = match self.measure {
                    Measure::Requests => Measure::Bytes,
                    Measure::Bytes => Measure::Requests,
                }
            }
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('+' | '=') => {
                return self.set_interval(INTERVALS.iter().find(|&&i| i > self.interval));
            }
            Key::Char('-' | '_') => {
                return self.set_interval(INTERVALS.iter().rev().find(|&&i| i < self.interval));
            }
            Key::Char('a' | ']') => self.array = (self.array + 1) % self.known.arrays.max(1),
            Key::Char('[') => {
                self.array = (self.array + self.known.arrays.max(1) - 1) % self.known.arrays.max(1)
            }
            Key::Char('?') => self.overlay = Overlay::Help(0),
            Key::Char('q') | Key::Esc => return Action::Quit,
            _ => return Action::Nothing,
        }
        Action::Draw
    }

    fn sort_by(&mut self, step: usize) {
        let place = &mut self.places[self.view as usize];
        place.sort = (place.sort + step) % self.view.columns().len();
        place.reversed = false;
    }

    fn set_interval(&mut self, to: Option<&Duration>) -> Action {
        let Some(&to) = to else {
            return Action::Nothing;
        };
        self.interval = to;
        Action::Interval(to)
    }
}

/// The value after `now` in `all`, `None` (everything) after the last.
fn next<T: Copy + PartialEq>(all: &[T], now: Option<T>) -> Option<T> {
    match now {
        None => all.first().copied(),
        Some(now) => all
            .iter()
            .position(|&v| v == now)
            .and_then(|i| all.get(i + 1))
            .copied(),
    }
}

#[cfg(test)]
mod tests;
