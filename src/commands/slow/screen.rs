//! The screen of `slow`.

use ratatui::Frame;

use super::state::SlowScreenState;
use super::view;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::ui::keys::Key;
use crate::ui::palette::Palette;
use crate::ui::screen::ScreenApp;
use crate::ui::state::{Position, ScreenAction};

impl ScreenApp for SlowScreenState {
    type Snapshot = SlowSnapshot;

    fn on_key(&mut self, key: Key) -> ScreenAction {
        Self::on_key(self, key)
    }

    fn observe(&mut self, _: &SlowSnapshot) {}

    fn set_position(&mut self, _: Position) {}

    fn speed(&self) -> Option<f64> {
        (!self.paused).then_some(1.0)
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn draw(&self, frame: &mut Frame<'_>, snapshot: Option<&SlowSnapshot>, palette: Palette) {
        view::draw(frame, self, snapshot, palette);
    }
}
