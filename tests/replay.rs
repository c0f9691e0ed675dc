//! Commands that read recordings: `top --replay`, `report`, `export`, `demo`, on complete,
//! truncated and damaged files. Needs no root.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Output, python, raidtrace, run, skipped, tool};
use serde_json::Value;

/// A recording of 39 s.
const DEMO: &[u8] = include_bytes!("../src/commands/top/replay/demo.rtrace");

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Asserts status 1, one error line with these words, and nothing on stdout.
fn fails(out: &Output, says: &[&str]) {
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert_eq!(out.stdout, "", "{out:?}");
    assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
    for word in says {
        assert!(out.stderr.contains(word), "{word}: {out:?}");
    }
}

type Sums = BTreeMap<(String, String), (u64, u64)>;

/// Requests and bytes by member and origin, from the output of `top --json` or `report --json`.
fn sums(lines: &str) -> Sums {
    let mut sums = Sums::new();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        for array in value["arrays"].as_array().unwrap() {
            for member in array["members"].as_array().unwrap() {
                for io in member["io"].as_array().unwrap() {
                    let name = |v: &Value| v.as_str().unwrap().to_owned();
                    let sum = sums.entry((name(&member["name"]), name(&io["origin"]))).or_default();
                    sum.0 += io["requests"].as_u64().unwrap();
                    sum.1 += io["bytes"].as_u64().unwrap();
                }
            }
        }
    }
    sums
}

fn report(file: &str) -> String {
    let out = raidtrace(&["report", file, "--json"]);
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    out.stdout
}

/// Each demo begins calm and then has the same verdict as `why`.
#[test]
fn demos_are_incidents() {
    let out = raidtrace(&["demo", "--list"]);
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    let names: Vec<&str> = out.stdout.lines().filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!((names.len(), names[0]), (10, "bitmaps-3-of-12"));
    let files = fs::read_dir("src/commands/top/replay/demo").unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 600 << 10, "{bytes} bytes in the binary");
    for name in names {
        let out = raidtrace(&["demo", name, "--json"]);
        assert_eq!(out.code(), Some(0), "{name}: {out:?}");
        let lines: Vec<Value> = common::json(&out.stdout);
        assert!((12..=16).contains(&lines.len()), "{name}: {} seconds", lines.len());
        assert_eq!(lines[0]["schema"], "raidtrace.top/1");
        let severity = |line: &Value| {
            let arrays = line["arrays"].as_array().unwrap();
            arrays.iter().any(|a| a["verdict"]["severity"] != "none")
        };
        assert!(!severity(&lines[1]), "{name} begins calm");
        assert!(lines[8..].iter().any(severity), "{name} becomes slow");
    }
}

#[test]
fn a_demo_as_text() {
    let out = raidtrace(&["demo", "--batch"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stdout.contains("md0 raid0, 12 disks, 512 KiB chunk"), "{}", out.stdout);
    let first = raidtrace(&["demo", "bitmaps-3-of-12", "--batch"]);
    assert_eq!(first.stdout, out.stdout);
    let unknown = raidtrace(&["demo", "btrfs"]);
    assert_eq!(unknown.code(), Some(2));
    assert!(unknown.stderr.contains("possible values: bitmaps-3-of-12, "), "{}", unknown.stderr);
}

#[test]
fn replay_and_report_have_the_same_figures() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let whole = sums(&report(&file));
    for interval in ["0.3", "1", "7"] {
        let out = raidtrace(&["top", "--replay", &file, "--json", "-i", interval]);
        assert_eq!(out.code(), Some(0), "{out:?}");
        assert_eq!(sums(&out.stdout), whole, "-i {interval}");
    }
    let three = raidtrace(&["top", "--replay", &file, "--json", "-n", "3"]);
    assert_eq!(three.stdout.lines().count(), 3);
}

#[test]
fn a_report_is_legible() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let out = raidtrace(&["report", &file]);
    assert_eq!((out.code(), out.stderr.as_str()), (Some(0), ""));
    assert!(out.stdout.lines().all(|l| l.chars().count() <= 80), "{}", out.stdout);
    insta::assert_snapshot!("report", out.stdout);
    let value: Value = serde_json::from_str(&report(&file)).unwrap();
    assert_eq!(value["schema"], "raidtrace.report/1");
    assert_eq!(value["complete"], true);
    let array = &value["arrays"][0];
    assert_eq!(array["hotspot"]["kind"], "uneven");
    let sizes = array["sizes"].as_array().unwrap();
    let requests: u64 = sizes.iter().map(|s| s["requests"].as_u64().unwrap()).sum();
    assert_eq!(Some(requests), value["requests"].as_u64());
    let io = array["members"].as_array().unwrap().iter().flat_map(|m| m["io"].as_array().unwrap());
    let counted: u64 = io.map(|c| c["requests"].as_u64().unwrap()).sum();
    assert_eq!(counted, requests);
}

