//! `raidtrace record` as a process: content of the file, and ends of a recording with and without
//! errors.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{
    EXE, Loop, MIB, Output, Top, drop_caches, idle, installed, list, memory, raidtrace, run, tool,
    tracing, undisturbed, until,
};
use raidtrace::analysis::item::{Item, State, Submission};
use raidtrace::origin::{Op, Origin};
use raidtrace::recording::error::Ending;
use raidtrace::recording::reader::{Reader, WantedColumns};
use rustix::process::Signal;

/// Asserts status 1 and one error line with these words.
fn fails(out: &Output, says: &[&str]) {
    println!("{}", out.stderr.trim_end());
    assert_eq!(out.code(), Some(1), "{out:?}");
    let last = out.stderr.lines().last().unwrap();
    assert!(last.starts_with("raidtrace: "), "{out:?}");
    for word in says {
        assert!(last.contains(word), "{word}: {out:?}");
    }
    for never in ["panicked", "Os {", "RUST_BACKTRACE"] {
        assert!(!out.stderr.contains(never), "{out:?}");
    }
}

/// A recording that has been read.
#[derive(Debug)]
struct Recording {
    items: Vec<Item>,
    ending: Ending,
    /// Task names by pid.
    comms: BTreeMap<u32, String>,
    /// Paths by inode.
    paths: BTreeMap<u64, String>,
}

/// Kernel name of the array with this number in the last state.
fn reader_array(items: &[Item], number: u32) -> Option<String> {
    let state = items.iter().rev().find_map(|item| match item {
        Item::State(state) => Some(state),
        _ => None,
    })?;
    Some(state.arrays.get(number as usize)?.info.name.clone())
}

impl Recording {
    fn read(path: &Path) -> Self {
        Self::try_read(path).unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_read(path: &Path) -> Result<Self, String> {
        let mut reader =
            Reader::open(path, WantedColumns::Everything).map_err(|e| e.to_string())?;
        let mut items = Vec::new();
        let (mut comms, mut paths) = (BTreeMap::new(), BTreeMap::new());
        while let Some(item) = reader.next_item() {
            if let Item::Submission(s) = &item {
                let array = reader_array(&items, s.array);
                if let Some(info) = array.and_then(|name| reader.task(s.pid, &name)) {
                    comms.insert(s.pid, String::from_utf8_lossy(&info.comm).into_owned());
                }
                if let Some(id) = s.file
                    && let Some(path) = reader.file_location(&id).and_then(|p| p.path.clone())
                {
                    paths.insert(id.inode, String::from_utf8_lossy(&path).into_owned());
                }
            }
            items.push(item);
        }
        Ok(Self { ending: reader.ending().clone(), items, comms, paths })
    }

    fn states(&self) -> impl Iterator<Item = &State> {
        self.items.iter().filter_map(|i| match i {
            Item::State(state) => Some(&**state),
            _ => None,
        })
    }

    fn submissions(&self) -> impl Iterator<Item = &Submission> {
        self.items.iter().filter_map(|i| match i {
            Item::Submission(s) => Some(s),
            _ => None,
        })
    }

    /// Requests and bytes by member, origin and operation, in the form of the counters.
    fn cells(&self) -> BTreeMap<(u32, String, String), (u64, u64)> {
        let mut cells = BTreeMap::new();
        for item in &self.items {
            let (member, origin, op, requests, bytes) = match item {
                Item::Request(r) => (r.member, r.origin, r.op, 1, r.bytes),
                Item::Part(p) => (p.member, p.origin, p.op, 0, p.bytes),
                _ => continue,
            };
            let key = (member, origin.name().to_owned(), op.name().to_owned());
            let cell: &mut (u64, u64) = cells.entry(key).or_default();
            cell.0 += requests;
            cell.1 += u64::from(bytes);
        }
        cells
    }

    /// Bytes of file data written, according to the requests.
    fn written(&self) -> u64 {
        let cells = self.cells();
        let of = |((_, origin, op), (_, bytes)): (&(u32, String, String), &(u64, u64))| {
            if origin == "file_data" && op == "write" { *bytes } else { 0 }
        };
        cells.iter().map(of).sum()
    }
}

/// Asserts invariants of every recording.
fn check_invariants(recording: &Recording) {
    let first = recording.items.first().unwrap();
    assert!(matches!(first, Item::State(s) if !s.restart), "{first:?}");
    let mut latest = i64::MIN;
    for item in &recording.items {
        latest = latest.max(item.time_us());
        assert!(item.time_us() > latest - 2_000_000, "{item:?}");
        if let Item::Request(r) = item {
            assert!(r.bytes <= r.length, "{r:?}");
            assert!(r.array_sector.is_some() || r.length == 0, "{r:?}");
        }
    }
}

/// Starts `raidtrace record`, and waits until it records.
fn record(args: &[&str]) -> Top {
    let top = Top::start(Command::new(EXE).arg("record").args(args));
    top.says("raidtrace: recording ");
    top
}

fn disk() -> Loop {
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    disk.sync();
    idle(&disk.name);
    disk
}

/// Writes `count` times 4 KiB, one request each.
fn direct(path: &Path, count: usize) {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    let mut file = options.open(path).unwrap();
    let buffer = vec![b'd'; 8192];
    let at = buffer.as_ptr().align_offset(4096);
    for _ in 0..count {
        file.write_all(&buffer[at..at + 4096]).unwrap();
    }
}

/// Reads `path` repeatedly until `enough` accepts the content.
fn until_read(path: &Path, what: &str, enough: impl Fn(&Recording) -> bool) {
    until(&format!("{what} in {}", path.display()), || {
        Recording::try_read(path).is_ok_and(|recording| enough(&recording))
    });
}

fn parts(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut parts: Vec<PathBuf> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| {
            let other = p.file_name().unwrap().to_str().unwrap();
            other != name && other.starts_with(name)
        })
        .collect();
    parts.sort();
    parts
}

