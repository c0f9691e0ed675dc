//! Members that have become slower than their peers at the same throughput, for an hour or longer:
//! the method of Perseus (Lu et al., "Perseus: A Fail-Slow Detection Framework for Cloud Storage
//! Systems", FAST '23), with the members of an array as peers.
//!
//! Every minute gives a point for each member: its work and the mean time of its reads, or writes.
//! A line through the logarithms of the other members' points predicts the member's time for its
//! work. It is fail-slow if it exceeds the upper bound of 99.9 % of the predictions in half of the
//! last two hours.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::snapshot::{Cell, Snapshot};
use super::units;
use crate::origin::{Op, plural};

const MINUTE: Duration = Duration::from_secs(60);
/// Minutes whose points are kept.
const MAX_MINUTES: usize = 180;
/// Minutes between two judgements.
const JUDGEMENT_MINUTES: u32 = 10;
/// Minutes that are judged, and the minimum of them with a point that can be compared.
const JUDGED: (usize, usize) = (120, 60);
/// Minimum number of peers' points.
const MIN_PEERS: f64 = 60.0;
/// Minimum number of requests in a minute for a point.
const MIN_REQUESTS: f64 = 30.0;
/// Standard deviations below which 99.9 % of a normal distribution lie.
const MAX_DEVIATIONS: f64 = 3.09;
/// Minimum standard deviation of the logarithm: disks of one model differ by that.
const MIN_DEVIATION: f64 = 0.1;
/// Minimum multiple of the predicted time.
const MIN_RATIO: f64 = 1.5;
const OPS: [Op; 2] = [Op::Read, Op::Write];

/// A member that is slower than its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct FailSlow {
    pub member: String,
    pub op: Op,
    /// Its time over the predicted one: median of the last two hours.
    pub ratio: f64,
    /// Its mean time, µs: median of the last two hours.
    pub us: f64,
}

impl FailSlow {
    /// `sdc answers writes in 24ms (median of the last two hours), 2.1x what its peers take at the
    /// same throughput`
    pub fn sentence(&self) -> String {
        format!(
            "{} answers {} in {} (median of the last two hours), {:.1}x what its peers take at \
             the same \
             throughput",
            self.member,
            plural(self.op),
            units::latency(Some(self.us as u64)),
            self.ratio
        )
    }
}

/// Logarithms of work and time in a minute; `None` with too few requests.
type LogPoint = Option<(f32, f32)>;

/// Sums of a member in the current minute, by operation, and its points.
#[derive(Debug, Default)]
struct MemberPoints {
    /// Requests, work (requests, and 64 KiB of bytes), µs.
    sums: [(f64, f64, f64); 2],
    points: VecDeque<[LogPoint; 2]>,
}

/// Points of the members of all arrays.
#[derive(Debug, Default)]
pub struct Peers {
    arrays: BTreeMap<String, BTreeMap<String, MemberPoints>>,
    /// Length of the current minute so far.
    minute: Duration,
    /// Minutes since the last judgement.
    minutes: u32,
    found: BTreeMap<String, FailSlow>,
}

/// Sums for a line through points.
#[derive(Clone, Copy, Debug, Default)]
struct LineFit {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl LineFit {
    fn add(&mut self, (x, y): (f32, f32)) {
        let (x, y) = (f64::from(x), f64::from(y));
        self.n += 1.0;
        (self.x, self.y) = (self.x + x, self.y + y);
        (self.xx, self.xy, self.yy) = (self.xx + x * x, self.xy + x * y, self.yy + y * y);
    }

