//! Distinguishes requests that tasks wait for from background writeback.

use std::collections::BTreeMap;

use super::snapshot::TaskSnapshot;
use crate::origin::{Op, Origin};

/// Weight of an interval relative to the next one: bios that writeback submits at once complete
/// over seconds.
const DECAY: f64 = 0.9;
/// IO counts as background if jbd2 and writeback submitted at least this share of it.
const BACKGROUND: f64 = 0.5;

/// Recent writes to an array by origin: bytes of jbd2 and writeback, and of all tasks.
#[derive(Debug, Default)]
pub struct Submitters {
    writes: BTreeMap<Origin, (f64, f64)>,
}

impl Submitters {
    /// Adds the submissions of an interval.
    pub fn record(&mut self, tasks: &[TaskSnapshot]) {
        for sum in self.writes.values_mut() {
            *sum = (sum.0 * DECAY, sum.1 * DECAY);
        }
        for task in tasks {
            let background = f64::from(u8::from(task.writes_for_others()));
            for io in task.io.iter().filter(|io| io.op == Op::Write) {
                let sum = self.writes.entry(io.origin).or_default();
                let bytes = io.bytes as f64;
                *sum = (sum.0 + bytes * background, sum.1 + bytes);
            }
        }
    }

    /// True if tasks wait for requests of this origin and operation: reads, writes to the journal,
    /// and other writes of which jbd2 and writeback submitted less than [`BACKGROUND`]. Flushes and
    /// discards do not count. IO that md adds to a write (parity, pre-reads, bitmap) is not counted
    /// in addition to the write.
    pub fn are_waited_for(&self, origin: Origin, op: Op) -> bool {
        use Origin::{Journal, MdBitmap, MdJournal, MdSuperblock, Parity, Resync, RmwRead};
        match (origin, op) {
            (Resync | RmwRead | Parity | MdBitmap | MdJournal | MdSuperblock, _) => false,
            (_, Op::Read) | (Journal, Op::Write) => true,
            (_, Op::Write) => {
                let sum = self.writes.get(&origin).copied().unwrap_or_default();
                sum.1 == 0.0 || sum.0 < BACKGROUND * sum.1
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Submitters;
    use crate::analysis::fixture;
    use crate::origin::{Op, Origin};

    #[test]
    fn no_task_waits_for_writeback() {
        let mut submitters = Submitters::default();
        let waits = |s: &Submitters, origin, op| s.are_waited_for(origin, op);
        assert!(waits(&submitters, Origin::FileData, Op::Write), "not known");
        let snapshot = fixture::raid0(12);
        let tasks = &snapshot.arrays[0].tasks;
        submitters.record(tasks);
        for (origin, op, waited) in [
            (Origin::FileData, Op::Read, true),
            (Origin::FileData, Op::Write, false),
            (Origin::BlockBitmap, Op::Write, false),
            (Origin::Journal, Op::Write, true),
            (Origin::Resync, Op::Read, false),
            (Origin::RmwRead, Op::Read, false),
            (Origin::FileData, Op::Discard, false),
        ] {
            assert_eq!(waits(&submitters, origin, op), waited, "{origin} {op}");
        }
        // Bios of writeback are still being written seconds later.
        (0..5).for_each(|_| submitters.record(&[]));
        assert!(!waits(&submitters, Origin::FileData, Op::Write));
        // A database writes more of it than writeback.
        let mut postgres = tasks.iter().find(|t| t.comm == b"postgres").unwrap().clone();
        postgres.io[0].op = Op::Write;
        postgres.io[0].bytes = 1 << 30;
        submitters.record(&[postgres]);
        assert!(waits(&submitters, Origin::FileData, Op::Write));
    }
}
