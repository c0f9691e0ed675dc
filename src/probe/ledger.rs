//! Which bios of a task or a file have been reported already. Pure.
//!
//! The figures of a key (a task's or a file's) are in two places: in the slots of the CPUs, as long as a CPU is at that key,
//! and in the table, where a slot's figures go when it becomes another key's and which every reading empties. A slot cannot
//! be emptied from here. So all that has left the slots is added up as long as a slot has more of the same key.

use std::collections::HashMap;
use std::hash::Hash;

use crate::analysis::counters::TaskCounters;

/// Readings, since a slot had it, after which a key is forgotten though some of it is missing: it was lost.
const PATIENCE: u8 = 3;

#[derive(Debug)]
pub(super) struct Ledger<K> {
    sums: HashMap<K, Sum>,
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Self {
            sums: HashMap::new(),
        }
    }
}

#[derive(Debug, Default)]
struct Sum {
    /// What has come out of the table.
    moved: TaskCounters,
    /// What was said before.
    told: TaskCounters,
    /// Readings since a slot had it.
    idle: u8,
}

impl<K: Copy + Eq + Hash> Ledger<K> {
    /// What is new. `moved`: taken out of the table just now; `pending`: what is in the slots, read after it.
    ///
    /// What goes from a slot to the table between the two readings is in neither: it comes with the next.
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
            let fresh = TaskCounters {
                bios: now.bios.saturating_sub(sum.told.bios),
                bytes: now.bytes.saturating_sub(sum.told.bytes),
            };
            sum.idle = if pending.is_some() { 0 } else { sum.idle + 1 };
            if fresh != TaskCounters::default() {
                new.insert(*key, fresh);
                add(&mut sum.told, &fresh);
            }
            pending.is_some() || now != sum.told && sum.idle <= PATIENCE
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
    use super::{Ledger, TaskCounters};
    use crate::analysis::counters::FileKey;
    use crate::analysis::files::FileId;
    use crate::origin::Op;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn key(inode: u64) -> FileKey {
        FileKey {
            array: 0,
            file: Some(FileId {
                dev: 1,
                inode,
                generation: 0,
            }),
            op: Op::Write,
        }
    }

    fn io(bios: u64) -> TaskCounters {
        TaskCounters {
            bios,
            bytes: bios * 512,
        }
    }

    fn step(
        ledger: &mut Ledger<FileKey>,
        moved: &[(u64, u64)],
        pending: &[(u64, u64)],
    ) -> Vec<(u64, u64)> {
        let of = |list: &[(u64, u64)]| -> Vec<_> {
            list.iter().map(|&(k, n)| (key(k), io(n))).collect()
        };
        let new = ledger.step(of(moved).into_iter(), of(pending).into_iter());
        let mut new: Vec<_> = new
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
    fn a_slot_is_told_once() {
        let mut l = Ledger::default();
        assert_eq!(step(&mut l, &[], &[(1, 5)]), [(1, 5)]);
        assert_eq!(step(&mut l, &[], &[(1, 5)]), []);
        assert_eq!(step(&mut l, &[], &[(1, 7)]), [(1, 2)]);
        // It goes to the table, with one more.
        assert_eq!(step(&mut l, &[(1, 8)], &[]), [(1, 1)]);
        assert!(l.sums.is_empty());
        assert_eq!(step(&mut l, &[], &[(1, 3)]), [(1, 3)]);
    }

    #[test]
    fn what_is_moved_between_the_readings_is_late() {
        let mut l = Ledger::default();
        assert_eq!(step(&mut l, &[], &[(1, 5)]), [(1, 5)]);
        assert_eq!(step(&mut l, &[], &[]), []);
        assert_eq!(step(&mut l, &[(1, 6)], &[]), [(1, 1)]);
    }

    #[test]
    fn what_never_comes_is_forgotten() {
        let mut l = Ledger::default();
        step(&mut l, &[], &[(1, 5)]);
        for _ in 0..4 {
            assert_eq!(step(&mut l, &[], &[]), []);
        }
        assert!(l.sums.is_empty());
    }

    /// Two CPUs of two slots each do bios of eight files at random; the readings look at the slots at once or with
    /// a few bios between the table and them.
    fn model(bios: &[(usize, usize, u64)], readings: &[(usize, usize)]) -> (u64, u64) {
        let mut slots = [(0u64, 0u64); 4];
        let mut table: HashMap<u64, u64> = HashMap::new();
        let (mut ledger, mut told, mut next) = (Ledger::default(), 0, 0);
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
            |ledger: &mut Ledger<FileKey>, moved: Vec<(u64, u64)>, slots: &[(u64, u64); 4]| {
                let pending: Vec<_> = slots.iter().copied().filter(|s| s.1 > 0).collect();
                told += step(ledger, &moved, &pending)
                    .iter()
                    .map(|n| n.1)
                    .sum::<u64>();
            };
        for &(before, between) in readings {
            run(&mut slots, &mut table, before);
            let moved = table.drain().collect();
            run(&mut slots, &mut table, between);
            read(&mut ledger, moved, &slots);
        }
        run(&mut slots, &mut table, bios.len());
        read(&mut ledger, table.drain().collect(), &slots);
        (told, bios.len() as u64)
    }

    proptest! {
        #[test]
        fn every_bio_is_told_once(
            bios in prop::collection::vec((0usize..2, 0usize..2, 1u64..8), 0..200),
            readings in prop::collection::vec((0usize..20, 0usize..4), 0..20),
        ) {
            let (told, done) = model(&bios, &readings);
            prop_assert_eq!(told, done);
        }
    }
}
