//! Requests in flight, utilisation and throughput of a member, from events in order of time.

/// Length of an interval in µs.
pub const INTERVAL_US: i64 = 100_000;

/// State of a member within an interval.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    in_flight: u64,
    /// Start of the time in this interval that is not in `busy_us` yet.
    since_us: i64,
    busy_us: i64,
    read: u64,
    written: u64,
}

/// Figures of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateFigures {
    /// Share of the interval with a request in flight, in percent, rounded down.
    pub busy_percent: u64,
    /// Bytes per second of reads that completed.
    pub read: u64,
    /// Bytes per second of writes that completed.
    pub written: u64,
}

impl Rates {
    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Counts a request that was issued.
    pub fn issue(&mut self, time_us: i64) {
        self.advance(time_us);
        self.in_flight += 1;
    }

    /// Counts the completion of a request that was issued.
    pub fn complete(&mut self, time_us: i64) {
        self.advance(time_us);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Adds bytes of a read or write that completed.
    pub fn add(&mut self, read: u64, written: u64) {
        self.read = self.read.saturating_add(read);
        self.written = self.written.saturating_add(written);
    }

    /// Ends an interval of `length_us` at `end_us` and begins the next one.
    pub fn end(&mut self, end_us: i64, length_us: i64) -> RateFigures {
        self.advance(end_us);
        let length = u64::try_from(length_us).unwrap_or(0).max(1);
        let per_second = |bytes: u64| {
            let rate = u128::from(bytes) * 1_000_000 / u128::from(length);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let busy = u64::try_from(self.busy_us).unwrap_or(0).min(length);
        let figures = RateFigures {
            busy_percent: (u128::from(busy) * 100 / u128::from(length)) as u64,
            read: per_second(self.read),
            written: per_second(self.written),
        };
        (self.busy_us, self.read, self.written) = (0, 0, 0);
        self.since_us = end_us;
        figures
    }

    fn advance(&mut self, time_us: i64) {
        if self.in_flight > 0 {
            let busy = time_us.saturating_sub(self.since_us).max(0);
            self.busy_us = self.busy_us.saturating_add(busy);
        }
        self.since_us = self.since_us.max(time_us);
    }
}

/// Ends of intervals, for events in order of time.
#[derive(Clone, Debug, Default)]
pub struct IntervalClock {
    start_us: Option<i64>,
}

impl IntervalClock {
    /// The intervals that have ended at `time_us`, as start and length: none; the current one; or
    /// the current one and a longer one without events, up to the start of the interval that
    /// contains `time_us`.
    pub fn ended(&mut self, time_us: i64) -> impl Iterator<Item = (i64, i64)> + use<> {
        let start = *self.start_us.get_or_insert(time_us);
        let intervals = time_us.saturating_sub(start).max(0) / INTERVAL_US;
        let next = start.saturating_add(intervals.saturating_mul(INTERVAL_US));
        self.start_us = Some(next);
        let open = (intervals > 0).then_some((start, INTERVAL_US));
        let second = start.saturating_add(INTERVAL_US);
        let idle = (intervals > 1).then(|| (second, next.saturating_sub(second)));
        open.into_iter().chain(idle)
    }

    /// The current interval, as start and length.
    pub fn current(&self) -> Option<(i64, i64)> {
        Some((self.start_us?, INTERVAL_US))
    }
}

#[cfg(test)]
mod tests {
    use super::{INTERVAL_US, IntervalClock, RateFigures, Rates};
    use proptest::prelude::*;

    #[test]
    fn busy_time_and_bytes_of_an_interval() {
        let mut rates = Rates::default();
        rates.issue(10_000);
        rates.issue(20_000);
        rates.complete(30_000);
        assert_eq!(rates.in_flight(), 1);
        rates.complete(60_000);
        rates.add(5000, 1000);
        let figures = rates.end(100_000, INTERVAL_US);
        let expected = RateFigures { busy_percent: 50, read: 50_000, written: 10_000 };
        assert_eq!(figures, expected);
        assert_eq!(rates.end(200_000, INTERVAL_US), RateFigures::default());
    }

    #[test]
    fn a_long_request_fills_the_intervals_without_events() {
        let (mut rates, mut clock) = (Rates::default(), IntervalClock::default());
        assert_eq!(clock.ended(0).count(), 0);
        rates.issue(0);
        let ended: Vec<_> = clock.ended(3_600_000_000).collect();
        assert_eq!(ended, [(0, 100_000), (100_000, 3_599_900_000)]);
        for (start, length) in ended {
            assert_eq!(rates.end(start + length, length).busy_percent, 100);
        }
        assert_eq!(clock.current(), Some((3_600_000_000, 100_000)));
    }

    proptest! {
        #[test]
        fn no_time_panics(times in prop::collection::vec(any::<i64>(), 0..20)) {
            let (mut rates, mut clock) = (Rates::default(), IntervalClock::default());
            for time in times {
                for (start, length) in clock.ended(time) {
                    prop_assert!(
                        rates.end(start.saturating_add(length), length).busy_percent <= 100
                    );
                }
                rates.issue(time);
            }
        }
    }
}
