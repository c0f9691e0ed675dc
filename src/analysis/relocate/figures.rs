//! Sums of requests on members: by origin and operation, and by interval and size.

pub use crate::analysis::traffic::Sum;
use crate::origin::{Op, Origin};

/// Read or write. Other operations are not laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Read,
    Write,
}

impl Direction {
    /// Both, in the order of the sums.
    pub const BOTH: [Self; 2] = [Self::Read, Self::Write];

    /// The direction of an operation that moves data.
    pub fn from_op(op: Op) -> Option<Self> {
        match op {
            Op::Read => Some(Self::Read),
            Op::Write => Some(Self::Write),
            _ => None,
        }
    }

    /// The operation.
    pub fn op(self) -> Op {
        match self {
            Self::Read => Op::Read,
            Self::Write => Op::Write,
        }
    }
}

/// Number of size classes: up to 4 KiB, up to 8 KiB, ... up to 4 MiB, and larger.
pub const SIZES: usize = 12;
/// Size classes of both directions.
pub const CLASSES: usize = 2 * SIZES;
/// Maximum number of intervals. Beyond, each gets twice as long.
const INTERVALS: usize = 256;
/// Shortest interval, µs.
const SHORTEST_US: u64 = 1_000_000;
const ORIGINS: usize = Origin::ALL.len();

/// Class of a request.
pub fn class(direction: Direction, bytes: u64) -> usize {
    let blocks = bytes.div_ceil(4096).max(1);
    let size = (blocks.next_power_of_two().ilog2() as usize).min(SIZES - 1);
    direction as usize * SIZES + size
}

/// Requests on the members of an array. Origins are added up by bytes, requests under the origin of
/// their first bio.
#[derive(Clone, Debug)]
pub struct Figures {
    members: usize,
    /// By member, origin and direction.
    sums: Vec<[[Sum; 2]; ORIGINS]>,
    start_us: i64,
    interval_us: u64,
    /// Requests by interval and member, then by class.
    classes: Vec<[u32; CLASSES]>,
}

impl Figures {
    /// No requests on `members` members. Intervals start at `start_us`.
    pub fn new(members: usize, start_us: i64) -> Self {
        Self {
            members,
            sums: vec![Default::default(); members],
            start_us,
            interval_us: SHORTEST_US,
            classes: Vec::new(),
        }
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Adds bytes of an origin, and the requests that begin with it.
    #[inline]
    pub fn add(
        &mut self,
        member: usize,
        origin: Origin,
        direction: Direction,
        requests: u64,
        bytes: u64,
    ) {
        if let Some(sums) = self.sums.get_mut(member) {
            sums[origin as usize][direction as usize].add(requests, bytes);
        }
    }

    /// Counts a complete request of `bytes` bytes in its interval.
    #[inline]
    pub fn count(&mut self, member: usize, direction: Direction, bytes: u64, time_us: i64) {
        if member >= self.members {
            return;
        }
        let since = u64::try_from(time_us.saturating_sub(self.start_us)).unwrap_or(0);
        let mut interval = since / self.interval_us;
        while interval >= INTERVALS as u64 {
            self.halve();
            interval = since / self.interval_us;
        }
        let at = interval as usize * self.members + member;
        if at >= self.classes.len() {
            let rows = (interval as usize + 1) * self.members;
            self.classes.resize(rows, [0; CLASSES]);
        }
        let count = &mut self.classes[at][class(direction, bytes)];
        *count = count.saturating_add(1);
    }

    /// Joins pairs of intervals.
    fn halve(&mut self) {
        self.interval_us = self.interval_us.saturating_mul(2);
        let width = self.members;
        for (i, row) in std::mem::take(&mut self.classes).iter().enumerate() {
            let at = i / width / 2 * width + i % width;
            if at >= self.classes.len() {
                self.classes.resize(at + 1, [0; CLASSES]);
            }
            for (sum, n) in self.classes[at].iter_mut().zip(row) {
                *sum = sum.saturating_add(*n);
            }
        }
    }

    /// Sum of an origin and a direction on a member.
    pub fn sum(&self, member: usize, origin: Origin, direction: Direction) -> Sum {
        self.sums.get(member).map_or_else(Sum::default, |s| s[origin as usize][direction as usize])
    }

    /// Sum of the origins for which `keep` is true.
    pub fn member(
        &self,
        member: usize,
        direction: Direction,
        keep: impl Fn(Origin) -> bool,
    ) -> Sum {
        let mut sum = Sum::default();
        for origin in Origin::ALL.into_iter().filter(|o| keep(*o)) {
            let one = self.sum(member, origin, direction);
            sum.add(one.requests, one.bytes);
        }
        sum
    }

    pub fn by_member(&self, direction: Direction) -> Vec<Sum> {
        let all = |member| self.member(member, direction, |_| true);
        (0..self.members).map(all).collect()
    }

    /// Length of an interval, and for each interval and member the requests by class.
    pub fn intervals(&self) -> (u64, impl Iterator<Item = &[[u32; CLASSES]]>) {
        (self.interval_us, self.classes.chunks(self.members.max(1)))
    }
}
