//! Utilisation and queue of each member over the last intervals: for sparklines, and to detect
//! stalled disks.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::recent::{DiskInterval, INTERVALS, Stall, Waited};
use super::snapshot::{Cell, DiskUse, MemberSnapshot, Snapshot};

impl MemberSnapshot {
    /// Share of the interval with at least one request in flight, 0.0..=1.0; `None` if unknown.
    pub fn utilisation(&self) -> Option<f64> {
        let utilisation = self.disk.map(|d| d.utilisation)?;
        utilisation.is_finite().then(|| utilisation.clamp(0.0, 1.0))
    }

    /// The last intervals that are not older than `span`, oldest first.
    pub fn recent(&self, span: Duration) -> &[DiskInterval] {
        let mut sum = Duration::ZERO;
        // 5 % tolerance: ten intervals of "1 s" are never exactly 10 s.
        let span = span + span / 20;
        let older = self.recent.iter().rposition(|r| {
            sum = sum.saturating_add(r.interval);
            sum > span
        });
        let first = older.map_or(0, |i| i + 1);
        self.recent.get(first..).unwrap_or(&[])
    }

    /// Mean utilisation of the last intervals that are not older than `span`; `None` if it is
    /// unknown for one of them.
    pub fn utilisation_over(&self, span: Duration) -> Option<f64> {
        let recent = self.recent(span);
        let whole: f64 = recent.iter().map(|r| r.interval.as_secs_f64()).sum();
        let busy = recent.iter().map(|r| Some(r.utilisation? * r.interval.as_secs_f64()));
        (whole > 0.0).then(|| Some(busy.sum::<Option<f64>>()? / whole)).flatten()
    }
}

/// Last intervals of every member.
#[derive(Debug, Default)]
pub struct History {
    members: HashMap<(String, String), MemberHistory>,
}

/// Last intervals of one member.
#[derive(Debug, Default)]
struct MemberHistory {
    recent: VecDeque<DiskInterval>,
    /// True if requests were in flight at the end of the last interval.
    in_flight: bool,
    /// Length of the current stall; 0 without one.
    stalled: Duration,
}

impl MemberHistory {
    fn stall(&mut self, disk: Option<DiskUse>, interval: Duration) -> Option<Stall> {
        let disk = disk.unwrap_or_default();
        // In flight at both ends and none completed: the same requests all the time.
        let stalls = self.in_flight && disk.in_flight > 0 && disk.requests == 0;
        self.in_flight = disk.in_flight > 0;
        self.stalled = if stalls { self.stalled.saturating_add(interval) } else { Duration::ZERO };
        stalls.then_some(Stall { lasted: self.stalled, in_flight: disk.in_flight, is_over: false })
    }
}

impl History {
    /// Adds an interval, and fills in `recent` and `stall` of its members. Drops members that no
    /// longer exist.
    pub fn record(&mut self, snapshot: &mut Snapshot) {
        let interval = snapshot.interval;
        let mut known = std::mem::take(&mut self.members);
        for array in &mut snapshot.arrays {
            let name = &array.info.name;
            for member in &mut array.members {
                let key = (name.clone(), member.name.clone());
                let mut track = known.remove(&key).unwrap_or_default();
                track.recent.push_back(DiskInterval {
                    interval,
                    utilisation: member.utilisation(),
                    in_flight: member.disk.map(|d| d.in_flight),
                });
                while track.recent.len() > INTERVALS {
                    track.recent.pop_front();
                }
                member.recent = track.recent.iter().copied().collect();
                member.stall = track.stall(member.disk, interval);
                self.members.insert(key, track);
            }
        }
    }
}

impl Cell {
    /// Sum of the times in the device, µs. Requests that were not measured count as the mean of the
    /// others.
    pub fn device_us(&self) -> f64 {
        self.device.mean().unwrap_or(0.0) * self.requests as f64
    }

    /// Requests of the cell with known times, and their total time from allocation to completion.
    pub fn measured(&self) -> Waited {
        let requests = self.device.count();
        let mean_us = self.device.mean().unwrap_or(0.0) + self.queue.mean().unwrap_or(0.0);
        Waited { requests, us: mean_us * requests as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{History, INTERVALS, Stall, Waited};
    use crate::analysis::fixture;
    use crate::origin::{Op, Origin};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bounded_number_of_intervals_is_kept() {
        let mut history = History::default();
        for n in 0..INTERVALS + 5 {
            let mut snapshot = fixture::raid0(2);
            snapshot.arrays[0].members[1].disk = None;
            if let Some(disk) = &mut snapshot.arrays[0].members[0].disk {
                disk.in_flight = n as u32;
                disk.utilisation = f64::NAN;
            }
            history.record(&mut snapshot);
            let [first, second] = &snapshot.arrays[0].members[..] else {
                panic!("two members");
            };
            assert_eq!(first.recent.len(), (n + 1).min(INTERVALS));
            let last = first.recent.last().unwrap();
            assert_eq!((last.in_flight, last.utilisation), (Some(n as u32), None));
            assert_eq!(second.recent.last().unwrap().in_flight, None);
            assert_eq!(first.recent(10 * SECOND).len(), (n + 1).min(10));
            assert!(first.recent(SECOND / 2).is_empty());
            assert_eq!(first.utilisation_over(10 * SECOND), None);
        }
        history.record(&mut fixture::idle(1));
        assert_eq!(history.members.len(), 1, "the other member is forgotten");
    }

    #[test]
    fn utilisation_covers_the_span() {
        let mut history = History::default();
        let mut last = None;
        for utilisation in [1.0, 0.5, 0.0] {
            let mut snapshot = fixture::raid0(1);
            let disk = snapshot.arrays[0].members[0].disk.as_mut().unwrap();
            disk.utilisation = utilisation;
            history.record(&mut snapshot);
            last = snapshot.arrays[0].members.pop();
        }
        let member = last.unwrap();
        assert_eq!(member.utilisation_over(2 * SECOND), Some(0.25));
        assert_eq!(member.utilisation_over(10 * SECOND), Some(0.5));
        assert_eq!(member.utilisation_over(Duration::ZERO), None);
    }

    #[test]
    fn a_disk_that_completes_nothing_stalls() {
        let mut history = History::default();
        let mut stall = |in_flight, requests| {
            let mut snapshot = fixture::raid0(1);
            let disk = snapshot.arrays[0].members[0].disk.as_mut().unwrap();
            // On some kernels io_ticks does not advance during a stall.
            (disk.in_flight, disk.requests, disk.utilisation) = (in_flight, requests, 0.0);
            history.record(&mut snapshot);
            snapshot.arrays[0].members[0].stall
        };
        assert_eq!(stall(3, 10), None);
        for n in 1..70 {
            let lasted = n * SECOND;
            let (in_flight, is_over) = (4, false);
            let expected = Some(Stall { lasted, in_flight, is_over });
            assert_eq!(stall(4, 0), expected);
        }
        assert_eq!(stall(4, 1), None);
        // The requests may have been submitted at the end of the interval.
        assert_eq!(stall(0, 0), None);
        assert_eq!(stall(1, 0), None);
        assert!(stall(1, 0).is_some());
    }

    #[test]
    fn measured_times_include_queue_and_device() {
        assert_eq!(Waited::default().mean_us(), None);
        let mut cell = fixture::cell(Origin::FileData, Op::Read, 0, 0, 0);
        (0..10).for_each(|_| cell.device.record(1000));
        cell.queue.record(3000);
        let mean_us = cell.measured().mean_us().unwrap();
        assert!((4000.0..=5000.0).contains(&mean_us), "{mean_us}");
    }
}
