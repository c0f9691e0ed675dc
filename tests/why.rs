//! `raidtrace why`: its answer and exit status, live on a loop device and from a recording.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Loop, MIB, memory, raidtrace, tracing};
use serde_json::Value;

/// Recording that `demo` shows, from before recordings had verdicts.
const DEMO: &[u8] = include_bytes!("../src/commands/top/replay/demo.rtrace");

#[test]
fn wrong_usage_says_what_is_wrong() {
    let file = tempfile::tempdir().unwrap().path().join("none.rtrace");
    let out = raidtrace(&["why", "--replay", file.to_str().unwrap()]);
    assert_eq!(out.code(), Some(1));
    assert!(out.stderr.contains("none.rtrace"), "{out:?}");
    let out = raidtrace(&["why", "--from", "1m"]);
    assert_eq!(out.code(), Some(2));
    let out = raidtrace(&["why", "--replay", "x", "md0"]);
    assert_eq!(out.code(), Some(2));
}

#[test]
fn a_recording_without_facts_has_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.rtrace");
    fs::write(&file, DEMO).unwrap();
    let out = raidtrace(&["why", "--replay", file.to_str().unwrap()]);
    assert_eq!(out.code(), Some(1));
    assert!(out.stderr.contains("has no verdicts"), "{out:?}");
    assert!(out.stderr.contains("raidtrace report"), "{out:?}");
}

/// The rest may have been slow.
#[test]
fn a_cut_recording_is_not_fast() {
    let whole = fs::read("tests/incidents/recorded/slow-raid1.rtrace").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.rtrace");
    let why = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        raidtrace(&["why", "--replay", file.to_str().unwrap()])
    };
    assert_eq!(why(&whole).code(), Some(3));
    let out = why(&whole[..60_000]);
    assert_eq!((out.code(), &out.stdout[..]), (Some(1), ""), "{out:?}");
    assert!(out.stderr.contains("nothing is slow in what can be read"), "{out:?}");
}

/// Without load, live and in a recording.
#[test]
fn an_idle_disk_is_fast() {
    if !tracing() {
        return;
    }
    let (disk, folder) = (Loop::ext4(32 * MIB, &["-b", "4096"]), memory());
    let out = raidtrace(&["why", &disk.name, "-d", "3s"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stdout.starts_with(&format!("FAST  {} ", disk.name)), "{out:?}");
    assert!(out.stdout.lines().count() <= 10);
    let out = raidtrace(&["why", &disk.name, "-d", "2s", "--json"]);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(answer["schema"], "raidtrace.why/1");
    assert_eq!(answer["severity"], "none");
    assert_eq!(answer["cause"]["kind"], "none");
    let file = folder.path().join("a.rtrace");
    let name = file.to_str().unwrap();
    let out = raidtrace(&["record", &disk.name, "-o", name, "-d", "3s"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(Path::new(name).exists());
    let out = raidtrace(&["why", "--replay", name]);
    assert_eq!((out.code(), &out.stdout[..4]), (Some(0), "FAST"), "{out:?}");
}
