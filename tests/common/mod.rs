//! Helpers of the tests that run the binary: processes with a deadline, their output, and loop
//! devices to trace.
//!
//! Processes, mounts and devices are cleaned up on drop, so that a failed test leaves nothing
//! behind.

#![allow(dead_code, unused_imports, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

mod process;
mod watch;
pub use process::{children, spawn, until};
use process::{lines, rest};
pub use watch::{Counted, Watch, Witness, undisturbed, until_idle};

/// Path of the raidtrace binary.
pub const EXE: &str = env!("CARGO_BIN_EXE_raidtrace");

pub const MIB: u64 = 1 << 20;

/// Time limit of every wait. It is far longer than any step takes on an overloaded machine, so
/// exceeding it means a hang.
pub const DEADLINE: Duration = Duration::from_secs(300);

/// Reports that a test did not run. `tools/test` counts lines that start with `skipped:`.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A Python that has `module`: the system's, or the one that RAIDTRACE_PYTHON names.
pub fn python(module: &str) -> Option<PathBuf> {
    let named = std::env::var_os("RAIDTRACE_PYTHON").map(PathBuf::from);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    let all = named.into_iter().chain([own, PathBuf::from("python3")]);
    let mut has = all.filter(|python| {
        let mut import = Command::new(python);
        import.args(["-c", &format!("import {module}")]);
        import.output().is_ok_and(|out| out.status.success())
    });
    has.next()
}

/// Checks each line of `text` with `python` against docs/schemas/NAME.json.
pub fn check_schema(python: &Path, name: &str, text: &str) {
    let home = env!("CARGO_MANIFEST_DIR");
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines");
    fs::write(&lines, text).unwrap();
    let mut check = Command::new(python);
    check.arg(format!("{home}/tests/schemas/check.py"));
    check.arg(format!("{home}/docs/schemas/{name}.json")).arg(lines);
    let out = run(&mut check);
    assert_eq!(out.code(), Some(0), "{name}: {out:?}");
    assert!(!text.is_empty(), "{name}");
}

/// Exit status and output of a finished process.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// Runs `command` until it exits, without input. Panics at the deadline.
pub fn run(command: &mut Command) -> Output {
    run_from(Stdio::null(), command)
}

/// Runs `command` until it exits, with `stdin`. Panics at the deadline.
pub fn run_from(stdin: Stdio, command: &mut Command) -> Output {
    command.stdin(stdin);
    let mut child = Running(spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())));
    let out = lines(child.0.stdout.take().unwrap());
    let err = lines(child.0.stderr.take().unwrap());
    let status = child.wait();
    Output { status, stdout: rest(&out), stderr: rest(&err) }
}

/// Option of `tools/fleet` for its generator, if `tools/test` has built it. Within a test, cargo
/// would build the library again, with the variables of a test in the environment.
pub fn generator() -> Vec<String> {
    let built = Path::new(EXE).with_file_name("examples").join("fleet");
    if !built.exists() {
        return Vec::new();
    }
    vec!["--generator".to_owned(), built.display().to_string()]
}

/// Runs `raidtrace ARGS` until it exits.
pub fn raidtrace(args: &[&str]) -> Output {
    run(Command::new(EXE).args(args).env("TZ", "UTC"))
}

/// Lock for tests that create mount namespaces or unmount filesystems: the copy of a mount in a
/// namespace keeps the filesystem in use after another test has unmounted it.
#[must_use]
pub fn mount_namespaces() -> fs::File {
    lock("mount-namespaces", FlockOperation::LockExclusive)
}

/// Lock for tests that compare reads with exact numbers of blocks: [`drop_caches`] waits until it
/// is released, because blocks dropped from the cache are read again.
#[must_use]
pub fn keep_caches() -> fs::File {
    lock("caches", FlockOperation::LockShared)
}

/// Drops clean cached data of the whole machine: `what` is written to /proc/sys/vm/drop_caches. The
/// caller must not hold [`keep_caches`].
pub fn drop_caches(what: &str) {
    let _alone = lock("caches", FlockOperation::LockExclusive);
    fs::write("/proc/sys/vm/drop_caches", what).unwrap();
}