#[test]
fn invalid_usage_fails_before_programs_are_loaded() {
    let dir = memory();
    let there = dir.path().join("there");
    fs::write(&there, "precious").unwrap();
    let there = there.to_str().unwrap();
    for wrong in [
        &["record"][..],
        &["record", "-o", "/tmp/x", "--duration", "0"],
        &["record", "-o", "/tmp/x", "--buffer", "1"],
        &["record", "-o", "/tmp/x", "--rotate", "1", "--max-size", "1G"],
    ] {
        let out = raidtrace(wrong);
        assert_eq!(out.code(), Some(2), "{wrong:?} {out:?}");
    }
    if !common::root() {
        let out = raidtrace(&["record", "-o", there]);
        return fails(&out, &["root", "sudo raidtrace record"]);
    }
    let new = dir.path().join("new");
    let new = new.to_str().unwrap();
    let dir = dir.path().to_str().unwrap();
    for (args, says) in [
        (&["-o", there][..], &["exists", "--force"][..]),
        (&["-o", dir], &["is a directory"]),
        (&["-o", "/no/such/place"], &["/no/such", "No such file"]),
        (&["-o", "/dev/null", "--rotate", "1"], &["--rotate"]),
        (&["-o", new, "--", "/no/such"], &["no such command"]),
        (&["-o", new, "nosuchdisk"], &["nosuchdisk"]),
    ] {
        fails(&run(Command::new(EXE).arg("record").args(args)), says);
    }
    assert_eq!(fs::read(there).unwrap(), b"precious");
    assert!(!Path::new(new).exists());
}

#[test]
fn a_command_is_recorded_until_it_ends() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let script = r#"
        dd if=/dev/zero of="$1/big" bs=1M count=8 oflag=direct
        dd if=/dev/zero of="$1/small" bs=4k count=100 oflag=direct
        mkdir "$1/new"; echo words > "$1/new/words"; sync -f "$1"; exit 7"#;
    let out = run(Command::new(EXE)
        .args(["record", &disk.device(), "-o", file.to_str().unwrap(), "--"])
        .args(["bash", "-c", script, "bash", disk.mount.to_str().unwrap()]));
    assert_eq!(out.code(), Some(7), "{out:?}");
    assert!(out.stderr.contains("nothing was lost"), "{out:?}");
    let recording = Recording::read(&file);
    check_invariants(&recording);
    assert_eq!(recording.ending, Ending::Whole);
    assert_eq!(recording.written(), 8 * MIB + 100 * 4096 + 4096);

    let inode = |name: &str| fs::metadata(disk.mount.join(name)).unwrap().ino();
    let small = inode("small");
    let of_small =
        |i: &&Item| matches!(i, Item::Request(r) if r.file.is_some_and(|f| f.inode == small));
    let requests: Vec<&Item> = recording.items.iter().filter(of_small).collect();
    assert_eq!(requests.len(), 100);
    for item in requests {
        let Item::Request(r) = item else { continue };
        assert_eq!((r.op, r.origin, r.length), (Op::Write, Origin::FileData, 4096));
        assert_eq!(r.array_sector, Some(r.sector));
        assert!(r.device_us.is_some() && !r.error, "{r:?}");
        let comm = recording.comms.get(&r.pid.unwrap()).map(String::as_str);
        assert_eq!(comm, Some("dd"), "{r:?}");
    }
    let path = recording.paths.get(&small).map(PathBuf::from);
    assert_eq!(path, Some(disk.mount.join("small")));
    let journal = recording.submissions().filter(|s| s.origin == Origin::Journal);
    assert!(journal.count() > 0);
}

