//! Output that live tracing and the replay of a recording have in common.

use std::io;

use crate::analysis::amplification::Amplification;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::{hotspot, window};

/// Prints one interval.
pub type Render = fn(&mut io::StdoutLock<'static>, &Snapshot) -> io::Result<()>;

/// Adds an interval to the sum. Members and arrays that have disappeared stay in the sum.
pub fn add(whole: &mut Option<Snapshot>, snapshot: &Snapshot) {
    match whole {
        Some(whole) => {
            window::join(whole, snapshot, window::alike);
            for array in &mut whole.arrays {
                array.hotspot = Some(hotspot::find(array, whole.interval));
                array.amplification = Some(Amplification::new(array, whole.interval));
            }
        }
        None => *whole = Some(snapshot.clone()),
    }
}
