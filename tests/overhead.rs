//! The overhead of measuring raidtrace's own programs.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Loop, MIB, Top, installed, run, skipped, sum, tracing};
use serde_json::Value;

/// Runs of a process's BPF programs counted by the kernel. It counts only while BPF statistics are
/// enabled.
fn counted(pid: u32) -> u64 {
    let mut programs = std::collections::BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let field = |name: &str| {
            let value = text.lines().find_map(|l| l.strip_prefix(name))?;
            value.trim().parse::<u64>().ok()
        };
        if let (Some(id), Some(runs)) = (field("prog_id:"), field("run_cnt:")) {
            programs.insert(id, runs);
        }
    }
    programs.values().sum()
}

/// Writes for two seconds. Returns the requests that the disk completed, the program runs that the
/// kernel counted, and all intervals.
fn traced(disk: &Loop, options: &[&str]) -> (u64, u64, Vec<Value>) {
    let arguments = [&[disk.name.as_str(), "-i1"], options].concat();
    let (top, _) = Top::json(&arguments);
    let before = counted(top.pid());
    let begun = Instant::now();
    let file = format!("of={}", disk.mount.join("file").display());
    while begun.elapsed() < Duration::from_secs(2) {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", &file, "bs=4k", "count=2000"]);
        let out = run(dd.args(["oflag=direct", "conv=notrunc", "status=none"]));
        assert!(out.status.success(), "{}", out.stderr);
    }
    let runs = counted(top.pid()) - before;
    let intervals = top.intervals();
    (sum(&intervals, "*", "*", "requests"), runs, intervals)
}

#[test]
fn statistics_are_disabled_most_of_the_time() {
    if !tracing() || !installed("dd") || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let (requests, runs, intervals) = traced(&disk, &["--no-overhead"]);
    for interval in &intervals {
        let overhead = &interval["overhead"];
        assert_eq!(overhead["bpf_ns"].as_u64(), Some(0), "{overhead}");
        assert_eq!(overhead["measured_share"].as_f64(), Some(0.0));
        assert_eq!(overhead["estimated"].as_bool(), Some(false));
    }
    if runs > requests / 10 {
        return skipped("another process has enabled the kernel's BPF statistics");
    }

    let (requests, runs, intervals) = traced(&disk, &[]);
    // At least two programs run for each request.
    assert!(runs > 0 && runs < requests / 2, "{runs} of {requests}");
    let overhead = |field: &str| -> u64 {
        let each = intervals.iter().map(|i| i["overhead"][field].as_u64());
        each.map(Option::unwrap).sum()
    };
    let (events, ns) = (overhead("bpf_events"), overhead("bpf_ns"));
    println!("{requests} requests, {runs} runs counted, {events} estimated, {ns} ns");
    assert!(events > requests / 2 && events < 10 * requests, "{events} of {requests}");
    assert!(ns > 10 * events && ns < 100_000 * events, "{ns} ns, {events} runs");
    for interval in &intervals {
        let share = interval["overhead"]["measured_share"].as_f64().unwrap();
        assert!((0.0..0.5).contains(&share), "{interval}");
        assert_eq!(interval["overhead"]["estimated"].as_bool(), Some(true));
    }
}

#[test]
fn the_first_interval_is_short() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let (top, first) = Top::json(&[&disk.name, "-i", "60"]);
    assert!(first["interval_s"].as_f64().unwrap() < 30.0, "{first}");
    drop(top);
    // With -n, all intervals have the full length.
    let (_top, first) = Top::json(&[&disk.name, "-i", "0.5", "-n", "2"]);
    assert!(first["interval_s"].as_f64().unwrap() > 0.4, "{first}");
}
