//! `raidtrace top` as a process: output, and ends with and without errors.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{
    EXE, Loop, MIB, Output, Running, Top, Watch, Witness, cells, installed, json, list, memory,
    mount_namespaces, own_comm, raidtrace, root, run, skipped, spawn, sum, table, tool, tracing,
    undisturbed, until_idle,
};
use rustix::process::Signal;
use serde_json::Value;

/// Asserts status 1, one error line with these words, and nothing on stdout.
fn fails(out: &Output, says: &[&str]) {
    println!("{}", out.stderr.trim_end());
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert_eq!(out.stdout, "", "{out:?}");
    let lines: Vec<&str> = out.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{out:?}");
    assert!(lines[0].starts_with("raidtrace: "), "{out:?}");
    for word in says {
        assert!(lines[0].contains(word), "{word}: {out:?}");
    }
    for never in ["panicked", "Os {", "RUST_BACKTRACE"] {
        assert!(!lines[0].contains(never), "{out:?}");
    }
}

/// A loop device with a filesystem: the machine's own disk is not idle on demand.
fn disk() -> Loop {
    Loop::ext4(64 * MIB, &["-b", "4096"])
}

#[test]
fn usage() {
    for wrong in [
        &[][..],
        &["--bogus"],
        &["top", "--bogus"],
        &["top", "-n", "0"],
        &["top", "-i", "0"],
        &["top", "--batch", "--json"],
        &["bottom"],
    ] {
        let out = raidtrace(wrong);
        assert_eq!(out.code(), Some(2), "{wrong:?} {out:?}");
        assert_eq!(out.stdout, "");
        let says = ["Usage: raidtrace", "try '--help'"];
        assert!(says.iter().any(|s| out.stderr.contains(s)), "{wrong:?} {out:?}");
    }
    let version = raidtrace(&["--version"]);
    assert_eq!(version.code(), Some(0));
    assert_eq!(version.stdout, concat!("raidtrace ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = raidtrace(&["--version", "-v"]);
    assert_eq!(long.code(), Some(0));
    for line in ["commit: ", "target: ", "libbpf: v", "features: "] {
        assert!(long.stdout.contains(line), "{}", long.stdout);
    }
}

/// Prints the completion scripts of bash, zsh and fish, and completes a command.
#[test]
fn completion() {
    for shell in ["bash", "zsh", "fish"] {
        let out = run(Command::new(EXE).env("COMPLETE", shell));
        assert_eq!(out.code(), Some(0), "{out:?}");
        assert!(out.stdout.contains("COMPLETE"), "{out:?}");
    }
    let out = run(Command::new(EXE).env("COMPLETE", "fish").args(["--", "raidtrace", "do"]));
    assert!(out.stdout.starts_with("doctor"), "{out:?}");
}

#[test]
fn manual_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = raidtrace(&["manual", dir.path().to_str().expect("UTF-8")]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let page = std::fs::read_to_string(dir.path().join("raidtrace-top.1")).expect("a page");
    assert!(page.contains(".SH EXAMPLES"), "{page}");
    let out = raidtrace(&["manual", "/proc/none"]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("/proc/none"), "{out:?}");
}

#[test]
fn help() {
    let of = |args: &[&str]| {
        let out = run(Command::new(EXE).args(args).env("COLUMNS", "100"));
        assert_eq!(out.code(), Some(0), "{out:?}");
        assert_eq!(out.stderr, "");
        out.stdout
    };
    insta::assert_snapshot!("help", of(&["--help"]));
    insta::assert_snapshot!("help_top", of(&["top", "--help"]));
    insta::assert_snapshot!("help_layout", of(&["layout", "--help"]));
    insta::assert_snapshot!("help_record", of(&["record", "--help"]));
    insta::assert_snapshot!("help_doctor", of(&["doctor", "--help"]));
    insta::assert_snapshot!("help_alloc", of(&["alloc", "--help"]));
}

#[test]
fn not_root() {
    let dir = memory();
    // Other users may have no access to the target folder.
    let copy = dir.path().join("raidtrace");
    fs::copy(EXE, &copy).unwrap();
    open_to_all(dir.path());
    let out = if rustix::process::geteuid().is_root() {
        if !installed("setpriv") {
            return;
        }
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        run(Command::new("setpriv").args(nobody).arg(&copy).arg("top"))
    } else {
        run(Command::new(&copy).arg("top"))
    };
    fails(&out, &["root", "sudo raidtrace top"]);
}

fn open_to_all(dir: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn no_such_target() {
    if !root() {
        return;
    }
    let dir = memory();
    let file = dir.path().join("file\x1b[2J");
    fs::write(&file, "x").unwrap();
    let recording = dir.path().join("night.rtrace");
    fs::write(&recording, "x").unwrap();
    for (target, says) in [
        ("/nowhere", &["/nowhere", "no such device"][..]),
        (recording.to_str().unwrap(), &["if it is a recording: --replay "]),
        ("nosuchdisk", &["nosuchdisk", "ls /sys/block"]),
        (file.to_str().unwrap(), &["neither a block device nor"]),
        (dir.path().to_str().unwrap(), &["nor a mount point"]),
        ("/etc", &["/etc", "neither a block device nor a mount point"]),
        ("/dev/shm", &["/dev/shm is tmpfs", "name a disk"]),
        ("/proc", &["/proc is proc", "name a disk"]),
        ("/dev/null", &["/dev/null", "name"]),
        ("", &["no such device"]),
    ] {
        for how in ["--json", "--batch"] {
            let out = raidtrace(&["top", target, how, "-n1"]);
            fails(&out, says);
            assert!(!out.stderr.contains('\x1b'));
        }
    }
    // One invalid target among valid ones.
    let out = raidtrace(&["top", "/nowhere", "/", "-n1"]);
    fails(&out, &["/nowhere"]);
}

/// Asserts names and types of the documented JSON in every line.
fn contract(interval: &Value) {
    assert_eq!(interval["schema"], "raidtrace.top/1");
    let time = interval["time"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    assert!(interval["interval_s"].as_f64().unwrap() > 0.0);
    assert!(interval["lost"]["events"].is_u64());
    assert!(interval["overhead"]["bpf_ns"].is_u64() && interval["overhead"]["bpf_events"].is_u64());
    for array in list(&interval["arrays"]) {
        assert!(array["name"].is_string() && array["level"].is_string());
        assert!(array["chunk_bytes"].is_u64());
        for member in list(&array["members"]) {
            assert!(member["name"].is_string() && member["slot"].is_u64());
        }
        for row in list(&array["amplification"]) {
            assert!(row["origin"].is_string() && row["op"].is_string());
            // Null also if more completed than was submitted in the interval.
            let (factor, submitted) = (&row["factor"], row["submitted_bytes"].as_u64().unwrap());
            assert!(factor.is_null() || factor.is_f64() && submitted > 0, "{row}");
        }
    }
    let interval = std::slice::from_ref(interval);
    for (_, cell) in cells(interval) {
        assert!(cell["origin"].is_string() && cell["op"].is_string());
        let (requests, bytes) = (cell["requests"].as_u64(), cell["bytes"].as_u64());
        assert!(requests.unwrap() + bytes.unwrap() > 0, "{cell}");
        for time in ["queue_us", "device_us"] {
            let at = |name: &str| cell[time][name].as_u64().unwrap();
            assert!(at("p50") <= at("p99") && at("p99") <= at("max"), "{cell}");
        }
    }
}

/// This machine's own disk, with real files on it.
#[test]
fn the_disk_of_this_machine() {
    if !tracing() {
        return;
    }
    let tmp = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    match on_a_disk(tmp) {
        Some(mount) => undisturbed(|| files_on_a_disk(tmp, &mount)),
        None => skipped("the target folder is on no ext4 on a disk"),
    }
}

fn files_on_a_disk(tmp: &std::path::Path, mount: &std::path::Path) -> Option<()> {
    let dir = tempfile::tempdir_in(tmp).unwrap();
    let (top, first) = Top::json(&[mount.to_str().unwrap(), "-i0.5"]);
    contract(&first);
    assert_eq!(list(&first["arrays"]).len(), 1);
    let member = &list(&first["arrays"][0]["members"])[0]["name"];
    let witness = Witness::new(member.as_str().unwrap());
    for d in 0..60 {
        let sub = dir.path().join(d.to_string());
        fs::create_dir(&sub).unwrap();
        for f in 0..5 {
            fs::write(sub.join(f.to_string()), vec![b'x'; 10_000]).unwrap();
        }
    }
    let folder = File::open(dir.path()).unwrap();
    rustix::fs::syncfs(&folder).unwrap();
    drop(dir);
    rustix::fs::syncfs(&folder).unwrap();
    let intervals = top.intervals();
    intervals.iter().for_each(contract);
    println!("{}", table(&intervals));
    // Other programs write to this disk too, so there are only lower bounds.
    const OWN: u64 = 300 * 10_000;
    let written = |origin| sum(&intervals, origin, "write", "bytes");
    let arrays = || intervals.iter().flat_map(|i| list(&i["arrays"]));
    let data = |figure: &str| -> u64 {
        let rows = arrays()
            .flat_map(|a| list(&a["amplification"]))
            .filter(|r| r["origin"] == "file_data" && r["op"] == "write");
        rows.map(|r| r[figure].as_u64().unwrap()).sum()
    };
    let metadata = ["inode_table", "inode_bitmap", "block_bitmap", "directory"];
    // A disk without md has one copy.
    let figures = [written("file_data"), data("submitted_bytes"), data("data_bytes")];
    let complete = figures.iter().all(|n| *n >= OWN) && metadata.iter().all(|o| written(o) > 0);
    if !complete && witness.is_some_and(|w| w.any_over_init()) {
        return None;
    }
    assert!(figures.iter().all(|n| *n >= OWN), "{figures:?}");
    for origin in metadata {
        assert!(written(origin) > 0, "{origin}");
    }
    // This thread submits IO only to this filesystem, which raidtrace knows.
    let own = arrays().flat_map(|a| list(&a["tasks"])).filter(|t| t["comm"] == own_comm());
    for io in own.flat_map(|t| list(&t["io"])) {
        assert!(io["origin"] != "raw", "{io}");
    }
    Some(())
}

/// The mount point, if it is an ext4 on a disk that `top` finds.
fn on_a_disk(path: &std::path::Path) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let on = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (mount, kind) = (PathBuf::from(words.next()?), words.next()?.to_owned());
        path.starts_with(&mount).then_some((mount, kind))
    };
    let (mount, kind) =
        mounts.lines().filter_map(on).max_by_key(|(mount, _)| mount.as_os_str().len())?;
    (kind == "ext4").then_some(mount)
}

#[test]
fn count_ends_top() {
    if !tracing() {
        return;
    }
    let disk = disk();
    let out = raidtrace(&["top", &disk.name, "--json", "-n", "3", "-i", "0.1"]);
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    assert_eq!(json(&out.stdout).len(), 3);
    // Output to a pipe is text.
    let out = raidtrace(&["top", &disk.name, "-n", "2", "-i", "0.1"]);
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    assert_eq!(out.stdout.matches(&format!("{} single", disk.name)).count(), 3);
    assert!(out.stdout.contains("total:"));
    // An interval of an hour is cut short.
    let out = raidtrace(&["top", &disk.name, "--json", "-i", "3600", "--duration", "0.3s"]);
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    assert!(!json(&out.stdout).is_empty());
}

#[test]
fn signals_end_top_with_a_last_interval() {
    if !tracing() {
        return;
    }
    let disk = disk();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        undisturbed(|| {
            let (top, _) = Top::json(&[&disk.name, "-i0.5"]);
            let watch = Watch::new(top, &disk.name);
            fs::write(disk.mount.join("file"), format!("{signal:?}")).unwrap();
            disk.sync();
            let (out, counted) = watch.end_at_once(signal);
            assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
            let counted = counted?;
            counted.intervals.iter().for_each(contract);
            let ours = sum(&counted.intervals, "*", "*", "requests");
            assert_eq!(ours, counted.kernel, "{}", table(&counted.intervals));
            Some(())
        });
    }
}

/// The signal arrives while the programs are being loaded.
#[test]
fn a_signal_before_the_first_line() {
    if !tracing() {
        return;
    }
    let disk = disk();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let top = Top::start(Command::new(EXE).args(["top", "--json", &disk.name]));
        top.catches(signal);
        let out = top.end(signal);
        assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
        json(&out.stdout).iter().for_each(contract);
    }
}

