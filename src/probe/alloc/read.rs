//! Reads the counters of the BPF programs.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use anyhow::Result;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore, MapFlags};

use super::load::{AllocProbe, Idle};
use crate::analysis::alloc::{AllocCounters, AllocShare, AllocTaskKey, Counts};
use crate::analysis::cube::Amount as _;
use crate::analysis::hist::Hist;
use crate::probe::clock::monotonic_ns;
use crate::probe::entries::{file_id, per_cpu, text};
use crate::probe::object::{program_info, programs};
use crate::probe::overhead::Meter;
use crate::probe::wire::{
    Wire, rt_alloc, rt_alloc_cpu, rt_alloc_loss, rt_alloc_share, rt_alloc_task, rt_alloc_task_key,
    rt_file_id,
};

/// Number of tasks above which idle ones are dropped; `rt_alloc_tasks` has room for 16,384.
const MAX_IDLE_TASKS: usize = 8192;
/// Time without allocations after which a task is idle.
const IDLE_TIME: Duration = Duration::from_secs(30);

impl AllocProbe {
    /// Counters since the start. The programs keep counting during the reading, so figures can
    /// differ by requests that end meanwhile.
    pub fn read(&mut self) -> Result<AllocCounters> {
        let mut counters = AllocCounters::default();
        self.read_filesystems(&mut counters)?;
        let running = self.read_cpus(&mut counters)?;
        self.read_tasks(&mut counters, &running)?;
        self.read_files(&mut counters)?;
        self.read_losses(&mut counters)?;
        self.drop_idle(&counters);
        Ok(counters)
    }

    /// Number of groups considered, for frequent checks.
    pub fn calls(&self) -> Result<u64> {
        let mut counters = AllocCounters::default();
        self.read_cpus(&mut counters)?;
        Ok(counters.calls)
    }

    fn read_filesystems(&self, counters: &mut AllocCounters) -> Result<()> {
        for (fs, dev) in (0u32..).zip(&self.devs) {
            let sum = counters.filesystems.entry(*dev).or_default();
            for alloc in per_cpu(&self.skel.maps.rt_allocs, fs)? {
                add(sum, &alloc);
            }
        }
        Ok(())
    }

    /// Reads groups considered and refused. Returns running searches by task: the allocation
    /// context and its number of groups.
    fn read_cpus(&self, counters: &mut AllocCounters) -> Result<HashMap<AllocTaskKey, (u64, u64)>> {
        let mut running = HashMap::new();
        for number in 0..self.cpus {
            let cpus = &self.skel.maps.rt_alloc_cpus;
            let found = cpus.lookup(number.bytes(), MapFlags::ANY)?;
            let Some(cpu) = found.and_then(|b| rt_alloc_cpu::read(&b)) else {
                continue;
            };
            for row in &cpu.rows {
                counters.calls += row.looked.iter().sum::<u64>();
            }
            for (dev, row) in self.devs.iter().zip(&cpu.rows) {
                let sum = counters.filesystems.entry(*dev).or_default();
                add_each(&mut sum.looked, &row.looked);
                add_each(&mut sum.refused, &row.refused);
            }
            if cpu.ac != 0 {
                running.insert(task_of(&cpu.key), (cpu.ac, cpu.count));
            }
        }
        Ok(running)
    }

    fn read_tasks(
        &self,
        counters: &mut AllocCounters,
        running: &HashMap<AllocTaskKey, (u64, u64)>,
    ) -> Result<()> {
        let now = monotonic_ns();
        for (key, value) in all(&self.skel.maps.rt_alloc_tasks)? {
            let (Some(key), Some(task)) =
                (rt_alloc_task_key::read(&key), rt_alloc_task::read(&value))
            else {
                continue;
            };
            let key = task_of(&key);
            let mut share = share_of(&task.share);
            share.looked += task.looked_current;
            // Include the search in progress: an allocation can take minutes.
            match running.get(&key) {
                Some((ac, count)) if *ac == task.ac => share.looked += count,
                _ => {}
            }
            if task.search_ns != 0 {
                let since = Duration::from_nanos(now.saturating_sub(task.search_ns));
                counters.searching.insert(key, since);
            }
            counters.tasks.insert(key, (share, text(&task.comm)));
        }
        Ok(())
    }

    fn read_files(&self, counters: &mut AllocCounters) -> Result<()> {
        for (key, value) in all(&self.skel.maps.rt_alloc_files)? {
            if let (Some(id), Some(share)) = (rt_file_id::read(&key), rt_alloc_share::read(&value))
            {
                counters.files.insert(file_id(&id), share_of(&share));
            }
        }
        Ok(())
    }

    fn read_losses(&mut self, counters: &mut AllocCounters) -> Result<()> {
        for loss in per_cpu::<rt_alloc_loss>(&self.skel.maps.rt_alloc_losses, 0)? {
            counters.lost += loss.tasks + loss.files + loss.waits;
        }
        for (_, program) in programs(self.skel.object(), &self.programs) {
            counters.lost += program_info(&program).map_or(0, |info| info.recursion_misses);
        }
        counters.overhead = self.meter.as_mut().map(Meter::read).unwrap_or_default();
        Ok(())
    }