#[test]
fn two_recordings_are_compared() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let against = |options: &[&str]| {
        let all = [&["report", &file, "--against", &file], options].concat();
        raidtrace(&all)
    };
    let text = against(&["--from", "+20", "--against-to", "+20"]);
    assert_eq!((text.code(), text.stderr.as_str()), (Some(0), ""));
    let out = &text.stdout;
    assert!(out.lines().all(|l| l.chars().count() <= 80), "{out}");
    assert!(out.contains("false discovery rate"), "{out}");
    // The same input gives the same output.
    let again = against(&["--from", "+20", "--against-to", "+20"]);
    assert_eq!(again.stdout, text.stdout);
    let json = against(&["--json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["schema"], "raidtrace.report-against/1");
    assert_eq!(value["method"]["different"], 0);
    assert!(value["notes"][0].as_str().unwrap().contains("same recording"));
    let page = against(&["--html", "-"]);
    assert_eq!(page.code(), Some(0), "{page:?}");
    assert!(page.stdout.starts_with("<!DOCTYPE html>"), "{page:?}");
    fails(&against(&["--pair", "md0=md127"]), &["BEFORE has no array md0", "md127"]);
    fails(&against(&["--against-from", "+4000"]), &["nothing was recorded"]);
    let cut = folder.file("cut.rtrace", &DEMO[..DEMO.len() - 4000]);
    let out = raidtrace(&["report", &file, "--against", &cut]);
    assert!(out.stdout.contains("- BEFORE: the recording is truncated"), "{out:?}");
    let missing = raidtrace(&["report", &file, "--against", "/nonexistent"]);
    fails(&missing, &["/nonexistent"]);
    for wrong in [&["--pair", "md0="][..], &["--json", "--html", "-"]] {
        assert_eq!(against(wrong).code(), Some(2), "{wrong:?}");
    }
    let alone = raidtrace(&["report", &file, "--pair", "md0=md1"]);
    assert_eq!(alone.code(), Some(2), "{alone:?}");
}

#[test]
fn from_and_to_select_a_period() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let part = |arguments: &[&str]| {
        let out = raidtrace(&[&["report", &file, "--json"], arguments].concat());
        assert_eq!(out.code(), Some(0), "{out:?}");
        let value: Value = serde_json::from_str(&out.stdout).unwrap();
        value["requests"].as_u64().unwrap()
    };
    let all = part(&[]);
    let first = part(&["--to", "+9"]);
    assert!(first > 0 && first < all);
    assert_eq!(first + part(&["--from", "+9"]), all);
    assert_eq!(part(&["--from", "+2", "--to", "+9"]) + part(&["--to", "+2"]), first);
    fails(
        &raidtrace(&["report", &file, "--from", "+9000"]),
        &["nothing was recorded in that period", "the recording covers 20"],
    );
    fails(
        &raidtrace(&["report", &file, "--from", "+9", "--to", "+8"]),
        &["--from must be before --to"],
    );
    fails(
        &raidtrace(&["report", &file, "--from", "noon"]),
        &["'noon' is not a time", "11:47 (local)", "+30"],
    );
}

/// By member: requests counted by the kernel, and busy microseconds.
/// A replay of a period has the intervals of the whole replay, which its verdicts compare with.
#[test]
fn a_replay_has_a_period() {
    let dir = Folder::new();
    let file = dir.file("demo.rtrace", DEMO);
    let replay =
        |options: &[&str]| raidtrace(&[&["top", "--replay", &file, "--json"], options].concat());
    let whole = replay(&[]).stdout;
    let all: Vec<&str> = whole.lines().collect();
    assert!(all.len() > 6, "{}", all.len());
    let part = replay(&["--from", "+2.5", "--to", "+4.5"]);
    assert_eq!(part.code(), Some(0), "{part:?}");
    let some: Vec<&str> = part.stdout.lines().collect();
    let first = all.iter().position(|line| *line == some[0]).expect("the same interval");
    assert!(first > 0 && (2..=4).contains(&some.len()), "{first}, {}", some.len());
    assert_eq!(some[..], all[first..first + some.len()]);
    let text = raidtrace(&["top", "--replay", &file, "--batch", "--from", "-3"]).stdout;
    assert!(text.contains("total, since"), "{text}");
    fails(&replay(&["--from", "+1000"]), &["the recording covers 20"]);
    fails(&replay(&["--to", "2001-01-01T00:00:00Z"]), &["is before the recording"]);
    fails(&replay(&["--from", "+4", "--to", "+2"]), &["must be before"]);
}

