//! Tasks that dirtied the blocks that jbd2 and writeback write later, compared with jbd2's own
//! count.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    EXE, Loop, MIB, Top, idle, installed, list, memory, raidtrace, tool, tracing, undisturbed,
};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use raidtrace::contract;
use raidtrace::origin::Origin;
use rustix::process::Signal;
use serde_json::Value;

/// Number of transactions since the mount, and of their blocks. The kernel prints a mean, rounded
/// down.
fn logged(disk: &str) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/fs/jbd2/{disk}-8/info")).ok()?;
    let number = |what: &str| {
        let line = text.lines().find(|l| l.contains(what));
        line.map_or(0, |l| l.split_whitespace().next().unwrap().parse().unwrap())
    };
    let transactions: u64 = number(" transactions (");
    Some((transactions, transactions * number(" blocks per transaction")))
}

/// Bytes of metadata and of file data dirtied by tasks whose comm is accepted.
fn dirtied(intervals: &[Value], comm: impl Fn(&str) -> bool) -> (u64, u64) {
    let mut sums = (0, 0);
    for array in intervals.iter().flat_map(|i| list(&i["arrays"])) {
        for task in list(&array["tasks"]) {
            let Some(rows) = task["dirtied"].as_array() else {
                continue;
            };
            for row in rows.iter().filter(|_| comm(task["comm"].as_str().unwrap())) {
                let bytes = row["bytes"].as_u64().unwrap();
                match row["origin"].as_str() {
                    Some("file_data") => sums.1 += bytes,
                    _ => sums.0 += bytes,
                }
            }
        }
    }
    sums
}

#[test]
fn a_task_dirties_what_jbd2_and_writeback_write() {
    if tracing() && installed("mke2fs") {
        undisturbed(written_later);
    }
}

fn written_later() -> Option<()> {
    let skipped = |why: &str| {
        common::skipped(why);
        Some(())
    };
    let disk = Loop::ext4(256 * MIB, &["-b", "4096"]);
    let Some(before) = logged(&disk.name) else {
        return skipped("this kernel does not show jbd2's statistics");
    };
    disk.sync();
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    let directory = disk.mount.join("d");
    fs::create_dir(&directory).unwrap();
    for n in 0..2000 {
        fs::File::create(directory.join(n.to_string())).unwrap();
    }
    let data = disk.mount.join("data");
    fs::write(&data, vec![b'd'; 3 * MIB as usize]).unwrap();
    disk.sync();
    let after = logged(&disk.name).unwrap();
    idle(&disk.name);
    let intervals = top.intervals();
    let notes = intervals[0]["notes"].as_array();
    if notes.is_some_and(|n| n.iter().any(|n| n.to_string().contains("jbd2"))) {
        return skipped("this kernel does not describe the types of jbd2");
    }
    let (all, _) = dirtied(&intervals, |_| true);
    let comm = common::own_comm();
    let (own, data_bytes) = dirtied(&intervals, |c| c == comm);
    let (blocks, counted) = (after.1 - before.1, all / 4096);
    assert!(counted.abs_diff(blocks) <= before.0 + after.0, "{counted} blocks, jbd2: {blocks}");
    assert!(own * 10 > all * 9, "{own} of {all}");
    assert_eq!(data_bytes, 3 * MIB);
    let arrays = intervals.iter().flat_map(|i| list(&i["arrays"]));
    let files: Vec<&Value> =
        arrays.filter_map(|a| a["dirtied_files"].as_array()).flatten().collect();
    let of_data = files.iter().filter(|f| f["path"] == data.to_str().unwrap());
    let of_data: u64 = of_data.map(|f| f["bytes"].as_u64().unwrap()).sum();
    // raidtrace waits for the lookup of a path for 250 ms only.
    if of_data != 3 * MIB && files.iter().any(|f| f["path"].is_null()) {
        return None;
    }
    assert_eq!(of_data, 3 * MIB);
    Some(())
}

