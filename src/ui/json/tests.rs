//! JSON output of an interval.

use super::write;
use crate::analysis::cube::Amount as _;
use crate::analysis::fixture;
use crate::analysis::hotspot::HotspotKind;
use crate::analysis::lost::tests::every_loss;
use crate::analysis::snapshot::Overhead;
use serde_json::Value;

fn line(snapshot: &crate::analysis::snapshot::Snapshot) -> String {
    let mut out = Vec::new();
    write(&mut out, snapshot).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn files() {
    let text = line(&fixture::raid0(12));
    let v: Value = serde_json::from_str(&text).unwrap();
    let array = &v["arrays"][0];
    let files = array["files"].as_array().unwrap();
    let first = &files[0];
    assert_eq!((&first["dev"], &first["op"]), (&"9:127".into(), &"read".into()));
    assert_eq!((&first["inode"], &first["bios"]), (&12.into(), &400.into()));
    assert_eq!(first["bytes"].as_u64(), Some(400 * 16384));
    assert!(first["path"].as_str().unwrap().ends_with("/2619.17"));
    assert!(first.get("path_bytes").is_none());
    assert_eq!((&files[1]["inode"], &files[1]["op"]), (&12.into(), &"write".into()));
    let odd = files.iter().find(|f| f["inode"] == 1_835_021).unwrap();
    assert_eq!((&odd["path"], &odd["deleted"]), (&Value::Null, &true.into()));
    assert_eq!((&odd["name"], &odd["name_bytes"]), (&"a\nb\u{fffd}".into(), &"610a62ff".into()));
    assert_eq!(array["files_rest"]["bios"].as_u64(), Some(60));
    assert_eq!(array["files_unattributed"]["bytes"].as_u64(), Some(28 * 16384));
}

#[test]
fn estimated_overhead_is_marked() {
    let mut snapshot = fixture::raid0(1);
    snapshot.overhead.measured_ns = 20_000_000;
    snapshot.overhead.unmeasured_ns = 980_000_000;
    let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
    assert_eq!(v["overhead"]["estimated"].as_bool(), Some(true));
    assert_eq!(v["overhead"]["measured_share"].as_f64(), Some(0.02));
    let text = |s: &crate::analysis::snapshot::Snapshot| s.overhead.describe(s.interval);
    assert_eq!(text(&snapshot), "overhead about 0.8 % of a CPU");
    snapshot.overhead.unmeasured_ns = 0;
    assert_eq!(text(&snapshot), "overhead 0.8 % of a CPU");
    snapshot.overhead = Overhead::default();
    assert_eq!(text(&snapshot), "overhead not measured");
    // Sums and differences weigh intervals by their length.
    let half = Overhead { measured_ns: 30, unmeasured_ns: 10, ..Overhead::default() };
    let mut sum = half;
    sum.add(&Overhead { unmeasured_ns: 20, ..Overhead::default() });
    assert_eq!(sum.measured_share(), 0.5);
    assert_eq!(sum.since(&half).measured_share(), 0.0);
    assert!(sum.since(&half).is_estimate());
}

/// Names and types of fields are stable (see docs/top.md).
#[test]
fn contract() {
    let text = line(&fixture::raid0(12));
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.ends_with('\n'));
    let v: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(v["schema"], "raidtrace.top/1");
    assert_eq!(v["time"], "2026-11-20T12:00:01Z");
    assert_eq!(v["interval_s"].as_f64(), Some(1.0));
    assert_eq!(v["lost"]["events"].as_u64(), Some(0));
    assert_eq!(v["overhead"]["bpf_ns"].as_u64(), Some(8_200_000));
    assert_eq!(v["overhead"]["bpf_events"].as_u64(), Some(21_400));
    assert_eq!(v["overhead"]["estimated"].as_bool(), Some(false));
    assert_eq!(v["overhead"]["measured_share"].as_f64(), Some(1.0));
    let array = &v["arrays"][0];
    assert_eq!(array["name"], "md127");
    assert_eq!(array["level"], "raid0");
    assert_eq!(array["chunk_bytes"].as_u64(), Some(524_288));
    assert_eq!(array["members"].as_array().unwrap().len(), 12);
    let member = &array["members"][0];
    assert_eq!(member["name"], "loop1");
    assert_eq!(member["slot"].as_u64(), Some(0));
    let cells = member["io"].as_array().unwrap();
    let bitmap = cells.iter().find(|c| c["origin"] == "block_bitmap").unwrap();
    assert_eq!(bitmap["op"], "write");
    assert_eq!(bitmap["requests"].as_u64(), Some(121));
    assert_eq!(bitmap["bytes"].as_u64(), Some(121 * 4096));
    for time in ["queue_us", "device_us"] {
        for name in ["p50", "p99", "max", "count"] {
            assert!(bitmap[time][name].is_u64(), "{time}.{name}");
        }
        assert_eq!(bitmap[time]["count"].as_u64(), Some(121));
    }
    assert_eq!(array["hotspot"]["kind"], "saturated");
    assert_eq!(array["hotspot"]["severity"], "warning");
    assert_eq!(array["hotspot"]["members"][1], "loop5");
}

