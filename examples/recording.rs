//! Makes a recording of any size, as of random writes of 4 KiB: what `tools/bench report` and
//! `tools/bench load` measure with.
//!
//! `cargo run --release --example recording -- FILE REQUESTS [DISKS [PER_SECOND]]`

use std::fs::File;
use std::time::Instant;

use anyhow::{Context as _, Result};
use raidtrace::analysis::counters::TaskId;
use raidtrace::analysis::files::{FileId, FileLocation};
use raidtrace::analysis::fold::{ArrayNow, DiskCounters, MemberNow, TaskInfo};
use raidtrace::analysis::item::{Item, Request, RequestFlags, State, Submission};
use raidtrace::analysis::snapshot::ArrayInfo;
use raidtrace::fs::ext4::Range;
use raidtrace::mke2fs::{Conf, plan};
use raidtrace::origin::{Op, Origin};
use raidtrace::recording::header::{Header, RecordedArray, RecordedFilesystem, RecordedMember};
use raidtrace::recording::writer::{Writer, WriterOptions};

/// 2026-11-20T12:00:00Z
const START: i64 = 1_795_176_000_000_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("which FILE?")?;
    let requests: u64 = arguments.next().context("how many REQUESTS?")?.parse()?;
    let disks: u32 = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let rate: u64 = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let file = File::create(&path).with_context(|| path.clone())?;
    let options = WriterOptions { waiting: 1 << 16, ..WriterOptions::default() };
    let mut writer = Writer::create(file, &header(disks)?, options)?;
    tasks(&mut writer);
    let mut pushing = 0.0;
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut one_second = Vec::new();
    for second in 0..=requests / rate {
        let time_us = START + second as i64 * 1_000_000;
        writer.push(&Item::State(Box::new(state(time_us, disks, second * rate))))?;
        let until = requests.min((second + 1) * rate);
        one_second.clear();
        for n in second * rate..until {
            let time_us = START + (n as f64 * 1e6 / rate as f64) as i64;
            one(&mut one_second, &mut numbers, time_us, disks);
        }
        let begun = Instant::now();
        for item in &one_second {
            writer.push(item)?;
        }
        pushing += begun.elapsed().as_secs_f64();
        writer.flush()?;
        while writer.written().rows + 1_000_000 < 2 * second * rate {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let written = writer.finish()?;
    println!(
        "{requests} requests, {} bytes, {:.2} a request; {:.1} ns a row in push; {} dropped",
        written.bytes,
        written.bytes as f64 / requests as f64,
        pushing * 1e9 / written.rows as f64,
        written.dropped,
    );
    Ok(())
}

fn tasks(writer: &mut Writer) {
    for pid in 1000..1008 {
        let info = TaskInfo {
            comm: b"fio".to_vec(),
            cgroup: Some("/user.slice/user-0.slice/session-1.scope".to_owned()),
            role: None,
        };
        writer.task(TaskId { array: 0, pid }, &info);
        let location = FileLocation {
            path: Some(format!("/srv/fio.{pid}.0").into_bytes()),
            device_name: "md127".to_owned(),
            mount: Some("/srv".to_owned()),
            ..FileLocation::default()
        };
        writer.file_location(file(pid), &location);
    }
}

fn file(pid: u32) -> FileId {
    FileId {
        dev: 9 << 20 | 127,
        inode: u64::from(pid) - 988,
        generation: pid.wrapping_mul(2_654_435_761),
    }
}

fn header(disks: u32) -> Result<Header> {
    let (arrays, filesystems) = if disks == 1 {
        (Vec::new(), Vec::new())
    } else {
        (vec![array(disks)], vec![filesystem(disks)?])
    };
    Ok(Header {
        host: "generated".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: "2026-11-20T12:00:00Z".to_owned(),
        arrays,
        filesystems,
        ..Header::default()
    })
}

/// Sectors of a member: 100 GiB.
const MEMBER: u64 = 100 << 21;

fn array(disks: u32) -> RecordedArray {
    let member = |slot| RecordedMember {
        name: format!("loop{}", slot + 1),
        slot: Some(slot),
        data_sectors: MEMBER,
        ..RecordedMember::default()
    };
    RecordedArray {
        name: "md127".to_owned(),
        level: "raid0".to_owned(),
        chunk_sectors: 1024,
        sectors: MEMBER * u64::from(disks),
        disks,
        members: (0..disks).map(member).collect(),
        ..RecordedArray::default()
    }
}

/// What mkfs.ext4 makes on the array.
fn filesystem(disks: u32) -> Result<RecordedFilesystem> {
    let bytes = MEMBER * u64::from(disks) * 512;
    let layout = plan(bytes, 512 << 10, &Default::default(), &Conf::compiled_in());
    let layout = layout.map_err(anyhow::Error::msg)?;
    let sb = layout.superblock.as_ref().context("a superblock")?;
    let numbers: [(&str, u64); 9] = [
        ("block_size", layout.block_size.into()),
        ("blocks", layout.blocks),
        ("groups", sb.groups.into()),
        ("blocks_per_group", sb.blocks_per_group.into()),
        ("inodes_per_group", sb.inodes_per_group.into()),
        ("inodes", sb.inodes_count.into()),
        ("inode_size", sb.inode_size.into()),
        ("feature_incompat", sb.feature_incompat.into()),
        ("log_groups_per_flex", sb.log_groups_per_flex.into()),
    ];
    let numbers = numbers.map(|(name, value)| (name.to_owned(), value.into()));
    let range = |r: &Range| (r.first.0 * 8, r.count * 8, r.origin.name().to_owned());
    Ok(RecordedFilesystem {
        name: "md127".to_owned(),
        array: "md127".to_owned(),
        kind: "ext4".to_owned(),
        parameters: numbers.into_iter().collect(),
        layout: layout.ranges.iter().map(range).collect(),
        ..RecordedFilesystem::default()
    })
}

fn state(time_us: i64, disks: u32, requests: u64) -> State {
    let (name, level) = if disks == 1 { ("nvme0n1", "single") } else { ("md127", "raid0") };
    let member = |slot| MemberNow {
        name: if disks == 1 { name.to_owned() } else { format!("loop{}", slot + 1) },
        slot: Some(slot),
        health: None,
        disk: Some(DiskCounters {
            requests: requests / u64::from(disks),
            io_ticks_ms: (time_us - START) as u64 / 1000,
            in_flight: 8,
            ..DiskCounters::default()
        }),
    };
    let info = ArrayInfo {
        volume: None,
        name: name.to_owned(),
        level: level.to_owned(),
        chunk_bytes: if disks == 1 { 0 } else { 512 << 10 },
        bytes: (u64::from(disks) * 100) << 30,
        disks,
        health: None,
        filesystems: vec![format!("ext4 on /srv ({name}), 4 KiB blocks, 800 groups")],
        uneven_groups: None,
    };
    State {
        time_us,
        arrays: vec![ArrayNow {
            info,
            members: (0..disks).map(member).collect(),
            ..ArrayNow::default()
        }],
        ..State::default()
    }
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn one(items: &mut Vec<Item>, numbers: &mut Numbers, time_us: i64, disks: u32) {
    let sector = numbers.below(25 << 20) * 8;
    let chunk = sector / 1024;
    let member = (chunk % u64::from(disks)) as u32;
    let on_member = chunk / u64::from(disks) * 1024 + sector % 1024;
    let pid = 1000 + numbers.below(8) as u32;
    let (origin, op) = match numbers.below(100) {
        0 => (Origin::Journal, Op::Write),
        1 => (Origin::InodeTable, Op::Write),
        _ => (Origin::FileData, Op::Write),
    };
    let file = (origin == Origin::FileData).then(|| file(pid));
    let (flags, queue, device) = (RequestFlags::SYNC, 1 + numbers.below(4), 40 + numbers.below(60));
    items.push(Item::Submission(Submission {
        time_us: time_us - (queue + device) as i64,
        array: 0,
        op,
        flags,
        origin,
        array_sector: sector,
        length: 4096,
        pid,
        file,
    }));
    items.push(Item::Request(Request {
        time_us,
        member,
        op,
        flags,
        origin,
        sector: on_member,
        array_sector: Some(sector),
        length: 4096,
        bytes: 4096,
        queue_us: Some(queue as u32),
        device_us: Some(device as u32),
        error: false,
        pid: Some(pid),
        file,
    }));
}