/// A program can be switched out in the middle of an addition, while another one runs on the same
/// CPU: no two programs write to the same entry of a per-CPU map.
#[test]
fn metadata_and_data_are_dirtied_in_separate_entries() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    for n in 0..50 {
        fs::write(disk.mount.join(n.to_string()), "x").unwrap();
    }
    let mut entries = BTreeSet::new();
    for info in MapInfoIter::default().filter(|m| m.name == "rt_tasks_pendin") {
        let Ok(map) = MapHandle::from_map_id(info.id) else { continue };
        for entry in 0..info.max_entries {
            let cpus = map.lookup_percpu(&entry.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
            // `struct rt_task_slot`: `origin_op` of its key, and `io.bios`.
            for slot in cpus.iter().flat_map(|cpu| cpu.chunks_exact(48)) {
                if slot[24..32] != [0; 8] && u32::from(slot[14] & 7) == contract::OP_DIRTY {
                    let is_data = slot[14] >> 3 == Origin::FileData as u8;
                    entries.insert((info.id, entry, is_data));
                }
            }
        }
    }
    top.intervals();
    let count = |is_data: bool| entries.iter().filter(|(.., data)| *data == is_data).count();
    if count(false) == 0 {
        return common::skipped("this kernel does not describe the types of jbd2");
    }
    assert!(count(true) > 0, "{entries:?}");
    let shared =
        |&(map, entry, is_data): &(u32, u32, bool)| entries.contains(&(map, entry, !is_data));
    assert!(!entries.iter().any(shared), "map, entry, data: {entries:?}");
}

/// Two tasks write two files: each pair of task and file has its own bytes.
#[test]
fn two_tasks_dirty_two_files() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    undisturbed(|| two_files_on(Loop::ext4(64 * MIB, &["-b", "4096"])));
    if installed("mkfs.xfs") {
        undisturbed(|| {
            let mut disk = Loop::new(320 * MIB);
            tool("mkfs.xfs", &["-q", &disk.device()]);
            disk.mount();
            two_files_on(disk)
        });
    }
}

fn two_files_on(disk: Loop) -> Option<()> {
    disk.sync();
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    let wrote = two_writers(&disk);
    disk.sync();
    idle(&disk.name);
    assert_eq!(with_paths(pairs(&top.intervals()))?, wrote);
    Some(())
}

/// An interval with more files than fit into the table: the number is reported, and the bytes still
/// count for the task.
#[test]
fn a_full_table_of_files_loses_no_bytes_of_a_task() {
    const FILES: u64 = 40_000;
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(320 * MIB, &["-b", "4096", "-N", "50000"]);
    disk.sync();
    idle(&disk.name);
    // The first line is printed immediately. Then the table is read only once, at the end.
    let (top, _) = Top::json(&[&disk.device(), "-i600"]);
    for n in 0..FILES {
        fs::write(disk.mount.join(n.to_string()), [b'd'; 4096]).unwrap();
    }
    let intervals = top.intervals();
    let lost: u64 = intervals.iter().map(|i| i["lost"]["files"].as_u64().unwrap()).sum();
    // 32,768 in the table, and 64 on each CPU.
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(lost >= FILES - 32_768 - 64 * cpus, "{lost}");
    let comm = common::own_comm();
    let (_, data) = dirtied(&intervals, |c| c == comm);
    assert_eq!(data, FILES * 4096);
}

/// Replay and report of a recording show the same figures as `top` during the recording.
#[test]
fn a_recording_contains_dirtied_bytes() {
    if tracing() && installed("mke2fs") {
        undisturbed(recorded);
    }
}

fn recorded() -> Option<()> {
    let (disk, dir) = (Loop::ext4(64 * MIB, &["-b", "4096"]), memory());
    disk.sync();
    idle(&disk.name);
    let file = dir.path().join("a.rtrace");
    let file = file.to_str().unwrap();
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    let recorder = Top::start(Command::new(EXE).args(["record", &disk.device(), "-o", file]));
    recorder.says("raidtrace: recording ");
    let wrote = two_writers(&disk);
    for n in 0..500 {
        fs::File::create(disk.mount.join(n.to_string())).unwrap();
    }
    disk.sync();
    idle(&disk.name);
    let out = recorder.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let live = top.intervals();
    let comm = common::own_comm();
    let own = |intervals: &[Value]| dirtied(intervals, |c| c == comm);
    for again in [
        &["top", "--replay", file, "--json"][..],
        &["top", "--replay", file, "--json", "-i0.3"],
        &["report", file, "--json"],
    ] {
        let out = raidtrace(again);
        assert_eq!(out.code(), Some(0), "{out:?}");
        let intervals = common::json(&out.stdout);
        assert_eq!(with_paths(pairs(&intervals))?, wrote, "{again:?}");
        assert_eq!(own(&intervals), own(&live), "{again:?}");
    }
    let out = raidtrace(&["export", file, "-f", "ndjson", "-o", "-"]);
    let rows = common::json(&out.stdout);
    let rows = rows.iter().filter(|row| row["kind"] == "dirtied");
    let data = rows.filter(|row| row["origin"] == "file_data");
    let exported: u64 = data.map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(exported, wrote.values().sum::<u64>());
    let report = raidtrace(&["report", file]).stdout;
    assert!(report.contains("IO submitted and caused"), "{report}");
    assert!(report.lines().all(|l| l.chars().count() <= 80), "{report}");
    Some(())
}