    /// Drops idle tasks from the table before it is full.
    fn drop_idle(&mut self, counters: &AllocCounters) {
        if self.idle.since.elapsed() < IDLE_TIME {
            return;
        }
        if counters.tasks.len() > MAX_IDLE_TASKS {
            let idle = idle(&counters.tasks, &self.idle.then);
            for task in idle.iter().filter(|t| !counters.searching.contains_key(t)) {
                let wire = rt_alloc_task_key { dev: task.dev, pid: task.pid };
                // On an error the entry is already gone.
                let _ = self.skel.maps.rt_alloc_tasks.delete(wire.bytes());
            }
        }
        self.idle = Idle {
            since: Instant::now(),
            then: counters.tasks.iter().map(|(k, (s, _))| (*k, *s)).collect(),
        };
    }
}

/// Tasks that have done nothing since `then`.
fn idle(
    now: &BTreeMap<AllocTaskKey, (AllocShare, Vec<u8>)>,
    then: &HashMap<AllocTaskKey, AllocShare>,
) -> Vec<AllocTaskKey> {
    now.iter()
        .filter(|(task, (share, _))| then.get(task) == Some(share))
        .map(|(task, _)| *task)
        .collect()
}

/// Reads all entries of a hash map with one system call per batch, instead of two per entry.
fn all(map: &impl MapCore) -> Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)>> {
    Ok(map.lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)?)
}

fn task_of(key: &rt_alloc_task_key) -> AllocTaskKey {
    AllocTaskKey { dev: key.dev, pid: key.pid }
}

fn share_of(share: &rt_alloc_share) -> AllocShare {
    AllocShare {
        requests: share.requests,
        blocks: share.blocks,
        nanoseconds: share.nanoseconds,
        looked: share.looked,
    }
}

/// Adds element by element; the BPF side has room for more elements.
fn add_each(sum: &mut [u64], more: &[u64]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

fn add(sum: &mut Counts, alloc: &rt_alloc) {
    sum.requests += alloc.requests;
    sum.asked += alloc.asked;
    sum.given += alloc.given;
    sum.got += alloc.got;
    sum.latency.add(&Hist::from_counts(alloc.latency));
    sum.nanoseconds += alloc.nanoseconds;
    sum.searches += alloc.searches;
    sum.goal += alloc.goal;
    sum.preallocated += alloc.preallocated;
    add_each(&mut sum.criteria, &alloc.criteria);
    sum.scanned += alloc.scanned;
    sum.locality += alloc.locality;
    add_each(&mut sum.groups.0, &alloc.groups);
    add_each(&mut sum.reasons, &alloc.reasons);
    sum.bitmaps += alloc.bitmaps;
    sum.buddies += alloc.buddies;
    sum.reads += alloc.reads;
    sum.prefetches += alloc.prefetches;
    sum.waits.add(&Hist::from_counts(alloc.waits));
    sum.discards += alloc.discards;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::alloc::{CRITERIA, GROUPS_BUCKETS, GroupRefusal};

    #[test]
    fn the_structures_have_room_for_the_model() {
        let wire = rt_alloc::default();
        assert!(wire.groups.len() >= GROUPS_BUCKETS);
        assert!(wire.criteria.len() >= CRITERIA && wire.reasons.len() >= GroupRefusal::ALL.len());
    }

    #[test]
    fn only_idle_tasks_are_dropped() {
        let task = |pid| AllocTaskKey { dev: 1, pid };
        let share = |looked| AllocShare { requests: 1, looked, ..AllocShare::default() };
        let now = [(1, 5), (2, 6), (3, 5)].map(|(p, l)| (task(p), (share(l), Vec::new())));
        let then = [(1, 5), (2, 5)].map(|(p, l)| (task(p), share(l)));
        assert_eq!(idle(&now.into_iter().collect(), &then.into_iter().collect()), [task(1)]);
    }

    #[test]
    fn every_counter_reaches_the_model() {
        let alloc = rt_alloc {
            requests: 1,
            asked: 2,
            given: 3,
            got: 4,
            nanoseconds: 5,
            searches: 6,
            goal: 7,
            preallocated: 8,
            criteria: [1, 2, 3, 4, 5, 0, 0, 0],
            scanned: 9,
            locality: 16,
            groups: [10; 32],
            reasons: [1, 2, 3, 4, 5, 6, 7, 8],
            bitmaps: 11,
            buddies: 12,
            reads: 13,
            prefetches: 14,
            discards: 15,
            latency: [1; 128],
            waits: [2; 128],
        };
        let mut sum = Counts::default();
        add(&mut sum, &alloc);
        add(&mut sum, &alloc);
        let n = [
            sum.requests,
            sum.asked,
            sum.given,
            sum.got,
            sum.nanoseconds,
            sum.searches,
            sum.goal,
            sum.preallocated,
            sum.scanned,
            sum.locality,
            sum.groups.0[23],
            sum.bitmaps,
            sum.buddies,
            sum.reads,
            sum.prefetches,
            sum.discards,
            sum.latency.count(),
            sum.waits.count(),
        ];
        assert_eq!(n, [2, 4, 6, 8, 10, 12, 14, 16, 18, 32, 20, 22, 24, 26, 28, 30, 256, 512]);
        assert_eq!(sum.criteria, [2, 4, 6, 8, 10]);
        assert_eq!(sum.reasons, [2, 4, 6, 8, 10, 12, 14, 16]);
    }
}
