//! The JSON in a recording, compared with files in `format/`. Recordings of earlier versions must
//! stay readable: a change here may add fields, but must never rename or remove one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::alloc::AllocInterval;
use super::header::{Header, RecordedArray, RecordedFilesystem, RecordedMember, RecordedMount};
use super::rows::{Device, Devices, StateRow};
use crate::advice::slow::MdSettings;
use crate::analysis::alloc::fixture;
use crate::analysis::around::{
    Around, Asleep, DeviceIo, FullPool, HungTask, Neighbour, SharedDisk,
};
use crate::analysis::counters::CostCounters;
use crate::analysis::cube::Cube;
use crate::analysis::figures::Counted;
use crate::analysis::fold::{ArrayNow, DiskCounters, MemberNow};
use crate::analysis::item::{Item, State};
use crate::analysis::lost::tests::every_loss;
use crate::analysis::profile::sums::tests::seed;
use crate::analysis::snapshot::{ArrayInfo, Overhead};
use crate::origin::{Op, Origin};

/// Compares `json` with `format/NAME`, which UPDATE_FORMAT=1 writes.
fn compare(name: &str, json: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recording/format").join(name);
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let json = serde_json::to_string_pretty(&json).unwrap() + "\n";
    if std::env::var_os("UPDATE_FORMAT").is_some() {
        std::fs::write(&path, &json).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert_eq!(json, stored, "the stored format of {name} has changed");
    stored
}

fn both_ways<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, value: &T) {
    let stored = compare(name, &serde_json::to_string(value).unwrap());
    assert_eq!(serde_json::from_str::<T>(&stored).unwrap(), *value);
}

/// A state with every field.
fn state() -> State {
    let text = |s: &str| Some(s.to_owned());
    State {
        time_us: 0,
        restart: true,
        arrays: vec![ArrayNow {
            info: ArrayInfo {
                name: "md127".to_owned(),
                volume: None,
                level: "raid5".to_owned(),
                chunk_bytes: 65_536,
                bytes: 1 << 40,
                disks: 3,
                health: text("degraded"),
                filesystems: vec!["ext4 on /srv".to_owned()],
                uneven_groups: None,
            },
            members: vec![MemberNow {
                name: "sda".to_owned(),
                slot: Some(2),
                health: text("faulty"),
                disk: Some(DiskCounters {
                    requests: 1,
                    io_ticks_ms: 2,
                    in_flight: 3,
                    uncounted: 4,
                    ..DiskCounters::default()
                }),
            }],
            read_reason_uncertain: true,
            around: Some(around()),
        }],
        costs: vec![(0, Origin::Journal, CostCounters { parity: 5, rmw_read: 6 })],
        counted: vec![(1, Op::Write, Counted(std::array::from_fn(|n| 1000 * (n as u64 + 1))))],
        lost: every_loss(),
        overhead: Overhead { bpf_ns: 10, bpf_events: 11, measured_ns: 12, unmeasured_ns: 13 },
        notes: vec!["a note".to_owned()],
    }
}

fn around() -> Around {
    let io = |n| DeviceIo { requests: [n, 2], bytes: [3, 4], ms: [5, 6], in_flight: 7 };
    Around {
        io: io(1),
        earlier: DeviceIo::default(),
        disks: vec![SharedDisk {
            member: "sda1".to_owned(),
            disk: "sda".to_owned(),
            io: io(8),
            others: vec![Neighbour { device: "sda2".into(), user: "swap".into(), io: io(9) }],
        }],
        mapped: BTreeMap::from([("dm-0".to_owned(), io(10))]),
        paths: BTreeMap::from([(
            "nvme0n1".to_owned(),
            BTreeMap::from([("nvme0c0n1".to_owned(), io(11))]),
        )]),
        thin_volumes: BTreeMap::from([("vg-thin".to_owned(), io(12))]),
        openers: BTreeMap::from([("sda".to_owned(), "dd (pid 3)".to_owned())]),
        sync_action: Some("check".to_owned()),
        suspended: vec!["md127".to_owned()],
        full_pools: vec![FullPool { name: "vg-pool-tpool".to_owned(), ms: 6 }],
        stripe_cache_full: true,
        settings: Some(MdSettings {
            sync_speed_max: Some("1500 (local)".to_owned()),
            ..MdSettings::default()
        }),
        hung: vec![HungTask {
            pid: 1,
            comm: "mysqld".to_owned(),
            ms: 2,
            function: "md_handle_request".to_owned(),
        }],
        asleep: vec![Asleep {
            comm: "jbd2/md127-8".to_owned(),
            is_kernel: true,
            ms: Cube::from([("jbd2_log_wait_commit".to_owned(), 3)]),
            sleeps: 4,
        }],
        slept_us: Cube::default(),
    }
}

#[test]
fn state_rows() {
    let device = Device { dev: "9:127".to_owned(), mount: Some("/srv".to_owned()) };
    let row = StateRow {
        state: Cow::Owned(state()),
        devices: Cow::Owned(Devices::from([("md127".to_owned(), device)])),
    };
    let stored = compare("state.json", &serde_json::to_string(&row).unwrap());
    let read: StateRow<'_> = serde_json::from_str(&stored).unwrap();
    assert_eq!((read.state, read.devices), (row.state, row.devices));
}

#[test]
fn header() {
    let text = |s: &str| s.to_owned();
    both_ways(
        "header.json",
        &Header {
            host: text("host"),
            host_id: Some(text("0123456789abcdef0123456789abcdef")),
            kernel: text("6.12.0"),
            machine: text("x86_64"),
            version: text("0.1.0"),
            started: text("2026-11-20T12:00:00Z"),
            utc_offset_s: Some(3600),
            targets: vec![text("md127")],
            command: vec![text("fio")],
            arrays: vec![RecordedArray {
                name: text("md127"),
                metadata: Some(text("1.2")),
                sync_action: Some(text("idle")),
                reshape_position: Some(8),
                consistency_policy: Some(text("resync")),
                members: vec![RecordedMember::default()],
                ..RecordedArray::default()
            }],
            filesystems: vec![RecordedFilesystem {
                mounts: vec![RecordedMount::default()],
                layout: vec![(0, 8, text("superblock"))],
                layout_is_cut: true,
                ..RecordedFilesystem::default()
            }],
            buffer_bytes: 16 << 20,
            notes: vec![text("a note")],
            checksum: 0,
        },
    );
}

#[test]
fn alloc_rows() {
    for (name, snapshot) in
        [("alloc-linear.json", fixture::linear()), ("alloc-cold.json", fixture::cold())]
    {
        let item = AllocInterval::item(&snapshot, &seed()).unwrap();
        let Item::Alloc { time_us, json } = item else {
            panic!("{item:?}");
        };
        let stored = compare(name, &json);
        let read = AllocInterval::parse(time_us, &stored).unwrap();
        let item = AllocInterval::item(&read.snapshot, &read.stacks).unwrap();
        assert_eq!(item, Item::Alloc { time_us, json });
    }
}
