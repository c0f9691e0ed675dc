//! The live screen's sibling: the same views, of a recording, at a pace and place of one's choice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::analysis::hotspot::Kind;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::time;
use crate::recording::source::Source;
use crate::ui::palette::{Depth, Palette};
use crate::ui::screen::End;
use crate::ui::screen::{Input, Reader};
use crate::ui::state::{Action, Replay, Shown, State};
use crate::ui::term::{Guard, Screen};
use crate::ui::view;

/// Between looks at the keyboard while searching.
const LOOK: Duration = Duration::from_millis(50);

/// Where to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// To the first interval that ends behind this, µs since 1970.
    Time(i64),
    /// Search for a hot spot other than those at the start of the search.
    Finding,
}

/// Shows it until a key or `end` ends it. The terminal is restored in every case.
pub async fn run(source: Source, interval: Duration, depth: Depth, end: End) -> Result<()> {
    let guard =
        Guard::take().context("cannot use this terminal for the screen (--batch needs none)")?;
    let screen = guard
        .screen()
        .context("cannot use this terminal for the screen")?;
    let reader = Reader::start()?;
    let mut player = Player::new(source, interval);
    let mut show = Show {
        guard,
        screen,
        palette: Palette::new(depth),
    };
    let ended = show.run(&mut player, reader.inputs, end).await;
    drop(show); // Give the terminal back before waiting for the reader.
    reader.stop.join();
    ended
}

struct Show {
    guard: Guard,
    screen: Screen,
    palette: Palette,
}

impl Show {
    async fn run(
        &mut self,
        player: &mut Player,
        mut inputs: tokio::sync::mpsc::Receiver<Input>,
        mut end: End,
    ) -> Result<()> {
        player.step()?;
        let mut due = Instant::now() + player.pace();
        loop {
            self.draw(player)?;
            let wait = if player.goal.is_some() {
                Duration::ZERO
            } else if player.is_still() {
                Duration::from_secs(3600)
            } else {
                due.saturating_duration_since(Instant::now())
            };
            tokio::select! {
                biased;
                () = &mut end => return Ok(()),
                input = inputs.recv() => match input {
                    None => bail!("the reader of keys ended"),
                    Some(Input::Failed(error)) => return Err(error).context("cannot read keys from the terminal"),
                    Some(Input::Resize) => {}
                    Some(Input::Key(key)) => {
                        let was = player.state.replay.clone();
                        let action = player.state.on_key(key);
                        if action == Action::Quit {
                            return Ok(());
                        }
                        player.act(action)?;
                        if was.map(|r| r.speed) != player.state.replay.as_ref().map(|r| r.speed) {
                            due = Instant::now() + player.pace();
                        }
                    }
                },
                () = tokio::time::sleep(wait) => {
                    if player.goal.is_some() {
                        player.search()?;
                    } else if !player.is_still() {
                        player.step()?;
                    }
                    due = Instant::now() + player.pace();
                }
            }
        }
    }

    fn draw(&mut self, player: &Player) -> Result<()> {
        if !self.guard.holds() {
            bail!("a part of raidtrace panicked (see above)");
        }
        let (state, shown, palette) = (&player.state, player.shown.as_deref(), self.palette);
        self.screen
            .draw(|frame| view::draw(frame, state, shown, palette))
            .context("cannot draw on the terminal")?;
        Ok(())
    }
}

/// What is on the screen, and where to go from there. Knows no terminal.
struct Player {
    source: Source,
    interval: Duration,
    state: State,
    shown: Option<Arc<Snapshot>>,
    goal: Option<Goal>,
    /// Hot spots at the start of the search.
    was: Vec<String>,
}

impl Player {
    fn new(source: Source, interval: Duration) -> Self {
        let mut state = State::new(interval);
        state.replay = Some(Shown {
            cut: source.reader().lacks_end(),
            ..Shown::default()
        });
        Self {
            source,
            interval,
            state,
            shown: None,
            goal: None,
            was: Vec::new(),
        }
    }

    fn replay(&mut self) -> &mut Shown {
        self.state.replay.get_or_insert_default()
    }

    /// Nothing moves.
    fn is_still(&self) -> bool {
        self.state.paused
            || self
                .state
                .replay
                .as_ref()
                .is_some_and(|r| r.ended || r.typed.is_some())
    }

    /// How long an interval stays on the screen.
    fn pace(&self) -> Duration {
        let speed = self.state.replay.as_ref().map_or(1.0, |r| r.speed);
        let length = self.shown.as_ref().map_or(self.interval, |s| s.interval);
        length
            .div_f64(speed)
            .clamp(Duration::from_millis(20), Duration::from_secs(3600))
    }

