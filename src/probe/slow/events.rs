//! Events in the format of the BPF programs.

use crate::contract;
use crate::probe::wire::{Wire as _, rt_slow_commit, rt_slow_io, rt_slow_operation};

pub(super) enum Raw {
    Operation(Box<rt_slow_operation>),
    Commit(Box<rt_slow_commit>),
    Io(rt_slow_io),
}

/// Appends an event of the programs; `None` if it is malformed.
pub(super) fn decode(bytes: &[u8], events: &mut Vec<Raw>) -> Option<()> {
    events.push(match u32::read(bytes)? {
        contract::SLOW_EVENT_OPERATION => {
            // One without sleeps ends before them.
            let mut whole = vec![0; size_of::<rt_slow_operation>()];
            whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Raw::Operation(Box::new(rt_slow_operation::read(&whole)?))
        }
        contract::SLOW_EVENT_COMMIT => Raw::Commit(Box::new(rt_slow_commit::read(bytes)?)),
        contract::SLOW_EVENT_IO => Raw::Io(rt_slow_io::read(bytes)?),
        _ => return None,
    });
    Some(())
}