/// End of an interval.
fn time(interval: &serde_json::Value) -> jiff::Timestamp {
    interval["time"].as_str().unwrap().parse().unwrap()
}

/// The same requests, counted in the kernel and recorded one by one.
#[test]
fn a_recording_matches_top() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    // A file to be read from the disk, not from the cache.
    fs::write(disk.mount.join("read"), vec![b'r'; 300 * 1024]).unwrap();
    for n in 0..300 {
        fs::write(disk.mount.join(format!("old{n}")), "x").unwrap();
    }
    disk.sync();
    drop_caches("3");
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    let recorder = record(&[&disk.device(), "-o", file.to_str().unwrap()]);
    // On a busy machine, top counts some blocks that the recorder reads while it starts.
    idle(&disk.name);
    let since = jiff::Timestamp::now();
    while time(&serde_json::from_str(&top.line()).unwrap()) < since {}

    direct(&disk.mount.join("direct"), 500);
    assert_eq!(fs::read(disk.mount.join("read")).unwrap().len(), 300 * 1024);
    for n in 0..200 {
        fs::write(disk.mount.join(format!("f{n}")), vec![b'f'; 5000]).unwrap();
    }
    for n in 0..300 {
        fs::remove_file(disk.mount.join(format!("old{n}"))).unwrap();
    }
    tool("fstrim", &[disk.mount.to_str().unwrap()]);
    disk.sync();
    idle(&disk.name);
    let out = recorder.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stderr.contains("nothing was lost"), "{out:?}");
    let intervals = top.intervals();

    let recording = Recording::read(&file);
    check_invariants(&recording);
    let mut counted = BTreeMap::new();
    let (mut tasks, mut files) = (BTreeMap::new(), BTreeMap::new());
    let number = |v: &serde_json::Value, field: &str| v[field].as_u64().unwrap();
    let add = |sum: &mut (u64, u64), n: u64, bytes: u64| {
        sum.0 += n;
        sum.1 += bytes;
    };
    let text = |v: &serde_json::Value, field: &str| v[field].as_str().unwrap().to_owned();
    for interval in &intervals {
        assert_eq!(interval["lost"]["events"], 0, "{}", interval["lost"]);
        let array = &interval["arrays"][0];
        for cell in list(&array["members"][0]["io"]) {
            let key = (0, text(cell, "origin"), text(cell, "op"));
            let sum = counted.entry(key).or_default();
            add(sum, number(cell, "requests"), number(cell, "bytes"));
        }
        for task in list(&array["tasks"]) {
            for io in list(&task["io"]) {
                let key = (number(task, "pid"), text(io, "origin"), text(io, "op"));
                add(tasks.entry(key).or_default(), number(io, "bios"), number(io, "bytes"));
            }
        }
        for f in list(&array["files"]) {
            let key = (number(f, "inode"), text(f, "op"));
            add(files.entry(key).or_default(), number(f, "bios"), number(f, "bytes"));
        }
        // All files are listed one by one.
        assert_eq!(number(&array["files_rest"], "bytes"), 0);
    }
    assert!(counted.len() > 6, "{counted:#?}");
    assert_eq!(recording.cells(), counted);

    let (mut submitted, mut of_files) = (BTreeMap::new(), BTreeMap::new());
    for s in recording.submissions() {
        let (origin, op) = (s.origin.name().to_owned(), s.op.name().to_owned());
        let bytes = u64::from(s.length);
        let key = (u64::from(s.pid), origin, op.clone());
        add(submitted.entry(key).or_default(), 1, bytes);
        if let Some(id) = s.file {
            add(of_files.entry((id.inode, op)).or_default(), 1, bytes);
        }
    }
    assert_eq!(submitted, tasks);
    assert_eq!(of_files, files);
}

