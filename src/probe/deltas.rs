//! Counters of tasks and files since the previous reading. Pure.
//!
//! The counters of a key (a task or a file) are in two places: in per-CPU slots, and in a table.
//! When a CPU reuses a slot for another key, the BPF program adds the slot's counters to the table.
//! Each reading empties the table but cannot empty a slot. Slots are cumulative, so counters taken
//! from the table are kept and added to those in slots until the key has left all slots.

use std::collections::HashMap;
use std::hash::Hash;

use crate::analysis::counters::TaskCounters;

/// Number of readings for which a key is kept although it is in no slot and its counters have not
/// reached the table. After that the counters are lost.
const MAX_IDLE_READINGS: u8 = 3;

#[derive(Debug)]
pub(super) struct Deltas<K> {
    sums: HashMap<K, TaskDelta>,
}

impl<K> Default for Deltas<K> {
    fn default() -> Self {
        Self { sums: HashMap::new() }
    }
}

#[derive(Debug, Default)]
struct TaskDelta {
    /// Counters read from the table.
    moved: TaskCounters,
    /// Counters reported by earlier readings.
    reported: TaskCounters,
    /// Readings since the key was in a slot.
    idle: u8,
}

impl<K: Copy + Eq + Hash> Deltas<K> {
    /// Counters that were not reported before. `moved` was just taken out of the table; `pending`
    /// was read from the slots after that. Counters that move to the table between these two reads
    /// are in neither; the next call reports them.
    pub(super) fn step(
        &mut self,
        moved: impl Iterator<Item = (K, TaskCounters)>,
        pending: impl Iterator<Item = (K, TaskCounters)>,
    ) -> HashMap<K, TaskCounters> {
        for (key, io) in moved {
            add(&mut self.sums.entry(key).or_default().moved, &io);
        }
        let mut in_slots: HashMap<K, TaskCounters> = HashMap::new();
        for (key, io) in pending {
            add(in_slots.entry(key).or_default(), &io);
            self.sums.entry(key).or_default();
        }
        let mut new = HashMap::new();
        self.sums.retain(|key, sum| {
            let pending = in_slots.get(key);
            let mut now = sum.moved;
            if let Some(pending) = pending {
                add(&mut now, pending);
            }
            // Negative: a bio that was reported has been refused since (`bpf/bio_refused.bpf.c`),
            // or a slot could not be read. The next increase makes up for it.
            let increase = |now: u64, before: u64| now.wrapping_sub(before).cast_signed().max(0);
            let fresh = TaskCounters {
                bios: increase(now.bios, sum.reported.bios).cast_unsigned(),
                bytes: increase(now.bytes, sum.reported.bytes).cast_unsigned(),
            };
            sum.idle = if pending.is_some() { 0 } else { sum.idle + 1 };
            if fresh != TaskCounters::default() {
                new.insert(*key, fresh);
                add(&mut sum.reported, &fresh);
            }
            pending.is_some() || now != sum.reported && sum.idle <= MAX_IDLE_READINGS
        });
        new
    }
}

fn add(sum: &mut TaskCounters, io: &TaskCounters) {
    sum.bios = sum.bios.wrapping_add(io.bios);
    sum.bytes = sum.bytes.wrapping_add(io.bytes);
}

#[cfg(test)]
mod tests {
    use super::{Deltas, TaskCounters};
    use crate::analysis::counters::FileKey;
    use crate::analysis::files::FileId;
    use crate::origin::Op;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(inode: u64) -> FileKey {
        FileKey { array: 0, file: Some(FileId { dev: 1, inode, generation: 0 }), op: Op::Write }
    }

    fn io(bios: u64) -> TaskCounters {
        TaskCounters { bios, bytes: bios.wrapping_mul(512) }
    }

    fn step(
        deltas: &mut Deltas<FileKey>,
        moved: &[(u64, u64)],
        pending: &[(u64, u64)],
    ) -> Vec<(u64, u64)> {
        let keyed = |list: &[(u64, u64)]| -> Vec<_> {
            list.iter().map(|&(k, n)| (key(k), io(n))).collect()
        };
        let mut new: Vec<_> = deltas
            .step(keyed(moved).into_iter(), keyed(pending).into_iter())
            .iter()
            .map(|(k, n)| {
                assert_eq!(n.bytes, n.bios * 512);
                (k.file.unwrap().inode, n.bios)
            })
            .collect();
        new.sort_unstable();
        new
    }

