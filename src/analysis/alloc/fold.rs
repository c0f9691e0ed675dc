//! Differences of counters at two moments, and sums of intervals.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::figures::GROUPS;
use crate::analysis::alloc::{
    AllocCounters, AllocShare, AllocSnapshot, Cpu, FigureSource, FileAlloc, FsAlloc, TaskAlloc,
};
use crate::analysis::cube::Amount as _;
use crate::analysis::files::{FileLocation, merge_by};
use crate::analysis::snapshot::Overhead;

/// Maximum number of tasks, and of files, per filesystem and interval: those with the most time.
/// The others are included only in the filesystem's own counts.
const MAX_ROWS: usize = 1024;

/// Computes intervals; keeps the last counters.
#[derive(Debug)]
pub struct AllocFold {
    previous: AllocCounters,
}

/// Counters of an interval.
#[derive(Clone, Debug, Default)]
pub struct AllocDelta {
    /// Filesystems by device number, with `dev`, `counts`, `searching`, `tasks` (without role) and
    /// `files` (without location).
    pub filesystems: BTreeMap<u32, FsAlloc>,
    /// Events lost because a table was full.
    pub lost: u64,
    /// Cost of the programs.
    pub overhead: Overhead,
}

impl AllocFold {
    /// Starts at `start`; earlier counts are not included.
    pub fn new(start: AllocCounters) -> Self {
        Self { previous: start }
    }

    /// Returns the interval from the last counters to `now`. A new filesystem starts at 0.
    pub fn step(&mut self, now: AllocCounters) -> AllocDelta {
        let was = std::mem::replace(&mut self.previous, now);
        let now = &self.previous;
        let mut filesystems: BTreeMap<u32, FsAlloc> = BTreeMap::new();
        for (&dev, counts) in &now.filesystems {
            let counts = match was.filesystems.get(&dev) {
                Some(before) => counts.since(before),
                None => counts.clone(),
            };
            let fs = FsAlloc { dev, counts, ..FsAlloc::default() };
            filesystems.insert(dev, fs);
        }
        let nothing = AllocShare::default();
        for (task, (share, comm)) in &now.tasks {
            let before = was.tasks.get(task).map_or(&nothing, |t| &t.0);
            let share = share.since(before);
            if share != nothing
                && let Some(fs) = filesystems.get_mut(&task.dev)
            {
                fs.tasks.push(TaskAlloc { pid: task.pid, comm: comm.clone(), role: None, share });
            }
        }
        for (&id, share) in &now.files {
            let share = share.since(was.files.get(&id).unwrap_or(&nothing));
            if share != nothing
                && let Some(fs) = filesystems.get_mut(&id.dev)
            {
                let location = FileLocation::default();
                fs.files.push(FileAlloc { id, location, share });
            }
        }
        for (task, since) in &now.searching {
            if let Some(fs) = filesystems.get_mut(&task.dev) {
                let us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
                fs.searching.tasks += 1;
                fs.searching.longest_us = fs.searching.longest_us.max(us);
            }
        }
        filesystems.values_mut().for_each(bound);
        AllocDelta {
            filesystems,
            lost: now.lost.saturating_sub(was.lost),
            overhead: now.overhead.since(&was.overhead),
        }
    }
}

/// Sorts tasks and files by time and drops those beyond [`MAX_ROWS`].
fn bound(fs: &mut FsAlloc) {
    let rank = |s: &AllocShare| Reverse((s.nanoseconds, s.looked, s.requests, s.blocks));
    fs.tasks.sort_by_key(|t| (rank(&t.share), t.pid));
    fs.tasks.truncate(MAX_ROWS);
    fs.files.sort_by_key(|f| (rank(&f.share), f.id));
    fs.files.truncate(MAX_ROWS);
}

/// Extends `into` to the end of `newer`. The caller must find the reasons again
/// ([`super::reason`]).
pub fn add(into: &mut AllocSnapshot, newer: &AllocSnapshot) {
    let older = std::mem::replace(into, newer.clone());
    let mut before: HashMap<u32, FsAlloc> =
        older.filesystems.into_iter().map(|fs| (fs.dev, fs)).collect();
    // mb_stats and a hook count differently: keep only the hook's counts.
    let now_from = into.sources.get(GROUPS).copied();
    let was_from = older.sources.get(GROUPS).copied();
    let is_hook = |from| matches!(from, Some(FigureSource::Fentry | FigureSource::Kprobe));
    let only_was = now_from == Some(FigureSource::MbStats) && is_hook(was_from);
    let only_now = was_from == Some(FigureSource::MbStats) && is_hook(now_from);
    for fs in &mut into.filesystems {
        fs.reason = None;
        if only_was {
            (fs.counts.looked, fs.counts.hits) = Default::default();
        }
        if only_now && let Some(was) = before.get_mut(&fs.dev) {
            (was.counts.looked, was.counts.hits) = Default::default();
        }
        if let Some(was) = before.remove(&fs.dev) {
            add_filesystem(fs, was);
        }
    }
    // Keep filesystems that were unmounted.
    into.filesystems.extend(before.into_values().map(|fs| FsAlloc { reason: None, ..fs }));
    into.filesystems.sort_by(|a, b| a.name.cmp(&b.name));
    into.interval = into.interval.saturating_add(older.interval);
    add_samples(into, older.cpu, older.cpus, older.on_cpu);
    for (figure, source) in older.sources {
        let now = into.sources.entry(figure).or_insert(source);
        // A figure without a source now is still known for part of the time.
        if *now == FigureSource::None || (figure == GROUPS && only_was) {
            *now = source;
        }
    }
    into.lost = into.lost.saturating_add(older.lost);
    into.overhead.add(&older.overhead);
}

