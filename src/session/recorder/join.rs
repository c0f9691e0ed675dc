//! Finds the submission that a request belongs to, by its sector on the array.
//!
//! A hash table without chains: submissions that were overwritten, or are older than a minute, are
//! not found. Do not look up parity or resync requests, which no task has submitted.

use crate::analysis::files::FileId;
use crate::analysis::item::Submission;
use crate::origin::Op;

/// Size of the table, a power of two.
const ENTRIES: usize = 1 << 16;
/// Distance in sectors between the entries of a submission: one for its first sector, one for its
/// first page boundary, and one for each multiple of this.
const GRANULE: u64 = 128;
/// Sectors per page. A request begins at the first sector of its submission, or at a multiple of
/// this: md splits at chunks, and RAID 4/5/6 at pages of a stripe. Not found: the first page on
/// RAID 4/5/6 if the submission begins within it.
const STEP: u64 = 8;
/// Maximum number of entries of a submission (64 MiB).
const MAX_ENTRIES: u64 = 1024;
/// Age in µs from which an entry is ignored.
const MAX_AGE_US: i64 = 60_000_000;
/// Bits of a key that hold the sector.
const SECTOR_BITS: u32 = 48;

/// Task and file of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitter {
    /// Thread id.
    pub pid: u32,
    /// File whose data was submitted.
    pub file: Option<FileId>,
}

#[derive(Clone, Copy)]
struct PendingSubmission {
    key: u64,
    /// The sector after the submission's last one, in the form of `key`.
    end: u64,
    time_us: i64,
    op: Option<Op>,
    submitter: Submitter,
}

/// Submissions whose requests may still complete.
pub struct PendingSubmissions(Box<[PendingSubmission]>);

impl Default for PendingSubmissions {
    fn default() -> Self {
        let free = PendingSubmission {
            key: 0,
            end: 0,
            time_us: 0,
            op: None,
            submitter: Submitter { pid: 0, file: None },
        };
        Self(vec![free; ENTRIES].into_boxed_slice())
    }
}

impl PendingSubmissions {
    /// Adds a submission.
    pub fn submitted(&mut self, s: &Submission) {
        if s.length == 0 {
            return; // a flush has no sector
        }
        let begin = key(s.array, s.array_sector);
        let end = begin + u64::from(s.length).div_ceil(512);
        let mut at = begin;
        for _ in 0..MAX_ENTRIES {
            if at >= end {
                break;
            }
            self.0[slot(at)] = PendingSubmission {
                key: at,
                end,
                time_us: s.time_us,
                op: Some(s.op),
                submitter: Submitter { pid: s.pid, file: s.file },
            };
            at = match at % STEP {
                0 => at - at % GRANULE + GRANULE,
                _ => at.next_multiple_of(STEP),
            };
        }
    }

    /// The newest submission with `op` that covers a sector.
    pub fn find(&self, array: u32, sector: u64, op: Op, time_us: i64) -> Option<Submitter> {
        let wanted = key(array, sector);
        let floor = wanted - wanted % GRANULE;
        let mut at = wanted;
        let mut newest: Option<&PendingSubmission> = None;
        loop {
            let e = &self.0[slot(at)];
            if e.key == at
                && e.end > wanted
                && e.op == Some(op)
                && time_us.saturating_sub(e.time_us) < MAX_AGE_US
            {
                // A newer, longer submission may begin before this one.
                newest = newest.filter(|n| n.time_us >= e.time_us).or(Some(e));
            }
            if at == floor {
                return newest.map(|e| e.submitter);
            }
            at = (at - 1) / STEP * STEP;
        }
    }
}

fn key(array: u32, sector: u64) -> u64 {
    u64::from(array) << SECTOR_BITS | sector & ((1 << SECTOR_BITS) - 1)
}

fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENTRIES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::{PendingSubmissions, Submitter};
    use crate::analysis::files::FileId;
    use crate::analysis::item::{RequestFlags, Submission};
    use crate::origin::{Op, Origin};

    fn submission(array: u32, array_sector: u64, length: u32, pid: u32) -> Submission {
        Submission {
            time_us: 1_000_000,
            array,
            op: Op::Write,
            flags: RequestFlags::default(),
            origin: Origin::FileData,
            array_sector,
            length,
            pid,
            file: (pid == 1).then_some(FileId { dev: 9, inode: 12, generation: 1 }),
        }
    }

    fn pid(join: &PendingSubmissions, array: u32, sector: u64) -> Option<u32> {
        join.find(array, sector, Op::Write, 1_000_100).map(|s| s.pid)
    }

    #[test]
    fn every_page_of_a_submission_finds_the_submitter() {
        let mut join = PendingSubmissions::default();
        // Begins and ends in the middle of granules.
        join.submitted(&submission(0, 1000, 300 << 10, 1));
        let end = 1000 + 600;
        for sector in (1000..end).step_by(8) {
            assert_eq!(pid(&join, 0, sector), Some(1), "{sector}");
        }
        assert_eq!(pid(&join, 0, 992), None);
        assert_eq!(pid(&join, 0, end), None);
        assert_eq!(pid(&join, 1, 1000), None);
        let found = join.find(0, 1000, Op::Write, 1_000_100);
        assert!(matches!(found, Some(Submitter { pid: 1, file: Some(f) }) if f.inode == 12));
    }

    /// Direct IO of 512-byte blocks, and RAID 0 with chunks of 96 KiB.
    #[test]
    fn a_submission_that_begins_within_a_page_is_found_at_each_boundary() {
        let mut join = PendingSubmissions::default();
        join.submitted(&submission(0, 130, 96 << 10, 1));
        for sector in [130, 136, 192, 256, 320] {
            assert_eq!(pid(&join, 0, sector), Some(1), "{sector}");
        }
        assert_eq!(pid(&join, 0, 128), None);
        assert_eq!(pid(&join, 0, 322), None);
    }

    #[test]
    fn the_newest_submission_of_a_sector_wins() {
        let mut join = PendingSubmissions::default();
        join.submitted(&submission(0, 1024, 64 << 10, 1));
        join.submitted(&submission(0, 1032, 4096, 2));
        let pids = [1024, 1032, 1040].map(|s| pid(&join, 0, s));
        assert_eq!(pids, [Some(1), Some(2), Some(1)]);
    }

    #[test]
    fn a_newer_submission_that_begins_earlier_wins() {
        let mut join = PendingSubmissions::default();
        join.submitted(&submission(0, 1032, 4 * 4096, 1));
        let later = Submission { time_us: 1_000_050, ..submission(0, 1024, 64 << 10, 2) };
        join.submitted(&later);
        let pids = [1024, 1032, 1040, 1064].map(|s| pid(&join, 0, s));
        assert_eq!(pids, [Some(2); 4]);
    }

    #[test]
    fn other_operations_and_old_submissions_do_not_match() {
        let mut join = PendingSubmissions::default();
        join.submitted(&submission(0, 8, 4096, 1));
        assert!(join.find(0, 8, Op::Write, 60_999_999).is_some());
        assert!(join.find(0, 8, Op::Write, 61_000_000).is_none());
        assert!(join.find(0, 8, Op::Read, 1_000_001).is_none());
        // A flush is not at sector 0.
        join.submitted(&submission(0, 0, 0, 3));
        assert!(join.find(0, 0, Op::Write, 1_000_001).is_none());
    }
}
