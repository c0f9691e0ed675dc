//! Operations and commits for tests.

use std::sync::Arc;

use super::asynchronous::Asynchronous;
use super::commit::flushes;
use super::event::{
    Commit, CommitReason, CommitState, Holder, LockWait, MemberIo, OffCpu, Operation,
    OperationFlags, OperationKind, OrderedFile, Purpose, STATES, Stack, StackSleeps, Task,
};
use super::names::{Names, SlowOperation};
use super::snapshot::{KindSum, SlowSnapshot};
use super::waterfall::Waterfall;
use crate::analysis::files::{FileId, FileLocation};

/// A millisecond in ns.
pub const MS: u64 = 1_000_000;
/// Device of the filesystem: 9:127.
pub const FS: u32 = 9 << 20 | 127;
/// The slow member: sdc.
pub const SDC: u32 = 8 << 20 | 32;
/// Another member: sda.
pub const SDA: u32 = 8 << 20;

/// A stack of these functions, innermost first.
pub fn stack(functions: &[&str]) -> Option<Stack> {
    Some(functions.iter().map(|f| Arc::from(*f)).collect())
}

/// A thread.
pub fn task(comm: &str, pid: u32) -> Task {
    Task { pid, comm: comm.as_bytes().to_vec() }
}

/// A file on [`FS`].
pub fn file(inode: u64) -> FileId {
    FileId { dev: FS, inode, generation: 1 }
}

/// A sleep from `from` to `to` ms.
pub fn sleep(functions: &[&str], from: u64, to: u64) -> StackSleeps {
    StackSleeps {
        stack: stack(functions),
        count: 1,
        ns: (to - from) * MS,
        first_ns: from * MS,
        last_ns: to * MS,
    }
}

/// An fsync of inode 12 by mysqld from 0 to `to` ms.
pub fn fsync(to: u64, sleeps: Vec<StackSleeps>) -> Operation {
    Operation {
        kind: OperationKind::Fsync,
        task: task("mysqld", 812),
        tgid: 800,
        file: Some(file(12)),
        dev: FS,
        start_ns: 0,
        end_ns: to * MS,
        position: 0,
        bytes: 0,
        flags: OperationFlags::default(),
        lock: LockWait::default(),
        pusher: None,
        asynchronous: Asynchronous::default(),
        off: OffCpu { sleeps, ..OffCpu::default() },
    }
}

/// A commit whose states are reached at these times in ms: started, locked, flushed, logged,
/// blocks, record, tail, ended.
pub fn commit(states: [u64; STATES]) -> Commit {
    Commit {
        flushes: Vec::new(),
        dev: FS,
        tid: 7,
        request: CommitReason::By(task("mysqld", 812), Some(Purpose::Fsync)),
        requested_ns: None,
        state_ns: states.map(|ms| Some(ms * MS)),
        record_ns: Some(states[CommitState::Record as usize] * MS),
        handles: 3,
        blocks: 12,
        logged: 14,
        holders: vec![Holder { task: task("rm", 99), handle: "truncate".into(), ns: 0 }],
        ordered: vec![OrderedFile {
            file: file(13),
            ns: 100 * MS,
            pages: 40,
            bytes: Some(480 << 20),
            writer: Some(task("mysqldump", 977)),
        }],
        others_ns: 0,
        journal: None,
        off: OffCpu::default(),
    }
}

/// A flush of a member between these times in ms.
pub fn flush(dev: u32, from: u64, to: u64) -> MemberIo {
    MemberIo {
        dev,
        start_ns: from * MS,
        end_ns: to * MS,
        flush: true,
        fua: false,
        write: true,
        bytes: 0,
        pre_read: false,
    }
}

/// A read for parity, between these times in ms.
pub fn pre_read(dev: u32, from: u64, to: u64) -> MemberIo {
    MemberIo { flush: false, write: false, bytes: 4096, pre_read: true, ..flush(dev, from, to) }
}

/// An interval with a slow fsync: 1.1 of 1.8 s is the flush of sdc, 0.4 s the data of another file.
pub fn interval() -> SlowSnapshot {
    let mut commit = commit([200, 210, 220, 230, 640, 650, 1790, 1795]);
    commit.off.sleeps = vec![sleep(
        &["schedule", "folio_wait_writeback", "ext4_journal_finish_inode_data_buffers"],
        240,
        620,
    )];
    let operation = fsync(
        1800,
        vec![
            sleep(&["schedule", "folio_wait_writeback", "file_write_and_wait_range"], 0, 190),
            sleep(&["schedule", "jbd2_log_wait_commit", "ext4_sync_file"], 195, 1799),
        ],
    );
    let ios = [flush(SDC, 655, 1780), flush(SDA, 655, 659)];
    let waterfall = Waterfall::new(&operation, &[&commit], &ios);
    commit.flushes = flushes(&commit, &ios);
    let mut names = Names::default();
    names.devices.insert(FS, "md127".to_owned());
    names.devices.insert(SDC, "sdc".to_owned());
    names.devices.insert(SDA, "sda".to_owned());
    names.members.insert("md127".to_owned(), 12);
    for (inode, path) in [(12, "/srv/db/redo.log"), (13, "/srv/backup/dump.sql")] {
        let location =
            FileLocation { path: Some(path.as_bytes().to_vec()), ..FileLocation::default() };
        names.files.insert(file(inode), location);
    }
    let sum = KindSum { count: 40, ns: 2000 * MS, slow: 1 };
    SlowSnapshot {
        time: jiff::Timestamp::from_second(1_795_521_601).unwrap_or_default(),
        interval: std::time::Duration::from_secs(1),
        threshold: std::time::Duration::from_millis(10),
        operations: vec![SlowOperation {
            operation,
            waterfall,
            unended: false,
            array: Some("md127".to_owned()),
        }],
        kinds: [(OperationKind::Fsync, sum)].into(),
        commits: vec![commit],
        names,
        ..SlowSnapshot::default()
    }
}

/// An fsync of 2.4 s so far, which waits for md's superblock.
pub fn unended() -> SlowOperation {
    let operation = fsync(2400, vec![sleep(&["io_schedule", "md_write_start"], 0, 2400)]);
    let flush = MemberIo {
        dev: SDC,
        start_ns: 0,
        end_ns: 2400 * MS,
        flush: true,
        fua: true,
        write: true,
        bytes: 4096,
        pre_read: false,
    };
    let waterfall = Waterfall::new(&operation, &[], &[flush]);
    SlowOperation { operation, waterfall, unended: true, array: Some("md127".to_owned()) }
}