type Disks = BTreeMap<String, (u64, i64)>;

fn disks(lines: &str) -> Disks {
    let mut disks = Disks::new();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let us = value["interval_s"].as_f64().unwrap() * 1e6;
        for member in value["arrays"][0]["members"].as_array().unwrap() {
            let (name, disk) = (member["name"].as_str().unwrap(), &member["disk"]);
            let sum = disks.entry(name.to_owned()).or_default();
            sum.0 += disk["requests"].as_u64().unwrap();
            sum.1 += (disk["utilisation"].as_f64().unwrap() * us).round() as i64;
        }
    }
    disks
}

#[test]
fn every_interval_has_its_own_utilisation_and_the_kernels_requests() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let part = |arguments: &[&str]| {
        let out = raidtrace(&[&["report", &file, "--json"], arguments].concat());
        assert_eq!(out.code(), Some(0), "{out:?}");
        out.stdout
    };
    let whole = disks(&part(&[]));
    assert_eq!(whole["loop1"].0, 977, "as between the first state and the last");
    let near = |some: &Disks| {
        assert_eq!(some.len(), whole.len());
        for (name, (requests, busy)) in &whole {
            let sum = some[name];
            assert_eq!(sum.0, *requests, "{name}");
            // JSON has six decimals.
            assert!((sum.1 - busy).abs() < 2000, "{name}: {} {busy}", sum.1);
        }
    };
    let cuts = ["+0.1", "+0.9", "+1", "+1.1", "+3", "+7.77", "+31"];
    let mut windows = part(&["--to", cuts[0]]);
    for pair in cuts.windows(2) {
        let lines = part(&["--from", pair[0], "--to", pair[1]]);
        for (member, sum) in disks(&lines) {
            let own: u64 =
                sums(&lines).iter().filter(|(k, _)| k.0 == member).map(|(_, s)| s.0).sum();
            assert_eq!(sum.1 > 0, own > 0, "{member} {pair:?}: {sum:?}, {own} requests");
        }
        windows += &lines;
    }
    windows += &part(&["--from", cuts[cuts.len() - 1]]);
    near(&disks(&windows));
    for interval in ["0.1", "0.5", "1", "7"] {
        let out = raidtrace(&["top", "--replay", &file, "--json", "-i", interval]);
        near(&disks(&out.stdout));
    }
}

#[test]
fn a_report_has_a_timeline() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let value: Value = serde_json::from_str(&report(&file)).unwrap();
    let intervals = value["timeline"].as_array().unwrap();
    assert!((20..=48).contains(&intervals.len()), "{}", intervals.len());
    assert_eq!(intervals[0]["from"], value["from"]);
    assert_eq!(intervals[intervals.len() - 1]["to"], value["to"]);
    let adjoin = |pair: &[Value]| pair[0]["to"] == pair[1]["from"];
    assert!(intervals.windows(2).all(adjoin));
    let lines: Vec<String> = intervals.iter().map(Value::to_string).collect();
    assert_eq!(sums(&lines.join("\n")), sums(&report(&file)));
    let (parts, whole) = (disks(&lines.join("\n")), disks(&report(&file)));
    for (name, (requests, busy)) in whole {
        assert_eq!(parts[&name].0, requests);
        assert!((parts[&name].1 - busy).abs() < 2000);
    }
}