fn add_filesystem(fs: &mut FsAlloc, was: FsAlloc) {
    fs.counts.add(&was.counts);
    // Keep mb_stats only if both intervals have it: it is compared with the hook's counts of the
    // whole time.
    fs.mb_stats = fs.mb_stats.zip(was.mb_stats).map(|(mut now, was)| {
        now.add(&was);
        now
    });
    merge_by(
        &mut fs.tasks,
        was.tasks,
        |t| t.pid,
        |now, task| {
            now.share.add(&task.share);
            now.role = now.role.take().or(task.role);
        },
    );
    merge_by(
        &mut fs.files,
        was.files,
        |f| f.id,
        |now, file| {
            now.share.add(&file.share);
            now.location.fill(file.location);
        },
    );
    for (name, requests, bytes, us) in was.members {
        match fs.members.iter_mut().find(|m| m.0 == name) {
            Some(now) => {
                now.1.add(&requests);
                now.2.add(&bytes);
                now.3.add(&us);
            }
            None => fs.members.push((name, requests, bytes, us)),
        }
    }
    fs.fragmentation = fs.fragmentation.take().or(was.fragmentation);
    bound(fs);
}

/// Adds `was` to `now`. The sum has a hottest function only if both have the same one, or one has
/// no allocator samples.
fn add_cpu(now: &mut Cpu, was: &Cpu) {
    now.hottest = match (now.hottest.take(), &was.hottest) {
        (Some((name, n)), Some((other, m))) if name == *other => Some((name, n.saturating_add(*m))),
        (one, _) if was.allocator == 0 => one,
        (_, one) if now.allocator == 0 => one.clone(),
        _ => None,
    };
    now.possible.add(&was.possible);
    now.busy.add(&was.busy);
    now.allocator.add(&was.allocator);
    now.hooks.add(&was.hooks);
}

/// Adds the samples of all CPUs together, of each CPU and of each thread. A CPU or thread that was
/// idle in one interval has no row in it, but its possible samples count.
fn add_samples(
    into: &mut AllocSnapshot,
    older: Option<Cpu>,
    older_cpus: BTreeMap<u32, Cpu>,
    threads: Vec<(u32, Vec<u8>, Cpu)>,
) {
    let each = |cpus: &BTreeMap<u32, Cpu>| cpus.values().map(|c| c.possible).max();
    let (mut now, mut was) = (each(&into.cpus), each(&older_cpus));
    if let (Some(a), Some(b)) = (&into.cpu, &older) {
        // The number of CPUs is the same, so the possible samples of one CPU are proportional to
        // those of all.
        let of = |n: u64, part: u64, whole: u64| {
            let part = u128::from(n) * u128::from(part);
            part.checked_div(u128::from(whole)).and_then(|n| u64::try_from(n).ok())
        };
        now = now.or_else(|| of(was?, a.possible, b.possible));
        was = was.or_else(|| of(now?, b.possible, a.possible));
    }
    let idle = |part: Option<u64>| Cpu { possible: part.unwrap_or(0), ..Cpu::default() };
    let (now, was) = (idle(now), idle(was));
    for &number in older_cpus.keys() {
        into.cpus.entry(number).or_insert_with(|| now.clone());
    }
    for (number, cpu) in &mut into.cpus {
        add_cpu(cpu, older_cpus.get(number).unwrap_or(&was));
    }
    let mut before: HashMap<u32, _> = threads.into_iter().map(|t| (t.0, t)).collect();
    for (pid, _, cpu) in &mut into.on_cpu {
        add_cpu(cpu, before.remove(pid).as_ref().map_or(&was, |t| &t.2));
    }
    for (pid, comm, mut cpu) in before.into_values() {
        add_cpu(&mut cpu, &now);
        into.on_cpu.push((pid, comm, cpu));
    }
    into.on_cpu.sort_by_key(|t| (Reverse((t.2.allocator, t.2.busy)), t.0));
    into.on_cpu.truncate(MAX_ROWS);
    into.cpu = match (older, into.cpu.take()) {
        (Some(was), Some(mut now)) => {
            add_cpu(&mut now, &was);
            Some(now)
        }
        (was, now) => now.or(was),
    };
}

#[cfg(test)]
mod tests;
