//! Deterministic snapshots for tests. The usual array is a RAID 0 of 12 x 100 GiB with 512 KiB
//! chunks, whose slots 0, 4 and 8 (loop1, loop5, loop9) carry nearly all writes of bitmaps.

use std::time::Duration;

use super::counters::CostCounters;
use super::counters::TaskCounters;
use super::cube::Cube;
use super::files::{FileId, FileIo, FileLocation, FileSnapshot, Files};
use super::hist::Hist;
use super::lost::Lost;
use super::snapshot::{
    ArrayInfo, ArraySnapshot, Cell, DiskUse, MemberSnapshot, Overhead, Snapshot, TaskIo,
    TaskSnapshot,
};
use super::window::Window;
use crate::origin::{Op, Origin};

/// A cell whose latencies spread around `us`.
pub fn cell(origin: Origin, op: Op, requests: u64, bytes: u64, us: u64) -> Cell {
    let (mut queue, mut device) = (Hist::default(), Hist::default());
    for i in 0..requests {
        // One in 64 takes eight times as long.
        let slow = if i % 64 == 63 { 8 } else { 1 };
        device.record(us * slow * (8 + i % 7) / 10);
        queue.record(us * slow * (i % 5) / 40);
    }
    Cell { origin, op, requests, bytes, queue, device }
}

/// A member with these cells.
pub fn member(index: usize, io: Vec<Cell>) -> MemberSnapshot {
    let requests = io.iter().fold(0u64, |n, c| n.saturating_add(c.requests));
    MemberSnapshot {
        name: format!("loop{}", index + 1),
        slot: Some(index as u32),
        health: None,
        disk: Some(DiskUse {
            in_flight: (requests / 60) as u32,
            utilisation: (requests as f64 / 500.0).min(1.0),
            requests,
            uncounted: 0,
        }),
        io,
        ..MemberSnapshot::default()
    }
}

/// An array of these members.
pub fn array(members: Vec<MemberSnapshot>) -> ArraySnapshot {
    let disks = members.len() as u32;
    ArraySnapshot {
        info: ArrayInfo {
            name: "md127".to_owned(),
            volume: None,
            level: if disks == 1 { "single" } else { "raid0" }.to_owned(),
            chunk_bytes: if disks == 1 { 0 } else { 512 << 10 },
            bytes: u64::from(disks) * (100 << 30),
            disks,
            health: None,
            filesystems: vec!["ext4 on /disk (md127), 4 KiB blocks, 9594 groups".to_owned()],
            uneven_groups: None,
        },
        members,
        tasks: Vec::new(),
        submitted: Cube::default(),
        costs: Cube::default(),
        amplification: None,
        files: Files::default(),
        dirtied_files: Files::default(),
        journal_stalls: Vec::new(),
        hotspot: None,
        around: None,
        verdict: None,
        slow: None,
    }
}

/// An interval of one second with `array`.
pub fn snapshot(array: ArraySnapshot) -> Snapshot {
    Snapshot {
        time: "2026-11-20T12:00:01.25Z".parse().unwrap(),
        interval: Duration::from_secs(1),
        arrays: vec![array],
        lost: Lost::default(),
        overhead: Overhead { bpf_ns: 8_200_000, bpf_events: 21_400, ..Overhead::default() },
        notes: Vec::new(),
    }
}

/// RAID 0 of `members` members: every fourth member carries nearly all writes of bitmaps and inode
/// tables.
pub fn raid0(members: usize) -> Snapshot {
    let cells = |i: usize| {
        let n = i as u64;
        let hot = i.is_multiple_of(4);
        let us = if hot { 6_400 } else { 900 };
        let mut io = Vec::new();
        if hot {
            io.push(cell(Origin::BlockBitmap, Op::Write, 121 + n % 5, (121 + n % 5) * 4096, us));
            io.push(cell(Origin::InodeBitmap, Op::Write, 64 + n % 3, (64 + n % 3) * 4096, us));
        } else if i % 4 == 1 {
            io.push(cell(Origin::BlockBitmap, Op::Write, 4, 4 * 4096, us));
        }
        let tables = if hot { 58 } else { 1 };
        io.push(cell(Origin::InodeTable, Op::Write, tables, tables * 4096, us));
        io.push(cell(Origin::Journal, Op::Write, 31 + n * 7 % 6, (31 + n * 7 % 6) * 65536, us));
        io.push(cell(Origin::Directory, Op::Read, 9, 9 * 4096, us));
        io.push(cell(Origin::Directory, Op::Write, 12 + n % 4, (12 + n % 4) * 4096, us));
        io.push(cell(Origin::FileData, Op::Read, 40 + n * 5 % 9, (40 + n * 5 % 9) * 16384, us));
        io.push(cell(
            Origin::FileData,
            Op::Write,
            152 + n * 11 % 17,
            (152 + n * 11 % 17) * 8192,
            us,
        ));
        if i == 0 {
            io.push(cell(Origin::Superblock, Op::Write, 1, 1024, us));
        }
        io.sort_by_key(|c| (c.origin, c.op));
        io
    };
    let mut array = array((0..members).map(|i| member(i, cells(i))).collect());
    // RAID 0 passes submitted bytes on unchanged.
    for cell in array.members.iter().flat_map(|m| &m.io) {
        *array.submitted.entry((cell.origin, cell.op)).or_default() += cell.bytes;
    }
    if members > 0 {
        array.tasks = tasks();
        array.files = files();
    }
    let mut snapshot = snapshot(array);
    Window::new(Duration::from_secs(10)).evaluate(&mut snapshot);
    snapshot
}

