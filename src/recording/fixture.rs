//! Deterministic recordings for tests: a RAID 0 of four disks, and a disk without md.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::alloc::AllocInterval;
use super::header::{Header, RecordedFilesystem, RecordedMount};
use super::output::RecordingOutput;
use super::writer::{Writer, WriterOptions};
use crate::analysis::counters::TaskId;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::{ArrayNow, DiskCounters, MemberNow, TaskInfo};
use crate::analysis::item::{Dirtied, Item, Request, RequestFlags, RequestPart, State, Submission};
use crate::analysis::profile::sums::tests::seed;
use crate::analysis::snapshot::ArrayInfo;
use crate::origin::{Op, Origin};

/// 2026-11-20T12:00:00Z
pub const START: i64 = 1_795_176_000_000_000;

/// An output in memory.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Shared {
    /// Bytes written.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RecordingOutput for Shared {}

/// State of md127 (loop1 to loop4) and sda.
pub fn state(time_us: i64) -> State {
    let member = |name: String, slot| MemberNow {
        name,
        slot: Some(slot),
        health: None,
        disk: Some(DiskCounters {
            requests: (time_us - START) as u64 / 10_000,
            io_ticks_ms: (time_us - START) as u64 / 2000,
            in_flight: 1,
            ..DiskCounters::default()
        }),
    };
    let array = |name: &str, level: &str, disks: u32| ArrayInfo {
        name: name.to_owned(),
        volume: None,
        level: level.to_owned(),
        chunk_bytes: if disks > 1 { 524_288 } else { 0 },
        bytes: u64::from(disks) << 30,
        disks,
        health: None,
        filesystems: vec![format!("ext4 on /srv ({name}), 4 KiB blocks, 32 groups")],
        uneven_groups: None,
    };
    State {
        time_us,
        arrays: vec![
            ArrayNow {
                info: array("md127", "raid0", 4),
                members: (0..4).map(|i| member(format!("loop{}", i + 1), i)).collect(),
                ..ArrayNow::default()
            },
            ArrayNow {
                info: array("sda", "single", 1),
                members: vec![member("sda".to_owned(), 0)],
                ..ArrayNow::default()
            },
        ],
        ..State::default()
    }
}

/// Header of the recordings.
pub fn header() -> Header {
    Header {
        host: "dbhost".to_owned(),
        kernel: "6.12.0".to_owned(),
        machine: "x86_64".to_owned(),
        version: "0.1.0".to_owned(),
        started: "2026-11-20T12:00:00Z".to_owned(),
        filesystems: vec![RecordedFilesystem {
            name: "md127".to_owned(),
            dev: "9:127".to_owned(),
            array: "md127".to_owned(),
            kind: "ext4".to_owned(),
            mounts: vec![RecordedMount { path: "/srv".to_owned(), options: "rw".to_owned() }],
            ..RecordedFilesystem::default()
        }],
        ..Header::default()
    }
}

/// The file with this inode on md127.
pub fn file(inode: u64) -> FileId {
    FileId { dev: 9 << 20 | 127, inode, generation: 7 }
}

pub fn location(inode: u64) -> FileLocation {
    FileLocation {
        path: Some(format!("/srv/db/{inode}").into_bytes()),
        name: None,
        deleted: inode.is_multiple_of(5),
        device_name: "md127".to_owned(),
        mount: Some("/srv".to_owned()),
    }
}

/// A deterministic stream of numbers.
pub struct Numbers(pub u64);

impl Numbers {
    /// Next number, less than `below`.
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Items of `seconds` seconds: `requests` requests with a submission each, and a state and an
/// allocator interval every second.
pub fn items(requests: u64, seconds: i64) -> Vec<Item> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut items = vec![Item::State(Box::new(state(START)))];
    let mut second = 0;
    for n in 0..requests {
        let time_us = START + seconds * 1_000_000 * n as i64 / requests as i64;
        while (time_us - START) / 1_000_000 > second {
            second += 1;
            dirtied(&mut items, START + second * 1_000_000 - 1);
            items.push(Item::State(Box::new(state(START + second * 1_000_000))));
            items.push(alloc(START + second * 1_000_000));
        }
        add_request(&mut items, &mut numbers, time_us);
    }
    items.push(Item::State(Box::new(state(START + seconds * 1_000_000))));
    items
}

/// An interval of the allocator, with stacks.
fn alloc(time_us: i64) -> Item {
    let mut snapshot = crate::analysis::alloc::fixture::linear();
    snapshot.time = jiff::Timestamp::from_microsecond(time_us).unwrap();
    AllocInterval::item(&snapshot, &seed()).unwrap()
}

