//! Slow operations with injected causes (`tests/lab/slow.sh`), compared with ftrace's function
//! graph.

use std::path::Path;

use serde_json::Value;

use super::{intervals, lab, text};

/// A call of a kernel function.
pub(super) struct Call {
    pub function: String,
    pub pid: u64,
    pub us: f64,
}

/// Calls in a function graph: `1)  dd-1017  | @ 167005.1 us |  md_write_start [md_mod]();` or, with
/// calls inside, `} /* jbd2_log_wait_commit */`.
pub(super) fn graph(file: &Path) -> Vec<Call> {
    let call = |line: &str| {
        let mut parts = line.split('|').map(str::trim);
        let (process, duration, function) = (parts.next()?, parts.next()?, parts.next()?);
        let us = duration.strip_suffix("us")?.trim();
        let us = us.trim_start_matches(|c: char| !c.is_ascii_digit());
        let function = function.trim_start_matches(['}', ' ', '/', '*']);
        let end = function.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        Some(Call {
            function: function[..end].to_owned(),
            pid: process.rsplit_once('-')?.1.parse().ok()?,
            us: us.parse().ok()?,
        })
    };
    text(file.to_owned()).lines().filter_map(call).collect()
}

pub(super) fn phase<'a>(operation: &'a Value, name: &str) -> Option<&'a Value> {
    let phases = operation["phases"].as_array().expect("phases");
    phases.iter().find(|p| p["phase"] == name)
}

pub(super) fn us(operation: &Value, name: &str) -> f64 {
    phase(operation, name).map_or(0.0, |p| p["us"].as_f64().expect("us"))
}

/// Asserts that the two times agree within 5 % or 2 ms. `rest` is the time of the operation on a
/// CPU or a run queue, which ftrace includes if it was spent in the function.
pub(super) fn agree(what: &str, ours: f64, rest: f64, theirs: f64) {
    println!(
        "{what}: {:.1} ms and up to {:.1}, ftrace {:.1} ms",
        ours / 1e3,
        rest / 1e3,
        theirs / 1e3
    );
    let slack = f64::max(2000.0, theirs * 0.05);
    assert!(
        (theirs - rest - slack..=theirs + slack).contains(&ours),
        "{what}: {ours} us and up to {rest} us, ftrace says {theirs} us"
    );
}

/// Time on a CPU or a run queue.
pub(super) fn awake(operation: &Value) -> f64 {
    us(operation, "cpu") + us(operation, "run_queue")
}

/// The longest phase that is a wait.
pub(super) fn longest_wait(operation: &Value) -> &Value {
    let phases = operation["phases"].as_array().expect("phases");
    let awake = |p: &&Value| p["phase"] != "cpu" && p["phase"] != "run_queue";
    phases.iter().find(awake).expect("a wait")
}

/// Phases of a wait for a commit.
pub(super) const COMMIT: [&str; 13] = [
    "previous_commit",
    "commit_start",
    "transaction_locked",
    "ordered_submit",
    "journal_submit",
    "ordered_data",
    "journal_blocks",
    "data_flush",
    "commit_flush",
    "commit_record",
    "commit_tail",
    "wake_up",
    "commit",
];