#[test]
fn signals_end_a_recording_cleanly() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let file = dir.path().join(format!("{signal:?}"));
        let recorder = record(&[disk.mount.to_str().unwrap(), "-o", file.to_str().unwrap()]);
        direct(&disk.mount.join("direct"), 10);
        let out = recorder.end(signal);
        assert_eq!(out.code(), Some(0), "{signal:?} {out:?}");
        assert!(out.stderr.contains("bytes a request"), "{out:?}");
        let recording = Recording::read(&file);
        check_invariants(&recording);
        assert_eq!(recording.ending, Ending::Whole, "{signal:?}");
        assert_eq!(recording.written(), 10 * 4096);
    }
}

/// `nohup raidtrace record &` in a script: SIGHUP, and SIGINT from the terminal, are ignored. A
/// logout does not end the recording; `kill -INT` does.
#[test]
fn nohup_survives_a_hangup() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let script = "trap '' HUP INT; exec \"$0\" record \"$1\" -o \"$2\"";
    let recorder = Top::start(Command::new("sh").args([
        "-c",
        script,
        EXE,
        &disk.device(),
        file.to_str().unwrap(),
    ]));
    recorder.says("raidtrace: recording ");
    recorder.signal(Signal::HUP);
    direct(&disk.mount.join("direct"), 50);
    until_read(&file, "writes", |r| r.written() == 50 * 4096);
    let out = recorder.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert_eq!(Recording::read(&file).ending, Ending::Whole);
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let top = Top::start(
        Command::new(EXE)
            .args(["record", &disk.device(), "-o", file.to_str().unwrap(), "--"])
            .args(["bash", "-c", script]),
    );
    assert_eq!(top.line(), "ready\n");
    let out = top.end(Signal::TERM);
    assert_eq!(out.code(), Some(5), "{out:?}");
    assert_eq!(Recording::read(&file).ending, Ending::Whole);
    // A command that is killed by a signal.
    let out = run(Command::new(EXE).args(["record", &disk.device(), "--force", "-o"]).args([
        file.to_str().unwrap(),
        "--",
        "bash",
        "-c",
        "kill -KILL $$",
    ]));
    assert_eq!(out.code(), Some(137), "{out:?}");
}

#[test]
fn time_and_size_limits_end_a_recording() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let path = file.to_str().unwrap();
    let out = raidtrace(&["record", &disk.device(), "-o", path, "--duration", "0.3s"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert_eq!(Recording::read(&file).ending, Ending::Whole);

    let recorder = record(&[&disk.device(), "-o", path, "--force", "--max-size", "40K"]);
    let written = std::thread::scope(|threads| {
        let ended = threads.spawn(|| recorder.ends());
        let mut count = 0;
        while !ended.is_finished() {
            direct(&disk.mount.join("direct"), 100);
            count += 100;
        }
        assert_eq!(ended.join().unwrap().code(), Some(0));
        count
    });
    let recording = Recording::read(&file);
    assert_eq!(recording.ending, Ending::Whole);
    assert!(recording.written() > 0, "{written}");
    assert!(fs::metadata(&file).unwrap().len() >= 40 << 10);
}

#[test]
fn recording_to_a_pipe() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let out = run(Command::new("bash").args([
        "-c",
        r#""$0" record "$1" -o - -- bash -c \
            'echo words; exec dd if=/dev/zero of="$0" bs=64k count=4 oflag=direct' "$2/x" |
            cat > "$3"; exit ${PIPESTATUS[0]}"#,
        EXE,
        &disk.device(),
        disk.mount.to_str().unwrap(),
        file.to_str().unwrap(),
    ]));
    assert_eq!(out.code(), Some(0), "{out:?}");
    let recording = Recording::read(&file);
    assert_eq!(recording.ending, Ending::Whole);
    assert_eq!(recording.written(), 256 << 10);
    assert!(out.stderr.contains("words"), "{out:?}");
    // A reader that closes the pipe early.
    let out = run(Command::new("bash").args([
        "-c",
        r#""$0" record "$1" -o - --duration 3 | head -c 10 | wc -c; exit ${PIPESTATUS[0]}"#,
        EXE,
        &disk.device(),
    ]));
    assert_eq!((out.code(), out.stdout.trim()), (Some(0), "10"), "{out:?}");
}

