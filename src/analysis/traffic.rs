//! Requests and bytes by kind of operation: reads, writes, flushes and discards, as in iostat.

use super::cube::{Amount as _, amount};
use super::snapshot::{Cell, MemberSnapshot, TaskIo};
use crate::origin::Op;

/// Requests (for tasks: bios) and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IoSum {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Sums by kind of operation. Every request is in exactly one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub read: IoSum,
    /// Writes that carry data.
    pub write: IoSum,
    /// Flushes that the block layer sent to the disk (`REQ_OP_FLUSH`). They have no bytes.
    pub flush: IoSum,
    /// Requests for a flush without data, from an fsync for example. The kernel's statistics, and
    /// iostat's w/s, count each as a write of 0 bytes in addition to the flush that it causes
    /// (`blk_account_io_done()`). A write without device time counts as empty, so writes whose
    /// issue was not seen (`lost.issue`) are included.
    pub empty_writes: u64,
    /// Discards. Their bytes are freed, not moved.
    pub discard: IoSum,
    /// Write zeroes and everything else that moves no data between host and disk.
    pub other: IoSum,
}

amount!(IoSum { requests, bytes });

impl Traffic {
    /// Bytes moved between host and disk, by reads and writes only. Shown in the MiB/s columns.
    pub fn moved_bytes(&self) -> u64 {
        self.read.bytes.saturating_add(self.write.bytes)
    }

    /// All requests, as the kernel's disk statistics count them.
    pub fn requests(&self) -> u64 {
        let sums = [self.read, self.write, self.flush, self.discard, self.other];
        sums.iter().map(|s| s.requests).fold(self.empty_writes, u64::saturating_add)
    }

    pub fn add_cell(&mut self, cell: &Cell) {
        let empty = cell.empty_writes();
        self.empty_writes.add(&empty);
        self.add(cell.op, cell.requests - empty, cell.bytes);
    }

    fn add(&mut self, op: Op, requests: u64, bytes: u64) {
        let sum = match op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            Op::Flush => &mut self.flush,
            Op::Discard => &mut self.discard,
            Op::WriteZeroes | Op::Other => &mut self.other,
        };
        sum.add(&IoSum { requests, bytes });
    }
}

impl<'a> FromIterator<&'a Cell> for Traffic {
    fn from_iter<I: IntoIterator<Item = &'a Cell>>(cells: I) -> Self {
        let mut traffic = Self::default();
        cells.into_iter().for_each(|c| traffic.add_cell(c));
        traffic
    }
}

impl<'a> FromIterator<&'a TaskIo> for Traffic {
    /// Sums up bios of a task. A bio that only requests a flush has the operation `flush`.
    fn from_iter<I: IntoIterator<Item = &'a TaskIo>>(io: I) -> Self {
        let mut traffic = Self::default();
        io.into_iter().for_each(|i| traffic.add(i.op, i.bios, i.bytes));
        traffic
    }
}

impl Cell {
    /// Number of writes that carried no data, see [`Traffic::empty_writes`].
    pub fn empty_writes(&self) -> u64 {
        match self.op {
            Op::Write if self.bytes == 0 => self.requests,
            Op::Write => self.requests.saturating_sub(self.device.count()),
            _ => 0,
        }
    }
}

impl MemberSnapshot {
    /// Requests and bytes of the cells that `keep` accepts, by kind of operation.
    pub fn traffic(&self, keep: impl Fn(&Cell) -> bool) -> Traffic {
        self.io.iter().filter(|c| keep(c)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{IoSum, Traffic};
    use crate::analysis::fixture::{cell, member};
    use crate::analysis::snapshot::TaskIo;
    use crate::origin::{Op, Origin};

    #[test]
    fn each_request_is_counted_once_and_only_reads_and_writes_move_bytes() {
        let mut journal = cell(Origin::Journal, Op::Write, 10, 40_960, 900);
        journal.requests += 4; // the empty writes around four flushes
        let member = member(
            0,
            vec![
                cell(Origin::FileData, Op::Read, 5, 20_480, 900),
                journal,
                cell(Origin::Journal, Op::Flush, 4, 0, 900),
                cell(Origin::FileData, Op::Discard, 2, 1 << 30, 900),
                cell(Origin::FileData, Op::WriteZeroes, 1, 1 << 20, 900),
            ],
        );
        let traffic = member.traffic(|_| true);
        let sum = |requests, bytes| IoSum { requests, bytes };
        let expected = Traffic {
            read: sum(5, 20_480),
            write: sum(10, 40_960),
            flush: sum(4, 0),
            empty_writes: 4,
            discard: sum(2, 1 << 30),
            other: sum(1, 1 << 20),
        };
        assert_eq!(traffic, expected);
        assert_eq!(traffic.moved_bytes(), 61_440);
        assert_eq!(traffic.requests(), member.sum(|_| true).0);
        let mut bare = cell(Origin::Journal, Op::Write, 3, 0, 0);
        bare.device = crate::analysis::hist::Hist::default();
        let bare: Traffic = [&bare].into_iter().collect();
        assert_eq!((bare.empty_writes, bare.write.requests), (3, 0));
    }

    #[test]
    fn bios_of_tasks_are_summed_by_kind() {
        let io = |op, bios, bytes| TaskIo { origin: Origin::FileData, op, bios, bytes };
        let io = [io(Op::Write, 3, 300), io(Op::Discard, 1, 1 << 30), io(Op::Flush, 2, 0)];
        let traffic: Traffic = io.iter().collect();
        assert_eq!((traffic.moved_bytes(), traffic.requests()), (300, 6));
        assert_eq!((traffic.write.requests, traffic.empty_writes), (3, 0));
    }
}
