//! The last hour for the page: utilisation, bytes and latency of each member, and bytes of each
//! origin.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::hist::Hist;
use crate::analysis::snapshot::{ArraySnapshot, MemberSnapshot, Snapshot};
use crate::origin::Origin;

/// Time that a point covers.
const POINT: Duration = Duration::from_secs(10);
/// Number of points in an hour.
const POINTS: usize = 360;
/// Maximum number of members of all arrays in a point.
const MAX_MEMBERS: usize = 256;

/// The last hour, oldest first.
#[derive(Debug, Default)]
pub struct LastHour {
    points: VecDeque<Point>,
    /// Number of the last point.
    number: u64,
    sum: Option<PointSum>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// Consecutive number, starting at 1. Unlike the time, it never goes back when the host's
    /// clock is set.
    pub number: u64,
    /// End of the point, in seconds since 1970.
    pub time: i64,
    pub seconds: f64,
    pub arrays: BTreeMap<String, ArrayPoint>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArrayPoint {
    pub members: BTreeMap<String, MemberPoint>,
    /// Bytes moved by all members, by origin.
    pub origins: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberPoint {
    /// Share of the time with a request in flight, 0 to 1; `None` if unknown.
    pub busy: Option<f32>,
    pub requests: u64,
    pub bytes: u64,
    /// 99th percentile of the device time in µs.
    pub p99_us: Option<u64>,
}

/// A point being added up.
#[derive(Debug, Default)]
struct PointSum {
    length: Duration,
    arrays: BTreeMap<String, ArraySum>,
}

/// Members by name, and bytes by origin.
type ArraySum = (BTreeMap<String, MemberSum>, Cube<Origin, u64>);

#[derive(Debug, Default)]
struct MemberSum {
    busy: Option<f64>,
    requests: u64,
    bytes: u64,
    device: Hist,
}

impl LastHour {
    pub fn add(&mut self, snapshot: &Snapshot) {
        let sum = self.sum.get_or_insert_default();
        sum.length += snapshot.interval;
        for array in &snapshot.arrays {
            sum.add(array, snapshot.interval);
        }
        // An interval of 1 s is never exactly 1 s long, so end the point at the nearest interval.
        if sum.length + snapshot.interval / 2 < POINT {
            return;
        }
        if let Some(sum) = self.sum.take() {
            if self.points.len() >= POINTS {
                self.points.pop_front();
            }
            self.number += 1;
            self.points.push_back(sum.point(self.number, snapshot.time));
        }
    }

    /// Points after `number`. All points if `number` is from an earlier process.
    pub fn after(&self, number: u64) -> Vec<Point> {
        let number = if number > self.number { 0 } else { number };
        self.points.iter().filter(|p| p.number > number).cloned().collect()
    }
}

impl PointSum {
    fn add(&mut self, array: &ArraySnapshot, interval: Duration) {
        let known: usize = self.arrays.values().map(|(members, _)| members.len()).sum();
        let (members, origins) = self.arrays.entry(array.info.name.clone()).or_default();
        let mut room = MAX_MEMBERS.saturating_sub(known);
        for member in &array.members {
            member.io.iter().for_each(|cell| origins.add(cell.origin, &cell.bytes));
            if !members.contains_key(&member.name) {
                if room == 0 {
                    continue;
                }
                room -= 1;
            }
            members.entry(member.name.clone()).or_default().add(member, interval);
        }
    }

    fn point(self, number: u64, end: jiff::Timestamp) -> Point {
        let seconds = self.length.as_secs_f64();
        let member = |(name, sum): (String, MemberSum)| {
            let busy = sum.busy.map(|busy| (busy / seconds.max(f64::MIN_POSITIVE)) as f32);
            let point = MemberPoint {
                busy: busy.map(|b| b.clamp(0.0, 1.0)),
                requests: sum.requests,
                bytes: sum.bytes,
                p99_us: sum.device.quantile(0.99),
            };
            (name, point)
        };
        let arrays = self.arrays.into_iter().map(|(name, (members, origins))| {
            let point = ArrayPoint {
                members: members.into_iter().map(member).collect(),
                origins: origins.into_iter().map(|(o, b)| (o.name(), b)).collect(),
            };
            (name, point)
        });
        Point { number, time: end.as_second(), seconds, arrays: arrays.collect() }
    }
}

impl MemberSum {
    fn add(&mut self, member: &MemberSnapshot, interval: Duration) {
        if let Some(utilisation) = member.utilisation() {
            *self.busy.get_or_insert(0.0) += utilisation * interval.as_secs_f64();
        }
        for cell in &member.io {
            self.requests.add(&cell.requests);
            self.bytes.add(&cell.bytes);
            self.device.add(&cell.device);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LastHour, POINTS, Point};
    use crate::analysis::fixture::raid0;

    #[test]
    fn schema() {
        crate::test_schema::check::<Vec<Point>>("raidtrace.serve-timeline/1");
    }

    #[test]
    fn an_hour_is_kept_in_points_of_ten_seconds() {
        let mut timeline = LastHour::default();
        let mut snapshot = raid0(4);
        snapshot.interval = Duration::from_millis(1001);
        let (bytes, start) = (snapshot.arrays[0].members[0].sum(|_| true).1, snapshot.time);
        for second in 0..3700 {
            snapshot.time = start + Duration::from_secs(second);
            timeline.add(&snapshot);
        }
        let all = timeline.after(0);
        assert_eq!(all.len(), POINTS);
        let last = &all[POINTS - 1];
        assert_eq!(timeline.after(last.number - 1).len(), 1);
        assert_eq!(timeline.after(last.number).len(), 0);
        // A number from an earlier process returns all points.
        assert_eq!(timeline.after(last.number + 1).len(), POINTS);
        let array = last.arrays.values().next().unwrap();
        let member = &snapshot.arrays[0].members[0].name;
        assert_eq!(array.members[member].bytes, 10 * bytes);
        let sum: u64 = array.members.values().map(|m| m.bytes).sum();
        assert_eq!(array.origins.values().sum::<u64>(), sum);
    }
}