/// The recording cannot be finished because the pipe is not read.
#[test]
fn a_second_signal_ends_record_immediately() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let fifo = dir.path().join("fifo");
    tool("mkfifo", &[fifo.to_str().unwrap()]);
    let recorder = Top::start(Command::new(EXE).args([
        "record",
        &disk.device(),
        "-o",
        fifo.to_str().unwrap(),
    ]));
    let mut pipe = fs::File::open(&fifo).unwrap();
    let begun = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // A state comes every second.
        threads.spawn(|| {
            let mut some = [0; 4096];
            while !begun.load(Ordering::Relaxed) {
                assert!(pipe.read(&mut some).unwrap() > 0);
            }
        });
        recorder.says("raidtrace: recording ");
        begun.store(true, Ordering::Relaxed);
    });
    // Write far more than the 64 KiB of a pipe.
    for _ in 0..4 {
        direct(&disk.mount.join("direct"), 5000);
    }
    // Its pid is not reused: the process has not been waited for.
    let stat = format!("/proc/{}/stat", recorder.pid());
    until("end of the recorder", || {
        recorder.signal(Signal::TERM);
        // Part of the test: a signal within 100 ms is a repetition.
        std::thread::sleep(Duration::from_millis(150));
        fs::read_to_string(&stat).unwrap().contains(") Z ")
    });
    let out = recorder.ends();
    assert_eq!(out.status.signal(), Some(15), "{out:?}");
}

#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    for rotate in [false, true] {
        let file = dir.path().join(format!("{rotate}.rtrace"));
        let mut args = vec![disk.mount.to_str().unwrap(), "-o", file.to_str().unwrap()];
        if rotate {
            args.extend(["--rotate", "10", "--force"]);
            fs::write(&file, "what was there").unwrap();
        }
        let recorder = record(&args);
        direct(&disk.mount.join("direct"), 50);
        until_read(&file, "writes", |r| r.written() == 50 * 4096);
        let out = recorder.end(Signal::KILL);
        assert_eq!(out.code(), None);
        let recording = Recording::read(&file);
        check_invariants(&recording);
        assert_eq!(recording.written(), 50 * 4096);
        assert!(matches!(recording.ending, Ending::CutShort { .. }));
        assert_eq!((file.exists(), parts(&file).len()), (!rotate, usize::from(rotate)));
        // The next recording does not replace it without --force.
        let out = raidtrace(&["record", &disk.device(), "-o", file.to_str().unwrap()]);
        fails(&out, &["--force"]);
    }
}

/// No thread keeps what root has, such as SYS_MODULE and SYS_PTRACE.
#[test]
fn threads_have_few_capabilities() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let recorder = record(&[&disk.device(), "-o", file.to_str().unwrap()]);
    // Capabilities are raised for moments, to look up paths of files.
    until("threads with few capabilities", || {
        let all = recorder.threads();
        all.iter().any(|t| t.name == "raidtrace:write")
            && all.iter().all(|t| {
                let allowed = match t.name.as_str() {
                    "raidtrace" => 1 << 5 | 1 << 1, // KILL, DAC_OVERRIDE
                    "raidtrace:write" => 1 << 1,
                    "signals" | "mdstat" => 0,
                    "raidtrace:paths" => 1 << 2,
                    "overhead" => 1 << 21 | 1 << 39,
                    // DAC_OVERRIDE, to name the complete file.
                    _ => 0xc4_01a8_0006,
                };
                let writes = matches!(t.name.as_str(), "raidtrace" | "raidtrace:write");
                t.no_new_privs && t.permitted & !allowed == 0 && (writes || t.opens_nothing())
            })
    });
    assert_eq!(recorder.end(Signal::TERM).code(), Some(0));
}

#[test]
fn a_full_disk() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (disk, dir) = (disk(), memory());
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=48k", "none"];
    tool("mount", &[&mount[..], &[small.to_str().unwrap()]].concat());
    let file = small.join("a.rtrace");
    let recorder = record(&[&disk.device(), "-o", file.to_str().unwrap()]);
    let out = std::thread::scope(|threads| {
        let ended = threads.spawn(|| recorder.ends());
        while !ended.is_finished() {
            direct(&disk.mount.join("direct"), 200);
        }
        ended.join().unwrap()
    });
    let recording = Recording::try_read(&file);
    // No space even for the header.
    let out_at_once = run(Command::new("bash").args([
        "-c",
        r#"rm "$2"/a.rtrace; dd if=/dev/zero of="$2"/fill bs=4k 2> /dev/null
            "$0" record "$1" -o "$2"/b.rtrace; s=$?; ls "$2"; exit $s"#,
        EXE,
        &disk.device(),
        small.to_str().unwrap(),
    ]));
    tool("umount", &[small.to_str().unwrap()]);
    fails(&out, &["No space left", "is readable up to that point"]);
    let recording = recording.unwrap();
    check_invariants(&recording);
    assert!(recording.ending.is_cut(), "{:?}", recording.ending);
    fails(&out_at_once, &["No space left", "b.rtrace"]);
    assert_eq!(out_at_once.stdout, "fill\n");
}

