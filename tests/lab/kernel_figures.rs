//! Cases in which requests, tasks or origins were once silently wrong. Each is compared with the
//! kernel's account: disk statistics, events, bytes written by a process.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::output::{by_origin, count, each, figures, lines, word};
use super::{lab, text};

/// Requests of a member in the order of the disk statistics: reads, writes, discards, flushes.
pub(super) fn requests(lines: &[Value], member: &str) -> [u64; 4] {
    let mut sums = [0; 4];
    for ((_, _, op), (requests, _)) in by_origin(lines).into_iter().filter(|(k, _)| k.0 == member) {
        let kind = match op {
            "read" => 0,
            "write" | "write_zeroes" => 1,
            "discard" => 2,
            "flush" => 3,
            _ => continue,
        };
        sums[kind] += requests;
    }
    sums
}

/// Asserts that requests of `disks` equal the kernel's number and nothing is lost.
fn requests_add_up(kernel: &str, case: &str, disks: &[&str]) {
    let Some(dir) = lab(kernel, "requests") else {
        return;
    };
    let lines = lines(&dir, case);
    let kernel = figures(&dir, &format!("{case}.stat"));
    let lost: u64 = lines.iter().map(|l| count(&l["lost"], "events")).sum();
    for disk in disks {
        // The first line covers the time before.
        let counted = requests(&lines[1..], disk);
        println!("{case} {disk}: raidtrace {counted:?}, lost {lost}");
        assert!(counted.iter().sum::<u64>() > 20, "too few");
        assert_eq!(counted.as_slice(), kernel[*disk], "{case} {disk}");
    }
    assert_eq!(lost, 0, "{case}");
}

/// The empty flush of an fsync, on the disk and through device mapper.
pub(super) fn flushes_through_device_mapper(kernel: &str) {
    requests_add_up(kernel, "plain", &["loop0"]);
    requests_add_up(kernel, "lvm", &["loop0"]);
}

/// Requests that complete in an interrupt during another completion. Both disks have one queue, so
/// only the kernel's count of skipped runs shows that a shadow program is needed. Runs skipped
/// before it was attached are reported as lost.
pub(super) fn nested_completions_are_counted(kernel: &str) {
    let disks = ["nullb0", "nullb1"];
    let Some(dir) = lab(kernel, "requests") else {
        return;
    };
    let lines = lines(&dir, "nested");
    let kernel = figures(&dir, "nested.stat");
    let sum = |disk: &str| -> (u64, u64) {
        let counted = requests(&lines[1..], disk);
        (counted.iter().sum(), kernel[disk].iter().sum())
    };
    let (counted, happened) =
        disks.iter().map(|disk| sum(disk)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let lost: Vec<u64> = lines[1..].iter().map(|l| count(&l["lost"], "events")).collect();
    println!("nested: raidtrace {counted} of {happened}, lost {lost:?}");
    assert!(counted > 20, "too few");
    // Issues that were skipped are in `lost` as well; their requests are counted.
    let first = lost.iter().position(|l| *l > 0).unwrap_or(0);
    let until_attached: u64 = lost.iter().take(first + 2).sum();
    let not_counted = happened.checked_sub(counted);
    assert!(not_counted.is_some_and(|n| n <= until_attached), "{not_counted:?} not counted");
}

/// Requests that a driver gave back, by operation: how many, and the time until they were issued
/// again, in µs, from the kernel's events.
fn requeues_of_the_kernel(trace: &str) -> BTreeMap<&'static str, (u64, f64)> {
    let (mut sums, mut waiting) = (BTreeMap::new(), BTreeMap::new());
    for line in trace.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let event = words.iter().position(|w| w.starts_with("block_rq_")).expect("an event");
        let time: f64 = words[event - 1].trim_end_matches(':').parse().expect("a time");
        let plus = words.iter().position(|w| *w == "+").expect("a sector");
        let op = if words[event + 2].starts_with('R') { "read" } else { "write" };
        let sum: &mut (u64, f64) = sums.entry(op).or_default();
        if words[event] == "block_rq_requeue:" {
            sum.0 += 1;
            waiting.insert(words[plus - 1], time);
        } else if let Some(since) = waiting.remove(words[plus - 1]) {
            sum.1 += 1e6 * (time - since);
        }
    }
    sums
}

