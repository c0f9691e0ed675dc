//! `raidtrace export -f perfetto` and `-f fio`, read by the programs that they are for. Needs no
//! root.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Output, installed, json, python, raidtrace, run, skipped};
use serde_json::Value;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/top/replay/demo.rtrace");

fn export(file: &str, format: &str, out: &Path) -> Output {
    raidtrace(&["export", file, "-f", format, "-o", out.to_str().unwrap()])
}

/// Rows of the recording of one kind.
fn rows(kind: &str) -> Vec<Value> {
    let out = raidtrace(&["export", DEMO, "-f", "ndjson", "-o", "-"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let mut rows = json(&out.stdout);
    rows.retain(|row| row["kind"] == kind);
    assert!(!rows.is_empty());
    rows
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap()
}

/// Microseconds since 1970.
fn time_us(row: &Value) -> i64 {
    let time: jiff::Timestamp = text(row, "time").parse().unwrap();
    time.as_microsecond()
}

/// Decodes with Perfetto's own messages. Prints requests as `[member, origin, op, begin_us, end_us
/// or null, length]`, and the number of submissions by task; fails if the trace breaks a rule of
/// the format.
const DECODE: &str = r#"
import json, sys
from collections import defaultdict
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
trace = proto.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
def known(message):
    assert len(UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.message_type:
            for one in value if hasattr(value, "add") else [value]:
                known(one)
tracks, words, events = {}, defaultdict(dict), []
snapshot = trace.packet[0].clock_snapshot
assert snapshot.primary_trace_clock == proto.BUILTIN_CLOCK_REALTIME, snapshot
clock = None
for packet in trace.packet:
    known(packet)
    assert packet.trusted_packet_sequence_id == 1
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        assert track.uuid not in tracks and (not track.parent_uuid or track.parent_uuid in tracks)
        tracks[track.uuid] = track
    if packet.sequence_flags & proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
        words.clear()
        clock = packet.trace_packet_defaults.timestamp_clock_id
    for kind in "event_categories", "event_names", "debug_annotation_names":
        words[kind].update((word.iid, word.name) for word in getattr(packet.interned_data, kind))
    texts = packet.interned_data.debug_annotation_string_values
    words["texts"].update((word.iid, word.str.decode()) for word in texts)
    if packet.HasField("track_event"):
        event = packet.track_event
        assert packet.sequence_flags & proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        assert clock == proto.BUILTIN_CLOCK_REALTIME
        args = {}
        for a in event.debug_annotations:
            kind = [f.name for f, _ in a.ListFields() if f.name != "name_iid"]
            text = words["texts"].get(a.string_value_iid)
            value = text if a.string_value_iid else getattr(a, kind[0])
            args[words["debug_annotation_names"][a.name_iid]] = value
        category = [words["event_categories"][iid] for iid in event.category_iids]
        name = words["event_names"][event.name_iid] if event.name_iid else None
        assert event.track_uuid in tracks
        what = (event.track_uuid, category, name, args, event.counter_value)
        events.append((packet.timestamp, event.type, *what))
parent = lambda uuid: tracks[tracks[uuid].parent_uuid].name
requests, tasks, open_, last = [], defaultdict(int), {}, {}
for at, kind, uuid, category, name, args, value in sorted(events, key=lambda e: e[0]):
    track = tracks[uuid]
    assert at % 1000 == 0
    if kind == proto.TrackEvent.TYPE_COUNTER:
        assert track.HasField("counter") and value >= 0
        assert track.name != "utilisation" or value <= 100
        last[uuid] = value
    elif track.name == "requests" and kind == proto.TrackEvent.TYPE_SLICE_BEGIN:
        assert uuid not in open_, "requests of a track overlap"
        open_[uuid] = (at, category, name, args)
    elif track.name == "requests":
        begin, category, name, args = open_.pop(uuid)
        times = [begin // 1000, at // 1000]
        requests.append([parent(uuid), category[0], name, *times, args["length"]])
    elif track.name == "requests without a slice":
        requests.append([parent(uuid), category[0], name, None, at // 1000, args["length"]])
    elif parent(uuid) == "tasks" if track.parent_uuid else False:
        tasks[track.name] += 1
assert not open_
assert all(value == 0 for uuid, value in last.items() if tracks[uuid].name == "requests in flight")
print(json.dumps({"requests": requests, "tasks": tasks}))
"#;

#[test]
fn perfetto_is_decoded_with_the_official_messages() {
    let Some(python) = python("perfetto.protos.perfetto.trace.perfetto_trace_pb2") else {
        return skipped("Perfetto's Python package is not on this machine (tools/setup --lab)");
    };
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("a.pftrace");
    let out = export(DEMO, "perfetto", &trace);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let out = run(Command::new(python).args(["-c", DECODE]).arg(&trace));
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    let decoded: Value = serde_json::from_str(&out.stdout).unwrap();
    let mut requests: Vec<String> =
        decoded["requests"].as_array().unwrap().iter().map(Value::to_string).collect();
    let mut expected: Vec<String> = rows("request")
        .iter()
        .map(|row| {
            let end = time_us(row);
            let member = format!("{} (slot {})", text(row, "member"), row["slot"]);
            let (origin, op) = (text(row, "origin"), text(row, "op"));
            let begin = row["device_us"].as_i64().map(|us| end - us);
            let name = format!("{origin} {op}");
            serde_json::json!([member, origin, name, begin, end, row["length"]]).to_string()
        })
        .collect();
    requests.sort();
    expected.sort();
    assert_eq!(requests, expected);
    let mut tasks: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows("submission") {
        *tasks.entry(format!("{} ({})", text(&row, "comm"), row["pid"])).or_default() += 1;
    }
    assert_eq!(decoded["tasks"], serde_json::json!(tasks));
}

#[test]
fn fio_replays_the_submissions() {
    if !installed("fio") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (log, target) = (dir.path().join("a.iolog"), dir.path().join("target"));
    let out = export(DEMO, "fio", &log);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stderr.contains("--replay_redirect=DEVICE"), "{out:?}");
    // Sparse, with the size of the recorded array.
    let end = rows("submission")
        .iter()
        .map(|row| number(row, "array_sector") * 512 + number(row, "length"))
        .max();
    let sparse = fs::File::create(&target).unwrap();
    if sparse.set_len(end.unwrap()).is_err() {
        return skipped("the temporary directory cannot hold a sparse file of 1.3 TB");
    }
    let mut fio = Command::new("fio");
    fio.current_dir(dir.path());
    fio.args(["--name=replay", "--replay_no_stall=1", "--output-format=json"]);
    // With more in flight, fio does not count the bytes of the last requests.
    fio.args(["--ioengine=psync", "--iodepth=1"]);
    fio.arg(format!("--read_iolog={}", log.display()));
    fio.arg(format!("--replay_redirect={}", target.display()));
    let out = run(&mut fio);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let report: Value = serde_json::from_str(&out.stdout).unwrap();
    let job = &report["jobs"][0];
    let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut syncs = 0;
    let submissions = rows("submission");
    for row in &submissions {
        let sum = expected.entry(text(row, "op")).or_default();
        sum.0 += 1;
        sum.1 += number(row, "length");
        syncs += u64::from(row["flags"].as_str().is_some_and(|f| f.contains('P')));
    }
    for (op, action) in [("read", "read"), ("write", "write"), ("discard", "trim")] {
        let found = (number(&job[action], "total_ios"), number(&job[action], "io_bytes"));
        assert_eq!(found, expected.remove(op).unwrap_or_default(), "{op}");
    }
    assert!(expected.is_empty(), "{expected:?}");
    assert_eq!(number(&job["sync"], "total_ios"), syncs);
    assert!(syncs > 0);
}

#[test]
fn damaged_recordings_are_exported_up_to_the_damage() {
    let whole = fs::read(DEMO).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.rtrace");
    for format in ["perfetto", "fio"] {
        fs::write(&cut, &whole[..whole.len() - 20_000]).unwrap();
        let to = dir.path().join(format);
        let out = export(cut.to_str().unwrap(), format, &to);
        assert_eq!((out.code(), out.stdout.as_str()), (Some(1), ""), "{out:?}");
        let last = out.stderr.lines().last().unwrap();
        assert!(last.contains("is truncated") && last.contains(" have been exported"), "{last}");
        assert!(!last.contains(" 0 "), "{last}");
        assert!(to.exists());
        // Nothing but a header.
        fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
        let to = dir.path().join(format!("{format}.empty"));
        let out = export(cut.to_str().unwrap(), format, &to);
        assert_eq!(out.code(), Some(1), "{out:?}");
        assert!(out.stderr.contains("; 0 "), "{out:?}");
        assert!(to.exists());
        // No recording at all.
        fs::write(&cut, &whole[..100]).unwrap();
        let to = dir.path().join(format!("{format}.none"));
        let out = export(cut.to_str().unwrap(), format, &to);
        assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
        assert!(!to.exists());
    }
}

#[test]
fn an_array_can_be_chosen_for_fio_only() {
    let chosen = |format: &str, name: &str| {
        raidtrace(&["export", DEMO, "-f", format, "--array", name, "-o", "-"])
    };
    let out = chosen("fio", "md127");
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert_eq!(out.stdout, raidtrace(&["export", DEMO, "-f", "fio", "-o", "-"]).stdout);
    let out = chosen("fio", "md1");
    assert_eq!((out.code(), out.stdout.as_str()), (Some(1), ""));
    assert!(out.stderr.contains("no array md1; it has md127"), "{out:?}");
    let out = chosen("perfetto", "md127");
    assert_eq!(out.code(), Some(2), "{out:?}");
}

#[test]
fn a_period_is_exported() {
    let count = |format: &str, more: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("out");
        let all = ["export", DEMO, "-f", format, "-o", to.to_str().unwrap()];
        let out = raidtrace(&[&all[..], more].concat());
        assert_eq!(out.code(), Some(0), "{out:?}");
        let numbers = out.stderr.lines().rev().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words.get(1)?.parse::<u64>().ok()
        });
        numbers.unwrap()
    };
    for format in ["perfetto", "fio"] {
        let parts = [
            count(format, &["--to", "+10"]),
            count(format, &["--from", "+10", "--to", "+30"]),
            count(format, &["--from", "+30"]),
        ];
        assert!(parts.iter().all(|n| *n > 0), "{format}: {parts:?}");
        assert_eq!(parts.iter().sum::<u64>(), count(format, &[]), "{format}");
    }
    for (format, from, code) in [("csv", "+1", 2), ("fio", "noon", 1)] {
        let out = raidtrace(&["export", DEMO, "-f", format, "--from", from, "-o", "-"]);
        assert_eq!((out.code(), out.stdout.as_str()), (Some(code), ""), "{out:?}");
    }
}
