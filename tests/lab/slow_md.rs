//! Slow operations with injected causes (`tests/lab/slow_md.sh`), compared with ftrace's function
//! graph.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::slow::{COMMIT, Call, agree, awake, graph, longest_wait, us};
use super::{intervals, lab, text};

/// Shortest operation that was traced, in µs. Shorter calls need not be part of a traced operation.
const THRESHOLD: f64 = 5e3;

/// A case: the operations of all its intervals, and the calls of kernel functions.
pub(super) struct Case {
    pub operations: Vec<Value>,
    calls: Vec<Call>,
}

impl Case {
    pub fn new(dir: &Path, name: &str) -> Self {
        println!("{name}:");
        assert_eq!(text(dir.join(format!("{name}.status"))).trim(), "0");
        let errors = text(dir.join(format!("{name}.err")));
        assert!(!errors.contains("refused"), "{errors}");
        let mut operations = Vec::new();
        for mut interval in intervals(dir.join(format!("{name}.out"))) {
            let lost = &interval["lost"]["reasons"];
            // Member IOs beyond RT_SLOW_MOST_IOS in a drain are lost; this test does not need them.
            let only_ios = lost.as_object().expect("reasons").keys().all(|r| r == "member_io");
            assert!(only_ios, "{lost}");
            operations.append(interval["operations"].as_array_mut().expect("operations"));
        }
        let (mut whole, mut other) = (0.0, 0.0);
        for operation in &operations {
            let phases = operation["phases"].as_array().expect("phases");
            let sum: u64 = phases.iter().filter_map(|p| p["us"].as_u64()).sum();
            assert_eq!(Some(sum), operation["total_us"].as_u64(), "{operation:#}");
            whole += sum as f64;
            other += us(operation, "other");
        }
        assert!(!operations.is_empty(), "{name}");
        assert!(other < whole * 0.02, "{other} of {whole} us have no phase");
        Self { operations, calls: graph(&dir.join(format!("{name}.graph"))) }
    }

    /// Time of these phases in all operations of a kind, and the time that operations with one of
    /// them spent on a CPU or a run queue.
    pub fn sum(&self, op: &str, phases: &[&str]) -> (f64, f64) {
        let own = || self.operations.iter().filter(|o| o["op"] == op);
        let of = |o: &Value| phases.iter().map(|p| us(o, p)).sum::<f64>();
        let in_them = own().filter(|o| of(o) > 0.0);
        (own().map(of).sum(), in_them.map(awake).sum())
    }

    /// The phase with the most time in all operations of a kind.
    pub fn largest(&self, op: &str) -> String {
        let mut phases: Vec<&str> = self
            .operations
            .iter()
            .flat_map(|o| o["phases"].as_array().expect("phases"))
            .filter_map(|p| p["phase"].as_str())
            .filter(|p| !["cpu", "run_queue"].contains(p))
            .collect();
        phases.sort_unstable();
        phases.dedup();
        let longest =
            phases.into_iter().max_by(|a, b| self.sum(op, &[a]).0.total_cmp(&self.sum(op, &[b]).0));
        longest.unwrap_or_default().to_owned()
    }

    /// Time in calls of a function by the task of an operation.
    pub fn called_by(&self, operation: &Value, function: &str) -> f64 {
        let pid = operation["pid"].as_u64();
        let own = |c: &&Call| c.function == function && Some(c.pid) == pid;
        self.calls.iter().filter(own).map(|c| c.us).sum()
    }

    /// Time in calls of these functions by the tasks of listed operations of a kind.
    pub fn called_in(&self, op: &str, functions: &[&str]) -> f64 {
        let own = self.operations.iter().filter(|o| o["op"] == op);
        let tasks: BTreeSet<u64> = own.filter_map(|o| o["pid"].as_u64()).collect();
        let is_own = |c: &&Call| functions.contains(&c.function.as_str()) && tasks.contains(&c.pid);
        self.calls.iter().filter(is_own).map(|c| c.us).sum()
    }

    /// Time in calls of a function that took at least `least` µs, by tasks of listed operations.
    pub fn called(&self, functions: &[&str], least: f64) -> f64 {
        let tasks: Vec<u64> = self.operations.iter().filter_map(|o| o["pid"].as_u64()).collect();
        let long = |c: &&Call| {
            functions.contains(&c.function.as_str()) && c.us >= least && tasks.contains(&c.pid)
        };
        self.calls.iter().filter(long).map(|c| c.us).sum()
    }
}

