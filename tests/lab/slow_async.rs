//! Asynchronous direct IO (`tests/lab/slow_async.sh`), compared with fio's own latency.

use std::collections::BTreeMap;

use serde_json::Value;

use super::output::{count, each, lines, word};
use super::slow::{holds_for_nearly_all, longest_wait};
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

/// Times by kind and thread.
type Trace = BTreeMap<(String, u64), Vec<f64>>;

/// Times in ms from the last call of read_iter or write_iter for a kiocb to its ki_complete, by
/// kind and thread: `fio-812 [001] ..... 61.31: ext4_file_read_iter: (...) iocb=0xffff...`.
fn traced(trace: &str) -> Trace {
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

/// Time of a phase in ms; 0 if the operation has none.
fn ms(operation: &Value, phase: &str) -> f64 {
    let mut phases = each(operation, "phases").iter();
    let part = phases.find(|p| word(p, "phase") == phase);
    part.and_then(|p| p["us"].as_f64()).unwrap_or(0.0) / 1e3
}

/// Asserts that operations have the time that `member` needs for their request, and return their
/// number. A member takes 20 ms if it is `slow`, and 5 ms otherwise.
fn members_take_their_time(job: &str, ours: &[&Value], slow: Option<&str>) -> usize {
    let known: Vec<_> = ours.iter().copied().filter(|o| ms(o, "device") > 0.0).collect();
    holds_for_nearly_all(&known, |o| {
        let part = each(o, "phases").iter().find(|p| word(p, "phase") == "device");
        let member = part.map_or("", |p| word(p, "member"));
        let takes = if slow == Some(member) { 20.0 } else { FASTEST_MS };
        (ms(o, "device") - takes).abs() <= 2.0
    });
    println!("{job}: the device of {} of {} is known", known.len(), ours.len());
    known.len()
}

/// Reads that wait in the members' queues, or for a limit of four a second.
fn waits_before_the_device_have_their_names(intervals: &[Value], trace: &Trace) {
    for (job, depth, phase) in [("queue", 64, "device_queue"), ("held", 4, "io_limit")] {
        let ours = direct(intervals, job, "read");
        assert_eq!(members_take_their_time(job, &ours, None), ours.len(), "{job}: {ours:#?}");
        let most = ours.iter().map(|o| count(o, "depth")).max();
        assert_eq!(most, Some(depth), "{job}");
        // The first reads of a burst find an empty queue.
        let total = |o: &Value| o["total_us"].as_f64().expect("total_us") / 1e3;
        let long: Vec<_> = ours.iter().copied().filter(|o| total(o) > 4.0 * FASTEST_MS).collect();
        assert!(long.len() * 4 >= ours.len(), "{job}: {} of {}", long.len(), ours.len());
        holds_for_nearly_all(&long, |o| word(longest_wait(o), "phase") == phase);
        // The rest of the kernel's own time of each call is the wait. The ends of some calls are
        // missing in the trace: calls and waits of the same rank are compared.
        let pid = count(ours[0], "pid");
        let mut calls = trace[&("read".to_owned(), pid)].clone();
        assert!(calls.len() * 5 >= ours.len() * 4, "{job}: {} calls", calls.len());
        let mut waits: Vec<f64> = ours.iter().map(|o| ms(o, phase)).collect();
        calls.sort_by(f64::total_cmp);
        waits.sort_by(f64::total_cmp);
        let ranks = (0..waits.len()).map(|i| i * calls.len() / waits.len());
        let calls: Vec<f64> = ranks.map(|i| calls[i]).collect();
        let far = |(wait, call): &(&f64, &f64)| {
            let expected = *call - FASTEST_MS;
            (*wait - expected).abs() > (expected * 0.05).max(2.0)
        };
        let far: Vec<_> = waits.iter().zip(&calls).filter(far).collect();
        assert!(far.len() <= waits.len().div_ceil(4), "{job}: {far:?}");
        println!("{job}: {phase} {waits:.1?}, calls {calls:.1?}");
    }
    let held = direct(intervals, "held", "read");
    let total: f64 = held.iter().map(|o| ms(o, "io_limit")).fold(0.0, f64::max);
    // One of four in flight is released every 250 ms, or later.
    assert!(total >= 700.0, "{total} ms");
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
    let (mut compared, mut deepest) = (0, BTreeMap::new());
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
            let known = ["device", "direct_io", "pre_read", "md_superblock", "uring_worker"];
            let known = &known[..if job.contains("libaio") { 4 } else { 5 }];
            let in_device = |o: &Value| known.contains(&word(&wait(o), "phase"));
            holds_for_nearly_all(&ours, in_device);
            // RAID 5 reads and writes each stripe at several members in turn.
            let array = word(ours[0], "array");
            let known = members_take_their_time(job, &ours, slow.get(array).copied());
            // A thread completes the writes and some of the reads of RAID 5.
            assert!(array == "md122" || 4 * known >= 3 * ours.len(), "{job} {op}: {known}");
            let depth = job.rsplit('-').next().and_then(|d| d.parse::<u64>().ok());
            if let Some(depth) = depth {
                let most = ours.iter().map(|o| count(o, "depth")).max();
                deepest.entry(job).and_modify(|d| *d = most.max(*d)).or_insert(most);
                assert!(most <= Some(depth), "{job} {op}: {most:?}");
            }
            if let Some(member) = slow.get(array).filter(|_| array != "md122") {
                let long: Vec<_> = ours
                    .iter()
                    .copied()
                    .filter(|o| {
                        let wait = wait(o);
                        let named = ["device", "direct_io"].contains(&word(&wait, "phase"));
                        named && wait["us"].as_f64() > Some(19e3)
                    })
                    .collect();
                // A single one may have waited for the virtual CPU.
                if long.len() >= 8 {
                    holds_for_nearly_all(&long, |o| word(&wait(o), "member") == *member);
                }
            }
        }
    }
    assert!(compared >= if old { 8 } else { 16 }, "{compared} of 48 are in the kernel's trace");
    // The first of 64 may end while the last are submitted.
    for (job, most) in deepest {
        let depth = job.rsplit('-').next().and_then(|d| d.parse().ok()).expect("a depth");
        assert!(most >= Some(if depth == 64 { 16 } else { depth }), "{job}: {most:?}");
    }
    waits_before_the_device_have_their_names(&intervals, &trace);
    assert!(!direct(&intervals, "killed", "write").is_empty());
}