    /// Intercept, slope and standard deviation; `None` with too few points.
    fn fit(&self) -> Option<(f64, f64, f64)> {
        if self.n < MIN_PEERS {
            return None;
        }
        let (x, y) = (self.x / self.n, self.y / self.n);
        let of_x = (self.xx / self.n - x * x).max(0.0);
        let slope = if of_x > 1e-3 { (self.xy / self.n - x * y) / of_x } else { 0.0 };
        // More work never takes less time.
        let slope = slope.max(0.0);
        let rest = self.yy / self.n - y * y - 2.0 * slope * (self.xy / self.n - x * y)
            + slope * slope * of_x;
        Some((y - slope * x, slope, rest.max(0.0).sqrt().max(MIN_DEVIATION)))
    }
}

impl MemberPoints {
    fn add(&mut self, cell: &Cell) {
        let Some(op) = OPS.iter().position(|op| *op == cell.op) else { return };
        let (sum, measured) = (&mut self.sums[op], cell.measured());
        sum.0 += measured.requests as f64;
        sum.1 += cell.requests as f64 + cell.bytes as f64 / 65_536.0;
        sum.2 += measured.us;
    }

    fn end_minute(&mut self, seconds: f64) {
        let all: f64 = self.sums.iter().map(|sum| sum.1).sum();
        let point = |(requests, _, us): (f64, f64, f64)| {
            let is_enough = requests >= MIN_REQUESTS && us > 0.0;
            is_enough.then(|| ((all / seconds).ln_1p() as f32, (us / requests).ln() as f32))
        };
        self.points.push_back(std::mem::take(&mut self.sums).map(point));
        if self.points.len() > MAX_MINUTES {
            self.points.pop_front();
        }
    }

    /// The member, if it is slower than `peers` predict. `range` is that of their work.
    fn judge(&self, op: usize, peers: &LineFit, range: (f32, f32)) -> Option<(f64, f64)> {
        let (intercept, slope, deviation) = peers.fit()?;
        let last = self.points.iter().rev().take(JUDGED.0).filter_map(|point| point[op]);
        let same = last.filter(|(x, _)| (range.0..=range.1).contains(x));
        let mut each: Vec<(f64, f64)> = same
            .map(|(x, y)| (f64::from(y) - intercept - slope * f64::from(x), f64::from(y).exp()))
            .collect();
        if each.len() < JUDGED.1 {
            return None;
        }
        let above = each.iter().filter(|(excess, _)| *excess > MAX_DEVIATIONS * deviation).count();
        each.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (excess, us) = each[each.len() / 2];
        (2 * above >= each.len() && excess.exp() >= MIN_RATIO).then_some((excess.exp(), us))
    }
}

impl Peers {
    /// Adds an interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        for array in &snapshot.arrays {
            let members = self.arrays.entry(array.info.name.clone()).or_default();
            members.retain(|name, _| array.members.iter().any(|m| m.name == *name));
            for member in array.members.iter().filter(|m| m.is_present()) {
                let sums = members.entry(member.name.clone()).or_default();
                member.io.iter().for_each(|cell| sums.add(cell));
            }
        }
        self.arrays.retain(|name, _| snapshot.arrays.iter().any(|a| a.info.name == *name));
        self.minute += snapshot.interval;
        if self.minute >= MINUTE {
            let seconds = std::mem::take(&mut self.minute).as_secs_f64();
            let members = self.arrays.values_mut().flat_map(BTreeMap::values_mut);
            members.for_each(|member| member.end_minute(seconds));
            self.minutes += 1;
            if self.minutes >= JUDGEMENT_MINUTES {
                let arrays = self.arrays.iter();
                let slow = |(name, of): (&String, &_)| Some((name.clone(), slowest(of)?));
                (self.minutes, self.found) = (0, arrays.filter_map(slow).collect());
            }
        }
    }

    /// The member of each array that is slower than its peers, the worst one.
    pub fn found(&self) -> &BTreeMap<String, FailSlow> {
        &self.found
    }
}

