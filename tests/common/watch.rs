//! Raidtrace's count of a disk's requests and the kernel's own, from one quiet moment to another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use super::{DEADLINE, Output, Top, completed, idle, json};

/// A `raidtrace top` and the count of the one disk that it looks at.
pub struct Watch {
    top: Top,
    disk: String,
    before: u64,
    witness: Option<Witness>,
}

/// What both have counted.
pub struct Counted {
    /// The lines, without those from before.
    pub intervals: Vec<Value>,
    /// `/sys/block/*/stat`: requests.
    pub kernel: u64,
}

impl Watch {
    /// Counts from here on: what is done to the disk from now on is in the lines to come, and nothing else is.
    pub fn new(top: Top, disk: &str) -> Self {
        let witness = Witness::new(disk);
        let (_, before) = quiet(&top, disk, witness.as_ref());
        Self {
            top,
            disk: disk.to_owned(),
            before,
            witness,
        }
    }

    /// Ends it well when the disk is at rest again. `None`: the kernel has kept requests from raidtrace.
    pub fn end(self) -> Option<Counted> {
        let (intervals, after) = quiet(&self.top, &self.disk, None);
        let out = self.top.end(Signal::INT);
        assert_eq!(out.code(), Some(0), "{}", out.stderr);
        judge(intervals, after - self.before, self.witness)
    }

    /// Ends it with a signal while there may be more to tell than it has told.
    pub fn end_at_once(self, signal: Signal) -> (Output, Option<Counted>) {
        let out = self.top.end(signal);
        let after = idle(&self.disk);
        let counted = judge(json(&out.stdout), after - self.before, self.witness);
        (out, counted)
    }
}

/// Waits for the end of an interval at which the disk had been doing nothing: the lines until there, and the kernel's
/// count. The statistics may be a moment behind the completions that raidtrace counts, and raidtrace's lines are behind
/// too; a count that was the same before and after an interval is neither.
fn quiet(top: &Top, disk: &str, witness: Option<&Witness>) -> (Vec<Value>, u64) {
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
            let said = lines[lines.len() - 1]["time"].as_str().unwrap();
            said.parse::<jiff::Timestamp>().unwrap()
        };
        // Of whole seconds, and of the end of the reading: the one after it was read from begin to end after `begun`.
        while next() <= begun {}
        next();
        if completed(disk) == before {
            return (lines, before);
        }
        assert!(start.elapsed() < DEADLINE, "{disk} never comes to rest");
    }
}

/// The kernel of some sandboxes runs no raw tracepoint program while init (tgid 1) is the current task, not even in an
/// interrupt that completes the request of another (6.18's `bpf_trace_run3` compares `current->tgid` with 1, before it
/// counts misses): the statistics have such requests, and no BPF program can know of them. The tracepoint's own events tell
/// how many they were. Only what they explain is let pass, and only to be done again.
fn judge(intervals: Vec<Value>, kernel: u64, witness: Option<Witness>) -> Option<Counted> {
    let ours = super::sum(&intervals, "*", "*", "requests");
    if let Some(witness) = &witness {
        println!("issued by: {:?}", witness.issuers());
    }
    let hidden = witness.map_or(0, |w| w.over_init(COMPLETE));
    if (1..=hidden).contains(&kernel.saturating_sub(ours)) {
        println!("{ours} of {kernel} requests, and {hidden} completed over init: once more");
        return None;
    }
    Some(Counted { intervals, kernel })
}

/// Does a test again as long as the kernel keeps requests from raidtrace.
pub fn undisturbed(mut test: impl FnMut() -> Option<()>) {
    let start = Instant::now();
    while test().is_none() {
        assert!(start.elapsed() < 2 * DEADLINE, "init is always in the way");
    }
}

const ISSUE: &str = "block_rq_issue";
const COMPLETE: &str = "block_rq_complete";

/// The requests of one disk as tracefs has them, which leaves out none. Without tracefs there is none.
pub struct Witness(PathBuf);

impl Witness {
    /// From now on. The disk: not a partition.
    pub fn new(disk: &str) -> Option<Self> {
        let number = fs::read_to_string(format!("/sys/block/{disk}/dev")).ok()?;
        let (major, minor) = number.trim().split_once(':').unwrap();
        let dev = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
        let instances = Path::new("/sys/kernel/tracing/instances");
        // Of tests that were killed.
        for entry in fs::read_dir(instances).ok()?.flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let pid = name
                .strip_prefix("raidtrace-test-")
                .and_then(|n| n.split('-').next());
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

    /// Whether it may have been kept from raidtrace that a request was issued, or that one completed.
    pub fn any_over_init(&self) -> bool {
        self.over_init(ISSUE) + self.over_init(COMPLETE) > 0
    }

    /// How many came while a thread of init was the current task. A line begins "%16s-%-7d (%7d)": comm, pid, tgid.
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

    /// Who issued how many: for the log of a failed test, which may have had a reader that it knows nothing of.
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
        let lines = text.split(|b| *b == b'\n');
        lines.filter(of_event).map(<[u8]>::to_vec).collect()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/enable"), "0");
        // Busy for a moment longer, now and then.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
