//! Snapshots for tests: typical machines ([`cases`]) and edge cases ([`odd`]).

mod cases;
mod odd;

use std::collections::BTreeMap;
use std::time::Duration;

use super::figures::{self, FIGURES};
use super::reason;
use crate::analysis::alloc::{
    AllocContext, AllocShare, AllocSnapshot, Counts, Cpu, FigureSource, FileAlloc, FsAlloc,
    GroupRefusal, GroupsConsidered, TaskAlloc,
};
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::hist::Hist;
use crate::analysis::snapshot::Overhead;

pub use cases::{cold, fragmented, healthy, linear, livelock};
pub use odd::{counted_twice, degraded, empty, huge};

/// Major 9, minor 3.
pub const DEV: u32 = 9 << 20 | 3;

/// Histogram with `n` values of `us` for each pair.
pub fn hist(values: &[(u64, u32)]) -> Hist {
    let mut hist = Hist::default();
    for &(us, n) in values {
        (0..n).for_each(|_| hist.record(us));
    }
    hist
}

pub fn groups(values: &[(u64, u64)]) -> GroupsConsidered {
    let mut groups = GroupsConsidered::default();
    for &(looked, n) in values {
        groups.0[GroupsConsidered::bucket(looked)] += n;
    }
    groups
}

fn reasons(of: &[(GroupRefusal, u64)]) -> [u64; GroupRefusal::ALL.len()] {
    let mut all = [0; GroupRefusal::ALL.len()];
    for &(reason, n) in of {
        all[reason as usize] = n;
    }
    all
}

/// Names of the criteria: `cr0` to `cr3`, or, if `named`, those of 6.5 and later.
pub fn criteria(named: bool) -> Vec<String> {
    let names: &[&str] = if named {
        &[
            "CR_POWER2_ALIGNED",
            "CR_GOAL_LEN_FAST",
            "CR_BEST_AVAIL_LEN",
            "CR_GOAL_LEN_SLOW",
            "CR_ANY_FREE",
        ]
    } else {
        &["cr0", "cr1", "cr2", "cr3"]
    };
    names.iter().map(|n| (*n).to_owned()).collect()
}

/// A machine with a single ext4 filesystem.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Known facts about its filesystem.
    pub known: AllocContext,
    /// True if mballoc's lists are on; `None` keeps the snapshot's value.
    pub lists: Option<bool>,
}

/// A machine with kernel `release` and a single ext4. `lists`: true if mballoc's lists are on;
/// `None` for a kernel without lists.
pub fn machine(release: &str, lists: Option<bool>) -> Machine {
    Machine {
        known: AllocContext {
            kernel: release.to_owned(),
            has_lists: Some(lists.is_some()),
            alone: true,
            ..AllocContext::default()
        },
        lists,
    }
}

fn task(pid: u32, comm: &str, role: Option<&str>, share: AllocShare) -> TaskAlloc {
    TaskAlloc { pid, comm: comm.as_bytes().to_vec(), role: role.map(str::to_owned), share }
}

fn file(inode: u64, path: Option<&[u8]>, share: AllocShare) -> FileAlloc {
    FileAlloc {
        id: FileId { dev: DEV, inode, generation: 7 },
        location: FileLocation {
            path: path.map(<[u8]>::to_vec),
            device_name: "md3".to_owned(),
            mount: Some("/srv".to_owned()),
            ..FileLocation::default()
        },
        share,
    }
}

fn share(requests: u64, blocks: u64, ms: u64, looked: u64) -> AllocShare {
    AllocShare { requests, blocks, nanoseconds: ms * 1_000_000, looked }
}

fn fs(groups: u32, counts: Counts) -> FsAlloc {
    FsAlloc {
        name: "md3".to_owned(),
        mount: Some("/srv".to_owned()),
        dev: DEV,
        block_bytes: 4096,
        groups,
        counts,
        ..FsAlloc::default()
    }
}

/// One second at 99 Hz on eight CPUs, with `samples` samples in the allocator, all on CPU 5.
fn snapshot(filesystem: FsAlloc, named: bool, samples: u64, hottest: &str) -> AllocSnapshot {
    let cpu = |possible, busy, allocator: u64| Cpu {
        possible,
        busy,
        allocator,
        hooks: 0,
        hottest: (allocator > 0).then(|| (hottest.to_owned(), (allocator * 9).div_ceil(10))),
    };
    let mut sources: BTreeMap<&'static str, FigureSource> =
        FIGURES.map(|f| (f, FigureSource::Tracepoint)).into();
    for (figure, source) in [
        (figures::GROUPS, FigureSource::Fentry),
        (figures::REASONS, FigureSource::Fentry),
        (figures::WAITS, FigureSource::Fentry),
        (figures::FRAGMENTATION, FigureSource::MbGroups),
        (figures::CPU, FigureSource::Samples),
    ] {
        sources.insert(figure, source);
    }
    AllocSnapshot {
        time: "2026-11-20T12:00:01Z".parse().unwrap(),
        interval: Duration::from_secs(1),
        filesystems: vec![filesystem],
        criteria: criteria(named),
        cpu: Some(cpu(8 * 99, 30 + samples, samples)),
        cpus: [(2, cpu(99, 30, 0)), (5, cpu(99, samples.max(1), samples))].into(),
        on_cpu: vec![
            (4711, b"kworker/u32:1+flush-9:3".to_vec(), cpu(99, samples.max(1), samples)),
            (901, b"nginx".to_vec(), cpu(99, 30, 0)),
        ],
        others: 0,
        sources,
        lost: 0,
        overhead: Overhead { bpf_ns: 4_200_000, bpf_events: 61_000, ..Overhead::default() },
        notes: Vec::new(),
    }
}

/// `snapshot` with the facts of `machine`, and with its reasons.
pub fn with_reasons(mut snapshot: AllocSnapshot, machine: Machine) -> AllocSnapshot {
    let Machine { known, lists } = machine;
    let alone = known.alone && snapshot.filesystems.len() == 1;
    for fs in &mut snapshot.filesystems {
        fs.known = AllocContext { alone, ..known.clone() };
        if lists.is_some() {
            fs.fragmentation.get_or_insert_default().optimised = lists;
        }
    }
    reason::evaluate(&mut snapshot);
    snapshot
}