#[test]
fn a_closed_pipe_ends_top() {
    if !tracing() {
        return;
    }
    let disk = disk();
    for how in ["--json", "--batch"] {
        let mut child = spawn(
            Command::new(EXE)
                .args(["top", &disk.name, how, "-i0.1"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let mut head = Running(spawn(
            Command::new("head")
                .arg("-1")
                .stdin(child.stdout.take().unwrap())
                .stdout(Stdio::null()),
        ));
        let mut err = child.stderr.take().unwrap();
        let status = Running(child).wait();
        head.wait();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut err, &mut text).unwrap();
        assert_eq!((status.code(), text.as_str()), (Some(0), ""));
    }
}

#[test]
fn unwritable_output_is_an_error() {
    if !tracing() {
        return;
    }
    let disk = disk();
    for how in ["--json", "--batch"] {
        let args = ["top", &disk.name, how, "-n1", "-i0.1"];
        let script = |redirect: &str| {
            let line = format!("exec \"$0\" \"$@\" {redirect}");
            let sh = ["-c", &line, EXE];
            run(Command::new("sh").args(sh).args(args))
        };
        fails(&script(">/dev/full"), &["writing the figures", "No space"]);
        // Closed stdout: the standard library opens /dev/null instead.
        let out = script(">&-");
        assert_eq!((out.code(), out.stdout.as_str()), (Some(0), ""), "{out:?}");
        let out = script("2>&-");
        assert_eq!(out.code(), Some(0), "{out:?}");
    }
}

#[test]
fn no_btf() {
    if !root() || !installed("unshare") {
        return;
    }
    let _alone = mount_namespaces();
    // Name a target: otherwise the disks of other tests would be traced.
    let (dir, disk) = (memory(), disk());
    let script = format!(
        "mount --bind {} /sys/kernel/btf && exec \"$0\" top \"$1\" -n1",
        dir.path().display()
    );
    let args = ["-m", "sh", "-c", &script, EXE, &disk.name];
    let out = run(Command::new("unshare").args(args));
    if out.stderr.contains("unshare") || out.stderr.contains("mount:") {
        return skipped(&format!("no mount namespace: {}", out.stderr.trim()));
    }
    if out.code() == Some(0) {
        return skipped("libbpf found BTF elsewhere (/boot)");
    }
    fails(&out, &["CONFIG_DEBUG_INFO_BTF", "/sys/kernel/btf/vmlinux"]);
}

#[test]
fn without_sysfs_and_with_a_root_that_is_read_only() {
    if !root() || !installed("unshare") {
        return;
    }
    let _alone = mount_namespaces();
    let alone = |script: &str| run(Command::new("unshare").args(["-m", "sh", "-c", script, EXE]));
    let hidden = alone("mount -t tmpfs none /sys && exec \"$0\" top -n1");
    if hidden.stderr.contains("unshare") || hidden.stderr.contains("mount:") {
        return skipped(&format!("no mount namespace: {}", hidden.stderr.trim()));
    }
    fails(&hidden, &["sysfs is not mounted", "mount -t sysfs"]);
    let read_only = "mount -o remount,bind,ro / && exec \"$0\"";
    let out = alone(&format!("{read_only} demo --batch"));
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    let out = alone(&format!("{read_only} record -o /x.rtrace -d 1s"));
    fails(&out, &["/x.rtrace", "Read-only file system"]);
}

#[test]
fn tracefs_is_not_needed() {
    if !tracing() || !installed("unshare") {
        return;
    }
    let _alone = mount_namespaces();
    let disk = disk();
    let script = "for d in /sys/kernel/tracing /sys/kernel/debug; do mount -t tmpfs none $d; \
                  done; exec \"$0\" top \"$1\" --json -n1 -i0.1";
    let out = run(Command::new("unshare").args(["-m", "sh", "-c", script, EXE, &disk.name]));
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    json(&out.stdout).iter().for_each(contract);
}

/// Root without the capabilities for BPF, as in a container.
#[test]
fn root_without_capabilities() {
    if !tracing() || !installed("setpriv") {
        return;
    }
    let without = "-bpf,-perfmon,-sys_admin";
    let drop = format!("--bounding-set={without}");
    let args = [drop.as_str(), "--inh-caps=-all", "--", EXE, "top"];
    let disk = disk();
    let out = run(Command::new("setpriv").args(args).args([&disk.name, "-n1"]));
    fails(&out, &["missing: cap_bpf,cap_perfmon", "sudo setcap"]);
}

/// Direct reads of 4 KiB at random sectors of the second half of a disk, until dropped.
struct Reads {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Reads {
    fn start(disk: &Loop, bytes: u64) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let read = |seed: u64| {
            let mut options = File::options();
            options.read(true).custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
            let (file, end) = (options.open(disk.device()).unwrap(), Arc::clone(&end));
            thread::spawn(move || {
                let mut buffer = vec![0; 8192];
                let (at, mut random) = (buffer.as_ptr().align_offset(4096), seed);
                while !end.load(Relaxed) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                    let block = bytes / 8192 + (random >> 33) % (bytes / 8192);
                    file.read_exact_at(&mut buffer[at..at + 4096], block * 4096).unwrap();
                }
            })
        };
        Self { threads: [1, 3, 5, 7].map(read).into(), end }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        self.threads.drain(..).for_each(|t| t.join().unwrap());
    }
}

/// Requests that complete while the programs are reloaded are counted once: the kernel counts as
/// many as raidtrace, apart from those that it hides and `uncounted` has.
#[test]
fn a_reload_under_load_loses_no_request() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    for _ in 0..3 {
        let disk = Loop::new(64 * MIB);
        reloads(&disk, 1, || Reads::start(&disk, 64 * MIB));
    }
}

