//! Intervals of the ext4 allocator in the reported period.

use std::collections::BTreeMap;

use crate::analysis::alloc::figures::tasks_at_once;
use crate::analysis::alloc::{AllocSnapshot, Reason, fold, reason};

/// The allocator in the reported period.
#[derive(Debug)]
pub struct AllocSummary {
    /// All intervals merged.
    pub whole: AllocSnapshot,
    /// Number of intervals.
    pub intervals: u64,
    /// Busiest interval with a reason, by the device number of the filesystem.
    pub busiest: BTreeMap<u32, BusiestInterval>,
}

/// The interval with the most tasks in the allocator of a filesystem.
#[derive(Debug)]
pub struct BusiestInterval {
    /// Start, µs since 1970.
    pub from_us: i64,
    /// End.
    pub to_us: i64,
    /// Mean number of tasks in the allocator.
    pub tasks: f64,
    /// Reason found in this interval alone.
    pub reason: Reason,
}

impl AllocSummary {
    /// Adds an interval to `sum`, which may be empty.
    pub(super) fn add(sum: &mut Option<Self>, snapshot: AllocSnapshot) {
        let mut busiest = BTreeMap::new();
        let us = i64::try_from(snapshot.interval.as_micros()).unwrap_or(i64::MAX);
        let to_us = snapshot.time.as_microsecond();
        for fs in &snapshot.filesystems {
            if let Some(reason) = &fs.reason {
                let interval = BusiestInterval {
                    from_us: to_us.saturating_sub(us),
                    to_us,
                    tasks: tasks_at_once(fs, snapshot.interval.as_secs_f64()),
                    reason: reason.clone(),
                };
                busiest.insert(fs.dev, interval);
            }
        }
        let Some(sum) = sum else {
            *sum = Some(Self { whole: snapshot, intervals: 1, busiest });
            return;
        };
        sum.intervals += 1;
        fold::add(&mut sum.whole, &snapshot);
        for (dev, interval) in busiest {
            let known = sum.busiest.get(&dev);
            if known.is_none_or(|known| interval.tasks > known.tasks) {
                sum.busiest.insert(dev, interval);
            }
        }
    }

    /// Finds the reasons for the whole period.
    pub(super) fn finish(mut self) -> Self {
        reason::evaluate(&mut self.whole);
        self
    }
}
