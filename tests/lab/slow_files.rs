//! Direct readers that wait for writers of the same file, and other kinds of journals
//! (`tests/lab/slow_files.sh`), compared with ftrace's function graph and the delays of dm-delay.

use serde_json::Value;

use super::lab;
use super::slow::{COMMIT, Times, agree, awake, holds_for_nearly_all, longest_wait, phase, us};
use super::slow_md::Case;

/// Duration of flushes of the second member, in µs.
const FLUSH: f64 = 60e3;

/// Function in which a reader waits for the lock of an inode, also with PREEMPT_RT.
const READ_LOCK: [&str; 2] = ["rwsem_down_read_slowpath", "__rwbase_read_lock"];

/// True if the file of the operation has this name.
fn is_of(operation: &Value, name: &str) -> bool {
    let path = operation["path"].as_str().unwrap_or_default();
    path.rsplit('/').next() == Some(name)
}

/// Readers wait for the lock of the inode; the holder is reported with the reason.
pub(super) fn slow_readers_have_their_writer(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_files") else {
        return;
    };
    let case = Case::new(&dir, "files");
    for (file, reason) in [
        ("unaligned", "direct write that is not aligned to blocks"),
        ("border", "direct write into a hole, unwritten blocks or several extents"),
        ("mixed", "buffered write"),
        ("limited", "direct write that extends the file, mostly direct IO"),
        ("fallocated", "fallocate"),
    ] {
        readers_wait(&case, file, reason);
    }

    let case = Case::new(&dir, "external");
    case.agrees("fsync", &COMMIT, &[], &["jbd2_log_wait_commit"], 0.0);
    assert_eq!(case.largest("fsync"), "commit_record");
    // Only the first commit follows data of a new block.
    let flushed = case.operations.iter().filter(|o| us(o, "data_flush") > FLUSH / 2.0);
    assert_eq!(flushed.count(), 1);
    assert!(case.sum("fsync", &["data_flush"]).0 >= FLUSH * 0.9);

    for (mode, flushes) in [("journal", 2), ("writeback", 1)] {
        let case = Case::new(&dir, &format!("data_{mode}"));
        case.agrees("fsync", &COMMIT, &[], &["jbd2_log_wait_commit"], 0.0);
        each_flush(&case, &["commit_flush", "own_flush"], flushes);
    }
    each_flush(&Case::new(&dir, "data_none"), &["own_flush"], 1);
}

/// Readers of the file wait for its lock, for the time that ftrace measured; the holder is named
/// with this reason.
pub(super) fn readers_wait(case: &Case, file: &str, reason: &str) {
    let waited = |o: &Value| READ_LOCK.iter().map(|f| case.called_by(o, f)).sum::<f64>();
    let readers: Vec<_> = case
        .operations
        .iter()
        .filter(|o| o["op"] == "read" && is_of(o, file))
        .filter(|o| {
            let whole = o["total_us"].as_f64().expect("us");
            waited(o) > f64::max(10e3, whole * 0.3)
        })
        .collect();
    assert!(!readers.is_empty(), "{file}");
    let times = readers.iter().map(|operation| Times {
        ours: us(operation, "inode_lock"),
        rest: awake(operation),
        theirs: waited(operation),
    });
    agree(file, &times.collect::<Vec<_>>());
    let mut named = 0;
    for operation in &readers {
        // The run that measures a sleep may have been skipped (PREEMPT_RT).
        let Some(lock) = phase(operation, "inode_lock") else { continue };
        let theirs = waited(operation);
        let whole = operation["total_us"].as_f64().expect("us");
        if theirs > whole * 0.6 {
            let longest = longest_wait(operation);
            assert_eq!(longest["phase"], "inode_lock", "{operation:#}");
        }
        let why = lock["reason"].as_str().unwrap_or_default();
        named += usize::from(why.starts_with(reason));
    }
    assert!(named * 4 >= readers.len() * 3, "{named} of {}: {readers:#?}", readers.len());
}

/// Each fsync waits for that many flushes of the slow member: for the injected time, and for no
/// longer than the kernel.
fn each_flush(case: &Case, phases: &[&str], flushes: usize) {
    let fsyncs: Vec<_> = case.operations.iter().filter(|o| o["op"] == "fsync").collect();
    assert_eq!(fsyncs.len(), 3);
    for operation in &fsyncs {
        let all = operation["phases"].as_array().expect("phases");
        let own = all.iter().filter(|p| phases.iter().any(|n| p["phase"] == *n));
        let long: Vec<_> = own.filter(|p| p["us"].as_f64() > Some(FLUSH / 2.0)).collect();
        assert_eq!(long.len(), flushes, "{operation:#}");
        long.iter().for_each(|p| assert_eq!(p["member"], "dm-1", "{operation:#}"));
    }
    holds_for_nearly_all(&fsyncs, |operation| {
        let ours: f64 = phases.iter().map(|p| us(operation, p)).sum();
        let functions = ["jbd2_log_wait_commit", "submit_bio_wait"];
        let theirs: f64 = functions.iter().map(|f| case.called_by(operation, f)).sum();
        // Time on a run queue does not count as a wait.
        let least = flushes as f64 * FLUSH * 0.9 - awake(operation);
        (least..=theirs + 2e3).contains(&ours)
    });
}
