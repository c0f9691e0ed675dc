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
        let us =
            duration.strip_suffix("us")?.trim().trim_start_matches(|c: char| !c.is_ascii_digit());
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
    operation["phases"].as_array().expect("phases").iter().find(|p| p["phase"] == name)
}

pub(super) fn us(operation: &Value, name: &str) -> f64 {
    phase(operation, name).map_or(0.0, |p| p["us"].as_f64().expect("us"))
}

/// Times of one wait, or of all waits of a task, in µs.
pub(super) struct Times {
    pub ours: f64,
    /// Time of the operation on a CPU or a run queue, which ftrace includes if it was spent in the
    /// function.
    pub rest: f64,
    pub theirs: f64,
}

impl Times {
    /// True within 5 % or `least` µs.
    fn agree(&self, least: f64) -> bool {
        let slack = f64::max(least, self.theirs * 0.05);
        (self.theirs - self.rest - slack..=self.theirs + slack).contains(&self.ours)
    }
}

/// Asserts that raidtrace's and ftrace's times agree within 5 %: the sums, or nearly all of at
/// least three. If a virtual CPU stops between the two time stamps of a wait, only one of them
/// includes the pause. Most pauses are shorter than 10 ms, a time slice of the host.
pub(super) fn agree(what: &str, times: &[Times]) {
    let sum = |of: fn(&Times) -> f64| times.iter().map(of).sum::<f64>();
    let all = Times { ours: sum(|t| t.ours), rest: sum(|t| t.rest), theirs: sum(|t| t.theirs) };
    println!(
        "{what}: {:.1} ms and up to {:.1}, ftrace {:.1} ms, in {} tasks",
        all.ours / 1e3,
        all.rest / 1e3,
        all.theirs / 1e3,
        times.len()
    );
    let apart: Vec<_> = times.iter().filter(|t| !t.agree(2e3)).collect();
    let nearly_all = times.len() >= 3 && apart.len() <= times.len().div_ceil(4);
    for t in &apart {
        println!("  {} us and up to {} us, ftrace says {} us", t.ours, t.rest, t.theirs);
    }
    assert!(nearly_all || all.agree(10e3), "{what}: {} of {}", apart.len(), times.len());
}

/// Asserts that a property holds for nearly all of the operations: at least three quarters, or two
/// of three.
pub(super) fn holds_for_nearly_all(operations: &[&Value], property: impl Fn(&Value) -> bool) {
    let others: Vec<_> = operations.iter().filter(|o| !property(o)).collect();
    let most = if operations.len() < 3 { 0 } else { operations.len().div_ceil(4) };
    assert!(others.len() <= most, "{} of {}: {others:#?}", others.len(), operations.len());
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
    let all: Vec<&Value> =
        intervals.iter().filter_map(|i| i["operations"].as_array()).flatten().collect();
    let calls = graph(&dir.join("slow.graph"));
    let of_task = |operation: &Value, function: &str| -> f64 {
        let pid = operation["pid"].as_u64();
        let own = calls.iter().filter(|c| c.function == function && Some(c.pid) == pid);
        own.map(|c| c.us).sum()
    };
    let of_all = |function: &str| -> f64 {
        calls.iter().filter(|c| c.function == function).map(|c| c.us).sum()
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
    // The journal's thread may have written after the script found the array clean.
    let idle: Vec<_> = quiet.into_iter().filter(|o| of_task(o, "md_write_start") > 50e3).collect();
    assert!(idle.len() >= 2, "{}", idle.len());
    let (mut starts, mut commits) = (Vec::new(), Vec::new());
    for operation in &idle {
        // On a busy machine, the flush of the commit takes as long.
        let largest = longest_wait(operation);
        let known = ["md_superblock", "commit_flush"];
        assert!(known.iter().any(|phase| largest["phase"] == *phase), "{operation:#}");
        assert_eq!(largest["member"], "dm-1", "{operation:#}");
        starts.push(Times {
            ours: us(operation, "md_superblock"),
            rest: awake(operation),
            theirs: of_task(operation, "md_write_start"),
        });
        commits.push(Times {
            ours: COMMIT.iter().map(|p| us(operation, p)).sum(),
            rest: awake(operation),
            theirs: of_task(operation, "jbd2_log_wait_commit"),
        });
        let flush = phase(operation, "commit_flush").expect("a flush");
        assert_eq!(flush["member"], "dm-1", "{operation:#}");
    }
    agree("md_write_start()", &starts);
    agree("jbd2_log_wait_commit()", &commits);
    // The flush takes 120 ms; dm-delay counts in ticks of 4 ms, the first of which has already
    // started.
    holds_for_nearly_all(&idle, |o| {
        (110e3..=of_task(o, "jbd2_log_wait_commit") + 2e3).contains(&us(o, "commit_flush"))
    });

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
    agree("ordered data of all commits", &[Times { ours: sum, rest, theirs: waits + submits }]);
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
        let slept = total - awake(o);
        of_task(o, "rwsem_down_read_slowpath") > f64::max(5e3, total * 0.5) && slept > total * 0.5
    });
    assert!(readers.len() >= 4, "{}", readers.len());
    let mut blamed = 0;
    let times = readers.iter().map(|operation| Times {
        ours: us(operation, "inode_lock"),
        rest: awake(operation),
        theirs: of_task(operation, "rwsem_down_read_slowpath"),
    });
    agree("rwsem_down_read_slowpath()", &times.collect::<Vec<_>>());
    for operation in &readers {
        // On a busy machine the direct IO after the lock can take longer than the wait for it.
        let phases = operation["phases"].as_array().expect("phases");
        let lock = phases.iter().find(|p| p["phase"] == "inode_lock");
        let lock = lock.unwrap_or_else(|| panic!("no wait for the lock: {operation:#}"));
        let reason = lock["reason"].as_str().unwrap_or_default();
        blamed += usize::from(reason.starts_with("direct write that extends the file"));
    }
    // Before 5.19 there are no contention events, so the holder is unknown.
    if kernel != "5.10" {
        assert!(blamed * 10 >= readers.len() * 8, "{blamed} of {} name the writer", readers.len());
    }

    // A truncation holds the transaction.
    let locked = named("locked", "fsync");
    assert_eq!(locked.len(), 1);
    let largest = longest_wait(locked[0]);
    assert_eq!(largest["phase"], "transaction_locked", "{:#}", locked[0]);
    assert_eq!(largest["task"]["comm"], "rm", "{:#}", locked[0]);
    assert_eq!(largest["reason"], "truncate handle");
    if kernel != "5.10" {
        let commits = intervals.iter().filter_map(|i| i["commits"].as_array()).flatten();
        let states = commits.filter_map(|c| c["states"]["locked"].as_f64());
        let updates = calls.iter().filter(|c| c.function == "jbd2_journal_wait_updates");
        let longest = updates.map(|c| c.us).fold(0.0, f64::max);
        let times = Times { ours: states.fold(0.0, f64::max), rest: 0.0, theirs: longest };
        agree("jbd2_journal_wait_updates()", &[times]);
    }
}
