//! Slow operations on XFS with injected causes (`tests/lab/slow_xfs.sh`), compared with ftrace's
//! function graph.

use serde_json::Value;

use super::lab;
use super::slow::{Times, agree, awake, longest_wait, phase};
use super::slow_files::readers_wait;
use super::slow_md::Case;

/// The phases of all operations of a kind take as long as the kernel functions in which their tasks
/// wait.
fn compare(case: &Case, op: &str, phases: &[&str], functions: &[&str]) -> f64 {
    case.agrees(op, phases, &[], functions, 0.0)
}

/// Each injected cause is the largest phase, has the correct culprit, and matches the kernel's
/// time.
pub(super) fn slow_operations_on_xfs_have_their_causes(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_xfs") else {
        return;
    };
    let of = |case: &Case, op: &str| -> Vec<Value> {
        case.operations.iter().filter(|o| o["op"] == op).cloned().collect()
    };

    let case = Case::new(&dir, "idle");
    let mut idle = of(&case, "fsync");
    assert_eq!(idle.len(), 3);
    // The log's thread may have written after the script found the array clean.
    idle.retain(|o| case.called_by(o, "md_write_start") > 50e3);
    assert!(idle.len() >= 2);
    for (own, functions) in [
        (["md_superblock", ""], ["md_write_start", ""]),
        (["cil_push", "log_io"], ["xlog_cil_force_seq", "xlog_wait_on_iclog"]),
    ] {
        let times = idle.iter().map(|operation| Times {
            ours: own.iter().map(|p| super::slow::us(operation, p)).sum(),
            rest: awake(operation),
            theirs: functions.iter().map(|f| case.called_by(operation, f)).sum(),
        });
        agree(own[0], &times.collect::<Vec<_>>());
    }
    // The flush takes 120 ms on the second member. Time on a run queue does not count as a wait.
    let waits = idle.iter().filter(|o| awake(o) < 60e3);
    for operation in waits {
        // Up to 6.1, md writes the log's FUA write after the flush, not beside it.
        let longest = longest_wait(operation)["phase"].as_str();
        assert!(matches!(longest, Some("md_superblock" | "log_io")), "{operation:#}");
        for name in ["md_superblock", "log_io"] {
            let phase = phase(operation, name).expect("a phase");
            assert_eq!(phase["member"], "dm-1", "{operation:#}");
        }
    }

    let case = Case::new(&dir, "lock");
    for (file, reason) in
        [("unaligned", "direct write that is not aligned to blocks"), ("mixed", "buffered write")]
    {
        readers_wait(&case, file, reason);
    }

    let case = Case::new(&dir, "writers");
    let locks = ["inode_lock", "direct_drain"];
    let functions = ["rwsem_down_read_slowpath", "rwsem_down_write_slowpath", "inode_dio_wait"];
    assert!(compare(&case, "write", &locks, &functions) > 20e3);
    for operation in of(&case, "write") {
        let lock = phase(&operation, "inode_lock").map(|l| l["task"]["pid"].clone());
        assert!(lock.is_none_or(|pid| pid != operation["pid"]), "{operation:#}");
    }

    let case = Case::new(&dir, "space");
    assert!(compare(&case, "create", &["log_space"], &["xlog_grant_head_wait"]) > 50e3);
    for waited in of(&case, "create").iter().filter_map(|o| phase(o, "log_space")) {
        assert_eq!(waited["task"]["comm"], "xfsaild/md120");
    }

    let case = Case::new(&dir, "push");
    assert!(compare(&case, "fsync", &["cil_push"], &["xlog_cil_force_seq"]) > 50e3);
    compare(&case, "fsync", &["log_io"], &["xlog_wait_on_iclog"]);

    let case = Case::new(&dir, "buffered");
    // Another task's fsync may wait as long, for the log.
    let fsyncs = of(&case, "fsync");
    let writer = fsyncs.iter().find(|o| o["path"] == "/mnt/md120/big");
    assert_eq!(longest_wait(writer.expect("an fsync"))["phase"], "own_data");
    compare(&case, "fsync", &["own_data"], &["file_write_and_wait_range"]);

    let case = Case::new(&dir, "cold");
    let reads = ["__xfs_buf_submit"];
    assert!(compare(&case, "create", &["metadata_read"], &reads) > 200e3);
    assert!(compare(&case, "create", &["buffer_lock"], &["xfs_buf_lock"]) > 100e3);
    let maps = ["rwsem_down_read_slowpath"];
    assert!(compare(&case, "read", &["block_map_lock"], &maps) > 50e3);

    let case = Case::new(&dir, "external");
    let log = ["cil_push", "log_io"];
    let functions = ["xlog_cil_force_seq", "xlog_wait_on_iclog"];
    assert!(compare(&case, "fsync", &log, &functions) > 80e3);
    for operation in of(&case, "fsync") {
        let log = phase(&operation, "log_io").expect("a log write");
        assert_eq!(log["journal"], "dm-2", "{operation:#}");
        let flush = phase(&operation, "own_flush").expect("a flush of the data");
        assert_eq!(flush["member"], "dm-1", "{operation:#}");
        let flush = phase(&operation, "data_flush").expect("a flush before the log write");
        assert_eq!(flush["member"], "dm-1", "{operation:#}");
    }

    // Mounted after the start.
    let case = Case::new(&dir, "later");
    for filesystem in ["/mnt/md120/later", "/mnt/md121/later"] {
        let fsync = |o: &&Value| o["op"] == "fsync" && o["path"] == filesystem;
        assert!(case.operations.iter().any(|o| fsync(&o)), "{filesystem}");
    }
}