#[test]
fn times_are_parsed_as_local_time() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO); // 09:11:59.024 to 09:12:38.135
    let at = |zone: &str, arguments: &[&str]| {
        let arguments = [&["report", &file], arguments].concat();
        run(Command::new(common::EXE).args(arguments).env("TZ", zone))
    };
    let from = |zone: &str, text: &str| {
        let out = at(zone, &["--json", "--from", text]);
        assert_eq!(out.code(), Some(0), "{out:?}");
        let value: Value = serde_json::from_str(&out.stdout).unwrap();
        value["from"].as_str().unwrap().to_owned()
    };
    let (start, twelve) = ("2026-11-21T09:11:59.024239Z", "2026-11-21T09:12:00.000000Z");
    for (zone, text, is) in [
        ("UTC", "09:11", start),
        ("UTC", "09:11:30", start),
        ("UTC", "09:12", twelve),
        ("<+03>-3", "12:11", start),
        ("<+03>-3", "12:12", twelve),
        ("<+03>-3", "09:12Z", twelve),
        ("<+03>-3", "2026-11-21 12:12", twelve),
        ("UTC", "2026-11-21 09:12", twelve),
        ("UTC", "+0.975761", twelve),
    ] {
        assert_eq!(from(zone, text), is, "{zone} {text}");
    }
    fails(&at("UTC", &["--from", "09:13"]), &["nothing was recorded in that period"]);
    fails(&at("UTC", &["--to", "09:10"]), &["09:10 is before the recording", "09:11:59"]);
    fails(&at("<+03>-3", &["--from", "09:12"]), &["09:12 is local time", "09:12Z (UTC) is"]);
    let out = at("<+03>-3", &["--from=-8.135"]);
    assert!(out.stdout.contains("local 2026-11-21 12:12:"), "{}", out.stdout);
    let value: Value = serde_json::from_str(&at("<+03>-3", &["--json"]).stdout).unwrap();
    assert_eq!(value["local"]["from"], "2026-11-21T12:11:59.024239+03:00");
}

#[test]
fn other_files_are_rejected() {
    let folder = Folder::new();
    let (empty, other) = (folder.file("empty", b""), folder.file("other", &[7; 1000]));
    let newer = DEMO.to_vec();
    let at = newer.windows(6).position(|w| w == b"\x01\0\0\x001\0");
    let mut newer = newer;
    newer[at.unwrap() + 4] = b'2';
    let newer = folder.file("newer", &newer);
    let none = folder.path("none").display().to_string();
    let header = folder.file("header", &DEMO[..DEMO.len().min(70_000)]);
    for command in
        [&["report"][..], &["top", "--json", "--replay"], &["top", "--batch", "--replay"]]
    {
        let on = |file: &str| raidtrace(&[command, &[file]].concat());
        fails(&on(&empty), &["empty", "the recorder ended before it wrote the header"]);
        fails(&on(&other), &["other", "not a raidtrace recording"]);
        fails(&on(&newer), &["newer", "schema 2", "use a newer one"]);
        fails(&on(&none), &["none", "No such file"]);
        assert!(on(&header).code().is_some());
    }
}

#[test]
fn a_truncated_or_damaged_file_is_read_up_to_the_damage() {
    let folder = Folder::new();
    let whole = folder.file("whole", DEMO);
    let cut = folder.file("cut", &DEMO[..DEMO.len() * 9 / 10]);
    let mut damaged = DEMO.to_vec();
    let middle = damaged.len() * 4 / 5;
    damaged[middle..middle + 3000].fill(0x55);
    let damaged = folder.file("damaged", &damaged);
    for (file, says) in
        [(&cut, "the recording is truncated"), (&damaged, "the recording is damaged")]
    {
        let value: Value = serde_json::from_str(&report(file)).unwrap();
        assert_eq!(value["complete"], false);
        assert!(value["ending"].as_str().unwrap().contains(says), "{}", value["ending"]);
        let (part, all) = (sums(&report(file)), sums(&report(&whole)));
        assert!(all.len() > 20 && !part.is_empty());
        assert!(part.iter().all(|(key, sum)| sum.1 <= all[key].1));
        let out = raidtrace(&["report", file]);
        assert!(out.stdout.contains(&format!("! {says}")), "{}", out.stdout);
        let out = raidtrace(&["top", "--replay", file, "--json"]);
        assert_eq!(out.code(), Some(0));
        assert!(out.stderr.contains(says), "{}", out.stderr);
        assert_eq!(sums(&out.stdout), part);
    }
}

