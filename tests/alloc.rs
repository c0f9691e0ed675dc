//! `raidtrace alloc` as a process: figures of a filesystem with known work, settings that it
//! restores, and errors.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use common::{
    EXE, Loop, MIB, Top, installed, json, list, memory, raidtrace, root, tracing, undisturbed,
    until,
};
use rustix::process::Signal;
use serde_json::Value;

/// Number of files that the work writes, and blocks of 4 KiB in each.
const FILES: u64 = 20;
const BLOCKS: u64 = 25;

fn disk() -> Loop {
    Loop::ext4(128 * MIB, &["-b", "4096"])
}

fn work(disk: &Loop) {
    for n in 0..FILES {
        let path = disk.mount.join(format!("file{n}"));
        fs::write(path, vec![b'x'; (BLOCKS * 4096) as usize]).unwrap();
    }
    disk.sync();
}

fn start(args: &[&str]) -> Top {
    Top::start(Command::new(EXE).arg("alloc").args(args))
}

/// The only filesystem of each interval.
fn filesystems(intervals: &[Value]) -> Vec<&Value> {
    let each = intervals.iter().map(|i| list(&i["filesystems"]));
    each.map(|all| {
        assert_eq!(all.len(), 1);
        &all[0]
    })
    .collect()
}

fn sum(of: &[&Value], pointer: &str) -> u64 {
    of.iter().filter_map(|v| v.pointer(pointer)?.as_u64()).sum()
}

#[test]
fn usage() {
    for wrong in [
        &["--batch", "--json"][..],
        &["--hertz", "1000"],
        &["--interval", "0"],
        &["--duration", "never"],
        &["--replay", "x", "--record", "y"],
        &["--replay", "x", "/srv"],
    ] {
        let out = raidtrace(&[&["alloc"], wrong].concat());
        assert_eq!(out.code(), Some(2), "{wrong:?} {out:?}");
    }
}

#[test]
fn errors_name_the_remedy() {
    let dir = memory();
    let there = dir.path().join("there").display().to_string();
    let odd = dir.path().join("odd").display().to_string();
    fs::write(&there, "somebody's").unwrap();
    fs::write(&odd, b"{\"schema\":\"raidtrace.top/1\"}\n\xff\n").unwrap();
    let fails = |args: &[&str], says: &[&str]| {
        let out = raidtrace(&[&["alloc"], args].concat());
        assert_eq!(out.code(), Some(1), "{out:?}");
        assert_eq!((out.stdout.as_str(), out.stderr.lines().count()), ("", 1), "{out:?}");
        assert!(!out.stderr.contains("panicked"), "{out:?}");
        for word in says {
            assert!(out.stderr.contains(word), "{word}: {}", out.stderr);
        }
    };
    fails(&["--replay", &format!("{there}.not")], &["No such file"]);
    fails(&["--replay", &odd], &["odd", "alloc --record FILE"]);
    if !root() {
        return fails(&[], &["needs root", "sudo"]);
    }
    for option in ["--record", "--folded", "--flame"] {
        fails(&[option, &there], &["exists", "another"]);
    }
    assert_eq!(fs::read_to_string(&there).unwrap(), "somebody's");
    let new = format!("{there}.new");
    fails(&["--record", &new, "--flame", &new], &["different files"]);
    fails(&["--hertz", "0", "--flame", &new], &["--hertz"]);
    fails(&["/no/such/place"], &["/no/such/place"]);
    if tracing() && installed("mke2fs") {
        let empty = Loop::new(16 * MIB);
        fails(&[&empty.name], &["no mounted ext4", &empty.name]);
        let unmounted = Loop::new(16 * MIB);
        common::tool("mke2fs", &["-q", "-F", "-t", "ext4", &unmounted.device()]);
        fails(&[&unmounted.name], &["no mounted ext4"]);
    }
}

#[test]
fn allocations_are_counted() {
    if tracing() && installed("mke2fs") {
        undisturbed(counted);
    }
}

