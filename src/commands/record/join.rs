//! Whose a request is: the submission that covers its place on the array.
//!
//! A table without chains: what has been overwritten, or is older than a minute, is not known any more. Never a guess:
//! whoever asks for parity or a resync, which nobody has submitted, must not ask.

use crate::analysis::files::FileId;
use crate::analysis::item::Submission;
use crate::origin::Op;

/// A power of two.
const ENTRIES: usize = 1 << 16;
/// Sectors: a submission is entered at its beginning and at each of these inside it, where a request of a member may begin
/// anew. Chunks are multiples of it, or it is a multiple of them.
const GRANULE: u64 = 128;
/// Inside a granule, where a request may begin: at a page of a stripe.
const STEP: u64 = 8;
/// A submission is entered so many times at most (64 MiB).
const MOST: u64 = 1024;
const OLD_US: i64 = 60_000_000;
/// Of an array's address in a key.
const SECTOR_BITS: u32 = 48;

/// Who submitted, and of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    /// Thread id.
    pub pid: u32,
    /// Of file data.
    pub file: Option<FileId>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    /// As `key`: behind the submission's last sector.
    end: u64,
    time_us: i64,
    op: Option<Op>,
    whose: Whose,
}

/// The submissions that requests may still come of.
pub struct Join(Box<[Entry]>);

impl Default for Join {
    fn default() -> Self {
        let free = Entry {
            key: 0,
            end: 0,
            time_us: 0,
            op: None,
            whose: Whose { pid: 0, file: None },
        };
        Self(vec![free; ENTRIES].into_boxed_slice())
    }
}

impl Join {
    /// Remembers a submission.
    pub fn submitted(&mut self, s: &Submission) {
        if s.length == 0 {
            return; // a flush has no place
        }
        let begin = key(s.array, s.array_sector);
        let end = begin + u64::from(s.length).div_ceil(512);
        let mut at = begin;
        for _ in 0..MOST {
            if at >= end {
                break;
            }
            self.0[slot(at)] = Entry {
                key: at,
                end,
                time_us: s.time_us,
                op: Some(s.op),
                whose: Whose {
                    pid: s.pid,
                    file: s.file,
                },
            };
            at = at - at % GRANULE + GRANULE;
        }
    }

    /// Whose the request is that begins there and does `op`.
    pub fn whose(&self, array: u32, sector: u64, op: Op, time_us: i64) -> Option<Whose> {
        let wanted = key(array, sector);
        let floor = wanted - wanted % GRANULE;
        let mut at = wanted;
        let mut newest: Option<&Entry> = None;
        loop {
            let e = &self.0[slot(at)];
            if e.key == at
                && e.end > wanted
                && e.op == Some(op)
                && time_us.saturating_sub(e.time_us) < OLD_US
            {
                // A long one that came later begins before a short one.
                newest = newest.filter(|n| n.time_us >= e.time_us).or(Some(e));
            }
            if at == floor {
                return newest.map(|e| e.whose);
            }
            at = at.saturating_sub(STEP).max(floor);
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
    use super::{Join, Whose};
    use crate::analysis::files::FileId;
    use crate::analysis::item::{Flags, Submission};
    use crate::origin::{Op, Origin};

    fn submission(array: u32, array_sector: u64, length: u32, pid: u32) -> Submission {
        Submission {
            time_us: 1_000_000,
            array,
            op: Op::Write,
            flags: Flags::default(),
            origin: Origin::FileData,
            array_sector,
            length,
            pid,
            file: (pid == 1).then_some(FileId {
                dev: 9,
                inode: 12,
                generation: 1,
            }),
        }
    }

    fn pid(join: &Join, array: u32, sector: u64) -> Option<u32> {
        let whose = join.whose(array, sector, Op::Write, 1_000_100);
        whose.map(|w| w.pid)
    }

    #[test]
    fn every_page_of_a_submission_is_its_submitters() {
        let mut join = Join::default();
        // Begins and ends in the middle of granules.
        join.submitted(&submission(0, 1000, 300 << 10, 1));
        let end = 1000 + 600;
        for sector in (1000..end).step_by(8) {
            assert_eq!(pid(&join, 0, sector), Some(1), "{sector}");
        }
        assert_eq!(pid(&join, 0, 992), None);
        assert_eq!(pid(&join, 0, end), None);
        assert_eq!(pid(&join, 1, 1000), None);
        let whose = join.whose(0, 1000, Op::Write, 1_000_100);
        assert!(matches!(whose, Some(Whose { pid: 1, file: Some(f) }) if f.inode == 12));
    }

    #[test]
    fn the_last_one_there_counts() {
        let mut join = Join::default();
        join.submitted(&submission(0, 1024, 64 << 10, 1));
        join.submitted(&submission(0, 1032, 4096, 2));
        let pids = [1024, 1032, 1040].map(|s| pid(&join, 0, s));
        assert_eq!(pids, [Some(1), Some(2), Some(1)]);
    }

    #[test]
    fn a_long_one_after_a_short_one() {
        let mut join = Join::default();
        join.submitted(&submission(0, 1032, 4 * 4096, 1));
        let later = Submission {
            time_us: 1_000_050,
            ..submission(0, 1024, 64 << 10, 2)
        };
        join.submitted(&later);
        let pids = [1024, 1032, 1040, 1064].map(|s| pid(&join, 0, s));
        assert_eq!(pids, [Some(2); 4]);
    }

    #[test]
    fn another_operation_or_a_long_time_ago_is_nobodys() {
        let mut join = Join::default();
        join.submitted(&submission(0, 8, 4096, 1));
        assert!(join.whose(0, 8, Op::Write, 60_999_999).is_some());
        assert!(join.whose(0, 8, Op::Write, 61_000_000).is_none());
        assert!(join.whose(0, 8, Op::Read, 1_000_001).is_none());
        // A flush is not at sector 0.
        join.submitted(&submission(0, 0, 0, 3));
        assert!(join.whose(0, 0, Op::Write, 1_000_001).is_none());
    }
}
