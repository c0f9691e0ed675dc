//! The programs that watch ext4's block allocator, on a filesystem with known allocations.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{File, metadata};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::{Loop, MIB, installed, skipped, tracing};
use raidtrace::analysis::alloc::{AllocCounters, FigureSource};
use raidtrace::analysis::files::FileId;
use raidtrace::probe::alloc::{AllocFacts, AllocProbe};

const BLOCK: usize = 4096;

/// Device number in the kernel's encoding.
fn device(of: &Path) -> u32 {
    let dev = metadata(of).unwrap().dev();
    rustix::fs::major(dev) << 20 | rustix::fs::minor(dev)
}

/// Writes files of 4, 8, 12, ... blocks, each synced before the next one. Returns inode and blocks
/// of each file.
fn write(to: &Path) -> Vec<(u64, u64)> {
    (1..=8)
        .map(|i| {
            let path = to.join(format!("file{i}"));
            let mut file = File::create(&path).unwrap();
            file.write_all(&vec![1; 4 * i * BLOCK]).unwrap();
            file.sync_all().unwrap();
            let stat = file.metadata().unwrap();
            assert_eq!(stat.blocks(), (4 * i * BLOCK / 512) as u64);
            (stat.ino(), (4 * i) as u64)
        })
        .collect()
}

#[test]
fn counts_match_the_blocks_of_files() {
    if !tracing() || !installed("mke2fs") || !installed("losetup") {
        return;
    }
    // Without a journal, only this test allocates in the filesystem.
    let disk = Loop::ext4(64 * MIB, &["-b", "4096", "-O", "^has_journal"]);
    let other = Loop::ext4(16 * MIB, &["-b", "4096", "-O", "^has_journal"]);
    let dev = device(&disk.mount);
    let mut probe = match AllocProbe::start(&AllocFacts::gather(), &[dev]) {
        Ok(probe) => probe,
        Err(e) => return skipped(&format!("BPF refused: {e:#}")),
    };
    if probe.sources()["latency"] != FigureSource::Tracepoint {
        return skipped(&format!("no tracepoints of ext4: {:?}", probe.notes()));
    }
    assert!(probe.account());
    let before = probe.read().unwrap();
    let empty = &before.filesystems[&dev];
    assert_eq!((empty.requests, before.files.len()), (0, 0), "{before:?}");

    write(&other.mount);
    let files = write(&disk.mount);
    disk.sync();
    let counters = probe.read().unwrap();

    let blocks: u64 = files.iter().map(|(_, blocks)| blocks).sum();
    let counts = &counters.filesystems[&dev];
    assert_eq!(counters.filesystems.len(), 1);
    assert_eq!(counters.lost, 0);
    // Each file is written in one piece.
    assert_eq!(counts.requests, files.len() as u64, "{counts:?}");
    assert_eq!((counts.asked, counts.got), (blocks, blocks), "{counts:?}");
    assert_eq!(counts.given, counts.requests);
    assert_eq!(counts.searches + counts.preallocated, counts.given);
    assert!(counts.criteria.iter().sum::<u64>() <= counts.searches);
    assert_eq!(counts.latency.count(), counts.given);
    assert!(counts.nanoseconds > 0 && counts.goal >= blocks);
    by_file(&counters, dev, &files);

    let tasks = counters.tasks.values();
    let sum = tasks.fold((0, 0, 0), |sum, (share, _)| {
        let (requests, blocks, ns) = sum;
        (requests + share.requests, blocks + share.blocks, ns + share.nanoseconds)
    });
    assert_eq!(sum, (counts.requests, blocks, counts.nanoseconds));
    // fsync(2) writes in the thread that calls it.
    // /proc/thread-self links to PID/task/TID, for example 4711/task/4712.
    let myself = std::fs::read_link("/proc/thread-self").unwrap();
    let me: u32 = myself.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let (task, (share, comm)) = counters.tasks.iter().find(|(task, _)| task.pid == me).unwrap();
    assert_eq!((task.dev, share.blocks), (dev, blocks));
    let name = std::fs::read("/proc/thread-self/comm").unwrap();
    assert_eq!(comm, name.trim_ascii_end());

    if probe.sources()["looked"] == FigureSource::None {
        assert!(!probe.notes().is_empty());
        assert_eq!(counts.looked.iter().sum::<u64>(), 0);
        assert_eq!(counts.groups.0.iter().sum::<u64>(), 0);
    } else {
        assert_eq!(counts.groups.0.iter().sum::<u64>(), counts.searches);
        assert!(counts.looked.iter().sum::<u64>() >= counts.scanned);
    }
    // Slices of measurement are 2 % of the time: all work may be between two of them.
    assert!(counters.overhead.is_estimate(), "{:?}", counters.overhead);
}

fn by_file(counters: &AllocCounters, dev: u32, files: &[(u64, u64)]) {
    assert_eq!(counters.files.len(), files.len());
    for (inode, blocks) in files {
        let is = |id: &FileId| id.dev == dev && id.inode == *inode;
        let (_, share) = counters.files.iter().find(|(id, _)| is(id)).unwrap();
        assert_eq!((share.requests, share.blocks), (1, *blocks), "{inode}");
        assert!(share.nanoseconds > 0);
    }
}

#[test]
fn backing_off_stops_only_the_count_of_groups() {
    if !tracing() || !installed("mke2fs") || !installed("losetup") {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096", "-O", "^has_journal"]);
    let dev = device(&disk.mount);
    let Ok(mut probe) = AllocProbe::start(&AllocFacts::gather(), &[dev]) else {
        return skipped("BPF refused");
    };
    let before = probe.sources();
    probe.back_off();
    let after = probe.sources();
    for (figure, source) in after {
        let gone = ["looked", "refused", "reasons", "groups", "calls"].contains(&figure);
        let expected = if gone { FigureSource::None } else { before[figure] };
        assert_eq!(source, expected, "{figure}");
    }
    write(&disk.mount);
    let counters = probe.read().unwrap();
    assert_eq!(counters.filesystems[&dev].requests, 8);
    assert_eq!(counters.filesystems[&dev].groups.0, [0; 24]);
}