/// The member that exceeds its prediction most.
fn slowest(members: &BTreeMap<String, MemberPoints>) -> Option<FailSlow> {
    let mut found: Option<FailSlow> = None;
    for (number, op) in OPS.into_iter().enumerate() {
        for (name, member) in members {
            let (mut peers, mut range) = (LineFit::default(), (f32::INFINITY, 0.0f32));
            let others = members.iter().filter(|(other, _)| *other != name);
            for point in others.flat_map(|(_, m)| &m.points).filter_map(|point| point[number]) {
                peers.add(point);
                range = (range.0.min(point.0), range.1.max(point.0));
            }
            let judged = member.judge(number, &peers, range);
            if let Some((ratio, us)) = judged
                && found.as_ref().is_none_or(|known| known.ratio < ratio)
            {
                found = Some(FailSlow { member: name.clone(), op, ratio, us });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Peers;
    use crate::analysis::fixture::{array, cell, member, snapshot};
    use crate::origin::{Op, Origin};

    /// A generator of pseudorandom numbers (xorshift64*).
    struct Numbers(u64);

    impl Numbers {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }
    }

    /// Minutes of an array of `disks` disks whose times differ by chance (30 %), by disk (5 %),
    /// with the load (which follows the hour of the day, and is uneven), and in bursts of 20
    /// minutes in which a disk is five times as slow. `slow`: the minute from which on the last
    /// disk takes that many times as long. Returns the minutes in which one is found, and its name
    /// in the last of them.
    fn run(disks: usize, minutes: usize, seed: u64, slow: (usize, f64)) -> (usize, String) {
        let mut numbers = Numbers(seed);
        let bias: Vec<f64> = (0..disks).map(|_| (0.05 * numbers.normal()).exp()).collect();
        let (mut peers, mut alarms, mut name, mut burst) =
            (Peers::default(), 0, String::new(), (0, 0));
        for minute in 0..minutes {
            let day = (minute as f64 / 1440.0 * std::f64::consts::TAU).sin();
            if numbers.uniform() < 1.0 / 720.0 {
                burst = (minute + 20, (numbers.uniform() * disks as f64) as usize);
            }
            let members = (0..disks).map(|disk| {
                let share = if disk == 0 { 3.0 } else { 1.0 };
                let requests = 3000.0 * share * (1.2 + day) * (0.2 * numbers.normal()).exp();
                let queue = 1.0 + requests / 10_000.0;
                let mut us = 5000.0 * queue * bias[disk] * (0.3 * numbers.normal()).exp();
                us *= if minute < burst.0 && disk == burst.1 { 5.0 } else { 1.0 };
                us *= if minute >= slow.0 && disk + 1 == disks { slow.1 } else { 1.0 };
                let mut io = cell(Origin::FileData, Op::Write, 40, 0, us as u64);
                io.requests = requests.max(1.0) as u64;
                io.bytes = io.requests * 4096;
                member(disk, vec![io])
            });
            let mut snapshot = snapshot(array(members.collect()));
            snapshot.interval = Duration::from_secs(60);
            peers.add(&snapshot);
            if let Some(found) = peers.found().values().next() {
                alarms += 1;
                name = found.member.clone();
            }
        }
        (alarms, name)
    }

    /// Twelve weeks of arrays of two, four and twelve disks.
    #[test]
    fn no_false_alarm_in_simulated_weeks() {
        for (disks, weeks, seed) in [(2, 6, 1), (4, 4, 2), (12, 2, 3)] {
            let alarms = run(disks, weeks * 7 * 1440, seed, (usize::MAX, 1.0)).0;
            assert_eq!(alarms, 0, "{disks} disks");
        }
    }

    #[test]
    fn a_disk_that_becomes_slow_is_found_within_hours() {
        for (disks, times) in [(2, 4.0), (4, 3.0), (12, 3.0)] {
            let (alarms, name) = run(disks, 1440, 9, (1440 - 180, times));
            assert!(alarms > 30, "{disks} disks: {alarms} minutes");
            let last = member(disks - 1, Vec::new()).name;
            assert_eq!(name, last);
        }
    }
}