/// Lock for tests that change the writeback settings of the machine (/proc/sys/vm/dirty_*).
#[must_use]
pub fn writeback_settings() -> fs::File {
    lock("writeback", FlockOperation::LockExclusive)
}

/// Lock for tests that depend on the machine's own writeback settings.
#[must_use]
pub fn default_writeback() -> fs::File {
    lock("writeback", FlockOperation::LockShared)
}

/// A lock shared by all test programs, held until the file is dropped.
fn lock(name: &str, operation: FlockOperation) -> fs::File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.lock"));
    let file = fs::File::create(path).unwrap();
    rustix::fs::flock(&file, operation).unwrap();
    file
}

/// Sets the flag when dropped, so that a thread that waits for it ends even if the test fails.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An address of this machine that no other test uses. Ports of 127.0.0.1 are given to other
/// processes as soon as they are free.
pub fn loopback_address() -> std::net::Ipv4Addr {
    static NUMBER: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    std::net::Ipv4Addr::new(127, NUMBER.fetch_add(1, Ordering::Relaxed), high, low)
}

/// Comm of the calling thread, as the kernel reports it.
pub fn own_comm() -> String {
    fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end_matches('\n').to_owned()
}

/// Runs another program, which must succeed. Returns its stdout.
pub fn tool(program: &str, args: &[&str]) -> String {
    let out = run(Command::new(program).args(args));
    assert!(out.status.success(), "{program} {args:?}: {}", out.stderr);
    out.stdout
}

/// True if a program is installed. Otherwise reports the test as skipped.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/sbin", "/usr/sbin"].map(PathBuf::from))
        .any(|dir| dir.join(program).exists());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

/// True if the test runs as root. Otherwise reports the test as skipped.
pub fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped("needs root");
    }
    root
}

/// True if raidtrace can trace on this kernel. Otherwise reports the test as skipped.
pub fn tracing() -> bool {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    if !root() {
        return false;
    }
    let refused = REFUSED.get_or_init(|| {
        let disk =
            fs::read_dir("/sys/block").ok()?.next()?.ok()?.file_name().into_string().unwrap();
        let out = raidtrace(&["top", &disk, "--json", "-n1", "-i0.1"]);
        let refused = ["refused", "describe its types", "tracepoint"];
        (out.code() == Some(1) && refused.iter().any(|w| out.stderr.contains(w)))
            .then_some(out.stderr)
    });
    if let Some(why) = refused {
        skipped(&format!("BPF refused: {}", why.trim()));
    }
    refused.is_none()
}

/// A child process, which is killed on drop.
pub struct Running(pub Child);

