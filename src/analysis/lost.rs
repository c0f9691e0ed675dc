//! Events that were not seen or not counted, by reason.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::contract;

/// Why an event was lost. The BPF programs count the reasons up to [`Loss::Busy`] (`enum
/// rt_loss_reasons` of `bpf/shared/wire.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Requests that completed without a row to count them in.
    Rows = contract::LOST_ROWS as isize,
    /// Requests whose issue was not seen: counted, but without device time.
    Issue = contract::LOST_ISSUE as isize,
    /// Pieces of very large requests whose origin was not looked up; their bytes are `unknown`.
    Pieces = contract::LOST_PIECES as isize,
    /// Submissions that found the process table full.
    Tasks = contract::LOST_TASKS as isize,
    /// Submissions that found the file table full.
    Files = contract::LOST_FILES as isize,
    /// Events of a recording that found the ring buffer full.
    Ring = contract::LOST_RING as isize,
    /// Events in an interrupt that needed a hash bucket or scratch memory of the code that they
    /// interrupted, and requests and bios whose origin a shadow program could not determine.
    Busy = contract::LOST_BUSY as isize,
    /// Program runs that the kernel skipped (recursion).
    Missed,
    /// Requests that the kernel's disk statistics count and raidtrace does not
    /// ([`DiskUse::uncounted`](super::snapshot::DiskUse::uncounted)). May include requests lost for
    /// other reasons.
    Uncounted,
}

const LOSSES: usize = Loss::Uncounted as usize + 1;

/// Each reason with its JSON field and its label, in numeric order.
const TABLE: [(Loss, &str, &str); LOSSES] = [
    (Loss::Rows, "rows", "no row"),
    (Loss::Issue, "issue", "issue unseen"),
    (Loss::Pieces, "pieces", "pieces"),
    (Loss::Tasks, "tasks", "tasks"),
    (Loss::Files, "files", "files"),
    (Loss::Ring, "ring", "ring full"),
    (Loss::Busy, "busy", "busy in an interrupt"),
    (Loss::Missed, "missed", "runs missed"),
    (Loss::Uncounted, "uncounted", "the kernel counts more"),
];

impl Loss {
    /// Reasons that the BPF programs count.
    pub fn counted_in_kernel() -> impl Iterator<Item = Self> {
        TABLE.into_iter().take(contract::LOSS_REASONS as usize).map(|(loss, ..)| loss)
    }

    /// Name in JSON and metrics.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Label for text.
    pub fn label(self) -> &'static str {
        TABLE[self as usize].2
    }
}

/// Lost events by reason. All zero in a good run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost([u64; LOSSES]);

impl Index<Loss> for Lost {
    type Output = u64;

    fn index(&self, loss: Loss) -> &u64 {
        &self.0[loss as usize]
    }
}

impl IndexMut<Loss> for Lost {
    fn index_mut(&mut self, loss: Loss) -> &mut u64 {
        &mut self.0[loss as usize]
    }
}

impl FromIterator<(Loss, u64)> for Lost {
    fn from_iter<I: IntoIterator<Item = (Loss, u64)>>(counts: I) -> Self {
        let mut lost = Self::default();
        for (loss, count) in counts {
            lost.count(loss, count);
        }
        lost
    }
}

impl Lost {
    /// Adds to a count.
    pub fn count(&mut self, loss: Loss, events: u64) {
        self[loss] = self[loss].saturating_add(events);
    }

    /// Reasons that lost something, with their counts.
    pub fn nonzero(&self) -> impl Iterator<Item = (Loss, u64)> {
        self.iter().filter(|(_, count)| *count > 0)
    }

    /// All reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, u64)> {
        TABLE.into_iter().map(|(loss, ..)| (loss, self[loss]))
    }

    /// Adds the counts of another interval.
    pub fn add(&mut self, other: &Self) {
        *self = self.iter().chain(other.iter()).collect();
    }

    /// Increase since `was`.
    #[must_use]
    pub fn since(&self, was: &Self) -> Self {
        let increase = |(loss, count): (Loss, u64)| (loss, count.saturating_sub(was[loss]));
        self.iter().map(increase).collect()
    }

    /// Sum of all reasons, for `"lost": {"events": N}`.
    pub fn events(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

impl Serialize for Lost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(TABLE.iter().map(|(loss, name, _)| (name, self[*loss])))
    }
}

impl<'de> Deserialize<'de> for Lost {
    /// Missing reasons are 0, and unknown ones are ignored.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let known = |(loss, name, _): (Loss, &str, &str)| Some((loss, *counts.get(name)?));
        Ok(TABLE.into_iter().filter_map(known).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Loss, Lost, TABLE, contract};

    #[link(name = "raidtrace_native", kind = "static")]
    unsafe extern "C" {
        safe fn rt_native_loss(err: i64, full: u32) -> u32;
    }

    /// A locked bucket is not a full table: the advice for a full table is a shorter interval.
    #[test]
    fn only_a_full_table_loses_tasks_and_files() {
        for full in [contract::LOST_TASKS, contract::LOST_FILES] {
            assert_eq!(rt_native_loss(-7, full), full);
            // EBUSY, EDEADLK, ETIMEDOUT; EEXIST: another CPU added and removed the entry.
            for err in [-16, -35, -110, -17] {
                assert_eq!(rt_native_loss(err, full), contract::LOST_BUSY, "{err}");
            }
        }
    }

    /// A different count for each reason, from 1 on.
    pub(crate) fn every_loss() -> Lost {
        (1..).zip(TABLE).map(|(count, (loss, ..))| (loss, count)).collect()
    }

    #[test]
    fn reasons_are_in_the_order_of_their_numbers() {
        for (number, (loss, ..)) in TABLE.into_iter().enumerate() {
            assert_eq!(loss as usize, number);
        }
        assert_eq!(Loss::counted_in_kernel().last(), Some(Loss::Busy));
    }

    #[test]
    fn json_of_other_versions_is_read() {
        let lost: Lost = serde_json::from_str(r#"{"ring":3,"new":4}"#).unwrap();
        assert_eq!((lost[Loss::Ring], lost.events()), (3, 3));
        let json = serde_json::to_string(&lost).unwrap();
        assert_eq!(serde_json::from_str::<Lost>(&json).unwrap(), lost);
    }

    #[test]
    fn counts_do_not_overflow() {
        let many: Lost = [(Loss::Rows, u64::MAX), (Loss::Ring, 1)].into_iter().collect();
        let mut sum = many;
        sum.add(&many);
        assert_eq!((sum[Loss::Rows], sum[Loss::Ring]), (u64::MAX, 2));
        assert_eq!(sum.events(), u64::MAX);
        assert_eq!(many.since(&sum), Lost::default());
    }
}