/// Requests that the driver gave back, live and in a recording.
pub(super) fn requests_that_a_driver_gives_back(kernel: &str) {
    let Some(dir) = lab(kernel, "requests") else {
        return;
    };
    let expected = requeues_of_the_kernel(&text(dir.join("requeued.trace")));
    let live = lines(&dir, "requeued");
    let report: Value = serde_json::from_str(&text(dir.join("requeued.report"))).expect("JSON");
    for (what, lines) in [("live", &live[1..]), ("report", &[report][..])] {
        let members: Vec<&Value> = lines
            .iter()
            .flat_map(|line| each(line, "arrays"))
            .flat_map(|array| each(array, "members"))
            .collect();
        for (op, (requeues, us)) in &expected {
            // The kernel's events include what raidtrace itself read before it recorded.
            if what == "report" && *op == "read" {
                continue;
            }
            let sum = |name: &str| members.iter().filter_map(|m| m[name][op].as_u64()).sum::<u64>();
            let (counted, counted_us) = (sum("requeues"), sum("requeue_us") as f64);
            println!(
                "{what} {op}: kernel {requeues} in {us} µs, raidtrace {counted} in {counted_us}"
            );
            assert!(*requeues > 10, "too few");
            assert_eq!(counted, *requeues, "{what} {op}");
            assert!((counted_us - us).abs() < 0.1 * us, "{what} {op}");
        }
    }
}

/// Flushes for a filesystem on another partition of a member's disk are not the member's.
pub(super) fn flushes_of_a_neighbour_partition(kernel: &str) {
    let Some(dir) = lab(kernel, "requests") else {
        return;
    };
    let stat = figures(&dir, "neighbour.stat");
    assert!(stat["loop1"][3] >= 20, "the neighbour flushes the disk");
    for member in ["loop1p2", "loop2p2"] {
        assert_eq!(stat[member], [0; 4], "md is idle");
    }
    let idle = lines(&dir, "neighbour");
    println!("{:?}", by_origin(&idle[1..]));
    for member in ["loop1p2", "loop2p2"] {
        assert_eq!(requests(&idle[1..], member), [0; 4], "{member}");
    }
    // Flushes of the member's own filesystem do count. The kernel counts flushes only per disk.
    let busy = lines(&dir, "own");
    let stat = figures(&dir, "own.stat");
    for (member, disk) in [("loop1p2", "loop1"), ("loop2p2", "loop2")] {
        let mut wanted = stat[member].clone();
        wanted[3] = stat[disk][3];
        assert!(wanted[3] >= 10, "{wanted:?}");
        assert_eq!(requests(&busy[1..], member).as_slice(), wanted, "{member}");
    }
}

/// Bytes read in a case of `device_read.sh`: directory, extent_tree and unknown of raidtrace,
/// directory and extent_tree of the kernel.
fn device_read(kernel: &str, case: &str) -> Option<([u64; 3], [u64; 2])> {
    let dir = lab(kernel, "device_read")?;
    let kernel = figures(&dir, &format!("{case}.kernel"));
    let lines = lines(&dir, case);
    let sums = by_origin(&lines);
    let bytes = |origin| sums.get(&("loop0", origin, "read")).map_or(0, |s| s.1);
    let found = ["directory", "extent_tree", "unknown"].map(bytes);
    println!("{case}: raidtrace {found:?} of directory, extent_tree, unknown");
    let read = [kernel["directory"][0], kernel["extent_tree"][0]];
    assert!(read[0] >= 400 << 10, "{read:?} are too few bytes");
    Some((found, read))
}

fn device_read_agrees(kernel: &str, case: &str) {
    if let Some((found, read)) = device_read(kernel, case) {
        assert_eq!(found[..2], read, "{case}");
    }
}

/// Directory blocks read through the block device have the origin `directory`.
pub(super) fn directory_read_through_the_device(kernel: &str) {
    device_read_agrees(kernel, "clean");
}

/// An earlier read of the device has created large folios in its page cache.
pub(super) fn directory_read_after_a_sequential_read(kernel: &str) {
    device_read_agrees(kernel, "after_dd");
}

