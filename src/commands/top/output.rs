//! Output that live tracing and the replay of a recording have in common.

use std::io;

use crate::analysis::amplification::Amplification;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::verdict::Worst;
use crate::analysis::{hotspot, window};

/// Prints one interval.
pub type IntervalPrinter = fn(&mut io::StdoutLock<'static>, &Snapshot) -> io::Result<()>;

/// Sum of the intervals. Members and arrays that have disappeared stay in it.
#[derive(Default)]
pub struct WholePeriod {
    snapshot: Option<Snapshot>,
    worst: Worst,
}

impl WholePeriod {
    /// Adds an interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.worst.add(snapshot);
        match &mut self.snapshot {
            Some(whole) => window::join(whole, snapshot, window::alike),
            None => self.snapshot = Some(snapshot.clone()),
        }
    }

    /// The sum with its hot spots and verdicts; `None` without intervals.
    pub fn finish(mut self) -> Option<Snapshot> {
        let whole = self.snapshot.as_mut()?;
        for array in &mut whole.arrays {
            array.hotspot = Some(hotspot::find(array, whole.interval));
            array.amplification = Some(Amplification::new(array, whole.interval));
        }
        self.worst.lead(&mut whole.arrays);
        self.snapshot
    }
}