/// Each reason has its own field, and each kind and severity the name that docs/top.md lists.
#[test]
fn losses_and_kinds_have_documented_names() {
    let mut snapshot = fixture::raid0(12);
    snapshot.lost = every_loss();
    let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
    let reasons = "rows issue pieces tasks files ring busy missed uncounted";
    for (n, reason) in (1u64..).zip(reasons.split(' ')) {
        assert_eq!(v["lost"][reason].as_u64(), Some(n), "{reason}");
    }
    assert_eq!(v["lost"].as_object().map(|o| o.len()), Some(10));
    for (kind, name) in [
        (HotspotKind::Stalled, "stalled"),
        (HotspotKind::Saturated, "saturated"),
        (HotspotKind::Slow, "slow"),
        (HotspotKind::Queued, "queued"),
        (HotspotKind::Uneven, "uneven"),
        (HotspotKind::Even, "even"),
        (HotspotKind::Idle, "idle"),
    ] {
        snapshot.arrays[0].hotspot.as_mut().unwrap().kind = kind;
        let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
        assert_eq!(v["arrays"][0]["hotspot"]["kind"], name);
    }
}

#[test]
fn amplification_is_of_the_interval_and_adds_up() {
    let mut snapshot = fixture::raid5();
    snapshot.arrays[0].amplification = None; // used only by the screen
    let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
    let array = &v["arrays"][0];
    let rows = array["amplification"].as_array().unwrap();
    let row = |origin, op| {
        let mut rows = rows.iter();
        rows.find(|r| r["origin"] == origin && r["op"] == op).unwrap()
    };
    let data = row("file_data", "write");
    assert_eq!(data["submitted_bytes"].as_u64(), Some(1206 * 4096));
    let (parity, pre_read) = (1366.0 * 1200.0 / 1358.0, 2406.0 * 2290.0 / 2400.0);
    let factor = 1.0 + (parity + pre_read + 36.0 * 1206.0 / 1574.0) / 1206.0;
    assert!((data["factor"].as_f64().unwrap() - factor).abs() < 1e-5);
    assert_eq!(row("file_data", "read")["factor"].as_f64(), Some(1.0));
    assert!(row("resync", "write")["factor"].is_null());
    let cells =
        array["members"].as_array().unwrap().iter().flat_map(|m| m["io"].as_array().unwrap());
    let moved: u64 = cells.map(|c| c["bytes"].as_u64().unwrap()).sum();
    let charged: u64 = ["data", "parity", "rmw_read", "md_bitmap", "md_journal"]
        .iter()
        .flat_map(|part| rows.iter().map(move |r| &r[format!("{part}_bytes")]))
        .map(|bytes| bytes.as_u64().unwrap())
        .sum();
    assert_eq!(charged, moved);
}

#[test]
fn empty_cells_are_left_out() {
    let mut snapshot = fixture::raid0(12);
    let io = &mut snapshot.arrays[0].members[1].io;
    (io[0].requests, io[0].bytes) = (0, 0);
    snapshot.arrays[0].members[2].slot = None;
    let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
    let members = &v["arrays"][0]["members"];
    assert!(members[1]["io"].as_array().unwrap().iter().all(|c| c["origin"] != "block_bitmap"));
    assert!(members[2]["slot"].is_null());
    // Idle members are listed: a mean over the members needs their number.
    let v: Value = serde_json::from_str(&line(&fixture::idle(12))).unwrap();
    assert_eq!(v["arrays"][0]["members"].as_array().unwrap().len(), 12);
    assert_eq!(v["arrays"][0]["members"][0]["io"].as_array().unwrap().len(), 0);
}

#[test]
fn untrusted_bytes_are_escaped_and_restored_by_a_parser() {
    let text = line(&fixture::raid0(1));
    assert!(!text.trim_end().chars().any(|c| c.is_control() || super::is_hidden(c)));
    let v: Value = serde_json::from_str(&text).unwrap();
    let task = &v["arrays"][0]["tasks"][3];
    assert_eq!(task["comm"], "\x1b]0;rm -rf\x07\u{fffd}");
    assert_eq!(task["cgroup"], "/user.slice/\u{202e}evil");
}

#[test]
fn broken_pipe_is_returned_to_the_caller() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = write(&mut Closed, &fixture::idle(1)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn schema() {
    crate::test_schema::check::<super::JsonInterval<'_>>("raidtrace.top/1");
}
