//! Drains the events of a recording and gives them their members' positions.

use anyhow::Result;

use super::events::{Event, in_order};
use super::load::Probe;
use super::numbers::Numbers;

impl Probe {
    /// Moves the drained events to `events`, ordered by time. True if more can follow at once.
    pub fn drain(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        let Some(from) = &mut self.events else {
            return Ok(false);
        };
        let turn = self.turn.as_ref();
        if turn.is_none() {
            let early = std::mem::take(&mut from.early);
            by_position(early, &self.numbers, None, events);
        }
        let (until, more) = from.drain()?;
        let new = in_order(&mut from.later, until);
        let numbers = turn.map_or(&self.numbers, |turn| &turn.was);
        let next = turn.map(|turn| (&turn.next, &mut from.early));
        by_position(new, numbers, next, events);
        Ok(more)
    }
}

/// Gives events their members' positions; puts those that only the next survey knows aside.
pub(super) fn by_position(
    from: impl IntoIterator<Item = Event>,
    numbers: &Numbers,
    mut next: Option<(&Numbers, &mut Vec<Event>)>,
    into: &mut Vec<Event>,
) {
    let mut early = false;
    for mut event in from {
        match &mut event {
            Event::Completed(c) => match numbers.position(c.member) {
                Some(position) => (c.member, early) = (position, false),
                None => {
                    let knows = |(next, _): &mut (&Numbers, _)| next.position(c.member).is_some();
                    early = next.as_mut().is_some_and(knows);
                    if !early {
                        c.member = u32::MAX;
                    }
                }
            },
            // Belongs to the last completion.
            Event::Run(_) => {}
            Event::Submitted(_) => early = false,
        }
        match &mut next {
            Some((_, aside)) if early => aside.push(event),
            _ => into.push(event),
        }
    }
}
