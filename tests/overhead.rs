//! The overhead of measuring raidtrace's own programs. `tools/bench top` measures its size, and
//! compares the estimate with the kernel's figures.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Loop, MIB, SetOnDrop, Top, installed, json, skipped, sum, tracing, until};
use serde_json::Value;

/// Runs of a process's BPF programs counted by the kernel. It counts only while BPF statistics are
/// enabled.
fn counted(pid: u32) -> u64 {
    let mut programs = std::collections::BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let field = |name: &str| {
            text.lines().find_map(|l| l.strip_prefix(name))?.trim().parse::<u64>().ok()
        };
        if let (Some(id), Some(runs)) = (field("prog_id:"), field("run_cnt:")) {
            programs.insert(id, runs);
        }
    }
    programs.values().sum()
}

/// True if a process has enabled the kernel's BPF statistics, also if other processes have: it
/// holds a descriptor of BPF_ENABLE_STATS.
fn enables_statistics(pid: u32) -> bool {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    all.flatten().any(|fd| {
        fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().ends_with("bpf-stats"))
    })
}

/// Calls `act` while another thread writes to the disk.
fn under_load<T>(disk: &Loop, act: impl FnOnce() -> T) -> T {
    #[repr(align(4096))]
    struct Block([u8; 4096]);
    let block = Block([7; 4096]);
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    let file = options.open(disk.mount.join("file")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in (0..2000).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all_at(&block.0, n * 4096).unwrap();
            }
        });
        let _done = SetOnDrop(&done);
        act()
    })
}

/// Intervals until their sum of each field of `overhead` is above 0, at least two.
fn until_estimated(top: &Top, fields: &[&str]) -> Vec<Value> {
    let mut intervals = Vec::new();
    until("estimate of the overhead", || {
        intervals.push(json(&top.line()).remove(0));
        let above_0 = |i: &Value, field: &str| overhead(i)[field].as_f64().unwrap() > 0.0;
        let any = |field: &&str| intervals.iter().any(|i| above_0(i, field));
        intervals.len() > 1 && fields.iter().all(any)
    });
    intervals
}

fn overhead(interval: &Value) -> &Value {
    &interval["overhead"]
}

#[test]
fn statistics_are_enabled_only_in_slices() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    if fs::read("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|v| v.first() == Some(&b'1')) {
        return skipped("kernel.bpf_stats_enabled is set on this machine");
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let (top, first) = Top::json(&[disk.name.as_str(), "-i0.2", "--no-overhead"]);
    let mut intervals = vec![first];
    under_load(&disk, || {
        for _ in 0..5 {
            assert!(!enables_statistics(top.pid()), "--no-overhead");
            intervals.push(json(&top.line()).remove(0));
        }
    });
    intervals.extend(top.intervals());
    assert!(sum(&intervals, "*", "*", "requests") > 0);
    for interval in &intervals {
        assert_eq!(overhead(interval)["bpf_ns"].as_u64(), Some(0), "{interval}");
        assert_eq!(overhead(interval)["bpf_events"].as_u64(), Some(0), "{interval}");
        assert_eq!(overhead(interval)["measured_share"].as_f64(), Some(0.0));
        assert_eq!(overhead(interval)["estimated"].as_bool(), Some(false));
    }

    let (top, first) = Top::json(&[disk.name.as_str(), "-i0.2"]);
    let before = counted(top.pid());
    let mut intervals = vec![first];
    let runs = under_load(&disk, || {
        for _ in 0..3 {
            until("slice with statistics", || enables_statistics(top.pid()));
            until("end of the slice", || !enables_statistics(top.pid()));
        }
        intervals.extend(until_estimated(&top, &["bpf_events", "bpf_ns", "measured_share"]));
        counted(top.pid()) - before
    });
    intervals.extend(top.intervals());
    let requests = sum(&intervals, "*", "*", "requests");
    let total = |field: &str| -> u64 {
        intervals.iter().map(|i| overhead(i)[field].as_u64().unwrap()).sum()
    };
    let (events, ns) = (total("bpf_events"), total("bpf_ns"));
    println!("{requests} requests, {runs} runs counted, {events} estimated, {ns} ns");
    assert!(runs > 0 && requests > 0);
    // No program of a request runs for less than 10 ns. There is no upper bound: the time includes
    // interrupts, and the time that a virtual CPU waits for a physical one.
    assert!(events > 0 && ns > 10 * events, "{ns} ns, {events} runs");
    // A short interval can be inside a slice: then nothing is estimated.
    let mut estimates = 0;
    for interval in &intervals {
        let share = overhead(interval)["measured_share"].as_f64().unwrap();
        let estimated = overhead(interval)["estimated"].as_bool().unwrap();
        assert!((0.0..=1.0).contains(&share) && (estimated || share == 1.0), "{interval}");
        estimates += usize::from(estimated && share < 1.0);
    }
    assert!(estimates > 0);
}

/// The bounds are far from any delay of the machine: an hour, and a lower bound.
#[test]
fn the_first_interval_is_short() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let (top, first) = Top::json(&[&disk.name, "-i", "3600"]);
    assert!(first["interval_s"].as_f64().unwrap() < 1800.0, "{first}");
    drop(top);
    // With -n, all intervals have the full length.
    let (_top, first) = Top::json(&[&disk.name, "-i", "0.5", "-n", "2"]);
    assert!(first["interval_s"].as_f64().unwrap() > 0.4, "{first}");
}
