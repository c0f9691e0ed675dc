//! A recording as a [`Playback`]: steps, seeks and searches for hot spots.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::analysis::hotspot::HotspotKind;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::time;
use crate::machine::signals::End;
use crate::recording::source::IntervalReader;
use crate::ui::palette::Depth;
use crate::ui::player::{Playback, Player};
use crate::ui::screen::run_app;
use crate::ui::state::{Position, Replay, ReplayState, ScreenState};
use crate::ui::view::VIEWS;

/// Shows a recording until a key or `end` ends the screen. The terminal is restored in every case.
pub async fn run(source: IntervalReader, interval: Duration, depth: Depth, end: End) -> Result<()> {
    let mut state = ScreenState::new(VIEWS.len(), interval);
    state.replay = Some(ReplayState::default());
    let player = Player::start(TopPlayback::new(source, interval))?;
    run_app(state, player, depth, end).await
}

struct TopPlayback {
    source: IntervalReader,
    interval: Duration,
    shown: Option<Arc<Snapshot>>,
    position: Position,
}

impl Playback for TopPlayback {
    type Snapshot = Snapshot;

    fn step(&mut self) -> Result<()> {
        if let Some(snapshot) = self.source.next() {
            self.shown = Some(Arc::new(snapshot));
            self.position.ended = false;
            return Ok(());
        }
        let ending = self.source.reader().ending();
        if self.shown.is_none() {
            bail!("the recording contains no interval; {ending}");
        }
        self.position.ended = true;
        self.position.cut |= ending.is_cut();
        self.position.message = ending.is_cut().then(|| ending.to_string());
        Ok(())
    }

    fn act(
        &mut self,
        request: Replay,
        progress: &mut dyn FnMut(Option<&Self>) -> bool,
    ) -> Result<()> {
        self.position.message = None;
        match request {
            Replay::Step(n) => self.step_by(n),
            Replay::Time(text) => {
                let mut span = time::RecordedSpan::new(self.source.start_us().unwrap_or(0));
                if time::needs_end(&text) {
                    span.end_us = self.source.end_us();
                }
                match span.parse(&text, &time::local()) {
                    Ok(to) if to < self.time_us() => self.go_back(to),
                    Ok(to) => self.search(progress, |here| here.time_us() > to).map(drop),
                    Err(error) => {
                        self.position.message = Some(error);
                        Ok(())
                    }
                }
            }
            Replay::Hotspot { forwards: true } => {
                let mut first = self.hotspots();
                let found = self.search(progress, |here| {
                    let now = here.hotspots();
                    let found = !now.is_empty() && now != first;
                    if now.is_empty() {
                        first.clear();
                    }
                    found
                })?;
                if !found && self.position.ended {
                    self.position.message = Some("no other hot spot before the end".to_owned());
                }
                Ok(())
            }
            Replay::Hotspot { forwards: false } => self.search_back(progress),
        }
    }

    fn shown(&self) -> Option<Arc<Snapshot>> {
        self.shown.clone()
    }

    fn position(&self) -> Position {
        self.position.clone()
    }

    fn length(&self) -> Duration {
        self.shown.as_ref().map_or(self.interval, |s| s.interval)
    }
}

impl TopPlayback {
    fn new(source: IntervalReader, interval: Duration) -> Self {
        let cut = source.reader().lacks_end();
        Self { source, interval, shown: None, position: Position { cut, ..Position::default() } }
    }

    fn time_us(&self) -> i64 {
        self.shown.as_ref().map_or(i64::MIN, |s| s.time.as_microsecond())
    }

    fn step_by(&mut self, n: i64) -> Result<()> {
        if n < 0 {
            let half = i64::try_from(self.length().as_micros() / 2).unwrap_or(i64::MAX);
            let inside = self.time_us().saturating_sub(half);
            let n = usize::try_from(-n).unwrap_or(0);
            return self.go_back(self.source.back(inside, n));
        }
        for _ in 0..n {
            self.step()?;
            if self.position.ended {
                break;
            }
        }
        Ok(())
    }

    /// Shows the interval that contains `to`, in µs since 1970.
    fn go_back(&mut self, to: i64) -> Result<()> {
        self.source.rewind(to)?;
        self.step()
    }

    /// Steps until `found` returns true, the recording ends, or a key is pressed. True if found.
    fn search(
        &mut self,
        progress: &mut dyn FnMut(Option<&Self>) -> bool,
        mut found: impl FnMut(&Self) -> bool,
    ) -> Result<bool> {
        loop {
            self.step()?;
            if self.position.ended {
                return Ok(false);
            }
            if found(self) {
                return Ok(true);
            }
            if progress(Some(self)) {
                return Ok(false);
            }
        }
    }

    /// Shows the last earlier interval at which a different hot spot begins. Returns to the current
    /// interval if a key is pressed meanwhile.
    fn search_back(&mut self, progress: &mut dyn FnMut(Option<&Self>) -> bool) -> Result<()> {
        let until = self.time_us();
        let current = self.hotspots();
        let begin = self.source.start_us().unwrap_or(0);
        self.source.rewind(begin)?;
        let (mut last, mut previous) = (None, Vec::new());
        let reached = self.search(&mut |_| progress(None), |here| {
            if here.time_us() >= until {
                return true;
            }
            let hotspots = here.hotspots();
            if !hotspots.is_empty() && hotspots != previous && hotspots != current {
                last = Some(here.time_us());
            }
            previous = hotspots;
            false
        })?;
        let complete = reached || self.position.ended;
        let to = last.filter(|_| complete).unwrap_or(until);
        self.go_back(to.saturating_sub(1))?;
        if complete && last.is_none() {
            self.position.message = Some("no other hot spot before this time".to_owned());
        }
        Ok(())
    }

    /// Current hot spots, one line per array that has one, without figures, which change from
    /// interval to interval.
    fn hotspots(&self) -> Vec<String> {
        let arrays = self.shown.iter().flat_map(|s| &s.arrays);
        arrays
            .filter_map(|array| {
                let hotspot = array.hotspot.as_ref()?;
                let kind = hotspot.kind;
                (kind != HotspotKind::Even && kind.is_finding()).then(|| {
                    format!(
                        "{} {kind:?} {:?} {:?} {:?}",
                        array.info.name, hotspot.origins, hotspot.op, hotspot.members
                    )
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