/// RAID 5 of four members with a database: file data is written in single blocks, the journal in
/// longer runs, and a resync is in progress.
pub fn raid5() -> Snapshot {
    use Op::{Read, Write};
    const BLOCK: u64 = 4096;
    let cells = |i: usize| {
        let n = i as u64;
        [
            (Origin::InodeTable, Write, 12, BLOCK),
            (Origin::Journal, Write, 40, 2 * BLOCK),
            (Origin::FileData, Read, 90 + n, 4 * BLOCK),
            (Origin::FileData, Write, 300 + n, BLOCK),
            (Origin::MdSuperblock, Write, 1, 512),
            (Origin::MdBitmap, Write, 9, BLOCK),
            (Origin::Parity, Write, 340 + n, BLOCK),
            (Origin::RmwRead, Read, 600 + n, BLOCK),
            (Origin::Resync, Read, 48, 64 * BLOCK),
            (Origin::Resync, Write, 16, 64 * BLOCK),
        ]
        .map(|(origin, op, requests, bytes)| cell(origin, op, requests, requests * bytes, 900))
        .to_vec()
    };
    let mut array = array((0..4).map(|i| member(i, cells(i))).collect());
    array.info.level = "raid5".to_owned();
    array.info.chunk_bytes = 64 << 10;
    array.info.bytes = 300 << 30;
    array.submitted = [
        ((Origin::InodeTable, Write), 48 * BLOCK),
        ((Origin::Journal, Write), 320 * BLOCK),
        ((Origin::FileData, Read), 1464 * BLOCK),
        ((Origin::FileData, Write), 1206 * BLOCK),
    ]
    .into();
    let cost =
        |parity, rmw_read| CostCounters { parity: parity * BLOCK, rmw_read: rmw_read * BLOCK };
    array.costs = [
        (Origin::InodeTable, cost(48, 90)),
        (Origin::Journal, cost(110, 20)),
        (Origin::FileData, cost(1200, 2290)),
    ]
    .into();
    let mut snapshot = snapshot(array);
    Window::new(Duration::from_secs(10)).evaluate(&mut snapshot);
    snapshot
}

/// [`raid0`] without IO.
pub fn idle(members: usize) -> Snapshot {
    let mut snapshot = snapshot(array((0..members).map(|i| member(i, Vec::new())).collect()));
    Window::new(Duration::from_secs(10)).evaluate(&mut snapshot);
    snapshot
}

fn task(
    pid: u32,
    comm: &[u8],
    cgroup: Option<&str>,
    role: Option<&str>,
    io: &[(Origin, Op, u64, u64)],
) -> TaskSnapshot {
    TaskSnapshot {
        pid,
        comm: comm.to_vec(),
        cgroup: cgroup.map(str::to_owned),
        role: role.map(str::to_owned),
        io: io
            .iter()
            .map(|&(origin, op, bios, bytes)| TaskIo { origin, op, bios, bytes })
            .collect(),
        dirtied: Vec::new(),
        dirtied_files: Files::default(),
    }
}

