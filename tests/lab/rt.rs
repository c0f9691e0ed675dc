//! PREEMPT_RT (`tests/lab/rt.sh`): completions run in threads, and locks are rt_mutexes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lab;
use super::output::{by_origin, figures, lines, word};
use super::slow::{phase, us};
use super::slow_files::readers_wait;
use super::slow_md::Case;
use super::{agrees, intervals, text};

/// Each request is counted and recorded once.
pub(super) fn requests_are_counted_with_preempt_rt(kernel: &str) {
    let Some(dir) = lab(kernel, "rt") else {
        return;
    };
    for what in ["record", "top"] {
        assert_eq!(text(dir.join(format!("{what}.status"))).trim(), "0", "{what}");
    }
    let requests = |lines: &[Value]| {
        let mut sums = BTreeMap::<String, Vec<u64>>::new();
        for ((member, ..), (requests, _)) in by_origin(lines) {
            sums.entry(member.to_owned()).or_insert_with(|| vec![0])[0] += requests;
        }
        sums
    };
    let report = intervals(dir.join("report.json"));
    assert_eq!(requests(&report), figures(&dir, "recorded"));
    let top = intervals(dir.join("top.json"));
    assert_eq!(requests(&top), figures(&dir, "counted"));
    for line in top.iter().chain(&report) {
        let lost = line["lost"].as_object().expect("reasons");
        // Origins of requests that complete while the task in the program is preempted.
        let busy = |reason: &str| ["events", "busy", "missed"].contains(&reason);
        assert!(lost.iter().all(|(reason, n)| busy(reason) || *n == 0), "{lost:?}");
    }
}

/// Origins are the kernel's: tracepoints are called with preemption off, so no run is skipped.
pub(super) fn origins_agree_with_preempt_rt(kernel: &str) {
    let Some(dir) = lab(kernel, "rt") else {
        return;
    };
    agrees(&dir, "md120");
    let said = text(dir.join("record.err"));
    assert!(said.contains("nothing was lost"), "{said}");
}

/// Tasks that wait for the inode's lock have the task that holds it, or for which its readers wait.
pub(super) fn holders_are_named_with_preempt_rt(kernel: &str) {
    const UNALIGNED: &str = "direct write that is not aligned to blocks";

    let Some(dir) = lab(kernel, "rt") else {
        return;
    };
    let case = Case::new(&dir, "locks");
    readers_wait(&case, "unaligned", UNALIGNED);
    waits_have_a_task(&case, "write", UNALIGNED);
    waits_have_a_task(&Case::new(&dir, "readers"), "read", "buffered write");
}

/// Most long waits of these operations for the inode's lock have a task, with this reason.
fn waits_have_a_task(case: &Case, op: &str, reason: &str) {
    let waits = case.operations.iter().filter(|o| o["op"] == op && us(o, "inode_lock") > 20e3);
    let waits: Vec<_> = waits.filter_map(|o| phase(o, "inode_lock")).collect();
    let named =
        waits.iter().filter(|w| w["task"]["comm"] == "dd" && word(w, "reason").contains(reason));
    let named = named.count();
    println!("{op}: {named} of {}", waits.len());
    assert!(!waits.is_empty() && named * 10 >= waits.len() * 8, "{waits:#?}");
}

/// A ring buffer whose lock sleeps is not used, and the error says why.
pub(super) fn a_ring_buffer_that_sleeps_is_refused(kernel: &str) {
    let Some(dir) = lab(kernel, "rt_ring") else {
        return;
    };
    let written = by_origin(&lines(&dir, "top")).get(&("loop0", "file_data", "write")).map(|w| w.1);
    assert_eq!(written, Some(2 << 20));
    for (command, status) in figures(&dir, "errors") {
        let said = text(dir.join(format!("{command}.err")));
        assert_eq!((status, said.lines().count()), (vec![1], 1), "{command}: {said}");
        assert!(said.contains("PREEMPT_RT"), "{said}");
    }
}
