//! Attribution to tasks: many tasks, kworkers that serve several arrays, and cgroups whose bios are
//! delayed by blk-throttle.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{
    DEADLINE, EXE, Loop, MIB, Top, idle, installed, json, list, raidtrace, skipped, sum, tool,
    tracing, until,
};
use rustix::process::Signal;
use serde_json::Value;

#[repr(align(4096))]
struct Block([u8; 4096]);

fn direct(path: &Path) -> File {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(path)
        .unwrap()
}

/// All rows of tasks: array name, task, bytes written.
fn tasks(intervals: &[Value]) -> Vec<(String, &Value, u64)> {
    let mut rows = Vec::new();
    for array in intervals.iter().flat_map(|i| list(&i["arrays"])) {
        for task in list(&array["tasks"]) {
            let writes = list(&task["io"]).iter().filter(|io| io["op"] == "write");
            let bytes = writes.map(|io| io["bytes"].as_u64().unwrap());
            rows.push((array["name"].as_str().unwrap().to_owned(), task, bytes.sum()));
        }
    }
    rows
}

/// Many more tasks than fit into any table, a few at a time: all bytes are counted once, although
/// entries are evicted and tasks become idle. The load waits for the intervals, because a table
/// overflows if raidtrace is stopped.
#[test]
fn more_tasks_than_a_table_holds_are_counted_once() {
    const TASKS: u64 = 3 * 8192 + 1000;
    /// Tasks between two waits.
    const SOME: u64 = 4096;
    if !(tracing() && installed("mke2fs")) {
        return;
    }
    let device = Loop::new(64 * MIB);
    let file = direct(Path::new(&device.device()));
    idle(&device.name);
    let (top, first) = Top::json(&["-i", "0.1", &device.name]);
    let mut intervals = vec![first];
    let submitted =
        |intervals: &[Value]| -> u64 { tasks(intervals).iter().map(|(_, _, bytes)| bytes).sum() };
    for first in (0..TASKS).step_by(16) {
        std::thread::scope(|scope| {
            for task in first..(first + 16).min(TASKS) {
                let file = &file;
                scope.spawn(move || {
                    let block = Block([1; 4096]);
                    file.write_all_at(&block.0, task % 4096 * 4096).unwrap();
                });
            }
        });
        let done = (first + 16).min(TASKS);
        if done % SOME == 0 {
            until("bytes of all tasks", || {
                let all = submitted(&intervals) >= done * 4096;
                if !all {
                    intervals.push(json(&top.line()).remove(0));
                }
                all
            });
        }
    }
    // A CPU slot now has a large count, and its task is idle from now on.
    let block = Block([2; 4096]);
    for n in 0..4096 {
        file.write_all_at(&block.0, n * 4096).unwrap();
    }
    idle(&device.name);
    let written = (TASKS + 4096) * 4096;
    let mut idle_intervals = 0;
    until("intervals in which the tasks are idle", || {
        let interval = json(&top.line()).remove(0);
        let is_idle = sum(std::slice::from_ref(&interval), "*", "*", "requests") == 0;
        intervals.push(interval);
        let is_idle = is_idle && submitted(&intervals) >= written;
        idle_intervals = if is_idle { idle_intervals + 1 } else { 0 };
        idle_intervals >= 5
    });
    intervals.extend(top.intervals());
    assert_eq!(submitted(&intervals), written, "{} rows of tasks", tasks(&intervals).len());
    let lost = |i: &Value| i["lost"]["tasks"].as_u64().unwrap();
    assert_eq!(intervals.iter().map(lost).sum::<u64>(), 0);
    let submitted = |i: &Value| -> u64 {
        let rows = list(&i["arrays"][0]["amplification"]).iter();
        rows.filter(|r| r["op"] == "write").map(|r| r["submitted_bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(intervals.iter().map(submitted).sum::<u64>(), written);
}

/// Bytes that the tasks in a report or an interval have read.
fn read(arrays: &Value) -> BTreeMap<&str, u64> {
    let mut by_comm = BTreeMap::new();
    for task in list(&arrays["arrays"][0]["tasks"]) {
        let reads = list(&task["io"]).iter().filter(|io| io["op"] == "read");
        let bytes: u64 = reads.map(|io| io["bytes"].as_u64().unwrap()).sum();
        *by_comm.entry(task["comm"].as_str().unwrap()).or_default() += bytes;
    }
    by_comm
}

/// io_uring submits with REQ_NOWAIT. The disk refuses bios that are larger than a request, and
/// those that find no tag; a worker of io_uring submits them again.
#[test]
fn bios_that_a_disk_refuses_are_counted_once() {
    let uring = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    if !(tracing() && installed("fio")) {
        return;
    }
    if uring.is_ok_and(|disabled| disabled.trim() != "0") {
        return skipped("io_uring is disabled");
    }
    let (device, dir) = (Loop::new(256 * MIB), common::memory());
    let path = device.device();
    fs::write(format!("/sys/block/{}/queue/max_sectors_kb", device.name), "512").unwrap();
    idle(&device.name);
    for (kind, size, options) in [
        ("large", 200 * MIB, &["--rw=read", "--bs=1M", "--iodepth=4"][..]),
        ("many", 64 * MIB, &["--rw=randread", "--bs=4k", "--iodepth=256"]),
    ] {
        let file = dir.path().join(kind);
        let file = file.to_str().unwrap();
        let (top, first) = Top::json(&["-i", "0.2", &path]);
        let recorder = Top::start(Command::new(EXE).args(["record", &path, "-o", file]));
        recorder.says("raidtrace: recording ");
        let fio = ["--name=refused", "--direct=1", "--ioengine=io_uring"];
        let (filename, bytes) = (format!("--filename={path}"), format!("--size={size}"));
        tool("fio", &[&fio[..], &[filename.as_str(), bytes.as_str()], options].concat());
        idle(&device.name);
        top.line();
        let mut intervals = vec![first];
        intervals.extend(top.intervals());
        let out = recorder.end(Signal::INT);
        assert_eq!(out.code(), Some(0), "{out:?}");
        let report = raidtrace(&["report", "--json", file]);
        let report: Value = serde_json::from_str(&report.stdout).unwrap();

        let mut by_comm = BTreeMap::new();
        for (comm, bytes) in intervals.iter().flat_map(read) {
            *by_comm.entry(comm).or_default() += bytes;
        }
        assert!(by_comm.keys().any(|comm| comm.starts_with("iou-wrk")), "{kind}: {by_comm:?}");
        let recorded = read(&report);
        for by_comm in [&by_comm, &recorded] {
            let of_fio = |(comm, _): &(&&str, &u64)| **comm == "fio" || comm.starts_with("iou-wrk");
            let bytes: u64 = by_comm.iter().filter(of_fio).map(|(_, bytes)| bytes).sum();
            assert_eq!(bytes, size, "{kind}: {by_comm:?}, recorded {recorded:?}");
        }
        assert!(sum(&intervals, "*", "read", "bytes") >= size, "{kind}");
        let submitted: u64 = intervals
            .iter()
            .flat_map(|i| list(&i["arrays"][0]["amplification"]))
            .filter(|row| row["op"] == "read")
            .map(|row| row["submitted_bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(submitted, by_comm.values().sum::<u64>(), "{kind}");
    }
}

/// A file whose content is restored on drop.
struct Setting(PathBuf, String);

impl Setting {
    fn new(path: &str, value: &str) -> Self {
        let was = fs::read_to_string(path).unwrap();
        fs::write(path, value).unwrap();
        Self(path.into(), was)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, &self.1);
    }
}

/// An unbound kworker writes back several filesystems with one pid. Each array shows its work for
/// that array.
#[test]
fn a_kworker_of_two_arrays_is_named_by_what_it_does_on_each() {
    if !(tracing() && installed("mke2fs")) {
        return;
    }
    let devices = [0, 1].map(|_| Loop::ext4(64 * MIB, &[]));
    let _settings = common::writeback_settings();
    let _often = Setting::new("/proc/sys/vm/dirty_writeback_centisecs", "20");
    let _soon = Setting::new("/proc/sys/vm/dirty_expire_centisecs", "10");
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let (top, _) = Top::json(&[&["-i", "0.5"], &names[..]].concat());
    let begun = Instant::now();
    let mut seen: Vec<Value> = Vec::new();
    let mut pids = BTreeMap::<u64, BTreeSet<String>>::new();
    let mut rounds = 0;
    // Repeat until one kworker has served both filesystems, which depends on the kernel.
    while pids.values().all(|arrays| arrays.len() < 2) && begun.elapsed() < DEADLINE / 6 {
        for device in &devices {
            for file in 0..4 {
                let mut file = File::create(device.mount.join(format!("f{file}"))).unwrap();
                file.write_all(&vec![rounds as u8; 256 << 10]).unwrap();
            }
        }
        rounds += 1;
        let line: Value = serde_json::from_str(&top.line()).unwrap();
        let workers = tasks(std::slice::from_ref(&line));
        for (array, task, _) in workers {
            if task["role"].as_str().is_some_and(|r| r.starts_with("writeback")) {
                pids.entry(task["pid"].as_u64().unwrap()).or_default().insert(array);
            }
        }
        seen.push(line);
    }
    seen.extend(top.intervals());
    let mut roles = 0;
    for (array, task, _) in tasks(&seen) {
        if let Some(of) = task["role"].as_str().and_then(|r| r.strip_prefix("writeback of ")) {
            assert_eq!(of, array, "{task}");
            roles += 1;
        }
    }
    assert!(roles > 0, "nothing was written back");
    if pids.values().all(|arrays| arrays.len() < 2) {
        skipped("no kworker served both filesystems");
    }
}

/// A cgroup with a limit on its writes to a disk. It is removed on drop.
struct Limited {
    dir: PathBuf,
    /// Path in the output of raidtrace.
    path: String,
}

impl Limited {
    fn new(disk: &str, bytes_a_second: u64) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mounted = |kind: &str, option: &str| {
            let mut fields = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
            let found = fields.find(|f| {
                f[2] == kind && f[3].split(',').any(|o| option.is_empty() || o == option)
            });
            found.map(|f| PathBuf::from(f[1]))
        };
        let dev = fs::read_to_string(format!("/sys/block/{disk}/dev")).unwrap();
        let dev = dev.trim();
        let name = format!("raidtrace-test-{}-{disk}", std::process::id());
        let (top, file, limit) = match (mounted("cgroup", "blkio"), mounted("cgroup2", "")) {
            (Some(top), _) => {
                (top, "blkio.throttle.write_bps_device", format!("{dev} {bytes_a_second}"))
            }
            (None, Some(top)) => {
                let _ = fs::write(top.join("cgroup.subtree_control"), "+io");
                (top, "io.max", format!("{dev} wbps={bytes_a_second}"))
            }
            (None, None) => return None,
        };
        let limited = Self { dir: top.join(&name), path: format!("/{name}") };
        fs::create_dir(&limited.dir).ok()?;
        fs::write(limited.dir.join(file), limit).ok()?;
        Some(limited)
    }

    /// Runs a shell command in the cgroup until it exits.
    fn run(&self, command: &str) {
        let inside = format!("echo $$ > {}/cgroup.procs && {command}", self.dir.display());
        tool("sh", &["-c", &inside]);
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // EBUSY until the last task has left. Not a failure of the test.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// blk-throttle submits delayed bios from its own kworker. They must never be attributed to that
/// kworker.
#[test]
fn throttled_bios_count_for_the_waiting_task_or_the_cgroup() {
    if !(tracing() && installed("mke2fs") && installed("dd")) {
        return;
    }
    let device = Loop::ext4(128 * MIB, &[]);
    let Some(limited) = Limited::new(&device.name, 8 * MIB) else {
        return skipped("no cgroup hierarchy with blkio or io that can be limited");
    };
    idle(&device.name);
    let (top, _) = Top::json(&["-i", "0.5", &device.name]);
    let to = device.mount.display();
    // dd waits for each direct write, and at its end for writeback.
    limited.run(&format!("dd if=/dev/zero of={to}/direct bs=1M count=8 oflag=direct 2>/dev/null"));
    limited.run(&format!("dd if=/dev/zero of={to}/buffered bs=1M count=8 conv=fsync 2>/dev/null"));
    idle(&device.name);
    let intervals = top.intervals();
    let rows = tasks(&intervals);
    let data = sum(&intervals, "file_data", "write", "bytes");
    assert_eq!(data, 16 * MIB, "{rows:?}");
    let of = |wanted: &dyn Fn(&Value) -> bool| -> u64 {
        let rows = rows.iter().filter(|(_, task, _)| wanted(task));
        let io = rows.flat_map(|(_, task, _)| list(&task["io"]));
        io.filter(|io| io["origin"] == "file_data").map(|io| io["bytes"].as_u64().unwrap()).sum()
    };
    let is = |comm: &'static str| move |task: &Value| task["comm"].as_str().unwrap().contains(comm);
    assert_eq!(of(&is("kthrotld")), 0, "{rows:?}");
    assert!(of(&is("dd")) >= 8 * MIB, "{rows:?}");
    let cgroup = |task: &Value| task["comm"] == "throttled";
    assert_eq!(of(&is("dd")) + of(&cgroup), 16 * MIB, "{rows:?}");
    // The bios were delayed for two seconds, while the disk was nearly idle.
    let hotspots = || intervals.iter().map(|i| &i["arrays"][0]["hotspot"]);
    let is_limit = |hotspot: &Value| {
        let headline = hotspot["headline"].as_str().unwrap_or_default();
        hotspot["kind"] == "queued" && headline.contains("is held back by its I/O limit")
    };
    let said: Vec<&Value> = hotspots().collect();
    assert!(hotspots().any(is_limit), "{said:?}");
    for (_, task, _) in rows.iter().filter(|(_, task, _)| cgroup(task)) {
        assert_eq!(
            (&task["pid"], task["cgroup"].as_str()),
            (&Value::from(0), Some(limited.path.as_str()))
        );
    }
}