#[test]
fn parts_beside_a_file_are_noted_and_read_by_their_own_name() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let plain = report(&file);
    let same = folder.file("a.rtrace.0003.part", DEMO);
    assert_eq!(report(&file), plain, "the same recording");
    // Another recording.
    let mut other = DEMO.to_vec();
    let key = b"\"started\":\"";
    let at = other.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    other[at..at + 4].copy_from_slice(b"2031");
    let first = folder.file("a.rtrace.0002.part", &other);
    let says = "2 parts of another recording, started at 2031-";
    let value: Value = serde_json::from_str(&report(&file)).unwrap();
    let notes = value["notes"].to_string();
    assert!(notes.contains(says) && notes.contains(&first), "{notes}");
    assert_eq!(sums(&report(&file)), sums(&plain));
    let out = raidtrace(&["top", "--replay", &file, "--json"]);
    assert_eq!(out.stderr.matches(says).count(), 1, "{}", out.stderr);
    let out = raidtrace(&["export", &file, "-f", "csv", "-o", "-"]);
    assert!(out.stderr.contains(says), "{}", out.stderr);
    let requests = |file: &str| {
        let value: Value = serde_json::from_str(&report(file)).unwrap();
        assert_eq!(value["notes"].to_string().matches("beside").count(), 0);
        value["requests"].as_u64().unwrap()
    };
    assert_eq!(requests(&first), 2 * requests(&same));
}

/// True if the binary was built with `export`, which is Parquet.
fn exports() -> bool {
    let there = cfg!(feature = "export");
    if !there {
        let out = raidtrace(&["export", "x", "-f", "parquet", "-o", "y"]);
        fails(&out, &["built without Parquet"]);
    }
    there
}

#[test]
fn csv_and_ndjson_have_the_sums_of_the_report() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let whole = sums(&report(&file));
    let to = |format: &str| {
        let out = folder.path(format).display().to_string();
        let arguments = ["export", &file, "-f", format, "-o", &out];
        let first = raidtrace(&arguments);
        assert_eq!((first.code(), first.stdout.as_str()), (Some(0), ""));
        fails(&raidtrace(&arguments), &["already exists", "--force"]);
        let again = raidtrace(&[&arguments[..], &["--force"]].concat());
        assert_eq!(again.code(), Some(0), "{again:?}");
        fs::read_to_string(&out).unwrap()
    };
    let mut json = Sums::new();
    let text = to("ndjson");
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["kind"] == "request" || row["kind"] == "part" {
            let name = |key: &str| row[key].as_str().unwrap().to_owned();
            let sum = json.entry((name("member"), name("origin"))).or_default();
            sum.0 += row["count"].as_u64().unwrap();
            sum.1 += row["bytes"].as_u64().unwrap();
        }
    }
    assert_eq!(json, whole);
    let csv = to("csv");
    let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert_eq!(names.len(), 25);
    let at = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let mut sums = Sums::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if ["request", "part"].contains(&fields[at("kind")]) {
            let key = (fields[at("member")].to_owned(), fields[at("origin")].to_owned());
            let sum = sums.entry(key).or_default();
            sum.0 += fields[at("count")].parse::<u64>().unwrap();
            sum.1 += fields[at("bytes")].parse::<u64>().unwrap();
        }
    }
    assert_eq!(sums, whole);
    let pipe = raidtrace(&["export", &file, "-f", "ndjson", "-o", "-"]);
    assert_eq!(pipe.stdout, text);
    let cut = folder.file("cut", &DEMO[..DEMO.len() / 2]);
    let out = folder.path("part").display().to_string();
    fails(&raidtrace(&["export", &cut, "-f", "csv", "-o", &out]), &["rows"]);
}

#[test]
fn export_overwrites_no_input_and_removes_only_its_own_files() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let to = |file: &str, format: &str, out: &str| {
        raidtrace(&["export", file, "-f", format, "-o", out, "--force"])
    };
    let parquet = exports().then_some("parquet");
    for format in ["csv", "perfetto", "fio"].into_iter().chain(parquet) {
        fails(&to(&file, format, &file), &["is the recording"]);
        assert_eq!(fs::read(&file).unwrap(), DEMO);
    }
    let part = folder.file("b.rtrace.0001.part", DEMO);
    let rotated = folder.path("b.rtrace").display().to_string();
    fails(&to(&rotated, "csv", &part), &["is the recording"]);
    assert_eq!(fs::read(&part).unwrap(), DEMO);
    // A device that is always full. The test creates its own node, because root could remove it.
    let full = folder.path("full").display().to_string();
    let full = if rustix::process::geteuid().is_root() {
        tool("mknod", &[&full, "c", "1", "7"]);
        full.as_str()
    } else {
        "/dev/full"
    };
    fails(&to(&file, "csv", full), &["No space left"]);
    assert!(fs::metadata(full).unwrap().file_type().is_char_device());
    let out = to(&file, "csv", "/dev/stdout");
    assert_eq!((out.code(), out.stderr.is_empty()), (Some(0), false));
    assert_eq!(out.stdout, raidtrace(&["export", &file, "-f", "csv", "-o", "-"]).stdout);
    let said = folder.path(".").display().to_string();
    fails(&to(&file, "csv", &said), &["is a directory"]);
}