#[test]
#[ignore = "in tools/test --full"]
fn ten_reloads_at_full_load_lose_no_request() {
    if !tracing() || !installed("mke2fs") || !installed("fio") {
        return;
    }
    let disk = Loop::new(64 * MIB);
    let device = format!("--filename={}", disk.device());
    reloads(&disk, 10, || {
        let fio =
            ["--name=reads", &device, "--rw=randread", "--offset=32M", "--bs=4k", "--direct=1"];
        let engine = ["--ioengine=libaio", "--iodepth=64", "--numjobs=2", "--thread"];
        let endless = ["--time_based", "--runtime=1d", "--gtod_reduce=1", "--output=/dev/null"];
        Running(spawn(Command::new("fio").args(fio).args(engine).args(endless)))
    });
}

/// Formats the first half of a disk `times` times during a load on the other half, and compares
/// raidtrace's numbers of requests with the kernel's.
fn reloads<T>(disk: &Loop, times: usize, load: impl Fn() -> T) {
    /// Longer than the pauses after a reload, which then do not get longer (`Pace::reloaded()`).
    const PAUSE: Duration = Duration::from_secs(17);
    let (top, _) = Top::json(&["-i", "0.2", &disk.device()]);
    let (_, before) = until_idle(&top, &disk.name, None);
    let begun = Instant::now();
    let load = load();
    for time in 0..times {
        if time > 0 {
            thread::sleep(PAUSE);
        }
        // Another layout each time.
        let block = ["1024", "2048", "4096"][time % 3];
        tool("mke2fs", &["-q", "-F", "-b", block, "-E", "nodiscard", &disk.device(), "32M"]);
        top.says("tracing reloaded");
    }
    drop(load);
    let seconds = begun.elapsed().as_secs_f64();
    let (intervals, after) = until_idle(&top, &disk.name, None);
    let lost = |i: &Value| i["lost"]["uncounted"].as_u64().unwrap_or(0);
    let uncounted = intervals.iter().map(lost).sum::<u64>();
    let (kernel, counted) = (after - before, sum(&intervals, "*", "*", "requests"));
    let rate = kernel as f64 / seconds;
    println!(
        "{times} reloads: {kernel} requests, {counted} counted, {uncounted} uncounted, {rate:.0} \
         IOPS"
    );
    assert_eq!(kernel, counted + uncounted);
}
