//! Makes recordings of made-up hosts, and copies of recordings under another host name: what
//! `tools/fleet` makes a dataset of.
//!
//! `cargo run --example fleet < PLANS`, with a JSON object for each recording ([`Plan`]) in a line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use raidtrace::analysis::counters::TaskId;
use raidtrace::analysis::figures::Counted;
use raidtrace::analysis::fold::{ArrayNow, DiskCounters, MemberNow, TaskInfo};
use raidtrace::analysis::item::{Item, Request, RequestFlags, State, Submission};
use raidtrace::analysis::lost::{Loss, Lost};
use raidtrace::analysis::snapshot::ArrayInfo;
use raidtrace::origin::{Op, Origin};
use raidtrace::recording::header::{Header, RecordedArray, RecordedFilesystem, RecordedMember};
use raidtrace::recording::reader::{Reader, WantedColumns};
use raidtrace::recording::writer::{Writer, WriterOptions};
use serde::Deserialize;
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000;

/// A recording to make.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Plan {
    file: PathBuf,
    host: String,
    host_id: Option<String>,
    kernel: String,
    /// The recording to copy; everything below but `shift_us` is then unused.
    copy: Option<PathBuf>,
    /// Added to all times of the copy. Intervals of slow operations and of the allocator have
    /// times in their text, and are left out of a copy with other times.
    shift_us: i64,
    seed: u64,
    start_us: i64,
    seconds: u32,
    array: String,
    level: String,
    chunk_kib: u32,
    health: Option<String>,
    /// Kernel names, by slot.
    members: Vec<String>,
    /// Submissions per second.
    rate: u32,
    /// Mean time of a request on a member.
    device_us: u64,
    tasks: Vec<PlannedTask>,
    slow: Vec<Slowness>,
    /// Block bitmaps are only on the first member.
    bitmaps_on_first: bool,
    /// Writes of md's bitmap for each write of file data.
    md_bitmap_writes: u32,
    commits: Option<Commits>,
    fsyncs: Vec<Fsync>,
    /// Per second: events that were lost; requests that only the kernel counted, on each member.
    lost: u64,
    uncounted: u64,
    /// Per second, on each member.
    requeues: u64,
}

/// A task that submits bios of one origin.
#[derive(Debug, Deserialize)]
struct PlannedTask {
    comm: String,
    cgroup: String,
    origin: Origin,
    bytes: u32,
    /// Its share of the submissions is this over the sum of all.
    weight: u64,
}

/// Requests that take `factor` times as long: those of a member, of an origin, or of both.
#[derive(Debug, Deserialize)]
struct Slowness {
    member: Option<String>,
    origin: Option<Origin>,
    factor: u64,
}

#[derive(Debug, Deserialize)]
struct Commits {
    per_second: u32,
    us: u64,
}

/// An fsync in each second, whose time is that of one phase.
#[derive(Debug, Deserialize)]
struct Fsync {
    phase: String,
    us: u64,
    member: Option<String>,
}

fn main() -> Result<()> {
    let mut recordings = 0;
    for line in stdin().lock().lines() {
        let plan: Plan = serde_json::from_str(&line?).context("a plan")?;
        let made = match &plan.copy {
            Some(from) => copy(&plan, from),
            None => Fleet::new(&plan).and_then(|fleet| fleet.write()),
        };
        made.with_context(|| plan.file.display().to_string())?;
        recordings += 1;
    }
    println!("{recordings} recordings");
    Ok(())
}

fn create(plan: &Plan, header: &Header) -> Result<Writer> {
    let options = WriterOptions { waiting: 1 << 10, ..WriterOptions::default() };
    let mut writer = Writer::create(File::create(&plan.file)?, header, options)?;
    writer.wait_for_disk();
    Ok(writer)
}

