//! Sums of one array in the intervals of a recording, and comparisons of two of them.

use super::estimate::{self, Design, Estimate};
use super::fine::{Sparse, merge};
use super::latency::{self, Latency};
use super::series::{Cell, Interval, Series};
use crate::analysis::snapshot::ArraySnapshot;
use crate::origin::{Op, Origin};

/// One array of one recording.
pub struct Side<'a> {
    /// True for the recording after.
    pub is_after: bool,
    pub series: &'a Series,
    pub array: &'a ArraySnapshot,
    /// Number of the array in the intervals.
    pub number: Option<u32>,
    /// Number in the intervals for each member of `array`.
    pub members: Vec<Option<u32>>,
    /// For each member number of the intervals, true if it is one of `members`.
    own: Vec<bool>,
}

/// The same array in both recordings.
pub struct Both<'a> {
    pub before: Side<'a>,
    pub after: Side<'a>,
    /// `None` if there are too few intervals.
    pub design: Option<Design<'a>>,
}

impl<'a> Side<'a> {
    pub fn new(is_after: bool, series: &'a Series, array: &'a ArraySnapshot) -> Self {
        let position = |found: Option<usize>| found.and_then(|i| u32::try_from(i).ok());
        let number = series.arrays.iter().position(|a| *a == array.info.name);
        let members: Vec<Option<u32>> = array
            .members
            .iter()
            .map(|member| {
                let own = |(a, m): &(String, String)| *a == array.info.name && *m == member.name;
                position(series.members.iter().position(own))
            })
            .collect();
        let mut own = vec![false; series.members.len()];
        for number in members.iter().flatten() {
            if let Some(own) = own.get_mut(*number as usize) {
                *own = true;
            }
        }
        Self { is_after, series, array, number: position(number), members, own }
    }

    /// The first of `both` if this is the recording before, else the second.
    pub fn pick<T>(&self, both: (T, T)) -> T {
        if self.is_after { both.1 } else { both.0 }
    }

    /// Cells of this array's members.
    pub fn cells(
        &self,
        interval: &'a Interval,
    ) -> impl Iterator<Item = (u32, Origin, Op, &'a Cell)> {
        let own = |member: u32| self.own.get(member as usize).is_some_and(|own| *own);
        let cells = interval.cells.iter();
        cells
            .filter(move |((member, ..), _)| own(*member))
            .map(|(&(member, origin, op), cell)| (member, origin, op, cell))
    }

    /// Value of `each` in every interval.
    pub fn each(&self, each: impl Fn(&Self, &'a Interval) -> f64) -> Vec<f64> {
        self.series.intervals.iter().map(|interval| each(self, interval)).collect()
    }

    /// Busy time of a member in seconds.
    pub fn busy(&self, interval: &Interval, member: usize) -> f64 {
        let number = self.members.get(member).copied().flatten();
        let disk = number.and_then(|n| interval.disks.get(n as usize));
        disk.map_or(0.0, |d| d.busy_us as f64 / 1e6).min(interval.seconds())
    }

    /// Indices of the members that are present.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        self.array.members.iter().enumerate().filter(|(_, m)| m.is_present()).map(|(i, _)| i)
    }

    /// Bios and bytes that were submitted for the origins and operations that `keep` accepts.
    pub fn submitted(&self, interval: &Interval, keep: impl Fn(Origin, Op) -> bool) -> (f64, f64) {
        let own = interval
            .submitted
            .iter()
            .filter(|((array, origin, op), _)| Some(*array) == self.number && keep(*origin, *op));
        own.fold((0.0, 0.0), |all, (_, sum)| (all.0 + sum.bios as f64, all.1 + sum.bytes as f64))
    }

    /// Requests, and bytes read and written, of the cells that `keep` accepts.
    pub fn moved(
        &self,
        interval: &'a Interval,
        keep: impl Fn(u32, Origin, Op) -> bool,
    ) -> (f64, f64) {
        let cells = self.cells(interval).filter(|c| keep(c.0, c.1, c.2));
        cells.fold((0.0, 0.0), |all, (_, _, op, cell)| {
            let bytes = if is_moving(op) { cell.bytes } else { 0 };
            (all.0 + cell.requests as f64, all.1 + bytes as f64)
        })
    }

    fn device_times(&self, keep: impl Fn(u32, Origin, Op) -> bool) -> Vec<Sparse> {
        let intervals = self.series.intervals.iter();
        intervals
            .map(|interval| {
                let mut sum = Sparse::new();
                for (_, _, _, cell) in self.cells(interval).filter(|c| keep(c.0, c.1, c.2)) {
                    merge(&mut sum, &cell.device);
                }
                sum
            })
            .collect()
    }
}

/// True for operations whose bytes move between host and disk.
pub fn is_moving(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

impl<'a> Both<'a> {
    /// Compares `part` over `whole`, both summed over all intervals.
    pub fn ratio(
        &self,
        part: impl Fn(&Side<'a>, &'a Interval) -> f64,
        whole: impl Fn(&Side<'a>, &'a Interval) -> f64,
    ) -> Estimate {
        let series = |side: &Side<'a>| [side.each(&part), side.each(&whole)];
        self.figure(series, |sums| match sums {
            [part, whole] if *whole > 0.0 => part / whole,
            _ => f64::NAN,
        })
    }

    /// Compares a rate per second.
    pub fn rate(&self, amount: impl Fn(&Side<'a>, &'a Interval) -> f64) -> Estimate {
        self.ratio(amount, |_, interval| interval.seconds())
    }

    /// Compares a figure of the sums of `series` over all intervals.
    pub fn figure<S: AsRef<[Vec<f64>]>>(
        &self,
        series: impl Fn(&Side<'a>) -> S,
        figure: impl Fn(&[f64]) -> f64,
    ) -> Estimate {
        let (before, after) = (series(&self.before), series(&self.after));
        estimate::compare(self.design, before.as_ref(), after.as_ref(), figure)
    }

    /// Compares the device times of the cells that `keep` accepts.
    pub fn latency(&self, keep: impl Fn(&Side<'a>, u32, Origin, Op) -> bool) -> Option<Latency> {
        let times = |side: &Side<'a>| {
            side.device_times(|member, origin, op| keep(side, member, origin, op))
        };
        latency::compare(self.design, &times(&self.before), &times(&self.after))
    }
}