#[test]
fn the_last_minutes_are_kept() {
    if tracing() && installed("mke2fs") {
        undisturbed(last_minutes);
    }
}

/// `None` if the machine was stopped: before the end of the recording, so that the last writes may
/// have expired, or while the oldest part was begun.
fn last_minutes() -> Option<()> {
    const KEPT: Duration = Duration::from_secs(3);
    let (disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    fs::write(dir.path().join("a.rtrace.0007.part"), "old").unwrap();
    // Keep three seconds, in parts of one second.
    let recorder =
        record(&[&disk.device(), "-o", file.to_str().unwrap(), "--rotate", "0.05", "--force"]);
    direct(&disk.mount.join("first"), 20);
    until_read(&file, "first writes", |r| r.written() == 20 * 4096);
    let mut most = 0;
    until("removal of the first part", || {
        most = most.max(parts(&file).len());
        !dir.path().join("a.rtrace.0001.part").exists()
    });
    // No part is shorter than a second, so a delay makes them fewer.
    assert!((1..=6).contains(&most), "{most}");
    // The first writes may be in the second part.
    until_read(&file, "parts without the first writes", |r| r.written() == 0);
    let begun = Instant::now();
    direct(&disk.mount.join("last"), 30);
    idle(&disk.name);
    let out = recorder.end(Signal::INT);
    let passed = begun.elapsed();
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert_eq!(parts(&file), [] as [PathBuf; 0]);
    let recording = Recording::read(&file);
    check_invariants(&recording);
    assert_eq!(recording.ending, Ending::Whole);
    if recording.written() != 30 * 4096 && passed > KEPT {
        return None;
    }
    assert_eq!(recording.written(), 30 * 4096);
    let times = recording.items.iter().map(Item::time_us);
    let span = times.clone().max().unwrap() - times.min().unwrap();
    assert!(recording.states().count() > 1);
    (span >= KEPT.as_micros() as i64).then_some(())
}

#[test]
fn a_new_filesystem_restarts_tracing() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let (mut disk, dir) = (disk(), memory());
    let file = dir.path().join("a.rtrace");
    let recorder = record(&[&disk.device(), "-o", file.to_str().unwrap()]);
    direct(&disk.mount.join("before"), 10);
    disk.umount();
    let options = ["-q", "-F", "-b", "1024", "-E", "lazy_itable_init=0"];
    tool("mke2fs", &[&options[..], &[disk.device().as_str()]].concat());
    disk.mount();
    until_read(&file, "restart", |r| r.states().any(|s| s.restart));
    direct(&disk.mount.join("after"), 10);
    idle(&disk.name);
    let out = recorder.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let recording = Recording::read(&file);
    check_invariants(&recording);
    let restart = |i: &Item| matches!(i, Item::State(s) if s.restart);
    let at = recording.items.iter().position(restart).unwrap();
    let written = |items: &[Item]| {
        let of = |i: &Item| match i {
            Item::Request(r) if r.origin == Origin::FileData && r.op == Op::Write => {
                u64::from(r.bytes)
            }
            _ => 0,
        };
        items.iter().map(of).sum::<u64>()
    };
    assert_eq!(written(&recording.items[at..]), 10 * 4096);
    assert!(written(&recording.items[..at]) >= 10 * 4096);
    let note = |i: &Item| matches!(i, Item::Note { text, .. } if text.contains("tracing reloaded"));
    assert!(recording.items.iter().any(note));
}

#[test]
fn a_recording_on_the_recorded_disk() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = disk();
    let file = disk.mount.join("a.rtrace");
    let args = ["record", &disk.device(), "-d", "0.2", "-o"];
    let out = raidtrace(&[&args[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stderr.contains("the recording includes its own writes"), "{out:?}");
}
