//! `raidtrace slow` as a process: operations with known work, and errors.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::thread;

use common::{
    EXE, Loop, MIB, Top, installed, json, list, raidtrace, root, tracing, undisturbed, until,
};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use raidtrace::contract;
use rustix::process::Signal;
use serde_json::Value;

fn disk() -> Loop {
    Loop::ext4(128 * MIB, &["-b", "4096"])
}

fn start(args: &[&str]) -> Top {
    Top::start(Command::new(EXE).arg("slow").args(args))
}

/// Operations of all intervals.
fn operations(intervals: &[Value]) -> Vec<&Value> {
    let each = intervals.iter().map(|i| list(&i["operations"]));
    each.flatten().collect()
}

#[test]
fn usage() {
    for wrong in [
        &["--batch", "--json"][..],
        &["--threshold", "10"],
        &["--threshold", "0ms"],
        &["--interval", "0"],
        &["-n", "0"],
    ] {
        let out = raidtrace(&[&["slow"], wrong].concat());
        assert_eq!(out.code(), Some(2), "{wrong:?} {out:?}");
    }
    let help = raidtrace(&["slow", "--help"]);
    assert!(help.stdout.contains("docs/slow.md"), "{help:?}");
}

#[test]
fn a_disk_without_ext4_is_an_error() {
    if !root() || !tracing() {
        return;
    }
    let disk = Loop::new(64 * MIB);
    let out = raidtrace(&["slow", &disk.device(), "-n", "1", "--batch"]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("no mounted ext4"), "{out:?}");
    assert!(!out.stderr.contains("panicked"), "{out:?}");
}

/// Every fsync is counted. Listed ones have the file, the task, and phases that add up.
#[test]
fn fsyncs_are_counted_and_add_up() {
    if root() && tracing() {
        undisturbed(counted);
    }
}

/// `None` if a path is missing: raidtrace waits for a lookup for a second only.
fn counted() -> Option<()> {
    const CALLS: u64 = 200;
    let disk = disk();
    let path = disk.mount.join("file");
    // Not traced: the first commit after a mount writes the journal's superblock.
    fs::write(&path, "x").unwrap();
    disk.sync();
    let top = start(&["--json", "--threshold", "1us", &disk.device()]);
    let first: Value = serde_json::from_str(&top.line()).unwrap();
    assert_eq!(first["schema"], "raidtrace.slow/1");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    for n in 0..CALLS {
        file.write_all(&[b'x'; 512]).unwrap();
        match n % 2 {
            0 => file.sync_all().unwrap(),
            _ => file.sync_data().unwrap(),
        }
    }
    let out = top.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let intervals = json(&out.stdout);
    assert!(intervals.iter().all(|i| i["lost"]["events"] == 0), "{out:?}");
    for op in ["fsync", "fdatasync"] {
        let sum = |field: &str| -> u64 {
            let sums = intervals.iter().filter_map(|i| i["kinds"][op][field].as_u64());
            sums.sum()
        };
        assert_eq!((sum("count"), sum("slow")), (CALLS / 2, CALLS / 2), "{op}");
        let own = operations(&intervals).into_iter().filter(|o| o["op"] == op);
        assert_eq!(own.count() as u64, CALLS / 2, "{op}");
    }
    if operations(&intervals).iter().any(|o| o["path"].is_null()) {
        return None;
    }
    let pid = u64::from(std::process::id());
    for operation in operations(&intervals) {
        let phases = list(&operation["phases"]);
        let sum: u64 = phases.iter().filter_map(|p| p["us"].as_u64()).sum();
        assert_eq!(Some(sum), operation["total_us"].as_u64(), "{operation:#}");
        assert_eq!(operation["tgid"].as_u64(), Some(pid), "{operation:#}");
        assert_eq!(operation["path"].as_str(), path.to_str(), "{operation:#}");
    }
    // Each fsync commits a transaction, because the file grows.
    let commits: usize = intervals.iter().map(|i| list(&i["commits"]).len()).sum();
    assert!(commits > 0);
    Some(())
}

