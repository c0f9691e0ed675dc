//! Drains the events of a recording and replaces member ids by member positions.

use anyhow::Result;

use super::events::{Event, in_order};
use super::load::Probe;
use super::member_ids::MemberIds;

impl Probe {
    /// Appends drained events to `events`, ordered by time. True if more may be ready now.
    pub fn drain(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        let Some(from) = &mut self.events else {
            return Ok(false);
        };
        let switchover = self.switchover.as_ref();
        if switchover.is_none() {
            let early = std::mem::take(&mut from.early);
            by_position(early, &self.member_ids, None, events);
        }
        let (until, more) = from.drain()?;
        let new = in_order(&mut from.later, until);
        let ids = switchover.map_or(&self.member_ids, |s| &s.was);
        let next = switchover.map(|s| (&s.next, &mut from.early));
        by_position(new, ids, next, events);
        Ok(more)
    }
}

/// Replaces the members' ids in events by their positions. Sets aside events whose member is only
/// in the next topology.
pub(super) fn by_position(
    from: impl IntoIterator<Item = Event>,
    ids: &MemberIds,
    mut next: Option<(&MemberIds, &mut Vec<Event>)>,
    into: &mut Vec<Event>,
) {
    let mut early = false;
    for mut event in from {
        match &mut event {
            Event::Completed(c) => match ids.position(c.member) {
                Some(position) => (c.member, early) = (position, false),
                None => {
                    let joins = |(next, _): &mut (&MemberIds, _)| next.position(c.member).is_some();
                    early = next.as_mut().is_some_and(joins);
                    if !early {
                        c.member = u32::MAX;
                    }
                }
            },
            // A run belongs to the completion before it.
            Event::Run(_) => {}
            Event::Submitted(_) | Event::Refused(_) => early = false,
        }
        match &mut next {
            Some((_, aside)) if early => aside.push(event),
            _ => into.push(event),
        }
    }
}
