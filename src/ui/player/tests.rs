use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{Playback, Player, pace};
use crate::ui::screen::SnapshotSource as _;
use crate::ui::state::{Position, Replay, ScreenAction};

/// Counts up to 5. A search for a time never ends.
struct Numbers {
    at: usize,
    fails: bool,
}

impl Playback for Numbers {
    type Snapshot = usize;

    fn step(&mut self) -> Result<()> {
        if self.fails && self.at == 2 {
            bail!("unreadable");
        }
        self.at = (self.at + 1).min(5);
        Ok(())
    }

    fn act(
        &mut self,
        request: Replay,
        progress: &mut dyn FnMut(Option<&Self>) -> bool,
    ) -> Result<()> {
        match request {
            Replay::Step(by) => self.at = self.at.saturating_add_signed(by as isize),
            _ => while !progress(None) {},
        }
        Ok(())
    }

    fn shown(&self) -> Option<Arc<usize>> {
        Some(Arc::new(self.at))
    }

    fn position(&self) -> Position {
        Position { ended: self.at == 5, ..Position::default() }
    }

    fn length(&self) -> Duration {
        Duration::from_secs(1)
    }
}

async fn next(player: &mut Player<usize>) -> usize {
    let (shown, position) = player.next().await.unwrap().unwrap();
    assert!(position.is_some());
    *shown.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn plays_to_the_end_and_back() {
    let fails = false;
    let mut player = Player::start(Numbers { at: 0, fails }).unwrap();
    player.request(ScreenAction::Draw, Some(1000.0));
    let mut last = next(&mut player).await;
    assert_eq!(last, 1);
    while last < 5 {
        let number = next(&mut player).await;
        assert!(number == last || number == last + 1);
        last = number;
    }
    player.request(ScreenAction::Replay(Replay::Step(-3)), None);
    assert_eq!(next(&mut player).await, 2);
    // A key interrupts a search that never ends.
    player.request(ScreenAction::Replay(Replay::Time(String::new())), None);
    player.request(ScreenAction::Replay(Replay::Step(1)), None);
    assert_eq!(next(&mut player).await, 2);
    assert_eq!(next(&mut player).await, 3);
}

#[tokio::test(flavor = "current_thread")]
async fn an_error_is_the_result_of_the_screen() {
    let fails = true;
    let mut player = Player::start(Numbers { at: 0, fails }).unwrap();
    player.request(ScreenAction::Draw, Some(1000.0));
    let error = loop {
        if let Err(error) = player.next().await {
            break error;
        }
    };
    assert_eq!(error.to_string(), "unreadable");
    assert!(player.next().await.unwrap().is_none());
}

#[test]
fn pace_is_the_interval_divided_by_the_speed() {
    let second = Duration::from_secs(1);
    assert_eq!(pace(second, Some(4.0)), second / 4);
    assert_eq!(pace(second, Some(1000.0)), Duration::from_millis(20));
    assert_eq!(pace(second, None), second);
}