/// Reads and writes whose submitter does not wait are counted once each, and last until they
/// complete, in whichever context.
#[test]
fn asynchronous_io_is_counted_when_it_completes() {
    if !root() || !tracing() || !installed("fio") {
        return;
    }
    let disk = disk();
    fs::write(disk.mount.join("file"), vec![1; 4 * MIB as usize]).unwrap();
    disk.sync();
    let top = start(&["--json", "--threshold", "1us", &disk.device()]);
    top.line();
    for engine in ["libaio", "io_uring"] {
        let mut fio = Command::new("fio");
        fio.args(["--name=direct", "--direct=1", "--rw=randrw", "--bs=4k", "--filesize=4M"]);
        fio.args(["--iodepth=8", "--number_ios=400", "--output=/dev/null"]);
        fio.arg(format!("--ioengine={engine}"))
            .arg(format!("--filename={}", disk.mount.join("file").display()));
        assert!(fio.status().unwrap().success());
    }
    let out = top.end(Signal::INT);
    let intervals = json(&out.stdout);
    let lost = |of: fn(&Value) -> &Value| -> u64 {
        intervals.iter().filter_map(|i| of(&i["lost"]).as_u64()).sum()
    };
    // On a busy machine, the kernel skips a program that was switched out in the middle.
    let missed = lost(|l| &l["reasons"]["missed"]);
    assert_eq!(lost(|l| &l["events"]), missed, "{out:?}");
    let all = 800 - missed..=800;
    let operations = operations(&intervals);
    let direct: Vec<_> = operations.into_iter().filter(|o| o["direct"] == true).collect();
    assert!(all.contains(&(direct.len() as u64)), "{} and {missed} missed", direct.len());
    let counted = |op: &str| -> u64 {
        intervals.iter().filter_map(|i| i["kinds"][op]["count"].as_u64()).sum()
    };
    assert!(counted("read") + counted("write") >= *all.start());
    let waits = |o: &&&Value| list(&o["phases"]).iter().any(|p| p["phase"] == "direct_io");
    // The IO of a submitter that has lost its CPU is over before it returns.
    let waited = direct.iter().filter(waits).count();
    assert!(waited * 2 > direct.len(), "{waited} of {}", direct.len());
    for o in direct {
        let sum: u64 = list(&o["phases"]).iter().filter_map(|p| p["us"].as_u64()).sum();
        assert_eq!(Some(sum), o["total_us"].as_u64(), "{o:#}");
        assert_eq!(o["bytes"], 4096, "{o:#}");
    }
}