/// A cgroup of the unified hierarchy; it must be empty when dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut mounts = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
        let top = mounts.find(|fields| fields[2] == "cgroup2")?[1].to_owned();
        let dir = Path::new(&top).join(format!("raidtrace-dirtied-{}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        Some(Self(dir))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Bytes dirtied by tasks of a cgroup have its path.
#[test]
fn a_task_that_dirties_is_shown_with_its_cgroup() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let Some(cgroup) = Cgroup::new() else {
        return common::skipped("no cgroup2 in which a cgroup can be created");
    };
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    disk.sync();
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    let script = "echo $$ >\"$0/cgroup.procs\" && exec dd if=/dev/zero of=\"$1\" bs=64k count=10";
    let (dir, file) = (cgroup.0.to_str().unwrap(), disk.mount.join("data"));
    tool("sh", &["-c", script, dir, file.to_str().unwrap()]);
    disk.sync();
    idle(&disk.name);
    let intervals = top.intervals();
    let arrays = intervals.iter().flat_map(|i| list(&i["arrays"]));
    let tasks = arrays.flat_map(|a| list(&a["tasks"]));
    let name = cgroup.0.file_name().unwrap().to_str().unwrap();
    let inside = |t: &&Value| t["cgroup"].as_str().is_some_and(|c| c.ends_with(name));
    let rows = tasks.filter(inside).flat_map(|t| t["dirtied"].as_array());
    let data = rows.flatten().filter(|row| row["origin"] == "file_data");
    let bytes: u64 = data.map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 640 << 10);
}

/// Two threads write alternately, one page at a time. Returns the bytes by comm and path.
fn two_writers(disk: &Loop) -> Pairs {
    const PAGE: u64 = 4096;
    let paths = ["a", "b"].map(|name| disk.mount.join(name));
    let files = paths.each_ref().map(|path| fs::File::create(path).unwrap());
    let files = &files;
    let pages = [("first", [300, 100]), ("second", [50, 200])];
    std::thread::scope(|scope| {
        for (nth, (comm, pages)) in (0..).zip(pages) {
            let work = move || {
                for page in 0..300 {
                    for (file, _) in files.iter().zip(pages).filter(|(_, most)| page < *most) {
                        let at = (nth * 300 + page) * PAGE;
                        file.write_all_at(&[b'd'; PAGE as usize], at).unwrap();
                    }
                }
            };
            let thread = std::thread::Builder::new().name(comm.to_owned());
            thread.spawn_scoped(scope, work).unwrap();
        }
    });
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let each = pages.iter().flat_map(|(comm, pages)| {
        let files = paths.iter().zip(pages);
        files.map(|(path, n)| ((comm.to_string(), name(path)), n * PAGE))
    });
    each.collect()
}

/// Bytes by comm and path.
type Pairs = BTreeMap<(String, String), u64>;

/// `None` if a path is missing: raidtrace waits for a lookup for 250 ms only.
fn with_paths(pairs: Pairs) -> Option<Pairs> {
    pairs.keys().all(|(_, path)| !path.is_empty()).then_some(pairs)
}

/// Bytes by comm and path in the intervals. Asserts that they add up to the file data dirtied by
/// each task, and to the bytes of each file.
fn pairs(intervals: &[Value]) -> Pairs {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (mut pairs, mut tasks, mut files) =
        <(BTreeMap<_, u64>, BTreeMap<_, i64>, BTreeMap<_, i64>)>::default();
    for array in intervals.iter().flat_map(|i| list(&i["arrays"])) {
        for file in array["dirtied_files"].as_array().into_iter().flatten() {
            *files.entry(text(&file["path"])).or_default() += file["bytes"].as_i64().unwrap();
        }
        for task in list(&array["tasks"]) {
            for file in task["dirtied_files"].as_array().into_iter().flatten() {
                let (comm, path) = (text(&task["comm"]), text(&file["path"]));
                *tasks.entry(comm.clone()).or_default() -= file["bytes"].as_i64().unwrap();
                *files.entry(path.clone()).or_default() -= file["bytes"].as_i64().unwrap();
                *pairs.entry((comm, path)).or_default() += file["bytes"].as_u64().unwrap();
            }
            for row in task["dirtied"].as_array().into_iter().flatten() {
                if row["origin"] == "file_data" {
                    *tasks.entry(text(&task["comm"])).or_default() +=
                        row["bytes"].as_i64().unwrap();
                }
            }
        }
    }
    assert!(tasks.values().chain(files.values()).all(|n| *n == 0), "{tasks:?} {files:?}");
    pairs
}