/// Direct reads of single blocks have their file and their task, whichever engine submits them.
pub(super) fn direct_reads_of_a_block_have_their_file(kernel: &str) {
    let Some(dir) = lab(kernel, "device_read") else {
        return;
    };
    let inodes = figures(&dir, "data");
    let filesystems = ["ext4", "xfs"].into_iter();
    let each_engine = |fs| ["psync", "libaio", "io_uring"].map(|engine| (fs, engine));
    for (fs, engine) in filesystems.flat_map(each_engine) {
        let inode = inodes[fs][0];
        let lines = lines(&dir, &format!("direct_{fs}_{engine}"));
        let arrays: Vec<&Value> = lines[1..].iter().flat_map(|l| each(l, "arrays")).collect();
        let files = arrays.iter().flat_map(|a| each(a, "files"));
        let files: Vec<_> = files.map(|f| (count(f, "inode"), count(f, "bytes"))).collect();
        let ours: u64 = files.iter().filter(|f| f.0 == inode).map(|f| f.1).sum();
        let tasks = arrays.iter().flat_map(|a| each(a, "tasks")).filter(|t| t["comm"] == "fio");
        let io = tasks.flat_map(|t| each(t, "io")).filter(|io| io["origin"] == "file_data");
        let read: u64 = io.map(|io| count(io, "bytes")).sum();
        let lost: u64 = arrays.iter().map(|a| count(&a["files_unattributed"], "bytes")).sum();
        println!("{fs}, {engine}: {files:?}, fio {read}, unattributed {lost}");
        assert_eq!((ours, lost), (read, 0), "{fs}, {engine}: {files:?}");
        // Preemption between a program and its shadow loses a bio or counts it twice
        // (docs/attribution.md, 7.2): rare, likelier in the guest of a busy machine.
        let blocks = read >> 12;
        assert!((253..=259).contains(&blocks), "{fs}, {engine}: {blocks} of 256 reads");
        assert!(files.iter().all(|f| f.0 == inode), "{fs}, {engine}: {files:?}");
    }
}

/// Bios that start in the middle of a segment.
pub(super) fn directory_read_in_split_requests(kernel: &str) {
    device_read_agrees(kernel, "small_64");
    device_read_agrees(kernel, "small_32");
}

/// Bios of more than 64 segments: blocks after the 64th must not be counted as file data.
pub(super) fn directory_read_in_large_requests(kernel: &str) {
    if let Some(([directory, tree, unknown], read)) = device_read(kernel, "large") {
        assert_eq!(tree, read[1]);
        assert!(directory <= read[0], "{directory} of {}", read[0]);
        assert!(directory + unknown >= read[0], "{directory} of {}", read[0]);
    }
}

/// IO of a task, from `tasks` of `top --json`.
struct Row<'a> {
    array: &'a str,
    pid: u64,
    comm: &'a str,
    cgroup: &'a str,
    role: &'a str,
    origin: &'a str,
    op: &'a str,
    bytes: u64,
}

fn rows(lines: &[Value]) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for array in lines.iter().flat_map(|l| each(l, "arrays")) {
        for task in each(array, "tasks") {
            for io in each(task, "io") {
                let row = Row {
                    array: word(array, "name"),
                    pid: count(task, "pid"),
                    comm: word(task, "comm"),
                    cgroup: word(task, "cgroup"),
                    role: word(task, "role"),
                    origin: word(io, "origin"),
                    op: word(io, "op"),
                    bytes: count(io, "bytes"),
                };
                println!(
                    "{}: {} {} {} ({}): {} {} {}",
                    row.array,
                    row.pid,
                    row.comm,
                    row.cgroup,
                    row.role,
                    row.origin,
                    row.op,
                    row.bytes
                );
                rows.push(row);
            }
        }
    }
    rows
}

/// Kworkers alternate between two filesystems: on each array they are shown as the writeback of
/// that array.
pub(super) fn writeback_names_its_own_array(kernel: &str) {
    let Some(dir) = lab(kernel, "tasks") else {
        return;
    };
    let did = text(dir.join("writeback.did"));
    assert!(!did.contains("failed:"), "{did}");
    let lines = lines(&dir, "writeback");
    let rows = rows(&lines);
    let mut written = BTreeMap::<&str, u64>::new();
    for row in rows.iter().filter(|r| r.role.starts_with("writeback of")) {
        assert_eq!(row.role, format!("writeback of {}", row.array), "{}", row.comm);
        *written.entry(row.array).or_default() += row.bytes;
    }
    for array in ["md120", "md121"] {
        assert!(written[array] >= 4 << 20, "{array}: {written:?}");
    }
}