impl Running {
    /// Waits until the process exits. Panics at the deadline.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("end of the process", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A thread of a process, from /proc/PID/task/TID/status.
#[derive(Debug)]
pub struct Thread {
    pub name: String,
    /// CapPrm
    pub permitted: u64,
    /// CapEff
    pub effective: u64,
    /// Effective user id.
    pub uid: u32,
    pub no_new_privs: bool,
}

impl Thread {
    /// True if the capabilities to open files of others, to see the kernel's symbols and other
    /// processes, and of an administrator are not effective: DAC_OVERRIDE, DAC_READ_SEARCH, SYSLOG,
    /// SYS_PTRACE, SYS_ADMIN.
    pub fn opens_nothing(&self) -> bool {
        self.effective & (1 << 1 | 1 << 2 | 1 << 34 | 1 << 21 | 1 << 19) == 0
    }
}

/// A running `raidtrace top`, or another command of raidtrace.
pub struct Top {
    process: Running,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Top {
    /// Starts `top --json` and waits for its first line, which it prints when all programs are
    /// attached.
    pub fn json(args: &[&str]) -> (Self, Value) {
        let top = Self::start(Command::new(EXE).args(["top", "--json"]).args(args));
        let first = top.line();
        let first = serde_json::from_str(&first).unwrap_or_else(|e| panic!("{e}: {first}"));
        (top, first)
    }

    pub fn start(command: &mut Command) -> Self {
        let mut child =
            spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        Self {
            out: lines(child.stdout.take().unwrap()),
            err: lines(child.stderr.take().unwrap()),
            process: Running(child),
        }
    }

    /// All threads of the process.
    pub fn threads(&self) -> Vec<Thread> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.0.id())).unwrap();
        let read = |task: std::io::Result<fs::DirEntry>| {
            let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let value = |name: &str| {
                let line = status.lines().find_map(|l| l.strip_prefix(name));
                line.map(|l| l.trim().to_owned())
            };
            Some(Thread {
                name: value("Name:")?,
                permitted: u64::from_str_radix(&value("CapPrm:")?, 16).ok()?,
                effective: u64::from_str_radix(&value("CapEff:")?, 16).ok()?,
                uid: value("Uid:")?.split_whitespace().nth(1)?.parse().ok()?,
                no_new_privs: value("NoNewPrivs:")? == "1",
            })
        };
        tasks.filter_map(read).collect()
    }

    /// The next line.
    pub fn line(&self) -> String {
        match self.out.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no line for {DEADLINE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("raidtrace exited: {}", rest(&self.err)),
        }
    }

    /// Waits for a line on stderr that contains `what`, and returns it.
    pub fn says(&self, what: &str) -> String {
        let mut before = String::new();
        loop {
            match self.err.recv_timeout(DEADLINE) {
                Ok(line) if line.contains(what) => return line,
                Ok(line) => before.push_str(&line),
                Err(why) => panic!("{why}: no {what:?} on stderr, only: {before}"),
            }
        }
    }

    /// Waits until the process exits. Returns the output that has not been read yet.
    pub fn ends(mut self) -> Output {
        let status = self.process.wait();
        Output { status, stdout: rest(&self.out), stderr: rest(&self.err) }
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the process has installed a handler for `signal`.
    pub fn catches(&self, signal: Signal) {
        let status = format!("/proc/{}/status", self.process.0.id());
        let caught = || {
            let text = fs::read_to_string(&status).unwrap();
            let mask = text.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
        };
        until(&format!("handler for {signal:?}"), caught);
    }

    /// Sends a signal and waits until the process exits. Returns the output that has not been read
    /// yet.
    pub fn end(self, signal: Signal) -> Output {
        self.signal(signal);
        self.ends()
    }

    /// Ends a `--json` run with SIGINT. Returns the remaining intervals; the last one is shorter
    /// than the others.
    pub fn intervals(self) -> Vec<Value> {
        let out = self.end(Signal::INT);
        assert_eq!(out.code(), Some(0), "{}", out.stderr);
        json(&out.stdout)
    }
}