/// Copies a recording with the plan's host and kernel, at another time.
fn copy(plan: &Plan, from: &Path) -> Result<()> {
    let mut reader = Reader::open(from, WantedColumns::Everything)?;
    let mut header = reader.header().clone();
    let started: jiff::Timestamp = header.started.parse()?;
    header.host.clone_from(&plan.host);
    header.host_id.clone_from(&plan.host_id);
    header.kernel.clone_from(&plan.kernel);
    header.started = (started + jiff::SignedDuration::from_micros(plan.shift_us)).to_string();
    let mut writer = create(plan, &header)?;
    // By number, as the last state has them: names of the arrays, arrays of the members.
    let (mut arrays, mut members) = (Vec::new(), Vec::new());
    while let Some(mut item) = reader.next_item() {
        if let Item::State(state) = &item {
            arrays = state.arrays.iter().map(|a| a.info.name.clone()).collect();
            let numbers = (0u32..).zip(&state.arrays);
            members = numbers.flat_map(|(n, a)| a.members.iter().map(move |_| n)).collect();
        }
        let (array, pid, file) = match &item {
            Item::Request(r) => (members.get(r.member as usize).copied(), r.pid, r.file),
            Item::Submission(s) => (Some(s.array), Some(s.pid), s.file),
            Item::Dirtied(d) => (Some(d.array), Some(d.pid), d.file),
            _ => (None, None, None),
        };
        if let (Some(array), Some(pid)) = (array, pid)
            && let Some(name) = arrays.get(array as usize)
            && let Some(info) = reader.task(pid, name)
        {
            writer.task(TaskId { array, pid }, &info);
        }
        if let Some((id, location)) = file.and_then(|id| Some((id, reader.file_location(&id)?))) {
            writer.file_location(id, &location);
        }
        match &mut item {
            Item::Slow { .. } | Item::Alloc { .. } if plan.shift_us != 0 => continue,
            Item::Request(r) => r.time_us += plan.shift_us,
            Item::Part(p) => p.time_us += plan.shift_us,
            Item::Submission(s) => s.time_us += plan.shift_us,
            Item::Dirtied(d) => d.time_us += plan.shift_us,
            Item::State(s) => s.time_us += plan.shift_us,
            Item::Slow { time_us, .. }
            | Item::Alloc { time_us, .. }
            | Item::Note { time_us, .. }
            | Item::Lost { time_us, .. } => *time_us += plan.shift_us,
        }
        writer.push(&item)?;
    }
    writer.finish()?;
    Ok(())
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }
}

/// A recording that is being made.
struct Fleet<'a> {
    plan: &'a Plan,
    numbers: Numbers,
    /// Requests completed, by slot.
    completed: Vec<u64>,
    tid: u32,
}