/// Bios that were delayed by a limit count for the cgroup. `named` is the v2 cgroup of dd.
fn throttled(kernel: &str, scenario: &str, case: &str, named: &str) {
    let Some(dir) = lab(kernel, scenario) else {
        return;
    };
    let did = figures(&dir, &format!("{case}.did"));
    let lines = lines(&dir, case);
    let rows = rows(&lines);
    for row in &rows {
        assert!(
            !row.comm.contains("kthrotld") && row.role != "kernel worker",
            "{} has {} bytes of {}",
            row.comm,
            row.bytes,
            row.origin
        );
    }
    let limit = "is held back by its I/O limit on md120 (io.max, blkio.throttle)";
    let said = |line: &Value| {
        let headline = line["arrays"][0]["hotspot"]["headline"].as_str();
        headline.is_some_and(|s| s.contains(limit))
    };
    assert!(lines.iter().any(said), "{case}");
    let mut throttled_bytes = 0;
    for op in ["read", "write"] {
        let of_data = |r: &&Row| r.origin == "file_data" && r.op == op;
        let mut bytes = 0;
        for row in rows.iter().filter(of_data) {
            if row.comm == "throttled" {
                assert_eq!((row.pid, row.cgroup), (0, "/limited"));
                assert_eq!(row.role, "cgroup /limited, throttled");
                throttled_bytes += row.bytes;
            } else {
                assert_eq!((row.comm, row.cgroup), ("dd", named), "{op}");
            }
            bytes += row.bytes;
        }
        assert_eq!(bytes, did[op][0], "{op} by dd, {case}");
    }
    println!("{case}: {throttled_bytes} bytes belong to the cgroup, and to no task");
}

/// `io.max` of cgroup v2.
pub(super) fn throttled_by_io_max(kernel: &str) {
    throttled(kernel, "tasks", "limited_v2", "/limited");
}

/// `blkio.throttle` of cgroup v1: dd is in the root of v2.
pub(super) fn throttled_by_blkio(kernel: &str) {
    throttled(kernel, "tasks_v1", "limited_v1", "/");
}

/// jbd2's flush has the journal's origin, although a kworker submits it; or none, if it does so
/// before jbd2 waits for it.
pub(super) fn throttled_flush_of_the_journal(kernel: &str) {
    let Some(dir) = lab(kernel, "tasks_v1") else {
        return;
    };
    let lines = lines(&dir, "flushes");
    let sums = by_origin(&lines);
    println!("{sums:?}");
    let flushes = |origin| sums.get(&("loop0", origin, "flush")).map_or(0, |s| s.0);
    assert_eq!(flushes("file_data"), 0, "nobody called fsync");
    assert!(flushes("journal") + flushes("unknown") >= 6, "each commit ends with one");
    for row in rows(&lines).iter().filter(|r| r.op == "flush") {
        let origin = if row.comm == "throttled" { "unknown" } else { "journal" };
        assert_eq!(row.origin, origin, "{}", row.comm);
    }
}

/// Asserts that the kernel rejected no program.
fn accepts_every_program(dir: &Path, case: &str) {
    let said = text(dir.join(format!("{case}.err")));
    assert!(!said.contains("refused"), "{said}");
}

/// Tasks on an array without ext4, on a kernel without ext4's types.
pub(super) fn tasks_without_ext4s_btf(kernel: &str) {
    let Some(dir) = lab(kernel, "types") else {
        return;
    };
    let lines = lines(&dir, "types");
    let before: usize = text(dir.join("types.before")).trim().parse().expect("lines");
    for (array, wanted) in [("md120", 8 << 20), ("md121", 1 << 20)] {
        let rows = rows(&lines[..before]);
        let by_dd = rows.iter().filter(|r| r.array == array && r.comm == "dd" && r.op == "write");
        let bytes: u64 = by_dd.map(|r| r.bytes).sum();
        assert_eq!(bytes, wanted, "by dd on {array}");
    }
    accepts_every_program(&dir, "types");
}