/// [`raid0`] of 12 members with the data that tasks dirtied, nearly all of which jbd2 and writeback
/// write.
pub fn dirtied() -> Snapshot {
    let mut snapshot = raid0(12);
    let dirtied = |origin, bytes| TaskIo { origin, op: Op::Write, bios: 1, bytes };
    let mut touch = task(4711, b"touch", Some("/user.slice"), None, &[]);
    touch.dirtied = vec![dirtied(Origin::Unknown, 25 << 20), dirtied(Origin::FileData, 3 << 20)];
    let tasks = &mut snapshot.arrays[0].tasks;
    tasks.push(touch);
    for task in tasks {
        if task.comm == b"postgres" {
            task.dirtied =
                vec![dirtied(Origin::Unknown, 1 << 20), dirtied(Origin::FileData, 3 << 20)];
        }
    }
    let array = &mut snapshot.arrays[0];
    let of = |file: &FileSnapshot, bytes| FileSnapshot {
        io: vec![FileIo { op: Op::Write, bios: 1, bytes }],
        ..file.clone()
    };
    let [table, sort] = [0, 1].map(|i| array.files.busiest[i].clone());
    for task in &mut array.tasks {
        task.dirtied_files.busiest = match &task.comm[..] {
            b"postgres" => vec![of(&table, 2 << 20), of(&sort, 1 << 20)],
            b"touch" => vec![of(&sort, 3 << 20)],
            _ => continue,
        };
    }
    array.dirtied_files.busiest = vec![of(&sort, 4 << 20), of(&table, 2 << 20)];
    snapshot
}

/// Tasks of [`raid0`], one of them with a hostile name.
fn tasks() -> Vec<TaskSnapshot> {
    use Op::{Read, Write};
    vec![
        task(
            211,
            b"jbd2/md127-8",
            Some("/"),
            Some("jbd2 journal of md127"),
            &[(Origin::Journal, Write, 410, 27 << 20)],
        ),
        task(
            87,
            b"kworker/u8:2",
            Some("/"),
            Some("writeback"),
            &[
                (Origin::BlockBitmap, Write, 400, 400 * 4096),
                (Origin::InodeBitmap, Write, 195, 195 * 4096),
                (Origin::InodeTable, Write, 180, 180 * 4096),
                (Origin::Directory, Write, 160, 160 * 4096),
                (Origin::FileData, Write, 1920, 1920 * 8192),
            ],
        ),
        task(
            4242,
            b"postgres",
            Some("/system.slice/system-postgresql.slice/postgresql@15-main.service"),
            None,
            &[
                (Origin::FileData, Read, 528, 528 * 16384),
                (Origin::Directory, Read, 108, 108 * 4096),
            ],
        ),
        task(
            31337,
            b"\x1b]0;rm -rf\x07\xff",
            Some("/user.slice/\u{202e}evil"),
            None,
            &[(Origin::FileData, Read, 7, 7 * 4096)],
        ),
    ]
}

/// Files of [`raid0`]: two deleted, two without a path, two with a hostile name or path.
fn files() -> Files {
    let file = |inode, path: Option<&[u8]>, name: Option<&[u8]>, deleted, io: &[(Op, u64, u64)]| {
        FileSnapshot {
            id: FileId { dev: 9 << 20 | 127, inode, generation: 2_702_679_241 },
            location: FileLocation {
                path: path.map(<[u8]>::to_vec),
                name: name.map(<[u8]>::to_vec),
                deleted,
                device_name: "md127".to_owned(),
                mount: Some("/disk".to_owned()),
            },
            io: io.iter().map(|&(op, bios, bytes)| FileIo { op, bios, bytes }).collect(),
        }
    };
    let deep = b"/disk/postgresql/15/main/base/16384/a table whose path is longer than most \
                 screens are wide/2619.17";
    let mut files = Files {
        busiest: vec![
            file(
                12,
                Some(deep),
                Some(b"2619.17"),
                false,
                &[(Op::Read, 400, 400 * 16384), (Op::Write, 900, 900 * 8192)],
            ),
            file(
                31,
                Some(b"/disk/tmp/sort.4242"),
                Some(b"sort.4242"),
                true,
                &[(Op::Write, 700, 700 * 8192)],
            ),
            file(1_835_021, None, Some(b"a\nb\xff"), true, &[(Op::Write, 200, 200 * 8192)]),
            file(
                90,
                Some("/disk/\u{202e}evil\x1b[2J/日本語".as_bytes()),
                None,
                false,
                &[(Op::Read, 100, 100 * 16384)],
            ),
            file(77, None, None, false, &[(Op::Write, 60, 60 * 8192)]),
        ],
        ..Files::default()
    };
    files.rest = TaskCounters { bios: 60, bytes: 60 * 8192 };
    files.unattributed = TaskCounters { bios: 28, bytes: 28 * 16384 };
    files
}