/// `None` if all paths are missing, because raidtrace waits for a lookup for 250 ms only, or if an
/// allocation took long for no reason in the allocator, because its task did not run, or if the
/// kernel skipped a program because it ran on the same CPU already.
fn counted() -> Option<()> {
    let disk = disk();
    let top = start(&["--json", "-i", "0.5", &disk.device()]);
    let first: Value = serde_json::from_str(&top.line()).unwrap();
    assert_eq!(first["schema"], "raidtrace.alloc/1");
    work(&disk);
    let inode = fs::metadata(disk.mount.join("file7")).unwrap().ino();
    let intervals = top.intervals();
    let all = filesystems(&intervals);
    println!("{}", intervals.last().unwrap());

    // Some kernels hide allocations while init is the current task, so the count may be slightly
    // low.
    let got = sum(&all, "/got_blocks");
    assert!(got >= FILES * BLOCKS * 9 / 10, "{got} blocks");
    let (asked, requests) = (sum(&all, "/asked_blocks"), sum(&all, "/requests"));
    assert!(asked >= got && requests >= FILES * 9 / 10, "{asked} asked in {requests}");
    let timed = sum(&all, "/latency_us/count");
    assert!(timed <= requests && timed * 10 >= requests * 9, "{timed} of {requests} timed");
    let files: Vec<&Value> = all.iter().flat_map(|fs| list(&fs["files"])).collect();
    let blocks: u64 =
        files.iter().filter(|f| f["inode"] == inode).map(|f| f["blocks"].as_u64().unwrap()).sum();
    assert!(blocks == BLOCKS || blocks == 0 && files.len() as u64 >= FILES - 2, "{files:?}");
    let stopped = all.iter().any(|fs| fs["reason"]["id"] == "slow_unexplained");
    let skipped = intervals.iter().any(|interval| interval["lost"]["events"] != 0);
    if stopped || skipped || files.iter().all(|f| f["path"].is_null()) {
        return None;
    }
    let named = files.iter().filter(|f| f["path"].as_str().is_some_and(|p| p.contains("/file")));
    assert!(named.count() > 0, "{files:?}");
    assert!(all.iter().any(|fs| !list(&fs["tasks"]).is_empty()));
    assert!(all.iter().all(|fs| fs["reason"].is_null()), "a healthy filesystem");
    Some(())
}

/// Intervals of a recording, in the form that `--json` prints.
fn without_stacks(text: &str) -> Vec<Value> {
    let mut all = json(text);
    for interval in &mut all {
        interval.as_object_mut().unwrap().remove("stacks");
    }
    all
}

#[test]
fn a_recording_is_replayed_reported_and_exported() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (record, folded, flame) = (path("a.rtrace"), path("a.folded"), path("a.html"));
    let top = start(&[
        "--json",
        "-i",
        "0.3",
        "--all",
        "--record",
        &record,
        "--folded",
        &folded,
        "--flame",
        &flame,
        &disk.device(),
    ]);
    let first = top.line();
    work(&disk);
    let out = top.end(Signal::TERM);
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    let printed = json(&(first + &out.stdout));

    let (folded_again, flame_again) = (path("b.folded"), path("b.html"));
    let again = raidtrace(&[
        "alloc",
        "--replay",
        &record,
        "--json",
        "--folded",
        &folded_again,
        "--flame",
        &flame_again,
    ]);
    assert_eq!(again.code(), Some(0), "{}", again.stderr);
    assert_eq!(json(&again.stdout), printed);
    let text = raidtrace(&["alloc", "--replay", &record, "--batch"]);
    assert_eq!(text.code(), Some(0), "{}", text.stderr);
    assert!(text.stdout.contains(&disk.name), "{}", text.stdout);

    let stacks = fs::read_to_string(&folded).unwrap();
    for line in stacks.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert!(stack.contains(';') && count.parse::<u64>().unwrap() > 0, "{line}");
    }
    assert_eq!(fs::read_to_string(&folded_again).unwrap(), stacks);
    for flame in [flame, flame_again] {
        assert!(fs::read_to_string(&flame).unwrap().contains("<svg"));
    }

    let out = raidtrace(&["export", &record, "-f", "ndjson", "-o", "-"]);
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    let rows = json(&out.stdout);
    let intervals = rows.iter().filter(|row| row["kind"] == "alloc");
    let intervals: Vec<&str> = intervals.map(|row| row["text"].as_str().unwrap()).collect();
    assert_eq!(without_stacks(&intervals.join("\n")), printed);
}