/// ext4 is loaded and mounted during tracing.
pub(super) fn ext4_is_loaded_later(kernel: &str) {
    let Some(dir) = lab(kernel, "types") else {
        return;
    };
    let found = lines(&dir, "types");
    let did = text(dir.join("types.did"));
    let sums = by_origin(&found);
    let directory = |member| sums.get(&(member, "directory", "write")).map_or(0, |s| s.1);
    println!("{did}{:?}", ["loop2", "loop3"].map(directory));
    // raidtrace reports both: that ext4 was loaded, and that the filesystem was mounted.
    assert!(!did.contains("failed:"), "{did}");
    for member in ["loop2", "loop3"] {
        assert!(directory(member) >= 20 * 4096, "{member}");
    }
    accepts_every_program(&dir, "types");
}

/// ext4 is loaded before the start, with or without its types.
pub(super) fn ext4_is_a_module(kernel: &str) {
    let Some(dir) = lab(kernel, "types") else {
        return;
    };
    let lines = lines(&dir, "loaded");
    let rows = rows(&lines);
    let wrote = |comm: &str, origin: &str| -> u64 {
        let of = |r: &&Row| (r.comm, r.origin, r.op) == (comm, origin, "write");
        rows.iter().filter(of).map(|r| r.bytes).sum()
    };
    assert_eq!(wrote("dd", "file_data"), 4 << 20);
    let sums = by_origin(&lines);
    assert!(sums.contains_key(&("loop2", "directory", "write")));
    accepts_every_program(&dir, "loaded");
}

/// Bytes written to a loop device in a case of `ext4.sh` by origin, and those of block_rq_complete
/// in the blocks that the case lists.
fn written(kernel: &str, case: &str, member: &str) -> Option<(BTreeMap<String, u64>, u64)> {
    let dir = lab(kernel, "ext4")?;
    let kernel = figures(&dir, &format!("{case}.kernel"));
    let lines = lines(&dir, case);
    let rows = by_origin(&lines).into_iter();
    let found: BTreeMap<String, u64> = rows
        .filter(|((m, _, op), _)| (*m, *op) == (member, "write"))
        .map(|((_, origin, _), (_, bytes))| (origin.to_owned(), bytes))
        .collect();
    println!("{case} {member}: {found:?}");
    Some((found, kernel["inside"][0]))
}

/// An external journal.
pub(super) fn external_journal_is_a_journal(kernel: &str) {
    if let Some((found, wrote)) = written(kernel, "journal", "loop1") {
        assert!(wrote >= 40 * 4096, "{wrote} bytes are too few");
        assert_eq!(found, BTreeMap::from([("journal".to_owned(), wrote)]));
    }
}

/// Blocks that a quota file gets during tracing.
pub(super) fn new_quota_blocks_are_metadata(kernel: &str) {
    if let Some((found, wrote)) = written(kernel, "quota", "loop2") {
        let bytes = |origin: &str| found.get(origin).copied().unwrap_or(0);
        assert!(wrote >= 10 * 4096, "{wrote} bytes are too few");
        assert!(bytes("other_metadata") >= wrote, "{wrote} by the kernel");
        assert_eq!(bytes("unknown"), 0);
    }
}

/// Bios that md refuses with EAGAIN move no data.
pub(super) fn refused_bios_are_not_counted(kernel: &str) {
    let Some(dir) = lab(kernel, "nowait") else {
        return;
    };
    for (array, did) in figures(&dir, "nowait.did") {
        let lines = lines(&dir, &array);
        let (moved, refused) = (did[0], did[1]);
        assert!(refused >= 20, "{array}: too few");
        assert!(moved > 0, "{array}: none was taken");
        let of_task = rows(&lines);
        let of_task = of_task.iter().filter(|r| r.comm == "xfs_io");
        let by_task: u64 = of_task.map(|r| r.bytes).sum();
        let submitted: u64 = lines
            .iter()
            .flat_map(|l| each(l, "arrays"))
            .flat_map(|a| each(a, "amplification"))
            .filter(|row| (word(row, "origin"), word(row, "op")) == ("raw", "write"))
            .map(|row| count(row, "submitted_bytes"))
            .sum();
        assert_eq!(by_task, submitted, "{array}");
        // A bio that is refused just after the interval in which it was submitted stays counted
        // (docs/attribution.md): one at most of the hundreds of these runs.
        let largest = if array == "md120" { 4 << 10 } else { 512 << 10 };
        let expected = moved..=moved + largest;
        assert!(expected.contains(&by_task), "{array}: {by_task}, {expected:?}, {refused} refused");
    }
}
