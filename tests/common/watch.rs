//! Counts a disk's requests with raidtrace and with the kernel's statistics, between two points in
//! time at which the disk is idle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use super::{DEADLINE, Output, Top, completed, idle, json};

/// A `raidtrace top` of one disk, and the kernel's statistics of that disk at the start.
pub struct Watch {
    top: Top,
    disk: String,
    before: u64,
    witness: Option<Witness>,
}

/// Requests between two idle points, counted by raidtrace and by the kernel.
pub struct Counted {
    /// Intervals since the first idle point.
    pub intervals: Vec<Value>,
    /// Completed requests according to `/sys/block/DISK/stat`.
    pub kernel: u64,
}

impl Watch {
    /// Waits for an idle point. Later intervals contain all IO after this call, and no earlier IO.
    pub fn new(top: Top, disk: &str) -> Self {
        let witness = Witness::new(disk);
        let (_, before) = until_idle(&top, disk, witness.as_ref());
        Self { top, disk: disk.to_owned(), before, witness }
    }

    /// Ends raidtrace with SIGINT when the disk is idle again. `None` if the kernel hid requests
    /// from raidtrace ([`check`]).
    pub fn end(self) -> Option<Counted> {
        let (intervals, after) = until_idle(&self.top, &self.disk, None);
        let out = self.top.end(Signal::INT);
        assert_eq!(out.code(), Some(0), "{}", out.stderr);
        check(intervals, after - self.before, self.witness)
    }

    /// Ends raidtrace with a signal at once, while an interval may be incomplete.
    pub fn end_at_once(self, signal: Signal) -> (Output, Option<Counted>) {
        let out = self.top.end(signal);
        let after = idle(&self.disk);
        let counted = check(json(&out.stdout), after - self.before, self.witness);
        (out, counted)
    }
}

