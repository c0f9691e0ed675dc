//! Events in the format of the BPF programs.

use crate::contract;
use crate::probe::wire::{Wire as _, rt_slow_commit, rt_slow_io, rt_slow_operation};

/// Events taken out of the ring buffer.
#[derive(Default)]
pub(super) struct Drained {
    pub operations: Vec<rt_slow_operation>,
    pub commits: Vec<rt_slow_commit>,
    pub ios: Vec<rt_slow_io>,
    /// Number of malformed events.
    pub bad: u64,
}

impl Drained {
    /// Adds an event.
    pub fn add(&mut self, bytes: &[u8]) {
        match u32::read(bytes) {
            Some(contract::SLOW_EVENT_OPERATION) => {
                push(
                    &mut self.operations,
                    rt_slow_operation::read(bytes),
                    &mut self.bad,
                );
            }
            Some(contract::SLOW_EVENT_COMMIT) => {
                push(
                    &mut self.commits,
                    rt_slow_commit::read(bytes),
                    &mut self.bad,
                );
            }
            Some(contract::SLOW_EVENT_IO) => {
                push(&mut self.ios, rt_slow_io::read(bytes), &mut self.bad);
            }
            _ => self.bad += 1,
        }
    }
}

fn push<T>(into: &mut Vec<T>, value: Option<T>, bad: &mut u64) {
    match value {
        Some(value) => into.push(value),
        None => *bad += 1,
    }
}