/// If the kernel skips the program at the end of an operation, the slot of the task still holds
/// that operation. Later syncs of the same file are no part of it.
#[test]
fn a_sync_after_an_operation_without_an_end_is_counted() {
    if !root() || !tracing() {
        return;
    }
    let disk = disk();
    let file = fs::File::create(disk.mount.join("file")).unwrap();
    let top = start(&["--json", "--threshold", "1us", &disk.device()]);
    top.line();
    // Leaves the address of the inode in the slot.
    file.sync_all().unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let slot = tid % contract::SLOW_TASKS;
    let fdinfo: String = fs::read_dir(format!("/proc/{}/fdinfo", top.pid()))
        .unwrap()
        .filter_map(|fd| fs::read_to_string(fd.ok()?.path()).ok())
        .collect();
    let map = MapInfoIter::default()
        .find(|m| m.name == "rt_slow_tasks" && fdinfo.contains(&format!("map_id:\t{}\n", m.id)));
    let map = MapHandle::from_map_id(map.unwrap().id).unwrap();
    for kind in [contract::SLOW_WRITE, contract::SLOW_FSYNC, contract::SLOW_FALLOCATE] {
        let mut task = map.lookup(&slot.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        // `struct rt_slow_task`: `pid` and `kind`.
        task[..4].copy_from_slice(&tid.to_ne_bytes());
        task[4] = kind as u8;
        map.update(&slot.to_ne_bytes(), &task, MapFlags::ANY).unwrap();
        file.sync_data().unwrap();
        file.sync_data().unwrap();
    }
    let out = top.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let intervals = json(&out.stdout);
    let count = |op: &str| -> u64 {
        intervals.iter().filter_map(|i| i["kinds"][op]["count"].as_u64()).sum()
    };
    assert_eq!((count("fsync"), count("fdatasync")), (1, 6));
}

/// Threads that all wait for commits at the same time.
#[test]
fn many_tasks_at_once() {
    if !root() || !tracing() {
        return;
    }
    const THREADS: u64 = 200;
    let disk = disk();
    let top = start(&["--json", "--threshold", "1us", "--task", "syncer", &disk.device()]);
    top.line();
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let path = disk.mount.join(format!("file{n}"));
            let work = move || {
                let mut file = fs::File::create(path).unwrap();
                file.write_all(b"x").unwrap();
                file.sync_all().unwrap();
            };
            thread::Builder::new().name("syncer".to_owned()).spawn(work).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let out = top.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let intervals = json(&out.stdout);
    let lost: u64 = intervals.iter().filter_map(|i| i["lost"]["events"].as_u64()).sum();
    let operations = operations(&intervals);
    let fsyncs: Vec<_> = operations.iter().filter(|o| o["op"] == "fsync").collect();
    assert_eq!(fsyncs.len() as u64 + lost, THREADS, "{lost} lost");
    assert!(fsyncs.iter().all(|o| o["comm"] == "syncer"));
}

/// Every command that reads a recording finds every fsync, even if the files have been deleted.
#[test]
fn a_recording_keeps_operations() {
    if root() && tracing() {
        undisturbed(recorded);
    }
}

/// `None` if a path is missing: raidtrace waits for a lookup for 250 ms only.
fn recorded() -> Option<()> {
    const CALLS: u64 = 50;
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("a.rtrace");
    let recording = recording.to_str().unwrap();
    let disk = disk();
    let path = disk.mount.join("file");
    fs::write(&path, "x").unwrap();
    disk.sync();
    let device = disk.device();
    let record =
        Top::start(Command::new(EXE).args(["record", "--slow=1us", "-o", recording, &device]));
    record.says("recording");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    for _ in 0..CALLS {
        file.write_all(b"x").unwrap();
        file.sync_all().unwrap();
    }
    let out = record.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    drop(disk);

    let replay = raidtrace(&["slow", "--replay", recording, "--json"]);
    assert_eq!(replay.code(), Some(0), "{replay:?}");
    let intervals = json(&replay.stdout);
    if operations(&intervals).iter().any(|o| o["path"].is_null()) {
        return None;
    }
    let own = || {
        let all = operations(&intervals).into_iter();
        all.filter(|o| o["op"] == "fsync" && o["path"].as_str() == path.to_str())
    };
    assert_eq!(own().count() as u64, CALLS);
    let longest = own().filter_map(|o| o["total_us"].as_u64()).max().unwrap();
    let others = raidtrace(&["slow", "--replay", recording, "--json", "--task", "nobody"]);
    assert!(operations(&json(&others.stdout)).is_empty());
    let batch = raidtrace(&["slow", "--replay", recording, "--batch"]);
    assert!(batch.stdout.contains("fsync of "), "{batch:?}");
    let report = raidtrace(&["report", recording, "--json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["slow"]["kinds"]["fsync"]["count"], CALLS);
    assert_eq!(report["slow"]["operations"][0]["total_us"], longest);
    let report = raidtrace(&["report", recording]);
    assert!(report.stdout.contains("slow operations (1 µs or more)"), "{report:?}");
    let export = raidtrace(&["export", recording, "-f", "ndjson", "-o", "-"]);
    assert!(export.stdout.contains(r#""kind":"slow""#), "{export:?}");
    Some(())
}

/// The sentence of the screen, as text and as JSON.
#[test]
fn top_names_the_longest_operation() {
    if !root() || !tracing() {
        return;
    }
    let disk = disk();
    let path = disk.mount.join("file");
    let mut file = fs::File::create(&path).unwrap();
    let top = Top::start(Command::new(EXE).args([
        "top",
        "--json",
        "--slow=1us",
        "-i",
        "0.3",
        &disk.device(),
    ]));
    top.line();
    until("sentence about an fsync", || {
        file.write_all(b"x").unwrap();
        file.sync_all().unwrap();
        let line: Value = serde_json::from_str(&top.line()).unwrap();
        let slow = line["arrays"][0]["slow"].as_str().unwrap_or_default();
        slow.starts_with(&format!("fsync of {}", path.display()))
    });
    let out = top.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
}