/// `record` stores allocator intervals beside requests. Both commands read them, and the sums match
/// the work.
#[test]
fn record_stores_allocator_intervals() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let path = dir.path().join("a.rtrace").display().to_string();
    let script = r#"
        for n in {1..20}; do dd if=/dev/zero of="$1/file$n" bs=100k count=1; done
        sync -f "$1""#;
    let mount = disk.mount.to_str().unwrap();
    let out = raidtrace(
        &[
            &["record", "--alloc", &disk.device(), "-o", &path, "--"][..],
            &["bash", "-c", script, "bash", mount],
        ]
        .concat(),
    );
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    assert!(out.stderr.contains("nothing was lost"), "{}", out.stderr);
    let again = raidtrace(&["alloc", "--replay", &path, "--json"]);
    assert_eq!(again.code(), Some(0), "{}", again.stderr);
    let intervals = json(&again.stdout);
    let all = filesystems(&intervals);
    assert_eq!(sum(&all, "/got_blocks"), FILES * BLOCKS);
    assert_eq!(sum(&all, "/requests"), FILES);
    let report = raidtrace(&["report", &path, "--json"]);
    assert_eq!(report.code(), Some(0), "{}", report.stderr);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let blocks = report.pointer("/allocator/filesystems/0/got_blocks");
    assert_eq!(blocks.and_then(Value::as_u64), Some(FILES * BLOCKS));
    let top = raidtrace(&["top", "--replay", &path, "--json"]);
    assert_eq!(top.code(), Some(0), "{}", top.stderr);
    let written: u64 = json(&top.stdout)
        .iter()
        .flat_map(|i| list(&i["arrays"][0]["members"][0]["io"]))
        .filter(|io| io["origin"] == "file_data" && io["op"] == "write")
        .filter_map(|io| io["bytes"].as_u64())
        .sum();
    assert_eq!(written, FILES * BLOCKS * 4096);
}

/// Every live command restores what a killed process left, and `doctor` reports it.
#[test]
fn mb_stats_is_restored_after_a_kill() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let switch = format!("/sys/fs/ext4/{}/mb_stats", disk.name);
    if fs::read_to_string(&switch).is_err() {
        return common::skipped("no mb_stats here");
    }
    let alloc = start(&["--json", "--mb-stats", &disk.device()]);
    alloc.line();
    let state = format!("/run/raidtrace/mb_stats/{}", disk.name);
    let left = fs::read_to_string(&state).unwrap();
    drop(alloc.end(Signal::KILL));
    let file = dir.path().join("a.rtrace");
    // Raidtrace of another test restores it too.
    let leave = || {
        fs::write(&state, &left).unwrap();
        fs::write(&switch, "1").unwrap();
    };
    until("a finding", || {
        leave();
        raidtrace(&["doctor", &disk.name, "--json"]).stdout.contains("\"alloc-counted\"")
    });
    for args in [
        &["record", &disk.name, "--duration", "1s", "-o", file.to_str().unwrap()][..],
        &["top", &disk.name, "--json", "-i0.1", "-n1"],
        &["slow", &disk.name, "--json", "-i0.1", "-n1"],
        &["alloc", &disk.device(), "--json", "-i0.1", "-n1"],
        &["serve", &disk.name, "--listen", "127.0.0.1:0", "--keep", "0"],
    ] {
        leave();
        let live = Top::start(Command::new(EXE).args(args));
        let out = if args[0] == "serve" {
            live.says("serving ");
            live.end(Signal::TERM)
        } else {
            live.ends()
        };
        assert_eq!(out.code(), Some(0), "{out:?}");
        assert_eq!(fs::read_to_string(&switch).unwrap().trim(), "0", "{args:?}");
        assert!(fs::metadata(&state).is_err(), "{args:?}");
    }
}

#[test]
fn mb_stats_is_restored() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = disk();
    let switch = format!("/sys/fs/ext4/{}/mb_stats", disk.name);
    let Ok(was) = fs::read_to_string(&switch) else {
        return common::skipped("no mb_stats here");
    };
    let top = start(&["--json", "-i", "0.3", "--mb-stats", &disk.device()]);
    top.line();
    assert_eq!(fs::read_to_string(&switch).unwrap().trim(), "1");
    work(&disk);
    let intervals = top.intervals();
    assert_eq!(fs::read_to_string(&switch).unwrap(), was);
    let sources: Vec<&Value> = intervals.iter().map(|i| &i["sources"]["groups"]).collect();
    assert!(sources.iter().all(|s| **s == "mb_stats" || **s == "fentry"), "{sources:?}");
}
