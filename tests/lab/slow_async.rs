//! Asynchronous direct IO (`tests/lab/slow_async.sh`), compared with fio's own latency.

use std::collections::BTreeMap;

use serde_json::Value;

use super::output::{count, each, lines, word};
use super::slow::holds_for_nearly_all;
use super::{lab, text};

/// Service time of the faster members.
const FASTEST_MS: f64 = 5.0;

/// Direct reads or writes of a job.
fn direct<'a>(intervals: &'a [Value], job: &str, op: &str) -> Vec<&'a Value> {
    let all = intervals.iter().flat_map(|i| each(i, "operations"));
    all.filter(|o| {
        o["direct"] == true
            && word(o, "op") == op
            && word(o, "path").rsplit('/').next() == Some(job)
    })
    .collect()
}

/// Times in ms from the last call of read_iter or write_iter for a kiocb to its ki_complete, by
/// kind and thread: `fio-812 [001] ..... 61.31: ext4_file_read_iter: (...) iocb=0xffff...`.
fn traced(trace: &str) -> BTreeMap<(String, u64), Vec<f64>> {
    let (mut open, mut done) = (BTreeMap::new(), BTreeMap::<_, Vec<f64>>::new());
    for line in trace.lines().filter(|l| !l.starts_with('#')) {
        let Some((head, rest)) = line.split_once(": (") else { continue };
        let Some((_, iocb)) = rest.split_once("iocb=") else { continue };
        let mut words = head.split_whitespace();
        let thread = words.next().and_then(|w| w.rsplit_once('-')?.1.parse::<u64>().ok());
        let words: Vec<&str> = words.collect();
        let [.., time, event] = words[..] else { continue };
        let time: f64 = time.trim_end_matches(':').parse().expect("a time");
        match event.split_once("_file_") {
            Some((_, how)) => {
                let op = how.trim_end_matches("_iter").to_owned();
                // The kernel skips a kprobe in an interrupt of another one: an end may be missing.
                open.insert(iocb, ((op, thread.expect("a thread")), time));
            }
            None => {
                if let Some((key, start)) = open.remove(iocb) {
                    done.entry(key).or_default().push((time - start) * 1e3);
                }
            }
        }
    }
    done
}

/// Each operation is counted once, from its submission to its completion, and the slow member has
/// the blame.
pub(super) fn asynchronous_io_ends_when_it_completes(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_async") else {
        return;
    };
    let intervals = lines(&dir, "async");
    for interval in &intervals {
        // The kernel skips a program in an interrupt of itself, such as that of member IO.
        let lost = &interval["lost"];
        assert_eq!(count(lost, "events"), count(&lost["reasons"], "missed"), "{lost}");
    }
    // 5.10 does not describe the types of XFS.
    let old = kernel == "5.10";
    let traced_here = |array: &str| !old || !["md121", "md123"].contains(&array);
    let members = text(dir.join("slow_members"));
    let slow: BTreeMap<&str, &str> = members
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(a, _)| traced_here(a))
        .collect();
    let mut jobs: Vec<String> =
        slow.keys().flat_map(|a| ["libaio", "io_uring"].map(|e| format!("{a}-{e}"))).collect();
    jobs = jobs.iter().flat_map(|j| [1, 8, 64].map(|d| format!("{j}-{d}"))).collect();
    jobs.extend(["sqpoll".to_owned(), "worker".to_owned()]);
    let trace = traced(&text(dir.join("async.trace")));
    let mut compared = 0;
    for job in &jobs {
        let fio: Value = serde_json::from_str(&text(dir.join(format!("{job}.json")))).expect("fio");
        for op in ["read", "write"] {
            let theirs = &fio["jobs"][0][op];
            let ours = direct(&intervals, job, op);
            let total = |o: &Value| o["total_us"].as_f64().expect("total_us");
            let mut totals: Vec<_> = ours.iter().map(|o| total(o) / 1e3).collect();
            let mean = totals.iter().sum::<f64>() / totals.len().max(1) as f64;
            let expected = theirs["lat_ns"]["mean"].as_f64().expect("mean") / 1e6;
            // docs/slow.md, Limits: the first attempt is counted, too.
            if kernel == "7.3" && op == "read" && !job.contains("libaio") {
                assert!(ours.len() as u64 >= count(theirs, "total_ios"), "{job} {op}");
                continue;
            }
            println!("{job} {op}: {} of {mean:.2} ms, fio {expected:.2} ms", ours.len());
            assert_eq!(ours.len() as u64, count(theirs, "total_ios"), "{job} {op}");
            // fio's time ends when it asks for the result.
            assert!((FASTEST_MS..=expected + 2.0).contains(&mean), "{job} {op}: {mean} ms");
            // Some calls are missing, or were made by threads of io_uring.
            let pid = ours.first().and_then(|o| o["pid"].as_u64()).expect("a thread");
            let calls = trace.get(&(op.to_owned(), pid)).filter(|ms| ms.len() == ours.len());
            if let Some(mut calls) = calls.cloned() {
                calls.sort_by(f64::total_cmp);
                totals.sort_by(f64::total_cmp);
                // On a busy machine a guest loses its virtual CPU between the two hooks, too.
                let far =
                    |(ms, kernel): &(&f64, &f64)| (*ms - *kernel).abs() > kernel.max(40.0) * 0.05;
                let far: Vec<_> = totals.iter().zip(&calls).filter(far).collect();
                assert!(far.len() <= totals.len().div_ceil(4), "{job} {op}: {far:?}");
                compared += 1;
            }
            let shortest = ours.iter().map(|o| total(o)).fold(f64::MAX, f64::min) / 1e3;
            assert!(shortest >= FASTEST_MS, "{job} {op}: {shortest} ms");
            for o in &ours {
                let sum: f64 = each(o, "phases").iter().filter_map(|p| p["us"].as_f64()).sum();
                assert!((sum - total(o)).abs() <= 10.0, "{o}");
                assert_eq!(word(o, "comm"), "fio", "{o}");
            }
            // In a few, the submitter waits for a CPU until its IO has completed.
            let wait = |o: &Value| {
                let awake = |p: &Value| ["cpu", "run_queue"].contains(&word(p, "phase"));
                each(o, "phases").iter().find(|p| !awake(p)).cloned().unwrap_or_default()
            };
            // 6.12 writes to an XFS in workers while md writes its superblock.
            let known = ["direct_io", "pre_read", "md_superblock", "uring_worker"];
            let known = &known[..if job.contains("libaio") { 3 } else { 4 }];
            let in_device = |o: &Value| known.contains(&word(&wait(o), "phase"));
            holds_for_nearly_all(&ours, in_device);
            // RAID 5 reads and writes each stripe at several members in turn.
            let array = job.split('-').next().unwrap_or_default();
            if let Some(member) = slow.get(array).filter(|_| array != "md122") {
                let long: Vec<_> = ours
                    .iter()
                    .copied()
                    .filter(|o| {
                        let wait = wait(o);
                        word(&wait, "phase") == "direct_io" && wait["us"].as_f64() > Some(19e3)
                    })
                    .collect();
                // A single one may have waited for the virtual CPU.
                if long.len() >= 8 {
                    holds_for_nearly_all(&long, |o| word(&wait(o), "member") == *member);
                }
            }
        }
    }
    assert!(compared >= if old { 8 } else { 20 }, "{compared} of 48 are in the kernel's trace");
    assert!(!direct(&intervals, "killed", "write").is_empty());
}