/// Each cause is the largest phase, and matches the kernel's time.
pub(super) fn slow_arrays_have_their_causes(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_md") else {
        return;
    };
    let case = Case::new(&dir, "pre_reads");
    let of = |op: &'static str| case.operations.iter().filter(move |o| o["op"] == op);
    // On a busy machine, the buffered write before an fdatasync may be slow too.
    let direct = || of("write").filter(|o| o["direct"] == true);
    assert!(of("fdatasync").count() >= 5 && direct().count() >= 3);
    let mut shortest = f64::INFINITY;
    for operation in of("fdatasync").chain(direct()) {
        let read = us(operation, "pre_read") / 1e3;
        println!("reads for parity: {read} ms of {operation}");
        // dm-delay counts 60 ms in ticks of 4 ms, the first of which has already started; on a busy
        // machine 54.4 ms were seen. It also adds time.
        assert!(read >= 52.0, "{operation:#}");
        assert_eq!(longest_wait(operation)["phase"], "pre_read");
        shortest = shortest.min(read);
    }
    assert!(shortest < 66.0, "{shortest} ms");

    let case = Case::new(&dir, "stripes");
    assert_eq!(case.largest("write"), "stripe_cache");
    let (ours, rest) = case.sum("write", &["stripe_cache"]);
    let theirs = case.called(&["raid5_get_active_stripe"], 0.0);
    agree("raid5_get_active_stripe()", ours, rest, theirs);

    let case = Case::new(&dir, "throttled");
    // Throttled operations of a large write. On a busy machine, other operations wait for the
    // journal.
    let is_throttled = |o: &&Value| us(o, "throttled") > 10e3;
    let throttled = case.operations.iter().find(is_throttled);
    let longest = longest_wait(throttled.expect("a throttled write"));
    assert_eq!(longest["phase"], "throttled");
    let (ours, rest) = case.sum("write", &["throttled"]);
    let theirs = case.called(&["balance_dirty_pages"], THRESHOLD);
    agree("balance_dirty_pages()", ours, rest, theirs);
    let (ours, rest) = case.sum("write", &["inode_lock", "block_map_lock"]);
    let theirs = case.called(&["rwsem_down_write_slowpath"], THRESHOLD);
    agree("rwsem_down_write_slowpath()", ours, rest, theirs);
    let waits = case.operations.iter().filter(|o| us(o, "inode_lock") > 20e3);
    let sentences: Vec<_> = waits.filter_map(|o| o["sentence"].as_str()).collect();
    let because = "buffered write";
    assert!(sentences.iter().any(|s| s.contains(because)), "{sentences:#?}");

    let case = Case::new(&dir, "full");
    assert_eq!(case.largest("create"), "log_space");
    // The checkpoint waits for md itself.
    let inside = ["log_space", "stripe_cache", "md_superblock", "queue_full"];
    let (ours, rest) = case.sum("create", &inside);
    let waits = case.sum("create", &["journal_buffer", "transaction_locked"]).0;
    let commits = case.sum("create", &COMMIT).0;
    let theirs = case.called(&["__jbd2_log_wait_for_space"], THRESHOLD);
    agree("__jbd2_log_wait_for_space()", ours, rest + waits + commits, theirs);

    let case = Case::new(&dir, "fast");
    let (ours, rest) = case.sum("fsync", &["fast_commit"]);
    let theirs = case.called(&["ext4_fc_commit"], 0.0);
    agree("ext4_fc_commit()", ours, rest, theirs);

    let case = Case::new(&dir, "resync");
    assert_eq!(case.largest("write"), "resync_barrier");
    let (ours, rest) = case.sum("write", &["resync_barrier"]);
    let theirs = case.called(&["wait_barrier", "_wait_barrier"], 500.0);
    agree("wait_barrier()", ours, rest, theirs);

    let case = Case::new(&dir, "nested");
    let (ours, rest) = case.sum("fsync", &COMMIT);
    let theirs = case.called(&["jbd2_log_wait_commit"], 0.0);
    agree("jbd2_log_wait_commit()", ours, rest, theirs);
    let (ours, _) = case.sum("fsync", &["ordered_submit", "ordered_data"]);
    let whole: f64 = case.sum("fsync", &COMMIT).0;
    assert!(ours > whole / 2.0, "ordered data: {ours} of {whole} us");
    let named = case.operations.iter().filter_map(|o| o["phases"].as_array());
    let files = named.flatten().filter_map(|p| p["file"]["path"].as_str());
    assert!(files.clone().any(|f| f == "/mnt/md124/large"), "{:?}", files.collect::<Vec<_>>());
}