/// Bytes of metadata and of a file, dirtied by one task on each array.
fn dirtied(items: &mut Vec<Item>, time_us: i64) {
    let row = |array, origin, bytes, file| {
        Item::Dirtied(Dirtied { time_us, array, origin, bytes, pid: 100 + array, file })
    };
    for array in 0..2 {
        items.push(row(array, Origin::Unknown, 8192, None));
        items.push(row(array, Origin::FileData, 4096, Some(file(14))));
    }
}

fn add_request(items: &mut Vec<Item>, numbers: &mut Numbers, time_us: i64) {
    let member = numbers.next(5) as u32;
    let sector = numbers.next(1 << 28) * 8;
    let array_sector = if member == 4 { sector } else { sector * 4 + 8 };
    let kind = numbers.next(16);
    let (origin, op) = match kind {
        0 => (Origin::BlockBitmap, Op::Write),
        1 => (Origin::Journal, Op::Flush),
        2 => (Origin::InodeTable, Op::Read),
        3..8 => (Origin::FileData, Op::Read),
        _ => (Origin::FileData, Op::Write),
    };
    let file = (origin == Origin::FileData).then(|| file(12 + numbers.next(20)));
    let length = if op == Op::Flush { 0 } else { 4096 * (1 + numbers.next(4) as u32) };
    let pid = 100 + numbers.next(8) as u32;
    items.push(Item::Submission(Submission {
        time_us: time_us - 300,
        array: u32::from(member == 4),
        op,
        flags: RequestFlags::from_bits_truncate(numbers.next(64) as u8),
        origin,
        array_sector,
        length,
        pid,
        file,
    }));
    let two = kind == 3 && length > 4096;
    items.push(Item::Request(Request {
        time_us,
        member,
        op,
        flags: RequestFlags::from_bits_truncate(numbers.next(64) as u8),
        origin,
        sector,
        array_sector: (length > 0).then_some(array_sector),
        length,
        bytes: if two { length - 4096 } else { length },
        queue_us: (kind != 5).then(|| numbers.next(100) as u32),
        device_us: (kind != 6).then(|| numbers.next(20_000) as u32),
        error: kind == 7 && member == 3,
        pid: (kind != 0).then_some(pid),
        file,
    }));
    if two {
        items.push(Item::Part(RequestPart {
            time_us,
            member,
            op,
            origin: Origin::Directory,
            sector: sector + 8,
            bytes: 4096,
        }));
    }
}

/// 20 s of [`items`] in which loop3 completes nothing from 5 s to 17 s. If `ticks` is true, its
/// io_ticks advance meanwhile, as on kernels with "block: update io_ticks when io hang".
pub fn stalled_items(ticks: bool) -> Vec<Item> {
    const SECOND: i64 = 1_000_000;
    let stall = START + 5 * SECOND..=START + 17 * SECOND;
    let mut items = items(8000, 20);
    items.retain(|item| match item {
        Item::Request(Request { member, .. }) | Item::Part(RequestPart { member, .. }) => {
            *member != 2 || !stall.contains(&item.time_us())
        }
        _ => true,
    });
    for item in &mut items {
        if let Item::State(state) = item
            && let Some(disk) = &mut state.arrays[0].members[2].disk
        {
            let seconds = (state.time_us - START) / SECOND;
            let stalled = (seconds - 5).clamp(0, 12);
            disk.requests = (seconds - stalled) as u64 * 100;
            disk.io_ticks_ms = (seconds - if ticks { 0 } else { stalled }) as u64 * 1000;
            disk.in_flight = if stalled > 0 && stalled < 12 { 12 } else { 1 };
        }
    }
    items
}

/// Bytes of a recording of `items`, in batches of at most `rows`.
pub fn file_of(items: &[Item], rows: usize) -> Vec<u8> {
    let out = Shared::default();
    let options = WriterOptions { rows, waiting: 1 << 20, ..WriterOptions::default() };
    let mut writer = Writer::create(out.clone(), &header(), options).unwrap();
    for pid in 100..108 {
        let info = TaskInfo {
            comm: format!("worker{pid}\\\u{e9}").into_bytes(),
            cgroup: (pid > 101).then(|| "/system.slice/db.service".to_owned()),
            role: (pid == 107).then(|| "writeback".to_owned()),
        };
        for array in [0, 1] {
            writer.task(TaskId { array, pid }, &info);
        }
    }
    for inode in 12..30 {
        writer.file_location(file(inode), &location(inode));
    }
    for item in items {
        writer.push(item).unwrap();
    }
    writer.finish().unwrap();
    out.bytes()
}
