//! Sorts a stream that is nearly in order of time, in bounded memory.

use std::collections::BTreeMap;

/// Holds up to a fixed number of values and returns the earliest one when it is full. Values with
/// the same time keep their order.
#[derive(Debug)]
pub struct ReorderBuffer<T> {
    /// Values by time and number of arrival.
    held: BTreeMap<(i64, u64), T>,
    most: usize,
    arrivals: u64,
    last: i64,
    late: u64,
}

impl<T> ReorderBuffer<T> {
    /// Holds up to `most` values.
    pub fn new(most: usize) -> Self {
        Self { held: BTreeMap::new(), most, arrivals: 0, last: i64::MIN, late: 0 }
    }

    /// Adds a value. Returns the earliest value if more than `most` would be held.
    pub fn push(&mut self, time: i64, value: T) -> Option<(i64, T)> {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.held.insert((time, self.arrivals), value);
        (self.held.len() > self.most).then(|| self.pop()).flatten()
    }

    /// Removes the earliest value. Call it until it returns `None` after the last
    /// [`ReorderBuffer::push`].
    pub fn pop(&mut self) -> Option<(i64, T)> {
        let ((time, _), value) = self.held.pop_first()?;
        self.late += u64::from(time < self.last);
        self.last = self.last.max(time);
        Some((time, value))
    }

    /// Number of values that were returned after a later one, because they arrived too late for the
    /// buffer.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::ReorderBuffer;
    use proptest::prelude::*;

    fn sorted(times: &[i64], most: usize) -> (Vec<(i64, usize)>, u64) {
        let mut buffer = ReorderBuffer::new(most);
        let mut out = Vec::new();
        for (i, &time) in times.iter().enumerate() {
            out.extend(buffer.push(time, i));
            assert!(buffer.held.len() <= most);
        }
        out.extend(std::iter::from_fn(|| buffer.pop()));
        (out, buffer.late())
    }

    #[test]
    fn a_value_that_is_too_late_is_counted() {
        assert_eq!(sorted(&[3, 4, 1], 1), (vec![(3, 0), (1, 2), (4, 1)], 1));
        assert_eq!(sorted(&[3, 4, 1], 2), (vec![(1, 2), (3, 0), (4, 1)], 0));
    }

    proptest! {
        #[test]
        fn values_displaced_by_less_than_the_buffer_are_sorted(
            jitter in prop::collection::vec(0i64..8, 0..200),
        ) {
            // Times i + jitter: no value is preceded by more than 8 later ones.
            let times: Vec<i64> = (0..).zip(&jitter).map(|(i, j)| i + j).collect();
            let (out, late) = sorted(&times, 8);
            let mut expected: Vec<(i64, usize)> = times.into_iter().zip(0..).collect();
            expected.sort();
            prop_assert_eq!((out, late), (expected, 0));
        }

        #[test]
        fn every_value_is_returned_once_and_late_ones_are_counted(
            times in prop::collection::vec(-50i64..50, 0..200),
            most in 0usize..20,
        ) {
            let (out, late) = sorted(&times, most);
            let mut newest = i64::MIN;
            let mut after_later = 0;
            for (time, _) in &out {
                after_later += u64::from(*time < newest);
                newest = newest.max(*time);
            }
            prop_assert_eq!(late, after_later);
            let mut seen: Vec<usize> = out.into_iter().map(|(_, i)| i).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..times.len()).collect::<Vec<_>>());
        }
    }
}