/// Waits for an interval in which the disk was idle. Returns the intervals up to it, and the
/// kernel's count.
///
/// The kernel's statistics can lag behind the completions that raidtrace counts, and raidtrace's
/// output lags too. If the count is the same before and after a whole interval, neither lags.
pub fn until_idle(top: &Top, disk: &str, witness: Option<&Witness>) -> (Vec<Value>, u64) {
    let start = Instant::now();
    let mut lines = Vec::new();
    loop {
        let before = completed(disk);
        if let Some(witness) = witness {
            witness.forget();
        }
        let begun = jiff::Timestamp::try_from(SystemTime::now()).unwrap();
        let mut next = || {
            lines.push(json(&top.line()).remove(0));
            lines[lines.len() - 1]["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
        };
        // `time` is the end of an interval in whole seconds, so only the interval after the first
        // later one is entirely after `begun`.
        while next() <= begun {}
        next();
        if completed(disk) == before {
            return (lines, before);
        }
        assert!(start.elapsed() < DEADLINE, "{disk} is never idle");
    }
}

/// Compares raidtrace's count with the kernel's. `None` if requests that the kernel hid from BPF
/// explain the difference: repeat the test.
///
/// Kernels of some sandboxes run no raw tracepoint program while init (tgid 1) is the current task,
/// not even in an interrupt that completes another task's request (`bpf_trace_run3` of such a 6.18
/// compares `current->tgid` with 1, before it counts misses). The disk statistics have such
/// requests, but no BPF program sees them. The events of the tracepoint in tracefs show how many
/// there were.
fn check(intervals: Vec<Value>, kernel: u64, witness: Option<Witness>) -> Option<Counted> {
    let ours = super::sum(&intervals, "*", "*", "requests");
    if let Some(witness) = &witness {
        println!("issued by: {:?}", witness.issuers());
    }
    let hidden = witness.map_or(0, |w| w.over_init(COMPLETE));
    if (1..=hidden).contains(&kernel.saturating_sub(ours)) {
        println!(
            "{ours} of {kernel} requests, and {hidden} completed while init was the current task: \
             repeating the test"
        );
        return None;
    }
    Some(Counted { intervals, kernel })
}

/// Repeats a test while it returns `None`: while the kernel hides requests from raidtrace, or while
/// a limit of time that is part of the product was exceeded, because the machine was stopped.
pub fn undisturbed(mut test: impl FnMut() -> Option<()>) {
    let start = Instant::now();
    while test().is_none() {
        assert!(start.elapsed() < 2 * DEADLINE, "every run was disturbed");
    }
}

const ISSUE: &str = "block_rq_issue";
const COMPLETE: &str = "block_rq_complete";

/// Trace of a disk's requests in its own tracefs instance. It has all requests, also those hidden
/// from BPF.
pub struct Witness(PathBuf);

impl Witness {
    /// Starts the trace of a disk (not a partition). `None` without tracefs.
    pub fn new(disk: &str) -> Option<Self> {
        let number = fs::read_to_string(format!("/sys/block/{disk}/dev")).ok()?;
        let (major, minor) = number.trim().split_once(':').unwrap();
        let dev = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
        let instances = Path::new("/sys/kernel/tracing/instances");
        // Remove instances of tests that were killed.
        for entry in fs::read_dir(instances).ok()?.flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let pid = name.strip_prefix("raidtrace-test-").and_then(|n| n.split('-').next());
            if pid.is_some_and(|p| !Path::new("/proc").join(p).exists()) {
                let _ = fs::remove_dir(entry.path());
            }
        }
        let dir = instances.join(format!("raidtrace-test-{}-{disk}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let witness = Self(dir);
        let _ = fs::write(witness.0.join("options/record-tgid"), "1");
        for event in [ISSUE, COMPLETE] {
            let event = witness.0.join("events/block").join(event);
            fs::write(event.join("filter"), format!("dev == {dev}")).ok()?;
            fs::write(event.join("enable"), "1").ok()?;
        }
        Some(witness)
    }

    fn forget(&self) {
        fs::write(self.0.join("trace"), "").unwrap();
    }

    /// True if a request was issued or completed while init was the current task, so that raidtrace
    /// may have missed it.
    pub fn any_over_init(&self) -> bool {
        self.over_init(ISSUE) + self.over_init(COMPLETE) > 0
    }

    /// Number of events while a thread of init was the current task. A line starts with "%16s-%-7d
    /// (%7d)": comm, pid, tgid.
    fn over_init(&self, event: &str) -> u64 {
        let number = |bytes: &[u8]| {
            let digits = bytes.trim_ascii().split(|b| !b.is_ascii_digit()).next()?;
            std::str::from_utf8(digits).ok()?.parse::<u32>().ok()
        };
        let of_init = |line: &Vec<u8>| {
            let pid = line.get(17..).and_then(number);
            let tgid = line.get(26..).and_then(number);
            tgid == Some(1) || pid.is_some_and(|p| Path::new(&format!("/proc/1/task/{p}")).exists())
        };
        self.lines(event).iter().filter(|l| of_init(l)).count() as u64
    }

    /// Number of requests issued by each task, for the log of a failed test: another program may
    /// have read the disk.
    fn issuers(&self) -> BTreeMap<String, u64> {
        let mut issuers = BTreeMap::new();
        for line in self.lines(ISSUE) {
            let comm = String::from_utf8_lossy(line.get(..16).unwrap_or_default());
            *issuers.entry(comm.trim().to_owned()).or_default() += 1;
        }
        issuers
    }

    fn lines(&self, event: &str) -> Vec<Vec<u8>> {
        let text = fs::read(self.0.join("trace")).unwrap();
        let event = format!(": {event}: ");
        let of_event = |line: &&[u8]| line.windows(event.len()).any(|w| w == event.as_bytes());
        text.split(|b| *b == b'\n').filter(of_event).map(<[u8]>::to_vec).collect()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/enable"), "0");
        // rmdir can fail with EBUSY while the kernel still uses the instance.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