impl<'a> Fleet<'a> {
    fn new(plan: &'a Plan) -> Result<Self> {
        let levels = ["raid0", "raid1", "raid5", "raid10"];
        ensure!(levels.contains(&plan.level.as_str()), "level {:?}", plan.level);
        ensure!(!plan.tasks.is_empty() && plan.members.len() >= 2, "too few tasks or members");
        ensure!(plan.level != "raid10" || plan.members.len().is_multiple_of(2), "odd raid10");
        let numbers = Numbers((plan.seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(Self { plan, numbers, completed: vec![0; plan.members.len()], tid: 1 })
    }

    fn write(mut self) -> Result<()> {
        let plan = self.plan;
        let mut writer = create(plan, &self.header()?)?;
        for (pid, task) in (1000..).zip(&plan.tasks) {
            let comm = task.comm.clone().into_bytes();
            let info = TaskInfo { comm, cgroup: Some(task.cgroup.clone()), role: None };
            writer.task(TaskId { array: 0, pid }, &info);
        }
        for second in 0..plan.seconds {
            let time_us = plan.start_us + i64::from(second) * SECOND;
            writer.push(&Item::State(Box::new(self.state(second, time_us))))?;
            let mut items = Vec::new();
            for n in 0..plan.rate {
                let at = time_us + i64::from(n) * SECOND / i64::from(plan.rate);
                self.submit(&mut items, at);
            }
            items.sort_by_key(Item::time_us);
            for item in &items {
                writer.push(item)?;
            }
            writer.push(&self.slow(time_us)?)?;
        }
        let end_us = plan.start_us + i64::from(plan.seconds) * SECOND;
        writer.push(&Item::State(Box::new(self.state(plan.seconds, end_us))))?;
        let written = writer.finish()?;
        ensure!(written.dropped == 0, "rows were dropped");
        Ok(())
    }

    fn header(&self) -> Result<Header> {
        let plan = self.plan;
        let member = |(slot, name): (u32, &String)| RecordedMember {
            name: name.clone(),
            slot: Some(slot),
            data_sectors: 100 << 21,
            ..RecordedMember::default()
        };
        let array = RecordedArray {
            name: plan.array.clone(),
            level: plan.level.clone(),
            chunk_sectors: plan.chunk_kib * 2,
            disks: plan.members.len() as u32,
            members: (0..).zip(&plan.members).map(member).collect(),
            ..RecordedArray::default()
        };
        let filesystem = RecordedFilesystem {
            name: plan.array.clone(),
            dev: "9:0".to_owned(),
            array: plan.array.clone(),
            kind: "ext4".to_owned(),
            ..RecordedFilesystem::default()
        };
        Ok(Header {
            host: plan.host.clone(),
            host_id: plan.host_id.clone(),
            kernel: plan.kernel.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: jiff::Timestamp::from_microsecond(plan.start_us)?.to_string(),
            arrays: vec![array],
            filesystems: vec![filesystem],
            ..Header::default()
        })
    }

    fn state(&self, second: u32, time_us: i64) -> State {
        let plan = self.plan;
        let seconds = u64::from(second);
        let uncounted = plan.uncounted * seconds;
        let member = |((slot, name), completed): ((u32, &String), &u64)| MemberNow {
            name: name.clone(),
            slot: Some(slot),
            health: None,
            disk: Some(DiskCounters {
                requests: completed + uncounted,
                io_ticks_ms: seconds * 400,
                uncounted,
                ..DiskCounters::default()
            }),
        };
        let info = ArrayInfo {
            name: plan.array.clone(),
            level: plan.level.clone(),
            chunk_bytes: u64::from(plan.chunk_kib) << 10,
            disks: plan.members.len() as u32,
            health: plan.health.clone(),
            ..ArrayInfo::default()
        };
        let requeues = plan.requeues * seconds;
        let counted = (0..plan.members.len() as u32)
            .filter(|_| requeues > 0)
            .map(|member| (member, Op::Write, Counted([requeues, requeues * 2_000_000])));
        let mut lost = Lost::default();
        lost.count(Loss::Ring, plan.lost * seconds);
        State {
            time_us,
            counted: counted.collect(),
            lost,
            arrays: vec![ArrayNow {
                info,
                members: (0..).zip(&plan.members).zip(&self.completed).map(member).collect(),
                ..ArrayNow::default()
            }],
            ..State::default()
        }
    }

    /// A bio, and the requests that its array makes of it.
    fn submit(&mut self, items: &mut Vec<Item>, time_us: i64) {
        let plan = self.plan;
        let mut pick = self.numbers.below(plan.tasks.iter().map(|t| t.weight).sum());
        let mut chosen = 0;
        while pick >= plan.tasks[chosen].weight {
            pick -= plan.tasks[chosen].weight;
            chosen += 1;
        }
        let (task, pid) = (&plan.tasks[chosen], 1000 + chosen as u32);
        let array_sector = self.numbers.below(25 << 20) * 8;
        items.push(Item::Submission(Submission {
            time_us,
            array: 0,
            op: Op::Write,
            flags: RequestFlags::SYNC,
            origin: task.origin,
            array_sector,
            length: task.bytes,
            pid,
            file: None,
        }));
        for (slot, origin, op) in self.requests(task.origin, array_sector) {
            let bytes = if origin == Origin::MdBitmap { 4096 } else { task.bytes };
            let device_us = self.device_us(slot, origin);
            self.completed[slot] += 1;
            items.push(Item::Request(Request {
                time_us: time_us + device_us as i64 + 2,
                member: slot as u32,
                op,
                flags: RequestFlags::SYNC,
                origin,
                sector: array_sector,
                array_sector: (origin == task.origin).then_some(array_sector),
                length: bytes,
                bytes,
                queue_us: Some(2),
                device_us: Some(device_us as u32),
                error: false,
                pid: Some(pid),
                file: None,
            }));
        }
    }

    /// Members that a bio of an origin is written to, and what md adds.
    fn requests(&self, origin: Origin, sector: u64) -> Vec<(usize, Origin, Op)> {
        let plan = self.plan;
        let members = plan.members.len();
        let chunk = (sector / u64::from(plan.chunk_kib.max(4) * 2)) as usize;
        let slot = if plan.bitmaps_on_first && origin == Origin::BlockBitmap { 0 } else { chunk };
        let data = |slot: usize| (slot % members, origin, Op::Write);
        let mut requests = match plan.level.as_str() {
            "raid0" => vec![data(slot)],
            "raid1" => (0..members).map(data).collect(),
            "raid10" => vec![data(slot * 2), data(slot * 2 + 1)],
            _ => {
                let parity = (slot + 1) % members;
                let read = |slot| (slot, Origin::RmwRead, Op::Read);
                let parity_write = (parity, Origin::Parity, Op::Write);
                vec![read(slot % members), read(parity), data(slot), parity_write]
            }
        };
        if origin == Origin::FileData {
            let bitmaps = (0..plan.md_bitmap_writes as usize * members)
                .map(|n| (n % members, Origin::MdBitmap, Op::Write));
            requests.extend(bitmaps);
        }
        requests
    }

    /// Half to one and a half times the mean; one request in fifty takes three times as long.
    fn device_us(&mut self, slot: usize, origin: Origin) -> u64 {
        let plan = self.plan;
        let mut us = plan.device_us * (50 + self.numbers.below(101)) / 100;
        if self.numbers.below(50) == 0 {
            us *= 3;
        }
        let is = |slow: &&Slowness| {
            slow.member.as_ref().is_none_or(|name| *name == plan.members[slot])
                && slow.origin.is_none_or(|slow| slow == origin)
        };
        plan.slow.iter().filter(is).fold(us, |us, slow| us * slow.factor).clamp(1, 1_900_000)
    }

    /// The interval of slow operations that begins at `time_us`.
    fn slow(&mut self, time_us: i64) -> Result<Item> {
        let plan = self.plan;
        let at = |us: i64| jiff::Timestamp::from_microsecond(time_us + us).map(|t| t.to_string());
        let mut commits = Vec::new();
        for n in 0..plan.commits.as_ref().map_or(0, |c| c.per_second) {
            let mean = plan.commits.as_ref().map_or(0, |c| c.us);
            let us = mean * (50 + self.numbers.below(101)) / 100;
            let record = us / 2;
            commits.push(json!({
                "filesystem": plan.array, "tid": self.tid, "start": at(i64::from(n) * 1000)?,
                "request": "timer", "requester": null, "total_us": us, "handles": 10, "blocks": 4,
                "logged_blocks": 4, "holders": [], "ordered": [],
                "states": {"start": 0, "locked": 0, "ordered_submit": 0, "logging": 0,
                    "journal_blocks": us - record, "commit_record": record, "tail": 0},
            }));
            self.tid += 1;
        }
        let mut operations = Vec::new();
        for fsync in &plan.fsyncs {
            let us = fsync.us * (75 + self.numbers.below(51)) / 100;
            operations.push(json!({
                "op": "fsync", "start": at(0)?, "pid": 1000, "tgid": 1000, "comm": "db",
                "path": "/srv/db", "inode": 12, "generation": 1, "array": plan.array,
                "filesystem": plan.array, "position": 0, "bytes": 0, "direct": false,
                "synchronous": false, "total_us": us, "sentence": "fsync",
                "phases": [{"phase": fsync.phase, "us": us, "member": fsync.member,
                    "task": null, "file": null}],
            }));
        }
        let devices = (0..).zip(&plan.members).map(|(n, name)| (name.clone(), format!("8:{n}")));
        let mut devices: BTreeMap<String, String> = devices.collect();
        devices.insert(plan.array.clone(), "9:0".to_owned());
        let interval: Value = json!({
            "schema": "raidtrace.slow/1", "time": at(SECOND - 1)?, "interval_s": 1.0,
            "threshold_us": 10_000, "operations": operations, "kinds": {}, "commits": commits,
            "advice": [], "lost": {"events": 0, "reasons": {}}, "devices": devices,
            "members": {&plan.array: plan.members.len()},
        });
        Ok(Item::Slow { time_us: time_us + SECOND - 1, json: interval.to_string() })
    }
}