/// Each injected cause is the largest phase, has the correct culprit, and matches the kernel's
/// time.
pub(super) fn slow_operations_have_their_causes(kernel: &str) {
    let Some(dir) = lab(kernel, "slow") else {
        return;
    };
    assert_eq!(text(dir.join("slow.status")).trim(), "0");
    let errors = text(dir.join("slow.err"));
    assert!(!errors.contains("refused"), "{errors}");
    let intervals = intervals(dir.join("slow.out"));
    for interval in &intervals {
        assert_eq!(interval["lost"]["events"], 0, "{}", interval["lost"]);
    }
    let all = intervals.iter().filter_map(|i| i["operations"].as_array());
    let all: Vec<&Value> = all.flatten().collect();
    let calls = graph(&dir.join("graph"));
    let of_task = |operation: &Value, function: &str| -> f64 {
        let pid = operation["pid"].as_u64();
        let own = calls.iter().filter(|c| c.function == function && Some(c.pid) == pid);
        own.map(|c| c.us).sum()
    };
    let of_all = |function: &str| -> f64 {
        let own = calls.iter().filter(|c| c.function == function);
        own.map(|c| c.us).sum()
    };
    let named = |name: &str, op: &str| -> Vec<&Value> {
        let is = |o: &&&Value| {
            o["path"].as_str().is_some_and(|p| p.rsplit('/').next() == Some(name)) && o["op"] == op
        };
        all.iter().filter(is).copied().collect()
    };

    let (mut whole, mut other) = (0.0, 0.0);
    for operation in &all {
        let phases = operation["phases"].as_array().expect("phases");
        let sum: u64 = phases.iter().filter_map(|p| p["us"].as_u64()).sum();
        assert_eq!(Some(sum), operation["total_us"].as_u64(), "{operation:#}");
        whole += sum as f64;
        other += us(operation, "other");
    }
    println!("{} operations; without a phase: {:.2} %", all.len(), 100.0 * other / whole);
    assert!(other < whole * 0.02, "{other} of {whole} us have no phase");

    // The array was idle, so md writes its superblocks; one member is slow.
    let quiet = named("quiet", "fsync");
    assert_eq!(quiet.len(), 3);
    // md marks the array clean up to 0.4 s after the last write, so it may not have been clean at
    // the first fsync.
    let idle: Vec<_> = quiet.into_iter().filter(|o| of_task(o, "md_write_start") > 50e3).collect();
    assert!(idle.len() >= 2, "{}", idle.len());
    for operation in idle {
        let largest = &operation["phases"][0];
        assert_eq!(largest["phase"], "md_superblock", "{operation:#}");
        assert_eq!(largest["member"], "dm-1", "{operation:#}");
        agree(
            "md_write_start()",
            us(operation, "md_superblock"),
            awake(operation),
            of_task(operation, "md_write_start"),
        );
        let commit: f64 = COMMIT.iter().map(|p| us(operation, p)).sum();
        agree(
            "jbd2_log_wait_commit()",
            commit,
            awake(operation),
            of_task(operation, "jbd2_log_wait_commit"),
        );
        let flush = phase(operation, "commit_flush").expect("a flush");
        assert_eq!(flush["member"], "dm-1", "{operation:#}");
        let us = flush["us"].as_f64().expect("us");
        assert!((110e3..150e3).contains(&us), "the flush of 120 ms took {us} us");
    }

    // Commits name the slow member too: its flush is the longest.
    let commits = intervals.iter().filter_map(|i| i["commits"].as_array()).flatten();
    let slowest = commits.filter_map(|c| c["flushes"].get(0));
    let slow: Vec<_> = slowest.filter(|f| f["us"].as_f64().is_some_and(|us| us > 110e3)).collect();
    let slow_member = slow.iter().filter(|f| f["member"] == "dm-1").count();
    // While ordered data is written, the other members are busy too.
    assert!(slow_member >= 3 && slow_member * 4 >= slow.len() * 3, "{slow:#?}");

    let mut commits = intervals.iter().filter_map(|i| i["commits"].as_array()).flatten();
    assert!(commits.any(|c| c["request_reason"] == "fsync" && c["requester"]["comm"] == "dd"));

    // Data of another file belongs to the same transaction.
    let ordered = named("ordered", "fsync");
    assert_eq!(ordered.len(), 4);
    let waited: Vec<_> = ordered.iter().filter_map(|o| phase(o, "ordered_data")).collect();
    let commits = intervals.iter().filter_map(|i| i["commits"].as_array()).flatten();
    let of_files = commits.filter_map(|c| c["ordered"].as_array()).flatten();
    let sum: f64 = of_files.filter_map(|o| o["us"].as_f64()).sum();
    // The function also checks each page, which takes time on the emulated CPU. Submission also
    // waits for pages that are already being written.
    let waits = of_all("ext4_journal_finish_inode_data_buffers");
    let submits = of_all("ext4_journal_submit_inode_data_buffers");
    let rest = 0.15 * waits + submits;
    agree("ordered data of all commits", sum, rest, waits + submits);
    if sum > 50e3 {
        let file = |p: &&&Value| p["file"]["path"].as_str().is_some_and(|f| f.ends_with("/big"));
        assert!(waited.iter().any(|p| file(&p)), "{waited:#?}");
        let writer = |p: &&&Value| p["task"]["comm"] == "dd";
        assert!(waited.iter().any(|p| writer(&p)), "{waited:#?}");
    }

    // Readers wait for a direct writer that extends the file.
    let mut readers = named("direct", "read");
    // The other readers found the lock free, or spun.
    readers.retain(|o| {
        let total = o["total_us"].as_f64().expect("us");
        of_task(o, "rwsem_down_read_slowpath") > f64::max(5e3, total * 0.5)
    });
    assert!(readers.len() >= 4, "{}", readers.len());
    let mut blamed = 0;
    for operation in &readers {
        let longest = longest_wait(operation);
        assert_eq!(longest["phase"], "inode_lock", "{operation:#}");
        agree(
            "rwsem_down_read_slowpath()",
            us(operation, "inode_lock"),
            awake(operation),
            of_task(operation, "rwsem_down_read_slowpath"),
        );
        let reason = longest["reason"].as_str().unwrap_or_default();
        blamed += usize::from(reason.starts_with("direct write that extends the file"));
    }
    // Before 5.19 there are no contention events, so the holder is unknown.
    if kernel != "5.10" {
        assert!(blamed * 10 >= readers.len() * 8, "{blamed} of {} name the writer", readers.len());
    }

    // A truncation holds the transaction.
    let locked = named("locked", "fsync");
    assert_eq!(locked.len(), 1);
    let largest = &locked[0]["phases"][0];
    assert_eq!(largest["phase"], "transaction_locked", "{:#}", locked[0]);
    assert_eq!(largest["task"]["comm"], "rm", "{:#}", locked[0]);
    assert_eq!(largest["reason"], "truncate handle");
    if kernel != "5.10" {
        let commits = intervals.iter().filter_map(|i| i["commits"].as_array()).flatten();
        let states = commits.filter_map(|c| c["states"]["locked"].as_f64());
        let updates = calls.iter().filter(|c| c.function == "jbd2_journal_wait_updates");
        let longest = updates.map(|c| c.us).fold(0.0, f64::max);
        agree("jbd2_journal_wait_updates()", states.fold(0.0, f64::max), 0.0, longest);
    }
}
