//! Slow operations of one interval.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::advice::PhaseAdvice;
use super::event::{Commit, OperationKind};
use super::names::{Names, SlowOperation};
use crate::analysis::cube::{Cube, amount};
use crate::analysis::files::FileId;
use crate::analysis::overhead::Overhead;
use crate::analysis::units::is_zero;

/// All operations of a kind in the interval, slow or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindSum {
    /// Number of operations.
    pub count: u64,
    /// Total time in ns.
    pub ns: u64,
    /// Number of operations that took at least the threshold.
    pub slow: u64,
}

amount!(KindSum { count, ns, slow });

/// Events that were not counted, by reason. JSON has the reasons that are not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SlowLost {
    /// Events for which the ring buffer had no room.
    #[serde(rename = "buffer", skip_serializing_if = "is_zero")]
    pub events: u64,
    /// IO of members that was dropped because a table had no room or because there was too much
    /// IO.
    #[serde(rename = "member_io", skip_serializing_if = "is_zero")]
    pub ios: u64,
    /// Program runs that the kernel skipped (recursion).
    #[serde(skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Operations and commits of threads whose ids have the same low 16 bits as that of another
    /// thread in one.
    #[serde(skip_serializing_if = "is_zero")]
    pub slots: u64,
    /// Operations and commits for which a table had no room.
    #[serde(skip_serializing_if = "is_zero")]
    pub tables: u64,
}

impl SlowLost {
    /// Total of missing operations, commits and events. Missing IO of members is not included,
    /// because it only helps to name a member.
    pub fn total(&self) -> u64 {
        self.slots + self.tables + self.events + self.missed
    }
}

/// One interval.
#[derive(Clone, Debug, Default)]
pub struct SlowSnapshot {
    /// End of the interval.
    pub time: jiff::Timestamp,
    /// CLOCK_MONOTONIC at `time`, in ns: the clock of operations and commits.
    pub clock_ns: u64,
    /// Measured length.
    pub interval: Duration,
    /// Minimum length of a listed operation.
    pub threshold: Duration,
    /// Operations that ended in the interval and took at least the threshold, longest first.
    pub operations: Vec<SlowOperation>,
    /// Operations that have not ended and have taken at least the threshold, oldest first: at most
    /// 256.
    pub unended: Vec<SlowOperation>,
    /// Number of all such operations.
    pub unended_count: u64,
    /// All operations, by kind.
    pub kinds: Cube<OperationKind, KindSum>,
    /// Commits that ended in the interval, in order of their starts.
    pub commits: Vec<Commit>,
    /// Changes that would have shortened the operations.
    pub advice: Vec<PhaseAdvice>,
    /// Names of devices.
    pub names: Names,
    /// Events that were not counted.
    pub lost: SlowLost,
    /// Time spent in raidtrace's own programs.
    pub overhead: Overhead,
    /// Data that this kernel or host cannot provide, one line each.
    pub notes: Vec<String>,
}

/// Age at which an operation that has not ended comes before all others, in ns.
const HUNG_NS: u64 = 1_000_000_000;

impl SlowSnapshot {
    /// The operation for which `is` that is named first: one that hangs, or else the longest. Under
    /// load some are always in flight, of which less is known than of those that have ended.
    pub fn first(&self, is: impl Fn(&SlowOperation) -> bool) -> Option<&SlowOperation> {
        let unended = self.unended.iter().find(|slow| is(slow));
        let ended = self.operations.iter().find(|slow| is(slow));
        let ns = |slow: &SlowOperation| slow.operation.total_ns();
        match (unended, ended) {
            (Some(open), Some(longest)) if ns(open) < HUNG_NS.min(ns(longest)) => ended,
            _ => unended.or(ended),
        }
    }

    /// At most `most` files that appear in the interval, those of the longest operations first.
    pub fn files(&self, most: usize) -> BTreeSet<FileId> {
        let own = self.unended.iter().chain(&self.operations).filter_map(|s| s.operation.file);
        let ordered = self.commits.iter().flat_map(|c| &c.ordered).map(|o| o.file);
        let mut files = BTreeSet::new();
        for file in own.chain(ordered) {
            if files.len() == most {
                break;
            }
            files.insert(file);
        }
        files
    }

    /// Converts CLOCK_MONOTONIC in ns to the time of day.
    pub fn wall(&self, ns: u64) -> jiff::Timestamp {
        let ago = self.clock_ns.saturating_sub(ns) / 1000;
        let us = self.time.as_microsecond().saturating_sub_unsigned(ago);
        jiff::Timestamp::from_microsecond(us).unwrap_or(self.time)
    }
}