/// Parses each line as JSON.
pub fn json(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// The `io` entries of all members, with the member's name.
pub fn cells(intervals: &[Value]) -> Vec<(&str, &Value)> {
    let mut cells = Vec::new();
    for array in intervals.iter().flat_map(|i| list(&i["arrays"])) {
        for member in list(&array["members"]) {
            let name = member["name"].as_str().unwrap();
            cells.extend(list(&member["io"]).iter().map(|c| (name, c)));
        }
    }
    cells
}

pub fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// Sum of `field` over all cells of an origin and an operation; `*` matches any.
pub fn sum(intervals: &[Value], origin: &str, op: &str, field: &str) -> u64 {
    let is = |c: &Value, what: &str, wanted: &str| wanted == "*" || c[what] == wanted;
    cells(intervals)
        .iter()
        .filter(|(_, c)| is(c, "origin", origin) && is(c, "op", op))
        .map(|(_, c)| c[field].as_u64().unwrap())
        .sum()
}

/// Requests and bytes by origin and operation as text, for the log of a failed test.
pub fn table(intervals: &[Value]) -> String {
    let mut rows = std::collections::BTreeMap::new();
    for (_, c) in cells(intervals) {
        let key = format!("{} {}", c["origin"], c["op"]);
        let row: &mut (u64, u64) = rows.entry(key).or_default();
        row.0 += c["requests"].as_u64().unwrap();
        row.1 += c["bytes"].as_u64().unwrap();
    }
    let row = |(k, (r, b)): (&String, &(u64, u64))| format!("{k}: {r} requests, {b} bytes\n");
    rows.iter().map(row).collect()
}

/// Requests that a disk has completed (reads, writes, discards and flushes), and requests in
/// flight, from its `stat` file.
fn requests(disk: &str) -> (u64, u64) {
    let text = fs::read_to_string(format!("/sys/block/{disk}/stat")).unwrap();
    let field: Vec<u64> = text.split_whitespace().map(|w| w.parse().unwrap()).collect();
    ([0, 4, 11, 15].iter().filter_map(|i| field.get(*i)).sum(), field[8])
}

/// Requests that a disk has completed.
pub fn completed(disk: &str) -> u64 {
    requests(disk).0
}

/// Waits until a disk has completed no request and has none in flight in 20 readings, at least
/// 0.4 s. Readings are counted instead of time, because the whole machine may have been stopped
/// between two of them. Returns [`completed`].
pub fn idle(disk: &str) -> u64 {
    let (mut last, mut same) = (completed(disk), 0);
    let start = Instant::now();
    while same < 20 {
        assert!(start.elapsed() < DEADLINE, "{disk} is never idle");
        std::thread::sleep(Duration::from_millis(20));
        let (now, in_flight) = requests(disk);
        same = if now == last && in_flight == 0 { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// A directory on tmpfs if there is one, so that files in it cause no disk IO.
pub fn memory() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() { shm } else { Path::new("/tmp") };
    tempfile::Builder::new().prefix("raidtrace-").tempdir_in(dir).unwrap()
}

/// A loop device backed by a file in [`memory`], mounted or not.
pub struct Loop {
    /// Kernel name, as `loop3`.
    pub name: String,
    /// Mount point.
    pub mount: PathBuf,
    /// Backing file.
    pub image: PathBuf,
    mounted: bool,
    attached: bool,
    _dir: tempfile::TempDir,
}

impl Loop {
    pub fn new(bytes: u64) -> Self {
        let dir = memory();
        let (image, mount) = (dir.path().join("image"), dir.path().join("mnt"));
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        fs::create_dir(&mount).unwrap();
        let device = tool("losetup", &["-f", "--show", image.to_str().unwrap()]);
        Self {
            name: device.trim().trim_start_matches("/dev/").to_owned(),
            mount,
            image,
            mounted: false,
            attached: true,
            _dir: dir,
        }
    }

    /// A mounted new filesystem. It is initialised completely, so that ext4lazyinit writes nothing
    /// during a test.
    pub fn ext4(bytes: u64, options: &[&str]) -> Self {
        let mut new = Self::new(bytes);
        let all = "lazy_itable_init=0,lazy_journal_init=0";
        let mut args = vec!["-q", "-F", "-E", all];
        if !options.contains(&"-t") {
            args.extend(["-t", "ext4"]);
        }
        args.extend(options);
        let device = new.device();
        args.push(&device);
        tool("mke2fs", &args);
        new.mount();
        new
    }

    pub fn device(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Mounts the filesystem, with `no_prefetch_block_bitmaps` if the kernel has that option:
    /// otherwise ext4lazyinit reads block bitmaps up to 5 s after the mount, in the middle of a
    /// test.
    pub fn mount(&mut self) {
        let device = self.device();
        let how = [&device, self.mount.to_str().unwrap()];
        let quiet = ["-o", "no_prefetch_block_bitmaps"];
        let out = run(Command::new("mount").args(quiet).args(how));
        if !out.status.success() {
            tool("mount", &how);
        }
        self.mounted = true;
    }

    pub fn umount(&mut self) {
        tool("umount", &[self.mount.to_str().unwrap()]);
        self.mounted = false;
    }

    pub fn detach(&mut self) {
        tool("losetup", &["-d", &self.device()]);
        self.attached = false;
    }

    /// Writes all dirty data and metadata to the disk (syncfs).
    pub fn sync(&self) {
        let file = fs::File::open(&self.mount).unwrap();
        rustix::fs::syncfs(file).unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let quiet = |program: &str, args: &[&str]| {
            let _ = Running(spawn(Command::new(program).args(args).stderr(Stdio::null()))).0.wait();
        };
        if self.mounted {
            quiet("umount", &["-l", self.mount.to_str().unwrap_or_default()]);
        }
        if self.attached {
            quiet("losetup", &["-d", &self.device()]);
        }
    }
}
