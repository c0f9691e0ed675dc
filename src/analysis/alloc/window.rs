//! Merges the last seconds into one interval: delayed allocation allocates every few seconds, so
//! most single seconds are empty.

use std::collections::VecDeque;
use std::time::Duration;

use super::{fold, reason};
use crate::analysis::alloc::AllocSnapshot;

/// Length of the window; the same as for the headline of `top`.
pub const LENGTH: Duration = Duration::from_secs(10);

/// Maximum number of intervals in a window. `--interval` is at least 0.1 s, but a recording is
/// untrusted.
const MAX_INTERVALS: usize = 256;

/// Sum of the last `intervals`, up to [`LENGTH`], with its reasons. An interval longer than that is
/// returned alone. `None` without intervals.
pub fn last(intervals: &[AllocSnapshot]) -> Option<AllocSnapshot> {
    let mut newest = intervals[intervals.len() - fits(intervals)..].iter();
    let mut sum = newest.next()?.clone();
    newest.for_each(|s| fold::add(&mut sum, s));
    reason::evaluate(&mut sum);
    Some(sum)
}

/// Number of the last `intervals` that fit into [`LENGTH`].
fn fits(intervals: &[AllocSnapshot]) -> usize {
    let mut length = Duration::ZERO;
    let newest = intervals.iter().rev().take(MAX_INTERVALS).take_while(|s| {
        length = length.saturating_add(s.interval);
        // Intervals are not exact: ten of 1.001 s fit.
        length <= LENGTH + LENGTH / 20
    });
    newest.count().max(1).min(intervals.len())
}

/// The last intervals.
#[derive(Debug, Default)]
pub struct AllocWindow {
    intervals: VecDeque<AllocSnapshot>,
}

impl AllocWindow {
    /// Adds an interval; see [`last`].
    pub fn push(&mut self, newest: AllocSnapshot) -> AllocSnapshot {
        self.intervals.push_back(newest.clone());
        let gone = self.intervals.len() - fits(self.intervals.make_contiguous());
        self.intervals.drain(..gone);
        last(self.intervals.make_contiguous()).unwrap_or(newest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::AllocWindow;
    use crate::analysis::alloc::fixture;

    #[test]
    fn a_window_covers_ten_seconds() {
        let mut window = AllocWindow::default();
        let requests = |s: &crate::analysis::alloc::AllocSnapshot| s.filesystems[0].counts.requests;
        let one = requests(&fixture::linear());
        // Writeback runs once in five seconds; the screen is never empty.
        for second in 1..=40u64 {
            let busy = second % 5 == 1;
            let mut s = fixture::linear();
            if !busy {
                s.filesystems[0].counts = Default::default();
            }
            let shown = window.push(s);
            let seconds = second.min(10);
            assert_eq!(shown.interval, Duration::from_secs(seconds));
            assert_eq!(requests(&shown), one * seconds.div_ceil(5), "{second}");
        }
        // The number of intervals without a length, possible in a file, is limited.
        let mut s = fixture::linear();
        s.interval = Duration::ZERO;
        let last = super::last(&vec![s; 1000]).unwrap();
        assert_eq!(requests(&last), one * super::MAX_INTERVALS as u64);
        assert!(super::last(&[]).is_none());
        // An interval longer than the window is returned alone.
        let mut s = fixture::linear();
        s.interval = Duration::from_secs(60);
        let shown = window.push(s);
        assert_eq!((shown.interval.as_secs(), requests(&shown)), (60, one));
    }
}