    #[test]
    fn a_slot_is_reported_once() {
        let mut l = Deltas::default();
        assert_eq!(step(&mut l, &[], &[(1, 5)]), [(1, 5)]);
        assert_eq!(step(&mut l, &[], &[(1, 5)]), []);
        assert_eq!(step(&mut l, &[], &[(1, 7)]), [(1, 2)]);
        // The slot moves to the table, with one more.
        assert_eq!(step(&mut l, &[(1, 8)], &[]), [(1, 1)]);
        assert!(l.sums.is_empty());
        assert_eq!(step(&mut l, &[], &[(1, 3)]), [(1, 3)]);
    }

    #[test]
    fn counters_moved_between_two_reads_are_reported_by_the_next_reading() {
        let mut l = Deltas::default();
        assert_eq!(step(&mut l, &[], &[(1, 5)]), [(1, 5)]);
        assert_eq!(step(&mut l, &[], &[]), []);
        assert_eq!(step(&mut l, &[(1, 6)], &[]), [(1, 1)]);
    }

    #[test]
    fn lost_counters_are_dropped() {
        let mut l = Deltas::default();
        step(&mut l, &[], &[(1, 5)]);
        for _ in 0..4 {
            assert_eq!(step(&mut l, &[], &[]), []);
        }
        assert!(l.sums.is_empty());
    }

    /// Counters of refused bios are negative. They may be read before the bios themselves.
    #[test]
    fn refused_bios_are_subtracted_once() {
        let mut l = Deltas::default();
        let minus = |n: u64| n.wrapping_neg();
        assert_eq!(step(&mut l, &[(1, minus(2))], &[(1, 5)]), [(1, 3)]);
        assert_eq!(step(&mut l, &[(1, minus(1))], &[(1, 5)]), [], "reported, then refused");
        assert_eq!(step(&mut l, &[], &[(1, 8)]), [(1, 2)]);
        assert_eq!(step(&mut l, &[(2, minus(1))], &[]), []);
        assert_eq!(step(&mut l, &[], &[(2, 4)]), [(2, 3)]);
    }

    /// Two CPUs with two slots each submit bios of seven files at random. A reading reads the slots
    /// either directly after the table or a few bios later.
    fn simulate(bios: &[(usize, usize, u64)], readings: &[(usize, usize)]) -> (u64, u64) {
        let mut slots = [(0u64, 0u64); 4];
        let mut table: HashMap<u64, u64> = HashMap::new();
        let (mut deltas, mut reported, mut next) = (Deltas::default(), 0, 0);
        let mut run = |slots: &mut [(u64, u64); 4], table: &mut HashMap<u64, u64>, count: usize| {
            for &(cpu, slot, file) in bios.iter().skip(next).take(count) {
                let s = &mut slots[cpu * 2 + slot];
                if s.0 != file {
                    if s.1 > 0 {
                        *table.entry(s.0).or_default() += s.1;
                    }
                    *s = (file, 0);
                }
                s.1 += 1;
            }
            next += count;
        };
        let mut read =
            |deltas: &mut Deltas<FileKey>, moved: Vec<(u64, u64)>, slots: &[(u64, u64); 4]| {
                let pending: Vec<_> = slots.iter().copied().filter(|s| s.1 > 0).collect();
                reported += step(deltas, &moved, &pending).iter().map(|n| n.1).sum::<u64>();
            };
        for &(before, between) in readings {
            run(&mut slots, &mut table, before);
            let moved = table.drain().collect();
            run(&mut slots, &mut table, between);
            read(&mut deltas, moved, &slots);
        }
        run(&mut slots, &mut table, bios.len());
        read(&mut deltas, table.drain().collect(), &slots);
        (reported, bios.len() as u64)
    }

    proptest! {
        #[test]
        fn every_bio_is_reported_once(
            bios in prop::collection::vec((0usize..2, 0usize..2, 1u64..8), 0..200),
            readings in prop::collection::vec((0usize..20, 0usize..4), 0..20),
        ) {
            let (reported, done) = simulate(&bios, &readings);
            prop_assert_eq!(reported, done);
        }
    }
}
