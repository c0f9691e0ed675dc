//! The longest slow operation of each array in the last seconds, for the screen of `top`.

use std::collections::{BTreeSet, VecDeque};

use super::sentence::sentence;
use super::snapshot::SlowSnapshot;

/// Time that an operation stays on the screen, µs.
const DISPLAY_TIME_US: i64 = 10_000_000;
/// Maximum number of operations kept. A search in a recording adds many intervals at once.
const MAX_KEPT: usize = 1024;

/// Operations of the last seconds.
#[derive(Debug, Default)]
pub struct RecentOperations(VecDeque<LongestOperation>);

#[derive(Debug)]
struct LongestOperation {
    /// End of the interval in which the operation ended.
    time_us: i64,
    array: String,
    ns: u64,
    text: String,
}

impl RecentOperations {
    /// Adds the longest operation of each array in an interval.
    pub fn add(&mut self, interval: &SlowSnapshot) {
        let mut seen = BTreeSet::new();
        for slow in interval.unended.iter().chain(&interval.operations) {
            let Some(array) = slow.array.as_ref().filter(|array| seen.insert(*array)) else {
                continue;
            };
            let first = interval.first(|other| other.array.as_ref() == Some(array));
            let Some(slow) = first else { continue };
            if self.0.len() == MAX_KEPT {
                self.0.pop_front();
            }
            self.0.push_back(LongestOperation {
                time_us: interval.time.as_microsecond(),
                array: array.clone(),
                ns: slow.operation.total_ns(),
                text: sentence(slow, &interval.names),
            });
        }
    }

    /// The longest operation of an array in the ten seconds before `time_us`, in a sentence.
    pub fn longest(&self, array: &str, time_us: i64) -> Option<String> {
        let from = time_us.saturating_sub(DISPLAY_TIME_US);
        let recent =
            |l: &&LongestOperation| l.array == array && l.time_us > from && l.time_us <= time_us;
        self.0.iter().filter(recent).max_by_key(|l| l.ns).map(|l| l.text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_KEPT, RecentOperations};
    use crate::analysis::slow::fixture::{self, interval};

    #[test]
    fn an_operation_stays_for_ten_seconds() {
        let s = interval();
        let at = s.time.as_microsecond();
        let mut recent = RecentOperations::default();
        recent.add(&s);
        for (array, time_us, shown) in [
            ("md127", at - 1, false),
            ("md127", at, true),
            ("md127", at + 9_999_999, true),
            ("md127", at + 10_000_000, false),
            ("md126", at, false),
        ] {
            let text = recent.longest(array, time_us);
            assert_eq!(text.is_some(), shown, "{array} {}", time_us - at);
        }
    }

    #[test]
    fn the_longest_of_several_is_shown_and_the_oldest_is_dropped() {
        let mut recent = RecentOperations::default();
        let mut s = interval();
        let long = s.operations[0].clone();
        let mut short = long.clone();
        short.operation.end_ns /= 2;
        short.operation.task.comm = b"short".to_vec();
        s.operations = vec![long, short.clone()];
        recent.add(&s);
        let at = s.time.as_microsecond();
        assert!(recent.longest("md127", at).unwrap().contains("mysqld"));
        // One that is in flight is named first only if it has lasted longest, or for a second.
        let mut open = fixture::unended();
        open.array.clone_from(&s.operations[0].array);
        open.operation.end_ns = 2 * 1_000_000;
        s.unended = vec![open.clone()];
        assert!(!s.first(|_| true).unwrap().unended);
        open.operation.end_ns = 1_000_000_000;
        s.operations[0].operation.end_ns = 60_000_000_000;
        s.unended = vec![open];
        assert!(s.first(|_| true).unwrap().unended);
        s.unended.clear();
        s.operations = vec![short];
        (0..MAX_KEPT).for_each(|_| recent.add(&s));
        assert!(recent.longest("md127", at).unwrap().contains("short"));
    }
}