    fn time_us(&self) -> i64 {
        self.shown
            .as_ref()
            .map_or(i64::MIN, |s| s.time.as_microsecond())
    }

    fn length_us(&self) -> i64 {
        let length = self.shown.as_ref().map_or(self.interval, |s| s.interval);
        i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
    }

    /// Shows the next interval. `false`: there is none.
    fn step(&mut self) -> Result<bool> {
        let Some(snapshot) = self.source.next() else {
            if self.shown.is_none() {
                bail!(
                    "the recording holds no interval; {}",
                    self.source.reader().ending()
                );
            }
            let cut = self.source.reader().ending().is_cut();
            let said = cut.then(|| self.source.reader().ending().to_string());
            let replay = self.replay();
            replay.ended = true;
            replay.cut |= cut;
            replay.said = said;
            return Ok(false);
        };
        self.state.observe(&snapshot);
        self.shown = Some(Arc::new(snapshot));
        self.replay().ended = false;
        Ok(true)
    }

    fn act(&mut self, action: Action) -> Result<()> {
        // Any key ends a search.
        self.goal = None;
        match action {
            Action::Replay(Replay::Step(n)) => {
                self.state.paused = true;
                if n > 0 {
                    for _ in 0..n {
                        if !self.step()? {
                            break;
                        }
                    }
                } else {
                    let inside = self.time_us().saturating_sub(self.length_us() / 2);
                    let n = usize::try_from(-n).unwrap_or(0);
                    self.go_back(self.source.back(inside, n))?;
                }
            }
            Action::Replay(Replay::Time(text)) => {
                let mut span = time::Span::new(self.source.begins_us().unwrap_or(0));
                if time::needs_end(&text) {
                    span.end_us = self.source.end_us();
                }
                match span.parse(&text, &time::local()) {
                    Ok(to) if to < self.time_us() => self.go_back(to)?,
                    Ok(to) => self.goal = Some(Goal::Time(to)),
                    Err(why) => self.replay().said = Some(why),
                }
            }
            Action::Replay(Replay::Finding { forwards: true }) => {
                self.was = self.findings();
                self.goal = Some(Goal::Finding);
                self.state.paused = true;
            }
            Action::Replay(Replay::Finding { forwards: false }) => self.find_back()?,
            Action::Interval(_) | Action::Draw | Action::Nothing | Action::Quit => {}
        }
        if let Some(shown) = self.shown.clone() {
            self.state.observe(&shown);
        }
        Ok(())
    }

    /// Shows the interval in which `to` lies.
    fn go_back(&mut self, to: i64) -> Result<()> {
        self.source.rewind(to)?;
        self.replay().ended = false;
        self.step()?;
        Ok(())
    }

    /// Goes on towards the goal for a moment.
    fn search(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < LOOK {
            let more = self.step()?;
            let there = match self.goal {
                Some(Goal::Time(to)) => self.time_us() > to,
                Some(Goal::Finding) => {
                    let now = self.findings();
                    let found = !now.is_empty() && now != self.was;
                    if now.is_empty() {
                        self.was.clear();
                    }
                    found
                }
                None => true,
            };
            if there || !more {
                if !there && self.goal == Some(Goal::Finding) {
                    self.replay().said = Some("no other hot spot up to the end".to_owned());
                }
                self.goal = None;
                break;
            }
        }
        Ok(())
    }

    /// Goes to the last earlier interval with another hot spot.
    fn find_back(&mut self) -> Result<()> {
        self.state.paused = true;
        let until = self.time_us();
        let now = self.findings();
        self.source.rewind(self.source.begins_us().unwrap_or(0))?;
        let mut found = None;
        let mut was: Vec<String> = Vec::new();
        while self.step()? && self.time_us() < until {
            let here = self.findings();
            if !here.is_empty() && here != was && here != now {
                found = Some(self.time_us());
            }
            was = here;
        }
        self.go_back(found.unwrap_or(until).saturating_sub(1))?;
        if found.is_none() {
            self.replay().said = Some("no other hot spot before".to_owned());
        }
        Ok(())
    }

    /// Current hot spots, one line per array, without the figures that change.
    fn findings(&self) -> Vec<String> {
        let arrays = self.shown.iter().flat_map(|s| &s.arrays);
        arrays
            .filter_map(|array| {
                let hotspot = array.hotspot.as_ref()?;
                let kind = hotspot.kind;
                let what = (kind != Kind::Even && kind.is_finding()).then_some(hotspot)?;
                Some(format!(
                    "{} {kind:?} {:?} {:?} {:?}",
                    array.info.name, what.origins, what.op, what.members
                ))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