/// Bytes and requests by member and origin, from a script that prints a JSON array of rows.
fn rows_printed_by(python: &Path, script: &str, file: &str) -> Sums {
    let out = run(Command::new(python).args(["-c", script, file]));
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    let rows: Vec<(String, String, u64, u64)> = serde_json::from_str(&out.stdout).unwrap();
    let rows = rows.into_iter();
    rows.map(|(member, origin, requests, bytes)| ((member, origin), (requests, bytes))).collect()
}

#[test]
fn duckdb_answers_bytes_by_member_and_origin() {
    if !exports() {
        return;
    }
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let table = folder.path("a.parquet").display().to_string();
    let out = raidtrace(&["export", &file, "-f", "parquet", "-o", &table]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let script = "import duckdb, json, sys
rows = duckdb.sql(f\"\"\"select member, origin, sum(count), sum(bytes) from '{sys.argv[1]}'
    where kind in ('request', 'part') group by all\"\"\").fetchall()
print(json.dumps([[a, b, int(c), int(d)] for a, b, c, d in rows]))";
    assert_eq!(rows_printed_by(&python, script, &table), sums(&report(&file)));
}

#[test]
fn duckdb_answers_the_queries_of_the_docs() {
    if !exports() {
        return;
    }
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Folder::new();
    let recording = root.join("tests/incidents/recorded/postgresql-slow-member.rtrace");
    let table = folder.path("incident.parquet").display().to_string();
    let recording = recording.display().to_string();
    let out = raidtrace(&["export", &recording, "-f", "parquet", "-o", &table]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let script = "import duckdb, json, re, sys
text = open(sys.argv[1]).read()
def answer(sql):
    found = duckdb.sql(sql)
    cells = ([str('' if v is None else v) for v in row] for row in [found.columns, \
    *found.fetchall()])
    return ''.join(' | '.join(row).rstrip() + '\\n' for row in cells)
queries = re.findall(r'```sql\\n(.*?)```\\n```text\\n(.*?)```', text, re.S)
print(json.dumps([[sql, shown, answer(sql)] for sql, shown in queries]))";
    let docs = root.join("docs/queries.md");
    let mut command = Command::new(python);
    command.args(["-c", script]).arg(docs).current_dir(folder.path("."));
    let out = run(&mut command);
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    let queries: Vec<(String, String, String)> = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(queries.len(), 10);
    for (sql, shown, answer) in queries {
        assert_eq!(shown, answer, "{sql}");
    }
}

#[test]
fn pyarrow_polars_and_pandas_read_the_recording_as_it_is() {
    let folder = Folder::new();
    let file = folder.file("a.rtrace", DEMO);
    let whole = sums(&report(&file));
    let read = [
        (
            "pyarrow",
            "import pyarrow as pa; d = pa.ipc.open_stream(f).read_all().select(c).to_pylist()",
        ),
        ("polars", "import polars as pl; d = pl.read_ipc_stream(f).select(c).to_dicts()"),
        (
            "pandas",
            "import pyarrow as pa; d = pa.ipc.open_stream(f).read_pandas()[c].to_dict('records')",
        ),
    ];
    for (module, line) in read {
        let Some(python) = python(module) else {
            skipped(&format!("{module} is not on this machine (tools/setup --lab)"));
            continue;
        };
        let script = format!(
            "import json, sys; f = sys.argv[1]; c = ['kind', 'member', 'origin', 'count', 'bytes']
{line}
s = {{}}
for r in d:
    if r['kind'] in ('request', 'part'):
        a = s.setdefault((r['member'], r['origin']), [0, 0])
        a[0] += int(r['count']); a[1] += int(r['bytes'])
print(json.dumps([[*k, *v] for k, v in s.items()]))"
        );
        assert_eq!(rows_printed_by(&python, &script, &file), whole, "{module}");
    }
}
